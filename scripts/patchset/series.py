# SPDX-License-Identifier: LGPL-3.0
"""The series: patches/series, patches/base and the patches, held against the overlay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from . import overlay, patch
from .overlay import Entry
from .patch import Hook, Patch
from .refusal import Refusal

SERIES_HEAD = (
    f"# {patch.SPDX}: {patch.LICENCE}\n# written by scripts/series refresh; comments only here\n"
)
BASE_HEAD = (
    f"# {patch.SPDX}: {patch.LICENCE}\n"
    "# the flux-core release under the series; each file of it that a patch touches, by blob id\n"
)
BLOB = re.compile(r"([0-9a-f]{40}) (.+)")


@dataclass(frozen=True)
class Base:
    """The pinned release: tag, commit id, and blob id by path of each file that a patch touches."""

    version: str
    commit: str
    blobs: dict[str, str]


@dataclass(frozen=True)
class Series:
    """All of it. entries: mode and bytes by path of each overlay file."""

    root: Path
    head: str
    base: Base
    patches: list[Patch]
    entries: dict[str, Entry]

    def name(self, number: int) -> str:
        """How messages call patch `number` (from 1)."""
        return f"patch {number} ({self.patches[number - 1].name(number)})"

    def hooks(self) -> dict[str, Hook]:
        """The last hook on each touched file: its `new` is the blob id after the whole series."""
        return {hook.path: hook for one in self.patches for hook in one.hooks}


def lines(path: Path) -> list[str]:
    """Lines of one of the two lists in patches/. Raises Refusal."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise Refusal(f"{path}: {exc}: run: scripts/series refresh DIR") from exc


def read_base(root: Path) -> Base:
    """Read patches/base. Raises Refusal."""
    where = root / "patches" / "base"
    rows = [row for row in lines(where) if not row.startswith("#")]
    fields = dict(row.partition(" ")[::2] for row in rows[:2])
    blobs = [BLOB.fullmatch(row) for row in rows[2:]]
    if fields.keys() != {"version", "commit"} or not all(blobs):
        raise Refusal(f"{where}: not the two lines version and commit, then BLOB PATH: run refresh")
    return Base(fields["version"], fields["commit"], {m[2]: m[1] for m in blobs if m})


def read_names(root: Path) -> tuple[str, list[str]]:
    """Comment at the head of patches/series, and the patch names in order. Raises Refusal."""
    where = root / "patches" / "series"
    head = ""
    names: list[str] = []
    for number, row in enumerate(lines(where), 1):
        if row.startswith("#") and not names:
            head += row + "\n"
        elif not re.fullmatch(r"[\w.+-]+\.patch", row) or row in names:
            raise Refusal(
                f"{where}:{number}: not a patch name, or there twice: {row!r}: take it out"
            )
        else:
            names.append(row)
    if not names:
        raise Refusal(f"{where}: names no patch: run: scripts/series refresh DIR")
    return head, names


def load(root: Path) -> Series:
    """Read the whole series and hold its parts against each other. Raises Refusal."""
    head, names = read_names(root)
    folder = root / "patches"
    for name in sorted({file.name for file in folder.glob("*.patch")} - set(names)):
        raise Refusal(f"patches/{name}: not in patches/series: add it there or remove it")
    patches = []
    for number, name in enumerate(names, 1):
        try:
            one = patch.read(name, (folder / name).read_bytes())
        except OSError as exc:
            raise Refusal(
                f"patches/series: {name}: {exc.strerror}: restore it or run refresh"
            ) from exc
        if name != one.name(number):
            raise Refusal(f"patches/{name}: number or subject say {one.name(number)}: rename it")
        patches.append(one)
    owners = overlay_owners(patches)
    check_overlay(root, owners)
    base = read_base(root)
    check_chain(base, patches, owners)
    return Series(root, head, base, patches, {path: overlay.read(root / path) for path in owners})


def overlay_owners(patches: list[Patch]) -> dict[str, int]:
    """Number of the patch that adds each overlay file. Raises Refusal where two do."""
    owners: dict[str, int] = {}
    for number, one in enumerate(patches, 1):
        for path in one.overlay:
            if path in owners:
                raise Refusal(
                    f"{path}: added by patch {owners[path]} and by patch {number}: squash them"
                )
            if not overlay.belongs(path) or ".." in path.split("/"):
                raise Refusal(f"{path}: patch {number}: overlay files stand in {overlay.WHERE}")
            owners[path] = number
    return owners


def check_overlay(root: Path, owners: dict[str, int]) -> None:
    """Each overlay file belongs to a patch, and each one named is there. Raises Refusal."""
    there = overlay.listing(root)
    for path in sorted(there - owners.keys()):
        raise Refusal(
            f"{path}: no patch adds it: commit it on the branch and run refresh, or remove it"
        )
    for path in sorted(owners.keys() - there):
        raise Refusal(f"{path}: missing, patch {owners[path]} adds it: restore it or run refresh")


def check_chain(base: Base, patches: list[Patch], owners: dict[str, int]) -> None:
    """Each hook starts from the blob that the one before it left, the first from base."""
    now = dict(base.blobs)
    for number, one in enumerate(patches, 1):
        for hook in one.hooks:
            if hook.path in owners:
                raise Refusal(
                    f"{hook.path}: patch {number} changes an overlay file: squash, then refresh"
                )
            if now.get(hook.path) != hook.old:
                raise Refusal(
                    f"patches/{one.name(number)}: {hook.path}: stands on blob {hook.old[:12]}, "
                    f"not on {now.get(hook.path, 'none')[:12]} as left before it: run refresh"
                )
            now[hook.path] = hook.new
    for path in sorted(base.blobs.keys() - {hook.path for one in patches for hook in one.hooks}):
        raise Refusal(f"patches/base: {path}: no patch touches it: run refresh")


def files(series: Series) -> dict[str, bytes]:
    """The files under patches/ that say this series, by name."""
    base = series.base
    rows = [f"version {base.version}", f"commit {base.commit}"]
    rows += [f"{blob} {path}" for path, blob in sorted(base.blobs.items())]
    names = [one.name(number) for number, one in enumerate(series.patches, 1)]
    out = {name: patch.write(one) for name, one in zip(names, series.patches)}
    out["series"] = (series.head + "".join(f"{name}\n" for name in names)).encode()
    out["base"] = (BASE_HEAD + "".join(f"{row}\n" for row in rows)).encode()
    return out
