# SPDX-License-Identifier: LGPL-3.0
"""The JSON object of one log, documented key by key in README.md."""

from typing import Any, Dict, List, Optional

import msgspec

from epilog_replay import blocker
from epilog_replay.action import Action
from epilog_replay.job import STATES, Job

_encode = msgspec.json.encode


def _intervals(job: Job, action: Action) -> List[Dict[str, Any]]:
    """Holds that began and ended together are one interval."""
    if not action.held and len(action.let_go) == 1:
        at, let_go = action.let_go[0]
        return [{"ranks": job.text(let_go), "start": action.start, "end": at}]
    found: Dict[Optional[float], int] = {}
    for ranks, _, end in action.intervals():
        found[end] = found.get(end, 0) | ranks
    return [
        {"ranks": job.text(ranks), "start": action.start, "end": end}
        for end, ranks in found.items()
    ]


def _blocker(job: Job) -> Optional[Dict[str, Any]]:
    found = blocker.find(job)
    if found is None:
        return None
    return {
        "kind": found.kind,
        "description": found.description,
        "ranks": job.text(found.ranks),
        "since": found.since,
    }


def to_dict(job: Job) -> Dict[str, Any]:
    """Return the record of a log: idsets as RFC 22 text, times as in the log, None unknown."""
    return {
        "log": job.log,
        "id": job.id,
        "ranks": job.full_text if job.usable else None,
        "nranks": job.count(job.full) if job.usable else None,
        "bypass": job.bypass,
        "lost": job.lost_text(),
        "state": STATES[job.state] if job.usable else None,
        "t_end": job.t_end,
        "actions": [
            {
                "kind": action.kind,
                "description": action.description,
                "start": action.start,
                "end": action.end,
                "status": action.status,
                "intervals": _intervals(job, action),
            }
            for action in job.actions
        ],
        "handoffs": [
            {"timestamp": timestamp, "ranks": job.text(ranks), "event": event}
            for timestamp, ranks, event in job.handoffs
        ],
        "held": job.text(job.held),
        "gone": job.text(job.gone),
        "holders": [
            {"ranks": job.text(ranks), "descriptions": names} for ranks, names in job.holders()
        ]
        if job.open
        else [],
        "blocker": _blocker(job),
        "held_node_seconds": job.held_node_seconds(),
        "waited_node_seconds": job.waited_node_seconds() if job.usable else None,
        "what_if": None
        if job.what_if is None
        else {
            "waited_node_seconds": job.what_if.waited_node_seconds,
            "returned_node_seconds": job.what_if.returned_node_seconds,
        },
        "warnings": [
            {"code": code, "line": line, "text": text} for code, line, text in job.warnings
        ],
    }


def to_line(job: Job) -> bytes:
    """Return the record as one line of JSON, newline included."""
    return _encode(to_dict(job)) + b"\n"
