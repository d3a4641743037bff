# SPDX-License-Identifier: LGPL-3.0
"""Times, spans and amounts as text for people."""

import datetime
import os
from typing import Optional

_EPOCH_LIKELY = 1e8  # seconds; smaller times are of a rebased log, and no date


def when(timestamp: Optional[float]) -> str:
    """Return a time as UTC to the millisecond; "-" for None, seconds for a rebased log."""
    if timestamp is None:
        return "-"
    if not _EPOCH_LIKELY <= timestamp < 2.5e11:
        return f"{timestamp:.6f}"
    at = datetime.datetime.fromtimestamp(timestamp, datetime.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def span(seconds: float) -> str:
    """Return a span of time, two units at most."""
    if seconds < 60.0:
        return f"{seconds:.3f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole // 60 % 60:02d}m"
    return f"{whole // 86400}d{whole // 3600 % 24:02d}h"


def node_seconds(amount: Optional[float]) -> str:
    """Return node-seconds; "?" if unknown."""
    return "?" if amount is None else f"{amount:,.1f}"


def status(status: Optional[int]) -> str:
    """Return a wait status (RFC 21) in words; "" for none."""
    if status is None:
        return ""
    if status & 0x7F:
        return f"signal {status & 0x7F}"
    code = status >> 8
    return "ok" if code == 0 else f"exit {code}"


def plural(count: int, noun: str) -> str:
    """Return "1 log", "2 logs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shorten(text: str, width: int) -> str:
    """Return the text in at most ``width`` characters, the middle left out."""
    if len(text) <= width:
        return text
    half = (width - 3) // 2
    return f"{text[: width - 3 - half]}...{text[len(text) - half :]}"


def printable(text: str) -> str:
    """Return text from a log with nothing in it that could upset a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def columns() -> int:
    """Return how wide text output may be."""
    try:
        return max(80, os.get_terminal_size(1).columns)
    except (OSError, ValueError):
        return 120
