# SPDX-License-Identifier: LGPL-3.0
"""Real logs and R from public reports, which lie beside the project: each with its verdict.

Skipped where ../shared/cases is missing; what matters of them stands in test_replay.py, too.
"""

import json
from pathlib import Path

import pytest

from epilog_replay import event, rset
from epilog_replay.cli import Options, read_log
from epilog_replay.job import Job
from epilog_replay.record import to_dict
from epilog_replay.source import Source

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
LOGS = CASES / "eventlogs"

if not CASES.is_dir():
    pytest.skip("../shared/cases is not here", allow_module_level=True)

NO_R = ("ranks-unknown", None)

# name: (state, t_end, ranks, held, blocker (kind, description, since), warnings (code, line))
# and the epilogs as (description, start, end, status).
VERDICTS = {
    "001-stuck-epilog-2node": (
        ("cleanup", 1660667516.910088, "all", "all"),
        ("epilog", "job-manager.epilog", 1660667516.916389),
        [NO_R],
        [("job-manager.epilog", 1660667516.916389, None, None)],
    ),
    "002-debug-flag-normal": (
        ("inactive", 1688141614.157418, "all", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1688141614.157837, 1688141624.738769, 0)],
    ),
    "003-timelimit-epilog-cut": (
        ("cleanup", 1688141703.73561, "all", ""),
        ("exec", None, 1688141703.73561),
        [NO_R],
        [],
    ),
    "004-clean-before-epilog-finish": (
        ("inactive", None, "", ""),
        None,
        [("no-submit", 1), ("premature-free", 2)],
        [("dws-epilog", 1689787285.137467, None, None)],
    ),
    "005-dws-epilog-normal-tail": (
        ("inactive", 1689787301.106616, "all", ""),
        None,
        [("no-submit", 1), NO_R],
        [("dws-epilog", 1689787301.106683, 1689787315.361298, 0)],
    ),
    "007-human-format-minute-roll": (
        ("inactive", 1715174940.98732, "all", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1715174940.98745, 1715175000.0, 0)],
    ),
    "008-shell-init-failure-complete": (
        ("inactive", 1698792993.739864, "all", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1698792993.752598, 1698792994.313907, 0)],
    ),
    "010-prolog-cancel-timed-out-iso": (
        ("cleanup", 1731023607.759535, "all", "all"),
        ("prolog", "job-manager.prolog", 1731023573.02194),
        [("no-submit", 1), NO_R],
        [],
    ),
    "011-duration-update-timeout": (
        ("inactive", 1742112660.0, "all", ""),
        None,
        [NO_R],
        [],
    ),
    "012-snip-in-the-middle": (("priority", None, "", ""), None, [("out-of-order", 7)], []),
    "013-resource-update-running": (
        ("run", None, "0", ""),
        ("exec", None, 1701130314.449819),
        [NO_R],
        [],
    ),
    "014-held-urgency-no-alloc": (("priority", None, "", ""), None, [], []),
    "015-fatal-exception-then-start": (
        ("cleanup", 1688515200.022, "0", ""),
        ("exec", None, 1688515200.039),
        [NO_R, ("reopened", 7)],
        [],
    ),
    "016-noncontiguous-5rank-exec-fail": (
        ("cleanup", 1646584205.699234, "2-3,5-7", ""),
        ("exec", None, 1646584205.699234),
        [NO_R],
        [],
    ),
    "017-two-epilogs-one-stuck": (
        ("cleanup", 1729668840.0, "all", "all"),
        ("epilog", "dws-epilog", 1729668840.007843),
        [("no-submit", 1), NO_R],
        [
            ("job-manager.epilog", 1729668840.00779, 1729668842.011065, 0),
            ("dws-epilog", 1729668840.007843, None, None),
        ],
    ),
    "019-release-without-start-redacted-userid": (
        ("inactive", None, "all", ""),
        None,
        [("bad-json", 2), ("no-submit", 1), NO_R],
        [],
    ),
    "020-restart-loop-prolog-cut": (
        ("run", None, "all", "all"),
        ("prolog", "job-manager.prolog", 1740136770.021013),
        [NO_R],
        [],
    ),
    "021-256node-prolog-uncancelable": (
        ("run", None, "all", "all"),
        ("prolog", "job-manager.prolog", 1753880580.005181),
        [NO_R],
        [],
    ),
    "022-queued-over-restart-dws-missing": (
        ("cleanup", 1779806640.01194, "all", "all"),
        ("prolog", "job-manager.prolog, dws-setup", 1779806640.000775),
        [("no-submit", 1), NO_R],
        [],
    ),
    "023-flux-restart-twice-snip": (
        ("run", None, "all", ""),
        ("exec", None, 1740107940.0),
        [NO_R],
        [],
    ),
    "024-timeout-userid-minus-one": (
        ("cleanup", 1611769351.0589771, "all", ""),
        ("exec", None, 1611769352.1242204),
        [("cut-line", 8), NO_R],
        [],
    ),
    "025-bad-R-rank-garbled-userid": (
        ("run", None, "all", ""),
        ("exec", None, 1694760100.6337798),
        [("bad-json", 1), ("bad-json", 8), ("cut-line", 9), ("no-submit", 2), NO_R],
        [],
    ),
    "026-relative-time-zero-no-context": (
        ("sched", None, "", ""),
        ("scheduler", None, 0.04851555824279785),
        [("cut-line", 5), ("bad-value", 1), ("missing-key", 1), ("missing-key", 4)],
        [],
    ),
    "027-day-long-job-epilog-284s": (
        ("inactive", 1700074161.0240808, "all", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1700074161.0250554, 1700074445.1199436, 0)],
    ),
    "028-superfluous-context-small-times": (
        ("inactive", 1010.0, "0", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1011.0, 1013.0, 0)],
    ),
    "030-v0.41-plain-complete": (("inactive", 1657300307.9853437, "0", ""), None, [NO_R], []),
    "031-v0.40-no-validate": (("inactive", 1657302164.7544103, "0", ""), None, [NO_R], []),
    "032-no-submit": (
        ("inactive", 1657300307.9853437, "0", ""),
        None,
        [("no-submit", 1), NO_R],
        [],
    ),
    "033-submit-only": (("new", None, "", ""), None, [], []),
    "034-exec-eventlog-wrong-kind": ((None, None, None, ""), None, [("wrong-log", None)], []),
    "035-four-rank-plain": (("inactive", 1738774194.1820674, "0-3", ""), None, [NO_R], []),
    "037-exception-without-note": (
        ("cleanup", 1743817440.0, "all", "all"),
        ("epilog", "dws-epilog", 1743817440.0001),
        [NO_R, ("missing-key", 10)],
        [("dws-epilog", 1743817440.0001, None, None)],
    ),
    "038-epilog-before-finish-from-memory": (
        ("inactive", 1776003600.0, "all", ""),
        None,
        [NO_R],
        [
            ("dws-epilog", 1776003600.0002, 1776004900.0, 0),
            ("job-manager.epilog", 1776004800.0001, 1776004830.0, 0),
        ],
    ),
    "039-empty": ((None, None, None, ""), None, [("empty", None)], []),
    "101-gen-wrong-manual-epilog-finish": (
        ("inactive", 1796021110.2771113, "0-3", ""),
        None,
        [
            NO_R,
            ("missing-key", 10),
            ("unmatched-finish", 10),
            ("premature-free", 11),
            ("premature-free", 12),
        ],
        [("job-manager.epilog", 1796021110.2772386, 1796021111.6565952, None)],
    ),
    "103-gen-epilog-fails-on-one-rank": (
        ("inactive", 1796021109.0600996, "0-3", ""),
        None,
        [NO_R],
        [("job-manager.epilog", 1796021109.0602169, 1796021109.1028204, 768)],
    ),
    "104-gen-epilog-without-alloc": (
        ("inactive", 1796021152.32267, "", ""),
        None,
        [],
        [("test", 1796021152.3228154, 1796021152.4230678, 0)],
    ),
    "105-gen-cancel-while-epilog-runs": (
        ("inactive", 1796021151.5799716, "0-3", ""),
        None,
        [NO_R],
        [("test", 1796021151.5800245, 1796021151.6800592, 0)],
    ),
    "106-gen-housekeeping-partial-release": (
        ("inactive", 1796021161.7941382, "0-3", ""),
        None,
        [NO_R],
        [],
    ),
    "108-gen-cancel-plain": (("inactive", 1796021108.2802801, "0-1", ""), None, [NO_R], []),
    "109-gen-one-plugin-epilog": (
        ("inactive", 1796021106.8570428, "0-3", ""),
        None,
        [NO_R],
        [("test", 1796021106.8570957, 1796021106.9576242, 0)],
    ),
}

# The human form: which differs from the .eventlog beside it in what is said of the times, and
# in lines that were left out there.
RAW = {
    "007-human-format-minute-roll": [],
    "011-duration-update-timeout": [],
    "012-snip-in-the-middle": [("bad-json", 5)],
    "017-two-epilogs-one-stuck": [],
    "021-256node-prolog-uncancelable": [],
    "022-queued-over-restart-dws-missing": [],
    "023-flux-restart-twice-snip": [("bad-json", 21)],
}


def read(path, *options):
    """Return the record of a log, read as the command reads it."""
    return to_dict(read_log(Source(str(path)), Options([*options, str(path)])))


def warnings(found):
    return [(warning["code"], warning["line"]) for warning in found["warnings"]]


def test_every_log_has_a_verdict():
    assert {path.stem for path in LOGS.glob("*.eventlog")} == VERDICTS.keys()
    assert {path.stem for path in (LOGS / "raw").glob("*.txt")} == RAW.keys()


@pytest.mark.parametrize("name", VERDICTS)
def test_log(name):
    (state, t_end, ranks, held), blocker, expected, epilogs = VERDICTS[name]
    found = read(LOGS / f"{name}.eventlog")
    assert (found["state"], found["t_end"]) == (state, t_end)
    assert (found["ranks"], found["held"]) == (ranks, held)
    b = found["blocker"]
    assert (b and (b["kind"], b["description"], b["since"])) == blocker
    if b and b["kind"] != "scheduler":
        assert b["ranks"] == ranks
    assert warnings(found) == expected
    keys = ("description", "start", "end", "status")
    actions = [a for a in found["actions"] if a["kind"] == "epilog"]
    assert [tuple(a[key] for key in keys) for a in actions] == epilogs
    for a in actions:  # old logs: all ranks, from start to end
        spans = [(i["ranks"], i["start"], i["end"]) for i in a["intervals"]]
        assert spans == ([(ranks, a["start"], a["end"])] if ranks else [])
    gone = ranks if state == "inactive" else ""
    assert found["gone"] == gone
    assert [(h["ranks"], h["event"]) for h in found["handoffs"]] == ([(gone, "free")] * bool(gone))


@pytest.mark.parametrize("name", RAW)
def test_human_form_reads_like_the_log_beside_it(name):
    plain = read(LOGS / f"{name}.eventlog")
    human = read(LOGS / "raw" / f"{name}.txt")
    assert warnings(human)[: len(RAW[name]) + 1] == [*RAW[name], ("bad-value", None)]
    for key in ("state", "ranks", "held", "gone"):
        assert human[key] == plain[key]
    assert [a["description"] for a in human["actions"]] == [
        a["description"] for a in plain["actions"]
    ]
    for mine, other in zip(human["actions"], plain["actions"]):
        if other["end"] is not None:  # the year is not the log's, nor for sure the zone
            length = other["end"] - other["start"]
            assert mine["end"] - mine["start"] == pytest.approx(length, abs=1e-5)


@pytest.mark.parametrize("name", RAW)
def test_human_form_has_every_event_with_its_context(name):
    ignored = lambda *_: None  # noqa: E731
    human, _ = event.read((LOGS / "raw" / f"{name}.txt").read_bytes(), ignored)
    plain, _ = event.read((LOGS / f"{name}.eventlog").read_bytes(), ignored)
    assert [(e.name, e.context) for e in human] == [(e.name, e.context) for e in plain]


def test_node_seconds_with_the_R_of_the_log():
    R = str(CASES / "R" / "18-four-brokers-one-host-R.json")
    found = read(LOGS / "109-gen-one-plugin-epilog.eventlog", "--R", R)
    assert (found["ranks"], found["nranks"], warnings(found)) == ("0-3", 4, [])
    held = 4 * (1796021106.9576242 - 1796021106.8570957)
    assert found["held_node_seconds"] == {"test": pytest.approx(held, abs=1e-6)}
    found = read(LOGS / "101-gen-wrong-manual-epilog-finish.eventlog", "--R", R)
    text = [w["text"] for w in found["warnings"] if w["code"] == "premature-free"][0]
    assert "0-3" in text and "job-manager.epilog" in text
    found = read(
        LOGS / "024-timeout-userid-minus-one.eventlog",
        "--R",
        str(CASES / "R" / "04-one-core-starttime-before-alloc.json"),
    )
    assert (found["ranks"], warnings(found)) == ("10", [("cut-line", 8)])


def test_partial_release_would_have_let_the_compute_ranks_go():
    path = LOGS / "017-two-epilogs-one-stuck.eventlog"
    found = read(path, "--ranks", "0-15", "--what-if", "dws-epilog=")
    t_end, t_epilog, t_last = 1729668840.0, 1729668842.011065, 1729673400.0
    assert found["waited_node_seconds"] == pytest.approx(16 * (t_last - t_end))
    assert found["what_if"]["waited_node_seconds"] == pytest.approx(16 * (t_epilog - t_end))
    assert found["what_if"]["returned_node_seconds"] == pytest.approx(16 * (t_last - t_epilog))


# name: (ranks or a part of why it is refused, parts of what is said though it can be used)
SETS = {
    "02-free-fragment-with-properties": ("28", []),
    "03-invalid-core-idset-duplicates": ("4", ["children.core"]),
    "04-one-core-starttime-before-alloc": ("10", []),
    "05-gpus-lost-by-append": ("0-5", []),
    "06-hetero-nodelist-unsorted-hosts": ("0-3", []),
    "07-rfc20-example": ("19-22", []),
    "08-hetero-core-100": ("0-3", []),
    "09-hetero-nodelist-rotated": ("0-3", []),
    "10-single-with-property": ("0", []),
    "11-same-hostname-twice": ("0-1", []),
    "12-entries-out-of-rank-order": ("0-1", []),
    "13-with-scheduling-jgf": ("0-1", ["nodelist is missing"]),
    "14-memory-child": ("17-19", []),
    "15-rank-minus-one": (None, ["R_lite[0].rank", "'-1'"]),
    "16-rank-missing": (None, ["R_lite[0] has no rank"]),
    "17-rank-is-integer": (None, ["R_lite[0].rank", "not a string"]),
    "18-four-brokers-one-host-R": ("0-3", []),
    "19-no-nodelist-old": ("0-1", ["nodelist is missing"]),
    "20-invalid-R-lite": (None, ["R_lite is not a list"]),
    "21-invalid-json": (None, ["not JSON"]),
    "22-missing-nodelist": (None, ["not JSON"]),
    "23-invalid-version": (None, ["version 999"]),
    "24-invalid-nodelist": ("0", ["nodelist is not a list"]),
}

HOSTS = {
    "06-hetero-nodelist-unsorted-hosts": ["node2", "node3", "node1", "node4"],
    "07-rfc20-example": ["node186", "node187", "node188", "node189"],
    "09-hetero-nodelist-rotated": ["node3", "node0", "node1", "node2"],
    "11-same-hostname-twice": ["node", "node"],
    "12-entries-out-of-rank-order": ["f0", "f1"],
    "18-four-brokers-one-host-R": ["vm", "vm", "vm", "vm"],
    "24-invalid-nodelist": [],
}


def test_every_R_has_a_verdict():
    assert {path.stem for path in (CASES / "R").glob("[0-9]*.json")} == SETS.keys()


@pytest.mark.parametrize("name", SETS)
def test_R(name):
    ranks, says = SETS[name]
    path = CASES / "R" / f"{name}.json"
    if ranks is None:
        with pytest.raises(rset.RError) as caught:
            rset.parse(path.read_bytes())
        told = [str(caught.value)]
    else:
        found = rset.parse(path.read_bytes())
        assert found.ranks == ranks
        told = found.faults
        assert len(told) == len(says[:1])
        if name in HOSTS:
            assert found.hosts() == HOSTS[name]
    assert all(any(part in text for text in told) for part in says)
    # And by way of the command: bad-R, and the ranks of the annotation instead.
    log = read(LOGS / "109-gen-one-plugin-epilog.eventlog", "--R", str(path))
    assert log["ranks"] == (ranks or "0-3")
    assert ("bad-R" in [code for code, _ in warnings(log)]) == bool(says)


def test_fragments_of_a_job_add_up_to_its_ranks():
    lines = (CASES / "R" / "free-sequence-106.jsonl").read_text().splitlines()
    masks = [rset.parse(json.dumps(json.loads(line)["R"]).encode()).mask for line in lines]
    assert [bin(mask).count("1") for mask in masks] == [1, 1, 1, 1]
    assert sum(masks) == 0b1111


def test_nothing_of_the_job_is_left_in_the_record_of_an_unusable_log():
    assert Job("x").warnings == []
    found = read(LOGS / "034-exec-eventlog-wrong-kind.eventlog")
    assert (found["ranks"], found["nranks"], found["waited_node_seconds"]) == (None, None, None)
    assert "RFC 50" in found["warnings"][0]["text"]
