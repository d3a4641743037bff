# SPDX-License-Identifier: LGPL-3.0
"""Logs for the tests of the replay tool, and what the tool says of them."""

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from epilog_replay import event, rset, whatif
from epilog_replay.job import Job
from epilog_replay.record import to_dict
from epilog_replay.replay import replay

T0 = 1700000000.0  # time of the submit event of a log made here

Step = Tuple[Any, ...]  # (seconds after T0, name) or (seconds, name, context)

PENDING: List[Step] = [
    (0, "submit", {"userid": 1000, "urgency": 16, "flags": 0, "version": 1}),
    (1, "validate"),
    (2, "depend"),
    (3, "priority", {"priority": 16}),
]
RUNNING: List[Step] = [*PENDING, (4, "alloc"), (10, "start")]
ENDED: List[Step] = [*RUNNING, (100, "finish", {"status": 0})]
RELEASED: List[Step] = [*ENDED, (100.5, "release", {"ranks": "all", "final": True})]
CLOSED: List[Step] = [(900, "free"), (901, "clean")]


def start(seconds: float, description: str, **context: Any) -> Step:
    """An epilog starts."""
    return seconds, "epilog-start", {"description": description, **context}


def finish(seconds: float, description: str, status: int = 0, **context: Any) -> Step:
    """An epilog ends, or with ``ranks`` lets go of some."""
    return (
        seconds,
        "epilog-finish",
        {"description": description, "status": status, **context},
    )


def prolog(seconds: float, what: str, description: str, **context: Any) -> Step:
    """A prolog starts or finishes."""
    return seconds, f"prolog-{what}", {"description": description, **context}


def exception(seconds: float, kind: str, severity: int = 0, note: str = "") -> Step:
    """An exception is raised."""
    return seconds, "exception", {"type": kind, "severity": severity, "note": note}


def write(steps: Iterable[Step]) -> bytes:
    """Return steps as RFC 18 lines."""
    lines = []
    for seconds, name, *rest in steps:
        entry: Dict[str, Any] = {"timestamp": T0 + seconds, "name": name}
        if rest:
            entry["context"] = rest[0]
        lines.append(json.dumps(entry))
    return "".join(line + "\n" for line in lines).encode()


def job_of(
    data: bytes, ranks: Optional[str] = "0-3", rules: Iterable[str] = (), name: str = "log"
) -> Job:
    """Replay the bytes of a log."""
    job = Job(name, rset.from_ranks(ranks) if ranks else None)
    parsed = {rule.description: rule for rule in map(whatif.parse, rules)}
    if parsed:
        job.moves = []
    events, numbers = event.read(data, job.warn) if data else ((), ())
    replay(job, events, numbers)
    if parsed:
        job.what_if = whatif.weigh(job, parsed)
    return job


def record(
    steps: Iterable[Step], ranks: Optional[str] = "0-3", rules: Iterable[str] = ()
) -> Dict[str, Any]:
    """Replay steps; return the JSON object."""
    return to_dict(job_of(write(steps), ranks, rules))


def codes(found: Dict[str, Any]) -> List[Tuple[str, Optional[int]]]:
    """Return (code, line) of the warnings of a record."""
    return [(warning["code"], warning["line"]) for warning in found["warnings"]]


def action(found: Dict[str, Any], description: Optional[str], nth: int = 0) -> Dict[str, Any]:
    """Return the nth action of a description."""
    return [a for a in found["actions"] if a["description"] == description][nth]


def holds(found: Dict[str, Any], description: str) -> List[Tuple[str, float, Optional[float]]]:
    """Return (ranks, from, to) of an action's holds, times in seconds after T0."""
    return [
        (i["ranks"], i["start"] - T0, None if i["end"] is None else i["end"] - T0)
        for i in action(found, description)["intervals"]
    ]


def went(found: Dict[str, Any]) -> List[Tuple[float, str, str]]:
    """Return (seconds after T0, ranks, event) of the handoffs."""
    return [(h["timestamp"] - T0, h["ranks"], h["event"]) for h in found["handoffs"]]
