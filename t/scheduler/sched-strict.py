# SPDX-License-Identifier: LGPL-3.0

"""Scheduler that holds the job manager to its word, for testing.

It keeps books of its own: which job has which cores and GPUs of which rank.
Each hello response and each free (RFC 27) has to agree with them, or it is a
fault.  The pool that it shares with sched-simple checks a free against the
job's allocation, but takes a free of a job that it doesn't know, or one
allocation on top of another, without a word.

One thing is left to the scheduler by RFC 27, and is no fault of the job
manager's: to be told of resources that another job has by now.  That job gets
a scheduler-restart exception.

Load with::

    flux module load sched-strict.py [nopartial] [scheduling] [ready-key=KEY]

``nopartial`` leaves ``partial-ok`` out of hello.  ``scheduling`` puts a key of
this name in R, as Fluxion does.  ``ready-key`` keeps the scheduler between
hello and ready until ``KEY`` is in the KVS.  ``pool-class``, ``queue-depth``
and ``log-level`` are as for any Python scheduler.

``flux module stats sched-strict`` adds, with job ids as decimal strings and
ranks as RFC 22 idsets:

- ``faults``: a text for each fault.
- ``hello``: ``{"id", "ranks"}`` of each hello response, where ``ranks`` is
  what the job has left.
- ``frees``: ``{"id", "ranks", "final"}`` of each free.
"""

import heapq
import os

from flux.idset import IDset
from flux.job import JobID
from flux.kvs import kvs_watch_async
from flux.resource import InfeasibleRequest, InsufficientResources
from flux.scheduler import Scheduler


def resources_of(R):
    """Return what the RFC 20 object R has, as {rank: {"core0", "gpu1", ...}}."""
    result = {}
    for entry in R["execution"]["R_lite"]:
        names = {
            f"{kind}{i}" for kind, ids in entry["children"].items() for i in IDset(ids)
        }
        for rank in IDset(entry["rank"]):
            result.setdefault(rank, set()).update(names)
    return result


def idset_of(ranks):
    """Return an iterable of ranks as an RFC 22 string."""
    result = IDset()
    for rank in ranks:
        result.set(rank)
    return str(result)


class Books:
    """Who has what: {job id: {rank: set of resource names}}."""

    def __init__(self):
        self.jobs = {}

    def conflict(self, resources):
        """Return the id of a job that has some of these resources, or None."""
        for jobid, held in self.jobs.items():
            if any(held.get(rank, set()) & names for rank, names in resources.items()):
                return jobid
        return None

    def give(self, jobid, resources):
        """Give a job resources.  Raises ValueError if it or another has some."""
        other = jobid if jobid in self.jobs else self.conflict(resources)
        if other is not None:
            raise ValueError(
                f"{JobID(jobid).f58} was given what {JobID(other).f58} has"
            )
        self.jobs[jobid] = resources

    def take(self, jobid, resources, final):
        """Take whole ranks back from a job.  Raises ValueError if that is wrong."""
        name = JobID(jobid).f58
        held = self.jobs.get(jobid)
        if held is None:
            raise ValueError(f"free of {name}, which has nothing")
        if not resources:
            raise ValueError(f"free of nothing from {name}")
        for rank, names in resources.items():
            if names != held.get(rank):
                raise ValueError(f"free of rank {rank}, not what {name} has there")
        if final != (len(resources) == len(held)):
            raise ValueError(
                f"free of {name} with final={final} leaves it"
                f" {len(held) - len(resources)} ranks"
            )
        for rank in resources:
            del held[rank]
        if final:
            del self.jobs[jobid]


class StrictScheduler(Scheduler):
    """First come, first served, with books of its own."""

    queue_depth = 8

    def __init__(self, h, *args):
        super().__init__(h, *args)
        self.books = Books()
        self.scheduling = False
        self.ready_key = None
        self.faults = []
        self.hellos = []
        self.frees = []
        for arg in list(self._pending_args):
            if arg == "nopartial":
                self.hello_partial_ok = False
            elif arg == "scheduling":
                self.scheduling = True
            elif arg.startswith("ready-key="):
                self.ready_key = arg[len("ready-key=") :]
            else:
                continue
            self._pending_args.remove(arg)
        self.log.info(f"process {os.getpid()}")

    def fault(self, text):
        """Put a fault on record."""
        self.log.error(f"fault: {text}")
        self.faults.append(text)

    def hello(self, jobid, priority, userid, t_submit, R):
        resources = resources_of(R.to_dict())
        self.hellos.append({"id": str(jobid), "ranks": idset_of(resources)})
        if jobid in self.books.jobs:
            self.fault(f"hello told of {JobID(jobid).f58} twice")
        if not resources:
            self.fault(f"hello told of {JobID(jobid).f58}, which has nothing")
        self.books.give(jobid, resources)
        try:
            super().hello(jobid, priority, userid, t_submit, R)
        except ValueError:
            del self.books.jobs[jobid]
            raise

    def _sched_ready(self):
        if self.ready_key:
            kvs_watch_async(self.handle, self.ready_key, waitcreate=True).get()
        super()._sched_ready()

    def alloc_success(self, msg, R, annotations=None):
        try:
            self.books.give(msg.payload["id"], resources_of(R))
        except ValueError as exc:
            self.fault(str(exc))
        if self.scheduling:
            R = {**R, "scheduling": {"writer": "none"}}
        super().alloc_success(msg, R, annotations)

    def free(self, jobid, R, final=False):
        resources = resources_of(R.to_dict())
        self.frees.append(
            {"id": str(jobid), "ranks": idset_of(resources), "final": final}
        )
        try:
            self.books.take(jobid, resources, final)
        except ValueError as exc:
            self.fault(str(exc))
            return
        super().free(jobid, R, final)

    def schedule(self):
        blocked = False
        while self._queue and not blocked:
            head = self._queue[0]
            try:
                head.request.success(
                    self.resources.alloc(head.jobid, head.resource_request)
                )
            except InfeasibleRequest as exc:
                head.request.deny(str(exc))
            except InsufficientResources:
                blocked = True
            if not blocked:
                heapq.heappop(self._queue)

    def stats_get(self):
        return {
            **super().stats_get(),
            "faults": self.faults,
            "hello": self.hellos,
            "frees": self.frees,
        }


def mod_main(h, *args):
    StrictScheduler(h, *args).run()
