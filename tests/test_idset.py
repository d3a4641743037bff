# SPDX-License-Identifier: LGPL-3.0
"""The stand-in for libflux-idset (standin/idset.c) against Python sets and RFC 22."""

import errno
import json
from pathlib import Path
from typing import Any, Optional

import pytest
from epilog_oracle import encode_idset, parse_idset
from epilog_replay._ledger import ffi, lib
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_examples import examples

VERDICTS = Path(__file__).resolve().parents[2] / "shared/cases/idsets.json"

AUTOGROW = lib.IDSET_FLAG_AUTOGROW
INVALID = lib.IDSET_INVALID_ID
MAX_UNIVERSE = lib.IDSET_MAX_UNIVERSE
UINT_MAX = 2**32 - 1

# One level of the tree, two, three, four; around the edges of words.
SIZES = [1, 2, 63, 64, 65, 1000, 4096, 4097, 262144, 262145]


def make(ids: set[int], size: int = 0, flags: int = AUTOGROW) -> Any:
    """Return a new set that holds ``ids``."""
    idset = ffi.gc(lib.idset_create(size, flags), lib.idset_destroy)
    assert idset
    for rank in ids:
        assert lib.idset_set(idset, rank) == 0
    return idset


def members(idset: Any) -> list[int]:
    """Return the ids of a set by idset_first() and idset_next()."""
    found = []
    rank = lib.idset_first(idset)
    while rank != INVALID:
        found.append(rank)
        rank = lib.idset_next(idset, rank)
    return found


def encode(idset: Any, flags: int) -> str:
    """Return idset_encode()'s text."""
    text = lib.idset_encode(idset, flags)
    assert text
    try:
        return ffi.string(text).decode()
    finally:
        lib.ledger_text_free(text)


def decode(text: str) -> Optional[Any]:
    """Return idset_decode()'s set, or None."""
    idset = lib.idset_decode(text.encode())
    return ffi.gc(idset, lib.idset_destroy) if idset else None


def check(idset: Any, want: set[int]) -> None:
    """Every query gives what the Python set gives."""
    assert members(idset) == sorted(want)
    assert lib.idset_count(idset) == len(want)
    assert lib.idset_empty(idset) == (not want)
    assert lib.idset_first(idset) == min(want, default=INVALID)
    assert lib.idset_last(idset) == max(want, default=INVALID)
    for rank in [*list(want)[:50], 0, 1, 63, 64, 4095, 4096, 262144, INVALID, UINT_MAX]:
        assert lib.idset_test(idset, rank) == (rank in want)
    assert encode(idset, lib.IDSET_FLAG_RANGE) == encode_idset(want)


def ids_below(size: int) -> st.SearchStrategy[set[int]]:
    """Few ids, in a crowd or far apart."""
    return st.sets(st.integers(0, min(size, 200) - 1) | st.integers(0, size - 1), max_size=40)


@given(data=st.data(), size=st.sampled_from(SIZES))
@settings(max_examples=examples(300), deadline=None)
def test_one_set(data: Any, size: int) -> None:
    """Ids and ranges set and cleared at random."""
    idset = make(set(), size, 0)
    want: set[int] = set()
    edge = st.integers(0, size - 1)
    for _ in range(data.draw(st.integers(1, 8))):
        first = data.draw(edge)
        last = data.draw(st.just(first) | st.integers(first, min(size - 1, first + 300)))
        call = data.draw(st.sampled_from(["set", "clear", "range_set", "range_clear"]))
        args = (first,) if call in ("set", "clear") else (first, last)
        if len(args) == 2 and data.draw(st.booleans()):
            args = (last, first)
        assert getattr(lib, f"idset_{call}")(idset, *args) == 0
        ids = set(range(min(args), max(args) + 1))
        want = want | ids if call.endswith("set") else want - ids
        check(idset, want)


@given(data=st.data(), sizes=st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)))
@settings(max_examples=examples(300), deadline=None)
def test_two_sets(data: Any, sizes: Any) -> None:
    """Operations on two sets, of the same width or not."""
    a, b = (data.draw(ids_below(size)) for size in sizes)
    if data.draw(st.booleans()):
        b = {rank for rank in a if rank < sizes[1]}
    set_a, set_b = make(a, sizes[0], AUTOGROW), make(b, sizes[1], 0)
    assert lib.idset_has_intersection(set_a, set_b) == bool(a & b)
    assert lib.idset_has_intersection(set_b, set_a) == bool(a & b)
    copy = ffi.gc(lib.idset_copy(set_a), lib.idset_destroy)
    assert lib.idset_add(set_a, set_b) == 0
    check(set_a, a | b)
    assert lib.idset_subtract(set_a, set_b) == 0
    check(set_a, a - b)
    check(copy, a)
    check(set_b, b)
    assert lib.idset_subtract(copy, copy) == 0
    check(copy, set())


@pytest.mark.parametrize("size", SIZES)
def test_full(size: int) -> None:
    """A whole universe, then without its ends."""
    idset = make(set(), size, 0)
    assert lib.idset_range_set(idset, 0, size - 1) == 0
    assert lib.idset_count(idset) == size
    assert encode(idset, lib.IDSET_FLAG_RANGE) == encode_idset(range(size))
    assert lib.idset_clear(idset, 0) == 0
    assert lib.idset_clear(idset, size - 1) == 0
    check(idset, set(range(1, size - 1)))


def test_universe() -> None:
    """A set without AUTOGROW stays as wide as it was made; one with it doubles."""
    idset = make({99}, 100, 0)
    for call, args in (("set", (100,)), ("range_set", (50, 100)), ("set", (INVALID,))):
        assert getattr(lib, f"idset_{call}")(idset, *args) == -1
        assert ffi.errno == errno.EINVAL
    assert lib.idset_set(idset, UINT_MAX) == -1 and ffi.errno == errno.EINVAL
    assert lib.idset_set(idset, MAX_UNIVERSE) == -1 and ffi.errno == errno.ERANGE
    assert lib.idset_clear(idset, 5000) == 0
    assert lib.idset_range_clear(idset, 50, 5000) == 0
    assert lib.idset_clear(idset, INVALID) == -1 and ffi.errno == errno.EINVAL
    check(idset, set())
    assert lib.idset_add(idset, make({7, 200})) == -1 and ffi.errno == errno.EINVAL
    check(idset, set())

    idset = make({0, 99}, 100)
    assert lib.idset_set(idset, 100) == 0
    assert lib.idset_range_set(idset, 1000, 1001) == 0
    assert lib.idset_set(idset, 1000000) == 0
    check(idset, {0, 99, 100, 1000, 1001, 1000000})
    assert lib.idset_set(idset, MAX_UNIVERSE) == -1 and ffi.errno == errno.ERANGE
    idset = make(set(), 0, 0)  # the default: 1024
    assert lib.idset_set(idset, 1023) == 0
    assert lib.idset_set(idset, 1024) == -1 and ffi.errno == errno.EINVAL


def test_bad_arguments() -> None:
    """NULL sets, wide universes and unknown flags."""
    idset = make({1})
    assert not lib.idset_create(0, 64) and ffi.errno == errno.EINVAL
    assert not lib.idset_create(MAX_UNIVERSE + 1, 0) and ffi.errno == errno.ERANGE
    assert not lib.idset_copy(ffi.NULL) and ffi.errno == errno.EINVAL
    assert not lib.idset_encode(ffi.NULL, 0) and ffi.errno == errno.EINVAL
    assert not lib.idset_encode(idset, AUTOGROW) and ffi.errno == errno.EINVAL
    assert not lib.idset_decode(ffi.NULL) and ffi.errno == errno.EINVAL
    for call in ("set", "clear"):
        assert getattr(lib, f"idset_{call}")(ffi.NULL, 1) == -1 and ffi.errno == errno.EINVAL
        assert getattr(lib, f"idset_range_{call}")(ffi.NULL, 1, 2) == -1
        assert getattr(lib, f"idset_range_{call}")(idset, 1, INVALID) == -1
        assert getattr(lib, f"idset_range_{call}")(idset, UINT_MAX, 1) == -1
        assert ffi.errno == errno.EINVAL
    for call in ("add", "subtract"):
        assert getattr(lib, f"idset_{call}")(ffi.NULL, idset) == -1
        assert ffi.errno == errno.EINVAL
        assert getattr(lib, f"idset_{call}")(idset, ffi.NULL) == 0
    for a, b in ((ffi.NULL, idset), (idset, ffi.NULL), (ffi.NULL, ffi.NULL)):
        assert not lib.idset_has_intersection(a, b)
    assert lib.idset_empty(ffi.NULL) and lib.idset_count(ffi.NULL) == 0
    for call in ("first", "last"):
        assert getattr(lib, f"idset_{call}")(ffi.NULL) == INVALID
    assert lib.idset_next(ffi.NULL, 0) == INVALID
    assert not lib.idset_test(ffi.NULL, 0)
    for beyond in (1, 2, 1023, 1024, 10**6, INVALID, UINT_MAX):
        assert lib.idset_next(idset, beyond) == INVALID
    lib.idset_destroy(ffi.NULL)
    ffi.errno = errno.EXDEV
    lib.idset_destroy(lib.idset_create(0, 0))
    assert ffi.errno == errno.EXDEV
    check(idset, {1})


@pytest.mark.parametrize(
    "ids, plain, ranges",
    [
        (set(), "", ""),
        ({7}, "7", "7"),
        ({1, 2}, "1,2", "1-2"),
        ({0, 2, 3, 4, 9}, "0,2,3,4,9", "0,2-4,9"),
    ],
)
def test_encode(ids: set[int], plain: str, ranges: str) -> None:
    """Both forms."""
    assert encode(make(ids), 0) == plain
    assert encode(make(ids), lib.IDSET_FLAG_RANGE) == ranges


GOOD = ["", "[]", "0", "[0]", "1,2", "[1-3,5]", "1-3,4", "0-5000", "99-100", "1048575-1048576"]
BAD = ["x", "01", "00", "0-", "-1", "1--2", "1-2-3", "3,2", "1,1", "1-1", "3-1", "1-3,3", "[", "]"]
BAD += ["[0", "0]", "[[0]]", "[0]1", "[0],[1]", ",", "1,", ",1", "1,,2", "[,]", " 1", "1 ", "1, 2"]
BAD += ["+1", "0x1", "1e3", "1.0", "1_0", "４", "all", "[1-]", "99999999999999999999"]
BEYOND = ["2147483648", "4294967294", "4294967295", "4294967296", "0-4294967297"]


@pytest.mark.parametrize("text", GOOD)
def test_decode_good(text: str) -> None:
    """What RFC 22 allows."""
    idset = decode(text)
    assert idset
    check(idset, {i for first, last in parse_idset(text) for i in range(first, last + 1)})


@pytest.mark.parametrize("text", BAD + BEYOND)
def test_decode_bad(text: str) -> None:
    """What it does not, and what is too much."""
    assert decode(text) is None
    assert ffi.errno in ((errno.ERANGE,) if text in BEYOND else (errno.EINVAL, errno.ERANGE))


def test_decode_highest() -> None:
    """The highest id that there can be: 256 MB of zeros, of which few are touched."""
    idset = make({MAX_UNIVERSE - 1})
    assert members(idset) == [MAX_UNIVERSE - 1]


@pytest.mark.skipif(not VERDICTS.exists(), reason="the folder ../shared/cases is not there")
def test_verdicts() -> None:
    """Every text of the verdict file, but the one that is a bomb."""
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    assert len(verdicts) > 100
    for verdict in verdicts:
        text = verdict["string"]
        if verdict["flux_core_93ccef2"] == "not run":
            continue
        idset = decode(text)
        assert (idset is not None) == (verdict["rfc22"] == "valid"), verdict
        if idset:
            assert lib.idset_count(idset) == verdict["flux_core_count"], verdict


@given(st.text("0123456789,-[] x", max_size=10) | st.text(max_size=6))
@settings(max_examples=examples(500), deadline=None)
def test_decode_any(text: str) -> None:
    """Any text without a NUL, as the reference parser has it."""
    text = text.replace("\0", "")
    idset = lib.idset_decode(text.encode("utf-8", "surrogatepass"))
    try:
        want = parse_idset(text)
        beyond = any(last >= MAX_UNIVERSE for _, last in want)
    except ValueError:
        assert not idset
    else:
        assert bool(idset) != beyond
        assert not idset or lib.idset_count(idset) == sum(b - a + 1 for a, b in want)
    lib.idset_destroy(idset)
