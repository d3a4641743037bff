# SPDX-License-Identifier: LGPL-3.0
"""R, the resource set of a job (RFC 20 version 1): its ranks and their hosts."""

import re
from functools import lru_cache
from typing import Any, List, Optional

import msgspec

from epilog_replay import hostlist, idset


class RError(ValueError):
    """An R without usable ranks; the message says where and why."""


class ResourceSet:
    """The ranks that a job was given.

    ``ranks`` is RFC 22 text, ``mask`` the same as bits, ``nranks`` their number. ``nodelist`` is
    R's, None if it can't be used. ``faults`` are texts on what is wrong with R though its ranks
    can be used.
    """

    __slots__ = ("ranks", "mask", "nranks", "faults", "_nodelist")

    def __init__(self, mask: int, nodelist: Optional[List[str]], faults: List[str]):
        self.mask = mask
        self.ranks = idset.encode(mask)
        self.nranks = idset.count(mask)
        self.faults = faults
        self._nodelist = nodelist

    def hosts(self) -> List[str]:
        """Return the host of each rank, in rank order; [] if unknown."""
        return [host for text in self._nodelist or () for host in hostlist.decode(text)]


def _entry(index: int, entry: Any, faults: List[str]) -> int:
    """Return the ranks of one R_lite entry as a mask. Raises RError."""
    where = f"execution.R_lite[{index}]"
    if not isinstance(entry, dict):
        raise RError(f"{where} is not an object")
    if "rank" not in entry:
        raise RError(f"{where} has no rank")
    if not isinstance(entry["rank"], str):
        raise RError(f"{where}.rank is {entry['rank']!r:.32}, not a string")
    try:
        mask = idset.decode(entry["rank"])
    except idset.IdsetError as exc:
        raise RError(f"{where}.rank: {exc}") from None
    children = entry.get("children")
    if not isinstance(children, dict):
        faults.append(f"{where} has no children")
        return mask
    for name in ("core", "gpu"):
        ids = children.get(name, "")
        try:
            if not isinstance(ids, str):
                raise idset.IdsetError(f"{ids!r:.32} is not a string")
            idset.parse(ids)
        except idset.IdsetError as exc:
            faults.append(f"{where}.children.{name}: {exc}")
    return mask


def _nodelist(execution: dict, nranks: int, faults: List[str]) -> Optional[List[str]]:
    """Return the nodelist if it names one host per rank, else None with a text in ``faults``."""
    nodelist = execution.get("nodelist")
    if nodelist is None:
        faults.append("execution.nodelist is missing: host names are unknown")
        return None
    if not isinstance(nodelist, list) or not all(isinstance(n, str) for n in nodelist):
        faults.append("execution.nodelist is not a list of strings: host names are unknown")
        return None
    try:
        nhosts = sum(hostlist.count(text) for text in nodelist)
    except hostlist.HostlistError as exc:
        faults.append(f"execution.nodelist: {exc}: host names are unknown")
        return None
    if nhosts != nranks:
        faults.append(f"execution.nodelist names {nhosts} hosts for {nranks} ranks")
        return None
    return nodelist


def parse(data: bytes) -> ResourceSet:
    """Return the resource set of RFC 20 text. Raises RError if its ranks can't be used."""
    try:
        R = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise RError(f"not JSON: {exc}") from None
    if not isinstance(R, dict):
        raise RError("not an object")
    if "version" not in R or "execution" not in R:
        raise RError("no version or no execution key: not an R (RFC 20)")
    if R["version"] != 1 or isinstance(R["version"], bool):
        raise RError(f"version {R['version']!r:.32} is unknown: 1 is wanted")
    execution = R["execution"]
    entries = execution.get("R_lite") if isinstance(execution, dict) else None
    if not isinstance(entries, list):
        raise RError("execution.R_lite is not a list")
    faults: List[str] = []
    ranks = 0
    for index, entry in enumerate(entries):
        mask = _entry(index, entry, faults)
        if ranks & mask:
            twice = idset.encode(ranks & mask)
            faults.append(f"execution.R_lite[{index}].rank: {twice} stands in two entries")
        ranks |= mask
    if not ranks:
        raise RError("execution.R_lite names no rank")
    nodelist = _nodelist(execution, idset.count(ranks), faults)
    return ResourceSet(ranks, nodelist, faults)


def from_ranks(text: str) -> ResourceSet:
    """Return the resource set of an RFC 22 idset, without hosts. Raises IdsetError."""
    mask = idset.decode(text)
    if not mask:
        raise idset.IdsetError("the set is empty")
    return ResourceSet(mask, None, [])


_SUMMARY = re.compile(r"(?:^|\s)rank(\[[^\]]*\]|[0-9]+)/")


def from_annotation(context: Optional[dict]) -> Optional[ResourceSet]:
    """Return the ranks of an alloc event's ``sched.resource_summary``, or None if it has none.

    sched-simple writes ``rank[0-3]/core[0-1]``, blank between parts of different shape.
    """
    annotations = (context or {}).get("annotations")
    if not isinstance(annotations, dict):
        return None
    sched = annotations.get("sched")
    summary = sched.get("resource_summary") if isinstance(sched, dict) else None
    if not isinstance(summary, str):
        summary = annotations.get("sched.resource_summary")
    return _from_summary(summary) if isinstance(summary, str) else None


@lru_cache(maxsize=256)  # of thousands of logs, many have the same
def _from_summary(summary: str) -> Optional[ResourceSet]:
    mask = 0
    try:
        for text in _SUMMARY.findall(summary):
            mask |= idset.decode(text)
    except idset.IdsetError:
        return None
    return ResourceSet(mask, None, []) if mask else None
