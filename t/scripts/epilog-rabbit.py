# SPDX-License-Identifier: LGPL-3.0
"""Be a service for storage near the nodes: unmount, move data, tear down after a job.

    flux python epilog-rabbit.py

It works as flux-coral2's does, with the jobtap plugin epilog-rabbit, but the rabbits
are made up. What is done to a job is in its attribute system.rabbit:

release         when compute nodes go: "each" when it is unmounted, "all" when all
                are, "whole" when all is done (default)
unmount         work on each node: {IDSET: WORK}, or WORK for all
move            data movement, WORK
teardown        WORK
unmount-timeout seconds

WORK is how many seconds it takes, "fail", or "wait": until somebody sends rabbit.tell.
Without a key it takes no time.

After unmount comes move, then teardown. A job that did not start, or has a fatal
exception, skips move. A node that fails to unmount, or is late, is drained, and only
then let go of; the job gets an exception, as it does if move fails. An exception
rabbit-abort ends it all, but for that drain. A drain that is refused is said on
standard error, and the job stays held.

Requests, besides those of the plugin:

rabbit.tell     {"id", "step", "ranks"?, "ok"?}: work that waits is done, or failed
rabbit.status   answers {"jobs": {ID: {"step", "mounted", ...}}, "storage": [ID]}

"storage" says whose the storage is by the scheduler's books: a job's until its final
free.

Output is "ready", and a line for each thing that is done: JOB WHAT. State is in the
KVS. A service that starts asks the job manager which of its actions are outstanding,
and goes on with these jobs. Where it can't be asked (v0.88.0), it goes on with those
in the KVS.
"""

import errno
import json
import sys
import time

import flux
from flux.constants import (
    FLUX_MSGTYPE_REQUEST,
    FLUX_NODEID_ANY,
    FLUX_RPC_STREAMING,
)
from flux.idset import IDset
from flux.job import JobID, job_kvs_lookup, job_raise

NAME = "rabbit-epilog"  # of the epilog action
ABORT = "rabbit-abort"  # type of an exception
KEY = "rabbit-service.state"  # in the KVS
REQUESTS = ("begin", "teardown", "abort", "tell", "status")
NEXT = {"move": "teardown", "teardown": "remove"}


def events_of(handle, jobid):
    """Return a job's events so far."""
    text = job_kvs_lookup(handle, jobid, ["eventlog"])["eventlog"]
    return [json.loads(line) for line in text.splitlines()]


def ranks_of(handle, jobid):
    """Return the ranks of a job's R, none if it has no R."""
    found = job_kvs_lookup(handle, jobid, ["R"])
    ranks = IDset()
    for entry in found["R"]["execution"]["R_lite"] if found else []:
        ranks += entry["rank"]
    return ranks


class Workflow:
    """What is done to one job's storage and mounts.

    ``state`` is what outlives the service.
    """

    def __init__(self, service, jobid, state=None):
        self.service = service
        self.id = jobid
        jobspec = job_kvs_lookup(service.handle, jobid, ["jobspec"])["jobspec"]
        self.settings = jobspec["attributes"]["system"]["rabbit"]
        self.ranks = ranks_of(service.handle, jobid)
        self.timers = []
        self.state = state or {
            "step": "unmount",
            "began": time.time(),
            "mounted": str(self.ranks),
            "skip": False,
            "status": 0,
        }

    @property
    def mounted(self):
        """Ranks that have not unmounted."""
        return IDset(self.state["mounted"])

    @property
    def step(self):
        """What is being done: unmount, move, teardown, or remove."""
        return self.state["step"]

    def change(self, **keys):
        """Change the state, and write it down before anything comes of it."""
        self.state.update(keys)
        self.service.save()

    def log(self, what):
        """Say what was done."""
        print(f"{JobID(self.id).f58} {what}", flush=True)

    # The way through

    def begin(self, started):
        """The job has ended. Without a start there is nothing to unmount."""
        self.log("begins")
        self.change(skip=not started)
        if started:
            self.arm()
        else:
            self.unmounted(self.ranks)

    def resume(self, held):
        """Go on where another service was; it may not have got to say what it knew."""
        self.log(f"goes on with {self.step}")
        if self.step == "remove":
            self.enter("remove")
            return
        self.let_go((self.ranks - self.mounted) & held)
        self.arm()
        began = False
        for event in events_of(self.service.handle, self.id):
            context = event.get("context", {})
            if event["name"] == "epilog-start" and context["description"] == NAME:
                began = True
            if event["name"] == "exception" and context["severity"] == 0 and began:
                self.exception(context["type"])

    def enter(self, step):
        """Begin a step."""
        self.disarm()
        self.change(step=step, began=time.time())
        self.log(step)
        if step == "remove":
            self.service.plugin("remove", id=self.id, status=self.state["status"])
            self.service.forget(self)
        else:
            self.arm()

    def finished(self, step, ranks, ok):
        """Work is done, or failed. If it is not being done, that is old news."""
        if step != self.step:
            return
        if step == "unmount" and ok:
            self.unmounted(ranks)
        elif step == "unmount":
            self.give_up(ranks, "exception", "unmount failed")
        elif ok:
            self.enter(NEXT[step])
        else:
            self.trouble("exception", f"{step} failed")
            self.enter(NEXT[step])

    def unmounted(self, ranks):
        """Some nodes are done with."""
        ranks = ranks & self.mounted
        if ranks:
            self.change(mounted=str(self.mounted - ranks))
            self.log(f"unmounted {ranks}")
        self.let_go(ranks)
        if not self.mounted:
            self.enter("teardown" if self.state["skip"] else "move")

    def let_go(self, ranks):
        """Let go of ranks as the mode has it."""
        mode = self.settings.get("release", "whole")
        if mode == "all":
            ranks = IDset() if self.mounted else self.ranks
        if ranks and mode != "whole":
            status = self.state["status"]
            self.service.plugin("release", id=self.id, ranks=str(ranks), status=status)

    # What goes wrong

    def exception(self, kind):
        """The job got a fatal exception."""
        if kind == ABORT:
            self.drain(self.mounted)
            self.change(status=1)
            self.enter("remove")
            return
        self.change(skip=True)
        if self.step == "move":
            self.enter("teardown")

    def trouble(self, kind, note):
        """Raise a fatal exception. What it asks for has been seen to by now."""
        self.change(skip=True, status=1)
        job_raise(self.service.handle, self.id, kind, 0, note)

    def give_up(self, ranks, kind, note):
        """Nodes can't be cleaned. They are held until nobody can get them."""
        ranks = ranks & self.mounted
        if ranks:
            self.trouble(kind, note)
            self.drain(ranks)
            self.unmounted(ranks)

    def drain(self, ranks):
        """Drain nodes that are still mounted. Raises OSError if that is refused."""
        if ranks:
            payload = {"targets": str(ranks), "mode": "update"}
            payload["reason"] = "failed to unmount"
            self.service.handle.rpc("resource.drain", payload, nodeid=0).get()
            self.log(f"drained {ranks}")

    # Work, which is time that passes

    def work(self, rank):
        """Return the work that the present step is on a rank."""
        work = self.settings.get(self.step, 0)
        if isinstance(work, dict):
            work = next((work[key] for key in work if rank in IDset(key)), 0)
        return work

    def arm(self):
        """Set timers for the work of the present step, as of when it began."""
        if self.step != "unmount":
            self.arm_one(self.work(0), IDset())
            return
        for rank in self.mounted:
            self.arm_one(self.work(rank), IDset(str(rank)))
        if "unmount-timeout" in self.settings:
            self.timer(self.settings["unmount-timeout"], self.late)

    def arm_one(self, work, ranks):
        """Set a timer for a piece of work, unless it waits."""
        step = self.step
        if work == "fail":
            self.timer(0, lambda: self.finished(step, ranks, False))
        elif work != "wait":
            self.timer(work, lambda: self.finished(step, ranks, True))

    def late(self):
        """The time to unmount is over."""
        self.give_up(self.mounted, "rabbit-timeout", "unmount timed out")

    def timer(self, seconds, action):
        """Do something so long after the step began."""
        after = max(0.0, self.state["began"] + seconds - time.time())
        timer = self.service.handle.timer_watcher_create(
            after, lambda *_args: self.service.attempt(action)
        )
        self.timers.append(timer.start())

    def disarm(self):
        """Stop all timers."""
        for timer in self.timers:
            timer.stop()
        self.timers.clear()


class Service:
    """All workflows, and the storage that they are about."""

    def __init__(self, handle):
        self.handle = handle
        self.workflows = {}
        self.storage = set()

    def run(self):
        """Serve until killed."""
        self.handle.service_register("rabbit").get()
        self.watch_frees()
        self.take_up()
        self.watchers = [
            self.handle.msg_watcher_create(
                self.request_cb, FLUX_MSGTYPE_REQUEST, f"rabbit.{name}"
            ).start()
            for name in REQUESTS
        ]
        print("ready", flush=True)
        self.handle.reactor_run()

    def attempt(self, action, *args, **kwargs):
        """Do something; say so if it fails. A job that it fails for stays held."""
        try:
            return action(*args, **kwargs)
        except OSError as exc:
            print(f"rabbit: {exc}", file=sys.stderr, flush=True)
            return None

    def plugin(self, name, **payload):
        """Ask the plugin for something. That it has ended already is no harm."""
        try:
            self.handle.rpc(f"job-manager.epilog-rabbit.{name}", payload).get()
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.EINVAL):
                raise

    def save(self):
        """Write down the state of all workflows."""
        states = {str(one.id): one.state for one in self.workflows.values()}
        flux.kvs.put(self.handle, KEY, states)
        flux.kvs.commit(self.handle)

    def forget(self, workflow):
        """All is done for a job."""
        workflow.disarm()
        del self.workflows[workflow.id]
        self.save()

    # Jobs that another service had, or missed

    def outstanding(self, saved):
        """Return {id: ranks held} for all jobs that wait for this service."""
        try:
            from flux.job.epilog import epilog_list

            jobs = epilog_list(self.handle)
        except (ImportError, OSError):
            return {jobid: ranks_of(self.handle, jobid) for jobid in saved}
        return {
            int(job.id): action.held
            for job in jobs
            for action in job.actions
            if action.description == NAME
        }

    def take_up(self):
        """Go on with jobs that wait for this service."""
        try:
            saved = flux.kvs.get(self.handle, KEY)
        except FileNotFoundError:
            saved = {}
        saved = {int(jobid): state for jobid, state in saved.items()}
        for jobid, held in self.outstanding(saved).items():
            names = [event["name"] for event in events_of(self.handle, jobid)]
            if jobid in saved:
                workflow = Workflow(self, jobid, saved[jobid])
                self.workflows[jobid] = workflow
                if "free" not in names:
                    self.storage.add(jobid)
                self.attempt(workflow.resume, held)
            else:
                self.attempt(self.on_begin, jobid, "start" in names)

    # Storage, which the scheduler gives away

    def watch_frees(self):
        """Look at what the scheduler is sent."""
        request = {
            "typemask": FLUX_MSGTYPE_REQUEST,
            "topic_glob": "sched.free",
            "names": [],
            "full": True,
        }
        frees = self.handle.rpc(
            "module.trace", request, FLUX_NODEID_ANY, FLUX_RPC_STREAMING
        )
        frees.then(self.freed)

    def freed(self, future):
        """The final free takes a job's storage with it. It may be seen twice."""
        payload = future.get()["payload"]
        future.reset()
        jobid = payload["id"]
        if payload["final"] and jobid in self.storage:
            self.storage.remove(jobid)
            workflow = self.workflows.get(jobid)
            during = f"during {workflow.step}" if workflow else "after all"
            print(f"{JobID(jobid).f58} storage goes {during}", flush=True)

    # Requests

    def request_cb(self, _handle, _watcher, msg, _args):
        """Do what is asked for, and answer."""
        name = msg.topic.split(".", 1)[1].replace("-", "_")
        keys = msg.payload if msg.payload_str else {}
        answer = self.attempt(getattr(self, "on_" + name), **keys)
        self.handle.respond(msg, answer or {})

    def on_begin(self, id, started):
        """A job has ended, and is held."""
        if id not in self.workflows:
            self.storage.add(id)
            self.workflows[id] = Workflow(self, id)
            self.workflows[id].begin(started)

    def on_teardown(self, id):
        """A job got a fatal exception. One that has not ended comes here later."""
        if id in self.workflows:
            self.workflows[id].exception("")

    def on_abort(self, id):
        """Somebody lost patience with a job."""
        if id in self.workflows:
            self.workflows[id].exception(ABORT)

    def on_tell(self, id, step, ranks="", ok=True):
        """Work that waited is done, or failed."""
        if id in self.workflows:
            self.workflows[id].finished(step, IDset(ranks), ok)

    def on_status(self):
        """Say what is going on."""
        return {
            "jobs": {JobID(id).f58: one.state for id, one in self.workflows.items()},
            "storage": [JobID(id).f58 for id in self.storage],
        }


def main():
    """Serve."""
    Service(flux.Flux()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
