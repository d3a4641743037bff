# SPDX-License-Identifier: LGPL-3.0
"""Steps that a job takes as its log is replayed: resources, states, the ledger, handoffs."""

from typing import Sequence

from epilog_replay import codes, idset, rset
from epilog_replay.event import Event
from epilog_replay.job import CLEANUP, Handoff, Job, Move
from epilog_replay.keys import Context
from epilog_replay.ledger import Ledger

# Events that only a job with resources has.
_RESOURCE_EVENTS = frozenset(
    ("alloc", "start", "finish", "release", "free", "partial-free", "prolog-start", "prolog-finish")
)
_RANKS_EVENTS = frozenset(("epilog-start", "epilog-finish", "partial-free"))


def named_ranks(events: Sequence[Event]) -> int:
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


def grant(job: Job, alloc: Context = None) -> None:
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
        named = named_ranks(job.events)
        job.full = named | 1 << named.bit_length()
        job.full_text = "all"
        text = "no R and no alloc annotation with ranks: they are called 'all'"
        job.warn(codes.RANKS_UNKNOWN, None, text)


def need_resources(job: Job, line: int, name: str) -> None:
    """An event that only a job with resources has, but no alloc before it."""
    grant(job)
    hole(job, line, f"{name} without alloc")


def hole(job: Job, line: int, text: str) -> None:
    """A step is not in the log. Said once, and not of a log whose head is known to be missing."""
    if not job.headless and not job.holed:
        job.holed = True
        job.warn(codes.OUT_OF_ORDER, line, f"{text}: a part of the log is missing")


def enter(job: Job, state: int, timestamp: float) -> None:
    """The job goes to ``state``."""
    job.state = state
    job.t_state = timestamp
    if state == CLEANUP:
        job.t_cleanup = timestamp
        if job.moves is not None:
            job.moves.append(Move(timestamp, "cleanup"))


def end(job: Job, timestamp: float) -> None:
    """This event takes the job to CLEANUP, if it is not there."""
    if job.state < CLEANUP:
        job.t_end = timestamp
        enter(job, CLEANUP, timestamp)


def need_cleanup(job: Job, timestamp: float, line: int, name: str) -> None:
    """An event that comes in CLEANUP only."""
    if job.state < CLEANUP:
        hole(job, line, f"{name} before the event that ended the job")
        enter(job, CLEANUP, timestamp)


def open_ledger(job: Job) -> Ledger:
    """Make the ledger. A head that is missing may have held the alloc: look at what follows."""
    if not job.has_resources and any(e.name in _RESOURCE_EVENTS for e in job.events):
        grant(job)
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


def hand_over(job: Job, timestamp: float, line: int, name: str, ranks: int) -> None:
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
    if not job.open:
        job.ledger = None  # nothing is outstanding: should more come, a new one is made
    elif job.ledger is not None:
        job.ledger.restore_gone(None if ranks == job.full else idset.encode(ranks))
    if ranks:
        job.handoffs.append(Handoff(timestamp, ranks, name))
        if job.moves is not None:
            job.moves.append(Move(timestamp, "gone", None, ranks))
