# SPDX-License-Identifier: LGPL-3.0
"""Replay of one eventlog: RFC 21's states, and the ledger fed as the job manager feeds it.

One handler per event name; an event without one is passed over. The order in the file counts,
not the time. Handlers never raise on what a log holds: they warn.
"""

from typing import Any, Callable, Dict, Optional, Sequence

from epilog_replay import codes, keys, step
from epilog_replay.action import EPILOG, PROLOG, Action
from epilog_replay.event import NAMES, TIME_MAX, Event
from epilog_replay.job import (
    CLEANUP,
    DEPEND,
    INACTIVE,
    NEW,
    PRIORITY,
    RUN,
    SCHED,
    Job,
    Move,
)
from epilog_replay.keys import Context
from epilog_replay.ledger import LedgerError
from epilog_replay.lost import lost_ranks

_EXEC_EVENTS = frozenset(("init", "reattach", "re-starting", "starting", "complete", "done"))
_TINY = 5e-324  # the smallest time that RFC 18 allows


# Handlers: (job, timestamp, context, line)


def _submit(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state != NEW or job.t_state is not None:
        job.warn(codes.REOPENED, line, "submit is not the first event: no effect")
        return
    job.t_state = timestamp
    if (
        context is None
        or "userid" not in context
        or "urgency" not in context
        or "flags" not in context
    ):
        keys.missing(job, line, "submit", context, "userid", "urgency", "flags")


def _validate(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state == NEW:
        step.enter(job, DEPEND, timestamp)
    elif job.state >= CLEANUP:
        job.warn(codes.REOPENED, line, "validate after the job went to CLEANUP: no effect")


def _depend(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state < PRIORITY:  # a log of before 0.41 has no validate
        step.enter(job, PRIORITY, timestamp)
    elif job.state >= CLEANUP:
        job.warn(codes.REOPENED, line, "depend after the job went to CLEANUP: no effect")


def _priority(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state <= PRIORITY:
        step.enter(job, SCHED, timestamp)
    if context is None or "priority" not in context:
        keys.missing(job, line, "priority", context, "priority")


def _requeue(job: Job, timestamp: float, context: Context, line: int) -> None:
    """Handle urgency, jobspec-update, flux-restart: the priority is asked for again."""
    if job.state == SCHED:
        step.enter(job, PRIORITY, timestamp)


def _urgency(job: Job, timestamp: float, context: Context, line: int) -> None:
    keys.missing(job, line, "urgency", context, "urgency", "userid")
    _requeue(job, timestamp, context, line)


def _dependency(job: Job, timestamp: float, context: Context, line: int) -> None:
    keys.missing(job, line, "dependency-add or -remove", context, "description")


def _set_flags(job: Job, timestamp: float, context: Context, line: int) -> None:
    keys.missing(job, line, "set-flags", context, "flags")
    flags = (context or {}).get("flags")
    if isinstance(flags, list) and "alloc-bypass" in flags:
        job.bypass = True


def _resource_update(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        step.hole(job, line, "resource-update without alloc")


def _alloc(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.t_alloc is not None:
        job.warn(codes.REOPENED, line, "alloc again: no effect")
        return
    job.t_alloc = timestamp
    if context and context.get("bypass") is True:
        job.bypass = True
    if not job.has_resources:
        step.grant(job, context)
    if job.state < RUN:
        step.enter(job, RUN, timestamp)


def _prolog_start(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "description" not in context:
        keys.missing(job, line, "prolog-start", context, "description")
    description = keys.description(job, line, "prolog-start", context)
    if not job.has_resources:
        step.need_resources(job, line, "prolog-start")
    if job.state < RUN:
        step.enter(job, RUN, timestamp)
    if job.started and job.t_exec_done is None:
        text = "prolog-start while the job's shells run: the job manager does not count it"
        job.warn(codes.OUT_OF_ORDER, line, text)
        return
    held = 0 if job.claim_lost is not None else job.full & ~job.gone
    action = Action(PROLOG, description, timestamp, held, True)
    job.actions.append(action)
    job.open.append(action)
    if job.ledger is not None:
        job.ledger.prolog_start()
    if job.moves is not None:
        job.moves.append(Move(timestamp, "prolog-start", action))


def _prolog_finish(job: Job, timestamp: float, context: Context, line: int) -> None:
    """Prologs are only counted: a finish without a start of that name ends the oldest open."""
    if context is None or "description" not in context or "status" not in context:
        keys.missing(job, line, "prolog-finish", context, "description", "status")
    description = keys.description(job, line, "prolog-finish", context)
    if not job.has_resources:
        step.need_resources(job, line, "prolog-finish")
    if job.state < RUN:
        step.enter(job, RUN, timestamp)
    oldest = None
    action = None
    for candidate in job.open:
        if candidate.kind == PROLOG:
            oldest = oldest or candidate
            if candidate.description == description:
                action = candidate
                break
    if action is None:
        if not job.headless or oldest is not None:
            what = f"it ends {oldest.name}" if oldest else "none is open"
            text = f"prolog-finish: no prolog {description!r:.64} is open: {what}"
            job.warn(codes.UNMATCHED_FINISH, line, text)
        action = oldest
    if action is None:
        return
    job.open.remove(action)
    action.finish(timestamp, keys.status(job, line, "prolog-finish", context))
    if job.ledger is not None:
        job.ledger.prolog_finish()
    if job.moves is not None:
        job.moves.append(Move(timestamp, "prolog-finish", action))


def _start(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        step.need_resources(job, line, "start")
    if job.state >= CLEANUP:
        text = "start after the job went to CLEANUP: it stays there"
        job.warn(codes.REOPENED, line, text)
    elif job.state < RUN:
        step.enter(job, RUN, timestamp)
    if not job.started:
        job.started = True
        job.t_start = timestamp
        if job.moves is not None:
            job.moves.append(Move(timestamp, "start"))


def _finish(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "status" not in context:
        keys.missing(job, line, "finish", context, "status")
    if not job.has_resources:
        step.need_resources(job, line, "finish")
    if job.t_finish is None:
        job.t_finish = timestamp
    if not job.started:
        job.started = True
        if job.moves is not None:
            job.moves.append(Move(timestamp, "start"))
        if not job.headless:
            step.hole(job, line, "finish without start")
    step.end(job, timestamp)


def _release(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "ranks" not in context or "final" not in context:
        keys.missing(job, line, "release", context, "ranks", "final")
        if context is None:
            return
    if not job.has_resources:
        step.need_resources(job, line, "release")
    if context.get("final") is not True:  # a part only: recorded by the log, never acted on
        return
    step.need_cleanup(job, timestamp, line, "release")
    if job.t_exec_done is None:
        job.t_exec_done = timestamp
        if job.moves is not None:
            job.moves.append(Move(timestamp, "release"))


def _exception(job: Job, timestamp: float, context: Context, line: int) -> None:
    if (
        context is None
        or "type" not in context
        or "severity" not in context
        or "note" not in context
    ):
        keys.missing(job, line, "exception", context, "type", "severity", "note")
    kind = (context or {}).get("type")
    severity = (context or {}).get("severity")
    note = (context or {}).get("note")
    if isinstance(note, str) and (kind == "node-failure" or note.startswith("node failure on")):
        job.lost |= lost_ranks(job, line, note)
    if severity is None:
        return
    if isinstance(severity, bool) or not isinstance(severity, int) or not 0 <= severity <= 7:
        text = f"exception: severity {severity!r:.32} is not 0 to 7: no effect"
        job.warn(codes.BAD_VALUE, line, text)
        return
    if severity != 0:
        return
    if kind == "scheduler-restart" and job.has_resources and job.gone != job.full:
        _drop_claim(job, timestamp, line)
    step.end(job, timestamp)


def _drop_claim(job: Job, timestamp: float, line: int) -> None:
    """The scheduler does not know the job's ranks any more: none are held, none can go."""
    if job.claim_lost is not None:
        return
    rest = job.full & ~job.gone
    text = f"scheduler-restart: the claim on ranks {job.words(rest)} is lost, holds are dropped"
    job.warn(codes.LOST_CLAIM, line, text)
    job.claim_lost = timestamp
    for action in job.open:
        action.release(rest, timestamp)
    if job.ledger is not None:
        job.ledger.restore_gone(None)
    if job.moves is not None:
        job.moves.append(Move(timestamp, "claim"))


def _epilog_start(job: Job, timestamp: float, context: Context, line: int) -> None:
    """The action holds what it names; with ranks that can't be, all (design.md 3)."""
    ledger = job.ledger or step.open_ledger(job)
    if job.state == NEW and job.headless:
        step.enter(job, CLEANUP, timestamp)
    if context is None or "description" not in context:
        keys.missing(job, line, "epilog-start", context, "description")
    description = keys.description(job, line, "epilog-start", context)
    ranks: Optional[int] = None
    named = "all" if context is None else context.get("ranks", "all")
    if named != "all":
        ranks = keys.ranks(job, line, "epilog-start", named, "it holds all")
    if job.claim_lost is not None:
        ranks = None
    if ranks is not None and ranks & job.gone:
        gone = job.words(ranks & job.gone)
        text = f"epilog-start: ranks {gone} have gone already: it holds all that have not"
        job.warn(codes.BAD_VALUE, line, text)
        ranks = None
    if job.has_resources and job.gone == job.full:
        text = f"epilog-start {description!r:.64} after free: it holds the job, but no rank"
        job.warn(codes.REOPENED, line, text)
    try:
        ledger.start(description or "", None if ranks is None else named, timestamp)
    except LedgerError as exc:
        job.warn(codes.BAD_VALUE, line, f"epilog-start: {exc.strerror}: no effect")
        return
    left = 0 if job.claim_lost is not None else job.full & ~job.gone
    held = left if ranks is None else ranks & left
    action = Action(EPILOG, description, timestamp, held, ranks is None)
    job.actions.append(action)
    job.open.append(action)
    if job.moves is not None:
        job.moves.append(Move(timestamp, "epilog-start", action, held))


def _epilog_finish(job: Job, timestamp: float, context: Context, line: int) -> None:
    """With ``ranks`` the action lets go of them and goes on, without it ends."""
    ledger = job.ledger or step.open_ledger(job)
    if job.state == NEW and job.headless:
        step.enter(job, CLEANUP, timestamp)
    if context is None or "description" not in context or "status" not in context:
        keys.missing(job, line, "epilog-finish", context, "description", "status")
    description = keys.description(job, line, "epilog-finish", context)
    status = keys.status(job, line, "epilog-finish", context)
    if context is not None and "ranks" in context:
        _epilog_part(job, timestamp, description, context["ranks"], line)
        return
    try:
        said = ledger.finish(description)
    except LedgerError as exc:
        job.warn(codes.UNMATCHED_FINISH, line, f"epilog-finish: {exc.strerror}: no effect")
        return
    action = _oldest(job, None if said else description)
    if said:
        job.warn(codes.UNMATCHED_FINISH, line, f"epilog-finish: {said}")
        action.unmatched = action.held
        job.unmatched.append(action)
    job.open.remove(action)
    action.finish(timestamp, status)
    if job.moves is not None:
        job.moves.append(Move(timestamp, "epilog-finish", action))


def _oldest(job: Job, description: Optional[str]) -> Action:
    """Return the action that the ledger has just ended: of that name, or (None) the only one."""
    for action in job.open:
        if action.kind == EPILOG and (
            description is None or (action.description or "") == description
        ):
            return action
    raise AssertionError("the ledger ended an action that was not started")


def _epilog_part(
    job: Job, timestamp: float, description: Optional[str], value: Any, line: int
) -> None:
    """Handle a partial finish. One that can't be has no effect (design.md 3)."""
    ranks = keys.ranks(job, line, "partial epilog-finish", value, "no effect")
    if ranks is None or job.ledger is None:
        return
    if not ranks and value != "all":
        text = "partial epilog-finish: ranks name none: no effect"
        job.warn(codes.BAD_VALUE, line, text)
        return
    try:
        job.ledger.release(description or "", None if value == "all" else value)
    except LedgerError as exc:
        text = f"partial epilog-finish: {exc.strerror}: no effect"
        job.warn(codes.UNMATCHED_FINISH, line, text)
        return
    action = _oldest(job, description or "")
    action.release(ranks, timestamp)
    if job.moves is not None:
        job.moves.append(Move(timestamp, "part", action, ranks))


def _partial_free(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        step.need_resources(job, line, "partial-free")
    step.need_cleanup(job, timestamp, line, "partial-free")
    if context is None or "ranks" not in context:
        keys.missing(job, line, "partial-free", context, "ranks")
        return
    ranks = keys.ranks(job, line, "partial-free", context["ranks"], "no effect")
    if ranks is None:
        return
    again = ranks & job.gone
    if again and context["ranks"] != "all":
        text = f"partial-free: ranks {job.words(again)} had gone before"
        job.warn(codes.BAD_VALUE, line, text)
    step.hand_over(job, timestamp, line, "partial-free", ranks & ~job.gone)


def _free(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        step.need_resources(job, line, "free")
    if job.state < CLEANUP:
        step.need_cleanup(job, timestamp, line, "free")
    if job.handoffs and any(handoff.event == "free" for handoff in job.handoffs):
        job.warn(codes.OUT_OF_ORDER, line, "free again: no effect")
        return
    step.hand_over(job, timestamp, line, "free", job.full & ~job.gone)


def _clean(job: Job, timestamp: float, context: Context, line: int) -> None:
    step.need_cleanup(job, timestamp, line, "clean")
    if job.has_resources and job.gone != job.full and job.claim_lost is None:
        step.hole(job, line, f"clean before free of ranks {job.words(job.full & ~job.gone)}")
    for action in job.unmatched:
        text = f"clean: {action.kind} {action.name} never reported its own end"
        job.warn(codes.PREMATURE_FREE, line, text)
    for action in job.open:
        text = f"clean: {action.kind} {action.name} was open"
        job.warn(codes.PREMATURE_FREE, line, text)
    step.enter(job, INACTIVE, timestamp)


def _unnamed(job: Job, timestamp: float, context: Context, line: int) -> None:
    job.warn(codes.BAD_VALUE, line, "the event's name is empty: passed over")


HANDLERS: Dict[str, Callable[[Job, float, Context, int], None]] = {
    "submit": _submit,
    "validate": _validate,
    "depend": _depend,
    "priority": _priority,
    "urgency": _urgency,
    "jobspec-update": _requeue,
    "flux-restart": _requeue,
    "dependency-add": _dependency,
    "dependency-remove": _dependency,
    "set-flags": _set_flags,
    "resource-update": _resource_update,
    "alloc": _alloc,
    "prolog-start": _prolog_start,
    "prolog-finish": _prolog_finish,
    "start": _start,
    "finish": _finish,
    "release": _release,
    "exception": _exception,
    "epilog-start": _epilog_start,
    "epilog-finish": _epilog_finish,
    "partial-free": _partial_free,
    "free": _free,
    "clean": _clean,
    "": _unnamed,
}


def _bad_time(job: Job, timestamp: float, last: float, line: int) -> None:
    if timestamp <= 0.0:
        text = f"timestamp {timestamp:g} is not over 0 (RFC 18): times may be offsets"
        job.warn(codes.BAD_VALUE, line, text)
    else:
        text = f"time goes back {last - timestamp:.6f} s; the order in the file counts"
        job.warn(codes.OUT_OF_ORDER, line, text)


def _kind_of_log(events: Sequence[Event]) -> Optional[str]:
    """Return what the log is if it is not a job's main eventlog, else None."""
    names = {event.name for event in events}
    if names & NAMES:
        return None
    if any(name in _EXEC_EVENTS or name.startswith("shell.") for name in names):
        return "this is an execution eventlog (RFC 50), not a job's main eventlog (RFC 21)"
    if {"header", "data"} & names:
        return "this is an output eventlog (RFC 24), not a job's main eventlog (RFC 21)"
    return "no event of a job's main eventlog (RFC 21) is in it"


def replay(job: Job, events: Sequence[Event], numbers: Sequence[int]) -> None:
    """Fill ``job`` from the events of its log; ``numbers`` are their line numbers, from 1."""
    if not events:
        job.usable = False
        if job.warnings:
            job.warn(codes.WRONG_LOG, None, "no line of it is an event")
        else:
            job.warn(codes.EMPTY, None, "empty eventlog: no event in it")
        job.close_warnings()
        return
    if events[0].name != "submit":
        kind = _kind_of_log(events)
        if kind is not None:
            job.usable = False
            job.warn(codes.WRONG_LOG, None, kind)
            job.close_warnings()
            return
        job.headless = True
        text = f"the first event is {events[0].name:.32}, not submit: the head is missing"
        job.warn(codes.NO_SUBMIT, numbers[0], text)
    job.events = events
    if job.headless and job.rset is not None:
        step.grant(job)
    handler_of = HANDLERS.get
    limit = TIME_MAX
    last = _TINY
    for event, line in zip(events, numbers):
        timestamp = event.timestamp
        if not last <= timestamp < limit:
            if not -TIME_MAX < timestamp < TIME_MAX:
                text = f"timestamp {timestamp:g} is not a time: passed over"
                job.warn(codes.BAD_VALUE, line, text)
                continue
            _bad_time(job, timestamp, last, line)
        last = timestamp
        handler = handler_of(event.name)
        if handler is not None:
            if job.state == INACTIVE:
                job.warn(codes.REOPENED, line, f"{event.name:.32} after clean: no effect")
            else:
                handler(job, timestamp, event.context, line)
    job.t_last = last if last > _TINY else 0.0
    job.events = ()
    if job._counts:
        job.close_warnings()
