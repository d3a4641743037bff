# SPDX-License-Identifier: LGPL-3.0
"""Whatever a log holds: the replay never fails, says what the oracle says, and adds up."""

import json
from typing import List

import msgspec
from epilog_oracle import Oracle, RefusedError, encode_idset
from hypothesis import given, settings
from hypothesis import strategies as st

from epilog_replay import idset
from epilog_replay.event import NAMES
from epilog_replay.record import to_line
from epilog_replay.replay import HANDLERS
from epilog_replay.text import line
from replay_log import RELEASED, T0, Step, finish, job_of, start, went, write

NAME = st.one_of(st.sampled_from(sorted(NAMES)), st.sampled_from(["init", "debug.x", "", "x"]))
RANKS = st.one_of(
    st.sampled_from(["all", "", "0", "0-1", "3", "[2-3]", "1,3", "4", "0-", "x", "0-99999999999"]),
    st.sampled_from([0, None, [], "2147483647"]),
)
VALUE = st.one_of(
    st.sampled_from(["a", "b", "scheduler-restart", "node-failure", "node failure on n (rank 1)"]),
    st.integers(-1, 9),
    st.sampled_from([None, True, False, [], {}, ["alloc-bypass"], 2**70, -1.5, "\0", "é\n"]),
    st.just({"sched": {"resource_summary": "rank[0-3]/core0"}}),
)
KEYS = "description status ranks final type severity note annotations flags userid urgency".split()
CONTEXT = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=5),
    st.fixed_dictionaries({"description": st.sampled_from("ab"), "ranks": RANKS}),
    st.fixed_dictionaries({"description": st.sampled_from("ab"), "status": st.just(0)}),
    st.fixed_dictionaries({"ranks": RANKS, "final": st.booleans()}),
    st.fixed_dictionaries({"type": VALUE, "severity": st.integers(0, 7), "note": VALUE}),
)
TIME = st.one_of(st.integers(0, 100), st.sampled_from([-1, 1e13, 1.7e9, "1", None, True]))
ENTRY = st.fixed_dictionaries(
    {}, optional={"timestamp": TIME, "name": NAME, "context": CONTEXT, "more": VALUE}
)
GOOD_ENTRY = st.fixed_dictionaries(
    {"timestamp": st.integers(1, 100), "name": NAME, "context": CONTEXT}
)
LINE = st.one_of(
    GOOD_ENTRY.map(json.dumps),
    ENTRY.map(json.dumps),
    VALUE.map(json.dumps),
    st.text(max_size=20),
    st.sampled_from(
        ["[May08 13:29] submit a=1", "[  +0.1] free", "1700000000.5 start", "[snip]", '{"a":', ""]
    ),
).map(lambda text: text.encode("utf-8", "replace"))
JOB_RANKS = st.sampled_from(["0-3", "1,3", "0", None])


def check(job) -> dict:
    """What holds of every job; return its record."""
    found = msgspec.json.decode(to_line(job))
    assert "\n" not in line(job)
    gone = 0
    for handoff in job.handoffs:
        assert handoff.ranks and not handoff.ranks & gone  # never gone twice
        gone |= handoff.ranks
    assert gone == job.gone
    assert not job.held & ~job.full and not job.held & gone
    parts = [ranks for ranks, _ in job.holders()]
    assert sum(parts) == job.held
    assert all(a & b == 0 for i, a in enumerate(parts) for b in parts[:i])
    assert (found["blocker"] is None) or found["state"] != "inactive"
    for seconds in [found["waited_node_seconds"], *found["held_node_seconds"].values()]:
        assert seconds is None or seconds >= 0
    for action in job.actions:
        let_go = 0
        for _, ranks in action.let_go:
            assert ranks and not ranks & let_go
            let_go |= ranks
        assert not let_go & action.held
        assert (action.end is None) == (action in job.open)
    if job.ledger is not None and job.claim_lost is None:
        epilogs = [action for action in job.open if action.kind == "epilog"]
        assert [a.held for a in job.ledger.actions()] == [idset.encode(a.held) for a in epilogs]
        assert job.ledger.handed_over == idset.encode(job.gone)
        assert job.ledger.prolog_count == len(job.open) - len(epilogs)
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(LINE, max_size=25), st.booleans(), JOB_RANKS)
def test_lines_of_any_kind(lines, whole, ranks):
    data = b"\n".join(lines) + (b"\n" if whole else b"")
    check(job_of(data, ranks, ["a="]))


@settings(max_examples=300, deadline=None)
@given(st.lists(GOOD_ENTRY, max_size=40), JOB_RANKS)
def test_events_in_any_order(entries, ranks):
    head = [{"timestamp": 1, "name": "submit", "context": {}}]
    data = "".join(json.dumps(entry) + "\n" for entry in head + entries).encode()
    job = job_of(data, ranks, ["a=0@5", "b=all@7"])
    check(job)
    if job.what_if.waited_node_seconds is not None:
        waited = job.waited_node_seconds()
        found = job.what_if
        total = found.waited_node_seconds + found.returned_node_seconds
        assert abs(total - waited) < 1e-6


@settings(deadline=None)
@given(st.binary(max_size=300), JOB_RANKS)
def test_bytes(data, ranks):
    check(job_of(data, ranks))


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("abc"), RANKS | st.just("absent")),
        st.tuples(st.just("part"), st.sampled_from("abc"), RANKS),
        st.tuples(st.just("finish"), st.sampled_from(["a", "b", "c", None]), st.none()),
        st.tuples(st.just("go"), st.none(), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(ACTS, st.sampled_from(["0-3", "1,3", "0", "0-40"]))
def test_replay_holds_what_the_oracle_holds(acts, ranks):
    """A job manager, played by the oracle, that hands over what is ready when told to."""
    oracle = Oracle(ranks)
    steps: List[Step] = list(RELEASED)
    handoffs = []
    at = 101
    for what, name, named in acts:
        at += 1
        if what == "start":
            context = {} if named == "absent" else {"ranks": named}
            steps.append(start(at, name, **context))
            try:
                oracle.start(name, None if named in ("absent", "all") else _text(named))
            except RefusedError:  # a record that can't be: it holds all
                oracle.start(name, None)
        elif what == "part":
            steps.append(finish(at, name, ranks=named))
            try:
                oracle.release(name, None if named == "all" else _text(named))
            except RefusedError:
                pass
        elif what == "finish":
            context = {"status": 0} if name is None else {"status": 0, "description": name}
            steps.append((at, "epilog-finish", context))
            try:
                oracle.finish(name)
            except RefusedError:
                pass
        elif oracle.ready():
            ready = oracle.ready()
            oracle.gone(ready)
            handoffs.append((at, ready))
            event = "free" if oracle.all_gone else "partial-free"
            steps.append((at, event, *([] if oracle.all_gone else [{"ranks": ready}])))
    job = job_of(write(steps), ranks)
    found = check(job)
    assert found["held"] == encode_idset(oracle.held_set())
    assert found["gone"] == oracle.handed_over
    assert [(at, ranks) for at, ranks, _ in went(found)] == handoffs
    actions = [action for action in found["actions"] if action["end"] is None]
    held = [[i["ranks"] for i in a["intervals"] if i["end"] is None] for a in actions]
    assert held == [[text] if text else [] for _, _, text, _ in oracle.actions()]
    assert [a["start"] - T0 for a in actions] == sorted(a["start"] - T0 for a in actions)


def _text(ranks) -> str:
    """Return a ``ranks`` value as the oracle takes it: what is no string is no idset."""
    return ranks if isinstance(ranks, str) else "not a string"


def test_every_event_with_a_handler_is_of_RFC_21():
    assert HANDLERS.keys() - {""} <= NAMES
