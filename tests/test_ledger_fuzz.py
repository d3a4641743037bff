# SPDX-License-Identifier: LGPL-3.0
"""Contexts of epilog events, mostly bad, thrown at the ledger by the hundred thousand.

Each goes to the ledger and to its oracle, which have to agree on what it does and on the errno.
test_ledger_properties.py looks at everything after each call, and is slow; here a call is followed
by a look at what is ready, gone and kept, and each job by a look at everything. Bad input must not
cost much either: neither memory nor time.

LEDGER_FUZZ_COUNT is how many (50000), LEDGER_FUZZ_SEED where to begin (1).
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from random import Random
from typing import Any, NamedTuple

from epilog_oracle import ACTIONS_MAX, encode_idset
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_examples import examples
from test_ledger_properties import DESCRIPTIONS, JUNK, RANK_MAX, Pair, call, is_good_text, some_of

COUNT = int(os.environ.get("LEDGER_FUZZ_COUNT", "50000"))
SEED = int(os.environ.get("LEDGER_FUZZ_SEED", "1"))
TEXT_SIZE = 1 << 20  # characters of the longest "ranks"
CPU_MAX = 2.0  # seconds of CPU for one context, however long
GROWTH_MAX = 1 << 19  # bytes of memory that all but the first tenth of a run may add

JOBS = [None, "", "0", "0-7", "1,3,5-9", "0-31", "60-70", "4090-4100", "0-3,1000-1003", "1000000"]
PIECES = [*"0123456789", *",,--[] ", "\t", "\n", "+", "-1", "0x", "1e3", "all", "é", "\u0663", "\0"]
PIECES += ["４", "4294967295", "4294967296", "18446744073709551616", "9" * 30, "{}", '"']


class Context(NamedTuple):
    """What an event says: its name, its description, its ranks (None: has no such key)."""

    name: str
    description: str | None
    ranks: str | None


def mutate(random: Random, text: str) -> str:
    """Change, drop, double or add something, or swap two ends of the text."""
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        at = random.randint(0, len(text))
        to = min(len(text), at + random.choice([0, 1, 1, 2]))
        kind = random.randrange(4)
        if kind == 0:
            text = text[:at] + random.choice(PIECES) + text[to:]
        elif kind == 1:
            text = text[:at] + text[to:]
        elif kind == 2:
            text = text[:to] + text[at:]
        else:
            text = text[at:] + text[:at]
    return text


def long_texts(size: int) -> list[str]:
    """Return texts of about ``size`` characters that begin well."""
    items = [",".join(str(2 * i) for i in range(size // 8)), "0," * (size // 2), "0-" * (size // 2)]
    return items + [
        piece * (size // len(piece)) for piece in ["0", "9", "[", ",", "é", "0-429496,"]
    ]


def ranks_of(pair: Pair, random: Random) -> str | None:
    """Return ranks of an event: good ones, almost good ones, junk, or none."""
    kind = random.random()
    if kind < 0.12:
        return None
    if kind < 0.45:
        return some_of(random, set(pair.oracle.rank_set))
    if kind < 0.75:
        return mutate(random, some_of(random, set(pair.oracle.rank_set)))
    if kind < 0.85:
        return encode_idset({random.randint(0, RANK_MAX), *sorted(pair.oracle.rank_set)[:2]})
    if kind < 0.92:
        return random.choice(JUNK)
    if kind < 0.999:
        return "".join(random.choice(PIECES) for _ in range(random.randint(0, 12)))
    return random.choice(long_texts(1 << random.randint(8, 16)))


def description_of(pair: Pair, random: Random) -> str | None:
    """Return a description, mostly of an action that is outstanding."""
    kind = random.random()
    if kind < 0.5 and pair.oracle.outstanding:
        return random.choice(pair.oracle.outstanding).description
    if kind < 0.9:
        return random.choice(DESCRIPTIONS)
    if kind < 0.98:
        return mutate(random, random.choice(DESCRIPTIONS))
    return None


def context_of(pair: Pair, random: Random) -> Context:
    """Return an event."""
    name = random.choice(["start", "start", "finish", "release", "release", "release", "gone"])
    description = description_of(pair, random)
    ranks = ranks_of(pair, random)
    if name == "finish":
        return Context(name, description, None)
    if name == "gone" and random.random() < 0.5:
        return Context(name, None, some_of(random, pair.oracle.ready_set()))
    return Context(name, description or "", ranks if name != "gone" else ranks or "")


def brief(subject: Any) -> tuple[str, str, int | None]:
    """Return what a call may change, as far as it is cheap to ask."""
    return subject.ready(), subject.handed_over, subject.kept


def throw(pair: Pair, context: Context) -> bool:
    """Give the context to both; return whether it was taken."""
    name, description, ranks = context
    args: list[Any] = [description, ranks]
    if name == "finish":
        args = [description]
    elif name == "gone":
        args = [ranks]
    if any(arg is not None and "\0" in arg for arg in args):  # C strings end there
        kind, value = call(pair.ledger, name, *args)
        assert kind == "error" and value.errno == 22, context
        return False
    before = brief(pair.ledger)
    began = time.process_time()
    kind, value = call(pair.ledger, name, *args)
    assert time.process_time() - began < CPU_MAX, (name, description, (ranks or "")[:80])
    expected_kind, expected = call(pair.oracle, name, *args)
    assert kind == expected_kind, (context, value, expected)
    if kind == "error":
        assert value.errno in expected.errnos, (context, value)
        assert is_good_text(value.strerror), (context, value)
        assert brief(pair.ledger) == before, context
        return False
    assert (value is None) == (expected is None), context
    assert brief(pair.ledger) == brief(pair.oracle), context
    return True


def memory() -> int:
    """Return bytes of the C heap that are in use: the ledger's, and large things of Python's."""
    libc = ctypes.CDLL(None)
    name, number = ("mallinfo2", ctypes.c_size_t)  # mallinfo(3)
    if not hasattr(libc, name):  # glibc before 2.33
        name, number = ("mallinfo", ctypes.c_int)
    mallinfo = getattr(libc, name)
    mallinfo.restype = type(
        "Mallinfo", (ctypes.Structure,), {"_fields_": [("counts", number * 10)]}
    )
    gc.collect()
    return mallinfo().counts[7]


def play(random: Random, count: int) -> int:
    """Throw ``count`` contexts at one job; return how many were taken."""
    pair = Pair(random.choice(JOBS))
    pair.both("set_keep_last", random.random() < 0.3)
    few, taken = 8, 0
    if random.random() < 0.01:  # at times, as many actions as there can be
        few = ACTIONS_MAX
        for number in range(few - 1):
            throw(pair, Context("start", f"{number % 50}", ""))
    for _ in range(count):
        taken += throw(pair, context_of(pair, random))
        if len(pair.oracle.outstanding) > few:
            throw(pair, Context("finish", random.choice(pair.oracle.outstanding).description, None))
    pair.check()
    return taken


def test_long() -> None:
    """A text of a megabyte is refused, at no great cost."""
    for ranks in long_texts(TEXT_SIZE):
        for name in ("start", "release", "gone"):
            pair = Pair("0-7")
            pair.both("start", "a", "0-3")
            assert not throw(pair, Context(name, "a", ranks))
            pair.check()


def test_contexts() -> None:
    """Each is taken or refused as the oracle says, in bounded time, and leaves nothing behind."""
    each = 50
    jobs = max(10, COUNT // each)
    taken = warm = 0
    for number in range(jobs):
        seed = SEED + number
        try:
            taken += play(Random(seed), each)
        except AssertionError as exc:
            raise AssertionError(f"LEDGER_FUZZ_SEED={seed} LEDGER_FUZZ_COUNT={each}") from exc
        if number == jobs // 10:
            warm = memory()
    growth, thrown = memory() - warm, jobs * each
    print(f"{thrown} contexts, {taken} taken; memory grew by {growth} bytes")
    assert growth < GROWTH_MAX
    assert 0.2 < taken / thrown < 0.8  # else the rest of the ledger was not reached


@given(
    ranks=st.sampled_from(JOBS),
    contexts=st.lists(
        st.builds(
            Context,
            st.sampled_from(["start", "release", "finish"]),
            st.sampled_from(DESCRIPTIONS) | st.text(max_size=30),
            st.none() | st.text("0123456789,-[]", max_size=10) | st.text(max_size=100),
        ),
        max_size=12,
    ),
)
@settings(max_examples=examples(400), deadline=None)
def test_any_text(ranks: str | None, contexts: list[Context]) -> None:
    """The same with texts that nobody here thought of."""
    pair = Pair(ranks)
    for context in contexts:
        throw(pair, context)
    pair.check()
