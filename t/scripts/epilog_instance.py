# SPDX-License-Identifier: LGPL-3.0
"""A Flux instance of few brokers and many ranks, to be crashed and started again.

An Instance is a process; a Connection is a handle on it, whose messages are taken
as they are, in the order in which they come. The job manager answers in the order
in which it acts, so that order is the order of what happened.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, List, NamedTuple, Optional

READY = 60.0  # seconds for an instance to start, or to stop
ANNOUNCE = "echo $FLUX_URI $(flux getattr broker.pid); exec cat >/dev/null"
FIRST_TAG = 1 << 24  # of messages sent here: far from those that a handle gives

Answer = NamedTuple(
    "Answer",
    [("tag", int), ("topic", str), ("errnum", int), ("text", Optional[str])],
)


class Connection:
    """A handle on an instance. OSError if the instance is gone."""

    def __init__(self, uri: str) -> None:
        import flux

        self.handle = flux.Flux(uri)  # type: Any
        self.poll = select.poll()
        self.poll.register(self.handle.pollfd(), select.POLLIN)
        self.tag = FIRST_TAG
        self.futures = []  # type: List[Any]

    def send(self, topic: str, payload: Any, streaming: bool = False) -> int:
        """Send a request, its payload an object or JSON text; return its tag."""
        from flux.constants import FLUX_MSGTYPE_REQUEST
        from flux.message import Message

        self.tag += 1
        message = Message(FLUX_MSGTYPE_REQUEST)
        message.topic = topic
        if isinstance(payload, str):
            message.payload_str = payload
        else:
            message.payload = payload
        message.pimpl.set_matchtag(self.tag)
        if streaming:
            message.pimpl.set_streaming()
        self.handle.send(message)
        return self.tag

    def submit(self, jobspec: dict) -> None:
        """Submit a job. Its answer has no tag of ours, and is dropped."""
        import flux.job

        text = json.dumps(jobspec)
        future = flux.job.submit_async(self.handle, text, novalidate=True)
        self.futures.append(future)  # or its answer would not come

    def receive(self, seconds: float) -> Optional[Answer]:
        """Return the next message, or None if none comes in time."""
        from flux.core.inner import ffi

        end = time.monotonic() + seconds
        while not self.handle.pollevents() & select.POLLIN:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.poll.poll(left * 1000)
        message = self.handle.recv()
        tag = ffi.new("uint32_t[1]")
        message.pimpl.get_matchtag(tag)
        text = None
        errnum = 0
        try:
            text = message.decode()[2]
        except OSError as exc:
            errnum = exc.errno
            text = message.payload_str
        return Answer(tag[0], message.topic, errnum, text)

    def close(self) -> None:
        """Be done with it. It may be closed already."""
        self.futures.clear()
        if self.handle:
            self.poll.unregister(self.handle.pollfd())
        self.handle = None


class Instance:
    """An instance whose state is kept in ``folder``, and so outlives its processes."""

    def __init__(self, folder: str, config: dict, brokers: int = 1) -> None:
        self.folder = folder
        self.config = config
        self.brokers = brokers
        self.process = None  # type: Optional[subprocess.Popen]
        self.uri = ""
        self.pid = 0  # of the first broker
        os.makedirs(os.path.join(folder, "state"), exist_ok=True)

    def path(self, name: str) -> str:
        """Return where a file of the instance is."""
        return os.path.join(self.folder, name)

    def start(self) -> Connection:
        """Start it with what is in the folder, and return a handle on it."""
        with open(self.path("config.json"), "w") as out:
            json.dump(self.config, out)
        command = ["flux", "start", "-Slog-stderr-level=1"]
        if self.brokers > 1:  # they all end with the first
            command += ["--test-size={}".format(self.brokers)]
            command += ["--test-exit-mode=leader", "--test-exit-timeout=0"]
        command += ["-Sstatedir=" + self.path("state"), "-c", self.path("config.json")]
        command += ["sh", "-c", ANNOUNCE]
        with open(self.path("broker.err"), "a") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                universal_newlines=True,
                env=dict(os.environ, FLUX_DISABLE_JOB_CLEANUP="t"),
            )
        self.uri, pid = self.line().split()
        self.pid = int(pid)
        return Connection(self.uri)

    def line(self) -> str:
        """Return the next line that it prints. RuntimeError if there is none."""
        assert self.process and self.process.stdout
        if select.select([self.process.stdout], [], [], READY)[0]:
            line = self.process.stdout.readline().strip()
            if line:
                return line
        with open(self.path("broker.err")) as err:
            tail = err.read()[-2000:]
        raise RuntimeError("the instance did not start: " + tail)

    def command(self, *args: str, text: Optional[str] = None) -> str:
        """Run a flux command in the instance, and return what it prints."""
        done = subprocess.run(
            ["flux"] + list(args),
            env=dict(os.environ, FLUX_URI=self.uri),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=READY,
            input=text,
        )
        if done.returncode != 0:
            raise RuntimeError(
                "flux {}: {}".format(" ".join(args), done.stderr.strip())
            )
        return done.stdout

    def append(self, key: str, text: str) -> None:
        """Append to a value in the KVS."""
        self.command("kvs", "put", "--append", "--raw", key + "=-", text=text)

    def begin(self, *args: str) -> "subprocess.Popen[str]":
        """Begin to run a flux command in the instance. Its errors can be read."""
        return subprocess.Popen(
            ["flux"] + list(args),
            env=dict(os.environ, FLUX_URI=self.uri),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def watch(self, name: str) -> None:
        """Begin to watch it; records go to the file ``name``."""
        watcher = os.path.join(os.path.dirname(__file__), "epilog-watch.py")
        self.command("python", watcher, "start", self.path(name))

    def judge(self, name: str, alive: bool, *options: str) -> List[str]:
        """End the watch, if the instance is alive, and return what it saw wrong."""
        watcher = os.path.join(os.path.dirname(__file__), "epilog-watch.py")
        command = "check" if alive else "judge"
        done = subprocess.run(
            [sys.executable, watcher, command] + list(options) + [self.path(name)],
            env=dict(os.environ, FLUX_URI=self.uri),
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        return done.stderr.splitlines()

    def memory(self) -> int:
        """Return the resident memory of the broker, in kB."""
        with open("/proc/{}/status".format(self.pid)) as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def stop(self) -> None:
        """Let it end properly. RuntimeError if it doesn't."""
        assert self.process and self.process.stdin
        self.process.stdin.close()
        code = self.process.wait(READY)
        self.gone()
        if code != 0:
            raise RuntimeError("the instance ended with code {}".format(code))

    def kill(self) -> None:
        """Crash it."""
        if self.process:
            if self.process.poll() is None:
                os.kill(self.pid or self.process.pid, signal.SIGKILL)
            self.process.wait(READY)
            self.gone()

    def gone(self) -> None:
        """Forget the process."""
        if self.process:
            for stream in (self.process.stdin, self.process.stdout):
                if stream and not stream.closed:
                    stream.close()
        self.process = None
        self.pid = 0
