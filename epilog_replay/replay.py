# SPDX-License-Identifier: LGPL-3.0
"""Replay of one eventlog: RFC 21's states, and the ledger fed as the job manager feeds it.

One handler per event name; an event without one is passed over. The order in the file counts,
not the time. Handlers never raise on what a log holds: they warn.
"""

import re
from typing import Any, Callable, Dict, Optional, Sequence

from epilog_replay import codes, idset, rset
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
    Handoff,
    Job,
    Move,
)
from epilog_replay.ledger import Ledger, LedgerError

Context = Optional[Dict[str, Any]]

# Events that only a job with resources has.
_RESOURCE_EVENTS = frozenset(
    ("alloc", "start", "finish", "release", "free", "partial-free", "prolog-start", "prolog-finish")
)
_RANKS_EVENTS = frozenset(("epilog-start", "epilog-finish", "partial-free"))
_EXEC_EVENTS = frozenset(("init", "reattach", "re-starting", "starting", "complete", "done"))
_TINY = 5e-324  # the smallest time that RFC 18 allows


# Keys of a context


def _missing(job: Job, line: int, name: str, context: Context, *keys: str) -> None:
    """Warn of the keys that RFC 21 requires and that ``context`` lacks."""
    lacking = [key for key in keys if not context or key not in context]
    if lacking:
        job.warn(codes.MISSING_KEY, line, f"{name} has no {', no '.join(lacking)}")


def _description(job: Job, line: int, name: str, context: Context) -> Optional[str]:
    """Return the description of an action's event, None if it has none."""
    if context is None or "description" not in context:
        return None
    description = context["description"]
    if isinstance(description, str) and "\0" not in description:
        return description
    text = f"{name}: description {description!r:.32} is not a name: read without it"
    job.warn(codes.BAD_VALUE, line, text)
    return None


def _status(job: Job, line: int, name: str, context: Context) -> Optional[int]:
    """Return the wait status of an action's finish, None if it has none."""
    if context is None or "status" not in context:
        return None
    status = context["status"]
    if type(status) is int and 0 <= status < 1 << 31:
        return status
    text = f"{name}: status {status!r:.32} is not a wait status: read without it"
    job.warn(codes.BAD_VALUE, line, text)
    return None


def _ranks(job: Job, line: int, name: str, value: object, instead: str) -> Optional[int]:
    """Return the ranks that a ``ranks`` key names as a mask.

    None if it is not "all", nor an idset of ranks of the job; a warning then says what is done
    ``instead``.
    """
    if value == "all":
        return job.full
    if not isinstance(value, str):
        text = f"{name}: ranks {value!r:.32} is not a string: {instead}"
        job.warn(codes.BAD_VALUE, line, text)
        return None
    try:
        ranges = idset.parse(value)
    except idset.IdsetError as exc:
        job.warn(codes.BAD_VALUE, line, f"{name}: ranks {exc}: {instead}")
        return None
    width = job.full.bit_length()
    inside = not ranges or ranges[-1][1] < width
    mask = idset.to_mask(ranges) if inside else 0
    if not inside and not job.ranks_known:
        text = f"{name}: ranks {value:.32} name a rank over {idset.LIMIT - 1}: {instead}"
        job.warn(codes.BAD_VALUE, line, text)
        return None
    if not inside or mask & ~job.full:
        job.warn(
            codes.RANKS_NOT_IN_R,
            line,
            f"{name}: ranks {value:.32} are not all of the job's {job.full_text or 'none'}:"
            f" {instead}",
        )
        return None
    return mask


# Steps of the job


def _named_ranks(events: Sequence[Event]) -> int:
    """Return all ranks that the events of a log name, to stand in for an unknown R."""
    named = 0
    for event in events:
        if event.name in _RANKS_EVENTS and event.context:
            ranks = event.context.get("ranks")
            if isinstance(ranks, str):
                try:
                    named |= idset.decode(ranks)
                except idset.IdsetError:
                    pass
    return named


def _grant(job: Job, alloc: Context = None) -> None:
    """The job has, or must have had, resources: find out which ranks."""
    job.has_resources = True
    if job.rset is None:
        job.rset = rset.from_annotation(alloc)
        if job.rset is not None:
            text = f"no R: ranks {job.rset.ranks} are from the alloc annotation"
            job.warn(codes.RANKS_UNKNOWN, None, text)
    if job.rset is not None:
        job.full = job.rset.mask
        job.full_text = job.rset.ranks
    else:
        job.ranks_known = False
        named = _named_ranks(job.events)
        job.full = named | 1 << named.bit_length()
        job.full_text = "all"
        text = "no R and no alloc annotation with ranks: they are called 'all'"
        job.warn(codes.RANKS_UNKNOWN, None, text)


def _need_resources(job: Job, line: int, name: str) -> None:
    """An event that only a job with resources has, but no alloc before it."""
    _grant(job)
    _hole(job, line, f"{name} without alloc")


def _hole(job: Job, line: int, text: str) -> None:
    """A step is not in the log. Said once, and not of a log whose head is known to be missing."""
    if not job.headless and not job.holed:
        job.holed = True
        job.warn(codes.OUT_OF_ORDER, line, f"{text}: a part of the log is missing")


def _enter(job: Job, state: int, timestamp: float) -> None:
    job.state = state
    job.t_state = timestamp
    if state == CLEANUP:
        job.t_cleanup = timestamp
        if job.moves is not None:
            job.moves.append(Move(timestamp, "cleanup"))


def _end(job: Job, timestamp: float) -> None:
    """This event takes the job to CLEANUP, if it is not there."""
    if job.state < CLEANUP:
        job.t_end = timestamp
        _enter(job, CLEANUP, timestamp)


def _need_cleanup(job: Job, timestamp: float, line: int, name: str) -> None:
    """An event that comes in CLEANUP only."""
    if job.state < CLEANUP:
        _hole(job, line, f"{name} before the event that ended the job")
        _enter(job, CLEANUP, timestamp)


def _open_ledger(job: Job) -> Ledger:
    """Make the ledger. A head that is missing may have held the alloc: look at what follows."""
    if not job.has_resources and any(e.name in _RESOURCE_EVENTS for e in job.events):
        _grant(job)
    ranks = None
    if job.has_resources:
        ranks = job.full_text if job.ranks_known else idset.encode(job.full)
    ledger = Ledger(ranks)
    if job.gone:
        ledger.restore_gone(idset.encode(job.gone))
    for _ in job.open:  # prologs all, as there was no ledger
        ledger.prolog_start()
    if job.claim_lost is not None:
        ledger.restore_gone(None)
    job.ledger = ledger
    return ledger


def _hand_over(job: Job, timestamp: float, line: int, name: str, ranks: int) -> None:
    """The log says that ``ranks`` went: a record that outweighs any hold."""
    for action in job.unmatched:
        if action.unmatched & ranks:
            text = f"ranks {job.words(action.unmatched & ranks)} went, but {action.kind}"
            text = f"{name}: {text} {action.name} never reported its own end"
            job.warn(codes.PREMATURE_FREE, line, text)
    for action in job.open:
        if action.held & ranks:
            text = f"ranks {job.words(action.held & ranks)} went while {action.kind}"
            text = f"{name}: {text} {action.name} was open"
            job.warn(codes.PREMATURE_FREE, line, text)
            action.release(ranks, timestamp)
    job.gone |= ranks
    if job.ledger is not None:
        job.ledger.restore_gone(None if ranks == job.full else idset.encode(ranks))
    if ranks:
        job.handoffs.append(Handoff(timestamp, ranks, name))
        if job.moves is not None:
            job.moves.append(Move(timestamp, "gone", None, ranks))


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
        _missing(job, line, "submit", context, "userid", "urgency", "flags")


def _validate(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state == NEW:
        _enter(job, DEPEND, timestamp)
    elif job.state >= CLEANUP:
        job.warn(codes.REOPENED, line, "validate after the job went to CLEANUP: no effect")


def _depend(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state < PRIORITY:  # a log of before 0.41 has no validate
        _enter(job, PRIORITY, timestamp)
    elif job.state >= CLEANUP:
        job.warn(codes.REOPENED, line, "depend after the job went to CLEANUP: no effect")


def _priority(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.state <= PRIORITY:
        _enter(job, SCHED, timestamp)
    if context is None or "priority" not in context:
        _missing(job, line, "priority", context, "priority")


def _requeue(job: Job, timestamp: float, context: Context, line: int) -> None:
    """Handle urgency, jobspec-update, flux-restart: the priority is asked for again."""
    if job.state == SCHED:
        _enter(job, PRIORITY, timestamp)


def _urgency(job: Job, timestamp: float, context: Context, line: int) -> None:
    _missing(job, line, "urgency", context, "urgency", "userid")
    _requeue(job, timestamp, context, line)


def _dependency(job: Job, timestamp: float, context: Context, line: int) -> None:
    _missing(job, line, "dependency-add or -remove", context, "description")


def _set_flags(job: Job, timestamp: float, context: Context, line: int) -> None:
    _missing(job, line, "set-flags", context, "flags")
    flags = (context or {}).get("flags")
    if isinstance(flags, list) and "alloc-bypass" in flags:
        job.bypass = True


def _resource_update(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        _hole(job, line, "resource-update without alloc")


def _alloc(job: Job, timestamp: float, context: Context, line: int) -> None:
    if job.t_alloc is not None:
        job.warn(codes.REOPENED, line, "alloc again: no effect")
        return
    job.t_alloc = timestamp
    if context and context.get("bypass") is True:
        job.bypass = True
    if not job.has_resources:
        _grant(job, context)
    if job.state < RUN:
        _enter(job, RUN, timestamp)


def _prolog_start(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "description" not in context:
        _missing(job, line, "prolog-start", context, "description")
    description = _description(job, line, "prolog-start", context)
    if not job.has_resources:
        _need_resources(job, line, "prolog-start")
    if job.state < RUN:
        _enter(job, RUN, timestamp)
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
        _missing(job, line, "prolog-finish", context, "description", "status")
    description = _description(job, line, "prolog-finish", context)
    if not job.has_resources:
        _need_resources(job, line, "prolog-finish")
    if job.state < RUN:
        _enter(job, RUN, timestamp)
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
    action.finish(timestamp, _status(job, line, "prolog-finish", context))
    if job.ledger is not None:
        job.ledger.prolog_finish()
    if job.moves is not None:
        job.moves.append(Move(timestamp, "prolog-finish", action))


def _start(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        _need_resources(job, line, "start")
    if job.state >= CLEANUP:
        text = "start after the job went to CLEANUP: it stays there"
        job.warn(codes.REOPENED, line, text)
    elif job.state < RUN:
        _enter(job, RUN, timestamp)
    if not job.started:
        job.started = True
        job.t_start = timestamp
        if job.moves is not None:
            job.moves.append(Move(timestamp, "start"))


def _finish(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "status" not in context:
        _missing(job, line, "finish", context, "status")
    if not job.has_resources:
        _need_resources(job, line, "finish")
    if job.t_finish is None:
        job.t_finish = timestamp
    if not job.started:
        job.started = True
        if job.moves is not None:
            job.moves.append(Move(timestamp, "start"))
        if not job.headless:
            _hole(job, line, "finish without start")
    _end(job, timestamp)


def _release(job: Job, timestamp: float, context: Context, line: int) -> None:
    if context is None or "ranks" not in context or "final" not in context:
        _missing(job, line, "release", context, "ranks", "final")
        if context is None:
            return
    if not job.has_resources:
        _need_resources(job, line, "release")
    if context.get("final") is not True:  # a part only: recorded by the log, never acted on
        return
    _need_cleanup(job, timestamp, line, "release")
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
        _missing(job, line, "exception", context, "type", "severity", "note")
    kind = (context or {}).get("type")
    severity = (context or {}).get("severity")
    note = (context or {}).get("note")
    if isinstance(note, str) and (kind == "node-failure" or note.startswith("node failure on")):
        job.lost |= _lost_ranks(job, line, note)
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
    _end(job, timestamp)


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


_RANK = re.compile(r"(shell )?ranks? (\[[0-9,-]+\]|[0-9][0-9,-]*)")
_HOST = re.compile(r"node failure on (\S+)")


def _lost_ranks(job: Job, line: int, note: str) -> int:
    """Return the ranks that the note of a node failure names.

    job-exec writes "node failure on HOST (shell rank N)", N counted from 0 within the job, or,
    if the job can't go on without it, "node failure on HOST (rank N)". Ranks of an unknown R
    are taken as they stand.
    """
    mask = 0
    job_ranks = idset.ids(job.rset.mask) if job.rset is not None else None
    for shell, text in _RANK.findall(note):
        try:
            named = idset.decode(text.rstrip(",-"))
        except idset.IdsetError:
            continue
        if shell:
            for index in idset.ids(named):
                if job_ranks is not None and index < len(job_ranks):
                    mask |= 1 << job_ranks[index]
        else:
            mask |= named
    hosts = job.rset.hosts() if job.rset is not None else []
    if not mask and hosts and job_ranks:
        names = set(_HOST.findall(note))
        mask = sum(1 << rank for rank, host in zip(job_ranks, hosts) if host in names)
    if job.rset is not None and mask & ~job.rset.mask:
        outside = idset.encode(mask & ~job.rset.mask)
        job.warn(codes.RANKS_NOT_IN_R, line, f"exception: lost rank {outside} is not the job's")
        mask &= job.rset.mask
    elif not mask:
        job.warn(codes.BAD_VALUE, line, f"exception: can't tell which rank is lost: {note:.64}")
    return mask


def _epilog_start(job: Job, timestamp: float, context: Context, line: int) -> None:
    """The action holds what it names; with ranks that can't be, all (design.md 3)."""
    ledger = job.ledger or _open_ledger(job)
    if job.state == NEW and job.headless:
        _enter(job, CLEANUP, timestamp)
    if context is None or "description" not in context:
        _missing(job, line, "epilog-start", context, "description")
    description = _description(job, line, "epilog-start", context)
    ranks: Optional[int] = None
    named = "all" if context is None else context.get("ranks", "all")
    if named != "all":
        ranks = _ranks(job, line, "epilog-start", named, "it holds all")
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
    ledger = job.ledger or _open_ledger(job)
    if job.state == NEW and job.headless:
        _enter(job, CLEANUP, timestamp)
    if context is None or "description" not in context or "status" not in context:
        _missing(job, line, "epilog-finish", context, "description", "status")
    description = _description(job, line, "epilog-finish", context)
    status = _status(job, line, "epilog-finish", context)
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
    ranks = _ranks(job, line, "partial epilog-finish", value, "no effect")
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
        _need_resources(job, line, "partial-free")
    _need_cleanup(job, timestamp, line, "partial-free")
    if context is None or "ranks" not in context:
        _missing(job, line, "partial-free", context, "ranks")
        return
    ranks = _ranks(job, line, "partial-free", context["ranks"], "no effect")
    if ranks is None:
        return
    again = ranks & job.gone
    if again and context["ranks"] != "all":
        text = f"partial-free: ranks {job.words(again)} had gone before"
        job.warn(codes.BAD_VALUE, line, text)
    _hand_over(job, timestamp, line, "partial-free", ranks & ~job.gone)


def _free(job: Job, timestamp: float, context: Context, line: int) -> None:
    if not job.has_resources:
        _need_resources(job, line, "free")
    if job.state < CLEANUP:
        _need_cleanup(job, timestamp, line, "free")
    if job.handoffs and any(handoff.event == "free" for handoff in job.handoffs):
        job.warn(codes.OUT_OF_ORDER, line, "free again: no effect")
        return
    _hand_over(job, timestamp, line, "free", job.full & ~job.gone)


def _clean(job: Job, timestamp: float, context: Context, line: int) -> None:
    _need_cleanup(job, timestamp, line, "clean")
    if job.has_resources and job.gone != job.full and job.claim_lost is None:
        _hole(job, line, f"clean before free of ranks {job.words(job.full & ~job.gone)}")
    for action in job.unmatched:
        text = f"clean: {action.kind} {action.name} never reported its own end"
        job.warn(codes.PREMATURE_FREE, line, text)
    for action in job.open:
        text = f"clean: {action.kind} {action.name} was open"
        job.warn(codes.PREMATURE_FREE, line, text)
    _enter(job, INACTIVE, timestamp)


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
        _grant(job)
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
