# SPDX-License-Identifier: LGPL-3.0
"""The real series on a real flux-core: the tree of the live tests, with the base in its history.

Not collected where there is none (conftest.py).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from live import tree
from patchset import series as series_file
from patchset.repo import Repo
from series_clone import ENV, git, ok, series, snapshot

PROJECT = Path(__file__).resolve().parent.parent
UPSTREAM = tree()
MAY_LACK = "t/resource/resource.eventlog.thing1"  # some copies of flux-core's repository do


@pytest.fixture(scope="module")
def real():
    """The project's series."""
    return series_file.load(PROJECT)


@pytest.fixture(scope="module")
def clone(real, tmp_path_factory):
    """A clone of flux-core with the series applied."""
    folder = tmp_path_factory.mktemp("a real") / "flux core"
    git(UPSTREAM, "clone", "-q", "--no-checkout", "--shared", str(UPSTREAM), str(folder))
    git(folder, "sparse-checkout", "set", "--no-cone", "/*", f"!/{MAY_LACK}")
    done = subprocess.run(
        ["git", "-C", str(folder), "checkout", "-q", "--detach", real.base.commit],
        env=ENV,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    git(folder, "update-ref", "-d", "refs/heads/epilog-ranks")
    master = Repo(UPSTREAM).find("refs/heads/master") or git(UPSTREAM, "rev-parse", "origin/master")
    git(folder, "update-ref", "refs/heads/master", master)
    ok(series(PROJECT, "apply", folder))
    return folder


def test_apply_and_verify(real, clone):
    count = len(real.patches)
    assert f"holds the series ({count} patches)" in ok(series(PROJECT, "verify", clone))
    assert f"holds the series ({count} patches)" in ok(series(PROJECT, "verify", "--tree", clone))
    assert f"applied ({count} of {count}); base" in ok(series(PROJECT, "status", clone))


def test_refresh_gives_the_same_bytes(real, clone, tmp_path):
    ok(series(tmp_path, "refresh", "--base", real.base.version, clone))
    mine = {name: data for name, data in snapshot(tmp_path).items() if name != "patches/series"}
    theirs = snapshot(PROJECT / "patches")
    assert {name for name in mine if name.startswith("patches/")} == {
        f"patches/{name}" for name in theirs if name != "series"
    }
    for name, data in mine.items():
        path = PROJECT / name
        there = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        assert data.split(b" ", 1)[1] == there, name


def test_export_applies_with_git_am(real, clone, tmp_path):
    out = tmp_path / "out"
    ok(series(PROJECT, "export", clone, out))
    tree = git(clone, "rev-parse", "epilog-ranks^{tree}")
    subprocess.run(
        ["git", "-C", str(clone), "checkout", "-q", "--detach", real.base.commit],
        env=ENV,
        capture_output=True,
        check=True,
    )
    git(clone, "read-tree", "-m", "HEAD")  # or git can't commit where a blob is missing
    git(clone, "am", "--quiet", *[str(out / name) for name in (out / "series").read_text().split()])
    assert git(clone, "rev-parse", "HEAD^{tree}") == tree


def test_port_is_clean_from_v0_83_on(clone):
    """Older releases, on which it can't be built, conflict in files that have grown since."""
    done = series(PROJECT, "port", "--dry-run", clone, "all")
    rows = re.findall(r"^\| (\S+) \| (.*) \|$", done.stdout, re.MULTILINE)[1:]
    assert len(rows) >= 27 and rows[-1][0] == "master"
    for version, result in rows:
        number = [int(part) for part in re.findall(r"\d+", version)] or [999]
        old = number < [0, 83]
        grown = r"conflict in (doc/|etc/completions/|\S+/plugins/perilog\.c)"
        assert result == "clean" or (old and re.match(grown, result))


def test_each_file_that_is_run_is_executable():
    """flux-core's check target and flux(1) run them as they are."""
    for pattern in ("t/*.t", "t/python/*.py", "src/cmd/*.py", "t/valgrind/*.sh"):
        for path in PROJECT.glob(pattern):
            assert path.stat().st_mode & 0o111 == 0o111, path


def test_no_patch_quotes_flux_core():
    for path in sorted((PROJECT / "patches").glob("*.patch")):
        _, *diffs = path.read_text().split("\ndiff --git ")
        for line in "\n".join(diffs).splitlines():
            fine = re.match(r"\+|--- a/|index |a/|@@ -\d+,0 \+\d+(,\d+)? @@$", line)
            assert fine, f"{path.name}: {line}"
