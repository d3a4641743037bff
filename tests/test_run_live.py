# SPDX-License-Identifier: LGPL-3.0
"""scripts/run-live: which trees it takes, what it makes of their eventlogs, how it fails.

The trees are scripts that write an eventlog of 2 nodes for each job: CLEANUP is at 10 s, all is
done at 18 s, and the patched tree lets go of node 1 at 12 s.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
FLUX = """#!/bin/sh
test "$1 $2 $3 $4" = "start --test-size=8 sh -c" || exit 1
shift 8
while test $# -gt 0; do
    echo "$2" >"$1.settings"
    cp {eventlog} "$1.eventlog"
    cp {R} "$1.R.json"
    shift 2
done
"""
ACTION = {"description": "rabbit-epilog"}
STOCK = [
    (1, "submit", {"userid": 0, "urgency": 16, "flags": 0, "version": 1}),
    (1, "validate", {}),
    (1, "depend", {}),
    (1, "priority", {"priority": 16}),
    (2, "alloc", {}),
    (3, "start", {}),
    (10, "finish", {"status": 0}),
    (10, "epilog-start", ACTION),
    (10, "release", {"ranks": "all", "final": True}),
    (18, "epilog-finish", {**ACTION, "status": 0}),
    (18, "free", {}),
    (18, "clean", {}),
]
GOES = [
    (12, "epilog-finish", {**ACTION, "status": 0, "ranks": "1"}),
    (12, "partial-free", {"ranks": "1"}),
]
R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0"}}],
        "starttime": 0,
        "expiration": 0,
        "nodelist": ["node[0-1]"],
    },
}


def make_tree(folder: Path, events: list[tuple[float, str, dict]]) -> None:
    """Make a tree whose flux leaves these events for each job."""
    for name in ("src/cmd/flux", "src/modules/.libs/job-manager.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    plugin = folder / "t/job-manager/plugins/.libs/epilog-rabbit.so"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("")
    lines = [json.dumps({"timestamp": t, "name": n, "context": c}) for t, n, c in events]
    (folder / "eventlog").write_text("\n".join(lines) + "\n")
    (folder / "R").write_text(json.dumps(R))
    flux = folder / "src/cmd/flux"
    flux.write_text(FLUX.format(eventlog=folder / "eventlog", R=folder / "R"))
    flux.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with both trees, and a project whose check of the tree always says yes."""
    for name in ("scripts/run-live", "tests/live.py", "tests/tap_run.py"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / "project" / name)
    (tmp_path / "project/scripts/series").write_text("")
    source = "src/modules/job-manager/epilog.c"
    for folder in (tmp_path / "project", tmp_path / "flux-core-epilog"):
        (folder / source).parent.mkdir(parents=True)
        (folder / source).write_text("")
    make_tree(tmp_path / "flux-core-epilog", STOCK[:9] + GOES + STOCK[9:])
    make_tree(tmp_path / "flux-core-stock", STOCK)
    return tmp_path


def run(home: Path, **env: str) -> subprocess.CompletedProcess:
    """Run the script there."""
    settings = {**os.environ, "HOME": str(home), "PYTHONPATH": str(PROJECT), **env}
    for name in ("CHECK_LIVE", "FLUX_CORE_DIR", "FLUX_CORE_STOCK"):
        if name not in env:
            settings.pop(name, None)
    return subprocess.run(
        [sys.executable, str(home / "project/scripts/run-live")],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )


def rows(done: subprocess.CompletedProcess) -> list[list[str]]:
    """Return the table, a list of words a line."""
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("node-seconds waited"))
    return [line.split() for line in lines[start:-1]]


def test_table(home: Path) -> None:
    done = run(home)
    assert done.returncode == 0, done.stderr
    assert rows(done) == [
        ["node-seconds", "waited", "stock", "patched", "ratio", "PBS", "Slurm"],
        # both nodes 8 s; node 1 but 2 s; node 0 alone; none
        ["all-at-once", "16.0", "10.0", "0.62", "8.0", "0.0"],
        ["node-by-node", "16.0", "10.0", "0.62", "8.0", "0.0"],
        ["one-late-node", "16.0", "10.0", "0.62", "8.0", "0.0"],
    ]
    assert "6 logs, 0 unusable, 0 with warnings" in done.stdout
    assert (home / "project/build/live.svg").stat().st_size > 0


def test_same_settings_on_both(home: Path) -> None:
    assert run(home).returncode == 0
    for name, release in (("all-at-once", "all"), ("one-late-node", "each")):
        stock, patched = (
            json.loads((home / f"project/build/live/{kind}-{name}.settings").read_text())
            for kind in ("stock", "patched")
        )
        assert stock == patched
        assert stock["release"] == release
        assert set(stock["unmount"]) == {str(rank) for rank in range(8)}


def test_without_stock_tree_patched_one_holds_all(home: Path) -> None:
    shutil.rmtree(home / "flux-core-stock")
    done = run(home)
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if "no stock flux-core" in line]) == 1
    assert rows(done)[0][2:4] == ["whole", "patched"]
    settings = json.loads((home / "project/build/live/whole-node-by-node.settings").read_text())
    assert settings["release"] == "whole"


def test_old_logs_are_not_reported(home: Path) -> None:
    old = home / "project/build/live/old.eventlog"
    old.parent.mkdir(parents=True)
    old.write_text("")
    assert "old" not in run(home).stdout
    assert not old.exists()


@pytest.mark.parametrize("env", [{"CHECK_LIVE": "no"}, {"HOME": "/nonexistent"}])
def test_left_out_is_one_line(home: Path, env: dict[str, str]) -> None:
    done = run(home, **env)
    assert done.returncode == 0
    assert done.stdout.startswith("live: not run: ")
    assert len(done.stdout.splitlines()) == 1
    assert not (home / "project/build").exists()


def fails(home: Path, text: str, **env: str) -> None:
    """It fails with one line that has the text in it."""
    done = run(home, **env)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert text in done.stderr


def test_stale_tree_fails_with_the_way_out(home: Path) -> None:
    script = "raise SystemExit('tree: t/a.t: stale: do this')\n"
    (home / "project/scripts/series").write_text(script)
    fails(home, "tree: t/a.t: stale: do this")


def test_plugin_that_is_not_built_fails_with_the_way_out(home: Path) -> None:
    (home / "flux-core-epilog/t/job-manager/plugins/.libs/epilog-rabbit.so").unlink()
    fails(home, "run make check TESTS= there")


def test_instance_that_fails_is_named(home: Path) -> None:
    flux = home / "flux-core-stock/src/cmd/flux"
    flux.write_text("#!/bin/sh\necho something is wrong >&2\nexit 3\n")
    fails(home, "stock: exit status 3: something is wrong")


def test_log_of_job_that_is_cut_fails(home: Path) -> None:
    log = home / "flux-core-stock/eventlog"
    log.write_text("\n".join(log.read_text().splitlines()[:1]) + "\n")
    done = run(home)
    assert done.returncode == 1
    assert "not the log of a whole job" in done.stderr
