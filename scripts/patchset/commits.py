# SPDX-License-Identifier: LGPL-3.0
"""The series as commits: made on a base, picked onto another, and held against those in a clone."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from . import hunk
from .overlay import blob_id
from .patch import Hook, Patch, git_date, split_author
from .refusal import Refusal
from .repo import NOTHING, Change, Commit, Repo
from .series import Series


class Conflict(Exception):
    """A patch that does not go onto a version. args: patch number, what is in the way."""


def unfit(repo: Repo, series: Series, rev: str) -> str | None:
    """Why the series can't go onto rev by line number: the first file, in words; None if it can."""
    blobs = series.base.blobs
    there = repo.entries(rev, [*blobs, *series.entries])
    for path, blob in blobs.items():
        if there.get(path, ("", ""))[1] != blob:
            return f"{path} is not as in {series.base.version}"
    taken = next((path for path in series.entries if path in there), None)
    return f"{taken} is already there" if taken else None


def find_start(repo: Repo, series: Series) -> str:
    """Commit to start from: HEAD if it has the base's blobs, else the base itself."""
    base = series.base
    why = "HEAD: no commit"
    for rev in ("HEAD", f"refs/tags/{base.version}", base.commit):
        commit = repo.find(rev)
        if commit:
            reason = unfit(repo, series, commit)
            if not reason:
                return commit
            why = f"{rev}: {reason}" if rev == "HEAD" else why
    raise Refusal(
        f"{repo.dir}: wrong base: {why}, and {base.version} is not in this clone: "
        f"git -C {repo.dir} fetch --tags, then git checkout {base.version}"
    )


def committer(repo: Repo, author: str) -> dict[str, str]:
    """Committer for git's environment: as configured, else the patch's author."""
    name, email = split_author(author)
    found = {}
    for key, setting, fallback in (("NAME", "user.name", name), ("EMAIL", "user.email", email)):
        key = f"GIT_COMMITTER_{key}"
        found[key] = os.environ.get(key) or repo.ask("config", setting) or fallback
    return found


def identity(patch: Patch) -> dict[str, str]:
    """Author and both dates for git's environment; the same patch always makes the same commit."""
    name, email = split_author(patch.author)
    date = git_date(patch.date)
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
    }


class Builder:
    """Makes commits of a series in a repository's object store. Touches no ref and no work tree."""

    def __init__(self, repo: Repo, series: Series) -> None:
        self.repo = repo
        self.series = series
        self.texts: dict[str, list[bytes]] = {}  # by blob id: text before and after each hook
        self.merged: dict[tuple[str, str], str] = {}  # by blob there and blob after
        self.committer = committer(repo, series.patches[0].author)
        self.overlay = {path: repo.put(entry.data) for path, entry in series.entries.items()}

    def text(self, blob: str) -> list[bytes]:
        """Lines of a blob of the base."""
        if blob not in self.texts:
            self.texts[blob] = hunk.split(self.repo.blob(blob))
        return self.texts[blob]

    def insert(self, number: int, hook: Hook) -> bytes:
        """The file after the hook on the text it was written for."""
        try:
            lines = hunk.insert(self.text(hook.old), hook.hunks)
        except ValueError as exc:
            raise Refusal(f"{self.series.name(number)}: {hook.path}: {exc}: run refresh") from exc
        data = b"".join(lines)
        if blob_id(data) != hook.new:
            raise Refusal(
                f"{self.series.name(number)}: {hook.path}: hunks and index line differ: run refresh"
            )
        self.texts[hook.new] = lines
        return data

    def merge(self, there: str, hook: Hook, data: bytes) -> str:
        """Blob of the file on another version with the hook picked onto it; "" at a conflict."""
        key = (there, hook.new)
        if key not in self.merged:
            base = b"".join(self.texts[hook.old])
            with tempfile.TemporaryDirectory(prefix="series-") as folder:
                names = [str(Path(folder, name)) for name in ("there", "base", "hooked")]
                for name, content in zip(names, (self.repo.blob(there), base, data)):
                    Path(name).write_bytes(content)
                done = self.repo.run("merge-file", "-p", "--quiet", *names)
            self.merged[key] = "" if done.returncode else self.repo.put(done.stdout)
        return self.merged[key]

    def build(self, start: str, pick: bool = False) -> list[str]:
        """Commit ids of the series on start, in order.

        Where a touched file is not the base's, it is merged three ways if pick is set. Raises
        Conflict for what can't be picked.
        """
        with tempfile.TemporaryDirectory(prefix="series-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self.repo.git("read-tree", start, env=index)
            there = self.repo.entries(start, [*self.series.base.blobs, *self.series.entries])
            made = [start]
            for number, patch in enumerate(self.series.patches, 1):
                rows = b""
                for path in patch.overlay:
                    if path in there:
                        raise Conflict(number, f"{path} (already there)")
                    rows += index_row(self.series.entries[path].mode, self.overlay[path], path)
                for hook in patch.hooks:
                    mode, blob = there.get(hook.path, ("", ""))
                    if not blob:
                        raise Conflict(number, f"{hook.path} (not there)")
                    data = self.insert(number, hook)
                    if blob == hook.old:
                        new = self.repo.put(data)
                    else:
                        new = self.merge(blob, hook, data) if pick else ""
                    if not new:
                        raise Conflict(number, hook.path)
                    there[hook.path] = (mode, new)
                    rows += index_row(mode, new, hook.path)
                self.repo.git("update-index", "-z", "--add", "--index-info", stdin=rows, env=index)
                tree = self.repo.say("write-tree", "--missing-ok", env=index)
                env = {**self.committer, **identity(patch)}
                message = patch.message.encode()
                made.append(
                    self.repo.say("commit-tree", tree, "-p", made[-1], stdin=message, env=env)
                )
        return made[1:]


def index_row(mode: str, blob: str, path: str) -> bytes:
    """One row for git update-index --index-info -z."""
    return f"{mode} {blob}\t".encode() + os.fsencode(path) + b"\0"


def history(repo: Repo, base: str, tip: str, limit: int) -> list[Commit]:
    """At most limit commits up to tip, oldest first; only those over base unless that is ""."""
    args = ["--first-parent", "--reverse", f"--max-count={limit}", tip]
    args += [f"^{base}"] if base else []
    return [repo.commit(name) for name in repo.say("rev-list", *args).split()]


@dataclass(frozen=True)
class Difference:
    """One way in which commits are not the series. path: the one file that it is about, or ""."""

    path: str
    text: str


@dataclass(frozen=True)
class Holding:
    """What a tip holds of the series.

    start: commit below it; right: number of patches that are as they should be, from the first on.
    """

    start: str | None
    right: int
    differences: list[Difference]
    missing: bool  # the only difference: the last patches have no commit


def held(repo: Repo, series: Series, tip: str) -> Holding:
    """Hold the commits up to tip against the series. Commits below its first one don't count."""
    based = repo.contains(repo.find(series.base.commit), tip)
    commits = history(repo, series.base.commit if based else "", tip, len(series.patches) + 50)
    first = series.patches[0].message
    at = next((i for i, commit in enumerate(commits) if commit.message == first), None)
    if at is None:
        at = 0 if based else len(commits)
    start = commits[at].parents[0] if at < len(commits) and commits[at].parents else None
    right, found, missing = 0, [], 0
    for number, (patch, commit) in enumerate(zip_longest(series.patches, commits[at:]), 1):
        if patch is None:
            found.append(Difference("", f"{label(commit)}: not in the series"))
        elif commit is None:
            found.append(Difference("", f"{series.name(number)}: no commit for it"))
            missing += 1
        else:
            found += differences(repo, series, number, commit)
        right += not found
    return Holding(start, right, found, bool(right) and missing == len(found) > 0)


def differences(repo: Repo, series: Series, number: int, commit: Commit) -> list[Difference]:
    """Where a commit is not what patch `number` says."""
    patch = series.patches[number - 1]
    texts = []
    if commit.message != patch.message:
        texts.append(("", "message"))
    if (commit.author, f"@{commit.seconds} {commit.zone}") != (patch.author, git_date(patch.date)):
        texts.append(("", "author or date"))
    want = {hook.path: Change(hook.mode, hook.mode, hook.old, hook.new) for hook in patch.hooks}
    for path in patch.overlay:
        entry = series.entries[path]
        want[path] = Change("000000", entry.mode, NOTHING, blob_id(entry.data))
    there = repo.changes(commit) if commit.parents else {}
    texts += [(p, p) for p in sorted(want.keys() | there.keys()) if want.get(p) != there.get(p)]
    where = f"in commit {commit.id[:12]}"
    return [
        Difference(path, f"{series.name(number)}: {what} differs {where}") for path, what in texts
    ]


def label(commit: Commit) -> str:
    """A commit in a message."""
    return f"commit {commit.id[:12]} ({commit.message.partition(chr(10))[0]})"
