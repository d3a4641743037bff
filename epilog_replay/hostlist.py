# SPDX-License-Identifier: LGPL-3.0
"""RFC 29 hostlists, as far as R's nodelist needs them: text to names in order."""

import re
from typing import Iterator, List

LIMIT = 1 << 20  # hosts in one list

_EXPRESSION = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


class HostlistError(ValueError):
    """Text that is not an RFC 29 hostlist."""


def _ids(text: str) -> Iterator[str]:
    """Expand an idlist; the width of its first number holds for all of them (RFC 29)."""
    width = 0
    for index, item in enumerate(text.split(",")):
        match = _RANGE.fullmatch(item)
        if not match or max(map(len, item.split("-"))) > 18:
            raise HostlistError(f"'[{text[:32]}]' is not a list of ids")
        first, last = match.group(1), match.group(2) or match.group(1)
        if index == 0 and first.startswith("0"):
            width = len(first)
        if int(last) < int(first) or int(last) - int(first) >= LIMIT:
            raise HostlistError(f"'[{text[:32]}]' has a bad range")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{width}d}"


def _expand(expression: str) -> Iterator[str]:
    prefix, bracket, rest = expression.partition("[")
    if not bracket:
        yield expression
        return
    idlist, _, suffix = rest.partition("]")
    for number in _ids(idlist):
        for tail in _expand(suffix):
            yield f"{prefix}{number}{tail}"


_SIMPLE = re.compile(r"[^\s,\[\]]*(?:\[([0-9]{1,9})-([0-9]{1,9})\])?")


def count(text: str) -> int:
    """Return how many hosts a hostlist names, in the common case without naming them.

    Raises HostlistError.
    """
    match = _SIMPLE.fullmatch(text)
    if match and text:
        first, last = match.groups("0")
        if int(first) <= int(last) < int(first) + LIMIT:
            return int(last) - int(first) + 1
    return len(decode(text))


def decode(text: str) -> List[str]:
    """Return the host names of an RFC 29 hostlist, in order, repeats kept.

    Raises HostlistError on text that is not one, or that names more than LIMIT hosts.
    """
    hosts: List[str] = []
    position = 0
    while position < len(text):
        match = _EXPRESSION.match(text, position)
        if not match:
            raise HostlistError(f"{text[:32]!r} is not a hostlist (RFC 29)")
        for host in _expand(match.group()):
            if len(hosts) >= LIMIT:
                raise HostlistError(f"{text[:32]!r} names more than {LIMIT} hosts")
            hosts.append(host)
        position = match.end()
        if position < len(text):
            if text[position] != "," or position + 1 == len(text):
                raise HostlistError(f"{text[:32]!r} is not a hostlist (RFC 29)")
            position += 1
    return hosts
