# SPDX-License-Identifier: LGPL-3.0
"""A sharness file's TAP lines become results, and what is not as it should be is a failure."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tap_run import Result, Run

GOOD = "echo 'ok 1 - one'; echo 'ok 2 - two'; echo '# passed all 2 test(s)'; echo 1..2\n"


def run(folder: Path, script: str, limit: float = 60.0) -> list[Result]:
    """Run a script as if it were a sharness file."""
    path = folder / "t0001-a.t"
    path.write_text(script)
    return list(Run(path, limit).results())


def test_good(tmp_path: Path) -> None:
    results = run(tmp_path, GOOD)
    assert [one[:2] for one in results] == [("1 one", "passed"), ("2 two", "passed")]


def test_runs_in_its_folder_with_a_log(tmp_path: Path) -> None:
    given = 'test $# = 2 && test $1 = --logfile && test -d "${2#--root=}" && test -f t0001-a.t'
    script = f"{given} || exit 1\necho ${{2#--root=}} >where\n{GOOD}"
    assert len(run(tmp_path, script)) == 2
    assert not Path((tmp_path / "where").read_text().strip()).exists()


def test_failed_with_its_part_of_the_log(tmp_path: Path) -> None:
    log = ["first", "ok 1 - one", "second", "not ok 2 - two", "#\tx", "third", "ok 3 - three"]
    script = f"""
    printf '%s\\n' {" ".join(f"'{line}'" for line in log)} >t0001-a.output
    echo ok 1 - one; echo not ok 2 - two; echo ok 3 - three; echo 1..3; exit 1
    """
    results = run(tmp_path, script)
    assert [one.outcome for one in results] == ["passed", "failed", "passed"]
    assert results[1].name == "2 two"
    assert "second\nnot ok 2" in results[1].detail
    assert "first" not in results[1].detail
    assert "third" not in results[1].detail


def test_skipped_is_not_passed(tmp_path: Path) -> None:
    results = run(tmp_path, "echo 'ok 1 # skip two (missing X)'; echo 1..1\n")
    assert [one.outcome for one in results] == ["skipped"]
    results = run(tmp_path, "echo '1..0 # SKIP no flux'\n")
    assert [one[:2] for one in results] == [("all", "skipped")]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("", "cut off after test 0 (exit code 0)"),
        ("echo ok 1 - one; exit 3", "cut off after test 1 (exit code 3)"),
        ("echo ok 1 - one; kill -SEGV $$", "cut off after test 1 (exit code -11)"),
        ("echo ok 1 - one; echo 1..2", "1 tests were reported, 2 planned"),
        (f"{GOOD}exit 1", "exit code 1, but no test failed"),
        ("echo not ok 1 - one; echo 1..1", "exit code 0, but 1 tests failed"),
        ("echo ok 1 - one; echo ok 3 - three; echo 1..2", "test 3 follows test 1"),
        ("echo ok 1 - one; echo 'Bail out! no way'; echo 1..1", "bailed out: no way"),
        ("echo no such command >&2; exit 127", "cut off after test 0 (exit code 127)"),
    ],
)
def test_bad_stream(tmp_path: Path, script: str, text: str) -> None:
    last = run(tmp_path, script + "\n")[-1]
    assert last[:2] == ("whole file", "failed")
    assert text in last.detail.splitlines()[0]


def test_what_is_no_tap_is_kept_for_a_failure(tmp_path: Path) -> None:
    """A broker's errors come in between, and may say why."""
    assert len(run(tmp_path, f"echo broker.err: no >&2\n{GOOD}")) == 2
    last = run(tmp_path, "echo broker.err: no >&2; exit 1\n")[-1]
    assert "broker.err: no" in last.detail


def test_stopped(tmp_path: Path) -> None:
    """A run that hangs is stopped, with all that it started, and fails."""
    start = time.monotonic()
    script = "echo ok 1 - one\nsleep 600 &\necho $! >pid\nwait\necho 1..1\n"
    results = run(tmp_path, script, limit=1.0)
    assert time.monotonic() - start < 60
    assert [one.outcome for one in results] == ["passed", "failed"]
    assert "stopped after 1 s" in results[1].detail
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() - start < 60
        time.sleep(0.1)
