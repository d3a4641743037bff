# SPDX-License-Identifier: LGPL-3.0
"""The way back: patches and overlay files made anew from the commits of a branch."""

from __future__ import annotations

from pathlib import Path

from . import hunk, overlay, patch
from . import series as series_file
from .commits import label
from .overlay import Entry, blob_id
from .patch import Hook, Patch
from .refusal import Refusal
from .repo import NOTHING, Change, Commit, Repo
from .series import Base, Series


def default_base(root: Path) -> str:
    """Revision that the commits start from: the pinned one, v0.88.0 where none is pinned yet."""
    if not (root / "patches" / "base").exists():
        return "v0.88.0"
    return series_file.read_base(root).version


def read_branch(repo: Repo, root: Path, branch: str, version: str) -> Series:
    """The series as the commits from version (a tag) to the branch's tip say it. Writes nothing."""
    tip = repo.find(f"refs/heads/{branch}")
    if not tip:
        raise Refusal(f"{repo.dir}: no branch {branch}: run apply, or name it with --branch")
    base = repo.find(f"refs/tags/{version}") or repo.find(version)
    if not base or not repo.contains(base, tip):
        raise Refusal(
            f"{repo.dir}: {branch} does not stand on {version}: name its base with --base"
        )
    here = repo.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    dirty = repo.dirty() if here == branch else None
    if dirty:
        raise Refusal(
            f"{repo.dir}: not clean ({dirty}), refresh takes commits only: commit or stash it"
        )
    ids = repo.say("rev-list", "--reverse", "--topo-order", f"{base}..{tip}").split()
    if not ids:
        raise Refusal(f"{repo.dir}: {branch} has no commit over {version}: nothing to refresh from")
    patches: list[Patch] = []
    entries: dict[str, Entry] = {}
    owners: dict[str, Commit] = {}
    blobs: dict[str, str] = {}
    before = base
    for name in ids:
        commit = repo.commit(name)
        if commit.parents != [before]:
            raise Refusal(
                f"{repo.dir}: {label(commit)}: not a straight line from {version}: rebase it"
            )
        before = name
        one, added = read_commit(repo, commit, owners)
        patches.append(one)
        entries.update(added)
        owners.update(dict.fromkeys(added, commit))
        for hook in one.hooks:
            blobs.setdefault(hook.path, hook.old)
    head = series_file.SERIES_HEAD
    if (root / "patches" / "series").exists():
        head = series_file.read_names(root)[0] or head
    return Series(root, head, Base(version, base, blobs), patches, entries)


def read_commit(
    repo: Repo, commit: Commit, owners: dict[str, Commit]
) -> tuple[Patch, dict[str, Entry]]:
    """One commit as a patch, and the overlay files that it adds."""
    where = f"{repo.dir}: {label(commit)}"
    entries: dict[str, Entry] = {}
    hooks = []
    for path, change in repo.changes(commit).items():
        try:
            patch.check_path(path)
        except ValueError as exc:
            raise Refusal(f"{where}: {exc}: rename the file") from exc
        if path in owners:
            raise Refusal(f"{where}: {path}: was added in {label(owners[path])}: squash the two")
        if change.old == NOTHING:
            if not overlay.belongs(path):
                raise Refusal(f"{where}: {path}: new file outside {overlay.WHERE}: move it")
            if change.mode not in (overlay.PLAIN, overlay.EXECUTABLE, overlay.LINK):
                raise Refusal(f"{where}: {path}: neither file nor link: leave it out")
            entries[path] = Entry(change.mode, repo.blob(change.new))
        else:
            hooks.append(read_hook(repo, where, path, change))
    try:
        patch.check_message(commit.message)
        patch.split_author(commit.author)
        date = commit.date
    except ValueError as exc:
        raise Refusal(f"{where}: message, author or date: {exc}: reword the commit") from exc
    if not entries and not hooks:
        raise Refusal(f"{where}: changes no file: drop it")
    return Patch(commit.author, date, commit.message, sorted(entries), hooks), entries


def read_hook(repo: Repo, where: str, path: str, change: Change) -> Hook:
    """What a commit put into one of flux-core's files."""
    if change.new == NOTHING:
        raise Refusal(f"{where}: {path}: removed, a patch may only insert: keep the file")
    if change.mode != change.old_mode or change.mode == overlay.LINK:
        raise Refusal(f"{where}: {path}: mode changed, or a link: a patch may only insert lines")
    old, new = repo.blob(change.old), repo.blob(change.new)
    if b"\0" in old + new:
        raise Refusal(f"{where}: {path}: binary: a patch may only insert lines of text")
    hunks = hunk.insertions(hunk.split(old), hunk.split(new))
    if hunks is None:
        raise Refusal(
            f"{where}: {path}: a line was removed or changed: a patch may only insert lines"
        )
    return Hook(path, change.mode, change.old, change.new, hunks)


def old_overlay(root: Path) -> set[str]:
    """Overlay files that the patches in place name."""
    found: set[str] = set()
    for file in (root / "patches").glob("*.patch"):
        found |= set(patch.read(file.name, file.read_bytes()).overlay)
    return found


def write(series: Series, repo: Repo, force: bool) -> list[str]:
    """Write patches, lists and overlay files into the project; the files that this changed.

    Refuses to write over an overlay file that was edited here and never came to the clone that
    the series was read from, unless force is set.
    """
    root, folder = series.root, series.root / "patches"
    there = overlay.listing(root)
    gone = sorted((there - series.entries.keys()) & old_overlay(root))
    for path in sorted(there - series.entries.keys() - set(gone)):
        raise Refusal(f"{path}: no commit on the branch adds it: commit it there, or remove it")
    for path in [] if force else sorted(there):
        entry = overlay.read(root / path)
        if entry != series.entries.get(path) and not repo.has(blob_id(entry.data)):
            raise Refusal(
                f"{path}: edited here, and never was on the branch: apply --again takes it there; "
                "or drop it: refresh --force"
            )
    changed = [path for path, entry in series.entries.items() if overlay.write(root / path, entry)]
    for path in gone:
        overlay.remove(root, path)
    files = series_file.files(series)
    stale = sorted({file.name for file in folder.glob("*.patch")} - files.keys())
    for name, data in files.items():
        if overlay.write(folder / name, Entry(overlay.PLAIN, data)):
            changed.append(f"patches/{name}")
    for name in stale:
        (folder / name).unlink()
    return changed + [f"{path} (removed)" for path in gone + [f"patches/{name}" for name in stale]]
