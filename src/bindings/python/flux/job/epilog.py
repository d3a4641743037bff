# SPDX-License-Identifier: LGPL-3.0
"""Hold ranks of a job during its epilog, and let go of them as the work is done.

An epilog action holds ranks of a job (RFC 21: epilog-start) from the time
that the job is in CLEANUP state, until the action lets go of them or ends
(epilog-finish). A rank that no action holds goes to housekeeping and to the
scheduler, although other ranks of the job are still held.

    >>> with EpilogHold(handle, jobid, "copy", ranks="0-3") as hold:
    ...     for rank in copied():
    ...         hold.release([rank])

An action may be started while the job is in RUN state, which a service that
must not miss the end of the job should do. It then counts from CLEANUP on.

In all of this module:

ranks
    are execution targets as they stand in the job's R (RFC 20), that is broker
    ranks of this instance, not 0..n-1 of the job. They are given as an idset
    string (RFC 22), an :class:`~flux.idset.IDset`, an iterable of integers, or
    ``"all"``: all ranks of the job that have not been handed over.
description
    is a name for the action. A finish goes to the oldest action of the job
    that has it, so each user of this module should have one of its own.
errors
    are OSError, with a text that says what is wrong: EPERM if the caller is
    not the instance owner, ENOENT for an unknown job or an action that is not
    outstanding, EINVAL for ranks that are not the job's, or have gone, and for
    a job that is neither in RUN nor in CLEANUP state, EEXIST for an action that
    is not unique but should be, EOVERFLOW for a 256th action, ENOSYS if this job
    manager has no such service. TypeError and ValueError say that the arguments
    can't be sent.
"""

import errno
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Union

from flux.core.handle import Flux
from flux.core.inner import ffi, lib, raw
from flux.idset import IDSET_FLAG_RANGE, IDset
from flux.job.JobID import JobID
from flux.rpc import RPC

Job = Union[JobID, int, str]
Ranks = Union[None, str, IDset, Iterable[int]]

MAX_RANK = 2**32 - 2
WAIT_SLICE = 0.1  # seconds: how long Ctrl-C may go unnoticed


class EpilogAction(NamedTuple):
    """An outstanding epilog action.

    Attributes:
        description (str): its name
        t_start (float): when it was started, in seconds since the epoch
        held (IDset): ranks that it holds now
        released (IDset): ranks that it has let go of
    """

    description: str
    t_start: float
    held: IDset
    released: IDset


class EpilogJob(NamedTuple):
    """A job that has an outstanding epilog action.

    Attributes:
        id (JobID): the job
        userid (int): its user
        state (str): "RUN" or "CLEANUP"
        ended (bool): nothing of the job runs any more: no shell, no prolog
        ranks (IDset): all ranks of the job
        handed_over (IDset): those that have gone, no matter who held them
        kept (IDset): those that no action holds, but are kept back until no
            action is outstanding, see final-free in
            :man5:`flux-config-job-manager`
        ready (IDset): those that no action holds, but are still here
        obstacle (str): why no rank can go at present, None if there is no reason
        actions (list of EpilogAction): oldest first
    """

    id: JobID
    userid: int
    state: str
    ended: bool
    ranks: IDset
    handed_over: IDset
    kept: IDset
    ready: IDset
    obstacle: Optional[str]
    actions: List[EpilogAction]


class EpilogFuture(RPC):
    """Future of a request to start or finish an action.

    Any number may be outstanding, and may be waited for in any way.
    A wait can be interrupted with Ctrl-C: KeyboardInterrupt is raised. The
    request is not withdrawn by that.
    """

    # flux_future_wait_for(3) makes a reactor to wait on, with a file
    # descriptor, that the future keeps until it is destroyed. Many futures
    # that were waited for would use up the descriptors of the process. So
    # each is replaced by one that is fulfilled and has no reactor.
    #
    # If the wait ends in vain, the future also keeps all messages that came
    # meanwhile for others: they are put back here.

    def wait_for(self, timeout: float = -1.0) -> "EpilogFuture":
        """Wait until the answer is there.

        Args:
            timeout: longest time to wait, in seconds; no limit if negative

        Raises:
            OSError: ETIMEDOUT
        """
        if not self.is_ready():
            self._wait(timeout)
            if self.then_cb is None:
                self._replace()
        return self

    def get_str(self) -> Optional[str]:
        """Wait for the answer and return its payload, or None if it has none."""
        self.wait_for()
        payload = ffi.new("char *[1]")
        self.pimpl.flux_rpc_get(payload)
        if payload[0] == ffi.NULL:
            return None
        return ffi.string(payload[0]).decode("utf-8")

    def get(self) -> Any:
        """Wait until the job manager has taken the request."""
        self.get_str()

    def _wait(self, timeout: float) -> None:
        """Wait in slices, as Python can't handle a signal within one."""
        end = time.monotonic() + timeout if timeout >= 0.0 else float("inf")
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                self.pimpl.wait_for(min(left, WAIT_SLICE))
                return
            except OSError as exc:
                if exc.errno != errno.ETIMEDOUT:
                    self.raise_if_handle_exception()
                    raise
                if left <= WAIT_SLICE:
                    raise
            finally:
                if not self.is_ready():
                    self._put_back()

    def _put_back(self) -> None:
        """Put messages for others back on the handle, after a wait in vain."""
        waiting_handle = lib.flux_future_get_flux(self.handle)
        if waiting_handle != self.flux_handle.handle:
            lib.flux_dispatch_requeue(waiting_handle)

    def _replace(self) -> None:
        """Replace the C future by one that has the same result and no reactor."""
        settled = raw.flux_future_create(ffi.NULL, ffi.NULL)
        lib.flux_future_set_flux(settled, self.flux_handle.handle)
        message = ffi.new("void *[1]")
        try:
            self.pimpl.flux_future_get(message)
        except OSError as exc:
            text = exc.strerror.encode("utf-8")
            lib.flux_future_fulfill_error(settled, exc.errno, text)
        else:
            lib.flux_future_fulfill(
                settled,
                lib.flux_msg_incref(ffi.cast("struct flux_msg *", message[0])),
                ffi.cast("void(*)(void *)", ffi.addressof(lib, "flux_msg_decref")),
            )
        self.handle = settled


class EpilogListFuture(EpilogFuture):
    """Future of a request for outstanding actions."""

    def get(self) -> List[EpilogJob]:
        """Wait for the answer and return the jobs that it has."""
        return [_decode_job(job) for job in self.get_dict()["jobs"]]

    def get_dict(self) -> Dict[str, Any]:
        """Wait for the answer and return it as it was sent."""
        return super(EpilogFuture, self).get()


def _decode_job(job: Dict[str, Any]) -> EpilogJob:
    actions = [
        EpilogAction(
            action["description"],
            action["t_start"],
            IDset(action["held"]),
            IDset(action["released"]),
        )
        for action in job["actions"]
    ]
    return EpilogJob(
        JobID(job["id"]),
        job["userid"],
        job["state"],
        job["ended"],
        IDset(job["ranks"]),
        IDset(job["handed_over"]),
        IDset(job["kept"]),
        IDset(job["ready"]),
        job.get("obstacle"),
        actions,
    )


def encode_idset(ids: Iterable[int]) -> str:
    """Return an idset. IDset() would take seconds for a rank that is far out."""
    runs: List[List[int]] = []
    for one in sorted(set(ids)):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(f"{lo}-{hi}" if hi > lo else f"{lo}" for lo, hi in runs)


def _encode_ranks(ranks: Ranks) -> Optional[str]:
    """Return the value of a ranks key, None if there shall be none.

    Strings are sent as they are: what is wrong with one is for the job manager
    to say.
    """
    if ranks is None or isinstance(ranks, str):
        return ranks
    if isinstance(ranks, IDset):
        return ranks.encode(flags=IDSET_FLAG_RANGE)
    if not isinstance(ranks, Iterable) or isinstance(ranks, (bytes, bytearray, dict)):
        raise TypeError(
            "ranks: want None, an idset string, IDset, or iterable of int,"
            f" not {ranks!r}"
        )
    ids = list(ranks)
    for rank in ids:
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise TypeError(f"ranks: {rank!r} is not an int")
        if not 0 <= rank <= MAX_RANK:
            raise ValueError(f"ranks: {rank} is not a rank")
    return encode_idset(ids)


def _request(jobid: Job, description: str, ranks: Ranks) -> Dict[str, Any]:
    if not isinstance(description, str):
        raise TypeError(f"description: want a string, not {description!r}")
    request: Dict[str, Any] = {"id": int(JobID(jobid)), "description": description}
    encoded = _encode_ranks(ranks)
    if encoded is not None:
        request["ranks"] = encoded
    return request


def epilog_start_async(
    flux_handle: Flux,
    jobid: Job,
    description: str,
    ranks: Ranks = None,
    unique: bool = False,
) -> EpilogFuture:
    """Start an epilog action, asynchronously.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job, in RUN or CLEANUP state
        description: name for the action
        ranks: ranks that it holds. None: all. Empty: none, it holds the job
            only.
        unique: refuse if an action of that description is outstanding

    Returns:
        EpilogFuture: fulfilled when the action is taken note of

    Raises:
        TypeError, ValueError: the arguments can't be sent
    """
    request = _request(jobid, description, ranks)
    if unique:
        request["unique"] = True
    return EpilogFuture(flux_handle, "job-manager.epilog-start", request)


def epilog_start(
    flux_handle: Flux,
    jobid: Job,
    description: str,
    ranks: Ranks = None,
    unique: bool = False,
) -> None:
    """Start an epilog action.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job, in RUN or CLEANUP state
        description: name for the action
        ranks: ranks that it holds. None: all. Empty: none, it holds the job
            only.
        unique: refuse if an action of that description is outstanding

    Raises:
        OSError: the request was refused, see this module's description
        TypeError, ValueError: the arguments can't be sent
    """
    epilog_start_async(flux_handle, jobid, description, ranks, unique).get()


def epilog_finish_async(
    flux_handle: Flux,
    jobid: Job,
    description: str,
    status: int = 0,
    ranks: Ranks = None,
) -> EpilogFuture:
    """Let an epilog action end, or let go of ranks, asynchronously.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job
        description: name of the action
        status: what is noted in the job's eventlog, 0 for success
        ranks: None: the action ends, and lets go of what it holds. Otherwise
            it lets go of these and goes on, even if it holds none then.
            Ranks that it does not hold (any more) are ignored.

    Returns:
        EpilogFuture: fulfilled when that is taken note of. The ranks go
        shortly after.

    Raises:
        TypeError, ValueError: the arguments can't be sent
    """
    request = _request(jobid, description, ranks)
    request["status"] = status
    return EpilogFuture(flux_handle, "job-manager.epilog-finish", request)


def epilog_finish(
    flux_handle: Flux,
    jobid: Job,
    description: str,
    status: int = 0,
    ranks: Ranks = None,
) -> None:
    """Let an epilog action end, or let go of ranks.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job
        description: name of the action
        status: what is noted in the job's eventlog, 0 for success
        ranks: None: the action ends, and lets go of what it holds. Otherwise
            it lets go of these and goes on, even if it holds none then.
            Ranks that it does not hold (any more) are ignored.

    Raises:
        OSError: the request was refused, see this module's description
        TypeError, ValueError: the arguments can't be sent
    """
    epilog_finish_async(flux_handle, jobid, description, status, ranks).get()


def epilog_list_async(
    flux_handle: Flux, jobid: Optional[Job] = None
) -> EpilogListFuture:
    """Ask for outstanding epilog actions, asynchronously.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: ask for this job only

    Returns:
        EpilogListFuture: its get() returns a list of :class:`EpilogJob`

    Raises:
        ValueError: not a job id
    """
    request = {} if jobid is None else {"id": int(JobID(jobid))}
    return EpilogListFuture(flux_handle, "job-manager.epilog-list", request)


def epilog_list(flux_handle: Flux, jobid: Optional[Job] = None) -> List[EpilogJob]:
    """Get outstanding epilog actions.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: get those of this job only

    Returns:
        list of EpilogJob: jobs that have any, in no order

    Raises:
        OSError: the request was refused, see this module's description
        ValueError: not a job id
    """
    return epilog_list_async(flux_handle, jobid).get()


class EpilogHold:
    """Hold ranks of a job while a block of code runs.

    The action starts when the block is entered, and ends with it: with status
    0, or with 1 if the block was left by an exception, KeyboardInterrupt
    included. The exception goes on as it was, even if the action can't be
    ended. If there was none, an OSError says that: ENOENT if the action was
    not outstanding any more, because somebody else ended it.

    A process that is killed leaves its action outstanding. It can be found with
    :func:`epilog_list` and ended with :func:`epilog_finish`. Ctrl-C kills the
    process, too, while it waits in the get() of any other kind of future, or
    after one of these has failed.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job, in RUN or CLEANUP state
        description: name for the action. No other action of this job should
            have it.
        ranks: ranks to hold. None: all. Empty: none, the job is held only.

    Example:
        >>> with EpilogHold(handle, jobid, "copy") as hold:
        ...     copy_from(0)
        ...     hold.release("0")
        ...     copy_from_others()
    """

    def __init__(
        self, flux_handle: Flux, jobid: Job, description: str, ranks: Ranks = None
    ) -> None:
        self.flux_handle = flux_handle
        self.jobid = JobID(jobid)
        self.description = description
        self.ranks = ranks
        self.outstanding = False

    def __enter__(self) -> "EpilogHold":
        if self.outstanding:
            raise RuntimeError(f"{self.description}: hold is in use already")
        start = epilog_start_async(
            self.flux_handle, self.jobid, self.description, self.ranks
        )
        try:
            start.get()
        except OSError:
            raise
        except BaseException:  # interrupted, but it was sent
            self._finish_late(start)
            raise
        self.outstanding = True
        return self

    def __exit__(self, exc_type, exc, traceback) -> None:
        if not self.outstanding:
            return
        try:
            self.finish(0 if exc_type is None else 1)
        except OSError:
            if exc_type is None:
                raise

    def release_async(self, ranks: Ranks) -> EpilogFuture:
        """Let go of ranks and go on, asynchronously.

        Args:
            ranks: which. With "all", the job is held only.

        Returns:
            EpilogFuture: fulfilled when that is taken note of

        Raises:
            TypeError, ValueError: the argument can't be sent
        """
        if ranks is None:
            raise TypeError("ranks: want those to let go of; see finish()")
        return epilog_finish_async(
            self.flux_handle, self.jobid, self.description, ranks=ranks
        )

    def release(self, ranks: Ranks) -> None:
        """Let go of ranks and go on.

        Args:
            ranks: which. With "all", the job is held only.

        Raises:
            OSError: the request was refused, see this module's description
            TypeError, ValueError: the argument can't be sent
        """
        self.release_async(ranks).get()

    def finish(self, status: int = 0) -> None:
        """End the action now, with a status. The end of the block then does nothing.

        Args:
            status: what is noted in the job's eventlog, 0 for success

        Raises:
            OSError: the request was refused, see this module's description
        """
        future = epilog_finish_async(
            self.flux_handle, self.jobid, self.description, status
        )
        self.outstanding = False  # even if interrupted: it was sent
        future.get()

    def _finish_late(self, start: EpilogFuture) -> None:
        """End an action whose start nobody waited for."""
        try:
            start.get()
            self.finish(1)
        except OSError:
            pass  # it did not start


# vi: ts=4 sw=4 expandtab
