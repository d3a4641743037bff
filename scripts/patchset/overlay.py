# SPDX-License-Identifier: LGPL-3.0
"""The overlay: whole new files in src/, t/, doc/ and etc/ that are laid over flux-core's tree."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

TOPS = ("src", "t", "doc", "etc")
WHERE = f"{', '.join(TOPS)} (but doc/*.md and doc/rfc are the project's own)"
PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"


def blob_id(data: bytes) -> str:
    """Git's name for a file of these bytes (SHA-1, as flux-core's repository uses it)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True)
class Entry:
    """What git keeps of a file: mode (six octal digits) and bytes (of a link: its target)."""

    mode: str
    data: bytes


def belongs(path: str) -> bool:
    """True if a file of that path is overlay, and not a page about the project."""
    top, *rest = path.split("/")
    page = top == "doc" and (rest[0] == "rfc" or (len(rest) == 1 and path.endswith(".md")))
    return top in TOPS and not page


def listing(root: Path) -> set[str]:
    """Path of every overlay file under root, relative to it; no caches."""
    found = set()
    for top in TOPS:
        for folder, folders, files in os.walk(root / top):
            folders[:] = [n for n in folders if n != "__pycache__" and not n.startswith(".")]
            links = [name for name in folders if Path(folder, name).is_symlink()]
            found |= {Path(folder, name).relative_to(root).as_posix() for name in files + links}
    return {path for path in found if belongs(path)}


def read(path: Path) -> Entry:
    """Read one file. Raises OSError."""
    if path.is_symlink():
        return Entry(LINK, os.fsencode(os.readlink(path)))
    return Entry(EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN, path.read_bytes())


def write(path: Path, entry: Entry) -> bool:
    """Write one file, its folder too. True if that changed anything. Raises OSError."""
    if os.path.lexists(path):
        if read(path) == entry:
            return False
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode == LINK:
        path.symlink_to(os.fsdecode(entry.data))
    else:
        path.write_bytes(entry.data)
        if entry.mode == EXECUTABLE:
            path.chmod(path.stat().st_mode | 0o111)
    return True


def remove(root: Path, path: str) -> None:
    """Remove one file and each folder that this leaves empty, up to root."""
    here = root / path
    here.unlink()
    for folder in here.parents:
        if folder == root or any(folder.iterdir()):
            break
        folder.rmdir()
