# SPDX-License-Identifier: LGPL-3.0
"""What many logs add up to. Memory does not grow with their number."""

from typing import Dict, List, Optional

from rich.console import Console

from epilog_replay.job import Job
from epilog_replay.text import Row, table
from epilog_replay.words import node_seconds, plural, span

DESCRIPTIONS_MAX = 1000  # further ones are added up under OTHER
OTHER = "(others)"


class Sum:
    """Sum of amounts of which some may be unknown (None)."""

    __slots__ = ("amount", "unknown")

    def __init__(self) -> None:
        self.amount = 0.0
        self.unknown = 0

    def add(self, amount: Optional[float]) -> None:
        """Add an amount, or count it as unknown."""
        if amount is None:
            self.unknown += 1
        else:
            self.amount += amount

    def words(self) -> str:
        """Return the sum as text, with a sign that there is more."""
        return f"{'> ' if self.unknown else ''}{node_seconds(self.amount)}"


class Line:
    """What all actions of one kind and description add up to."""

    __slots__ = ("actions", "open", "held", "longest")

    def __init__(self) -> None:
        self.actions = 0
        self.open = 0
        self.held = Sum()  # node-seconds
        self.longest = 0.0  # seconds


class Totals:
    """Counts and node-seconds over all logs read so far."""

    def __init__(self) -> None:
        self.logs = 0
        self.unusable = 0
        self.warned = 0  # logs with a warning
        self.waited = Sum()
        self.returned = Sum()
        self._lines: Dict[str, Line] = {}

    def add(self, job: Job) -> None:
        """Add one log."""
        self.logs += 1
        if job.warnings:
            self.warned += 1
        if not job.usable:
            self.unusable += 1
            return
        self.waited.add(job.waited_node_seconds())
        if job.what_if is not None:
            self.returned.add(job.what_if.returned_node_seconds)
        for action in job.actions:
            name = f"{action.kind} {action.name}"
            line = self._lines.get(name)
            if line is None:
                if len(self._lines) >= DESCRIPTIONS_MAX:
                    name = OTHER
                line = self._lines.setdefault(name, Line())
            line.actions += 1
            line.held.add(job.action_node_seconds(action))
            end = action.end
            if end is None:
                line.open += 1
                end = job.t_last
            if end - action.start > line.longest:
                line.longest = end - action.start

    def print(self, console: Console, what_if: bool) -> None:
        """Print the totals: a row per description, then the sums."""
        rows: List[Row] = [
            (
                name,
                f"{line.actions:,}",
                f"{line.open:,}",
                span(line.longest),
                line.held.words(),
            )
            for name, line in sorted(
                self._lines.items(), key=lambda item: (-item[1].held.amount, item[0])
            )
        ]
        if rows:
            headers = ("action", "count", "open", "longest", "held node-s")
            console.print()
            console.print(table(headers, rows, right=(1, 2, 3, 4)))
        console.print()
        text = (
            f"{plural(self.logs, 'log')}, {self.unusable:,} unusable,"
            f" {self.warned:,} with warnings; {self.waited.words()} node-seconds waited"
        )
        if self.waited.unknown:
            text += f" (ranks of {plural(self.waited.unknown, 'log')} unknown)"
        if what_if:
            text += f"; {self.returned.words()} would have come back"
        console.print(text, soft_wrap=True)
