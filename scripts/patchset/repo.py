# SPDX-License-Identifier: LGPL-3.0
"""A git repository, seen through git's plumbing; no setting of the user's changes what it says."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .overlay import blob_id
from .patch import mail_date
from .refusal import Refusal

SETTINGS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "advice.detachedHead=false"),
)
# What a hook or alias of git's would otherwise make us work on instead of DIR
FOREIGN = {
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_EXTERNAL_DIFF"),
}
NOTHING = "0" * 40


@dataclass(frozen=True)
class Commit:
    """One commit, raw. seconds and zone: author time as git keeps it."""

    id: str
    parents: list[str]
    author: str
    seconds: int
    zone: str
    message: str

    @property
    def date(self) -> str:
        """Author time as a Date header."""
        return mail_date(self.seconds, self.zone)


@dataclass(frozen=True)
class Change:
    """What a commit did to one file; a file that is not there has mode 000000 and blob 0."""

    old_mode: str
    mode: str
    old: str
    new: str


@dataclass(frozen=True)
class Repo:
    """A repository at `dir`. env: what git is to see beside the caller's own environment."""

    dir: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(
        self, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git here, whatever its exit status. Raises Refusal where there is no git."""
        around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        around.update(self.env, LC_ALL="C", GIT_TERMINAL_PROMPT="0", **(env or {}))
        command = ["git", "-C", str(self.dir), *SETTINGS, *args]
        try:
            return subprocess.run(
                command, input=stdin, capture_output=True, env=around, check=False
            )
        except FileNotFoundError as exc:
            raise Refusal("git: not found: install the package git") from exc

    def git(self, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
        """What git prints. Raises Refusal with git's own words if it fails."""
        done = self.run(*args, stdin=stdin, env=env)
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())
            raise Refusal(f"{self.dir}: git {args[0]}: {said or f'exit {done.returncode}'}")
        return done.stdout

    def say(self, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> str:
        """What git prints, as one stripped text."""
        return self.git(*args, stdin=stdin, env=env).decode(errors="replace").strip()

    def ask(self, *args: str) -> str | None:
        """What git prints, or None if it fails: a question that may have no answer."""
        done = self.run(*args)
        return None if done.returncode else done.stdout.decode(errors="replace").strip()

    def find(self, rev: str) -> str | None:
        """Commit id that a revision names, None if there is none."""
        return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}")

    def contains(self, commit: str | None, tip: str) -> bool:
        """Whether the commit is there and tip stands on it."""
        args = ("merge-base", "--is-ancestor")
        return commit is not None and self.ask(*args, commit, tip) is not None

    def blob(self, name: str) -> bytes:
        """Bytes of a blob."""
        return self.git("cat-file", "blob", name)

    def has(self, name: str) -> bool:
        """Whether the repository holds an object of this name."""
        return self.ask("cat-file", "-e", name) is not None

    def put(self, data: bytes) -> str:
        """Store a blob; its id."""
        name = self.say("hash-object", "-w", "--no-filters", "--stdin", stdin=data)
        if name != blob_id(data):
            raise Refusal(
                f"{self.dir}: git names its objects otherwise than flux-core does: take a clone"
            )
        return name

    def entries(self, rev: str, paths: list[str]) -> dict[str, tuple[str, str]]:
        """Mode and blob id by path, for those of the paths that are in rev."""
        if not paths:
            return {}
        found = {}
        rows = self.git("ls-tree", "-r", "-z", "--full-tree", rev, "--", *paths)
        for row in rows.split(b"\0")[:-1]:
            meta, _, path = row.partition(b"\t")
            mode, _, name = meta.decode().split()
            found[os.fsdecode(path)] = (mode, name)
        return found

    def commit(self, rev: str) -> Commit:
        """Read a commit. Raises Refusal if its text is not UTF-8."""
        raw = self.git("cat-file", "commit", rev)
        head, _, message = raw.partition(b"\n\n")
        try:
            rows = head.decode().split("\n")
            author = next(row for row in rows if row.startswith("author "))
            who, seconds, zone = author[len("author ") :].rsplit(" ", 2)
            parents = [row.split()[1] for row in rows if row.startswith("parent ")]
            return Commit(rev, parents, who, int(seconds), zone, message.decode())
        except UnicodeDecodeError as exc:
            raise Refusal(f"{self.dir}: commit {rev[:12]}: not UTF-8: reword it") from exc

    def changes(self, commit: Commit) -> dict[str, Change]:
        """What the commit did to each file, against its first parent."""
        args = ("-r", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", "--raw")
        fields = self.git("diff-tree", *args, commit.parents[0], commit.id).split(b"\0")[:-1]
        return {
            os.fsdecode(path): Change(*row.decode()[1:].split()[:4])
            for row, path in zip(fields[::2], fields[1::2])
        }

    def dirty(self) -> str | None:
        """A tracked file that is not as HEAD has it, or an operation that waits to be finished."""
        waiting = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
        asked = [word for name in waiting for word in ("--git-path", name)]
        for path in self.say("rev-parse", *asked).splitlines():
            if (self.dir / path).exists():
                return f"{re.split('[-_]', Path(path).name)[0].lower()} under way"
        rows = self.git("status", "--porcelain", "-z", "--untracked-files=no").split(b"\0")
        return f"{os.fsdecode(rows[0][3:])} changed" if rows[0] else None

    @contextmanager
    def scratch(self) -> Iterator[Repo]:
        """The same repository, with every new object kept in a folder that goes away again."""
        objects = (self.dir / self.say("rev-parse", "--git-path", "objects")).resolve()
        quoted = '"' + str(objects).replace("\\", "\\\\").replace('"', '\\"') + '"'
        with tempfile.TemporaryDirectory(prefix="series-") as folder:
            env = {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted}
            yield Repo(self.dir, {**self.env, **env})


def open_repo(directory: Path) -> Repo:
    """The repository that directory is in, at the top of its work tree if it has one."""
    if not directory.is_dir():
        raise Refusal(f"{directory}: no such folder: give a git clone of flux-core")
    repo = Repo(directory)
    repo.git("rev-parse", "--git-dir")
    top = repo.ask("rev-parse", "--show-toplevel")
    return Repo(Path(top)) if top else repo


def kept(root: Path, path: str) -> set[str]:
    """Blob ids that the commits of the project at root keep of one of its files."""
    args = ("log", "--format=", "--raw", "--no-abbrev", "--no-renames", "-m", "--", path)
    done = Repo(root).run(*args)
    return {row.split()[3] for row in done.stdout.decode().splitlines() if row.startswith(":")}
