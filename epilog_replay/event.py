# SPDX-License-Identifier: LGPL-3.0
"""Events of an eventlog (RFC 18), and the lines that they stand on."""

from typing import Callable, List, Optional, Sequence, Tuple

import msgspec

from epilog_replay import codes, human

Warn = Callable[[str, Optional[int], str], None]  # code, line number, text

# Events of RFC 21, and partial-free.
NAMES = frozenset(
    "submit validate invalidate depend priority urgency jobspec-update resource-update set-flags"
    " dependency-add dependency-remove flux-restart alloc prolog-start prolog-finish start finish"
    " release exception memo epilog-start epilog-finish partial-free free clean".split()
)
TIME_MAX = 1e12  # seconds; later is not a time


class Event(msgspec.Struct, gc=False):
    """One event: ``timestamp`` in seconds since the epoch, ``context`` None if it has none."""

    timestamp: float
    name: str
    context: Optional[dict] = None


_decoder = msgspec.json.Decoder(Event)
_any_decoder = msgspec.json.Decoder()

Events = Tuple[Sequence[Event], Sequence[int]]  # of equal length: events, their line numbers


def _checked(o: object, line: int, warn: Warn) -> Optional[Event]:
    """Return the event that a JSON value holds, or None with a warning that says why not."""
    if not isinstance(o, dict):
        warn(codes.BAD_JSON, line, "not an object")
        return None
    missing = [key for key in ("timestamp", "name") if key not in o]
    if missing:
        warn(codes.MISSING_KEY, line, f"no {' and no '.join(missing)}: passed over")
        return None
    timestamp, name, context = o["timestamp"], o["name"], o.get("context")
    if isinstance(timestamp, bool) or not isinstance(timestamp, (int, float)):
        warn(codes.BAD_VALUE, line, f"timestamp {timestamp!r:.32} is not a number: passed over")
        return None
    if not -TIME_MAX < timestamp < TIME_MAX:
        warn(codes.BAD_VALUE, line, f"timestamp {timestamp!r:.32} is not a time: passed over")
        return None
    if not isinstance(name, str) or not name:
        warn(codes.BAD_VALUE, line, f"name {name!r:.32} is not a name: passed over")
        return None
    if context is not None and not isinstance(context, dict):
        warn(codes.BAD_VALUE, line, f"{name}: context is not an object: read without it")
        context = None
    return Event(float(timestamp), name, context)


def _is_cut(name: str) -> bool:
    """Return whether a name is the beginning of one of RFC 21, and none itself."""
    return name not in NAMES and any(known.startswith(name) for known in NAMES)


def _careful(data: bytes, warn: Warn) -> Events:
    """Read line by line; say of each line that can't be read what is wrong with it."""
    events: List[Event] = []
    numbers: List[int] = []
    lines = data.split(b"\n")
    cut = len(lines) if lines[-1] else 0  # number of a last line without its newline
    clock: Optional[human.Clock] = None
    for number, line in enumerate(lines, 1):
        line = line.strip(b" \t\r")
        if not line:
            continue
        code = codes.CUT_LINE if number == cut else codes.BAD_JSON
        if line[:1] == b"{" or line[:2] == b"[{":
            try:
                event = _checked(_any_decoder.decode(line), number, warn)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
                warn(code, number, str(exc))
                continue
        else:
            clock = clock or human.Clock()
            try:
                event = _checked(clock.read(line), number, warn)
            except human.HumanError as exc:
                warn(code, number, str(exc))
                continue
            if number == cut and event is not None and _is_cut(event.name):
                warn(code, number, f"{event.name} is a part of an event's name only")
                continue
        if event is not None:
            events.append(event)
            numbers.append(number)
    if clock is not None:
        clock.settle(events)
        for text in clock.doubts:
            warn(codes.BAD_VALUE, None, text)
    return events, numbers


def read(data: bytes, warn: Warn) -> Events:
    """Return the events of an eventlog and the line of each, warnings to ``warn``.

    ``data`` is RFC 18 JSON lines or what ``flux job eventlog`` prints, mixed if need be.
    """
    if data[:3] == b"\xef\xbb\xbf":  # a byte order mark
        data = data[3:]
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        events = _decoder.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _careful(data, warn)
    if len(events) != lines:  # blank lines, or an event over two lines
        return _careful(data, warn)
    return events, range(1, lines + 1)
