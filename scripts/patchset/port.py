# SPDX-License-Identifier: LGPL-3.0
"""The series on other versions of flux-core: each picked by three-way merge, and a table of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from .commits import Builder, Conflict
from .refusal import Refusal
from .repo import NOTHING, Repo
from .series import Series

OLDEST = (0, 64, 0)
RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def number(tag: str) -> tuple[int, ...]:
    """A release tag as numbers that sort; () for any other name."""
    found = RELEASE.fullmatch(tag)
    return tuple(int(part) for part in found.groups()) if found else ()


def all_versions(repo: Repo, series: Series) -> list[str]:
    """Every release from v0.64.0 to the pinned one that the clone has, and master."""
    tags = repo.say("tag", "--list").split()
    newest = number(series.base.version)
    return [*sorted((t for t in tags if OLDEST <= number(t) <= newest), key=number), "master"]


def find_version(repo: Repo, version: str) -> str:
    """Commit id of a tag or branch. Raises Refusal."""
    for rev in (
        f"refs/tags/{version}",
        f"refs/heads/{version}",
        f"refs/remotes/origin/{version}",
        version,
    ):
        commit = repo.find(rev)
        if commit:
            return commit
    raise Refusal(
        f"{repo.dir}: no version {version}: git -C {repo.dir} fetch --tags, or correct the name"
    )


def port(
    repo: Repo, series: Series, versions: list[str], keep: str, tell: Callable[[str], None]
) -> list[tuple[str, str]]:
    """(version, result) each; the result is "clean" or says the conflict.

    keep: name of the branch for a clean result is keep-VERSION; "" keeps none. tell is called
    with each version before its turn.
    """
    commits = {version: find_version(repo, version) for version in versions}
    builder = Builder(repo, series)
    rows = []
    for version, start in commits.items():
        tell(version)
        try:
            tip = builder.build(start, pick=True)[-1]
        except Conflict as exc:
            at, path = exc.args
            rows.append((version, f"conflict in {path} at {series.name(at)}"))
            continue
        ref = f"refs/heads/{keep}-{version}"
        if keep and repo.find(ref) not in (None, tip):
            rows.append((version, f"branch {keep}-{version} exists and differs: git branch -D it"))
            continue
        if keep:
            repo.git("update-ref", "-m", "scripts/series port", ref, tip, repo.find(ref) or NOTHING)
        rows.append((version, "clean"))
    return rows


def table(rows: list[tuple[str, str]]) -> str:
    """The rows as a markdown table."""
    return "| version | result |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in rows)
