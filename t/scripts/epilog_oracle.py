# SPDX-License-Identifier: LGPL-3.0
"""What the ledger should answer, said once more in plain Python sets.

Written from epilog.h and RFC 22, not from epilog.c, with no thought for speed: nothing
is kept up to date, every answer is worked out from who holds what and what has gone.
The methods are those of epilog_replay.ledger.Ledger, so that a test can make one call
on both.
"""

import errno
import re
from typing import FrozenSet, Iterable, List, Optional, Set, Tuple

ACTIONS_MAX = 255

_NUMBER = r"(?:0|[1-9][0-9]*)"
_LIST = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?(?:,{_NUMBER}(?:-{_NUMBER})?)*")


class RefusedError(Exception):
    """A call that changes nothing; ``errnos`` are those that it may fail with.

    There is more than one where several things are wrong: no order of looking is
    promised.
    """

    def __init__(self, errnos: Iterable[int]) -> None:
        self.errnos = frozenset(errnos)
        names = [errno.errorcode[number] for number in sorted(self.errnos)]
        super().__init__(" or ".join(names))


def parse_idset(text: str) -> List[Tuple[int, int]]:
    """Return the ranges of an RFC 22 text: (first, last). ValueError if it is none."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if text == "":
        return []
    if not _LIST.fullmatch(text):
        raise ValueError(text)
    ranges = []
    for item in text.split(","):
        first, hyphen, last = item.partition("-")
        ranges.append((int(first), int(last or first)))
        if hyphen and int(last) <= int(first):
            raise ValueError(text)
    for (_, before), (after, _) in zip(ranges, ranges[1:]):
        if after <= before:
            raise ValueError(text)
    return ranges


def encode_idset(ids: Iterable[int]) -> str:
    """Return the shortest RFC 22 text of a set."""
    runs: List[List[int]] = []
    for rank in sorted(ids):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(f"{lo}-{hi}" if hi > lo else f"{lo}" for lo, hi in runs)


class OracleAction:
    """An outstanding action: ranks that it holds, and those that it let go of."""

    def __init__(self, description: str, t_start: float, held: Set[int]) -> None:
        self.description = description
        self.t_start = t_start
        self.held = held
        self.released: Set[int] = set()


class Oracle:
    """The ledger of a job with ``ranks`` (RFC 22 text; None or "" if it has none)."""

    def __init__(self, ranks: Optional[str]) -> None:
        self.rank_set: FrozenSet[int] = frozenset(
            rank
            for first, last in parse_idset(ranks or "")
            for rank in range(first, last + 1)
        )
        self.gone_set: Set[int] = set()
        self.outstanding: List[OracleAction] = []
        self.prolog_count = 0
        self.keep_last = False

    # Reading ranks

    def decode_set(self, ranks: str) -> Set[int]:
        """Return the ranks of the job that a text names. RefusedError if it is bad."""
        try:
            ranges = parse_idset(ranks)
        except ValueError:
            raise RefusedError([errno.EINVAL]) from None
        if sum(last - first + 1 for first, last in ranges) > len(self.rank_set):
            raise RefusedError([errno.EINVAL])
        ids = {rank for first, last in ranges for rank in range(first, last + 1)}
        if not ids <= self.rank_set:
            raise RefusedError([errno.EINVAL])
        return ids

    def decode(self, ranks: str) -> str:
        """Return the shortest form of a text that names ranks of the job."""
        return encode_idset(self.decode_set(ranks))

    # What a call would do

    def _start(self, ranks: Optional[str]) -> Set[int]:
        """Return what a start with these ranks holds."""
        errnos = set()
        held = set(self.rank_set - self.gone_set)
        if ranks is not None:
            try:
                held = self.decode_set(ranks)
            except RefusedError:
                errnos.add(errno.EINVAL)
            if held & self.gone_set:
                errnos.add(errno.EINVAL)
        if len(self.outstanding) >= ACTIONS_MAX:
            errnos.add(errno.EOVERFLOW)
        if errnos:
            raise RefusedError(errnos)
        return held

    def _oldest(self, description: Optional[str]) -> Optional[OracleAction]:
        for action in self.outstanding:
            if action.description == description:
                return action
        return None

    def _release(
        self, description: str, ranks: Optional[str]
    ) -> Tuple[OracleAction, Set[int]]:
        """Return the action meant, and which of the ranks it holds."""
        errnos = set()
        named = set(self.rank_set)
        if ranks is not None:
            try:
                named = self.decode_set(ranks)
                if not named:
                    errnos.add(errno.EINVAL)
            except RefusedError:
                errnos.add(errno.EINVAL)
        action = self._oldest(description)
        if not action:
            errnos.add(errno.ENOENT)
        if errnos:
            raise RefusedError(errnos)
        assert action
        return action, action.held & named

    def _finish(self, description: Optional[str]) -> Tuple[OracleAction, Optional[str]]:
        """Return the action that ends, and its description if another was given."""
        action = self._oldest(description)
        if action:
            return action, None
        if len(self.outstanding) == 1:
            return self.outstanding[0], self.outstanding[0].description
        raise RefusedError([errno.ENOENT])

    # The calls

    def start(
        self, description: str, ranks: Optional[str], t_start: float = 0.0
    ) -> None:
        """An action starts."""
        self.outstanding.append(OracleAction(description, t_start, self._start(ranks)))

    def start_check(self, description: str, ranks: Optional[str]) -> None:
        """Refuse what start() refuses."""
        self._start(ranks)

    def release(self, description: str, ranks: Optional[str]) -> None:
        """An action lets go of ranks and goes on."""
        action, dropped = self._release(description, ranks)
        action.held -= dropped
        action.released |= dropped

    def release_check(self, description: str, ranks: Optional[str]) -> None:
        """Refuse what release() refuses."""
        self._release(description, ranks)

    def finish(self, description: Optional[str]) -> Optional[str]:
        """An action ends; return its description if that isn't the one given."""
        action, other = self._finish(description)
        self.outstanding.remove(action)
        return other

    def finish_check(self, description: Optional[str]) -> Optional[str]:
        """Refuse or return what finish() does."""
        return self._finish(description)[1]

    def prolog_start(self) -> None:
        """A prolog starts."""
        self.prolog_count += 1

    def prolog_finish(self) -> None:
        """A prolog ends, if one was outstanding."""
        self.prolog_count = max(0, self.prolog_count - 1)

    def set_keep_last(self, keep: bool) -> None:
        """Switch the last-free rule."""
        self.keep_last = keep

    def gone(self, ranks: str) -> None:
        """Ranks that are ready have been handed over."""
        ids = self.decode_set(ranks)
        if not ids <= self.ready_set():
            raise RefusedError([errno.EINVAL])
        self.gone_set |= ids

    def restore_gone(self, ranks: Optional[str]) -> None:
        """A record says that ranks were handed over; that is no action's doing."""
        ids = set(self.rank_set) if ranks is None else self.decode_set(ranks)
        self.gone_set |= ids
        for action in self.outstanding:
            action.held -= ids

    # Queries

    def held_set(self) -> Set[int]:
        """Ranks that some action holds."""
        return set().union(*(action.held for action in self.outstanding))

    def free_set(self) -> Set[int]:
        """Ranks that nothing holds and that have not gone."""
        return set(self.rank_set - self.gone_set - self.held_set())

    @property
    def kept(self) -> Optional[int]:
        """The lowest of the last ranks, while an action is outstanding."""
        free = self.free_set()
        if self.keep_last and self.outstanding and free and not self.held_set():
            return min(free)
        return None

    def ready_set(self) -> Set[int]:
        """Ranks that may go now."""
        return set() if self.prolog_count else self.free_set() - {self.kept}

    def ready(self) -> str:
        """Ranks that may go now, as text."""
        return encode_idset(self.ready_set())

    @property
    def ranks(self) -> str:
        """The job's ranks."""
        return encode_idset(self.rank_set)

    @property
    def handed_over(self) -> str:
        """Ranks that have gone."""
        return encode_idset(self.gone_set)

    @property
    def all_gone(self) -> bool:
        """Whether no rank is left."""
        return self.gone_set == self.rank_set

    def actions(self) -> List[Tuple[str, float, str, str]]:
        """Outstanding actions, oldest first: description, t_start, held, released."""
        return [
            (
                action.description,
                action.t_start,
                encode_idset(action.held),
                encode_idset(action.released),
            )
            for action in self.outstanding
        ]

    def hold_count(self, rank: int) -> int:
        """How many actions hold the rank."""
        return sum(rank in action.held for action in self.outstanding)
