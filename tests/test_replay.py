# SPDX-License-Identifier: LGPL-3.0
"""What the replay says of each kind of log."""

import pytest

from replay_log import (
    CLOSED,
    ENDED,
    PENDING,
    RELEASED,
    RUNNING,
    T0,
    action,
    codes,
    exception,
    finish,
    holds,
    job_of,
    prolog,
    record,
    start,
    went,
    write,
)


def blocker(found):
    """(kind, description, ranks, seconds after T0) of what blocks the job."""
    b = found["blocker"]
    return b and (b["kind"], b["description"], b["ranks"], b["since"] - T0)


# States


@pytest.mark.parametrize(
    ("steps", "state", "blocks"),
    [
        (PENDING[:1], "new", None),
        (PENDING[:2], "depend", None),
        (PENDING[:3], "priority", None),
        (PENDING, "sched", ("scheduler", None, "", 3)),
        ([*PENDING, (9, "urgency", {"urgency": 0, "userid": 1})], "priority", None),
        ([*PENDING, (9, "flux-restart")], "priority", None),
        ([*PENDING, (9, "jobspec-update", {"a": 1})], "priority", None),
        ([*PENDING, (4, "alloc")], "run", ("exec", None, "0-3", 4)),
        (RUNNING, "run", ("exec", None, "0-3", 10)),
        (ENDED, "cleanup", ("exec", None, "0-3", 100)),
        (RELEASED, "cleanup", ("scheduler", None, "0-3", 100.5)),
        ([*RELEASED, CLOSED[0]], "cleanup", None),
        ([*RELEASED, *CLOSED], "inactive", None),
    ],
)
def test_state_and_blocker_at_each_step(steps, state, blocks):
    found = record(steps)
    assert found["state"] == state
    assert blocker(found) == blocks
    assert found["warnings"] == []


def test_job_without_alloc_has_no_ranks_even_if_R_is_given():
    found = record([*PENDING, exception(5, "cancel"), start(6, "a")])
    assert (found["ranks"], found["nranks"], found["held"]) == ("", 0, "")
    assert action(found, "a")["intervals"] == []
    assert blocker(found) == ("epilog", "a", "", 6)
    assert found["waited_node_seconds"] == 0
    assert found["warnings"] == []


def test_fatal_exception_ends_the_job_not_a_lesser_one():
    steps = [*RUNNING, exception(20, "x", 1), exception(30, "y", 0), exception(40, "z", 0)]
    found = record(steps)
    assert (found["state"], found["t_end"]) == ("cleanup", T0 + 30)
    assert blocker(found) == ("exec", None, "0-3", 30)


def test_start_after_the_end_does_not_reopen_the_job():
    found = record([*PENDING, (4, "alloc"), exception(5, "x"), (6, "start")])
    assert found["state"] == "cleanup"
    assert codes(found) == [("reopened", 7)]


def test_events_after_clean_have_no_effect():
    steps = [*RELEASED, start(101, "a"), *CLOSED, finish(902, "a"), exception(903, "x")]
    found = record(steps)
    assert found["state"] == "inactive"
    assert action(found, "a")["end"] is None
    assert codes(found) == [
        ("premature-free", 10),
        ("premature-free", 11),
        ("reopened", 12),
        ("reopened", 13),
    ]


# Epilogs


def test_old_log_holds_all_until_the_finish():
    steps = [(150, "free"), (151, "clean")]
    found = record([*RELEASED, start(100.5, "a"), finish(150, "a"), *steps])
    assert holds(found, "a") == [("0-3", 100.5, 150)]
    assert action(found, "a")["status"] == 0
    assert went(found) == [(150, "0-3", "free")]
    assert (found["held"], found["gone"]) == ("", "0-3")
    assert found["held_node_seconds"] == {"a": 4 * 49.5}
    assert found["waited_node_seconds"] == 4 * 50
    assert found["warnings"] == []


def test_overlapping_epilogs_share_ranks():
    found = record([*RELEASED, start(101, "a", ranks="0-1"), start(102, "b", ranks="1-2")])
    assert found["held"] == "0-2"
    assert found["holders"] == [
        {"ranks": "0", "descriptions": ["a"]},
        {"ranks": "1", "descriptions": ["a", "b"]},
        {"ranks": "2", "descriptions": ["b"]},
    ]
    assert blocker(found) == ("epilog", "a, b", "0-2", 101)


def test_partial_finishes_let_go_and_the_rest_goes_at_the_end():
    found = record(
        [
            *RELEASED,
            start(101, "a"),
            finish(110, "a", ranks="3"),
            (110, "partial-free", {"ranks": "3"}),
            finish(120, "a", ranks="0-1"),
            (120, "partial-free", {"ranks": "0-1"}),
            finish(130, "a", 256),
            (130, "free"),
            (131, "clean"),
        ]
    )
    assert holds(found, "a") == [("3", 101, 110), ("0-1", 101, 120), ("2", 101, 130)]
    assert action(found, "a")["status"] == 256
    assert went(found) == [
        (110, "3", "partial-free"),
        (120, "0-1", "partial-free"),
        (130, "2", "free"),
    ]
    assert found["waited_node_seconds"] == 10 + 2 * 20 + 30
    assert found["warnings"] == []


def test_epilog_that_holds_none_lets_free_come_first():
    steps = [*RELEASED, start(101, "a", ranks=""), (101, "free"), finish(500, "a"), (501, "clean")]
    found = record(steps)
    assert action(found, "a")["intervals"] == []
    assert action(found, "a")["end"] == T0 + 500
    assert found["held_node_seconds"] == {"a": 0}
    assert found["warnings"] == []


def test_partial_finish_of_all_goes_on():
    found = record([*RELEASED, start(101, "a"), finish(110, "a", ranks="all")])
    assert holds(found, "a") == [("0-3", 101, 110)]
    assert action(found, "a")["end"] is None
    assert blocker(found) == ("epilog", "a", "", 101)


def test_same_description_twice_ends_the_oldest_first():
    found = record([*RELEASED, start(101, "a"), start(102, "a"), finish(110, "a", 512)])
    assert [a["end"] for a in found["actions"]] == [T0 + 110, None]
    assert found["warnings"] == []


def test_hold_placed_in_run_counts_from_cleanup():
    found = record([*RUNNING, start(50, "a"), *RELEASED[-2:], finish(110, "a")])
    assert holds(found, "a") == [("0-3", 50, 110)]
    assert found["held_node_seconds"] == {"a": 40}
    assert found["warnings"] == []


@pytest.mark.parametrize(
    ("ranks", "code"),
    [
        (0, "bad-value"),
        (None, "bad-value"),
        (["0"], "bad-value"),
        ("0-", "bad-value"),
        ("1,,2", "bad-value"),
        ("3-1", "bad-value"),
        ("99999999999999999999", "bad-value"),
        ("4", "ranks-not-in-R"),
        ("0-2147483647", "ranks-not-in-R"),
    ],
)
def test_bad_ranks_start_holds_all_partial_finish_does_nothing(ranks, code):
    found = record([*RELEASED, start(101, "a", ranks=ranks)])
    assert (found["held"], codes(found)) == ("0-3", [(code, 9)])
    found = record([*RELEASED, start(101, "a"), finish(102, "a", ranks=ranks)])
    assert (found["held"], codes(found)) == ("0-3", [(code, 10)])
    assert action(found, "a")["end"] is None


def test_partial_finish_of_no_ranks_does_nothing():
    found = record([*RELEASED, start(101, "a"), finish(102, "a", ranks="")])
    assert (found["held"], codes(found)) == ("0-3", [("bad-value", 10)])


def test_start_on_ranks_that_have_gone_holds_the_rest():
    steps = [*RELEASED, start(101, "a", ranks="0"), (102, "partial-free", {"ranks": "1-3"})]
    found = record([*steps, start(103, "b", ranks="0-1")])
    assert holds(found, "b") == [("0", 103, None)]
    assert codes(found) == [("bad-value", 11)]


def test_start_after_free_holds_no_rank():
    found = record([*RELEASED, (101, "free"), start(102, "a")])
    assert found["held"] == ""
    assert codes(found) == [("reopened", 10)]


# Finishes that match nothing


def test_mistyped_finish_ends_the_only_action_and_free_rests_on_it():
    steps = [*RELEASED, start(101, "a"), finish(110, "b"), (111, "free"), (112, "clean")]
    found = record(steps)
    assert action(found, "a")["end"] == T0 + 110
    assert codes(found) == [
        ("unmatched-finish", 10),
        ("premature-free", 11),
        ("premature-free", 12),
    ]
    text = found["warnings"][0]["text"]
    assert "'a'" in text and "'b'" in text


def test_finish_without_description_ends_the_only_action():
    steps = [*RELEASED, start(101, "a"), (110, "epilog-finish", {"name": "a"})]
    found = record(steps)
    assert (action(found, "a")["end"], action(found, "a")["status"]) == (T0 + 110, None)
    assert codes(found) == [("missing-key", 10), ("unmatched-finish", 10)]


def test_finish_without_description_with_two_outstanding_ends_none():
    steps = [*RELEASED, start(101, "a"), start(101, "b"), (110, "epilog-finish", {"status": 0})]
    found = record(steps)
    assert found["held"] == "0-3"
    assert [a["end"] for a in found["actions"]] == [None, None]
    assert codes(found) == [("missing-key", 11), ("unmatched-finish", 11)]
    assert "a, b" in found["warnings"][1]["text"]


@pytest.mark.parametrize("extra", [{}, {"ranks": "0"}])
def test_finish_with_none_outstanding(extra):
    found = record([*RELEASED, finish(110, "a", **extra)])
    assert codes(found) == [("unmatched-finish", 9)]
    assert found["actions"] == []


def test_partial_finish_without_match_never_takes_the_only_action():
    found = record([*RELEASED, start(101, "a"), finish(110, "b", ranks="0")])
    assert found["held"] == "0-3"
    assert codes(found) == [("unmatched-finish", 10)]


def test_actions_without_a_description_are_actions():
    steps = [*RELEASED, (101, "epilog-start"), (110, "epilog-finish", {"status": 0})]
    found = record(steps)
    assert action(found, None)["end"] == T0 + 110
    assert found["held_node_seconds"] == {"(no description)": 36}
    assert [code for code, _ in codes(found)] == ["missing-key", "missing-key", "unmatched-finish"]


def test_too_many_actions_are_refused_by_the_ledger():
    found = record([*RELEASED, *(start(101, f"a{i}") for i in range(256))])
    assert len(found["actions"]) == 255
    assert codes(found) == [("bad-value", 264)]


# Frees that come too soon


def test_free_while_an_epilog_is_open_ends_its_hold_but_not_the_action():
    found = record([*RELEASED, start(101, "a"), (110, "free"), finish(120, "a"), (121, "clean")])
    assert holds(found, "a") == [("0-3", 101, 110)]
    assert action(found, "a")["end"] == T0 + 120
    assert codes(found) == [("premature-free", 10)]


def test_partial_free_is_premature_on_the_ranks_held_only():
    steps = [*RELEASED, start(101, "a", ranks="0"), (110, "partial-free", {"ranks": "1-2"})]
    assert record(steps)["warnings"] == []
    found = record([*steps, (111, "partial-free", {"ranks": "0"})])
    assert codes(found) == [("premature-free", 11)]
    assert "ranks 0 " in found["warnings"][0]["text"]


def test_free_while_a_prolog_is_open():
    steps = [*PENDING, (4, "alloc"), prolog(5, "start", "p"), exception(6, "x"), (7, "free")]
    assert codes(record(steps)) == [("premature-free", 8)]


def test_clean_while_an_epilog_is_open():
    found = record([*PENDING, exception(5, "x"), start(6, "a"), (7, "clean")])
    assert (found["state"], found["blocker"]) == ("inactive", None)
    assert codes(found) == [("premature-free", 7)]


# Prologs


def test_open_prolog_blocks_though_all_epilogs_are_closed():
    steps = [*PENDING, (4, "alloc"), prolog(5, "start", "p"), prolog(6, "start", "q")]
    steps += [prolog(7, "finish", "q", status=0), exception(20, "cancel")]
    steps += [start(21, "a"), finish(30, "a"), exception(100, "cancel")]
    found = record(steps)
    assert blocker(found) == ("prolog", "p", "0-3", 5)
    assert found["held"] == "0-3"
    assert found["held_node_seconds"] == {"p": 320, "a": 36}
    assert found["warnings"] == []


def test_prologs_that_end_in_run_cost_nothing():
    steps = [*PENDING, (4, "alloc"), prolog(5, "start", "p"), prolog(9, "finish", "p", status=0)]
    found = record([*steps, (10, "start"), (100, "finish", {"status": 0})])
    assert found["held_node_seconds"] == {}
    assert holds(found, "p") == [("0-3", 5, 9)]


def test_prolog_finish_of_another_name_ends_the_oldest():
    steps = [*PENDING, (4, "alloc"), prolog(5, "start", "p"), prolog(9, "finish", "q", status=0)]
    found = record(steps)
    assert action(found, "p")["end"] == T0 + 9
    assert codes(found) == [("unmatched-finish", 7)]


def test_prolog_start_while_shells_run_is_not_counted():
    found = record([*RUNNING, prolog(20, "start", "p")])
    assert found["actions"] == []
    assert codes(found) == [("out-of-order", 7)]


# Claims, bypass, lost nodes


def test_scheduler_restart_drops_holds_and_claim():
    steps = [*RELEASED, start(101, "a"), exception(110, "scheduler-restart")]
    found = record([*steps, start(111, "b"), start(112, "c", ranks="0")])
    assert holds(found, "a") == [("0-3", 101, 110)]
    assert (found["held"], found["holders"], found["gone"]) == ("", [], "")
    assert (found["state"], found["waited_node_seconds"]) == ("cleanup", 40)
    assert blocker(found) == ("epilog", "a, b, c", "", 101)
    assert codes(found) == [("lost-claim", 10)]


def test_scheduler_restart_of_lesser_severity_drops_nothing():
    found = record([*RELEASED, start(101, "a"), exception(110, "scheduler-restart", 1)])
    assert (found["held"], found["warnings"]) == ("0-3", [])


@pytest.mark.parametrize(
    "steps",
    [
        [(0.5, "set-flags", {"flags": ["alloc-bypass"]}), (4, "alloc")],
        [(4, "alloc", {"bypass": True})],
    ],
)
def test_alloc_bypass_waits_for_nothing(steps):
    tail = [(10, "start"), (100, "finish", {"status": 0}), start(101, "a")]
    found = record([*PENDING, *steps, *tail, RELEASED[-1]], rules=["a="])
    assert found["bypass"] is True
    assert found["waited_node_seconds"] == 0
    assert found["what_if"] == {"waited_node_seconds": 0, "returned_node_seconds": 0}
    assert found["held"] == "0-3"


@pytest.mark.parametrize(
    ("kind", "severity", "note", "lost"),
    [
        ("node-failure", 2, "node failure on n13 (shell rank 1)", "13"),
        ("exec", 0, "node failure on n12 (rank 12)", "12"),
        ("node-failure", 1, "lost contact with ranks 12,17-18", "12,17-18"),
        ("node-failure", 2, "node failure on n17", ""),
        ("exec", 0, "task 0 (rank 12): start failed", ""),
    ],
)
def test_lost_ranks_are_those_that_node_failures_name(kind, severity, note, lost):
    found = record([*RUNNING, exception(20, kind, severity, note)], ranks="12-13,17-18")
    assert found["lost"] == lost


def test_lost_rank_that_is_not_the_jobs():
    found = record([*RUNNING, exception(20, "node-failure", 2, "node failure on n9 (rank 9)")])
    assert (found["lost"], codes(found)) == ("", [("ranks-not-in-R", 7)])


def test_shell_rank_without_R_can_not_be_told():
    steps = [*RUNNING, exception(20, "node-failure", 2, "node failure on n9 (shell rank 1)")]
    found = record(steps, ranks=None)
    assert (found["lost"], codes(found)) == ("", [("ranks-unknown", None), ("bad-value", 7)])


# Ranks that are not known


def test_unknown_ranks_are_called_all_and_cost_is_not_known():
    steps = [*RELEASED, start(101, "a"), finish(150, "a"), (150, "free"), (151, "clean")]
    found = record(steps, ranks=None)
    assert (found["ranks"], found["nranks"], found["gone"]) == ("all", None, "all")
    assert holds(found, "a") == [("all", 101, 150)]
    assert found["held_node_seconds"] == {"a": None}
    assert found["waited_node_seconds"] is None
    assert codes(found) == [("ranks-unknown", None)]


def test_named_ranks_of_an_unknown_R_are_known():
    steps = [*RELEASED, start(101, "a", ranks="5"), start(101, "b"), finish(110, "b", ranks="7")]
    found = record(steps, ranks=None)
    assert holds(found, "a") == [("5", 101, None)]
    assert holds(found, "b") == [("7", 101, 110), (None, 101, None)]
    assert codes(found) == [("ranks-unknown", None)]
    found = record([*steps, (120, "partial-free", {"ranks": "7"}), (130, "free")], ranks=None)
    assert went(found) == [(120, "7", "partial-free"), (130, None, "free")]


def test_unknown_R_and_a_rank_too_high_to_be_one():
    found = record([*RELEASED, start(101, "a", ranks="0-2147483647")], ranks=None)
    assert found["held"] == "all"
    assert codes(found) == [("ranks-unknown", None), ("bad-value", 9)]


def test_alloc_annotation_stands_in_for_R():
    summary = {"annotations": {"sched": {"resource_summary": "rank[2-3,5]/core0 rank9/core[0-1]"}}}
    found = record([*PENDING, (4, "alloc", summary)], ranks=None)
    assert (found["ranks"], found["nranks"]) == ("2-3,5,9", 4)
    assert codes(found) == [("ranks-unknown", None)]
    summary = {"annotations": {"sched.resource_summary": "rank0/core[0-1]"}}
    assert record([*PENDING, (4, "alloc", summary)], ranks=None)["ranks"] == "0"


# Damaged logs


def test_headless_log_is_read_from_what_is_there():
    found = record([start(101, "a"), (102, *RELEASED[-1][1:]), finish(150, "a"), *CLOSED])
    assert (found["state"], found["t_end"]) == ("inactive", None)
    assert holds(found, "a") == [("0-3", 101, 150)]
    assert found["waited_node_seconds"] == 4 * (900 - 101)
    assert codes(found) == [("no-submit", 1)]


def test_headless_log_without_R_or_sign_of_resources():
    found = record([start(101, "a"), (102, "clean")], ranks=None)
    assert (found["ranks"], found["state"]) == ("", "inactive")
    assert codes(found) == [("no-submit", 1), ("premature-free", 2)]


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([*PENDING, (9, "resource-update", {"expiration": 1})], 5),
        ([*PENDING, (9, "start")], 5),
        ([*RUNNING, (20, "free")], 7),
        ([*PENDING, (4, "alloc"), (9, "finish", {"status": 0})], 6),
        ([*RELEASED, (101, "clean")], 9),
        ([*RELEASED, (101, "free"), (102, "free")], 10),
    ],
)
def test_a_step_that_is_missing_is_said_once(steps, line):
    assert codes(record(steps)) == [("out-of-order", line)]


def test_time_that_goes_back_is_said_and_the_file_order_counts():
    found = record([*RELEASED, start(101, "a"), finish(99, "a"), (99, "free"), (98, "clean")])
    assert found["state"] == "inactive"
    assert found["held_node_seconds"] == {"a": 0}
    assert codes(found) == [("out-of-order", 10), ("out-of-order", 12)]


def test_equal_times_are_in_order():
    found = record([(0, *step[1:]) for step in [*RELEASED, start(0, "a"), finish(0, "a"), *CLOSED]])
    assert (found["state"], found["warnings"]) == ("inactive", [])


@pytest.mark.parametrize("line", [b"{garbled", b"[1]", b"null", b"\xff\xfe", b"[snip]", b"7"])
def test_bad_lines_are_named_and_the_rest_is_read(line):
    data = write(RELEASED[:3]) + line + b"\n" + write(RELEASED[3:])
    job = job_of(data)
    assert [(c.code, c.line) for c in job.warnings] == [("bad-json", 4)]
    assert job.state == 5


def test_cut_last_line():
    job = job_of(write(RELEASED) + b'{"timestamp":17000')
    assert [(c.code, c.line) for c in job.warnings] == [("cut-line", 9)]
    assert [c.code for c in job_of(write(RELEASED)[:-1]).warnings] == []


def test_many_bad_lines_are_counted():
    job = job_of(write(RELEASED) + b"{\n" * 5000)
    assert len(job.warnings) == 101
    assert "4900" in job.warnings[-1].text


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (b'{"name":"free"}', "missing-key"),
        (b'{"timestamp":1}', "missing-key"),
        (b'{"timestamp":"1","name":"free"}', "bad-value"),
        (b'{"timestamp":true,"name":"free"}', "bad-value"),
        (b'{"timestamp":1e30,"name":"free"}', "bad-value"),
        (b'{"timestamp":1e999,"name":"free"}', "bad-json"),
        (b'{"timestamp":NaN,"name":"free"}', "bad-json"),
        (b'{"timestamp":1700000200,"name":5}', "bad-value"),
        (b'{"timestamp":1700000200,"name":""}', "bad-value"),
        (b'{"timestamp":1700000200,"name":"memo","context":[]}', "bad-value"),
        (b'{"timestamp":1700000200,"name":"a\\ud800"}', "bad-json"),
        (b'{"timestamp":1700000200,"context":' + b'{"a":' * 5000, "bad-json"),
    ],
)
def test_bad_entries_have_no_effect(entry, code):
    job = job_of(write(RELEASED) + entry + b"\n")
    assert [(c.code, c.line) for c in job.warnings] == [(code, 9)]
    assert (job.state, job.gone) == (5, 0)


def test_blank_lines_and_carriage_returns_do_not_shift_line_numbers():
    data = write(RELEASED).replace(b"\n", b"\r\n\r\n") + b"{\n"
    assert [(c.code, c.line) for c in job_of(data).warnings] == [("bad-json", 17)]


def test_byte_order_mark():
    assert job_of(b"\xef\xbb\xbf" + write(RELEASED)).warnings == []


def test_time_zero_and_stripped_contexts():
    data = b'{"timestamp":0,"name":"submit"}\n{"timestamp":0.5,"name":"validate"}\n'
    job = job_of(data)
    assert [(c.code, c.line) for c in job.warnings] == [("bad-value", 1), ("missing-key", 1)]
    assert job.state == 1


@pytest.mark.parametrize(
    ("name", "context", "lacking"),
    [
        ("exception", {"type": "x", "severity": 1}, "note"),
        ("exception", {"severity": 1, "note": ""}, "type"),
        ("exception", {"type": "x", "note": ""}, "severity"),
        ("release", {"final": True}, "ranks"),
        ("release", {"ranks": "all"}, "final"),
        ("prolog-start", {}, "description"),
        ("urgency", {"urgency": 1}, "userid"),
        ("set-flags", {}, "flags"),
        ("dependency-add", {}, "description"),
        ("partial-free", {}, "ranks"),
    ],
)
def test_required_keys_that_are_missing_are_named(name, context, lacking):
    found = record([*ENDED, (101, name, context)])
    assert ("missing-key", 8) in codes(found)
    assert any(f"no {lacking}" in warning["text"] for warning in found["warnings"])


@pytest.mark.parametrize("severity", [8, -1, "0", True, 0.0])
def test_severity_that_is_none_has_no_effect(severity):
    found = record([*RUNNING, (20, "exception", {"type": "x", "severity": severity, "note": ""})])
    assert (found["state"], codes(found)) == ("run", [("bad-value", 7)])


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", "empty", "empty"),
        (b"\n\n", "empty", "empty"),
        (b"foo\n", "wrong-log", "no line"),
        (write([(0, "init"), (1, "starting"), (2, "shell.init", {})]), "wrong-log", "RFC 50"),
        (write([(0, "header", {}), (1, "data", {})]), "wrong-log", "RFC 24"),
        (write([(0, "resource-define", {}), (1, "online", {})]), "wrong-log", "RFC 21"),
        (b'{"version":1,"execution":{"R_lite":[]}}', "wrong-log", "no line"),
    ],
)
def test_what_is_not_a_job_eventlog_is_unusable(data, code, says):
    job = job_of(data)
    assert not job.usable
    assert job.warnings[-1].code == code
    assert says in job.warnings[-1].text


def test_unknown_events_are_passed_over():
    found = record([*RELEASED, (101, "debug.free-request"), (102, "memo", {"a": -(2**63)})])
    assert (found["state"], found["warnings"]) == ("cleanup", [])


def test_log_of_before_0_41_has_no_validate():
    steps = [step for step in [*RELEASED, *CLOSED] if step[1] != "validate"]
    found = record(steps)
    assert (found["state"], found["warnings"]) == ("inactive", [])
