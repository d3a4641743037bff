# SPDX-License-Identifier: LGPL-3.0
"""Where logs come from: files, folders of them, .gz, standard input; and R beside them."""

import os
import re
import sys
import zlib
from typing import Iterator, List, NamedTuple, Optional, Tuple

LOG_MAX = 1 << 28  # bytes of one log, unpacked
R_MAX = 1 << 28  # bytes of one R
BLOCK = 1 << 16  # bytes to read at a time

_LOG_NAMES = (".eventlog", ".gz")
_JOBID_FIRST = frozenset("0123456789ƒj")
_JOBID = re.compile(r"[0-9]+|ƒ[1-9A-HJ-NP-Za-km-z]+|job(?:\.[0-9a-f]{4}){4}")


class Source(NamedTuple):
    """A log to read: its path as given ("-" is standard input), and where its R would be."""

    path: str
    R_path: Optional[str]


class SourceError(Exception):
    """A file that can't be had; the message says why."""


class Missing(SourceError):
    """There is no such file."""


def _stem(name: str) -> str:
    """Return the NAME of NAME.eventlog, NAME.eventlog.gz or NAME.anything."""
    if name.endswith(".gz"):
        name = name[:-3]
    stem, dot, _ = name.rpartition(".")
    return stem if dot and stem else name


def _beside(folder: str, name: str) -> str:
    """Return where the R of a log would stand: NAME.R.json, or in a dump R beside eventlog."""
    other = "R" if name in ("eventlog", "eventlog.gz") else _stem(name) + ".R.json"
    return f"{folder}/{other}" if folder else other


def _in_folder(folder: str) -> Iterator[Source]:
    """Give the logs in a folder and below, by name. Raises SourceError if it can't be read."""
    folders: List[str] = []
    logs: List[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif name.endswith(_LOG_NAMES) or name == "eventlog":
                    logs.append(name)
    except OSError as exc:
        raise SourceError(f"{folder}: {exc.strerror or exc}") from None
    logs.sort()
    for name in logs:
        yield Source(f"{folder}/{name}", _beside(folder, name))
    for name in sorted(folders):
        yield from _in_folder(f"{folder}/{name}")


def expand(paths: List[str]) -> Iterator[Tuple[Source, Optional[str]]]:
    """Give each log that the arguments name, with None or a text on why it can't be read."""
    for path in paths:
        if path == "-":
            yield Source(path, None), None
        elif not os.path.isdir(path):
            folder, slash, name = path.rpartition("/")
            yield Source(path, _beside(folder or slash, name)), None
        else:
            yield from _folder(path)


def _folder(path: str) -> Iterator[Tuple[Source, Optional[str]]]:
    """Give each log in a folder; a folder without any is an error, not an empty answer."""
    folder = path.rstrip("/") or "/"
    found = False
    try:
        for source in _in_folder(folder):
            found = True
            yield source, None
    except SourceError as exc:
        yield Source(path, None), str(exc)
        return
    if not found:
        yield Source(path, None), "no *.eventlog or *.gz in this folder: name the files"


def jobid(path: str) -> Optional[str]:
    """Return the job's id if the name of the file, or of its folder in a dump, is one."""
    folder, _, name = path.rpartition("/")
    if name in ("eventlog", "eventlog.gz"):
        name = folder.rpartition("/")[2]
    else:
        name = _stem(name)
    return name if name[:1] in _JOBID_FIRST and _JOBID.fullmatch(name) else None


def _unzip(data: bytes) -> Tuple[bytes, bool]:
    """Return what a .gz holds, and whether it is cut off. Raises SourceError."""
    parts: List[bytes] = []
    size = 0
    while data:
        unzip = zlib.decompressobj(wbits=31)
        try:
            part = unzip.decompress(data, LOG_MAX - size + 1)
        except zlib.error as exc:
            if parts:  # junk after a whole member
                return b"".join(parts), True
            raise SourceError(f"not a good .gz: {exc}") from None
        parts.append(part)
        size += len(part)
        if size > LOG_MAX:
            raise SourceError(f"over {LOG_MAX >> 20} MiB when unpacked")
        if not unzip.eof:
            return b"".join(parts), True
        data = unzip.unused_data.lstrip(b"\0")
    return b"".join(parts), False


def _rest(fd: int, parts: List[bytes], limit: int) -> bytes:
    """Return ``parts`` and what follows, but not much more than ``limit`` bytes."""
    size = sum(map(len, parts))
    while size <= limit:
        more = os.read(fd, BLOCK)
        if not more:
            break
        parts.append(more)
        size += len(more)
    return b"".join(parts)


def read(path: str, limit: int = LOG_MAX) -> Tuple[bytes, bool]:
    """Return the bytes of a file, unpacked if it is a .gz, and whether the .gz is cut off.

    Raises SourceError.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            fd = os.open(path, os.O_RDONLY)
            try:
                data = os.read(fd, BLOCK)
                more = os.read(fd, BLOCK) if data else b""
                if more:
                    data = _rest(fd, [data, more], limit)
            finally:
                os.close(fd)
    except FileNotFoundError as exc:
        raise Missing(exc.strerror or str(exc)) from None
    except OSError as exc:
        raise SourceError(exc.strerror or str(exc)) from None
    if len(data) > limit:
        raise SourceError(f"over {limit >> 20} MiB")
    if data[:2] == b"\x1f\x8b":
        return _unzip(data)
    return data, False
