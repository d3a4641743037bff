# SPDX-License-Identifier: LGPL-3.0
"""The ledger against its oracle: random jobs, random events, every call on both."""

import errno
import re
from random import Random
from typing import Any, Callable, Optional

from epilog_oracle import ACTIONS_MAX, Oracle, RefusedError, encode_idset, parse_idset
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epilog_replay.ledger import Ledger, LedgerError
from ledger_examples import examples

RANK_MAX = 2**31 - 1
TEXT_MAX = 159  # bytes of a flux_error_t

# Few names, so that they meet; some alike, one empty, some long or not ASCII.
DESCRIPTIONS = ["a", "a", "b", "b", "dws-epilog", "", "A", "x" + "ä" * 40, "x" * 300, "all"]

JUNK = ["all", "0-", "-1", "00", "01", "1,,2", "1,", ",", "[0", "0]", "0-0", "3-1", "1,1", "0x1"]
JUNK += ["1-1", "４", " 1", "1 ", "1-2-3", "[[1]]", "[1],[2]", "1\0", "9" * 60, "0-4294967294"]
JUNK += [
    "4294967294",
    "4294967295",
    "4294967296",
    "4294967297",
    "0-4294967297",
    "18446744073709551617",
]


def job_ranks() -> st.SearchStrategy[Optional[str]]:
    """Ranks that a job may have been given."""
    base = st.sampled_from([0, 1, 60, 62, 1000, 4090, 1000000])
    return st.one_of(
        st.tuples(base, st.integers(1, 5)).map(lambda t: f"{t[0]}-{t[0] + t[1]}"),
        st.tuples(base, st.integers(1, 150)).map(lambda t: f"{t[0]}-{t[0] + t[1]}"),
        st.sets(st.integers(0, 300), min_size=1, max_size=40).map(encode_idset),
        st.sets(st.integers(999000, 1000100), min_size=1, max_size=9).map(encode_idset),
        st.integers(0, 5000).map(str),
        st.sampled_from([None, "", "0-3,1000-1003", "5000-9095"]),
    )


def expand(text: str) -> list[int]:
    """Return the ids of an RFC 22 text."""
    return [rank for first, last in parse_idset(text) for rank in range(first, last + 1)]


def some_of(random: Random, ranks: set[int]) -> str:
    """Name one, a few, a run or all of the ranks, in one of the ways that RFC 22 has."""
    ordered = sorted(ranks)
    kind = random.choice(["one", "few", "run", "all"])
    if not ordered:
        chosen = []
    elif kind == "one":
        chosen = [random.choice(ordered)]
    elif kind == "few":
        chosen = random.sample(ordered, random.randint(0, min(6, len(ordered))))
    elif kind == "run":
        first, last = sorted(random.randrange(len(ordered)) for _ in range(2))
        chosen = ordered[first : last + 1]
    else:
        chosen = ordered
    text = encode_idset(chosen)
    if len(chosen) < 100 and random.random() < 0.2:
        text = ",".join(str(rank) for rank in sorted(chosen))
    return f"[{text}]" if random.random() < 0.2 else text


def call(subject: Any, name: str, *args: Any) -> tuple[str, Any]:
    """Make a call; return ("value", it) or ("error", the exception)."""
    try:
        return "value", getattr(subject, name)(*args)
    except (LedgerError, RefusedError) as error:
        return "error", error


def is_good_text(text: str) -> bool:
    """Whether an error says something, in whole characters and within its bounds."""
    return 0 < len(text.encode()) <= TEXT_MAX and "\ufffd" not in text


class Pair:
    """One job's ledger and its oracle, given the same calls."""

    def __init__(self, ranks: Optional[str]) -> None:
        self.ledger = Ledger(ranks)
        self.oracle = Oracle(ranks)
        self.gone_before: set[int] = set()
        self.frozen: list[tuple[Ledger, dict[str, Any]]] = []  # what copies were made from
        ours = sorted(self.oracle.rank_set)
        self.some = [*ours[:: max(1, len(ours) // 8)], *ours[-1:], 0, 61, 7777, RANK_MAX * 2]
        self.check()

    def look(self, subject: Any) -> dict[str, Any]:
        """Return everything that can be asked of a ledger or an oracle."""
        return {
            "ranks": subject.ranks,
            "ready": subject.ready(),
            "handed_over": subject.handed_over,
            "all_gone": subject.all_gone,
            "kept": subject.kept,
            "prolog_count": subject.prolog_count,
            "actions": [tuple(action) for action in subject.actions()],
            "hold_counts": [subject.hold_count(rank) for rank in self.some],
        }

    def both(self, name: str, *args: Any) -> None:
        """Make a call on both, and before it the call that foretells it, if there is one."""
        before = self.look(self.ledger)
        foretold = None
        if hasattr(self.ledger, f"{name}_check"):
            foretold = call(self.ledger, f"{name}_check", *args[:2])
            assert self.look(self.ledger) == before
        kind, value = call(self.ledger, name, *args)
        expected_kind, expected = call(self.oracle, name, *args)
        assert kind == expected_kind, (name, args, value, expected)
        if foretold:
            assert (foretold[0], str(foretold[1])) == (kind, str(value))
        if kind == "error":
            assert value.errno in expected.errnos
            self.check_text(value.strerror)
            assert self.look(self.ledger) == before
        elif name == "finish":
            assert (value is None) == (expected is None)
            assert expected is None or (is_good_text(value) and expected[:10] in value)
        else:
            assert value == expected
        self.check()

    def check_text(self, text: str) -> None:
        """What an error says of a rank has to be so."""
        assert is_good_text(text)
        named = re.match(r"rank (\d+) (.*)", text)
        if named:
            rank, reason = int(named[1]), named[2]
            if "in the job" in reason:
                assert rank not in self.oracle.rank_set
            elif "handed over" in reason:
                assert rank in self.oracle.gone_set
            else:
                assert "may not go" in reason and rank not in self.oracle.ready_set()

    def check(self) -> None:
        """Ledger and oracle agree; and as the ledger tells it, each rank is in one place."""
        now = self.look(self.ledger)
        assert now == self.look(self.oracle)
        ready, gone = expand(now["ready"]), set(expand(now["handed_over"]))
        held: set[int] = set()
        for _, _, text, released in now["actions"]:
            held |= set(expand(text))
            assert not set(expand(text)) & set(expand(released))
        places = [*ready, *gone, *held, *([] if now["kept"] is None else [now["kept"]])]
        assert len(places) == len(set(places))
        if now["prolog_count"]:
            assert not ready and set(places) <= self.oracle.rank_set
        else:
            assert set(places) == self.oracle.rank_set
        assert gone >= self.gone_before
        self.gone_before = gone


def any_ranks(pair: Pair, random: Random) -> str:
    """Ranks of the job, mostly; else one that is not, or junk."""
    kind = random.random()
    if kind < 0.75:
        return some_of(random, set(pair.oracle.rank_set))
    if kind < 0.85:
        return encode_idset({random.randint(0, RANK_MAX), *sorted(pair.oracle.rank_set)[:2]})
    if kind < 0.95:
        return random.choice(JUNK)
    return "".join(random.choice("0123456789,,--[] x") for _ in range(random.randint(0, 10)))


def any_ranks_or_all(pair: Pair, random: Random) -> Optional[str]:
    """None now and then."""
    return None if random.random() < 0.3 else any_ranks(pair, random)


# What may happen. Each takes the pair and picks what it needs.


def start(pair: Pair, random: Random) -> None:
    """Any start, good or bad."""
    description, t_start = random.choice(DESCRIPTIONS), random.uniform(0, 1e10)
    pair.both("start", description, any_ranks_or_all(pair, random), t_start)


def start_well(pair: Pair, random: Random) -> None:
    """A start on what has not gone."""
    left = set(pair.oracle.rank_set - pair.oracle.gone_set)
    pair.both("start", random.choice(DESCRIPTIONS), some_of(random, left), 1.0)


def release(pair: Pair, random: Random) -> None:
    """Any partial finish, good or bad."""
    pair.both("release", random.choice(DESCRIPTIONS), any_ranks_or_all(pair, random))


def release_well(pair: Pair, random: Random) -> None:
    """A partial finish of an outstanding action, on ranks that it holds."""
    if pair.oracle.outstanding:
        action = random.choice(pair.oracle.outstanding)
        pair.both("release", action.description, some_of(random, action.held))


def finish(pair: Pair, random: Random) -> None:
    """Any full finish; some name nothing."""
    pair.both("finish", random.choice([None, *DESCRIPTIONS]))


def finish_well(pair: Pair, random: Random) -> None:
    """A full finish of an outstanding action."""
    if pair.oracle.outstanding:
        pair.both("finish", random.choice(pair.oracle.outstanding).description)


def prolog_start(pair: Pair, _: Random) -> None:
    """A prolog starts."""
    pair.both("prolog_start")


def prolog_finish(pair: Pair, _: Random) -> None:
    """A prolog ends, be there one or not."""
    pair.both("prolog_finish")


def set_keep_last(pair: Pair, random: Random) -> None:
    """The last-free rule is switched."""
    pair.both("set_keep_last", random.random() < 0.7)


def gone(pair: Pair, random: Random) -> None:
    """Any ranks are said to have been handed over."""
    pair.both("gone", any_ranks(pair, random))


def gone_well(pair: Pair, random: Random) -> None:
    """Ranks that are ready are handed over."""
    pair.both("gone", some_of(random, pair.oracle.ready_set()))


def restore_gone(pair: Pair, random: Random) -> None:
    """A record says that ranks went."""
    pair.both("restore_gone", any_ranks_or_all(pair, random))


def restore_gone_few(pair: Pair, random: Random) -> None:
    """A record says that a rank or two went."""
    ours = sorted(pair.oracle.rank_set)
    pair.both("restore_gone", encode_idset(random.sample(ours, min(2, len(ours)))))


def restore_gone_held(pair: Pair, _: Random) -> None:
    """A record says that all that is held went."""
    pair.both("restore_gone", encode_idset(pair.oracle.held_set()))


def decode(pair: Pair, random: Random) -> None:
    """A text is read."""
    pair.both("decode", any_ranks(pair, random))


def copy(pair: Pair, _: Random) -> None:
    """Go on with a copy; what it was made from has to stay as it is."""
    pair.frozen.append((pair.ledger, pair.look(pair.ledger)))
    pair.ledger = pair.ledger.copy()
    pair.check()


Event = Callable[[Pair, Random], None]

EVENTS: list[Event] = [start, start_well, start_well, release, release_well, release_well]
EVENTS += [finish, finish_well, gone, gone_well, gone_well, restore_gone, restore_gone_few]
EVENTS += [restore_gone_held, prolog_start, prolog_finish, prolog_finish]
EVENTS += [set_keep_last, decode, copy]


@given(
    ranks=job_ranks(),
    events=st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 2**32)), min_size=1, max_size=40
    ),
    keep_last=st.booleans(),
)
@settings(max_examples=examples(800), deadline=None)
def test_any_events(ranks: Optional[str], events: list[tuple[Event, int]], keep_last: bool) -> None:
    """Whatever happens, the ledger answers as the oracle does."""
    pair = Pair(ranks)
    pair.both("set_keep_last", keep_last)
    for event, seed in events:
        event(pair, Random(seed))
    for ledger, before in pair.frozen:
        assert pair.look(ledger) == before


def test_most_actions() -> None:
    """Up to the most actions that there can be, and down again."""
    random = Random(7)
    pair = Pair("0-9,20")
    for _ in range(ACTIONS_MAX - 9):
        description, ranks = random.choice(DESCRIPTIONS), some_of(random, pair.oracle.ready_set())
        pair.ledger.start(description, ranks)
        pair.oracle.start(description, ranks)
    pair.check()
    while pair.ledger.action_count < ACTIONS_MAX:
        start_well(pair, random)
    start_well(pair, random)
    assert pair.ledger.action_count == ACTIONS_MAX
    for _ in range(20):
        finish_well(pair, random)
        gone_well(pair, random)
        release_well(pair, random)


@given(ranks=job_ranks(), text=st.text(max_size=8) | st.text("0123456789,-[] ", max_size=12))
@settings(max_examples=examples(600), deadline=None)
@example("0-9", "[0,[2]")
@example("0-9", "[-")
@example("0", "0" * 40)
def test_decode_of_junk(ranks: Optional[str], text: str) -> None:
    """Any text is either refused, or read as the reference parser reads it."""
    kind, value = call(Ledger(ranks), "decode", text)
    expected_kind, expected = call(Oracle(ranks), "decode", text)
    assert kind == expected_kind
    if kind == "value":
        assert value == expected
    else:
        assert value.errno == errno.EINVAL
        assert 0 < len(value.strerror.encode()) <= TEXT_MAX


def almost_idset(random: Random) -> str:
    """Text made of an idset's parts: mostly in order, at times with one part wrong."""
    lo, items = 0, []
    for _ in range(random.randint(1, 4)):
        lo += random.choice([-1, 0, 1, 2, 2, 2, 3])
        hi = lo + random.choice([-1, 0, 1, 2, 3])
        items.append(random.choice([f"{lo}", f"{lo}", f"{lo}-{hi}"]))
        lo = max(lo, hi)
    text = ",".join(items)
    if random.random() < 0.2:
        at = random.randint(0, len(text))
        text = text[:at] + random.choice("0123456789,-[] x") + text[at + random.randint(0, 1) :]
    return random.choice(["{}", "{}", "[{}]", "[{}]", "[{}", "{}]"]).format(text)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(1500), deadline=None)
def test_decode_of_almost_right(seed: int) -> None:
    """Order, edges of ranges and of the job's ranks, separators, brackets."""
    ledger, oracle, text = Ledger("0-5,7-9"), Oracle("0-5,7-9"), almost_idset(Random(seed))
    kind, value = call(ledger, "decode", text)
    expected_kind, expected = call(oracle, "decode", text)
    assert kind == expected_kind
    if kind == "value":
        assert value == expected


@given(text=st.text(max_size=40))
@settings(max_examples=examples(300), deadline=None)
@example("\0")
@example("\ud800")
def test_any_description(text: str) -> None:
    """A description is any text without a NUL, and comes back as it was."""
    ledger = Ledger("0-3")
    kind, value = call(ledger, "start", text, "0", 2.5)
    if "\0" in text:
        assert kind == "error" and value.errno == errno.EINVAL
        assert ledger.action_count == 0
    else:
        assert ledger.actions() == [(text, 2.5, "0", "")]
        assert ledger.finish(text) is None
