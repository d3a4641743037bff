# SPDX-License-Identifier: LGPL-3.0
"""scripts/series refresh: the way back from commits to patches and overlay, byte for byte."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from series_clone import (
    BRANCH,
    commit,
    git,
    make_branch,
    make_clone,
    make_upstream,
    ok,
    put_in,
    refused,
    series,
    snapshot,
    text,
    write,
)
from test_series_hunk import edits


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A stand-in for flux-core's repository."""
    return make_upstream(tmp_path_factory.mktemp("refresh") / "upstream")


@pytest.fixture
def clone(upstream, tmp_path):
    """A clone with three commits on the branch."""
    clone = make_clone(upstream, tmp_path / "clone")
    make_branch(clone)
    return clone


@pytest.fixture
def project(tmp_path):
    """A project without a series."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_the_files_that_it_writes(clone, project):
    said = ok(series(project, "refresh", clone))
    assert said.endswith(
        "3 patches, 4 overlay files from epilog-ranks on v0.88.0, 9 files changed\n"
    )
    names = (project / "patches/series").read_text().splitlines()
    assert names[0] == "# SPDX-License-Identifier: LGPL-3.0"
    assert names[2:] == [
        "0001-job-manager-add-new.c.patch",
        "0002-job-manager-call-it.patch",
        "0003-testsuite-cover-it-and-more-things-with-a-subject-th.patch",
    ]
    base = (project / "patches/base").read_text().splitlines()
    assert base[2] == "version v0.88.0"
    assert base[3] == f"commit {git(clone, 'rev-parse', 'v0.88.0^{commit}')}"
    touched = ["src/Makefile.am", "src/list.c", "src/main.c", "src/tool.py"]
    assert base[4:] == [f"{git(clone, 'rev-parse', f'v0.88.0:{path}')} {path}" for path in touched]
    first, second, third = [(project / "patches" / name).read_text() for name in names[2:]]
    assert "\noverlay: src/new.c\n\ndiff --git a/src/Makefile.am b/src/Makefile.am\n" in first
    assert first.endswith("@@ -1,0 +2 @@\n+\tnew.c \\\n")
    assert "Date: Tue, 14 Nov 2023 23:43:20 +0130\n" in first
    assert "\nProblem: there is none. Ünïcode.\n\nAdd it.\n\nFixes #1\n---\n" in first
    assert "@@ -5,0 +6,2 @@\n+early hook 1\n+early hook 2\n@@ -25,0 +28 @@\n+late hook\n" in second
    assert "overlay" not in second
    assert third.endswith(
        "\n---\noverlay: doc/link.rst\noverlay: doc/new page.rst\noverlay: t/t2290-new.t\n"
    )
    for path in ("src/new.c", "doc/link.rst", "doc/new page.rst", "t/t2290-new.t"):
        assert snapshot(project)[path] == snapshot(clone)[path]
    assert not (project / "src/main.c").exists()


def test_only_insertions_and_no_context(clone, project):
    """As the site checks it: no context line, no removed line, nothing behind the second @@."""
    ok(series(project, "refresh", clone))
    for path in (project / "patches").glob("*.patch"):
        lines = path.read_text().split("\ndiff --git ", 1)
        for line in lines[1].splitlines()[1:] if len(lines) > 1 else []:
            assert line.startswith(("+", "@@ -", "--- a/", "index ", "diff --git ")), line
            assert not line.startswith("@@") or (",0 +" in line and line.endswith(" @@")), line


def test_git_apply_takes_the_hooks(clone, project, tmp_path, upstream):
    ok(series(project, "refresh", clone))
    other = make_clone(upstream, tmp_path / "other")
    for path in sorted((project / "patches").glob("000[12]*.patch")):
        git(other, "apply", "--index", "--unidiff-zero", "--whitespace=nowarn", str(path))
    for path in ("src/main.c", "src/list.c", "src/Makefile.am", "src/tool.py"):
        assert (other / path).read_bytes() == (clone / path).read_bytes()


def test_refresh_is_stable(clone, project, tmp_path, upstream):
    ok(series(project, "refresh", clone))
    before = snapshot(project)
    assert ", 0 files changed" in ok(series(project, "refresh", clone))
    other = make_clone(upstream, tmp_path / "other")
    ok(series(project, "apply", other))
    assert ", 0 files changed" in ok(series(project, "refresh", other))
    assert snapshot(project) == before
    empty = tmp_path / "empty"
    empty.mkdir()
    ok(series(empty, "refresh", other))
    assert snapshot(empty) == before


def test_comments_at_the_head_of_the_series_stay(clone, project):
    ok(series(project, "refresh", clone))
    path = project / "patches/series"
    path.write_text(
        "# SPDX-License-Identifier: LGPL-3.0\n# ours\n#\n" + path.read_text().split("\n", 2)[2]
    )
    before = path.read_text()
    ok(series(project, "refresh", clone))
    assert path.read_text() == before


def test_edits_come_in_and_what_went_goes(clone, project):
    ok(series(project, "refresh", clone))
    git(clone, "reset", "--quiet", "--hard", "HEAD~1")
    write(
        clone,
        {"src/main.c": text(put_in((clone / "src/main.c").read_text().splitlines(), 0, "top"))},
    )
    git(clone, "commit", "--quiet", "--all", "--amend", "--no-edit")
    said = ok(series(project, "refresh", clone))
    assert "doc/new page.rst (removed)\n" in said and "0003-" in said
    assert not (project / "doc").exists() and not (project / "t").exists()
    assert len(list((project / "patches").iterdir())) == 4
    assert (
        "@@ -0,0 +1 @@\n+top\n" in (project / "patches/0002-job-manager-call-it.patch").read_text()
    )
    assert ", 0 files changed" in ok(series(project, "refresh", clone))


def test_another_base(clone, project):
    ok(series(project, "refresh", clone))
    git(clone, "rebase", "--quiet", "v0.89.0")
    ok(series(project, "refresh", "--base", "v0.89.0", clone))
    assert "version v0.89.0\n" in (project / "patches/base").read_text()
    assert ", 0 files changed" in ok(series(project, "refresh", clone))


def refuse(clone, project, message: str, *words: str) -> None:
    """Refresh must be refused with these words, and leave the project alone."""
    ok(series(project, "refresh", "--branch", "good", clone))
    before = snapshot(project)
    line = refused(series(project, "refresh", clone))
    for word in (message, *words):
        assert word in line, line
    assert snapshot(project) == before


@pytest.fixture
def good(clone):
    """The clone, its branch kept as "good", too."""
    git(clone, "branch", "good")
    return clone


@pytest.mark.parametrize(
    ("files", "word"),
    [
        (
            {"src/main.c": text(["changed", *[f"main line {n}" for n in range(2, 31)]])},
            "a line was removed",
        ),
        (
            {"src/Makefile.am": "SOURCES = \\\n\tnew.c \\\n\tmain.c \\\n\tlist.c\n"},
            "a line was removed",
        ),
        ({"README.md*": "upstream\n"}, "mode changed"),
        ({"t/big.eventlog": "a file that a clone may lack\n\0\n"}, "binary"),
        ({"src/new.c": "int new;\nint more;\n"}, "was added in commit"),
        ({"new.c": "int new;\n"}, "new file outside src, t, doc, etc"),
        (
            {"doc/page.md": "page\n"},
            "doc/page.md: new file outside src, t, doc, etc (but doc/*.md and",
        ),
        (
            {"doc/rfc/a.rst": "a\n"},
            "doc/rfc/a.rst: new file outside src, t, doc, etc (but doc/*.md",
        ),
        ({'src/a"b.c': "int new;\n"}, "needs quotes"),
    ],
)
def test_a_change_that_is_no_insertion(good, project, files, word):
    made = commit(good, "job-manager: break it\n", files)
    name = next(iter(files)).rstrip("*")
    where = name if '"' not in name else "src/a"
    refuse(good, project, word, where, f"commit {made[:12]} (job-manager: break it)")


def test_a_removed_file(good, project):
    git(good, "rm", "--quiet", "src/list.c")
    commit(good, "job-manager: break it\n", {})
    refuse(good, project, "src/list.c: removed, a patch may only insert")


def test_an_overlay_file_that_two_commits_touch_names_both(good, project):
    first = git(good, "rev-parse", "HEAD~2")
    second = commit(good, "job-manager: more\n", {"src/new.c": "int new;\nint more;\n"})
    refuse(good, project, first[:12], second[:12], "job-manager: more", "squash the two")


@pytest.mark.parametrize(
    "message",
    [
        "x: y\nz\n",
        "x: y\n\nz\n---\nw\n",
        "x: y\n\ndiff --git a/x b/x\n",
        "[x] y\n",
        "x: y\n\nFrom: me\n",
    ],
)
def test_a_message_that_mail_would_change(good, project, message):
    (good / "etc").mkdir()
    write(good, {"etc/x": "x\n"})
    git(good, "add", "etc/x")
    git(good, "commit", "--quiet", "--cleanup=verbatim", "--message", message)
    refuse(good, project, "reword the commit")


def test_an_empty_commit(good, project):
    git(good, "commit", "--quiet", "--allow-empty", "--message", "x: nothing\n")
    refuse(good, project, "changes no file: drop it")


def test_a_merge(good, project):
    git(good, "checkout", "--quiet", "-b", "side", "v0.88.0")
    commit(good, "side", {"etc/side": "x\n"})
    git(good, "checkout", "--quiet", BRANCH)
    git(good, "merge", "--quiet", "--no-edit", "side")
    refuse(good, project, "not a straight line from v0.88.0", "rebase it")


def test_an_uncommitted_change(good, project):
    write(good, {"src/main.c": "x\n"})
    line = refused(series(project, "refresh", good))
    assert "not clean (src/main.c changed)" in line and "refresh takes commits only" in line
    assert snapshot(project) == {}


def test_no_branch_no_base_no_commit(good, project):
    assert "no branch other" in refused(series(project, "refresh", "--branch", "other", good))
    line = refused(series(project, "refresh", "--base", "v0.89.0", good))
    assert "does not stand on v0.89.0" in line and "--base" in line
    git(good, "branch", "empty", "v0.88.0")
    assert "no commit over v0.88.0" in refused(
        series(project, "refresh", "--branch", "empty", good)
    )


def test_an_overlay_file_that_no_commit_adds(good, project):
    write(project, {"src/stray.c": "x\n"})
    line = refused(series(project, "refresh", good))
    assert "src/stray.c: no commit on the branch adds it" in line
    assert list(snapshot(project)) == ["src/stray.c"]


def test_python_caches_are_no_overlay(good, project):
    write(project, {"src/bindings/__pycache__/x.pyc": "x\n"})
    ok(series(project, "refresh", good))
    ok(series(project, "show", 1))


@pytest.mark.parametrize("committed", [False, True])
def test_an_edit_here_is_not_lost(good, project, committed):
    ok(series(project, "refresh", good))
    write(project, {"src/new.c": "int edited_here;\n"})
    if committed:
        git(project, "init", "--quiet")
        commit(project, "edit", {})
    line = refused(series(project, "refresh", good))
    assert "src/new.c: edited here, and never was on the branch" in line
    assert "apply --again" in line and "refresh --force" in line
    assert (project / "src/new.c").read_text() == "int edited_here;\n"
    assert ok(series(project, "refresh", "--force", good)).startswith("src/new.c\n")
    assert (project / "src/new.c").read_text() == "int new;\n"


def test_an_edit_on_the_branch_comes_in(good, project):
    ok(series(project, "refresh", good))
    for body in ("false", "true", "exit 1"):
        write(good, {"t/t2290-new.t*": f"#!/bin/sh\n{body}\n"})
        git(good, "commit", "--quiet", "--all", "--amend", "--no-edit", "--allow-empty")
        ok(series(project, "refresh", good))
        assert (project / "t/t2290-new.t").read_text() == f"#!/bin/sh\n{body}\n"
        assert (project / "t/t2290-new.t").stat().st_mode & 0o777 == 0o755


NAMES = ["src/one.c", "src/sub dir/two.c", "t/three", "Makefile.am"]
BYTES = st.lists(
    st.binary(max_size=4).map(lambda b: b.replace(b"\n", b"").replace(b"\0", b"") + b"\n")
)


@st.composite
def histories(draw):
    """Files of a base, and one to three commits: texts with insertions, and new files."""
    base, commits = {}, [{} for _ in range(draw(st.integers(1, 3)))]
    for name in NAMES:
        lines, after = draw(edits(BYTES, 2))
        base[name] = b"".join(lines)
        commits[0][name] = b"".join(after)
    for number, one in enumerate(commits):
        one[f"etc/new {number}"] = draw(st.binary(max_size=40))
        if number and draw(st.booleans()):
            name = draw(st.sampled_from(NAMES))
            current = next(c[name] for c in commits[number - 1 :: -1] if name in c)
            lines = current.splitlines(keepends=True)
            at = draw(st.integers(0, len(lines)))
            one[name] = b"".join(lines[:at]) + b"put in\n" + b"".join(lines[at:])
    return base, commits


def import_history(folder, base, commits) -> None:
    """A repository with a tag v0.88.0 and the branch on it, from one fast-import stream."""
    out = []

    def add(ref: str, files: dict[str, bytes], message: str) -> None:
        out.append(f"commit refs/heads/{ref}\nauthor A B <a@b> 1700000000 -0800\n".encode())
        out.append(b"committer A B <a@b> 1700000000 -0800\n")
        out.append(f"data {len(message.encode())}\n{message}".encode())
        for name, data in files.items():
            out.append(f"M 644 inline {name}\ndata {len(data)}\n".encode() + data + b"\n")

    add("master", base, "base\n")
    out.append(b"reset refs/tags/v0.88.0\nfrom refs/heads/master\n\n")
    out.append(f"reset refs/heads/{BRANCH}\nfrom refs/heads/master\n\n".encode())
    for number, files in enumerate(commits):
        add(BRANCH, files, f"part: step {number}\n\nProblem: é.\n")
    git(folder, "init", "--quiet", "--initial-branch=master")
    git(folder, "fast-import", "--quiet", stdin=b"".join(out))
    git(folder, "checkout", "--quiet", "v0.88.0")


@given(histories())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_insertions_survive_the_way_round(tmp_path_factory, history):
    folder = tmp_path_factory.mktemp("way round")
    for name in ("clone", "project", "again"):
        (folder / name).mkdir()
    import_history(folder / "clone", *history)
    ok(series(folder / "project", "refresh", folder / "clone"))
    git(folder / "clone", "branch", "--move", BRANCH, "first")
    ok(series(folder / "project", "apply", folder / "clone"))
    for back in range(len(history[1])):
        for form in ("%T", "%an %ae %ad %B"):
            args = ("log", "-1", f"--format={form}")
            assert git(folder / "clone", *args, f"first~{back}") == git(
                folder / "clone", *args, f"{BRANCH}~{back}"
            )
    ok(series(folder / "again", "refresh", folder / "clone"))
    assert snapshot(folder / "again") == snapshot(folder / "project")
    shutil.rmtree(folder)
