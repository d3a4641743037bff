# SPDX-License-Identifier: LGPL-3.0
"""The record of one epilog or prolog action: what it held, from when, until when."""

from typing import List, Optional, Tuple

EPILOG = "epilog"
PROLOG = "prolog"


class Action:
    """An action as the log tells it; which ranks it lets go of when is the ledger's word.

    Ranks are masks (idset.py), times are seconds since the epoch.
    """

    __slots__ = (
        "kind",
        "description",
        "start",
        "end",
        "status",
        "held",
        "let_go",
        "holds_all",
        "unmatched",
    )

    def __init__(
        self, kind: str, description: Optional[str], start: float, held: int, holds_all: bool
    ):
        self.kind = kind
        self.description = description
        self.start = start
        self.end: Optional[float] = None  # None: still open
        self.status: Optional[int] = None  # wait status of its finish event
        self.held = held  # what it holds now
        self.let_go: List[Tuple[float, int]] = []  # (when, ranks), in the order of the log
        self.holds_all = holds_all  # started without naming ranks
        self.unmatched = 0  # ranks whose hold ended by an unmatched finish only

    @property
    def name(self) -> str:
        """The description as text, for an action that has none too."""
        return self.description if self.description is not None else "(no description)"

    def release(self, ranks: int, timestamp: float) -> None:
        """It does not hold ``ranks`` any more."""
        ranks &= self.held
        if ranks:
            self.held &= ~ranks
            self.let_go.append((timestamp, ranks))

    def finish(self, timestamp: float, status: Optional[int]) -> None:
        """It ends and lets go of the rest."""
        if self.held:
            self.let_go.append((timestamp, self.held))
            self.held = 0
        self.end = timestamp
        self.status = status

    def intervals(self) -> List[Tuple[int, float, Optional[float]]]:
        """Return (ranks, start, end) of its holds, end None for what it still holds."""
        found: List[Tuple[int, float, Optional[float]]] = [
            (ranks, self.start, end) for end, ranks in self.let_go
        ]
        if self.held:
            found.append((self.held, self.start, None))
        return found
