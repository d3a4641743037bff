# SPDX-License-Identifier: LGPL-3.0
"""The ledger of one job: which epilog action holds which rank, what may go, what has gone.

A thin cover over src/modules/job-manager/epilog.h, where each call's meaning is said. Ranks are
RFC 22 text, both ways; None means all of the job's ranks.
"""

import errno as errno_names
import os
from typing import NamedTuple, Optional

from epilog_replay._ledger import ffi, lib

# JSON may hold half of a surrogate pair; it is carried through rather than refused.
_SURROGATES = "surrogatepass"


class LedgerError(OSError):
    """A call that the ledger refused; nothing has changed.

    ``errno`` is EINVAL, ENOENT, EOVERFLOW or ENOMEM; ``strerror`` is the text that names the
    value and the reason.
    """


class Action(NamedTuple):
    """An outstanding action. ``held`` and ``released`` are RFC 22 text, "" for none."""

    description: str
    t_start: float
    held: str
    released: str


def _bytes(text: Optional[str]):
    """Return ``text`` as C wants it; None gives NULL. LedgerError if it holds a NUL."""
    if text is None:
        return ffi.NULL
    if "\0" in text:
        shown = text[:32].replace("\0", "\\0")
        raise LedgerError(errno_names.EINVAL, f"'{shown}' has a NUL character in it")
    return text.encode("utf-8", _SURROGATES)


def _text(ids) -> str:
    """Return a ``struct idset *`` (or NULL) as RFC 22 text in its shortest form."""
    s = lib.ledger_text_encode(ids)
    if not s:
        raise MemoryError
    try:
        return ffi.string(s).decode("ascii")
    finally:
        lib.ledger_text_free(s)


class Ledger:
    """The ledger of one job that was given ``ranks`` (None or "": it never got resources).

    Raises LedgerError on text that is not an RFC 22 idset, or names an id of 2**31 or more
    (ERANGE).
    """

    __slots__ = ("_ep", "_error")

    def __init__(self, ranks: Optional[str]) -> None:
        self._error = ffi.new("flux_error_t *")
        self._own(lib.ledger_text_create(_bytes(ranks), self._error))

    def _own(self, ep) -> None:
        if not ep:
            self._fail()
        self._ep = ffi.gc(ep, lib.epilog_destroy)

    def _fail(self) -> None:
        number = ffi.errno
        text = self._said() or os.strerror(number)
        raise LedgerError(number, text)

    def _said(self) -> str:
        return ffi.string(self._error.text).decode("utf-8", "replace")

    def copy(self) -> "Ledger":
        """Return a ledger in the same state, with a life of its own."""
        other = Ledger.__new__(Ledger)
        other._error = ffi.new("flux_error_t *")
        other._own(lib.epilog_copy(self._ep))
        return other

    def decode(self, ranks: str) -> str:
        """Return ``ranks`` in its shortest form, if it names ranks of the job and is RFC 22."""
        ids = lib.epilog_decode(self._ep, _bytes(ranks), self._error)
        if not ids:
            self._fail()
        try:
            return _text(ids)
        finally:
            lib.idset_destroy(ids)

    # Actions

    def start(self, description: str, ranks: Optional[str], t_start: float = 0.0) -> None:
        """An action starts and holds ``ranks``: None all that have not gone, "" none."""
        if (
            lib.ledger_text_start(
                self._ep, _bytes(description), _bytes(ranks), t_start, self._error
            )
            < 0
        ):
            self._fail()

    def release(self, description: str, ranks: Optional[str]) -> None:
        """The oldest action of that description lets go of ``ranks`` and goes on."""
        if lib.ledger_text_release(self._ep, _bytes(description), _bytes(ranks), self._error) < 0:
            self._fail()

    def finish(self, description: Optional[str]) -> Optional[str]:
        """The oldest action of that description ends, or the only one, whatever it is called.

        Returns the text that says so in the latter case, else None.
        """
        return self._finished(lib.epilog_finish(self._ep, _bytes(description), self._error))

    def start_check(self, description: str, ranks: Optional[str]) -> None:
        """Raise what start() would raise; change nothing."""
        if (
            lib.ledger_text_start_check(self._ep, _bytes(description), _bytes(ranks), self._error)
            < 0
        ):
            self._fail()

    def release_check(self, description: str, ranks: Optional[str]) -> None:
        """Raise what release() would raise; change nothing."""
        if (
            lib.ledger_text_release_check(self._ep, _bytes(description), _bytes(ranks), self._error)
            < 0
        ):
            self._fail()

    def finish_check(self, description: Optional[str]) -> Optional[str]:
        """Return or raise what finish() would; change nothing."""
        return self._finished(lib.epilog_finish_check(self._ep, _bytes(description), self._error))

    def _finished(self, rc: int) -> Optional[str]:
        if rc < 0:
            self._fail()
        return self._said() if rc > 0 else None

    def prolog_start(self) -> None:
        """One prolog more is outstanding; while any is, nothing is ready."""
        lib.epilog_prolog_start(self._ep)

    def prolog_finish(self) -> None:
        """One prolog less is outstanding, if any was."""
        lib.epilog_prolog_finish(self._ep)

    @property
    def prolog_count(self) -> int:
        """Number of prologs outstanding."""
        return lib.epilog_prolog_count(self._ep)

    # What may go, what has gone

    def set_keep_last(self, keep: bool) -> None:
        """Keep one rank back while any action is outstanding, or stop doing so."""
        if lib.epilog_set_keep_last(self._ep, keep) < 0:
            self._fail()

    def ready(self) -> str:
        """Return the ranks that may be handed over now."""
        return _text(lib.epilog_ready(self._ep))

    def gone(self, ranks: str) -> None:
        """These ranks, all of them ready, have been handed over."""
        if lib.ledger_text_gone(self._ep, _bytes(ranks), self._error) < 0:
            self._fail()

    def restore_gone(self, ranks: Optional[str]) -> None:
        """A record says that these ranks were handed over, whatever holds them."""
        if lib.ledger_text_restore_gone(self._ep, _bytes(ranks), self._error) < 0:
            self._fail()

    # Queries

    @property
    def ranks(self) -> str:
        """The job's ranks."""
        return _text(lib.epilog_ranks(self._ep))

    @property
    def handed_over(self) -> str:
        """The ranks that have gone."""
        return _text(lib.epilog_handed_over(self._ep))

    @property
    def all_gone(self) -> bool:
        """Whether every rank of the job has gone (true if it has none)."""
        return lib.epilog_all_gone(self._ep)

    @property
    def kept(self) -> Optional[int]:
        """The rank kept back by set_keep_last(), or None."""
        rank = lib.epilog_kept(self._ep)
        return None if rank == lib.IDSET_INVALID_ID else rank

    @property
    def action_count(self) -> int:
        """Number of actions outstanding; cheaper than actions()."""
        return lib.epilog_action_count(self._ep)

    def actions(self) -> list[Action]:
        """Return the outstanding actions, oldest first."""
        found = []
        for index in range(self.action_count):
            action = lib.epilog_action_get(self._ep, index)
            found.append(
                Action(
                    ffi.string(action.description).decode("utf-8", _SURROGATES),
                    action.t_start,
                    _text(action.held),
                    _text(action.released),
                )
            )
        return found

    def hold_count(self, rank: int) -> int:
        """Return how many actions hold ``rank``; 0 if it is not the job's."""
        return lib.epilog_hold_count(self._ep, rank)
