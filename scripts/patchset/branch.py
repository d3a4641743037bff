# SPDX-License-Identifier: LGPL-3.0
"""The branch in a clone: made, taken back if that fails, held against the series."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from . import overlay
from .commits import Builder, Conflict, find_start, held
from .overlay import blob_id
from .refusal import Refusal
from .repo import Repo, kept
from .series import Series


def describe(repo: Repo, series: Series, tip: str) -> str:
    """How much of the series a branch holds, in words."""
    holding = held(repo, series, tip)
    share = f"({holding.right} of {len(series.patches)})"
    if not holding.differences:
        return f"applied {share}"
    return (
        f"half applied {share}" if holding.missing else f"differs ({holding.differences[0].text})"
    )


def way_back(repo: Repo, series: Series, branch: str) -> str:
    """Command that undoes the branch."""
    leave = ""
    if repo.ask("symbolic-ref", "--quiet", "--short", "HEAD") == branch:
        leave = f"git -C {repo.dir} checkout {series.base.version} && "
    return f"{leave}git -C {repo.dir} branch -D {branch}"


def check_ready(repo: Repo, series: Series, branch: str) -> None:
    """Refuse a clone that no branch can be checked out in safely."""
    if repo.ask("rev-parse", "--is-inside-work-tree") != "true":
        raise Refusal(f"{repo.dir}: no work tree: give a clone with files checked out")
    if repo.ask("check-ref-format", "--branch", branch) is None:
        raise Refusal(f"{branch}: not a name for a branch: choose another with --branch")
    if not repo.find("HEAD"):
        raise Refusal(
            f"{repo.dir}: HEAD has no commit: git -C {repo.dir} checkout {series.base.version}"
        )
    dirty = repo.dirty()
    if dirty:
        raise Refusal(
            f"{repo.dir}: work tree not clean ({dirty}): commit, finish or stash that first"
        )
    tracked = repo.entries("HEAD", list(series.entries))
    for path in series.entries:
        if path not in tracked and os.path.lexists(repo.dir / path):
            raise Refusal(f"{repo.dir}: {path}: untracked, apply would write over it: move it away")


def check_again(repo: Repo, series: Series, branch: str, tip: str) -> str:
    """Refuse to make the branch anew where that loses something; the commit that it starts from."""
    holding = held(repo, series, tip)
    for row in holding.differences:
        there = repo.entries(tip, [row.path]).get(row.path) if row.path else None
        safe = row.path in series.entries and there and there[1] in kept(series.root, row.path)
        if not (safe or holding.missing):
            raise Refusal(
                f"{repo.dir}: branch {branch}: {row.text}, which no commit here keeps: "
                f"run refresh, or drop it: {way_back(repo, series, branch)}"
            )
    return holding.start or find_start(repo, series)


def apply(repo: Repo, series: Series, branch: str, again: bool = False) -> str:
    """Make the branch, one commit a patch, and check it out; its tip. On failure nothing is left.

    again: an existing branch is made anew from where it starts, with the overlay as it is now.
    """
    check_ready(repo, series, branch)
    old = repo.find(f"refs/heads/{branch}")
    here = repo.ask("symbolic-ref", "--quiet", "HEAD")
    head = repo.say("rev-parse", "HEAD")
    if old and not again:
        state = describe(repo, series, old)
        way = way_back(repo, series, branch)
        raise Refusal(
            f"{repo.dir}: branch {branch} exists, {state}: apply --again, or begin anew: {way}"
        )
    start = check_again(repo, series, branch, old) if old else find_start(repo, series)
    try:
        tip = Builder(repo, series).build(start)[-1]
    except Conflict as exc:
        number, path = exc.args
        raise Refusal(
            f"{series.name(number)}: {path}: does not go onto {start[:12]}: run status"
        ) from exc
    try:
        repo.git("checkout", "--quiet", "--no-track", "-B" if old else "-b", branch, tip)
    except BaseException:
        take_back(repo, series, f"refs/heads/{branch}", old, head, here)
        raise
    return tip


def take_back(
    repo: Repo, series: Series, ref: str, old: str | None, head: str, here: str | None
) -> None:
    """After a failed checkout: tracked files, index, ref and HEAD as they were, and no new file.

    old: what ref named, None if it was not there; head: commit; here: full name of the branch
    that HEAD was on, None if on none.
    """
    handlers = {sig: signal.signal(sig, signal.SIG_IGN) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        tracked = repo.entries(head, list(series.entries))
        new = [p for p in series.entries.keys() - tracked if os.path.lexists(repo.dir / p)]
        at = (repo.find(ref), repo.find("HEAD"), repo.ask("symbolic-ref", "--quiet", "HEAD"))
        if at == (old, head, here) and not new and not repo.dirty():
            return  # git refused before it did anything
        repo.git("checkout", "--quiet", "--force", "--detach", head)
        for path in new:
            if os.path.lexists(repo.dir / path):
                overlay.remove(repo.dir, path)
        if repo.find(ref) != old:
            repo.git(*(["update-ref", ref, old] if old else ["update-ref", "-d", ref]))
        if here:
            repo.git("symbolic-ref", "HEAD", here)
    except (OSError, Refusal) as exc:
        name = ref[len("refs/heads/") :]
        way = f"git -C {repo.dir} checkout -f {head[:12]}; git -C {repo.dir} branch -D {name}"
        raise Refusal(f"{repo.dir}: could not take the branch back ({exc}): {way}") from exc
    finally:
        for sig, handler in handlers.items():
            signal.signal(sig, handler)


def verify(repo: Repo, series: Series, branch: str) -> tuple[str, list[str]]:
    """What was looked at, and each difference between it and the series in one line."""
    tip = repo.find(f"refs/heads/{branch}")
    what = f"branch {branch}" if tip else "HEAD"
    tip = tip or repo.find("HEAD")
    if not tip:
        raise Refusal(f"{repo.dir}: neither branch {branch} nor a commit in HEAD: run apply")
    return what, [row.text for row in held(repo, series, tip).differences]


def verify_tree(tree: Path, series: Series) -> list[str]:
    """Each file in a tree, a clone's or an exported one, that is not as the series leaves it."""
    want = {path: (entry.mode, blob_id(entry.data)) for path, entry in series.entries.items()}
    want.update({path: (hook.mode, hook.new) for path, hook in series.hooks().items()})
    found = []
    for path, (mode, blob) in sorted(want.items()):
        try:
            there = overlay.read(tree / path)
        except OSError as exc:
            found.append(f"{path}: {exc.strerror}")
            continue
        if blob_id(there.data) != blob:
            found.append(f"{path}: stale")
        elif there.mode != mode:
            found.append(f"{path}: mode {there.mode}, not {mode}")
    return found


def status(repo: Repo, series: Series, branch: str) -> str:
    """One line on the branch, the base and the work tree."""
    tip = repo.find(f"refs/heads/{branch}")
    state = describe(repo, series, tip) if tip else "not applied"
    try:
        base = f"ok at {find_start(repo, series)[:12]}"
    except Refusal:
        base = "not there"
    dirty = repo.dirty() if repo.ask("rev-parse", "--is-inside-work-tree") == "true" else "none"
    return f"{branch}: {state}; base {series.base.version}: {base}; work tree: {dirty or 'clean'}"
