# SPDX-License-Identifier: LGPL-3.0
"""The report for people: a block for one log, a line each for many."""

from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from epilog_replay import blocker
from epilog_replay.action import Action
from epilog_replay.job import INACTIVE, STATES, Handoff, Job
from epilog_replay.words import node_seconds, plural, printable, shorten, span, status, when

ROWS_MAX = 12  # of one action, or of what went; more are counted
RANKS_MAX = 40  # characters of an idset in a table
NAME_MAX = 44  # characters of a log's name in a line

Row = Tuple[str, ...]
T = TypeVar("T")


def _blocker_words(job: Job, found: blocker.Blocker) -> str:
    """Return what blocks the job: who, which ranks, since when, how long by the log's end."""
    what = {"exec": "the job's shells (exec)", "scheduler": "the scheduler"}.get(
        found.kind, f"{found.kind} {found.description}"
    )
    ranks = f" on ranks {shorten(job.words(found.ranks), RANKS_MAX)}" if found.ranks else ""
    if found.since is None:
        return what + ranks
    age = span(max(0.0, job.t_last - found.since))
    return f"{what}{ranks} since {when(found.since)} ({age} by the end of the log)"


def _limited(items: Sequence[T], row: Callable[[T], Row], more: Row) -> List[Row]:
    """Return a row for each item; for many, the first and the last, ``more`` between them."""
    if len(items) <= ROWS_MAX:
        return [row(item) for item in items]
    half = ROWS_MAX // 2
    gap = tuple(cell.format(len(items) - 2 * half) for cell in more)
    return [*map(row, items[:half]), gap, *map(row, items[-half:])]


def _action_rows(job: Job, action: Action) -> List[Row]:
    """Return (action, ranks, from, to, held, node-seconds, status) of one action's holds."""
    name = f"{action.kind} {action.name}"
    how = "open" if action.end is None else status(action.status)

    def row(interval: Tuple[int, float, Optional[float]]) -> Row:
        ranks, start, end = interval
        until = job.t_last if end is None else end
        return (
            name,
            shorten(job.words(ranks), RANKS_MAX),
            when(start),
            "open" if end is None else when(end),
            span(max(0.0, until - start)),
            node_seconds(job.hold_node_seconds(ranks, until, start)),
            how if end == action.end else "",
        )

    intervals = action.intervals() or [(0, action.start, action.end)]
    return _limited(intervals, row, (name, "({} more)", "", "", "", "", ""))


def table(headers: Row, rows: List[Row], right: Tuple[int, ...] = ()) -> Table:
    """Return a table, the columns in ``right`` flush right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        made.add_column(header, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def _say(console: Console, text: str, style: Optional[str] = None) -> None:
    console.print(Text(printable(text), style=style or ""), soft_wrap=True)


def _handoff_row(job: Job, handoff: Handoff) -> Row:
    """Return (went, ranks, event) of one handoff."""
    return when(handoff.timestamp), shorten(job.words(handoff.ranks), RANKS_MAX), handoff.event


def _head(job: Job) -> str:
    ranks = f"ranks {shorten(job.words(job.full), RANKS_MAX)}"
    count = job.count(job.full)
    if count:
        ranks += f" ({plural(count, 'rank')})"
    if not job.has_resources:
        ranks = "no ranks: it was never given resources"
    words = [job.log, *([f"job {job.id}"] if job.id else []), ranks]
    if job.bypass:
        words.append("allocation bypasses the scheduler")
    return "  ".join(words)


def _what_if(console: Console, job: Job) -> None:
    saving = job.what_if
    if saving is None:
        return

    def row(handoff: Tuple[float, int]) -> Row:
        return when(handoff[0]), shorten(job.words(handoff[1]), RANKS_MAX)

    if saving.handoffs:
        console.print()
        rows = _limited(saving.handoffs, row, ("", "({} more)"))
        console.print(table(("would have gone", "ranks"), rows))
    _say(
        console,
        f"what if: {node_seconds(saving.returned_node_seconds)} node-seconds returned,"
        f" {node_seconds(saving.waited_node_seconds)} waited",
        "bold",
    )


def block(console: Console, job: Job) -> None:
    """Print all about one log."""
    if not job.usable:
        _say(console, f"{job.log}: unusable", "bold red")
        _warnings(console, job)
        return
    _say(console, _head(job), "bold")
    since = f" since {when(job.t_state)}" if job.t_state is not None else ""
    _say(console, f"state {STATES[job.state]}{since}")
    found = blocker.find(job)
    if found is not None:
        _say(console, f"waits for {_blocker_words(job, found)}", "yellow")
    if job.lost:
        _say(console, f"lost ranks {job.lost_text()}", "red")
    rows = [row for action in job.actions for row in _action_rows(job, action)]
    if rows:
        headers = ("action", "ranks", "from", "to", "held", "node-s", "status")
        console.print()
        console.print(table(headers, rows, right=(4, 5)))
    if job.handoffs:
        console.print()
        rows = _limited(job.handoffs, partial(_handoff_row, job), ("", "({} more)", ""))
        console.print(table(("went", "ranks", "event"), rows))
    console.print()
    if job.t_cleanup is not None and job.has_resources and not job.bypass:
        waited = node_seconds(job.waited_node_seconds())
        _say(console, f"waited {waited} node-seconds from CLEANUP until the ranks went")
    if job.state == INACTIVE and job.handoffs:
        _say(console, "housekeeping, if configured, runs after these events and is not in the log")
    _what_if(console, job)
    _warnings(console, job)


def _warnings(console: Console, job: Job) -> None:
    for code, number, text in job.warnings:
        where = f"line {number}: " if number is not None else ""
        _say(console, f"{code}: {where}{text}", "magenta")


def warnings_brief(job: Job) -> str:
    """Return the codes of a log's warnings with their lines: ``bad-json:1,8 empty``."""
    lines: Dict[str, List[str]] = {}
    for code, number, _ in job.warnings:
        where = lines.setdefault(code, [])
        if number is not None and len(where) < 4:
            where.append(str(number) if len(where) < 3 else "...")
    return " ".join(f"{code}:{','.join(at)}" if at else code for code, at in lines.items())


def line(job: Job) -> str:
    """Return one log in one line: name, state, ranks, node-seconds waited, blocker, warnings."""
    name = job.log
    if len(name) > NAME_MAX:
        name = shorten(name[name.rstrip("/").rfind("/") + 1 :], NAME_MAX)
    brief = warnings_brief(job) if job.warnings else ""
    if not job.usable:
        text = f"{name:{NAME_MAX}}  unusable: {job.warnings[-1].text}"
    else:
        text = (
            f"{name:{NAME_MAX}}  {STATES[job.state]:8}"
            f"  {shorten(job.full_text or 'none', 14):14}"
            f"  {node_seconds(job.waited_node_seconds()):>14}"
        )
        if job.what_if is not None:
            text += f"  {node_seconds(job.what_if.returned_node_seconds):>14}"
        if job.state != INACTIVE:
            found = blocker.find(job)
            if found is not None:
                text += f"  {_blocker_words(job, found)}"
    if brief:
        text += f"  [{brief}]"
    return printable(text)


def line_header(what_if: bool) -> str:
    """Return the header of the lines."""
    text = f"{'log':{NAME_MAX}}  {'state':8}  {'ranks':14}  {'waited node-s':>14}"
    return text + (f"  {'returned':>14}" if what_if else "") + "  waits for [warnings]"
