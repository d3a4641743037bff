# SPDX-License-Identifier: LGPL-3.0
"""Small stand-ins for a flux-core clone and for this project, to try scripts/series on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
BRANCH = "epilog-ranks"
CACHE = tempfile.TemporaryDirectory(prefix="pycache-")  # or each run of the script compiles it anew
ENV = {
    **{key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHON"))},
    "PYTHONPYCACHEPREFIX": CACHE.name,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "An Author",
    "GIT_AUTHOR_EMAIL": "author@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0130",
    "GIT_COMMITTER_NAME": "A Committer",
    "GIT_COMMITTER_EMAIL": "committer@example.org",
    "GIT_COMMITTER_DATE": "1700000001 +0000",
}
MAIN = [f"main line {number}" for number in range(1, 31)]
LIST = ["{", "}", "", "{", "}", "", "{", "}"]


def text(lines: list[str]) -> str:
    """Lines as a file's text."""
    return "".join(line + "\n" for line in lines)


def git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    """Run git in folder with no setting but ours; what it prints, stripped."""
    done = subprocess.run(
        ["git", "-C", str(folder), *args], input=stdin, capture_output=True, env=ENV, check=False
    )
    assert done.returncode == 0, f"git {args}: {done.stderr.decode()}"
    return done.stdout.decode(errors="surrogateescape").strip()


def series(project: Path, *args: object, env: dict[str, str] | None = None):
    """Run scripts/series on a project; the finished process, with text output."""
    command = [sys.executable, str(SCRIPTS / "series"), "--project", str(project)]
    return subprocess.run(
        [*command, *map(str, args)],
        capture_output=True,
        text=True,
        env={**ENV, **(env or {})},
        check=False,
    )


def ok(done: subprocess.CompletedProcess) -> str:
    """Standard output of a command that must have worked."""
    assert done.returncode == 0, done.stderr + done.stdout
    assert not done.stderr
    return done.stdout


def refused(done: subprocess.CompletedProcess) -> str:
    """The one line of a refusal."""
    assert done.returncode == 1, done.stderr + done.stdout
    assert not done.stdout
    assert done.stderr.startswith("series: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files; a name that ends in * is executable."""
    for name, content in files.items():
        path = folder / name.rstrip("*")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        if name.endswith("*"):
            path.chmod(0o755)


def commit(folder: Path, message: str, files: dict[str, str]) -> str:
    """Write files, commit them; the commit id."""
    write(folder, files)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def put_in(lines: list[str], after: int, *new: str) -> list[str]:
    """Lines with new ones after the first `after`."""
    return lines[:after] + list(new) + lines[after:]


def make_upstream(folder: Path) -> Path:
    """A repository with releases v0.63.0 to v0.88.0 and master, as far as the hooks care.

    v0.64.0: other lines far from the hooks; v0.65.0: a changed line next to one; v0.66.0: a file
    is missing; v0.67.0: a file of the overlay is there.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=master")
    base = {
        "README.md": "upstream\n",
        "src/main.c": text(MAIN),
        "src/list.c": text(LIST),
        "src/tool.py*": text(["#!/usr/bin/env python3", "a", "b"]),
        "src/Makefile.am": "SOURCES = \\\n\tmain.c \\\n\tlist.c",  # no line feed at its end
        "t/big.eventlog": "a file that a clone may lack\n",
    }
    early = {**base, "src/main.c": text(put_in(MAIN, 20, "old", "lines")[2:])}
    for tag, files in (
        ("v0.63.0", base),
        ("v0.64.0", early),
        ("v0.65.0", {"src/main.c": text(["other" if x == "main line 5" else x for x in MAIN])}),
        ("v0.66.0", {"src/main.c": text(MAIN), "src/list.c": ""}),
        ("v0.67.0", {"src/list.c": text(LIST), "src/new.c": "theirs\n"}),
        ("v0.88.0", base),
        ("v0.89.0", {"README.md": "newer\n"}),
    ):
        write(folder, files)
        if tag == "v0.66.0":
            (folder / "src/list.c").unlink()
        if tag == "v0.88.0":
            (folder / "src/new.c").unlink()
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", tag)
        git(folder, "tag", tag)
    return folder


def make_clone(upstream: Path, folder: Path, start: str = "v0.88.0") -> Path:
    """A clone with a release checked out."""
    git(upstream, "clone", "--quiet", str(upstream), str(folder))
    git(folder, "checkout", "--quiet", "--detach", start)
    return folder


def make_branch(clone: Path) -> list[str]:
    """Commit three patches on the branch: file and hook, hooks, files; their ids."""
    git(clone, "checkout", "--quiet", "-b", BRANCH, "v0.88.0")
    makefile = "SOURCES = \\\n\tnew.c \\\n\tmain.c \\\n\tlist.c"
    first = "job-manager: add new.c\n\nProblem: there is none. Ünïcode.\n\nAdd it.\n\nFixes #1\n"
    one = commit(clone, first, {"src/new.c": "int new;\n", "src/Makefile.am": makefile})
    hooked = put_in(put_in(MAIN, 25, "late hook"), 5, "early hook 1", "early hook 2")
    two = commit(
        clone,
        "job-manager: call it\n",
        {
            "src/main.c": text(hooked),
            "src/list.c": text(put_in(LIST, 3, "{", "}", "")),
            "src/tool.py*": text(["#!/usr/bin/env python3", "a", "hook", "b"]),
        },
    )
    (clone / "doc").mkdir()
    (clone / "doc/link.rst").symlink_to("new page.rst")
    three = commit(
        clone,
        'testsuite: cover it: [and] "more"/things, with a subject that is too long for a name\n',
        {"t/t2290-new.t*": "#!/bin/sh\ntrue\n", "doc/new page.rst": "no line feed at its end"},
    )
    return [one, two, three]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file under folder by name, its mode first; without .git."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        found[str(name)] = b"%o " % path.lstat().st_mode + data
    return found


def state(clone: Path) -> tuple:
    """What a refused command may not change: HEAD, refs, index and work tree."""
    head = (clone / ".git/HEAD").read_bytes()
    refs = git(clone, "for-each-ref")
    return head, refs, git(clone, "status", "--porcelain", "--ignored"), snapshot(clone)
