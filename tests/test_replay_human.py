# SPDX-License-Identifier: LGPL-3.0
"""The forms that ``flux job eventlog`` prints for people."""

import time

import pytest

from epilog_replay import human
from epilog_replay.event import read
from replay_log import job_of


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Take local time for UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def events(text):
    """(timestamp, name, context) of each line; no warning but on the times as a whole."""
    said = []
    found, _ = read(text.encode(), lambda code, line, text: said.append((code, line)))
    assert all(line is None for _, line in said)
    return [(e.timestamp, e.name, e.context) for e in found]


def test_raw_times():
    assert events('1715174940.014874 submit userid=5 note="a \\"b\\" = c"\n1715174941 clean\n') == [
        (1715174940.014874, "submit", {"userid": 5, "note": 'a "b" = c'}),
        (1715174941.0, "clean", None),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-11-07T23:52:53.021940+00:00", 1731023573.02194),
        ("2024-11-07T15:52:53.021940-08:00", 1731023573.02194),
        ("2024-11-07T15:52:53.021940-0800", 1731023573.02194),
        ("2024-11-07T23:52:53.021940Z", 1731023573.02194),
        ("2024-11-07T23:52:53", 1731023573.0),
    ],
)
def test_iso_times(text, seconds):
    assert events(f"{text} start\n") == [(seconds, "start", None)]


def test_offsets_count_from_the_latest_minute_not_the_first():
    text = "[May08 13:29] submit\n[  +0.987450] start\n[May08 13:30] finish status=0\n"
    times = [e[0] for e in events(text + "[  +0.000058] free\n[ -0.000010] clean\n")]
    assert [round(t - times[0], 6) for t in times] == [0, 0.98745, 60, 60.000058, 59.99999]


def test_nested_json_survives():
    value = '{"and":[{"properties":["queue 0"]},{"not":[]}]}'
    line = f"[Jul29 11:02] jobspec-update a.b={value} big=-6239850189511459620 x=null\n"
    (_, name, context) = events(line)[0]
    assert name == "jobspec-update"
    assert context == {
        "a.b": {"and": [{"properties": ["queue 0"]}, {"not": []}]},
        "big": -6239850189511459620,
        "x": None,
    }


def test_colour_is_no_part_of_it():
    text = '\x1b[1m\x1b[32m[May08 13:29]\x1b[0m \x1b[33msubmit\x1b[0m \x1b[34ma\x1b[0m="b"\n'
    assert events(text)[0][1:] == ("submit", {"a": "b"})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[snip]", "not an event"),
        ("[  +0.1234] start", "missing"),
        ("[Feb30 10:00] start", "not a time"),
        ("[May08 25:00] start", "not a time"),
        ("2024-13-07T10:00:00 start", "not a time"),
        ("1715174940.5", "no event name"),
        ("1715174940.5 start a", "not KEY=VALUE"),
        ("1715174940.5 start a=b", "not JSON"),
        ("1715174940.5 start a=1x", "junk"),
        ('1715174940.5 start a="\\ud800"', "surrogate"),
    ],
)
def test_lines_that_are_not_events(line, why):
    with pytest.raises(human.HumanError, match=why):
        human.Clock().read(line.encode())
    job = job_of(f"1715174940.5 submit\n{line}\n1715174941.5 clean\n".encode())
    assert [c.line for c in job.warnings if c.code == "bad-json"] == [2]


def years(text, now):
    """Years of the events of a log read at the time ``now``."""
    clock = human.Clock(now)
    found = [clock.read(line.encode()) for line in text.splitlines()]
    from epilog_replay.event import Event

    made = [Event(float(e["timestamp"]), e["name"]) for e in found]
    clock.settle(made)
    assert len(clock.doubts) == 1
    return [time.gmtime(e.timestamp).tm_year for e in made]


NOW = 1782000000.0  # 2026-06-21


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[May08 13:29] submit", [2026]),
        ("[Aug08 13:29] submit", [2025]),
        ("[Dec31 23:59] submit\n[Jan01 00:00] start", [2025, 2026]),
        ("[Jun20 10:00] submit\n[Dec31 23:59] start\n[Jan01 00:00] free", [2025, 2025, 2026]),
        ("[Feb29 10:00] submit", [2024]),
    ],
)
def test_the_year_is_the_last_in_which_none_lies_ahead(text, expected):
    assert years(text, NOW) == expected


def test_doubts_about_times_are_warnings():
    job = job_of(b"[May08 13:29] submit userid=1 urgency=1 flags=0\n")
    assert [(c.code, c.line) for c in job.warnings] == [("bad-value", None)]
    job = job_of(b"0.000000 submit userid=1 urgency=1 flags=0\n0.100000 validate\n")
    assert [(c.code, c.line) for c in job.warnings] == [("bad-value", None), ("bad-value", 1)]


def test_cut_last_line():
    job = job_of(b"1715174940.5 submit userid=1 urgency=1 flags=0\n1715174941.5 epilog-start desc")
    assert [(c.code, c.line) for c in job.warnings] == [("cut-line", 2)]
    job = job_of(b"1715174940.5 submit userid=1 urgency=1 flags=0\n1715174941.5 vali")
    assert [(c.code, c.line) for c in job.warnings] == [("cut-line", 2)]
    job = job_of(b"1715174940.5 submit userid=1 urgency=1 flags=0\n1715174941.5 validate")
    assert job.warnings == []
    assert job.state == 1
