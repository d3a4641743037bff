# SPDX-License-Identifier: LGPL-3.0
"""One patch: a commit message, the overlay files that the commit adds, insertions in others.

The form of its file is told at the head of scripts/series.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, parsedate_to_datetime

from . import hunk
from .hunk import Hunk
from .refusal import Refusal

SPDX = "SPDX-License-Identifier"
LICENCE = "LGPL-3.0"
PREFIX = "[PATCH] "
CUT = re.compile(r"---\s*$|--- |diff -|Index: |From ")
IN_BODY = re.compile(r"(From|Date|Subject):", re.IGNORECASE)
INDEX = re.compile(r"index ([0-9a-f]{40})\.\.([0-9a-f]{40}) (100644|100755)")


@dataclass(frozen=True)
class Hook:
    """Insertions in one of flux-core's files, and its blob id before and after."""

    path: str
    mode: str
    old: str
    new: str
    hunks: list[Hunk]


@dataclass(frozen=True)
class Patch:
    """A commit of the series. date: RFC 5322, second resolution; message: ends in a line feed."""

    author: str
    date: str
    message: str
    overlay: list[str]
    hooks: list[Hook]

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.message.split("\n", 1)[0]

    def name(self, number: int) -> str:
        """File name: number (from 1) and subject, as git format-patch makes it."""
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", self.subject).strip("-.")
        return f"{number:04d}-{slug[:52].rstrip('-.')}.patch"

    def paths(self) -> list[str]:
        """Every file that the commit adds or changes."""
        return self.overlay + [hook.path for hook in self.hooks]


def mail_date(seconds: int, zone: str) -> str:
    """Date header from git's author time (seconds since 1970 UTC, zone as +HHMM)."""
    offset = datetime.strptime(zone, "%z").utcoffset()
    return format_datetime(datetime.fromtimestamp(seconds, timezone(offset or timedelta())))


def git_date(date: str) -> str:
    """Git's raw form of a Date header. Raises ValueError."""
    try:
        when = parsedate_to_datetime(date)
    except TypeError as exc:  # what Python 3.9 raises for text that is no date
        raise ValueError(f"no date: {date}") from exc
    when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return f"@{int(when.timestamp())} {when:%z}"


def check_message(message: str) -> None:
    """Raise ValueError for a message that a mail can't carry to git am unchanged."""
    subject, _, body = message.partition("\n")
    if not subject.strip() or subject.startswith("["):
        raise ValueError("first line is empty or starts with [")
    if body and not body.startswith("\n"):
        raise ValueError("second line is not empty")
    lines = message.split("\n")
    if lines[-1] or lines[-2] != lines[-2].rstrip() or not lines[-2] or "\r" in message:
        raise ValueError("does not end in one plain line feed")
    if len(lines) > 3 and not lines[2].strip():
        raise ValueError("third line is empty")
    if len(lines) > 3 and IN_BODY.match(lines[2]):
        raise ValueError(f"body starts like a mail header: {lines[2]}")
    for line in lines[2:]:
        if CUT.match(line):
            raise ValueError(f"git am would cut it at the line: {line}")


def check_path(path: str) -> None:
    """Raise ValueError for a path that a patch has to quote."""
    if re.search(r'[\x00-\x1f\x7f"\\]', path):
        raise ValueError(f"name needs quotes in a patch: {path!r}")


def header(patch: Patch) -> str:
    """From, Date and Subject of the mail."""
    return f"From: {patch.author}\nDate: {patch.date}\nSubject: {PREFIX}{patch.subject}\n"


def body(patch: Patch) -> str:
    """Blank line, message below its subject, and the line that ends it."""
    rest = patch.message.split("\n", 1)[1].lstrip("\n")
    return f"\n{rest}---\n"


def write(patch: Patch) -> bytes:
    """The patch as the bytes of its file."""
    text = f"{SPDX}: {LICENCE}\n{header(patch)}{body(patch)}"
    text += "".join(f"overlay: {path}\n" for path in patch.overlay)
    out = [text.encode()]
    if patch.hooks:
        out.append(b"\n")
    for hook in patch.hooks:
        tab = "\t" if " " in hook.path else ""  # git marks the end of a name with spaces so
        out.append(
            f"diff --git a/{hook.path} b/{hook.path}\n"
            f"index {hook.old}..{hook.new} {hook.mode}\n"
            f"--- a/{hook.path}{tab}\n+++ b/{hook.path}{tab}\n".encode()
        )
        out.append(hunk.write(hook.hunks))
    return b"".join(out)


class Reader:
    """Reads the lines of one patch file; every fault is refused with its line number."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.lines = hunk.split(data)
        self.at = 0

    def fault(self, text: str) -> Refusal:
        """The refusal for the line at hand."""
        return Refusal(f"patches/{self.name}:{self.at + 1}: {text}: see the head of scripts/series")

    def peek(self) -> str:
        """The line at hand without its line feed; "" past the end."""
        try:
            return self.lines[self.at].decode().rstrip("\n") if self.at < len(self.lines) else ""
        except UnicodeDecodeError as exc:
            raise self.fault("not UTF-8") from exc

    def take(self) -> str:
        """The line at hand; goes on to the next one."""
        if self.at >= len(self.lines):
            raise self.fault("file is cut short")
        line = self.peek()
        self.at += 1
        return line

    def headers(self) -> dict[str, str]:
        """Mail headers up to the blank line."""
        found: dict[str, str] = {}
        while True:
            line = self.take()
            if not line:
                return found
            key, colon, value = line.partition(": ")
            if not colon or key in found:
                self.at -= 1
                raise self.fault("not a mail header, or there twice")
            found[key] = value

    def text(self) -> str:
        """Message body up to the line of three dashes."""
        lines = []
        while (line := self.take()) != "---":
            lines.append(line + "\n")
        return "".join(lines)

    def overlay(self) -> list[str]:
        """Paths of the overlay files."""
        paths = []
        while self.peek().startswith("overlay: "):
            paths.append(self.take()[len("overlay: ") :])
        return paths

    def hook(self) -> Hook:
        """One file's insertions."""
        path = self.peek()[len("diff --git a/") :]
        path = path[: len(path) // 2 - 1]
        if self.peek() != f"diff --git a/{path} b/{path}" or not path:
            raise self.fault("expected: diff --git a/FILE b/FILE")
        self.at += 1
        index = INDEX.fullmatch(self.peek())
        if not index:
            raise self.fault("expected: index OLD..NEW MODE with full blob ids")
        self.at += 1
        for want in (f"--- a/{path}", f"+++ b/{path}"):
            if self.peek().rstrip("\t") != want:
                raise self.fault(f"expected: {want}")
            self.at += 1
        try:
            hunks, self.at = hunk.read(self.lines, self.at)
        except ValueError as exc:
            text, self.at = exc.args
            raise self.fault(text) from exc
        if not hunks:
            raise self.fault(f"no hunk for {path}")
        return Hook(path, index[3], index[1], index[2], hunks)


def read(name: str, data: bytes) -> Patch:
    """Read a patch file. Raises Refusal that names file, line and fault."""
    reader = Reader(name, data)
    head = reader.headers()
    below, reader.at = reader.at, 0
    subject = head.get("Subject", "")
    if not {"From", "Date"} <= head.keys() or not subject.startswith(PREFIX):
        raise reader.fault(f"needs From:, Date: and Subject: {PREFIX}...")
    try:
        git_date(head["Date"])
        split_author(head["From"])
    except ValueError as exc:
        raise reader.fault(str(exc)) from exc
    reader.at = below
    text = reader.text()
    message = subject[len(PREFIX) :] + "\n" + (f"\n{text}" if text else "")
    try:
        check_message(message)
    except ValueError as exc:
        raise reader.fault(f"commit message: {exc}") from exc
    overlay = reader.overlay()
    hooks = []
    if reader.at < len(reader.lines):
        if reader.take():
            reader.at -= 1
            raise reader.fault("expected an overlay line or a blank one")
        while reader.at < len(reader.lines):
            hooks.append(reader.hook())
    patch = Patch(head["From"], head["Date"], message, overlay, hooks)
    if not patch.paths() or len(set(patch.paths())) < len(patch.paths()):
        raise reader.fault("names no file, or one twice")
    return patch


def split_author(author: str) -> tuple[str, str]:
    """Name and address of `Name <address>`. Raises ValueError."""
    found = re.fullmatch(r"([^<>\n]+) <([^<>\s]+)>", author)
    if not found:
        raise ValueError(f"not of the form Name <address>: {author}")
    return found[1], found[2]
