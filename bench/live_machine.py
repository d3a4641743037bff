# SPDX-License-Identifier: LGPL-3.0
"""The machine that an instance believes it has: ranks that are not there, always up.

The scheduler is sched-simple. Modules and their CPU time are told apart by thread or process.
"""

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List


def command(*words: str) -> str:
    """Run a flux command, and return what it wrote. Raises RuntimeError with what it said."""
    done = subprocess.run(["flux", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"flux {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def prepare(handle: Any, path: str) -> None:
    """Load the jobtap plugin that posts the epilog-start events a jobspec asks for.

    Jobspecs are not validated: the processes that do it end when idle, and start anew at any time.
    """
    command("module", "reload", "-f", "job-ingest", "disable-validator")
    load(handle, path)


def load(handle: Any, plugin: str) -> None:
    """Load a jobtap plugin."""
    handle.rpc("job-manager.jobtap", {"load": plugin}).get()


def make(handle: Any, ranks: int, cores: int = 2) -> None:
    """Replace the resources by ``ranks`` (two or more) ranks of ``cores`` cores."""
    last = ranks - 1
    R = command("R", "encode", f"-r0-{last}", f"-c0-{cores - 1}", f"-Hnode[0-{last}]")
    path = f"{handle.attr_get('rundir')}/R.bench"
    with open(path, "w") as file:
        file.write(R)
    command("module", "remove", "-f", "sched-simple")
    command("module", "reload", "resource", "noverify", "monitor-force-up")
    command("resource", "reload", "-f", path)
    command("module", "load", "sched-simple")


def tasks(pid: int) -> List[int]:
    """Return the threads of a process."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def children(handle: Any, module: str) -> List[int]:
    """Return the processes of a module of the broker."""
    broker = int(handle.attr_get("broker.pid"))
    result = []
    for task in tasks(broker):
        with open(f"/proc/{broker}/task/{task}/children") as file:
            pids = [int(pid) for pid in file.read().split()]
        for pid in pids:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
            if any(Path(word).stem == module for word in words):
                result.append(pid)
    return result


def used(pid: int, task: int) -> float:
    """Return the CPU seconds of a thread."""
    with open(f"/proc/{pid}/task/{task}/schedstat") as file:
        return int(file.read().split()[0]) * 1e-9


def cpu_seconds(handle: Any) -> Dict[str, float]:
    """Return the CPU seconds so far of the job manager and the scheduler, by module."""
    broker = int(handle.attr_get("broker.pid"))
    result = {"job-manager": 0.0, "sched-simple": 0.0}
    for task in tasks(broker):
        with open(f"/proc/{broker}/task/{task}/comm") as file:
            name = file.read().strip()
        if name in result:
            result[name] += used(broker, task)
    for pid in children(handle, "sched-simple"):
        result["sched-simple"] += sum(used(pid, task) for task in tasks(pid))
    return result
