# SPDX-License-Identifier: LGPL-3.0
"""What would have come back, had an action held other ranks."""

import pytest

from epilog_replay import whatif
from replay_log import (
    PENDING,
    RELEASED,
    RUNNING,
    T0,
    exception,
    finish,
    job_of,
    prolog,
    record,
    start,
    write,
)

# Two epilogs, of which dws takes long: all ranks wait from 100 to 500, as flux-core has it.
SLOW = [
    *RELEASED,
    start(101, "node"),
    start(101, "dws"),
    finish(130, "node"),
    finish(500, "dws"),
    (500, "free"),
    (501, "clean"),
]


def saving(steps, *rules, ranks="0-3"):
    """(waited, returned, [(seconds, ranks)]) of what-if."""
    job = job_of(write(steps), ranks, rules)
    found = job.what_if
    went = [(timestamp - T0, job.text(mask)) for timestamp, mask in found.handoffs]
    return found.waited_node_seconds, found.returned_node_seconds, went


@pytest.mark.parametrize(
    ("rules", "went"),
    [
        (["dws="], [(130, "0-3")]),
        (["dws=0"], [(130, "1-3"), (500, "0")]),
        (["dws=0-1@100"], [(130, "2-3"), (201, "0-1")]),
        (["dws=all@120"], [(221, "0-3")]),
        (["dws=all@10"], [(130, "0-3")]),
        (["dws=all"], [(500, "0-3")]),
        (["dws=", "node="], [(101, "0-3")]),
        (["dws=", "node=2@3"], [(101, "0-1,3"), (104, "2")]),
        (["node="], [(500, "0-3")]),
        (["absent="], [(500, "0-3")]),
    ],
)
def test_when_ranks_would_have_gone(rules, went):
    waited = sum((t - 100) * sum(1 for _ in expand(ranks)) for t, ranks in went)
    assert saving(SLOW, *rules) == (waited, 4 * 400 - waited, went)


def expand(text):
    """Give the ids of a short idset."""
    for item in text.split(","):
        first, _, last = item.partition("-")
        yield from range(int(first), int(last or first) + 1)


def test_epilog_that_is_still_open_counts_to_the_end_of_the_log():
    steps = [*SLOW[:-3], (900, "memo", {})]
    found = record(steps, rules=["dws="])
    assert found["waited_node_seconds"] == 4 * 800
    assert found["what_if"] == {"waited_node_seconds": 120, "returned_node_seconds": 3080}


def test_partial_finishes_of_the_action_are_void():
    steps = [*RELEASED, start(101, "a"), finish(102, "a", ranks="0-2"), finish(200, "a")]
    steps += [(200, "free")]
    # Had the job manager taken part: 3 * 2 + 100; it took 400, that is 294 later.
    assert saving(steps, "a=all@50") == (4 * 51 + 294, 106 - 4 * 51, [(151, "0-3")])


def test_time_that_the_job_manager_took_is_kept():
    steps = [*SLOW[:-2], (510, "free")]
    assert saving(steps, "dws=") == (4 * 40, 4 * 370, [(130, "0-3")])


def test_shells_and_prologs_hold_on():
    steps = [*PENDING, (4, "alloc"), prolog(5, "start", "p"), exception(6, "x"), start(7, "a")]
    steps += [prolog(50, "finish", "p", status=0), finish(90, "a"), (90, "free")]
    assert saving(steps, "a=")[2] == [(50, "0-3")]
    steps = [*RUNNING, exception(20, "x"), start(21, "a"), (70, "finish", {"status": 9})]
    steps += [(80, "release", {"ranks": "all", "final": True}), finish(90, "a"), (90, "free")]
    assert saving(steps, "a=")[2] == [(80, "0-3")]


def test_epilog_start_that_was_queued_at_the_exception_is_waited_for():
    steps = [*PENDING, (4, "alloc"), exception(6, "x"), start(6.001, "a"), finish(90, "a")]
    assert saving([*steps, (90, "free")], "b=")[2] == [(90, "0-3")]


def test_later_action_holds_only_what_has_not_gone():
    steps = [*RELEASED, start(101, "a"), start(300, "b"), finish(400, "a"), finish(500, "b")]
    assert saving([*steps, (500, "free")], "a=1")[2] == [(101, "0,2-3"), (500, "1")]


def test_ranks_that_went_too_soon_stay_gone():
    steps = [*RELEASED, start(101, "a"), (110, "free"), finish(200, "a")]
    assert saving(steps, "a=all")[2] == [(110, "0-3")]
    assert saving(steps, "a=0")[2] == [(101, "1-3"), (110, "0")]


def test_lost_claim_ends_the_waiting():
    steps = [*RELEASED, start(101, "a"), exception(300, "scheduler-restart"), (900, "memo", {})]
    assert saving(steps, "a=") == (4, 796, [(101, "0-3")])


def test_unknown_ranks_have_no_cost():
    waited, returned, went = saving(SLOW, "dws=", ranks=None)
    assert (waited, returned, went) == (None, None, [(130, "all")])


def test_job_that_has_not_ended_waits_for_nothing():
    assert record(RUNNING, rules=["a="])["what_if"] == {
        "waited_node_seconds": 0,
        "returned_node_seconds": 0,
    }


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a=", ("a", "", None)),
        ("a=b=0-3", ("a=b", "0-3", None)),
        ("a=all@1.5", ("a", "all", 1.5)),
        ("a=@0", ("a", "", 0.0)),
    ],
)
def test_rule(text, rule):
    assert whatif.parse(text) == rule


@pytest.mark.parametrize(
    "text", ["", "a", "=", "=0", "a=x", "a=0@", "a=0@-1", "a=0@nan", "a=0@inf", "a=3-1", "a=1@2@3"]
)
def test_rule_that_is_none(text):
    with pytest.raises(whatif.RuleError):
        whatif.parse(text)
