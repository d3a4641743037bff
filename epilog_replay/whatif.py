# SPDX-License-Identifier: LGPL-3.0
"""What-if: had an action held other ranks, or let go of them sooner.

The steps of a log are played through a second ledger by the job manager's rule: a rank goes
when the job is in CLEANUP, its shells are done, no prolog is open and no action holds it. Once
as the log tells it, once with the action changed; the difference is what would have come back.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from epilog_replay import idset
from epilog_replay.action import EPILOG, Action
from epilog_replay.job import Job, Move, Saving
from epilog_replay.ledger import Ledger

# Seconds. An epilog-start that follows so soon was queued already when the event before it was
# handled, and the job manager lets nothing go while one is queued.
QUEUED = 1.0


class Rule(NamedTuple):
    """How an action is changed.

    ``description`` holds ``ranks`` (RFC 22 text or "all") from its start on, and lets go of all
    of them ``seconds`` after it (None: at its finish). The log's partial finishes of it are void.
    """

    description: str
    ranks: str
    seconds: Optional[float]


class RuleError(ValueError):
    """Text that is not DESC=RANKS[@SECONDS]."""


def parse(text: str) -> Rule:
    """Return the rule of ``DESC=RANKS[@SECONDS]``. Raises RuleError."""
    description, equals, rest = text.rpartition("=")
    if not equals or not description:
        raise RuleError(f"{text!r:.64} is not DESC=RANKS[@SECONDS]")
    ranks, at, after = rest.partition("@")
    seconds: Optional[float] = None
    if at:
        try:
            seconds = float(after)
        except ValueError:
            seconds = -1.0
        if not 0.0 <= seconds < 1e12:
            raise RuleError(f"{after!r:.32} in {text!r:.64} is not a number of seconds")
    if ranks != "all":
        try:
            idset.decode(ranks)
        except idset.IdsetError as exc:
            raise RuleError(f"{text!r:.64}: {exc}") from None
    return Rule(description, ranks, seconds)


class _Play:
    """One play of a job's moves; ``went`` is (time, ranks) in the order in which they went."""

    def __init__(self, job: Job, rules: Dict[str, Rule], early: Dict[int, int]) -> None:
        self.went: List[Tuple[float, int]] = []
        self.early: Dict[int, int] = {}  # move -> ranks that the log let go against the rule
        self._job = job
        self._rules = rules
        self._forced = early
        self._ledger = Ledger(idset.encode(job.full))
        self._gone = 0
        self._cleanup = False
        # A log without start has no shells to wait for, unless it says that they were released.
        self._running = any(move.kind == "release" for move in job.moves or ())
        self._over = False  # the claim is lost: nothing goes any more
        self._now = 0.0
        self._timers: List[Tuple[float, str]] = []

    def run(self) -> "_Play":
        moves = self._job.moves or []
        for index, move in enumerate(moves):
            self._timers_until(move.timestamp)
            self._now = max(self._now, move.timestamp)
            self._step(index, move)
            follower = moves[index + 1] if index + 1 < len(moves) else None
            queued = (
                follower is not None
                and follower.kind == "epilog-start"
                and follower.timestamp - move.timestamp < QUEUED
            )
            if not queued:
                self._go()
        self._timers_until(self._job.t_last)
        return self

    def _timers_until(self, timestamp: float) -> None:
        """Let go what rules let go of before ``timestamp``."""
        while self._timers and self._timers[0][0] <= timestamp:
            at, name = self._timers.pop(0)
            self._now = max(self._now, at)
            if any(action.description == name for action in self._ledger.actions()):
                self._ledger.release(name, None)
            self._go()

    def _go(self) -> None:
        if not self._cleanup or self._running or self._over:
            return
        ready = self._ledger.ready()
        if ready:
            self._ledger.gone(ready)
            self._left(idset.decode(ready))

    def _left(self, ranks: int) -> None:
        self._gone |= ranks
        self.went.append((self._now, ranks))

    def _step(self, index: int, move: Move) -> None:
        kind = move.kind
        if kind == "cleanup":
            self._cleanup = True
        elif kind == "start":
            self._running = True
        elif kind == "release":
            self._running = False
        elif kind == "claim":
            self._over = True
        elif kind == "prolog-start":
            self._ledger.prolog_start()
        elif kind == "prolog-finish":
            self._ledger.prolog_finish()
        elif kind == "gone":
            self._record(index, move.ranks)
        else:
            assert move.action is not None
            self._act(kind, move.action, move.ranks)

    def _record(self, index: int, ranks: int) -> None:
        """The log says that ranks went; by the rule they should have by now."""
        early = ranks & ~self._gone
        if not self._rules:
            self.early[index] = early
        else:
            early &= self._forced.get(index, 0)
        if early:
            self._ledger.restore_gone(idset.encode(early))
            self._left(early)

    def _act(self, kind: str, action: Action, ranks: int) -> None:
        name = str(id(action))  # one name for each: the log has matched them already
        rule = self._rules.get(action.name)
        if kind == "epilog-start":
            text: Optional[str] = None
            if rule is not None:
                if rule.ranks != "all":
                    ranks = idset.decode(rule.ranks) & self._job.full
                    text = idset.encode(ranks & ~self._gone)
                if rule.seconds is not None:
                    self._timers.append((self._now + rule.seconds, name))
                    self._timers.sort()
            elif not action.holds_all:
                text = idset.encode(ranks & ~self._gone)
            self._ledger.start(name, text, self._now)
        elif kind == "epilog-finish":
            self._ledger.finish(name)
        elif rule is None:  # a partial finish; a rule says when instead
            self._ledger.release(name, idset.encode(ranks))


def _waited(job: Job, went: List[Tuple[float, int]]) -> float:
    """Return node-seconds from CLEANUP until ranks went by a play."""
    assert job.t_cleanup is not None
    end = job.t_last if job.claim_lost is None else job.claim_lost
    left = job.full
    total = 0.0
    for timestamp, ranks in went:
        total += idset.count(ranks) * max(0.0, timestamp - job.t_cleanup)
        left &= ~ranks
    return total + idset.count(left) * max(0.0, end - job.t_cleanup)


def weigh(job: Job, rules: Dict[str, Rule]) -> Saving:
    """Return what ``rules`` (by description) would have changed. ``job.moves`` must be kept.

    The time that the job manager took to act in the log is kept: it waits the log's
    waited_node_seconds less what comes back.
    """
    if not job.has_resources or job.bypass or job.t_cleanup is None:
        return Saving(0.0, 0.0, [])
    told = _Play(job, {}, {}).run()
    changed = _Play(job, rules, told.early).run()
    waited = job.waited_node_seconds()
    if waited is None:
        return Saving(None, None, changed.went)
    returned = _waited(job, told.went) - _waited(job, changed.went)
    return Saving(waited - returned, returned, changed.went)


def applies(job: Job, rules: Dict[str, Rule]) -> List[str]:
    """Return the descriptions of rules that the job has an epilog action for."""
    names = {action.name for action in job.actions if action.kind == EPILOG}
    return [name for name in rules if name in names]
