# SPDX-License-Identifier: LGPL-3.0
"""The model of the random driver complains of each kind of wrong, and of nothing that is right.

The driver itself runs in t/t2236. Here the model is given the events of a job, right ones and
then one wrong one, as if a live job manager had sent them.
"""

from __future__ import annotations

import errno
import json

import epilog_json
import pytest
from epilog_model import JobModel, Wrong

R = {"execution": {"R_lite": [{"rank": "4-7", "children": {"core": "0-1"}}]}}
ID = 17


def event(name: str, **context: object) -> dict:
    """An event of the journal."""
    return {"timestamp": 1.0, "name": name, "context": context}


def start(ranks: str | None = None, description: str = "a") -> dict:
    context = {"description": description}
    if ranks is not None:
        context["ranks"] = ranks
    return event("epilog-start", **context)


def finish(ranks: str | None = None, description: str = "a") -> dict:
    context = {"description": description}
    if ranks is not None:
        context["ranks"] = ranks
    return event("epilog-finish", **context)


RUN = [event("alloc"), event("start")]
DONE = [event("finish"), event("release", ranks="all", final=True)]
GO = event("partial-free", ranks="4-5")
HELD = [*RUN, *DONE, start("6-7")]


def feed(events: list[dict], partial: bool = True, end: list | None = None) -> JobModel:
    model = JobModel("job", [], end or [])
    model.id = ID
    for one in events:
        model.feed(one, R, {partial})
    return model


def kind(events: list[dict], **options: object) -> str:
    """Feed all events but the last, then the last, which is wrong: how?"""
    model = feed(events[:-1], **options)
    with pytest.raises(Wrong) as caught:
        model.feed(events[-1], R, {options.get("partial", True)})
    return caught.value.kind


def test_right_ones() -> None:
    model = feed([*HELD, GO, finish("6"), event("partial-free", ranks="6")])
    assert model.may_go() == set()
    model = feed([*HELD, GO, finish(), event("free"), event("clean")])
    assert model.ended
    assert [one["name"] for one in model.unclaimed] == ["epilog-start", "epilog-finish"]


@pytest.mark.parametrize("ranks", ["4", "4-6", "6", "4-7"])
def test_not_what_may_go(ranks: str) -> None:
    assert kind([*HELD, event("partial-free", ranks=ranks)]) == "not what may go"


@pytest.mark.parametrize(
    "events",
    [
        [*RUN, start("6-7"), GO],  # runs
        [*RUN, event("finish"), start("6-7"), GO],  # the exec system has it
        [*HELD, event("prolog-start", description="p"), GO],
        [*HELD, GO, GO],  # twice
        [*HELD, GO, event("free")],  # the rest is held
        [*RUN, *DONE, event("prolog-start", description="p"), event("free")],
        [event("alloc"), event("free")],
    ],
)
def test_too_early(events: list[dict]) -> None:
    assert kind(events) == "not what may go"


def test_last_ranks_go_with_free() -> None:
    assert kind([*RUN, *DONE, start(""), event("partial-free", ranks="4-7")]) == (
        "partial-free of all that is left"
    )


def test_scheduler_that_takes_no_parts() -> None:
    assert kind([*HELD, GO], partial=False) == "in parts without partial-ok"
    feed([*HELD, finish(), event("free"), event("clean")], partial=False)


def test_kept_rank() -> None:
    model = feed([*RUN, *DONE, start("")])
    model.keep_is(True)
    assert model.may_go() == {5, 6, 7}
    with pytest.raises(Wrong, match="not what may go"):
        model.feed(event("free"), R, {True})
    model.feed(event("partial-free", ranks="5-7"), R, {True})


def test_rule_that_changes_meanwhile() -> None:
    for handoff in ("free", "partial-free"):
        model = feed([*RUN, *DONE, start("")])
        model.keep_may_become(True)
        model.feed(event(handoff, ranks="5-7"), R, {True})


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([*HELD, event("clean")], "clean while an action is outstanding"),
        ([*RUN, *DONE, event("clean")], "clean without free"),
        ([*RUN, *DONE, event("free"), event("free")], "second free"),
        ([*RUN, *DONE, event("free"), event("clean"), GO], "event after clean"),
        ([*HELD, start("9")], "taken"),
        ([*HELD, finish("6", "b")], "taken"),
        ([*HELD, GO, start("4")], "taken"),
        ([event("alloc"), event("exception", type="alloc-check", severity=0)], None),
    ],
)
def test_wrong_events(events: list[dict], what: str | None) -> None:
    assert kind(events) == (what or "resources are allocated twice")


def test_plugin_has_its_say() -> None:
    context = {"description": "a", "ranks": "4"}
    wrong = {"description": "a", "ranks": "9"}
    model = feed([*RUN, event("finish")], end=[context, wrong, "x"])
    with pytest.raises(Wrong, match="event is missing"):
        model.at_end()
    model.feed(event("epilog-start", **context), R, {True})
    model.at_end()
    model.feed(start("5"), R, {True})
    with pytest.raises(Wrong, match="event that nobody posted"):
        model.at_end()


@pytest.mark.parametrize(
    ("name", "context", "errnum"),
    [
        ("epilog-start", '{"description":"b","ranks":"7"}', 0),
        ("epilog-start", '{"description":"b","ranks":"8"}', errno.EINVAL),
        ("epilog-start", '{"description":"b","ranks":"4"}', errno.EINVAL),  # has gone
        ("epilog-start", '{"description":"b","ranks":7}', errno.EINVAL),
        ("epilog-start", '{"ranks":"7"}', errno.EINVAL),
        ("epilog-start", "[]", errno.EINVAL),
        ("epilog-start", "null", errno.EINVAL),
        ("epilog-start", "{", errno.EPROTO),
        ("epilog-finish", '{"description":"b"}', 0),  # the only one
        ("epilog-finish", '{"description":"b","ranks":"6"}', errno.EINVAL),
        ("epilog-finish", '{"description":"a","ranks":""}', errno.EINVAL),
        ("epilog-finish", '{"description":"a","ranks":"6\\u0000"}', errno.EINVAL),
        ("epilog-release", None, errno.EPROTO),
        ("partial-free", '{"ranks":"6"}', errno.EINVAL),
        ("memo", '{"a":"b"}', 0),
    ],
)
def test_answers(name: str, context: str | None, errnum: int) -> None:
    model = feed([*HELD, GO])
    model.unclaimed.clear()
    request = model.request(name, context)
    wrong = errno.EEXIST if errnum == 0 else errno.EOVERFLOW
    with pytest.raises(Wrong, match="wrong answer"):
        model.answered(request, wrong)
    if errnum:
        model.answered(request, errnum)
    elif name.startswith("epilog"):
        with pytest.raises(Wrong, match="answered, but not done"):
            model.answered(request, 0)
        model.feed(event(name, **json.loads(context or "{}")), R, {True})
        model.answered(request, 0)
        model.at_end()


def test_job_that_is_gone() -> None:
    model = feed([*RUN, *DONE, event("free"), event("clean")])
    model.answered(model.request("epilog-start", "{}"), errno.ENOENT)
    with pytest.raises(Wrong, match="wrong answer"):
        model.answered(model.request("epilog-start", "{}"), errno.EINVAL)


def test_too_many_to_start_a_prolog() -> None:
    """Actions count from CLEANUP on, prologs always."""
    model = feed([*RUN, *DONE, *[start("4")] * 254])
    assert model.check("prolog-start", {}) == set()
    model.feed(event("prolog-start", description="p"), R, {True})
    assert model.check("prolog-start", {}) == {errno.EOVERFLOW}
    assert feed([event("alloc"), *[start("4")] * 255]).check("prolog-start", {}) == set()


# Restarts


def test_all_comes_back() -> None:
    events = [*HELD, GO]
    model = feed(events)
    model.restart(events, R, len(events), 1.5)
    assert model.oracle.gone_set == {4, 5}
    assert model.may_go() == set()


def test_prolog_that_counts_only_when_replayed() -> None:
    """One that is posted while shells run: what was taken after it is not refused for it."""
    prolog = event("prolog-start", description="p")
    events = [*RUN, prolog, DONE[0], *[start("4")] * 255, prolog, DONE[1]]
    model = feed(events)
    assert model.oracle.prolog_count == 0
    assert len(model.oracle.outstanding) == 255
    model.restart(events, R, len(events), 1.5)
    assert model.oracle.prolog_count == 1
    assert len(model.oracle.outstanding) == 255
    assert model.check("epilog-start", {"description": "a"}) == {errno.EOVERFLOW}
    assert model.check("prolog-start", {}) == {errno.EOVERFLOW}


def test_what_was_not_written_may_be_lost() -> None:
    model = feed([*HELD, GO])
    model.restart(HELD, R, len(HELD), 1.5)
    assert model.may_go() == {4, 5}
    with pytest.raises(Wrong, match="lost by a restart"):
        feed([*HELD, GO]).restart(HELD, R, len(HELD) + 1, 1.5)


def test_new_events_after_a_restart_are_judged() -> None:
    new = dict(event("partial-free", ranks="6-7"), timestamp=2.0)
    with pytest.raises(Wrong, match="not what may go"):
        feed(HELD).restart([*HELD, new], R, len(HELD), 1.5)


def test_resources_without_alloc_event() -> None:
    """Canceled before the answer came: its actions are as they were, and R is known now."""
    events = [event("exception", type="cancel", severity=0), start(""), start()]
    model = JobModel("job", [], [])
    for one in events:
        model.feed(one, None, {True})
    model.restart(events, R, len(events), 1.5)
    assert model.own_actions() == ["a", "a"]
    model.feed(finish("4"), R, {True})
    with pytest.raises(Wrong, match="taken"):
        model.feed(finish("9"), R, {True})


def test_bad_events_in_an_eventlog() -> None:
    events = [*RUN, *DONE, start("9"), finish("4", "b"), finish("", "a")]
    model = JobModel("job", [], [])
    model.events = list(events)
    model.restart(events, R, len(events), 1.5)
    assert model.oracle.held_set() == {4, 5, 6, 7}


# JSON as jansson reads it


@pytest.mark.parametrize(
    "text",
    ["NaN", "1e999", "9223372036854775808", '"\\ud800"', '{"a\\u0000":1}', "[" * 5000, "{'a':1}"]
    + ["[" * 2049 + "]" * 2049, '{"a":1e999,"a":1}', ""],
)
def test_unreadable(text: str) -> None:
    with pytest.raises(ValueError):
        epilog_json.decode(text)


@pytest.mark.parametrize("text", ["1e-400", '"\\u0000"', '{"a":1,"a":2}', "[" * 2048 + "]" * 2048])
def test_readable(text: str) -> None:
    epilog_json.decode(text)
