# SPDX-License-Identifier: LGPL-3.0
"""The watcher of the live tests (t/scripts): it passes what is right and catches what is not.

Each record that is wrong stands in a story that is right without it, or with another in its
place, so that a watcher that complains of everything fails here as one that sees nothing.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

SCRIPTS = Path(__file__).parent.parent / "t" / "scripts"
sys.path.insert(0, str(SCRIPTS))

import epilog_books as books  # noqa: E402

Record = Dict[str, Any]


def R(ranks: str, cores: str = "0-1") -> Record:
    """Return an R (RFC 20) with the same cores on each rank."""
    children = {"core": cores}
    return {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": children}]}}


def rec(what: str, jobid: Optional[int] = None, **keys: Any) -> Record:
    """Return a record."""
    record = {"what": what, **keys}
    if jobid is not None:
        record["id"] = jobid
    return record


def ev(name: str, jobid: int = 1, **context: Any) -> Record:
    """Return the record of an event; ``R`` is put where it belongs."""
    record = rec("event", jobid, name=name, context=context)
    if "R" in context:
        record["R"] = context.pop("R")
    return record


def free(ranks: str, final: bool, jobid: int = 1, cores: str = "0-1") -> Record:
    """Return the record of a sched.free."""
    return rec("free", jobid, R=R(ranks, cores), final=final)


def told(jobid: int = 1, ranks: Optional[str] = None) -> Record:
    """Return the record of an answer to hello."""
    return rec("told", jobid, free=ranks)


def alloc(ranks: str, jobid: int = 1, cores: str = "0-1") -> List[Record]:
    """Return what is recorded when the scheduler gives resources to a job."""
    given = R(ranks, cores)
    return [ev("submit", jobid), rec("alloc", jobid, R=given), ev("alloc", jobid, R=given)]


def done(jobid: int = 1) -> List[Record]:
    """Return the events of a job's tasks."""
    return [
        ev("start", jobid),
        ev("finish", jobid, status=0),
        ev("release", jobid, ranks="all", final=True),
    ]


def tasks(at: float = 0.0, **ranks: str) -> Record:
    """Return the record of what housekeeping has, as job1="0-3"."""
    return rec("tasks", housekeeping={key[3:]: value for key, value in ranks.items()}, at=at)


START = rec("start", housekeeping={}, online=True)
HELLO = rec("hello", partial_ok=True)
WHOLE = rec("hello", partial_ok=False)
READY = rec("ready")
RESTART = {"type": "scheduler-restart", "severity": 0}

# A job on 0-3, of which an action holds 0-1; then 2-3 go.
HALF = [
    *alloc("0-3"),
    *done()[:2],
    ev("epilog-start", description="a", ranks="0-1"),
    done()[2],
    free("2-3", False),
    ev("partial-free", ranks="2-3"),
]
# The rest goes.
REST = [
    ev("epilog-finish", description="a", status=0),
    free("0-1", True),
    ev("free"),
    ev("clean"),
]
# The same, with housekeeping in between.
HALF_TASKS = [*HALF[:-2], ev("partial-free", ranks="2-3"), tasks(job1="2-3")]
REST_TASKS = [
    ev("epilog-finish", description="a", status=0),
    ev("free"),
    ev("clean"),
    tasks(job1="0-3"),
    free("2-3", False),
    tasks(job1="0-1"),
    free("0-1", True),
]


def ended(story: List[Record], left: str = "", **ranks: str) -> List[Record]:
    """Return a story with its end, at which these ranks are allocated still."""
    story = [*story, allocated(left)]
    statuses = sum(1 for one in story if "allocated" in one)
    return [*story, {**tasks(**ranks), "what": "end", "statuses": statuses}]


def allocated(ranks: str, cores: str = "0-1") -> Record:
    """Return the record of an answer to resource-status."""
    return rec("status", allocated=R(ranks, cores) if ranks else R("", ""))


RIGHT = {
    "nothing": [],
    "plain job": [*alloc("0-3"), *done(), free("0-3", True), ev("free"), ev("clean")],
    "never ran": [
        *alloc("0-3"),
        ev("exception", type="cancel", severity=0),
        free("0-3", True),
        ev("free"),
        ev("clean"),
    ],
    "canceled before the answer to alloc came": [
        ev("submit"),
        ev("exception", type="cancel", severity=0),
        rec("alloc", 1, R=R("0-3")),
        ev("epilog-start", description="a"),
        free("0-3", True),
        ev("epilog-finish", description="a", status=0),
        ev("clean"),
    ],
    "no resources": [ev("submit"), ev("exception", type="cancel", severity=0), ev("clean")],
    "parts": [*HALF, *REST],
    "parts, asked all along": [
        *HALF[:3],
        allocated("0-3"),
        *HALF[3:],
        allocated("0-1"),
        tasks(),
        *REST,
        allocated(""),
        tasks(),
    ],
    "parts to housekeeping": [*HALF_TASKS, *REST_TASKS],
    "traces that come late": [*HALF_TASKS, tasks(1.0), tasks(2.0), free("2-3", False), *REST],
    "ranks that went are another's": [
        *HALF,
        *alloc("2-3", 2),
        allocated("0-3"),
        *REST,
        *done(2),
        free("2-3", True, 2),
        ev("free", 2),
        ev("clean", 2),
    ],
    "two on a node": [
        *alloc("0", 1, "0"),
        *alloc("0", 2, "1"),
        allocated("0", "0-1"),
        *done(),
        free("0", True, 1, "0"),
        ev("free"),
        ev("clean"),
        allocated("0", "1"),
        *done(2),
        free("0", True, 2, "1"),
        ev("free", 2),
        ev("clean", 2),
    ],
    "partial finish": [
        *HALF,
        ev("epilog-finish", description="a", ranks="0"),
        free("0", False),
        ev("partial-free", ranks="0"),
        ev("epilog-finish", description="a", status=0),
        free("1", True),
        ev("free"),
        ev("clean"),
    ],
    "holds none": [
        *alloc("0-3"),
        *done()[:2],
        ev("epilog-start", description="a", ranks=""),
        done()[2],
        free("0-3", True),
        ev("free"),
        ev("epilog-finish", description="a", status=0),
        ev("clean"),
    ],
    "finish by another name": [
        *HALF,
        ev("epilog-finish", nmae="a", status=0),
        *REST[1:],
    ],
    "reload": [*HALF, rec("offline"), HELLO, told(1, "2-3"), READY, tasks(), *REST],
    "reload, back while away": [
        *HALF_TASKS,
        rec("offline"),
        tasks(),
        HELLO,
        told(1, "2-3"),
        READY,
        tasks(),
        *REST,
    ],
    "reload, ended while away": [
        *HALF,
        rec("offline"),
        REST[0],
        *REST[2:],
        HELLO,
        READY,
        tasks(),
    ],
    "reload without partial-ok": [
        *HALF,
        rec("offline"),
        WHOLE,
        told(1),
        READY,
        tasks(),
        REST[0],
        free("0-3", True),
        *REST[2:],
    ],
    "dropped": [
        *HALF,
        *alloc("2", 2),
        rec("offline"),
        WHOLE,
        told(2),
        told(1),
        rec("raise", 1, **RESTART),
        READY,
        ev("exception", **RESTART),
        REST[0],
        ev("clean"),
        *done(2),
        free("2", True, 2),
        ev("free", 2),
        ev("clean", 2),
    ],
    "dropped while a free was on its way": [
        *HALF_TASKS,
        rec("raise", 1, **RESTART),
        free("2", False),
        ev("exception", **RESTART),
        REST[0],
        ev("clean"),
        tasks(),
    ],
    "bypass": [
        ev("submit"),
        ev("alloc", R=R("0-3"), bypass=True),
        *done(),
        ev("free"),
        ev("clean"),
        allocated(""),
    ],
    "canceled prolog": [
        *alloc("0-3"),
        ev("prolog-start", description="p"),
        ev("exception", type="cancel", severity=0),
        ev("prolog-finish", description="p"),
        free("0-3", True),
        ev("free"),
        ev("clean"),
    ],
}

# What is wrong: the story, and what the watcher says of it.
WRONG = {
    "freed twice": ([*HALF, free("2-3", False), *REST], "freed twice: 2-3"),
    "freed while held": (
        [*HALF[:-2], free("1-3", False), ev("partial-free", ranks="2-3"), *REST],
        "sched.free of ranks that an action holds: 1",
    ),
    "handed over while held": (
        [*HALF_TASKS[:-2], ev("partial-free", ranks="1-3"), *REST_TASKS],
        "partial-free of ranks that an action holds: 1",
    ),
    "all handed over while held": (
        [*HALF_TASKS, ev("free"), REST[0], ev("clean"), *REST_TASKS[3:]],
        "free of ranks that an action holds: 0-1",
    ),
    "handed over twice": (
        [*HALF_TASKS, ev("partial-free", ranks="2"), *REST_TASKS],
        "partial-free of ranks that went before: 2",
    ),
    "freed in RUN": ([*alloc("0-3"), free("0-3", True)], "that a running job has: 0-3"),
    "freed before the alloc event": (
        [ev("submit"), rec("alloc", 1, R=R("0-3")), free("0-3", True)],
        "sched.free of ranks 0-3 before the alloc event",
    ),
    "freed before the exec system is done": (
        [*alloc("0-3"), *done()[:2], free("0-3", True)],
        "that the exec system has: 0-3",
    ),
    "freed under a prolog": (
        [
            *alloc("0-3"),
            ev("prolog-start", description="p"),
            ev("exception", type="cancel", severity=0),
            free("0-3", True),
        ],
        "that a prolog holds: 0-3",
    ),
    "lost": ([*HALF_TASKS, tasks(1.0), tasks(11.0), *REST], "ranks are lost: 2-3"),
    "lost at the end": ([*HALF, REST[0], *REST[2:]], "ranks are lost: 0-1"),
    "not freed at the end": (
        [*HALF, rec("offline"), HELLO, told(1, "2-3"), READY, REST[0], *REST[2:]],
        "no final free was sent (ranks 0-1 are out)",
    ),
    "housekeeping hangs": (
        [*HALF_TASKS, *REST_TASKS[:4]],
        "housekeeping still has ranks 0-3",
    ),
    "final is missing": (
        [*HALF, REST[0], free("0-1", False), *REST[2:]],
        "is the last, but not final",
    ),
    "final is doubled": (
        [*HALF[:-2], free("2-3", True), HALF[-1], *REST],
        "sched.free of ranks 0-1 after the final free",
    ),
    "final is early": (
        [*HALF[:-2], free("2-3", True), HALF[-1], *REST],
        "sched.free of ranks 2-3 is final, but ranks 0-1 are out",
    ),
    "a rank is split": (
        [*HALF[:-2], free("2-3", False, 1, "0"), HALF[-1], *REST],
        "not what the job has there",
    ),
    "someone else's rank": (
        [*HALF[:-2], free("2-4", False), HALF[-1], *REST],
        "sched.free of ranks 2-4: not what the job has there",
    ),
    "unknown to the scheduler": (
        [ev("submit", 9), free("0", True, 9)],
        "sched.free of ranks 0, but the scheduler does not know the job",
    ),
    "bypass is freed": (
        [*RIGHT["bypass"][:-2], free("0-3", True), ev("clean")],
        "the scheduler does not know the job",
    ),
    "parts without partial-ok": (
        [rec("offline"), WHOLE, READY, *HALF],
        "sched.free of ranks 2-3 to a scheduler without partial-ok",
    ),
    "between hello and ready": (
        [*HALF, HELLO, told(1, "2-3"), *REST[:2], READY, *REST[2:]],
        "sched.free of ranks 0-1 between hello and ready",
    ),
    "hello gives too much": (
        [*HALF, HELLO, told(1, "1-3"), READY, *REST],
        "hello says free, but was not let go: 1",
    ),
    "hello gives too little": (
        [*HALF, HELLO, told(1, "2"), READY, *REST],
        "hello says allocated, but was freed: 3",
    ),
    "hello forgets a job": ([*HALF, HELLO, READY, *REST], "hello forgets ranks 0-1"),
    "hello says it twice": (
        [*HALF, HELLO, told(1, "2-3"), told(1, "2-3"), READY, *REST],
        "hello speaks of it twice",
    ),
    "hello after all": (
        [*HALF, *REST, HELLO, told(1, "0-3"), READY],
        "hello speaks of it after the final free",
    ),
    "hello of a bypass": (
        [*RIGHT["bypass"], HELLO, told(1), READY],
        "hello speaks of a job without resources",
    ),
    "hello with free for one who can't": (
        [*HALF, WHOLE, told(1, "2-3"), READY],
        "hello has a free key without partial-ok",
    ),
    "freed after scheduler-restart": (
        [
            *HALF,
            HELLO,
            told(1, "2-3"),
            rec("raise", 1, **RESTART),
            ev("exception", **RESTART),
            READY,
            *REST,
        ],
        "but the scheduler dropped the job",
    ),
    "freed after it was dropped while inactive": (
        [*HALF_TASKS, *REST_TASKS[:4], rec("raise", 1, **RESTART), free("2-3", False)],
        "but the scheduler dropped the job",
    ),
    "alloc on what is out": ([*HALF, *alloc("1-2", 2)], "alloc of ranks 1 of f2"),
    "alloc of a core that is out": (
        [*alloc("0", 1, "0-1"), *alloc("0", 2, "1-2")],
        "alloc of ranks 0 of f2",
    ),
    "resource-status fails": (
        [*HALF, rec("status", error="duplicate allocation"), *REST],
        "resource-status failed: duplicate allocation",
    ),
    "resource-status forgets": (
        [*HALF, allocated("1"), *REST],
        "resource-status does not know of rank 0",
    ),
    "resource-status keeps": (
        [*HALF, allocated("0-2"), *REST],
        "resource-status: nobody has rank 2",
    ),
    "partial-free of all": (
        [
            *HALF,
            REST[0],
            free("0-1", True),
            ev("partial-free", ranks="0-1"),
            *REST[2:],
        ],
        "partial-free of the last ranks",
    ),
    "partial-free of nonsense": (
        [*HALF, ev("partial-free", ranks=3), *REST],
        "partial-free with ranks=3",
    ),
    "partial-free of none": ([*HALF, ev("partial-free", ranks=""), *REST], "with ranks=''"),
    "a second free event": ([*HALF, *REST[:3], ev("free"), ev("clean")], "a second free event"),
    "clean while outstanding": (
        [*RIGHT["holds none"][:-2], ev("clean")],
        "clean while outstanding: a",
    ),
    "clean without free": ([*HALF, *REST[:2], ev("clean")], "clean without free"),
    "active at the end": ([*HALF], "f2: is still active"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    """The watcher has nothing to say of what is right."""
    assert books.check([START, *ended(RIGHT[name])]) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    """The watcher names what is wrong, once."""
    story, text = WRONG[name]
    story = ended(story, "0-3", job1="0-3") if name == "housekeeping hangs" else ended(story)
    assert len([line for line in books.check([START, *story]) if text in line]) == 1


@pytest.mark.parametrize("cut", range(1, len(HALF) + len(REST) + 1))
def test_begins_anywhere(cut: int) -> None:
    """What happened before the watch began is history, and is known from then on."""
    story = [*HALF, *REST]
    if story[cut - 1]["what"] == "free":
        cut += 1  # the job manager can't be seen between the two
    before = [one for one in story[:cut] if one["what"] == "event"]
    after = story[cut:]
    if not any(one["name"] == "alloc" for one in before):
        before, after = [], story
    assert books.check([*before, START, *ended(after)]) == []


def test_history_counts() -> None:
    """A rank that went before the watch began may not go again."""
    history = [one for one in HALF if one["what"] == "event"]
    assert "f2: sched.free of ranks 2-3: freed twice: 2-3" in books.check(
        [*history, START, *ended([free("2-3", False), *REST])]
    )


def test_history_without_release() -> None:
    """An exec system does not come back to a job that has ended: its release may be lost."""
    history = [*alloc("0-3")[::2], *done()[:2], ev("epilog-start", description="a")]
    assert books.check([*history, START, *ended(REST[:1] + [free("0-3", True), *REST[2:]])]) == []


def test_history_in_housekeeping() -> None:
    """What housekeeping had when the watch began is not back yet."""
    history = [one for one in HALF if one["what"] == "event"]
    start = rec("start", housekeeping={"1": "2-3"}, online=True)
    assert books.check([*history, start, *ended([free("2-3", False), *REST])]) == []
    assert books.check([*history, start, *ended(REST)]) != []


def test_cut_off() -> None:
    """A watch that has no end, or no beginning, fails the test that it is for."""
    assert books.check([START, *HALF, *REST]) == ["the watch was cut off"]
    assert books.check([*HALF]) == ["the watch did not begin"]
    assert books.check([]) == ["the watch did not begin"]


def test_watch_that_saw_nothing() -> None:
    """A watch whose questions had no answer fails the test too."""
    unanswered = rec("end", housekeeping={}, statuses=0)
    lost = rec("end", housekeeping={}, statuses=2)
    for last in (unanswered, lost):
        assert books.check([START, last]) == ["resource-status was not answered"]


def test_active_ok() -> None:
    """Jobs may be active if that is said, but what they do is judged all the same."""
    assert books.check([START, *HALF], active_ok=True) == []
    assert books.check([START, *ended(HALF, "0-1")], active_ok=True) == []
    assert len(books.check([START, *WRONG["freed twice"][0]], active_ok=True)) == 1


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", set()), ("0", {0}), ("[0-2,5]", {0, 1, 2, 5}), ("7,9", {7, 9})],
)
def test_idset(text: str, ids: set) -> None:
    """Idsets are read and written."""
    assert books.decode(text) == ids
    assert books.decode(books.encode(ids)) == ids


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1,,2", "all", " 1"])
def test_bad_idset(text: str) -> None:
    """What is not an idset is not read as one."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        books.decode(text)


def test_f58() -> None:
    """Job ids are written as people see them."""
    assert books.f58(0) == "f1"
    assert books.f58(57) == "fz"
    assert books.f58(6731191091817518) == "fuZZybuNNy"


@pytest.mark.parametrize(("story", "status"), [(ended(RIGHT["parts"]), 0), (ended(HALF, "0-1"), 1)])
def test_command(story: List[Record], status: int, tmp_path: Path) -> None:
    """The command judges a file, a line per violation, whatever the last line is cut to."""
    path = tmp_path / "watch.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in [START, *story]) + '{"wha')
    command = [sys.executable, str(SCRIPTS / "epilog-watch.py"), "judge", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == status
    assert run.stderr == ("epilog-watch: f2: is still active\n" if status else "")


def test_command_without_file(tmp_path: Path) -> None:
    """A missing file is one line."""
    path = str(tmp_path / "none")
    command = [sys.executable, str(SCRIPTS / "epilog-watch.py"), "judge", path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert path in run.stderr
