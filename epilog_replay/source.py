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
    """A log to read.

    ``path`` is as given ("-" is standard input), ``R_path`` where its R would be, ``jobid`` the
    job's id if the name of the file, or of its folder in a dump, is one. ``trouble`` says why it
    can't be read, if that is known already.
    """

    path: str
    R_path: Optional[str] = None
    jobid: Optional[str] = None
    trouble: Optional[str] = None


class SourceError(Exception):
    """A file that can't be had; the message says why."""


def of_file(folder: str, name: str) -> Source:
    """Return the log ``name`` in ``folder`` ("" is the current one).

    The R of NAME.eventlog, NAME.eventlog.gz or NAME.anything is NAME.R.json, that of eventlog
    (in a dump of the KVS) is R.
    """
    start = f"{folder}/" if folder and folder != "/" else folder
    if name in ("eventlog", "eventlog.gz"):
        stem = folder.rpartition("/")[2]
        R_path = f"{start}R"
    else:
        base = name[:-3] if name.endswith(".gz") else name
        stem = base.rpartition(".")[0] or base
        R_path = f"{start}{stem}.R.json"
    is_id = stem[:1] in _JOBID_FIRST and _JOBID.fullmatch(stem)
    return Source(f"{start}{name}", R_path, stem if is_id else None)


def _in_folder(folder: str) -> Iterator[Source]:
    """Give the logs in a folder, then those in folders in it, by name."""
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
        yield Source(folder, trouble=exc.strerror or str(exc))
    logs.sort()
    for name in logs:
        yield of_file(folder, name)
    for name in sorted(folders):
        yield from _in_folder(f"{folder}/{name}")


def expand(paths: List[str]) -> Iterator[Source]:
    """Give each log that the arguments name. A folder without any is trouble, not silence."""
    for path in paths:
        if path == "-":
            yield Source(path)
        elif not os.path.isdir(path):
            folder, slash, name = path.rpartition("/")
            yield of_file(folder or slash, name)
        else:
            found = False
            for source in _in_folder(path.rstrip("/") or "/"):
                found = True
                yield source
            if not found:
                trouble = "no *.eventlog or *.gz in this folder: name the files"
                yield Source(path, trouble=trouble)


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
    except OSError as exc:
        raise SourceError(exc.strerror or str(exc)) from None
    if len(data) > limit:
        raise SourceError(f"over {limit >> 20} MiB")
    if data[:2] == b"\x1f\x8b":
        return _unzip(data)
    return data, False
