# SPDX-License-Identifier: LGPL-3.0
"""Insertions: the only change that a patch makes to a file of flux-core's.

A text is a list of lines (bytes, line end included; only the last may lack one). A hunk is in
git's unified form with zero context lines, and nothing follows its second @@.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = re.compile(rb"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@\n")
NO_EOL = b"\\ No newline at end of file\n"


@dataclass(frozen=True)
class Hunk:
    """Lines that go in after the first `after` lines of the old text."""

    after: int
    lines: tuple[bytes, ...]


def split(data: bytes) -> list[bytes]:
    """Lines of a file, each with its line feed. A carriage return is part of the line."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def insertions(old: list[bytes], new: list[bytes]) -> list[Hunk] | None:
    """The fewest hunks that make new of old, each as late as it can stand; None if lines went.

    far[d] is how many old lines can be matched with d new lines put in and a given number of
    hunks. A hunk placed earlier than there reaches no further: it can be slid down to it.
    """
    rest = iter(new)
    if not all(line in rest for line in old):
        return None

    def match(at: int, put_in: int) -> int:
        while at < len(old) and old[at] == new[at + put_in]:
            at += 1
        return at

    extra = len(new) - len(old)
    far = [match(0, 0)] + [-1] * extra
    levels = []
    while far[extra] < len(old):
        best, source = -1, 0
        reached = [-1] * (extra + 1)
        came_from = [(-1, 0)] * (extra + 1)
        for put_in in range(extra + 1):
            if best >= 0:
                reached[put_in] = match(best, put_in)
                came_from[put_in] = (best, source)
            if far[put_in] > best:
                best, source = far[put_in], put_in
        levels.append(came_from)
        far = reached

    hunks = []
    put_in = extra
    for came_from in reversed(levels):
        after, source = came_from[put_in]
        hunks.append(Hunk(after, tuple(new[after + source : after + put_in])))
        put_in = source
    return hunks[::-1]


def insert(old: list[bytes], hunks: list[Hunk]) -> list[bytes]:
    """Old text with the hunks put in. Raises ValueError where a hunk lies past its end."""
    new: list[bytes] = []
    at = 0
    for hunk in hunks:
        if not at <= hunk.after <= len(old):
            raise ValueError(f"hunk after line {hunk.after} of a file with {len(old)} lines")
        new += old[at : hunk.after]
        new += hunk.lines
        at = hunk.after
    return new + old[at:]


def write(hunks: list[Hunk]) -> bytes:
    """The hunks of one file as patch text."""
    out = []
    put_in = 0
    for hunk in hunks:
        count = len(hunk.lines)
        start = hunk.after + put_in + 1
        out.append(
            b"@@ -%d,0 +%d%s @@\n" % (hunk.after, start, b",%d" % count if count > 1 else b"")
        )
        out += [b"+" + line for line in hunk.lines]
        if not out[-1].endswith(b"\n"):
            out.append(b"\n" + NO_EOL)
        put_in += count
    return b"".join(out)


def read(lines: list[bytes], at: int) -> tuple[list[Hunk], int]:
    """Hunks that start at lines[at], and the index of the first line behind them.

    Raises ValueError (text, index of the line) for anything but insertions in order.
    """
    hunks: list[Hunk] = []
    put_in = 0
    while at < len(lines) and lines[at].startswith(b"@@"):
        head = HEAD.fullmatch(lines[at])
        if not head:
            raise ValueError("hunk is not a bare insertion (@@ -N,0 +M,K @@)", at)
        after, start, count = int(head[1]), int(head[2]), int(head[3] or 1)
        if start != after + put_in + 1 or (hunks and after <= hunks[-1].after) or count == 0:
            raise ValueError("line numbers of the hunk do not add up", at)
        body = lines[at + 1 : at + 1 + count]
        for step, line in enumerate(body, 1):
            if not line.startswith(b"+"):
                raise ValueError("line is not an insertion", at + step)
        if len(body) < count:
            raise ValueError("hunk is cut short", at)
        at += 1 + count
        if at < len(lines) and lines[at] == NO_EOL:
            body[-1] = body[-1][:-1]
            at += 1
        hunks.append(Hunk(after, tuple(line[1:] for line in body)))
        put_in += count
    return hunks, at
