# SPDX-License-Identifier: LGPL-3.0
"""R (RFC 20), its hosts (RFC 29), and masks of ranks (RFC 22)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epilog_replay import hostlist, idset, rset
from epilog_replay.ledger import Ledger, LedgerError
from replay_log import RUNNING, exception, job_of, write


def R(*ranks, nodelist=("n[0-9]",), **execution):
    """Return R text with an R_lite entry per idset."""
    lite = [{"rank": text, "children": {"core": "0"}} for text in ranks]
    body = {"R_lite": lite, "nodelist": list(nodelist), **execution}
    return json.dumps({"version": 1, "execution": body}).encode()


def test_ranks_of_all_entries_and_hosts_in_rank_order():
    found = rset.parse(R("7", "0-2", nodelist=["a[3,1]", "b,c"]))
    assert (found.ranks, found.nranks, found.faults) == ("0-2,7", 4, [])
    assert found.hosts() == ["a3", "a1", "b", "c"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "no version"),
        (b'{"version":2,"execution":{}}', "version 2"),
        (b'{"version":true,"execution":{}}', "version True"),
        (b'{"version":1,"execution":[]}', "not a list"),
        (b'{"version":1,"execution":{"R_lite":[]}}', "no rank"),
        (b'{"version":1,"execution":{"R_lite":[5]}}', r"R_lite\[0\] is not"),
        (R(""), "names no rank"),
        (R("0", "x"), r"R_lite\[1\].rank"),
        (R("0-4294967294"), "over"),
        (R("16777216"), "over 16777215"),
        (b"[" * 100000, "not JSON"),
    ],
)
def test_R_without_usable_ranks(data, why):
    with pytest.raises(rset.RError, match=why):
        rset.parse(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (R("0-9", nodelist=["n[0-8]"]), "9 hosts for 10"),
        (R("0-9", nodelist=["n[0-"]), "not a hostlist"),
        (R("0-9", nodelist=["n[0-4294967295]"]), "bad range"),
        (R("0-9", "5"), "two entries"),
    ],
)
def test_R_with_faults_is_used(data, why):
    found = rset.parse(data)
    assert (found.ranks, len(found.faults)) == ("0-9", 1)
    assert why in found.faults[0]


def test_host_of_a_lost_node_leads_to_its_rank():
    job = job_of(b"")
    job = type(job)("log", rset.parse(R("4-7", nodelist=["n[9,8,7,6]"])))
    from epilog_replay import event, replay

    steps = [*RUNNING, exception(20, "node-failure", 2, "node failure on n7")]
    replay.replay(job, *event.read(write(steps), job.warn))
    assert (job.lost_text(), job.warnings) == ("6", [])


# Hostlists: the examples of RFC 29, and more


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("foox,fooy,fooz", ["foox", "fooy", "fooz"]),
        ("[1-3,5-6]", ["1", "2", "3", "5", "6"]),
        ("foo[0-2]-eth2", ["foo0-eth2", "foo1-eth2", "foo2-eth2"]),
        ("foo1,foo1", ["foo1", "foo1"]),
        ("[00-02]", ["00", "01", "02"]),
        ("[00-2]", ["00", "01", "02"]),
        ("foo[1,1,2,1]", ["foo1", "foo1", "foo2", "foo1"]),
        ("r[1-2]n[8,10]", ["r1n8", "r1n10", "r2n8", "r2n10"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
    ],
)
def test_hostlist(text, hosts):
    assert hostlist.decode(text) == hosts
    assert hostlist.count(text) == len(hosts)


@pytest.mark.parametrize(
    "text",
    ["a,", ",a", "a,,b", "a[", "a]", "a[]", "a[1-]", "a[2-1]", "a b", "a[x]", "a[0-99999999]"],
)
def test_hostlist_that_is_none(text):
    for read in (hostlist.decode, hostlist.count):
        with pytest.raises(hostlist.HostlistError):
            read(text)


# Masks


@given(st.sets(st.integers(0, 3000), max_size=300))
def test_mask_and_text_are_the_same_set(ids):
    mask = sum(1 << i for i in ids)
    text = idset.encode(mask)
    assert idset.decode(text) == mask
    assert idset.ids(mask) == sorted(ids)
    assert idset.count(mask) == idset._count(mask) == len(ids)
    assert text == Ledger(text).ranks


ITEM = st.sampled_from("0 1 2 3-5 5-3 4-4 01 - a ７ [ 9".split() + ["", " 1"])
TEXT = st.one_of(
    st.lists(ITEM, max_size=5).map(",".join),
    st.lists(ITEM, max_size=4).map(lambda items: f"[{','.join(items)}]"),
    st.text(alphabet="0123456789,-[] ", max_size=8),
)


@given(TEXT)
def test_text_is_read_as_the_ledger_reads_it(text):
    ledger = Ledger("0-99999999" if len(text) > 90 else "0-9")
    try:
        expected = ledger.decode(text)
    except LedgerError:
        expected = None
    try:
        mask = idset.decode(text)
        found = None if mask >> 10 else idset.encode(mask)
    except idset.IdsetError:
        found = None
    assert found == expected


def test_long_idsets_cost_what_they_are_long():
    text = ",".join(str(i) for i in range(0, 400000, 2))
    assert idset.encode(idset.decode(text)) == text
    assert idset.parse("0-2147483647") == ((0, 2147483647),)
    with pytest.raises(idset.IdsetError):
        idset.parse("0-2147483648")
