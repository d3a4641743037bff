# SPDX-License-Identifier: LGPL-3.0

"""Scheduler t/scheduler/sched-strict.py, killed at a given step, for testing.

Load with::

    flux module load --name=sched-strict epilog-crash.py die=METHOD:WHEN

``METHOD`` is a method of the scheduler, and ``WHEN`` is ``before`` or ``after``
its first call.  What a method sends has been sent when it returns, what it asks
the KVS for may not have been done.  The process gets SIGKILL, so that nothing
of it ends in good order.
"""

import importlib.util
import os
import signal

HERE = os.path.dirname(os.path.abspath(__file__))
STRICT = os.path.join(HERE, "..", "scheduler", "sched-strict.py")


def load(path):
    """Return the module in a file whose name can't be imported."""
    spec = importlib.util.spec_from_file_location("sched_strict", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mortal(method, when):
    """Return a function that calls a method and kills this process."""

    def call(*args, **kwargs):
        if when == "after":
            method(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    return call


class MortalScheduler(load(STRICT).StrictScheduler):
    """A scheduler that dies at a step."""

    def __init__(self, h, *args):
        super().__init__(h, *args)
        for arg in list(self._pending_args):
            if arg.startswith("die="):
                name, when = arg[len("die=") :].split(":")
                setattr(self, name, mortal(getattr(self, name), when))
                self._pending_args.remove(arg)


def mod_main(h, *args):
    """Be the module."""
    MortalScheduler(h, *args).run()
