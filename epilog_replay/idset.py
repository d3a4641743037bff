# SPDX-License-Identifier: LGPL-3.0
"""RFC 22 idsets as Python integers: bit r of a mask is set if rank r is in the set.

Text is read as strictly as the ledger reads it (``epilog_decode()`` in epilog.h).
"""

import re
from functools import lru_cache
from typing import Callable, List, Sequence, Tuple

ID_MAX = (1 << 31) - 1  # largest id that flux-core's idsets hold
LIMIT = 1 << 24  # ids from here on are refused where no R bounds them: a mask has a bit per id

_NUMBER = r"(?:0|[1-9][0-9]*)"
_ITEM = rf"{_NUMBER}(?:-{_NUMBER})?"
_IDSET = re.compile(rf"{_ITEM}(?:,{_ITEM})*")
_RUN = re.compile("1+")

Ranges = Sequence[Tuple[int, int]]


class IdsetError(ValueError):
    """Text that is not an RFC 22 idset; the message quotes the start of it."""


def _quote(text: str) -> str:
    return repr(text if len(text) <= 32 else text[:29] + "...")


def parse(text: str) -> Ranges:
    """Return the ids of an RFC 22 idset as ascending pairs (first, last).

    Costs what the text is long, whatever ids it names. Raises IdsetError.
    """
    return _parse_known(text) if len(text) <= 32 else _parse(text)


def _parse(text: str) -> Ranges:
    body = text
    if body[:1] == "[" and body[-1:] == "]" and len(body) > 1:
        body = body[1:-1]
    if not body:
        return ()
    if not _IDSET.fullmatch(body):
        raise IdsetError(f"{_quote(text)} is not an idset (RFC 22)")
    ranges: List[Tuple[int, int]] = []
    previous = -1
    for item in body.split(","):
        first, _, last = item.partition("-")
        if len(first) > 10 or len(last) > 10:
            raise IdsetError(f"{_quote(text)} names an id over {ID_MAX}")
        low = int(first)
        high = int(last) if last else low
        if last and high <= low:
            raise IdsetError(f"{_quote(text)} has a range that does not ascend")
        if low <= previous:
            raise IdsetError(f"{_quote(text)} has an id repeated or out of order")
        if high > ID_MAX:
            raise IdsetError(f"{_quote(text)} names an id over {ID_MAX}")
        ranges.append((low, high))
        previous = high
    return tuple(ranges)


_parse_known = lru_cache(maxsize=1024)(_parse)  # short texts come again and again


def to_mask(ranges: Ranges) -> int:
    """Return the mask of ascending ranges. Costs memory for the highest id: bound it first."""
    if not ranges:
        return 0
    if len(ranges) <= 8:
        mask = 0
        for low, high in ranges:
            mask |= ((1 << (high - low + 1)) - 1) << low
        return mask
    bits = bytearray((ranges[-1][1] >> 3) + 1)
    for low, high in ranges:
        start = low >> 3
        part = ((1 << (high - low + 1)) - 1) << (low & 7)
        octets = part.to_bytes((high >> 3) - start + 1, "little")
        bits[start] |= octets[0]
        if len(octets) > 1:
            bits[start + 1 : start + len(octets)] = octets[1:]
    return int.from_bytes(bits, "little")


def decode(text: str, limit: int = LIMIT) -> int:
    """Return the mask of an RFC 22 idset. IdsetError also on an id of ``limit`` or more."""
    ranges = parse(text)
    if ranges and ranges[-1][1] >= limit:
        raise IdsetError(f"{_quote(text)} names a rank over {limit - 1}")
    return to_mask(ranges)


def to_ranges(mask: int) -> Ranges:
    """Return the ids of a mask as ascending pairs (first, last)."""
    if mask & (mask + 1) == 0:  # empty, or 0 to n
        return [(0, mask.bit_length() - 1)] if mask else []
    return [(m.start(), m.end() - 1) for m in _RUN.finditer(bin(mask)[:1:-1])]


def encode(mask: int) -> str:
    """Return a mask as RFC 22 text in its shortest form; "" for none."""
    if mask & (mask - 1) == 0:  # one id, or none
        return str(mask.bit_length() - 1) if mask else ""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in to_ranges(mask))


def ids(mask: int) -> List[int]:
    """Return the ids of a mask, ascending."""
    return [r for low, high in to_ranges(mask) for r in range(low, high + 1)]


def _count(mask: int) -> int:
    """Return how many ids are in a mask."""
    return bin(mask).count("1")


count: Callable[[int], int] = getattr(int, "bit_count", _count)  # Python 3.10 has it
