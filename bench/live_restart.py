# SPDX-License-Identifier: LGPL-3.0
"""Restart of a job manager that finds many jobs in their epilog.

One job is really run. Its eventlog, R and jobspec are then written to the KVS under many ids, each
with ranks of its own part of the machine. Nothing but a job manager is loaded while it restarts;
this program asks it for hello (RFC 27) as a scheduler does.
"""

import errno
import json
import time
from typing import Any, Dict, List, Optional

from flux.idset import IDset
from flux.job import JobID
from flux.kvs import KVSTxn
from live_job import Journal, Stream, post, start
from live_machine import children, command, cpu_seconds

NEED_JOB_MANAGER = ("sched-simple", "job-exec", "job-list", "job-ingest", "job-info")
PARTS = 15  # of the machine: jobs take them in turn
COMMIT = 100  # jobs written at a time


def load(handle: Any, own_process: bool) -> None:
    """Load the job manager; it has replayed the KVS when this returns."""
    request = {"path": "job-manager", "args": [], "exec": own_process}
    handle.rpc("module.load", request).get()


def hello() -> int:
    """Ask as a scheduler does which jobs have resources; return their number."""
    stream = Stream("job-manager.sched-hello", {"partial-ok": True})
    count = 0
    while True:
        try:
            stream.next()
        except OSError as exc:
            if exc.errno == errno.ENODATA:
                return count
            raise
        count += 1


def memory(handle: Any) -> int:
    """Restart the job manager as a process; return the bytes that are its own, after hello."""
    load(handle, True)
    hello()
    pid = children(handle, "job-manager")[0]
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = [line.split() for line in file if line.startswith("Private_")]
    command("module", "remove", "job-manager")
    return sum(int(size[1]) for size in sizes) * 1024


def shifted(ranks: str, by: int) -> str:
    """Return an idset with ``by`` added to each id."""
    result = IDset()
    for rank in IDset(ranks):
        result.set(rank + by)
    return str(result)


def run_one(handle: Any, ranks: int, let_go: Optional[str]) -> Dict[str, Any]:
    """Run a job whose action lets go of the ranks ``let_go``; return what the KVS has of it."""
    journal = Journal("release", "partial-free", "clean")
    jobid = start(handle, ranks, journal)
    if let_go is not None:
        post(handle, jobid, "epilog-finish", let_go).get()
        journal.wait(jobid, "partial-free")
    post(handle, jobid, "epilog-finish").get()
    journal.wait(jobid, "clean")
    folder = JobID(jobid).kvs
    log = command("job", "eventlog", "--format=json", str(jobid)).splitlines()
    return {
        "id": jobid,
        "log": [json.loads(line) for line in log][:-3],  # without finish, free and clean
        "R": json.loads(command("kvs", "get", "--raw", f"{folder}.R")),
        "jobspec": command("kvs", "get", "--raw", f"{folder}.jobspec"),
    }


def copy_of(job: Dict[str, Any], by: int, ranks: int) -> Dict[str, str]:
    """Return what the KVS would have of ``job`` if its ranks were higher by ``by``."""
    R = json.loads(json.dumps(job["R"]))
    R["execution"]["R_lite"][0]["rank"] = f"{by}-{by + ranks - 1}"
    R["execution"]["nodelist"] = [f"node[{by}-{by + ranks - 1}]"]
    lines: List[str] = []
    for event in job["log"]:
        context = dict(event.get("context", {}))
        if "ranks" in context and event["name"] != "release":
            context["ranks"] = shifted(context["ranks"], by)
        lines.append(json.dumps({**event, "context": context} if context else event) + "\n")
    return {"eventlog": "".join(lines), "R": json.dumps(R), "jobspec": job["jobspec"]}


def prepare(handle: Any, ranks: int, count: int, let_go: Optional[str]) -> Dict[str, int]:
    """Make ``count`` jobs and leave no job manager. It cannot be undone.

    Returns ``memory``, the bytes of a job manager without them, and ``events`` of one job.
    """
    job = run_one(handle, ranks, let_go)
    for name in (*NEED_JOB_MANAGER, "job-manager"):
        command("module", "remove", "-f", name)
    result = {"memory": memory(handle), "events": len(job["log"])}
    copies = [copy_of(job, part * ranks, ranks) for part in range(PARTS)]
    for first in range(1, count + 1, COMMIT):
        txn = KVSTxn(handle)
        for number in range(first, min(first + COMMIT, count + 1)):
            for key, value in copies[number % PARTS].items():
                txn.put(f"{JobID(job['id'] + number).kvs}.{key}", value, raw=True)
        txn.commit()
    return result


def restart(handle: Any) -> Dict[str, float]:
    """Restart the job manager; return the seconds of ``replay`` and ``hello``, and the ``jobs``.

    ``cpu`` is the CPU seconds of the job manager alone.
    """
    begin = time.monotonic()
    load(handle, False)
    loaded = time.monotonic()
    jobs = hello()
    end = time.monotonic()
    cpu = cpu_seconds(handle)["job-manager"]
    command("module", "remove", "job-manager")
    return {"replay": loaded - begin, "hello": end - loaded, "jobs": jobs, "cpu": cpu}
