# SPDX-License-Identifier: LGPL-3.0
"""scripts/series port and export: the series on other versions, and as ordinary patches."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from series_clone import (
    BRANCH,
    ENV,
    commit,
    git,
    make_branch,
    make_clone,
    make_upstream,
    ok,
    refused,
    series,
    snapshot,
    state,
    text,
    write,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(upstream, project with a series, clone with the branch it came from); to be copied."""
    folder = tmp_path_factory.mktemp("port it")
    upstream = make_upstream(folder / "upstream")
    clone = make_clone(upstream, folder / "clone")
    make_branch(clone)
    (folder / "project").mkdir()
    ok(series(folder / "project", "refresh", clone))
    return upstream, folder / "project", clone


@pytest.fixture
def clone(made, tmp_path):
    """A clone with v0.88.0 checked out and no branch."""
    return make_clone(made[0], tmp_path / "a clone")


TABLE = """\
| version | result |
|---|---|
| v0.64.0 | clean |
| v0.65.0 | conflict in src/main.c at patch 2 (0002-job-manager-call-it.patch) |
| v0.66.0 | conflict in src/list.c (not there) at patch 2 (0002-job-manager-call-it.patch) |
| v0.67.0 | conflict in src/new.c (already there) at patch 1 (0001-job-manager-add-new.c.patch) |
| v0.88.0 | clean |
| master | clean |
"""


def objects(clone) -> set[str]:
    """Every object in a clone, reachable or not."""
    listing = git(clone, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listing.splitlines())


def test_the_table_of_all_versions(made, clone):
    before = state(clone), objects(clone)
    done = series(made[1], "port", "--dry-run", clone, "all")
    assert (done.returncode, done.stdout, done.stderr) == (1, TABLE, "")
    assert (state(clone), objects(clone)) == before


def test_clean_results_are_branches(made, clone):
    head = git(clone, "rev-parse", "HEAD")
    done = series(made[1], "port", clone, "v0.64.0", "v0.65.0", "master", "origin/master")
    assert done.returncode == 1 and done.stdout.count("| clean |") == 3
    refs = git(clone, "for-each-ref", "--format=%(refname:short)", "refs/heads/").split()
    versions = ("master", "origin/master", "v0.64.0")
    assert refs == [*(f"{BRANCH}-{version}" for version in versions), "master"]
    assert git(clone, "rev-parse", "HEAD") == head and not git(clone, "status", "--porcelain")
    picked = f"{BRANCH}-v0.64.0"
    assert git(clone, "log", "--format=%an %ae %ad %B", "-3", picked) == git(
        made[2], "log", "--format=%an %ae %ad %B", "-3", BRANCH
    )
    main = git(clone, "show", f"{picked}:src/main.c").splitlines()
    assert main[2:6] == ["main line 5", "early hook 1", "early hook 2", "main line 6"]
    assert main[main.index("late hook") - 1] == "main line 25" and "old" in main
    assert git(clone, "ls-tree", picked, "t/t2290-new.t").startswith("100755")


def test_port_is_what_cherry_pick_makes(made, clone):
    git(clone, "fetch", "--quiet", str(made[2]), f"{BRANCH}:picked")
    for version in ("v0.64.0", "v0.88.0", "master"):
        git(clone, "checkout", "--quiet", "--detach", version)
        git(clone, "cherry-pick", "v0.88.0..picked")
        series(made[1], "port", clone, version)
        tree = git(clone, "rev-parse", f"{BRANCH}-{version}^{{tree}}")
        assert tree == git(clone, "rev-parse", "HEAD^{tree}")


def test_port_again_is_the_same_and_writes_over_nothing(made, clone):
    ok(series(made[1], "port", clone, "v0.64.0"))
    before = state(clone)
    ok(series(made[1], "port", clone, "v0.64.0"))
    assert state(clone) == before
    git(clone, "branch", "--force", f"{BRANCH}-v0.64.0", "v0.64.0")
    before = state(clone)
    done = series(made[1], "port", clone, "v0.64.0")
    assert done.returncode == 1
    assert (
        f"| v0.64.0 | branch {BRANCH}-v0.64.0 exists and differs: git branch -D it |" in done.stdout
    )
    assert state(clone) == before


def test_an_unknown_version(made, clone):
    before = state(clone)
    line = refused(series(made[1], "port", clone, "v0.64.0", "v9.9.9"))
    assert "no version v9.9.9" in line and "fetch --tags" in line
    assert state(clone) == before


def test_port_needs_the_base(made, tmp_path):
    git(tmp_path, "init", "--quiet", "other")
    commit(tmp_path / "other", "x", {"src/main.c": text(["x"])})
    assert "wrong base" in refused(series(made[1], "port", tmp_path / "other", "all"))


def test_git_am_makes_the_same_branch_of_an_export(made, clone, tmp_path):
    out = tmp_path / "out of it"
    before = state(clone), objects(clone)
    said = ok(series(made[1], "export", clone, out))
    assert said == f"{out}: 3 patches, series, epilog.spec.inc\n"
    assert (state(clone), objects(clone)) == before
    names = (out / "series").read_text().splitlines()
    assert names == [
        line for line in (made[1] / "patches/series").read_text().splitlines() if "#" not in line
    ]
    spec = (out / "epilog.spec.inc").read_text().splitlines()
    assert spec == [f"Patch000{number}: {name}" for number, name in enumerate(names, 1)]
    git(clone, "am", "--quiet", *[str(out / name) for name in names])
    for back in range(3):
        for form in ("%T", "%an %ae %ad %B"):
            args = ("log", "-1", f"--format={form}")
            assert git(clone, *args, f"HEAD~{back}") == git(made[2], *args, f"{BRANCH}~{back}")
    assert " main line 3\n" in (out / names[1]).read_text()


TOOLS = {"patch": ["-p1", "-s", "--fuzz=0", "-i"], "git": ["apply", "--whitespace=error-all"]}


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if shutil.which(tool)])
def test_the_tools_of_an_rpm_build_make_the_same_tree(made, clone, tmp_path, tool):
    ok(series(made[1], "export", clone, tmp_path / "out"))
    tree = tmp_path / "tree"
    shutil.copytree(clone, tree, ignore=shutil.ignore_patterns(".git"))
    for name in (tmp_path / "out/series").read_text().split():
        command = [tool, *TOOLS[tool], str(tmp_path / "out" / name)]
        subprocess.run(command, cwd=tree, env=ENV, check=True)
    assert snapshot(tree) == snapshot(made[2])


def test_export_stays_outside_and_writes_over_nothing(made, clone, tmp_path):
    project = shutil.copytree(made[1], tmp_path / "project", symlinks=True)
    (tmp_path / "link").symlink_to(project)
    before = snapshot(project)
    for out in (project, project / "out", tmp_path / "link/deep/out"):
        assert "may not hold flux-core's text" in refused(series(project, "export", clone, out))
    assert snapshot(project) == before
    write(tmp_path, {"used/file": "x"})
    for out in (tmp_path / "used", tmp_path / "used/file"):
        assert "not an empty folder" in refused(series(project, "export", clone, out))
    (tmp_path / "empty").mkdir()
    ok(series(project, "export", clone, tmp_path / "empty"))


def test_export_refuses_what_mail_would_change(made, clone, tmp_path):
    project = shutil.copytree(made[1], tmp_path / "project", symlinks=True)
    (project / "src/new.c").write_bytes(b"int new;\r\n")
    line = refused(series(project, "export", clone, tmp_path / "out"))
    assert "src/new.c: lines end in carriage returns" in line
    assert not (tmp_path / "out").exists()
