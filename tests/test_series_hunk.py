# SPDX-License-Identifier: LGPL-3.0
"""Insertions, and the patch file that carries them."""

from __future__ import annotations

import itertools
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchset import hunk, overlay, patch
from patchset.hunk import Hunk
from patchset.patch import Hook, Patch
from patchset.refusal import Refusal
from series_clone import ENV

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"}\n"]), max_size=8)
RAW = st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"") + b"\n")


@st.composite
def edits(draw, lines=LINES, most=3):
    """An old text and a new one that has lines put in at up to `most` places."""
    old = draw(lines)
    places = draw(st.lists(st.tuples(st.integers(0, len(old)), lines), max_size=most))
    new = list(old)
    for after, put_in in sorted(places, key=lambda place: -place[0]):
        new[after:after] = put_in
    return old, new


def fewest(old: list[bytes], new: list[bytes]) -> int | None:
    """Least number of hunks, by trying every choice of the old lines in new."""
    best = None
    for kept in itertools.combinations(range(len(new)), len(old)):
        if [new[i] for i in kept] == old:
            runs = sum(i not in kept and (i == 0 or i - 1 in kept) for i in range(len(new)))
            best = runs if best is None else min(best, runs)
    return best


@given(edits())
def test_insertions_make_the_new_text(edit):
    old, new = edit
    assert hunk.insert(old, hunk.insertions(old, new)) == new


@given(edits(st.lists(st.sampled_from([b"a\n", b"}\n"]), max_size=5), 2))
@settings(max_examples=150, deadline=None)
def test_insertions_take_the_fewest_hunks(edit):
    old, new = edit
    if len(new) <= 12:
        assert len(hunk.insertions(old, new)) == fewest(old, new)


@given(LINES, LINES)
def test_insertions_are_refused_exactly_where_a_line_went(old, new):
    lost = fewest(old, new) is None
    assert (hunk.insertions(old, new) is None) == lost


def test_an_inserted_block_stays_in_one_piece():
    old = [b"}\n", b"}\n", b"end\n"]
    new = [b"foo {\n", b"}\n", b"}\n", b"}\n", b"end\n"]
    assert hunk.insertions(old, new) == [Hunk(0, (b"foo {\n", b"}\n"))]


def test_a_large_file_takes_no_time():
    old = [b"line %d\n" % (number % 97) for number in range(20000)]
    new = list(old)
    for after in range(19000, 0, -1000):
        new[after:after] = [b"hook\n"] * 50
    hunks = hunk.insertions(old, new)
    assert [one.after for one in hunks] == list(range(1000, 20000, 1000))


@given(edits(st.lists(RAW, max_size=6)), st.booleans())
def test_patch_text_reads_back(edit, cut):
    old, new = edit
    if cut and new and new[-1] != b"\n":
        new = [*new[:-1], new[-1][:-1]]
    hunks = hunk.insertions(old, new)
    if not hunks:
        return
    hook = Hook("src/a file.c", overlay.PLAIN, "0" * 40, "1" * 40, hunks)
    one = Patch("A B <a@b>", "Wed, 15 Nov 2023 00:43:20 +0130", "x: y\n", ["t/x"], [hook])
    data = patch.write(one)
    assert patch.read("p", data) == one
    assert patch.write(patch.read("p", data)) == data


@given(edits(st.lists(RAW, min_size=1, max_size=6)))
@settings(max_examples=40, deadline=None)
def test_git_apply_reads_it_the_same_way(tmp_path_factory, edit):
    old, new = edit
    hunks = hunk.insertions(old, new)
    if not hunks or any(b"\0" in line for line in new):
        return
    folder = tmp_path_factory.mktemp("apply")
    (folder / "f c").write_bytes(b"".join(old))
    ids = [overlay.blob_id(b"".join(lines)) for lines in (old, new)]
    one = Patch("A B <a@b>", "x", "x: y\n", [], [Hook("f c", overlay.PLAIN, *ids, hunks)])
    command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
    done = subprocess.run(
        command, cwd=folder, input=patch.write(one), env=ENV, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "f c").read_bytes() == b"".join(new)


GOOD = b"""SPDX-License-Identifier: LGPL-3.0
From: A B <a@b>
Date: Wed, 15 Nov 2023 00:43:20 +0130
Subject: [PATCH] x: y

body
---
overlay: src/new.c

diff --git a/src/a.c b/src/a.c
index 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111 100644
--- a/src/a.c
+++ b/src/a.c
@@ -3,0 +4,2 @@
+one
+two
@@ -9,0 +12 @@
+three
"""


def test_the_form_that_is_documented():
    one = patch.read("p", GOOD)
    assert one.message == "x: y\n\nbody\n" and one.overlay == ["src/new.c"]
    assert one.hooks[0].hunks == [Hunk(3, (b"one\n", b"two\n")), Hunk(9, (b"three\n",))]
    assert patch.write(one) == GOOD


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b"@@ -3,0 +4,2 @@", b"@@ -3,0 +4,2 @@ int main (void)", 14),
        (b"@@ -3,0 +4,2 @@", b"@@ -3,1 +4,2 @@", 14),
        (b"@@ -3,0 +4,2 @@", b"@@ -3,0 +5,2 @@", 14),
        (b"@@ -9,0 +12 @@", b"@@ -3,0 +6 @@", 17),
        (b"@@ -9,0 +12 @@", b"@@ -9,0 +12,2 @@", 17),
        (b"+two", b" two", 16),
        (b"+two", b"-two", 16),
        (b"+three\n", b"", 17),
        (b"+++ b/src/a.c", b"+++ b/src/b.c", 13),
        (b"b/src/a.c\nindex", b"b/src/b.c\nindex", 10),
        (b"000..1", b"0..1", 11),
        (b"100644", b"120000", 11),
        (b"overlay: src/new.c\n\n", b"overlay: src/new.c\nx\n", 9),
        (b"overlay: src/new.c", b"overlay: src/a.c", 19),
        (b"Date: Wed, 15", b"Date: some", 1),
        (b"Subject: [PATCH] ", b"Subject: ", 1),
        (b"From: A B <a@b>", b"From: A B", 1),
        (b"From: A B <a@b>", b"From A B", 2),
        (b"body", b"diff -u", 8),
        (b"body", b"\xff", 6),
        (b"---\n", b"", 18),
    ],
)
def test_a_fault_in_a_patch_is_named_with_its_line(old, new, line):
    with pytest.raises(Refusal) as caught:
        patch.read("0001-x.patch", GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"patches/0001-x.patch:{line}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        "\n",
        "[tag] x\n",
        "x: y",
        "x: y\nz\n",
        "x: y\n\n\nz\n",
        "x: y\n\nz\n\n",
        "x: y\n\nz\n---\nw\n",
        "x: y\n\nFrom: me\n",
        "x: y\n\nz\nFrom here on\n",
        "x: y\n\ndiff --git a/x b/x\n",
        "x: y\r\n",
    ],
)
def test_a_message_that_mail_would_change_is_refused(message):
    with pytest.raises(ValueError):
        patch.check_message(message)


@pytest.mark.parametrize(
    "message", ["x: y\n", "x: y\n\nz\n", "x: y\n\nz: 1\n\n  indented\n\nw --- v\n-- \nsig\n"]
)
def test_a_plain_message_is_taken(message):
    patch.check_message(message)
