# SPDX-License-Identifier: LGPL-3.0
"""Mail patches with full context, for git am, quilt and RPM. They hold flux-core's text."""

from __future__ import annotations

from pathlib import Path

from . import patch
from .commits import Builder, find_start
from .refusal import Refusal
from .repo import Repo
from .series import Series

MAIL = "From {id} Mon Sep 17 00:00:00 2001\n"
MIME = (
    "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
)
DIFF = (
    *(
        "diff-tree",
        "-p",
        "--unified=3",
        "--full-index",
        "--binary",
        "--no-renames",
        "--no-ext-diff",
    ),
    *(
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--diff-algorithm=myers",
    ),
)


def check_out(out: Path, root: Path) -> None:
    """Refuse a folder inside the project (its files may hold no text of flux-core's) or in use."""
    real = out.resolve()
    if real == root.resolve() or root.resolve() in real.parents:
        raise Refusal(
            f"{out}: inside {root}, whose files may not hold flux-core's text: choose another"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refusal(f"{out}: there, and not an empty folder: remove it or choose another")


def check_mailable(series: Series) -> None:
    """Refuse overlay text that a mail can't carry: git am drops carriage returns at line ends."""
    for path, entry in series.entries.items():
        if b"\r\n" in entry.data and b"\0" not in entry.data:
            raise Refusal(
                f"{path}: lines end in carriage returns, which git am drops: convert them"
            )


def export(repo: Repo, series: Series, out: Path) -> list[str]:
    """Write the mails, quilt's series and epilog.spec.inc into out; the names of the mails."""
    check_out(out, series.root)
    check_mailable(series)
    mails = {}
    with repo.scratch() as scratch:
        before = find_start(repo, series)
        for number, (one, commit) in enumerate(
            zip(series.patches, Builder(scratch, series).build(before)), 1
        ):
            text = MAIL.format(id="0" * 40) + patch.header(one) + MIME + patch.body(one) + "\n"
            diff = scratch.git(*DIFF, before, commit)
            mails[one.name(number)] = text.encode() + diff
            before = commit
    out.mkdir(parents=True, exist_ok=True)
    for name, data in mails.items():
        (out / name).write_bytes(data)
    (out / "series").write_text("".join(f"{name}\n" for name in mails))
    spec = (f"Patch{number:04d}: {name}\n" for number, name in enumerate(mails, 1))
    (out / "epilog.spec.inc").write_text("".join(spec))
    return list(mails)
