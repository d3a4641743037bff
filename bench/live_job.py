# SPDX-License-Identifier: LGPL-3.0
"""Jobs on a live instance: many small ones, and large ones in their epilog.

An epilog action is started by epilog-hold.so, as the jobspec says, when the job ends; its finish
events are posted from here, as a service does it.
"""

import random
import time
from typing import Any, Callable, Dict, List, Optional

import flux
from flux.constants import FLUX_MSGTYPE_REQUEST, FLUX_NODEID_ANY, FLUX_RPC_STREAMING
from flux.idset import IDset
from flux.job import JobspecV1, submit_async
from flux.kvs import KVSTxn
from live_machine import cpu_seconds

ACTION = "copy"
# An event as long as a finish that the job manager writes down and nothing more.
PLAIN = "other-event-x"
LIMIT = 120.0  # seconds to wait for anything


class Stream:
    """Responses of a streaming RPC, one at a time. It ends when this is dropped."""

    def __init__(self, topic: str, payload: Dict[str, Any]) -> None:
        """Send the request, on a connection of its own."""
        self.handle = flux.Flux()
        self.future = self.handle.rpc(topic, payload, FLUX_NODEID_ANY, FLUX_RPC_STREAMING)

    def next(self) -> Dict[str, Any]:
        """Wait for the next response. Raises OSError if none comes."""
        self.future.wait_for(LIMIT)
        response = self.future.get()
        self.future.reset()
        return response


class Journal:
    """Events of the job manager as it posts them, of some names only."""

    def __init__(self, *names: str) -> None:
        """Begin to listen; what active jobs did before is not told."""
        allow = {name: 1 for name in names}
        self.stream = Stream("job-manager.events-journal", {"allow": allow})
        self.todo: List[Dict[str, Any]] = []
        while self.stream.next()["events"]:
            pass

    def next(self) -> Dict[str, Any]:
        """Return the next ``{"id", "name", "timestamp", "context"}``."""
        while not self.todo:
            response = self.stream.next()
            self.todo = [{**event, "id": response["id"]} for event in response["events"]]
        return self.todo.pop(0)

    def wait(self, jobid: int, name: str) -> Dict[str, Any]:
        """Return the next event of that name and job; drop those before it."""
        while True:
            event = self.next()
            if event["id"] == jobid and event["name"] == name:
                return event


class Frees:
    """sched.free requests (RFC 27) as they reach the scheduler.

    Costs every message something, until this is dropped.
    """

    def __init__(self) -> None:
        """Begin to look."""
        request = {
            "typemask": FLUX_MSGTYPE_REQUEST,
            "topic_glob": "sched.free",
            "names": ["sched-simple"],
            "full": True,
        }
        self.stream = Stream("module.trace", request)
        # The broker answers in order: it knows of the request by now.
        self.stream.handle.rpc("attr.get", {"name": "size"}).get()

    def next(self) -> Dict[str, Any]:
        """Return the next ``{"timestamp", "id", "ranks", "final"}``; ranks is an IDset."""
        message = self.stream.next()
        payload = message["payload"]
        ranks = IDset()
        for entry in payload["R"]["execution"]["R_lite"]:
            ranks.add(IDset(entry["rank"]))
        return {
            "timestamp": message["timestamp"],
            "id": payload["id"],
            "ranks": ranks,
            "final": payload["final"],
        }


def jobspec(ranks: int, epilog: bool) -> str:
    """Return the jobspec of a mock job that has ``ranks`` whole ranks."""
    spec = JobspecV1.from_command(["true"], num_tasks=ranks, num_nodes=ranks, cores_per_task=2)
    spec.setattr("system.exec.test.run_duration", "0.001s")
    if epilog:
        spec.setattr("system.epilog-hold", [{"description": ACTION}])
    return spec.dumps()


def run_jobs(handle: Any, count: int) -> Dict[str, float]:
    """Run ``count`` jobs of one core, without epilog.

    Returns ``seconds`` until all are clean, and ``cpu`` seconds of the job manager.
    """
    spec = JobspecV1.from_command(["true"])
    spec.setattr("system.exec.test.run_duration", "0.001s")
    text = spec.dumps()
    journal = Journal("clean")
    before = cpu_seconds(handle)["job-manager"]
    begin = time.monotonic()
    futures = [submit_async(handle, text) for _ in range(count)]
    left = {future.get_id() for future in futures}
    while left:
        left.discard(journal.next()["id"])
    seconds = time.monotonic() - begin
    return {"seconds": seconds, "cpu": cpu_seconds(handle)["job-manager"] - before}


def start(handle: Any, ranks: int, journal: Journal) -> int:
    """Run a job until only its epilog action is left of it; return its id."""
    jobid = submit_async(handle, jobspec(ranks, True)).get_id()
    journal.wait(jobid, "release")
    return int(jobid)


def post(handle: Any, jobid: int, name: str, ranks: Optional[str] = None) -> Any:
    """Post a finish of the action, or an event that looks like one; return the future."""
    context = {"description": ACTION, "status": 0}
    if ranks is not None:
        context["ranks"] = ranks
    request = {"id": jobid, "name": name, "context": context}
    return handle.rpc("job-manager.post-event.post", request)


def post_all(handle: Any, futures: Callable[[], List[Any]]) -> float:
    """Post events from this one client; return the seconds until all are answered."""
    left = 0
    failed: List[OSError] = []

    def answered(future: Any) -> None:
        nonlocal left
        try:
            future.get()
        except OSError as exc:
            failed.append(exc)
        left -= 1
        if left == 0:
            handle.reactor_stop()

    begin = time.monotonic()
    for future in futures():
        left += 1
        future.then(answered)
    handle.reactor_run()
    if failed:
        raise failed[0]
    return time.monotonic() - begin


def wait_for_kvs(handle: Any) -> None:
    """Wait until the KVS has done what it was asked: a long eventlog takes it longer than us."""
    txn = KVSTxn(handle)
    txn.put("bench.done", time.time())
    txn.commit()


def burst(handle: Any, ranks: int, partial: bool, trace: bool = False) -> Dict[str, Any]:
    """Post as many events for a job as it has ranks: partial finishes, or plain events.

    Returns ``seconds`` until the last is answered, ``cpu`` seconds of job manager and scheduler
    until the scheduler has the ranks that go, and the number of ``frees``: one for each
    partial-free event, and the last. With ``trace`` they are counted where they arrive, too:
    RuntimeError if there are more or fewer.
    """
    journal = Journal("release", "partial-free", "free", "clean")
    jobid = start(handle, ranks, journal)
    wait_for_kvs(handle)
    stream = Frees() if trace else None
    name = "epilog-finish" if partial else PLAIN
    before = cpu_seconds(handle)
    seconds = post_all(
        handle, lambda: [post(handle, jobid, name, str(rank)) for rank in range(ranks)]
    )
    if not partial:
        post(handle, jobid, "epilog-finish").get()
    frees = 1
    while journal.next()["name"] != "free":
        frees += 1
    handle.rpc("sched-simple.stats-get").get()  # it answers when it is done with the frees
    after = cpu_seconds(handle)
    if partial:
        post(handle, jobid, "epilog-finish").get()
    journal.wait(jobid, "clean")
    if stream:
        seen = 1
        while not stream.next()["final"]:
            seen += 1
        if seen != frees:
            raise RuntimeError(f"{frees} frees by the eventlog, but {seen} sched.free messages")
    wait_for_kvs(handle)
    return {
        "seconds": seconds,
        "cpu": {key: value - before.get(key, 0.0) for key, value in after.items()},
        "frees": frees,
    }


def last_finish(handle: Any, ranks: int, partial: bool) -> float:
    """Return the seconds from a finish event to the sched.free that it causes."""
    journal = Journal("release", "epilog-finish", "clean")
    jobid = start(handle, ranks, journal)
    frees = Frees()
    post(handle, jobid, "epilog-finish", "0" if partial else None).get()
    finish = journal.wait(jobid, "epilog-finish")
    free = frees.next()
    if partial:
        post(handle, jobid, "epilog-finish").get()
    journal.wait(jobid, "clean")
    return free["timestamp"] - finish["timestamp"]


def move_data(handle: Any, ranks: int, seconds: float) -> Dict[str, float]:
    """A job's data leaves each rank at a time of its own, the last after ``seconds``.

    Returns node-seconds that were free before the last action ended: what the scheduler got
    (``returned``), and what it had got if each rank had gone when its data had (``possible``).
    """
    rng = random.Random(20260923)
    times = sorted(rng.random() * seconds for _ in range(ranks - 1)) + [seconds]
    journal = Journal("release", "epilog-finish", "clean")
    jobid = start(handle, ranks, journal)
    frees = Frees()
    waiting = ranks

    def answered(future: Any) -> None:
        nonlocal waiting
        future.get()
        waiting -= 1
        if waiting == 0:
            handle.reactor_stop()

    def let_go(_handle: Any, watcher: Any, _revents: int, rank: Any) -> None:
        watcher.stop()
        post(handle, jobid, "epilog-finish", str(rank)).then(answered)

    def begin(_handle: Any, watcher: Any, _revents: int, _args: Any) -> None:
        watcher.stop()
        for rank, at in enumerate(times):
            timers.append(handle.timer_watcher_create(at, let_go, args=rank))
            timers[-1].start()

    # A timer counts from when the reactor last woke.
    timers = [handle.timer_watcher_create(0.0, begin)]
    timers[0].start()
    handle.reactor_run()
    post(handle, jobid, "epilog-finish").get()

    finished = [journal.wait(jobid, "epilog-finish")["timestamp"] for _ in range(ranks + 1)]
    end = finished.pop()
    returned = 0.0
    left = ranks
    while left:
        free = frees.next()
        left -= len(free["ranks"])
        returned += len(free["ranks"]) * max(0.0, end - free["timestamp"])
    journal.wait(jobid, "clean")
    return {"returned": returned, "possible": sum(end - at for at in finished)}


def perilog(handle: Any, ranks: int, seconds: float, delay: float) -> Dict[str, Any]:
    """A per-rank epilog whose processes end one after the other, the last after ``seconds``.

    They are mocks of perilog_mock.c, which has to be loaded, with its ``delay``. Returns the
    numbers of ``events`` that the job had after its end and of ``frees``, the ``seconds`` that the
    epilog took, and ``held``, the node-seconds from the start of the epilog to each sched.free.
    """
    names = ("epilog-start", "epilog-finish", "partial-free", "free", "clean")
    journal = Journal(*names)
    spec = JobspecV1.from_command(["true"], num_tasks=ranks, num_nodes=ranks, cores_per_task=2)
    spec.setattr("system.exec.test.run_duration", "0.001s")
    mock = {"ranks": ranks, "seconds": seconds, "delay": delay}
    spec.setattr("system.perilog-mock", mock)
    frees = Frees()
    jobid = submit_async(handle, spec.dumps()).get_id()
    events = [journal.wait(jobid, "epilog-start")]
    while events[-1]["name"] != "clean":
        events.append(journal.next())
    begin = events[0]["timestamp"]
    seen = [frees.next()]
    while not seen[-1]["final"]:
        seen.append(frees.next())
    return {
        "events": len(events),
        "frees": len(seen),
        "seconds": events[-1]["timestamp"] - begin,
        "held": sum(len(free["ranks"]) * (free["timestamp"] - begin) for free in seen),
    }
