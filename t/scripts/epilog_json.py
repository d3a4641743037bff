# SPDX-License-Identifier: LGPL-3.0
"""JSON as flux-core reads it, that is as jansson does with JSON_ALLOW_NUL."""

import json
import math
import sys
from typing import Any, List, Tuple

DEPTH = 2048  # of arrays and objects in each other
INTEGERS = range(-(2**63), 2**63)

sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * DEPTH))


def refuse(text: str) -> None:
    """NaN and Infinity are not JSON."""
    raise ValueError(text)


class Object(dict):
    """A JSON object. What comes later counts, what came before must be right too."""

    def __init__(self, pairs: List[Tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def check(value: Any) -> None:
    """Refuse what Python takes and jansson doesn't. ValueError."""
    todo = [(value, 1)]
    while todo:
        value, depth = todo.pop()
        if isinstance(value, str):
            if any("\ud800" <= char <= "\udfff" for char in value):
                raise ValueError("a character that can't be in a string")
        elif isinstance(value, float):
            if math.isinf(value):
                raise ValueError("a number that is too large")
        elif isinstance(value, int):
            if value not in INTEGERS:
                raise ValueError("a number that is too large")
        elif isinstance(value, (list, dict)):
            if depth > DEPTH:
                raise ValueError("too deep")
            parts = value
            if isinstance(value, dict):
                if any("\0" in key for key, _ in value.pairs):
                    raise ValueError("a character that can't be in a key")
                parts = [part for pair in value.pairs for part in pair]
            todo.extend((part, depth + 1) for part in parts)


def decode(text: str) -> Any:
    """Return the value of a text. ValueError if it has none."""
    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=Object)
    except RecursionError:
        raise ValueError("too deep") from None
    check(value)
    return value
