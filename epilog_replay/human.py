# SPDX-License-Identifier: LGPL-3.0
"""What ``flux job eventlog`` prints for people: ``TIME NAME KEY=JSON...``, one event a line.

TIME is seconds (raw), an offset from the first event, ISO 8601, or with ``-H`` either
``[May08 13:29]``, the minute of an event, or ``[  +0.014874]``, seconds after that event.
"""

import datetime
import json
import re
import time
from typing import Any, Dict, List, Optional, Tuple

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]+)?")
_MINUTE = re.compile(rf"\[({'|'.join(_MONTHS)})([0-9]{{1,2}}) ([0-9]{{2}}):([0-9]{{2}})\]")
_OFFSET = re.compile(r"\[ *([+-][0-9]+\.[0-9]+)\]")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_KEY = re.compile(r"\s+([^\s=]+)=")
_NAME = re.compile(r"\s+([^\s=]+)")
_value = json.JSONDecoder()

HALF_YEAR = 183 * 86400.0  # seconds


class HumanError(ValueError):
    """A line that is not an event in any of these forms."""


def _context(text: str, position: int) -> Optional[Dict[str, Any]]:
    """Read ``KEY=JSON`` pairs to the end of ``text``; None if there are none."""
    context: Dict[str, Any] = {}
    while text[position:].strip():
        match = _KEY.match(text, position)
        if not match:
            raise HumanError(f"{text[position:].strip()[:32]!r} is not KEY=VALUE")
        try:
            context[match.group(1)], position = _value.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            raise HumanError(f"the value of {match.group(1)[:32]} is not JSON") from None
        if position < len(text) and not text[position].isspace():
            raise HumanError(f"junk after the value of {match.group(1)[:32]}")
    return context or None


def _whole(text: str) -> bool:
    """Return whether no JSON string in ``text`` escapes a lone half of a surrogate pair."""
    if "\\u" not in text:
        return True
    rest = re.sub(r"(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", "", text)
    return not re.search(r"(?i)\\ud[89a-f][0-9a-f]{2}", rest)


class Clock:
    """Reads lines of one log and knows the time that the one before them stood at.

    ``doubts`` are texts on what the times of the log leave open.
    """

    def __init__(self, now: Optional[float] = None) -> None:
        self.doubts: List[str] = []
        self._now = time.time() if now is None else now
        self._minute: Optional[float] = None  # of the last [May08 13:29], as in year 'year'
        self._year = time.localtime(self._now).tm_year
        self._yearless = False

    def _at_minute(self, month: int, day: int, hour: int, minute: int) -> float:
        """Return the time, local, of a minute without a year, at or after the one before it."""
        for _ in range(9):  # 29 February comes again in 8 years at the latest
            try:
                at = datetime.datetime(self._year, month, day, hour, minute).timestamp()
            except (ValueError, OverflowError):
                self._year -= 1
                continue
            if self._minute is None or at > self._minute - HALF_YEAR:
                return at
            self._year += 1
        raise HumanError(f"{_MONTHS[month - 1]}{day:02d} {hour:02d}:{minute:02d} is not a time")

    def _time(self, text: str) -> Tuple[float, int]:
        """Return the time that ``text`` begins with, and where it ends."""
        match = _MINUTE.match(text)
        if match:
            month, day, hour, minute = match.groups()
            self._minute = self._at_minute(
                _MONTHS.index(month) + 1, int(day), int(hour), int(minute)
            )
            self._yearless = True
            return self._minute, match.end()
        match = _OFFSET.match(text)
        if match:
            if self._minute is None:
                raise HumanError(f"{match.group()} is an offset from a line that is missing")
            return round(self._minute + float(match.group(1)), 6), match.end()
        match = _ISO.match(text)
        if match:
            day, fraction, zone = match.groups()
            zone = "+0000" if zone == "Z" else (zone or "").replace(":", "")
            form = "%Y-%m-%d %H:%M:%S" + ("%z" if zone else "")
            try:
                at = datetime.datetime.strptime(day.replace("T", " ") + zone, form).timestamp()
            except (ValueError, OverflowError):
                raise HumanError(f"{match.group()} is not a time") from None
            return round(at + float(f"0.{fraction or 0}"), 6), match.end()
        match = _NUMBER.match(text)
        if match:
            return float(match.group()), match.end()
        raise HumanError(f"{text[:32]!r} is not an event")

    def read(self, line: bytes) -> Dict[str, Any]:
        """Return timestamp, name and context of a line. Raises HumanError."""
        try:
            text = _COLOR.sub("", line.decode("utf-8"))
        except UnicodeDecodeError:
            raise HumanError("not UTF-8 text") from None
        timestamp, position = self._time(text)
        if not _whole(text):
            raise HumanError("half of a surrogate pair in a string")
        match = _NAME.match(text, position)
        if not match:
            raise HumanError(f"{text[:32]!r} has no event name")
        return {
            "timestamp": timestamp,
            "name": match.group(1),
            "context": _context(text, match.end()),
        }

    def settle(self, events: List[Any]) -> None:
        """All lines are read: put the times of ``events`` right where that takes all of them.

        Times without a year are put in the last year in which none of them lies ahead.
        """
        if self._yearless:
            back = 0
            while (
                events
                and back < 9
                and max(_year_back(e.timestamp, back) for e in events) > (self._now + 86400)
            ):
                back += 1
            for event in events:
                event.timestamp = _year_back(event.timestamp, back)
            year = time.localtime(events[-1].timestamp).tm_year if events else self._year
            self.doubts.append(
                f"the times have no year and no seconds: {year} is assumed,"
                " and spans over a full minute may be 59 s off"
            )
        elif events and events[0].timestamp == 0.0:
            self.doubts.append("the times are offsets from the first event")


def _year_back(timestamp: float, years: int) -> float:
    """Return the same local date and time ``years`` years before."""
    if not years:
        return timestamp
    at = datetime.datetime.fromtimestamp(timestamp)
    try:
        return at.replace(year=at.year - years).timestamp()
    except ValueError:  # 29 February
        return timestamp - years * 365.25 * 86400
