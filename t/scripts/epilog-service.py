# SPDX-License-Identifier: LGPL-3.0
"""Be a service that works on a job's nodes after the job, and lets go of each when done.

    flux python epilog-service.py

It waits for a job with the attribute system.copy-out, and holds it from RUN on. When the job has
ended, it takes one node after the other, lets go of it, and runs a job there before it goes on to
the next: so it can't go on unless a node really goes while the rest is held. It prints a line for
each thing that it did, and ends.
"""

import sys

import flux
import flux.job
from flux.job import EpilogHold, JobID, JobspecV1

NAME = "copy-out"


def events(handle, jobid):
    """Give the names of a job's events as they come."""
    for event in flux.job.event_watch(handle, jobid):
        yield event.name


def find(handle):
    """Return the id of the first job that runs and wants the service."""
    journal = flux.job.JournalConsumer(handle).start()
    wanted = set()
    while True:
        event = journal.poll(timeout=60.0)
        if event.jobspec and NAME in event.jobspec["attributes"]["system"]:
            wanted.add(event.jobid)
        if event.name == "alloc" and event.jobid in wanted:
            journal.stop()
            return JobID(event.jobid)


def run_on(handle, rank):
    """Run a job on a node, and return its id when it is done."""
    jobspec = JobspecV1.from_command(["true"], num_nodes=1, num_tasks=1, exclusive=True)
    jobspec.setattr("system.constraints", {"ranks": [str(rank)]})
    jobid = JobID(flux.job.submit(handle, jobspec))
    for name in events(handle, jobid):
        if name == "clean":
            return jobid
    raise RuntimeError(f"{jobid.f58}: no clean event")


def main():
    """Serve one job."""
    handle = flux.Flux()
    jobid = find(handle)
    with EpilogHold(handle, jobid, NAME) as hold:
        print(f"hold {int(jobid)}", flush=True)
        for name in events(handle, jobid):
            if name == "release":
                break
        (job,) = flux.job.epilog_list(handle, jobid)
        for rank in job.ranks:
            hold.release([rank])
            print(f"release {rank}", flush=True)
            print(f"ran {rank} {int(run_on(handle, rank))}", flush=True)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
