# SPDX-License-Identifier: LGPL-3.0
"""pytest reports a test per TAP line of the live tests, or one line that says why there is none.

The live tests themselves are in t/. Here they are scripts that only print, in a project and a
tree of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PASS = "#!/bin/sh\necho ok 1 - a; echo ok 2 - b; echo 1..2\n"
FAIL = "#!/bin/sh\necho ok 1 - a; echo not ok 2 - b; echo 1..2; exit 1\n"
COUNT = """#!/bin/sh
mkdir run.$$; sleep 2; ls -d run.* | wc -l >>count; sleep 1; rmdir run.$$
echo ok 1 - a; echo 1..1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a patched tree: the check of the tree always says yes."""
    folder = tmp_path / "a project"
    for name in ("conftest.py", "tests/live.py", "tests/tap_run.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, folder / name)
    for name in ("scripts/series", "src/modules/job-manager/epilog.c"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("")
    (folder / "tests/test_plain.py").write_text("def test_plain(): pass\n")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests t src\npythonpath = tests\n")
    tree = tmp_path / "flux-core-epilog"
    for name in ("src/modules/job-manager/epilog.c", "src/modules/.libs/job-manager.so"):
        (tree / name).parent.mkdir(parents=True)
        (tree / name).write_text("")
    (tree / "t").mkdir()
    (folder / "t").mkdir()
    return folder


def put(project: Path, name: str, script: str) -> None:
    """Add a live test to the project and its tree. What runs is the latter."""
    (project / "t" / name).write_text("echo 'Bail out! not the tree'\n")
    (project.parent / "flux-core-epilog/t" / name).write_text(script)


def check(project: Path, *args: str, **env: str) -> subprocess.CompletedProcess:
    """Run pytest there."""
    settings = {**os.environ, "HOME": str(project.parent), **env}
    for name in ("CHECK_LIVE", "FLUX_CORE_DIR", "FLUX_SCHED_DIR"):
        if name not in env:
            settings.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args],
        cwd=project,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_for_each_line(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    put(project, "t2-b.t", PASS)
    done = check(project)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    assert "skip" not in done.stdout
    assert "live tests" not in done.stdout
    assert "[100%]" in done.stdout


def test_failure_is_named(project: Path) -> None:
    put(project, "t1-a.t", FAIL)
    done = check(project)
    assert done.returncode == 1
    assert "FAILED t/t1-a.t::2 b" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_cut_stream_fails(project: Path) -> None:
    put(project, "t1-a.t", "echo ok 1 - a\n")
    done = check(project)
    assert done.returncode == 1
    assert "FAILED t/t1-a.t::whole file" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_skip_is_counted_as_one(project: Path) -> None:
    put(project, "t1-a.t", "echo 'ok 1 # skip b (missing X)'; echo 1..1\n")
    done = check(project)
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout


def test_two_at_a_time(project: Path) -> None:
    for number in range(4):
        put(project, f"t{number}-a.t", COUNT)
    assert "5 passed" in check(project).stdout
    counts = (project.parent / "flux-core-epilog/t/count").read_text().split()
    assert max(int(one) for one in counts) == 2


def test_one_file_alone(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    put(project, "t2-b.t", FAIL)
    done = check(project, "t/t1-a.t")
    assert done.returncode == 0
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("env", [{"CHECK_LIVE": "no"}, {"HOME": "/nonexistent"}])
def test_left_out_is_one_line(project: Path, env: dict[str, str]) -> None:
    put(project, "t1-a.t", FAIL)
    done = check(project, **env)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "skip" not in done.stdout
    assert len([line for line in done.stdout.splitlines() if "live tests: not run" in line]) == 1


PYTHON = """#!/bin/sh
test "$*" = "python python/t3-c.py" && test "${PWD##*/}" = t || exit 1
. python/t3-c.py
"""


def test_python_file_runs_as_flux_python_does(project: Path) -> None:
    tree = project.parent / "flux-core-epilog"
    for folder in (tree / "src/cmd", tree / "t/python", project / "t/python"):
        folder.mkdir(parents=True)
    flux = tree / "src/cmd/flux"
    flux.write_text(PYTHON)
    flux.chmod(0o755)
    put(project, "python/t3-c.py", "echo ok 1 - a; echo 1..1")
    put(project, "python/helper.txt", "")
    done = check(project)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_fluxion_file_is_told_both_trees(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\ntestpaths = tests fluxion\npythonpath = tests\n")
    (project / "fluxion").mkdir()
    script = 'echo ok 1 - "$FLUX_CORE_DIR $FLUX_SCHED_DIR" ; echo not ok 2 - b; echo 1..2; exit 1'
    (project / "fluxion/a.t").write_text(script)
    sched = project.parent / "sched"
    sched.mkdir()
    done = check(project, "-rpf", FLUX_SCHED_DIR=str(sched))
    assert f"PASSED fluxion/a.t::1 {project.parent}/flux-core-epilog {sched}" in done.stdout
    assert "1 failed, 2 passed" in done.stdout
    (project.parent / "flux-sched").mkdir()
    done = check(project, "-rpf", FLUX_SCHED_DIR="")
    assert f"flux-core-epilog {project.parent}/flux-sched" in done.stdout


def test_fluxion_left_out_is_one_line(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\ntestpaths = tests fluxion\npythonpath = tests\n")
    (project / "fluxion").mkdir()
    (project / "fluxion/a.t").write_text(FAIL)
    done = check(project, FLUX_SCHED_DIR="")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert len([line for line in done.stdout.splitlines() if "not run" in line]) == 1
    assert "tests on Fluxion: not run: no flux-sched tree" in done.stdout
    done = check(project, CHECK_LIVE="no")
    assert len([line for line in done.stdout.splitlines() if "not run" in line]) == 1
    assert "live tests: not run: CHECK_LIVE=no" in done.stdout


def test_tree_may_be_given(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    tree = str(project.parent / "flux-core-epilog")
    done = check(project, HOME="/nonexistent", FLUX_CORE_DIR=tree)
    assert "3 passed" in done.stdout


def test_given_tree_that_is_not_there_fails(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    done = check(project, FLUX_CORE_DIR="/nonexistent/tree")
    assert done.returncode == 1
    assert "/nonexistent/tree" in done.stdout


def test_stale_tree_fails_with_the_way_out(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    (project / "scripts/series").write_text("raise SystemExit('tree: t/a.t: stale: do this')\n")
    done = check(project)
    assert done.returncode == 1
    assert "tree: t/a.t: stale: do this" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_tree_that_is_not_built_fails_with_the_way_out(project: Path) -> None:
    put(project, "t1-a.t", PASS)
    built = project.parent / "flux-core-epilog/src/modules/.libs/job-manager.so"
    os.utime(built, (0, 0))
    done = check(project)
    assert done.returncode == 1
    assert "job-manager.so is older than its sources: run make there" in done.stdout
    built.unlink()
    done = check(project)
    assert done.returncode == 1
    assert "job-manager.so is not built: run make, and make check TESTS=, there" in done.stdout


def test_unit_test_in_c(project: Path) -> None:
    """Its program runs, if it is built from what is there."""
    tree = project.parent / "flux-core-epilog"
    source = "src/modules/job-manager/test/epilog.c"
    for folder in (project, tree):
        (folder / source).parent.mkdir()
        (folder / source).write_text("")
    done = check(project)
    assert done.returncode == 1
    assert "test_epilog.t is not built: run make, and make check TESTS=, there" in done.stdout
    built = tree / "src/modules/job-manager/test_epilog.t"
    built.write_text(PASS)
    built.chmod(0o755)
    done = check(project)
    assert done.returncode == 0
    assert "3 passed" in done.stdout
    os.utime(built, (0, 0))
    done = check(project)
    assert done.returncode == 1
    assert "test_epilog.t is older than its sources: run make check TESTS= there" in done.stdout
