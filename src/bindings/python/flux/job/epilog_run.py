# SPDX-License-Identifier: LGPL-3.0
"""Run a command when a job has ended, and let go of its nodes as it gets done.

This is what :man1:`flux-epilog` ``run`` does, which see.

    >>> EpilogRun(handle, jobid, ["umount", "/ssd"], per_rank=True).run()
"""

import base64
import contextlib
import errno
import json
import os
import signal
import sys
import syslog
import time
import uuid
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from flux.constants import FLUX_RPC_NORESPONSE, FLUX_RPC_STREAMING
from flux.core.handle import Flux
from flux.eventlog import EventLogEvent
from flux.idset import IDset
from flux.job.epilog import (
    EpilogAction,
    EpilogJob,
    Job,
    Ranks,
    encode_idset,
    epilog_finish,
    epilog_list,
    epilog_start,
)
from flux.job.event import event_watch_async
from flux.job.JobID import JobID
from flux.job.kvslookup import job_kvs_lookup
from flux.subprocess import command_create, kill

GATHER = 0.1  # seconds: what gets done within goes together
GRACE = 5.0  # seconds from a signal to SIGKILL, and from there until we give up
LOOK = 2.0  # seconds until we ask again if the job has ended

SURVIVED = "can't be killed"

REXEC_OUTPUT = 1 | 2  # flags of an RFC 42 request: send stdout and stderr

# Exit codes for what is not one, by errno
EXIT_CODES = {
    errno.EPERM: 126,
    errno.EACCES: 126,
    errno.ENOENT: 127,
    errno.EHOSTUNREACH: 68,
}
EXIT_TIMEOUT = 124

# Errors that say that the action is not outstanding any more
GONE = (errno.ENOENT, errno.EINVAL)

# Events with which the last of a job may have ended
ENDS = ("exception", "finish", "release", "prolog-finish")


def exit_code(status: int) -> int:
    """Return the exit code that a shell would give to a wait status."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def describe(status: int) -> str:
    """Return a wait status in words."""
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit {os.WEXITSTATUS(status)}"


def drain_ranks(flux_handle: Flux, ranks: Iterable[int], reason: str) -> None:
    """Drain ranks, and return when no job can start on them any more.

    A rank that is drained already keeps its reason.

    Raises:
        OSError, ValueError: not all of them are drained
    """
    targets = IDset()
    targets.add(ranks)
    request = {"targets": str(targets), "reason": reason, "mode": "update"}
    try:
        flux_handle.rpc("resource.drain", request, nodeid=0).get()
    except OSError as exc:
        raise OSError(exc.errno, f"drain: {exc.strerror}") from None
    # The answer above is sent before the scheduler is told, the one below after
    drained = IDset()
    for idset in flux_handle.rpc("resource.status", nodeid=0).get()["drain"]:
        drained.add(idset)
    missing = targets.difference(drained)
    if missing:
        raise ValueError(f"ranks {missing} are not drained")


class RankCommands:
    """A command that runs on ranks of this instance (RFC 42).

    It runs in the working directory of this process, with nothing to read. It is
    killed when the handle is closed.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        cmdline: the command and its arguments
        env: its environment
        on_output: called with a rank, "stdout" or "stderr", and bytes
        on_end: called with a rank, a wait status, and a text, when the command has
            ended there and all of its output was read. The text is None if it has
            run to its end. Otherwise it says why not, and the status is not 0.
    """

    def __init__(
        self,
        flux_handle: Flux,
        cmdline: List[str],
        env: Dict[str, str],
        on_output: Callable[[int, str, bytes], None],
        on_end: Callable[[int, int, Optional[str]], None],
    ) -> None:
        self.flux_handle = flux_handle
        self.on_output = on_output
        self.on_end = on_end
        self.label = f"epilog-run-{uuid.uuid4()}"
        cmd = command_create(cmdline, label=self.label, env=env)
        # the same for all: encode it once
        self.request = json.dumps({"cmd": cmd, "flags": REXEC_OUTPUT})
        self.statuses: Dict[int, int] = {}

    def start(self, rank: int) -> None:
        """Run the command on a rank."""
        future = self.flux_handle.rpc(
            "rexec.exec", self.request, nodeid=rank, flags=FLUX_RPC_STREAMING
        )
        future.then(self._update, rank)
        eof = {"stream": "stdin", "rank": str(rank), "eof": True}
        self.flux_handle.rpc(
            "rexec.write",
            {"matchtag": future.pimpl.get_matchtag(), "io": eof},
            nodeid=rank,
            flags=FLUX_RPC_NORESPONSE,
        )

    def kill(self, rank: int, signum: int) -> None:
        """Send a signal to the command on a rank, if it is there."""
        kill(self.flux_handle, signum, label=self.label, nodeid=rank, sign=False)

    def _update(self, future, rank: int) -> None:
        try:
            response = future.get()
        except OSError as exc:
            self._end(rank, exc)
            return
        if response["type"] == "finished":
            self.statuses[rank] = response["status"]
        elif response["type"] == "output" and "data" in response["io"]:
            data = response["io"]["data"].encode("utf-8", errors="surrogateescape")
            if response["io"].get("encoding") == "base64":
                data = base64.b64decode(data)
            self.on_output(rank, response["io"]["stream"], data)
        future.reset()

    def _end(self, rank: int, exc: OSError) -> None:
        """Take note of the end of a stream. Only ENODATA says that all is well."""
        status = self.statuses.pop(rank, None)
        if exc.errno == errno.ENODATA and status is not None:
            self.on_end(rank, status, None)
            return
        code = EXIT_CODES.get(exc.errno, 1)
        lost = exc.errno == errno.EHOSTUNREACH
        self.on_end(rank, code << 8, "node lost" if lost else exc.strerror)


class Terminal:
    """What is seen of a run: output of commands, and the progress in between."""

    def __init__(self, label_io: bool) -> None:
        self.label_io = label_io
        self.shows_progress = sys.stderr.isatty()
        self.files = {"stdout": sys.stdout.fileno(), "stderr": sys.stderr.fileno()}

    def output(self, rank: int, stream: str, data: bytes) -> None:
        """Write what a command has written."""
        self.progress("")
        if self.label_io:
            data = b"%d: %s%s" % (rank, data, b"" if data.endswith(b"\n") else b"\n")
        try:
            while data and stream in self.files:
                data = data[os.write(self.files[stream], data) :]
        except OSError:  # nobody reads it: no reason to stop
            del self.files[stream]

    def progress(self, text: str) -> None:
        """Rewrite the line that shows the progress."""
        if self.shows_progress:
            self._print(f"\r\033[K{text}", end="")

    def line(self, text: str) -> None:
        """Write a line of our own."""
        self.progress("")
        self._print(text, end="\n")

    @staticmethod
    def _print(text: str, end: str) -> None:
        try:
            print(text, end=end, file=sys.stderr, flush=True)
        except OSError:
            pass


class EpilogRun:
    """Hold a job's ranks, run a command when it has ended, and let go of them.

    Args:
        flux_handle: handle for Flux broker from flux.Flux()
        jobid: the job, which need not run yet
        cmdline: the command and its arguments
        ranks: ranks to hold. None: all of the job
        per_rank: run the command on each of these. Otherwise it runs once, on the
            broker that the handle is connected to.
        timeout: longest time that the command may take, in seconds. None or 0: no
            limit
        drain_failed: drain ranks where the command fails before they are let go of
        label_io: write the rank before each line of output
        description: name of the action
        resume: take up an action that is outstanding
        nodelist: returns a name for some ranks
    """

    transport = RankCommands

    def __init__(
        self,
        flux_handle: Flux,
        jobid: Job,
        cmdline: List[str],
        ranks: Ranks = None,
        per_rank: bool = False,
        timeout: Optional[float] = None,
        drain_failed: bool = False,
        label_io: bool = False,
        description: str = "run",
        resume: bool = False,
        nodelist: Callable[[Set[int]], str] = encode_idset,
    ) -> None:
        self.flux_handle = flux_handle
        self.jobid = JobID(jobid)
        self.cmdline = cmdline
        self._check_encoding()
        self.ranks = ranks
        self.per_rank = per_rank
        self.timeout = timeout if timeout != float("inf") else None
        self.drain_failed = drain_failed
        self.description = description
        self.resume = resume
        self.nodelist = nodelist
        self.terminal = Terminal(label_io)
        self.commands: Optional[RankCommands] = None
        self.events: Any = None
        self.timers: List[Any] = []

        self.outstanding = False  # the action, as far as we know
        self.since = 0.0  # when it was started
        self.begun: Optional[float] = None  # when the command was started
        self.ended = False  # there is nothing left to do
        self.interrupted = 0  # the first signal that we got
        self.timed_out = False
        self.gathering = False

        self.held: Set[int] = set()  # when the command was started
        self.running: Dict[int, Set[int]] = {}  # where, and for which ranks
        self.done: Set[int] = set()  # to be let go of
        self.bad: Dict[str, Set[int]] = {}  # to be drained
        self.failed: Dict[str, Set[int]] = {}  # in all
        self.kept: Set[int] = set()  # could not be drained
        self.status = 0  # the worst

    def run(self) -> bool:
        """Do it.

        Returns:
            bool: True if the command did well for all ranks

        Raises:
            OSError, ValueError: it could not be done, or not to the end. If the
                action has been started, the text says how to go on.
        """
        self._check_outstanding()
        watchers = [
            self.flux_handle.signal_watcher_create(signum, self._interrupt).start()
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signum == signal.SIGINT or signal.getsignal(signum) != signal.SIG_IGN
        ]
        try:
            self.events = event_watch_async(self.flux_handle, self.jobid)
            self.events.then(self._event)
            while not self.ended:
                self._react()
        except Exception as exc:
            if not self.outstanding or getattr(exc, "errno", 0) in GONE:
                raise
            raise ValueError(
                f"{self._strerror(exc)}: '{self.description}' of {self.jobid.f58} is"
                " still outstanding, go on with --resume"
            ) from None
        finally:
            self._abandon()
            for watcher in watchers + self.timers:
                watcher.stop()
        return exit_code(self.status) == 0 and not self.kept

    def _check_encoding(self) -> None:
        """Refuse what can't be sent (RFC 42), before anything is held."""
        for text in (os.getcwd(), *self.cmdline, *os.environ, *os.environ.values()):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError(
                    f"{text!a}: command, working directory and environment have to"
                    " be UTF-8"
                ) from None

    def _abandon(self) -> None:
        """Take note of nothing more. Commands that still run are killed."""
        self.ended = True
        with contextlib.suppress(OSError):
            for rank in self.running:
                self.commands.kill(rank, signal.SIGKILL)
            if self.events:
                self.events.cancel(stop=True)
        self.running = {}

    #
    # The action
    #

    def _job(self) -> Tuple[Optional[EpilogJob], Optional[EpilogAction]]:
        """Ask for the job and our action."""
        for job in epilog_list(self.flux_handle, self.jobid):
            for action in job.actions:
                if action.description == self.description:
                    return job, action
        return None, None

    def _check_outstanding(self) -> None:
        _, action = self._job()
        if self.resume and not action:
            raise ValueError(f"no action '{self.description}' is outstanding")
        if action and not self.resume:
            raise ValueError(
                f"an action '{self.description}' is outstanding already:"
                " take it up with --resume, or give another --description"
            )
        self.outstanding = self.resume

    def _release(self) -> None:
        """Let go of what is done."""
        if self.done:
            epilog_finish(
                self.flux_handle, self.jobid, self.description, ranks=self.done
            )
            self.done = set()

    def _finish(self) -> None:
        """End the action, unless there is something that it has to keep."""
        if self.kept:
            self._release()
        else:
            epilog_finish(self.flux_handle, self.jobid, self.description, self.status)
            self.outstanding = False
        self._end()

    def _end(self) -> None:
        self.ended = True
        self.flux_handle.reactor_stop()

    #
    # What comes from outside
    #

    def _react(self) -> None:
        """Run the reactor until it is stopped. It stops itself at SIGINT."""
        try:
            self.flux_handle.raise_if_exception()
            if self.flux_handle.reactor_run() < 0:
                raise OSError(errno.ECONNRESET, "lost connection to Flux")
        except KeyboardInterrupt:
            pass

    def _event(self, future) -> None:
        """Do what an event of the job makes possible."""
        event = future.get_event()
        if event is None:
            if not self.ended:
                raise ValueError(f"{self.jobid.f58}: the job has ended")
        elif event.name == "epilog-finish":
            self._check_finish(event)
        elif self.begun or self.ended:
            pass
        elif self.outstanding:
            if event.name in ENDS:
                self._look()
        elif event.name == "alloc":
            epilog_start(
                self.flux_handle,
                self.jobid,
                self.description,
                self.ranks,
                unique=True,
            )
            self.outstanding = True
            self._look()

    def _check_finish(self, event: EventLogEvent) -> None:
        """Stop where somebody else has ended the hold that a command relies on."""
        if (
            not self.running
            or event.timestamp < self.since
            or event.context.get("description") != self.description
        ):
            return
        if "ranks" not in event.context:
            self.outstanding = False
            raise ValueError(f"somebody else has ended '{self.description}'")
        if self.per_rank:
            ranks = event.context["ranks"]
            gone = self.running if ranks == "all" else IDset(ranks)
            for rank in self.running.keys() & set(gone):
                self.commands.kill(rank, signal.SIGKILL)
                self._command_end(rank, 1 << 8, "let go of by somebody else")

    def _interrupt(self, _handle, _watcher, signum: int, _args) -> None:
        """Pass a signal on. At the second one, kill."""
        if self.running:
            if self.interrupted:
                self._kill()
            else:
                self._stop(signum)
        elif not self.begun:
            self.status = signum
            if self.outstanding:
                self._finish()
            self._end()
            self.terminal.line(
                f"{self.jobid.f58}: interrupted before the job has ended"
            )
        self.interrupted = signum

    #
    # The command
    #

    def _look(self) -> None:
        """Begin, if the job has ended."""
        job, action = self._job()
        if not action:
            self.outstanding = False
            raise ValueError(f"somebody else has ended '{self.description}'")
        if not action.held:
            self._finish()
            raise ValueError(f"{self.jobid.f58}: there is no node left to hold")
        if job.ended:
            self._begin(job, action)
        elif job.state == "CLEANUP":  # an event may not say when that changes
            self._after(LOOK, self._look_again)

    def _look_again(self) -> None:
        if not self.begun and not self.ended:
            self._look()

    def _begin(self, job: EpilogJob, action: EpilogAction) -> None:
        self.begun = time.monotonic()
        self.since = action.t_start
        self.held = set(action.held)
        if self.per_rank:
            self.running = {rank: {rank} for rank in self.held}
        else:
            self.running = {self.flux_handle.get_rank(): set(self.held)}
        self.commands = self.transport(
            self.flux_handle,
            self.cmdline,
            self._environment(job, action),
            self.terminal.output,
            self._command_end,
        )
        for rank in list(self.running):
            self.commands.start(rank)
        if self.timeout:
            self._after(self.timeout, self._time_out)
        self._show_progress()

    def _environment(self, job: EpilogJob, action: EpilogAction) -> Dict[str, str]:
        """Return the environment of the command. It says how the job ended."""
        status = exception = note = ""
        eventlog = job_kvs_lookup(
            self.flux_handle, self.jobid, keys=["eventlog"], decode=False
        )["eventlog"]
        for line in eventlog.splitlines():
            event = EventLogEvent(line)
            if event.name == "finish":
                status = str(event.context["status"])
            elif event.name == "exception" and not exception:
                if event.context["severity"] == 0:
                    exception = event.context["type"]
                    note = event.context.get("note", "")
        return dict(
            os.environ,
            FLUX_JOB_ID=self.jobid.f58,
            FLUX_JOB_USERID=str(job.userid),
            FLUX_JOB_RANKS=str(job.ranks),
            FLUX_JOB_STATUS=status,
            FLUX_JOB_EXCEPTION=exception,
            FLUX_JOB_EXCEPTION_NOTE=note,
            FLUX_EPILOG_DESCRIPTION=self.description,
            FLUX_EPILOG_RANKS=str(action.held),
        )

    def _time_out(self) -> None:
        if self.running:
            self.timed_out = True
            self._stop(signal.SIGTERM)

    def _stop(self, signum: int) -> None:
        """Send a signal to what runs, kill it later, and give it up in the end."""
        for rank in self.running:
            self.commands.kill(rank, signum)
        self._after(GRACE, self._kill)

    def _kill(self) -> None:
        for rank in self.running:
            self.commands.kill(rank, signal.SIGKILL)
        self._after(GRACE, self._give_up)

    def _give_up(self) -> None:
        for rank in list(self.running):
            self._command_end(rank, signal.SIGKILL, SURVIVED)

    def _command_end(self, rank: int, status: int, text: Optional[str]) -> None:
        """Take note of how the command has ended on a rank."""
        if rank not in self.running:
            return
        ranks = self.running.pop(rank)
        if self.timed_out and not text:
            text = "timed out"
            status = status or EXIT_TIMEOUT << 8
        self.status = max(self.status, status, key=exit_code)
        if status == 0:
            self.done |= ranks
        else:
            self.bad.setdefault(text or describe(status), set()).update(ranks)
        self._show_progress()
        if not self.running:
            self._conclude()
        elif not self.gathering:
            self.gathering = True
            self._after(GATHER, self._settle)

    def _settle(self) -> None:
        """Let go of what got done since the last time."""
        self.gathering = False
        if not self.ended:
            self._handle_bad()
            self._release()
            self._show_progress()

    def _conclude(self) -> None:
        """End the action: nothing runs any more."""
        self.status = max(self.status, self.interrupted, key=exit_code)
        self._handle_bad()
        self._finish()
        self.terminal.line(self._summary())

    def _handle_bad(self) -> None:
        """Report ranks on which the command failed, and drain them."""
        bad, self.bad = self.bad, {}
        if bad:
            self._check_instance()
        for text, ranks in bad.items():
            _, action = self._job()
            held = set(action.held) if action else set()
            if not self.per_rank:  # the command itself may have let go of some
                ranks &= held
            self.failed.setdefault(text, set()).update(ranks)
            self._log(f"{self.nodelist(ranks)}: {text}" if ranks else text)
            if (self.drain_failed or text == SURVIVED) and ranks & held:
                self._drain(ranks & held, text)

    def _check_instance(self) -> None:
        """Raise ValueError if failures are due to the end of the instance."""
        state = self.flux_handle.rpc("state-machine.get", nodeid=0).get()["state"]
        if state not in ("run", "cleanup"):
            raise ValueError("the instance is stopping")

    def _drain(self, ranks: Set[int], text: str) -> None:
        reason = f"epilog {self.description} of {self.jobid.f58}: {text}"
        try:
            drain_ranks(self.flux_handle, ranks, reason)
        except (OSError, ValueError) as exc:
            self.kept |= ranks
            self._log(f"{self.nodelist(ranks)} stay held: {self._strerror(exc)}")
            self.terminal.line(
                f"{self.jobid.f58}: '{self.description}' goes on to hold"
                f" {self.nodelist(ranks)}: {self._strerror(exc)}"
            )
        else:
            self.done |= ranks

    #
    # What is said about it
    #

    @staticmethod
    def _strerror(exc: Exception) -> str:
        return getattr(exc, "strerror", None) or str(exc)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        timer = self.flux_handle.timer_watcher_create(seconds, lambda *_: call())
        self.timers.append(timer.start())

    def _log(self, text: str) -> None:
        """Log a failure. The text is a format there."""
        text = f"epilog {self.description} of {self.jobid.f58}: {text}"
        self.flux_handle.log(syslog.LOG_ERR, text.replace("%", "%%"))

    def _counts(self) -> Tuple[int, int]:
        """Return how many ranks are done, and how many of these failed."""
        failed = set().union(*self.failed.values(), *self.bad.values())
        running = set().union(*self.running.values())
        return len(self.held - running), len(failed)

    def _show_progress(self) -> None:
        done, failed = self._counts()
        text = f"{self.jobid.f58}: {done}/{len(self.held)} done"
        self.terminal.progress(text + (f", {failed} failed" if failed else ""))

    def _summary(self) -> str:
        """Return what there is to say in the end."""
        done, failed = self._counts()
        where = "on" if self.per_rank else "for"
        text = (
            f"{self.jobid.f58}: {os.path.basename(self.cmdline[0])}"
            f" {where} {len(self.held)} nodes: {done - failed} ok"
        )
        if self.failed:
            causes = "; ".join(
                f"{self.nodelist(ranks)}: {cause}" if ranks else cause
                for cause, ranks in self.failed.items()
            )
            text += f", {failed} failed ({causes})"
        return f"{text}: {time.monotonic() - self.begun:.1f}s"


# vi: ts=4 sw=4 expandtab
