# SPDX-License-Identifier: LGPL-3.0
"""scripts/series verify, status and show, and faults in the project's own files."""

from __future__ import annotations

import shutil

import pytest

from series_clone import (
    BRANCH,
    commit,
    git,
    make_branch,
    make_clone,
    make_upstream,
    ok,
    refused,
    series,
    state,
    text,
    write,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(project with a series, clone with the branch); to be copied."""
    folder = tmp_path_factory.mktemp("verify")
    clone = make_clone(make_upstream(folder / "upstream"), folder / "clone")
    make_branch(clone)
    (folder / "project").mkdir()
    ok(series(folder / "project", "refresh", clone))
    return folder / "project", clone


@pytest.fixture
def project(made, tmp_path):
    """A project with a series, to be changed."""
    return shutil.copytree(made[0], tmp_path / "project", symlinks=True)


@pytest.fixture
def clone(made, tmp_path):
    """A clone with the branch checked out, to be changed."""
    return shutil.copytree(made[1], tmp_path / "clone", symlinks=True)


def differs(project, clone, *args) -> list[str]:
    """Lines of a verify that found something."""
    done = series(project, "verify", *args, clone)
    assert done.returncode == 1 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines and all(line.startswith(f"{clone}: ") for line in lines)
    assert all("refresh" in line and "apply" in line for line in lines)
    return [line[len(f"{clone}: ") :] for line in lines]


def test_verify_holds(project, clone):
    before = state(clone)
    assert ok(series(project, "verify", clone)).endswith(
        "branch epilog-ranks holds the series (3 patches)\n"
    )
    git(clone, "checkout", "--quiet", "--detach")
    git(clone, "branch", "--move", BRANCH, "other")
    assert "HEAD holds the series" in ok(series(project, "verify", clone))
    assert "branch other holds" in ok(series(project, "verify", "--branch", "other", clone))
    git(clone, "branch", "--move", "other", BRANCH)
    git(clone, "checkout", "--quiet", BRANCH)
    assert state(clone) == before


def amend(clone, *args) -> None:
    """Amend the last commit."""
    git(clone, "commit", "--quiet", "--all", "--amend", *args)


def test_each_difference_in_a_commit_is_one_line(project, clone):
    write(clone, {"t/t2290-new.t": "#!/bin/sh\nfalse\n", "README.md": "new\n"})
    (clone / "doc/link.rst").unlink()
    amend(clone, "--message", "testsuite: else\n", "--author", "B <b@example.org>")
    lines = differs(project, clone)
    words = ("message", "author or date", "README.md", "doc/link.rst", "t/t2290-new.t")
    assert len(lines) == len(words)
    for line, word in zip(lines, words):
        assert line.startswith("patch 3 (0003-testsuite-cover-it-and-more-")
        assert f": {word} differs in commit {git(clone, 'rev-parse', '--short=12', 'HEAD')}" in line
    assert "differs (patch 3 (0003-" in ok(series(project, "status", clone))


def test_a_mode_differs(project, clone):
    (clone / "t/t2290-new.t").chmod(0o644)
    amend(clone, "--no-edit")
    assert "t/t2290-new.t differs" in differs(project, clone)[0]


def test_a_commit_too_few_and_one_too_many(project, clone):
    extra = commit(clone, "job-manager: more\n", {"README.md": "more\n"})
    (line,) = differs(project, clone)
    assert line.startswith(f"commit {extra[:12]} (job-manager: more): not in the series")
    git(clone, "reset", "--quiet", "--hard", "HEAD~2")
    (line,) = differs(project, clone)
    assert line.startswith("patch 3 (") and "no commit for it" in line
    git(clone, "reset", "--quiet", "--hard", "v0.88.0")
    assert len(differs(project, clone)) == 3
    git(clone, "checkout", "--quiet", "--orphan", "else")
    git(clone, "commit", "--quiet", "--message", "else")
    git(clone, "branch", "-D", BRANCH)
    assert len(differs(project, clone)) == 3


def test_a_tree_is_held_by_its_files(project, clone, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(clone, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    for place in (tree, clone):
        assert "tree holds the series" in ok(series(project, "verify", "--tree", place))
    write(tree, {"src/new.c": "int old;\n", "src/main.c": "x\n", "README.md": "not ours\n"})
    (tree / "t/t2290-new.t").chmod(0o644)
    (tree / "doc/link.rst").unlink()
    lines = differs(project, tree, "--tree")
    words = (
        "doc/link.rst: No such file or directory",
        "src/main.c: stale",
        "src/new.c: stale",
        "t/t2290-new.t: mode 100644, not 100755",
    )
    assert len(lines) == len(words)
    assert all(line.startswith(word) for line, word in zip(lines, words)), lines
    assert "no such folder" in refused(series(project, "verify", "--tree", tmp_path / "none"))


def test_a_hook_of_a_later_patch_counts_in_a_tree(project, clone):
    """Two patches on one file: the tree must hold what the last one leaves."""
    main = (clone / "src/main.c").read_text()
    commit(clone, "job-manager: and again\n", {"src/main.c": "top\n" + main})
    ok(series(project, "refresh", clone))
    assert "tree holds" in ok(series(project, "verify", "--tree", clone))
    write(clone, {"src/main.c": main})
    assert differs(project, clone, "--tree")[0].startswith("src/main.c: stale")


def test_status_is_one_line(project, clone):
    before = state(clone)
    base = git(clone, "rev-parse", "--short=12", "v0.88.0^{commit}")
    line = ok(series(project, "status", clone))
    assert line == (
        f"{clone}: epilog-ranks: applied (3 of 3); base v0.88.0: ok at {base}; work tree: clean\n"
    )
    assert state(clone) == before
    write(clone, {"README.md": "x\n"})
    assert "work tree: README.md changed" in ok(series(project, "status", clone))
    git(clone, "checkout", "--quiet", "--force", "--detach", "v0.64.0")
    git(clone, "branch", "-D", BRANCH)
    assert "epilog-ranks: not applied; base v0.88.0: ok" in ok(series(project, "status", clone))
    git(clone, "tag", "-d", "v0.88.0")
    (project / "patches/base").write_text(
        (project / "patches/base").read_text().replace(base, "0123456789ab")
    )
    assert "not applied; base v0.88.0: not there" in ok(series(project, "status", clone))
    git(clone, "clone", "--quiet", "--bare", str(clone), str(project / "bare"))
    assert "work tree: none" in ok(series(project, "status", project / "bare"))


def test_show(project, clone):
    name = "0002-job-manager-call-it.patch"
    assert ok(series(project, "show", 2)) == (project / "patches" / name).read_text()
    full = ok(series(project, "show", 2, "--dir", clone))
    assert (
        "    job-manager: call it" in full
        and "\n main line 3\n" in full
        and "\n+late hook\n" in full
    )
    for number in (0, 4):
        assert "the series has 1 to 3" in refused(series(project, "show", number))
    assert series(project, "show", "x").returncode == 2


def test_no_series_yet(tmp_path, clone):
    for command in ("apply", "verify", "status"):
        line = refused(series(tmp_path, command, clone))
        assert "patches/series" in line and "run: scripts/series refresh DIR" in line


ONE, TWO = "0001-job-manager-add-new.c.patch", "0002-job-manager-call-it.patch"


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("series", ONE, f"{ONE}\n{ONE}", "patches/series:4: not a patch name, or there twice"),
        ("series", ONE, f"{ONE}\n# why", "patches/series:4: not a patch name"),
        ("series", ONE, "../x.patch", "patches/series:3: not a patch name"),
        ("series", ONE, "0001-other.patch", f"{ONE}: not in patches/series"),
        ("series", f"{ONE}\n{TWO}", f"{TWO}\n{ONE}", "rename it"),
        ("base", "version", "release", "patches/base: not the two lines version and commit"),
        ("base", "src/main.c", "src/many.c", "src/main.c: stands on blob"),
        (ONE, "overlay: src/new.c\n", "", "src/new.c: no patch adds it"),
        (ONE, "src/new.c\n", "src/new.c\noverlay: src/x.c\n", "src/x.c: missing, patch 1 adds it"),
        (ONE, "src/new.c\n", "src/new.c\noverlay: t/t2290-new.t\n", "by patch 1 and by patch 3"),
        (
            ONE,
            "src/new.c\n",
            "src/new.c\noverlay: lib/x\n",
            "lib/x: patch 1: overlay files stand in",
        ),
        (ONE, "src/new.c\n", "src/new.c\noverlay: src/../x\n", "src/../x: patch 1: overlay files"),
        (ONE, "add new.c", "add newer.c", "rename it"),
        (ONE, "+\tnew.c", "+\tnewer.c", "src/Makefile.am: hunks and index line differ"),
        (
            TWO,
            "@@ -25,0 +28 @@",
            "@@ -95,0 +98 @@",
            "src/main.c: hunk after line 95 of a file with 30",
        ),
    ],
)
def test_a_fault_in_the_project_is_named(project, clone, name, old, new, words):
    """Each part against the others; apply and all the rest refuse it before they do anything."""
    path = project / "patches" / name
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))
    git(clone, "checkout", "--quiet", "--detach", "v0.88.0")
    git(clone, "branch", "-D", BRANCH)
    before = state(clone)
    assert words in refused(series(project, "apply", clone))
    assert state(clone) == before


def test_a_patch_that_touches_what_base_does_not_name(project, clone):
    path = project / "patches/base"
    path.write_text(path.read_text() + f"{'0' * 40} src/stray.c\n")
    assert "src/stray.c: no patch touches it" in refused(series(project, "verify", clone))


def test_a_missing_patch_file(project, clone):
    (project / "patches" / TWO).unlink()
    assert f"{TWO}: No such file" in refused(series(project, "verify", clone))


def test_a_stray_overlay_file(project, clone):
    write(project, {"etc/stray": "x\n"})
    line = refused(series(project, "verify", clone))
    assert (
        "etc/stray: no patch adds it" in line and "commit it on the branch and run refresh" in line
    )


def test_hooks_in_an_overlay_file_are_refused(project, clone):
    path = project / "patches" / ONE
    path.write_text(
        path.read_text().replace(
            "overlay: src/new.c\n", "overlay: src/new.c\noverlay: src/main.c\n"
        )
    )
    write(project, {"src/main.c": text(["x"])})
    assert "src/main.c: patch 2 changes an overlay file" in refused(
        series(project, "verify", clone)
    )
