# SPDX-License-Identifier: LGPL-3.0
"""Books of who has which resources, kept from records of what an instance did.

epilog-watch.py makes the records, in the order in which the job manager acted. Books take them
one by one and note each violation of the rules for resources that go back in parts. Works
without Flux.

A record is a dictionary with the key "what", one of:

start        the watch begins: housekeeping, online; events before it are history
event        of a job (RFC 21): id, name, context; with R at "alloc"
alloc        the scheduler's answer (RFC 27): id, R
free         sched.free: id, R, final
hello        the scheduler asks for what it should know: partial_ok
told         one answer to that: id, free (idset, or absent)
ready        the scheduler is ready
offline      the scheduler goes
raise        an exception is asked for: id, type, severity
status       job-manager.resource-status: allocated (R), or error (text)
tasks        housekeeping (dictionary of id as text: idset of ranks it still has), at (s)
end          the watch ends: housekeeping, statuses (how many "status" should be there)

Each record that names a job has "id" (int). R is RFC 20, idsets are RFC 22.
"""

from typing import Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

Units = Dict[int, FrozenSet[Tuple[str, int]]]  # what a set of resources has, by rank

RANKS_MAX = 1 << 20  # more than any job has
LATE = 10.0  # seconds that a free may take from the job manager to these books

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def f58(jobid: int) -> str:
    """Return a job id as people see it (RFC 19)."""
    text = "" if jobid else BASE58[0]
    while jobid:
        jobid, digit = divmod(jobid, 58)
        text = BASE58[digit] + text
    return "f" + text


def decode(text: str) -> Set[int]:
    """Return the ids of an idset (RFC 22). ValueError if it is not one."""
    ids = set()  # type: Set[int]
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    for item in text.split(",") if text else []:
        first, hyphen, last = item.partition("-")
        if not first.isdigit() or (hyphen and not last.isdigit()):
            raise ValueError(text)
        if int(last or first) - int(first) > RANKS_MAX:
            raise ValueError(text)
        ids.update(range(int(first), int(last or first) + 1))
    return ids


def encode(ids: Iterable[int]) -> str:
    """Return the shortest idset (RFC 22) of some ids."""
    runs = []  # type: List[List[int]]
    for one in sorted(ids):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(
        "{}-{}".format(*run) if run[0] < run[1] else str(run[0]) for run in runs
    )


def units_of(R: dict) -> Units:
    """Return what R (RFC 20) has."""
    units = {}  # type: Units
    for entry in R["execution"]["R_lite"]:
        part = frozenset(
            (kind, one)
            for kind, ids in entry["children"].items()
            for one in decode(ids)
        )
        for rank in decode(entry["rank"]):
            units[rank] = units.get(rank, frozenset()) | part
    return units


def cut(units: Units, ranks: Iterable[int]) -> Units:
    """Return the part of some units that is on ranks."""
    return {rank: units[rank] for rank in ranks if rank in units}


def common(a: Units, b: Units) -> Set[int]:
    """Return the ranks on which two sets of resources overlap."""
    return {rank for rank in a if rank in b and a[rank] & b[rank]}


class Action:
    """An epilog action that is outstanding."""

    def __init__(self, description: Optional[str], held: Set[int]) -> None:
        self.description = description
        self.held = held


class Job:
    """What is known of one job."""

    def __init__(self, jobid: int) -> None:
        self.name = f58(jobid)
        self.units = {}  # type: Units
        self.state = "early"  # run, cleanup, inactive
        self.bypass = False
        self.allocated = False  # its alloc event was seen
        self.known = False  # the scheduler counts its resources
        self.dropped = False  # by scheduler-restart
        self.dropping = False  # that was asked for
        self.started = False
        self.exec_done = False
        self.freed = False  # its free event was seen
        self.prologs = 0
        self.actions = []  # type: List[Action]
        self.gone = set()  # type: Set[int]  handed over, by its events
        self.returned = set()  # type: Set[int]  to the scheduler
        self.final = False
        self.in_parts = False  # some of its ranks went before the last
        self.lost = {}  # type: Dict[int, float]  missing since, by the last tasks record

    @property
    def ranks(self) -> Set[int]:
        """All ranks of R."""
        return set(self.units)

    def held(self) -> Set[int]:
        """Ranks that some action holds."""
        return set().union(*(action.held for action in self.actions))

    def out(self) -> Units:
        """What the scheduler counts as the job's."""
        return cut(self.units, self.ranks - self.returned) if self.known else {}

    def find(self, description: Optional[str]) -> Optional[Action]:
        """Return the oldest action with a description."""
        for action in self.actions:
            if action.description == description:
                return action
        return None

    def read_ranks(self, ranks: object) -> Optional[Set[int]]:
        """Return the job's ranks that the value of a "ranks" key names. None if it is bad."""
        if ranks == "all":
            return self.ranks
        try:
            ids = decode(ranks) if isinstance(ranks, str) else None
        except ValueError:
            return None
        return ids if ids is not None and ids <= self.ranks else None


class Books:
    """Take records with add(); ``violations`` has a line for each rule that was broken."""

    def __init__(self) -> None:
        self.violations = []  # type: List[str]
        self.jobs = {}  # type: Dict[int, Job]
        self.began = False
        self.statuses = 0
        self.online = True
        self.partial_ok = True
        self.between = False  # hello and ready
        self.told = set()  # type: Set[int]

    def add(self, record: dict) -> None:
        """Take one record."""
        what = record["what"]
        if self.began or what in ("start", "event"):
            getattr(self, "on_" + what)(record)

    def blame(self, job: Optional[Job], text: str) -> None:
        """Note a violation, unless it is history."""
        if self.began:
            self.violations.append(f"{job.name}: {text}" if job else text)

    def job(self, record: dict) -> Job:
        """Return the job that a record names."""
        return self.jobs.setdefault(record["id"], Job(record["id"]))

    # The watch

    def on_start(self, record: dict) -> None:
        """Take what came before as right: what went is with housekeeping, or back."""
        self.began = True
        self.online = record["online"]
        for jobid, job in self.jobs.items():
            job.known = job.allocated and not job.bypass and not job.dropped
            job.returned = job.gone - decode(record["housekeeping"].get(str(jobid), ""))
            job.final = job.known and job.returned == job.ranks
            if job.state == "cleanup":  # the exec system may have come back without it
                job.exec_done = True

    def on_end(self, record: dict) -> None:
        """Judge what should have come to an end."""
        if not record["statuses"] or record["statuses"] != self.statuses:
            self.blame(None, "resource-status was not answered")
        self.on_tasks(record)
        for jobid, ranks in record["housekeeping"].items():
            self.blame(
                self.job({"id": int(jobid)}), "housekeeping still has ranks " + ranks
            )
        for job in self.jobs.values():
            if job.state != "inactive":
                self.blame(job, "is still active")
            elif self.online and job.known and not job.dropping and not job.final:
                left = encode(job.ranks - job.returned)
                self.blame(job, f"no final free was sent (ranks {left} are out)")

    # Events of a job

    def on_event(self, record: dict) -> None:
        """Take an event by its name; most don't matter."""
        take = getattr(self, "event_" + record["name"].replace("-", "_"), None)
        if take:
            take(self.job(record), record.get("context") or {}, record)

    def event_alloc(self, job: Job, context: dict, record: dict) -> None:
        """The job has resources."""
        job.allocated = True
        job.bypass = bool(context.get("bypass"))
        if record.get("R"):
            job.units = units_of(record["R"])
        if job.state == "early":
            job.state = "run"

    def event_start(self, job: Job, context: dict, record: dict) -> None:
        """The job's tasks run."""
        job.started = True

    def event_release(self, job: Job, context: dict, record: dict) -> None:
        """The exec system let go of resources."""
        job.exec_done = job.exec_done or bool(context.get("final"))

    def event_finish(self, job: Job, context: dict, record: dict) -> None:
        """The job's tasks are done."""
        if job.state == "run":
            job.state = "cleanup"

    def event_exception(self, job: Job, context: dict, record: dict) -> None:
        """A severe one ends the job; scheduler-restart takes its resources away too."""
        if context.get("severity") != 0 or job.state == "inactive":
            return
        job.state = "cleanup"
        if context.get("type") == "scheduler-restart":
            job.dropped = True

    def event_prolog_start(self, job: Job, context: dict, record: dict) -> None:
        """A prolog holds everything."""
        if not job.started or job.exec_done:
            job.prologs += 1

    def event_prolog_finish(self, job: Job, context: dict, record: dict) -> None:
        """A prolog ends."""
        if not job.started or job.exec_done:
            job.prologs = max(0, job.prologs - 1)

    def event_epilog_start(self, job: Job, context: dict, record: dict) -> None:
        """An action holds the ranks that it names; all if it names none, or nonsense."""
        if job.state not in ("run", "cleanup"):
            return
        ids = job.read_ranks(context.get("ranks", "all"))
        if ids is None or (ids & job.gone and context.get("ranks", "all") != "all"):
            ids = job.ranks
        description = context.get("description")
        if not isinstance(description, str):
            description = ""  # what the job manager makes of it
        job.actions.append(Action(description, ids - job.gone))

    def event_epilog_finish(self, job: Job, context: dict, record: dict) -> None:
        """An action lets go of ranks, or ends."""
        if job.state not in ("run", "cleanup"):
            return
        action = job.find(context.get("description"))
        if "ranks" in context:
            ids = job.read_ranks(context["ranks"])
            if action and ids:
                action.held -= ids
            return
        if not action and len(job.actions) == 1:
            action = job.actions[0]
        if action:
            job.actions.remove(action)

    def event_partial_free(self, job: Job, context: dict, record: dict) -> None:
        """Part of the job's ranks was handed over."""
        ids = job.read_ranks(context.get("ranks"))
        if not ids:
            self.blame(job, "partial-free with ranks={!r}".format(context.get("ranks")))
            return
        self.check_handover(job, "partial-free", ids)
        job.in_parts = True
        job.gone |= ids
        if job.gone == job.ranks:
            self.blame(job, "partial-free of the last ranks: that is for free to say")

    def event_free(self, job: Job, context: dict, record: dict) -> None:
        """The last ranks were handed over."""
        if job.freed:
            self.blame(job, "a second free event")
        if not job.bypass:
            self.check_handover(job, "free", job.ranks - job.gone)
        job.freed = True
        job.gone = job.ranks

    def event_clean(self, job: Job, context: dict, record: dict) -> None:
        """Nothing holds the job any more."""
        if job.actions and not job.dropped:
            names = ", ".join(str(action.description) for action in job.actions)
            self.blame(job, "clean while outstanding: " + names)
        if job.allocated and not job.freed and not job.dropped:
            self.blame(job, "clean without free")
        job.state = "inactive"

    def check_handover(self, job: Job, name: str, ids: Set[int]) -> None:
        """May these ranks go now? Only said of what this watch saw."""
        if not self.began:
            return
        for ranks, reason in (
            (ids & job.held(), "an action holds"),
            (ids & job.gone, "went before"),
            (ids if job.prologs else set(), "a prolog holds"),
            (
                ids if job.state not in ("cleanup", "inactive") else set(),
                "a running job has",
            ),
            (
                ids if job.started and not job.exec_done else set(),
                "the exec system has",
            ),
        ):
            if ranks:
                self.blame(job, f"{name} of ranks that {reason}: {encode(ranks)}")

    # The scheduler's traffic

    def on_alloc(self, record: dict) -> None:
        """What the scheduler gives away must be free."""
        job = self.job(record)
        job.units = units_of(record["R"])
        job.known = True
        job.returned = set()
        job.final = False
        for other in self.jobs.values():
            ranks = common(job.units, other.out())
            if other is not job and ranks and not other.dropping:
                self.blame(job, f"alloc of ranks {encode(ranks)} of {other.name}")

    def on_free(self, record: dict) -> None:
        """Each rank goes back once, whole, when nothing holds it, the last with final."""
        job = self.job(record)
        units = units_of(record["R"])
        ids = set(units)
        text = f"sched.free of ranks {encode(ids)}"
        if not job.known:
            self.blame(job, text + ", but the scheduler does not know the job")
            return
        # sent after that was known: an inactive job has no event that says so
        if job.dropped or job.dropping and job.state == "inactive":
            self.blame(job, text + ", but the scheduler dropped the job")
        if self.between:
            self.blame(job, text + " between hello and ready")
        if job.final:
            self.blame(job, text + " after the final free")
        if ids & job.returned:
            self.blame(job, text + ": freed twice: " + encode(ids & job.returned))
        if units != cut(job.units, ids):
            self.blame(job, text + ": not what the job has there")
        if job.allocated:
            self.check_handover(job, "sched.free", ids - job.gone)
        elif job.state not in ("cleanup", "inactive"):
            self.blame(job, text + " before the alloc event")
        # else it was canceled before the answer came, and never had them
        job.returned |= ids
        in_parts = job.in_parts or not ids <= job.gone  # not stock's release-after
        if self.partial_ok is False and ids != job.ranks and in_parts:
            self.blame(job, text + " to a scheduler without partial-ok")
        if record["final"] and job.returned != job.ranks:
            left = encode(job.ranks - job.returned)
            self.blame(job, f"{text} is final, but ranks {left} are out")
        if not record["final"] and job.returned == job.ranks:
            self.blame(job, text + " is the last, but not final")
        job.final = job.final or bool(record["final"])

    def on_hello(self, record: dict) -> None:
        """A scheduler starts."""
        self.online = False
        self.between = True
        self.partial_ok = bool(record["partial_ok"])
        self.told = set()

    def on_told(self, record: dict) -> None:
        """It is told of a job: "free" is what was returned so far."""
        job = self.job(record)
        free = decode(record.get("free") or "")
        if record["id"] in self.told:
            self.blame(job, "hello speaks of it twice")
        self.told.add(record["id"])
        if not job.allocated or job.bypass or job.dropped or job.dropping:
            self.blame(job, "hello speaks of a job without resources")
        if free - job.gone:
            self.blame(
                job, "hello says free, but was not let go: " + encode(free - job.gone)
            )
        if self.partial_ok and job.returned - free:
            self.blame(
                job,
                "hello says allocated, but was freed: " + encode(job.returned - free),
            )
        if free and not self.partial_ok:
            self.blame(job, "hello has a free key without partial-ok")
        if job.final:
            self.blame(job, "hello speaks of it after the final free")
        job.known = True
        job.returned = free

    def on_ready(self, record: dict) -> None:
        """Whoever was left out of hello must have nothing left."""
        self.online = True
        self.between = False
        for jobid, job in self.jobs.items():
            if job.known and jobid not in self.told:
                left = job.ranks - job.gone - job.returned
                if left and not job.dropping and not job.dropped:
                    self.blame(job, "hello forgets ranks " + encode(left))
                job.known = False
                job.returned = job.ranks
                job.final = True

    def on_offline(self, record: dict) -> None:
        """The scheduler goes."""
        self.online = False

    def on_raise(self, record: dict) -> None:
        """The scheduler says that it dropped a job."""
        if record.get("type") == "scheduler-restart" and record.get("severity") == 0:
            self.job(record).dropping = True

    # What the job manager says of itself

    def on_status(self, record: dict) -> None:
        """Ranks that have not gone are allocated; what was returned is not."""
        if "error" in record:
            self.blame(None, "resource-status failed: " + record["error"])
            return
        self.statuses += 1
        allocated = units_of(record["allocated"])
        possible = {}  # type: Units
        for job in self.jobs.values():
            if job.bypass:
                continue
            for rank, units in cut(job.units, job.ranks - job.returned).items():
                possible[rank] = possible.get(rank, frozenset()) | units
            if job.allocated and not job.dropped and not job.dropping:
                must = cut(job.units, job.ranks - job.gone - job.returned)
                for rank, units in must.items():
                    if units - allocated.get(rank, frozenset()):
                        self.blame(job, f"resource-status does not know of rank {rank}")
        for rank, units in allocated.items():
            if units - possible.get(rank, frozenset()):
                self.blame(None, f"resource-status: nobody has rank {rank}")

    def on_tasks(self, record: dict) -> None:
        """What went and is not back must be with housekeeping, or it is lost."""
        if not self.online:
            return
        for jobid, job in self.jobs.items():
            if not job.known or job.dropped or job.dropping:
                continue
            if not self.partial_ok and job.gone != job.ranks:
                continue
            busy = decode(record["housekeeping"].get(str(jobid), ""))
            if not self.partial_ok and busy:
                continue
            missing = job.gone - job.returned - busy
            at = record.get("at", 0.0)
            job.lost = {rank: job.lost.get(rank, at) for rank in missing}
            lost = {rank for rank, since in job.lost.items() if at - since >= LATE}
            if lost:
                self.blame(job, "ranks are lost: " + encode(lost))

    def check_lost(self) -> None:
        """At the end, what the last tasks record did not find must have come back."""
        for job in self.jobs.values():
            lost = set(job.lost) - job.returned
            if lost and job.known and not job.dropped and not job.dropping:
                self.blame(job, "ranks are lost: " + encode(lost))


def check(records: Iterable[dict], active_ok: bool = False) -> List[str]:
    """Return the violations in some records, each once.

    With ``active_ok``, the watch may have been cut off, and jobs may be active at its end.
    """
    books = Books()
    ended = False
    for record in records:
        ended = record["what"] == "end"
        if not (active_ok and ended):
            books.add(record)
    if not books.began:
        books.violations.append("the watch did not begin")
    elif ended:
        books.check_lost()
    elif not active_ok:
        books.violations.append("the watch was cut off")
    return list(dict.fromkeys(books.violations))
