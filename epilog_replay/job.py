# SPDX-License-Identifier: LGPL-3.0
"""What one log says of its job: filled by replay.py, printed by record.py, text.py, plot.py."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from epilog_replay import idset
from epilog_replay.action import EPILOG, Action
from epilog_replay.event import Event
from epilog_replay.ledger import Ledger
from epilog_replay.rset import ResourceSet

# States of RFC 21, in the order in which a job passes through them.
STATES = ("new", "depend", "priority", "sched", "run", "cleanup", "inactive")
NEW, DEPEND, PRIORITY, SCHED, RUN, CLEANUP, INACTIVE = range(len(STATES))

WARNINGS_MAX = 100  # of one code in one log; more are counted only


class Caution(NamedTuple):
    """One warning. ``line`` is None where it is not about one line."""

    code: str
    line: Optional[int]
    text: str


class Handoff(NamedTuple):
    """Ranks (a mask) that went, and the event that says so: partial-free or free."""

    timestamp: float
    ranks: int
    event: str


class Move(NamedTuple):
    """A step that decides when ranks go, kept for what-if (whatif.py) in the log's order."""

    timestamp: float
    kind: str
    action: Optional[Action] = None
    ranks: int = 0


class Saving(NamedTuple):
    """What what-if rules would have changed; None where ranks are unknown.

    ``handoffs`` are (time, ranks) by the rules.
    """

    waited_node_seconds: Optional[float]
    returned_node_seconds: Optional[float]
    handoffs: List[Tuple[float, int]]


class Job:
    """One log's job. Ranks are masks, times seconds since the epoch.

    Where ranks are unknown, bits stand for the ranks that the log names, and one bit more, the
    highest, for all the others.
    """

    __slots__ = (
        "log",
        "id",
        "events",
        "rset",
        "full",
        "full_text",
        "ranks_known",
        "ledger",
        "state",
        "usable",
        "headless",
        "holed",
        "has_resources",
        "bypass",
        "claim_lost",
        "started",
        "t_start",
        "t_alloc",
        "t_state",
        "t_end",
        "t_cleanup",
        "t_finish",
        "t_exec_done",
        "t_last",
        "actions",
        "open",
        "unmatched",
        "handoffs",
        "gone",
        "lost",
        "warnings",
        "moves",
        "what_if",
        "_counts",
    )

    def __init__(self, log: str, rset: Optional[ResourceSet] = None) -> None:
        self.log = log
        self.id: Optional[str] = None
        self.events: Sequence[Event] = ()
        self.rset = rset
        self.full = 0  # the job's ranks, once has_resources is set
        self.full_text = ""
        self.ranks_known = True
        self.ledger: Optional[Ledger] = None  # made at the first epilog event
        self.state = NEW
        self.usable = True
        self.headless = False  # the log does not begin with submit
        self.holed = False  # a step that must have been is not in the log
        self.has_resources = False  # it was given resources, at some time
        self.bypass = False
        self.claim_lost: Optional[float] = None  # when
        self.started = False
        self.t_start: Optional[float] = None
        self.t_alloc: Optional[float] = None
        self.t_state: Optional[float] = None  # when 'state' was entered
        self.t_end: Optional[float] = None  # of the event that took the job to CLEANUP
        self.t_cleanup: Optional[float] = None  # the first sign of CLEANUP; counted from here
        self.t_finish: Optional[float] = None
        self.t_exec_done: Optional[float] = None
        self.t_last = 0.0
        self.actions: List[Action] = []
        self.open: List[Action] = []  # outstanding ones, oldest first
        self.unmatched: List[Action] = []  # ended by an unmatched finish only
        self.handoffs: List[Handoff] = []
        self.gone = 0
        self.lost = 0
        self.warnings: List[Caution] = []
        self.moves: Optional[List[Move]] = None  # a list if what-if is asked for
        self.what_if: Optional[Saving] = None
        self._counts: Dict[str, int] = {}

    # Warnings

    def warn(self, code: str, line: Optional[int], text: str) -> None:
        """Note a warning; of one code not more than WARNINGS_MAX are kept."""
        count = self._counts.get(code, 0) + 1
        self._counts[code] = count
        if count <= WARNINGS_MAX:
            self.warnings.append(Caution(code, line, text))

    def close_warnings(self) -> None:
        """The log is read: say how many warnings were counted only."""
        for code, count in self._counts.items():
            if count > WARNINGS_MAX:
                text = f"{count - WARNINGS_MAX} more of these are not shown"
                self.warnings.append(Caution(code, None, text))

    # Ranks

    def text(self, ranks: int) -> Optional[str]:
        """Return ranks as RFC 22 text, or "all". None if they are a part of unknown ranks."""
        if ranks == self.full:
            return self.full_text
        if not ranks:
            return ""
        if not self.ranks_known and ranks >> (self.full.bit_length() - 1):
            return None
        return idset.encode(ranks)

    def words(self, ranks: int) -> str:
        """Return ranks as text for people."""
        text = self.text(ranks)
        if text is None:
            return f"all but {idset.encode(self.full & ~ranks)}"
        return text or "none"

    def lost_text(self) -> str:
        """Return the ranks that node-failure exceptions name."""
        return idset.encode(self.lost)

    def count(self, ranks: int) -> Optional[int]:
        """Return how many ranks these are, None if unknown."""
        if ranks and self.ranks_known and self.rset is not None and ranks == self.full:
            return self.rset.nranks
        return None if self.text(ranks) in (None, "all") else idset.count(ranks)

    @property
    def held(self) -> int:
        """Ranks that open actions, prologs too, hold at the end of the log."""
        held = 0
        for action in self.open:
            held |= action.held
        return held

    def holders(self) -> List[Tuple[int, List[str]]]:
        """Return (ranks, names of those that hold them), every held rank once."""
        groups: List[Tuple[int, List[str]]] = []
        for action in self.open:
            rest = action.held
            split: List[Tuple[int, List[str]]] = []
            for ranks, names in groups:
                both = ranks & rest
                if both:
                    split.append((both, [*names, action.name]))
                if ranks & ~rest:
                    split.append((ranks & ~rest, names))
                rest &= ~ranks
            if rest:
                split.append((rest, [action.name]))
            groups = split
        return sorted(groups, key=lambda group: group[0] & -group[0])

    # Node-seconds: None where ranks are unknown. What is open counts to the log's last event.

    def hold_node_seconds(self, ranks: int, end: float, start: float = 0.0) -> Optional[float]:
        """Return the node-seconds of ranks from ``start``, but not before CLEANUP, to ``end``."""
        if self.t_cleanup is None:
            return 0.0
        seconds = end - max(start, self.t_cleanup)
        if seconds <= 0.0:
            return 0.0
        count = self.count(ranks)
        return None if count is None else count * seconds

    def action_node_seconds(self, action: Action) -> Optional[float]:
        """Return the node-seconds that one action held since the job went to CLEANUP."""
        if self.t_cleanup is None:
            return 0.0
        total = 0.0
        start = action.start
        for end, ranks in action.let_go:
            seconds = self.hold_node_seconds(ranks, end, start)
            if seconds is None:
                return None
            total += seconds
        if action.held:
            seconds = self.hold_node_seconds(action.held, self.t_last, start)
            return None if seconds is None else total + seconds
        return total

    def held_node_seconds(self) -> Dict[str, Optional[float]]:
        """Return node-seconds held since CLEANUP by description; a prolog's only if any."""
        held: Dict[str, Optional[float]] = {}
        for action in self.actions:
            seconds = self.action_node_seconds(action)
            if action.kind == EPILOG or seconds != 0.0:
                before = held.get(action.name, 0.0)
                held[action.name] = None if seconds is None or before is None else before + seconds
        return held

    def waited_node_seconds(self) -> Optional[float]:
        """Return node-seconds from CLEANUP until the ranks went, whatever held them.

        0 for a job that had no resources of the scheduler.
        """
        if not self.has_resources or self.bypass:
            return 0.0
        total = 0.0
        for timestamp, ranks, _ in self.handoffs:
            seconds = self.hold_node_seconds(ranks, timestamp)
            if seconds is None:
                return None
            total += seconds
        ranks = self.full & ~self.gone
        if ranks:
            end = self.t_last if self.claim_lost is None else self.claim_lost
            seconds = self.hold_node_seconds(ranks, end)
            return None if seconds is None else total + seconds
        return total


def unusable(log: str, code: str, text: str) -> Job:
    """Return the record of a log that can't be read at all."""
    job = Job(log)
    job.usable = False
    job.warn(code, None, text)
    return job
