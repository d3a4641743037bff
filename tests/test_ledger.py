# SPDX-License-Identifier: LGPL-3.0
"""The ledger from Python: the binding, and what it reads as ranks."""

import errno
import gc
import json
import resource
from pathlib import Path

import pytest
from epilog_oracle import encode_idset, parse_idset
from epilog_replay._ledger import lib

from epilog_replay import ledger_build
from epilog_replay.ledger import Action, Ledger, LedgerError

VERDICTS = Path(__file__).resolve().parents[2] / "shared/cases/idsets.json"


def test_one_job() -> None:
    """Two actions, one of which lets go as it runs."""
    ledger = Ledger("[0-3]")
    ledger.prolog_start()
    ledger.start("dws-epilog", None, 10.5)
    ledger.start("cleanup", "1-2", 11)
    ledger.prolog_finish()
    ledger.release("dws-epilog", "0-1")
    assert ledger.ready() == "0"
    assert ledger.hold_count(1) == 1 and ledger.hold_count(2) == 2
    ledger.gone("0")
    assert ledger.actions() == [
        Action("dws-epilog", 10.5, held="2-3", released="0-1"),
        Action("cleanup", 11.0, held="1-2", released=""),
    ]
    assert ledger.action_count == 2
    assert ledger.finish_check("cleanup") is None
    assert ledger.finish("cleanup") is None
    assert ledger.ready() == "1"
    assert "'dws-epilog'" in ledger.finish_check("typo")
    assert "'dws-epilog'" in ledger.finish(None)
    assert (ledger.ready(), ledger.handed_over, ledger.all_gone) == ("1-3", "0", False)
    ledger.restore_gone(None)
    assert (ledger.ready(), ledger.handed_over, ledger.all_gone) == ("", "0-3", True)


def test_keep_last() -> None:
    """The rank kept back is a number, or None."""
    ledger = Ledger("2-4")
    ledger.start("a", "")
    assert ledger.kept is None
    ledger.set_keep_last(True)
    assert (ledger.kept, ledger.ready()) == (2, "3-4")
    ledger.set_keep_last(False)
    assert (ledger.kept, ledger.ready()) == (None, "2-4")


@pytest.mark.parametrize("ranks", [None, "", "[]"])
def test_no_ranks(ranks: str) -> None:
    """A job that never got resources."""
    ledger = Ledger(ranks)
    ledger.start("a", None)
    assert (ledger.ranks, ledger.ready(), ledger.all_gone) == ("", "", True)
    with pytest.raises(LedgerError):
        ledger.start("a", "0")


@pytest.mark.parametrize(
    "call, args, number, text",
    [
        ("start", ("b", "3-4"), errno.EINVAL, "rank 4 is not in the job's R"),
        ("start", ("b", "0"), errno.EINVAL, "rank 0 was already handed over"),
        ("start", ("b", "1,"), errno.EINVAL, "'1,' is not an idset"),
        ("start", ("b\0c", "1"), errno.EINVAL, "'b\\0c' has a NUL character in it"),
        ("start", ("b", "1\0"), errno.EINVAL, "'1\\0' has a NUL character in it"),
        ("release", ("b", "1"), errno.ENOENT, "no action 'b' is outstanding (a, c)"),
        ("release", ("a", ""), errno.EINVAL, "the set is empty"),
        ("release", ("a", "7"), errno.EINVAL, "rank 7 is not in the job's R"),
        ("finish", ("b",), errno.ENOENT, "no action 'b' is outstanding (a, c)"),
        ("finish", (None,), errno.ENOENT, "no action '' is outstanding (a, c)"),
        ("gone", ("1",), errno.EINVAL, "rank 1 may not go now"),
        ("gone", ("3-1",), errno.EINVAL, "'3-1' is not an idset"),
        ("restore_gone", ("9",), errno.EINVAL, "rank 9 is not in the job's R"),
        ("decode", ("2,1",), errno.EINVAL, "'1' is repeated or out of order"),
    ],
)
def test_refused(call: str, args: tuple, number: int, text: str) -> None:
    """An error has errno and one line that names the value and the reason."""
    ledger = Ledger("0-3")
    ledger.restore_gone("0")
    ledger.start("a", "1-2")
    ledger.start("c", "")
    for name in (f"{call}_check", call):
        if hasattr(ledger, name):
            with pytest.raises(LedgerError) as caught:
                getattr(ledger, name)(*args)
            assert caught.value.errno == number
            assert caught.value.strerror == text
    assert (ledger.ready(), ledger.handed_over, ledger.action_count) == ("3", "0", 2)


@pytest.mark.parametrize(
    "ranks, number", [("1,,2", errno.EINVAL), ("all", errno.EINVAL), ("2147483648", errno.ERANGE)]
)
def test_bad_job(ranks: str, number: int) -> None:
    """A job's own ranks may be any ids, but have to be an idset."""
    with pytest.raises(LedgerError) as caught:
        Ledger(ranks)
    assert caught.value.errno == number
    assert ranks in caught.value.strerror


def test_text_of_an_earlier_error_is_not_shown() -> None:
    """A finish that matches says nothing, whatever was said before."""
    ledger = Ledger("0")
    with pytest.raises(LedgerError):
        ledger.finish("a")
    ledger.start("a", None)
    assert ledger.finish_check("a") is None
    assert ledger.finish("a") is None


def test_copy_has_a_life_of_its_own() -> None:
    """Also when the original is no longer there."""
    ledger = Ledger("0-3")
    ledger.start("a", None, 1)
    copy = ledger.copy()
    ledger.finish("a")
    del ledger
    gc.collect()
    copy.release("a", "2")
    assert copy.actions() == [Action("a", 1.0, "0-1,3", "2")]


def test_nothing_is_leaked() -> None:
    """4000 ledgers take no more memory than a few do."""
    every_second = ",".join(str(rank) for rank in range(0, 400, 2))
    long_name = "a" * 2000

    def lives(count: int) -> int:
        for _ in range(count):
            ledger = Ledger("0-8195")
            ledger.start(long_name, None)
            ledger.release(long_name, every_second)
            ledger.gone(ledger.ready())
            ledger.copy().finish(long_name)
            with pytest.raises(LedgerError):
                ledger.decode("9000")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    before = lives(200)
    assert lives(4000) - before < 2048


def test_huge_ranges_cost_nothing() -> None:
    """2**32 ids named, four known: refused before anything is made of them."""
    ledger = Ledger("0-3")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in ("0-4294967294", "0-2147483647", "[0-4294967295]", "2147483647", "3,4294967294"):
        for _ in range(1000):
            with pytest.raises(LedgerError) as caught:
                ledger.decode(text)
        assert caught.value.errno == errno.EINVAL
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096


@pytest.mark.skipif(not VERDICTS.exists(), reason="the folder ../shared/cases is not there")
def test_verdicts() -> None:
    """Every text of the verdict file: read as RFC 22 has it, and only if the ranks are ours."""
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    assert len(verdicts) > 100
    four, many = Ledger("0-3"), Ledger("0-5000")
    for verdict in verdicts:
        text = verdict["string"]
        if verdict["rfc22"] == "invalid":
            for ledger in (four, many):
                with pytest.raises(LedgerError) as caught:
                    ledger.decode(text)
                assert caught.value.errno == errno.EINVAL
            continue
        ranges = parse_idset(text)
        highest = max((last for _, last in ranges), default=-1)
        for ledger, width in ((four, 4), (many, 5001)):
            if highest < width:
                ids = [rank for first, last in ranges for rank in range(first, last + 1)]
                assert ledger.decode(text) == encode_idset(ids)
            else:
                with pytest.raises(LedgerError, match=r"rank \d+ is not in the job's R"):
                    ledger.decode(text)
        if highest < 2_000_000:
            assert parse_idset(Ledger(text).decode(text)) == parse_idset(Ledger(text).ranks)


def test_declarations() -> None:
    """What cffi is told is the header, without what it can't read."""
    header = """/* comment, "text" */
#ifndef _X_H
#define _X_H
#include <stddef.h>
#define WIDTH (3 + 4) // ids
int f (int a, // first
       int b);
#endif /* !_X_H */
"""
    assert ledger_build.declarations(header).split() == [
        *("#define", "WIDTH", "..."),
        *("int", "f", "(int", "a,", "int", "b);"),
    ]
    for name in ("EPILOG_ACTIONS_MAX", "IDSET_INVALID_ID"):
        assert isinstance(getattr(lib, name), int)


def test_stale(tmp_path: Path) -> None:
    """A module is built anew when missing or older than a source, and only then."""
    path = ledger_build.module_path(tmp_path)
    assert ledger_build.is_stale(path)
    path.touch()
    assert not ledger_build.is_stale(path)
