# SPDX-License-Identifier: LGPL-3.0
"""Run one test file on a flux-core tree and tell what became of each of its tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tap.parser import Parser

KEEP_LINES = 200  # of the log of a test that failed
GRACE = 20.0  # seconds between SIGTERM and SIGKILL


class Result(NamedTuple):
    """A TAP line: outcome is passed, failed or skipped; detail says why if it isn't passed."""

    name: str
    outcome: str
    seconds: float
    detail: str


class Run:
    """One run of a file. results() may be called once; stop() at any time, from any thread.

    What it leaves behind is in a folder of its own, so that runs don't meet, and goes away.
    """

    def __init__(self, path: Path, limit: float, **settings: str) -> None:
        """Start the file, with more settings in its environment.

        A sharness file or a test program runs in its own folder, a Python file as the tree's flux
        python runs it in t/. It is stopped after ``limit`` seconds.
        """
        self.path = path
        self.log = path.with_suffix(".output")
        self.log.unlink(missing_ok=True)
        self.stopped = ""
        self.number = 0  # of TAP lines so far
        self.failed = 0  # of them
        self.plan: int | None = None
        self.problem = ""
        self.other: deque[str] = deque(maxlen=KEEP_LINES)  # what is no TAP
        self.scratch = tempfile.mkdtemp(prefix="live-")
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        env.pop("FLUX_URI", None)
        env.update(settings)
        command = ["sh", f"./{path.name}", "--logfile", f"--root={self.scratch}"]
        folder = path.parent
        if path.suffix == ".py":
            folder = path.parent.parent
            command = ["../src/cmd/flux", "python", f"{path.parent.name}/{path.name}"]
        elif path.name.startswith("test_"):
            command = [f"./{path.name}"]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.timer = threading.Timer(limit, self.stop, [f"stopped after {limit:g} s"])
        self.timer.start()

    def stop(self, why: str) -> None:
        """Stop the run, and all that it started."""
        self.stopped = self.stopped or why
        self.kill(signal.SIGTERM)
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.kill(signal.SIGKILL)

    def kill(self, signum: int) -> None:
        """Signal the run's processes, if there are any left."""
        try:
            os.killpg(self.process.pid, signum)
        except ProcessLookupError:
            pass

    def results(self) -> Iterator[Result]:
        """Give each TAP line as it comes; then one more for the file if that is not all right."""
        parser = Parser()
        start = time.monotonic()
        assert self.process.stdout
        for text in self.process.stdout:
            line = parser.parse_line(text.rstrip())
            if line.category == "test":
                now = time.monotonic()
                yield self.take(line, now - start)
                start = now
            elif line.category == "plan":
                self.plan = line.expected_tests
                if line.skip:
                    yield Result("all", "skipped", 0.0, line.directive.text)
            elif line.category == "bail":
                self.problem = f"bailed out: {line.reason}"
            elif line.category == "unknown":
                self.other.append(text.rstrip())
        code = self.process.wait()
        self.timer.cancel()
        shutil.rmtree(self.scratch, ignore_errors=True)
        why = self.judge(code)
        if why:
            detail = "\n".join([f"{self.path.name}: {why}", *self.other, self.tail(None)])
            yield Result("whole file", "failed", time.monotonic() - start, detail)

    def take(self, line, seconds: float) -> Result:
        """Make a result of a TAP line."""
        self.number += 1
        if line.number != self.number:
            self.problem = self.problem or f"test {line.number} follows test {self.number - 1}"
        name = f"{self.number} {line.description.lstrip('- ')}"
        if line.skip or line.todo:
            return Result(name, "skipped", seconds, line.directive.text)
        if line.ok:
            return Result(name, "passed", seconds, "")
        self.failed += 1
        return Result(name, "failed", seconds, self.tail(self.number))

    def judge(self, code: int) -> str:
        """Say what is wrong with the stream as a whole, or nothing."""
        if self.stopped:
            return self.stopped
        if self.plan is None:
            return f"the TAP stream was cut off after test {self.number} (exit code {code})"
        if self.plan != self.number:
            return f"{self.number} tests were reported, {self.plan} planned (exit code {code})"
        if code != 0 and not self.failed:
            return f"exit code {code}, but no test failed"
        if code == 0 and self.failed:
            return f"exit code 0, but {self.failed} tests failed"
        return self.problem

    def tail(self, number: int | None) -> str:
        """Return what the log says of a test, or its end."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return f"{self.log}: no log"
        marks = [index for index, line in enumerate(lines) if re.match(r"(not )?ok \d+ ", line)]
        if number is not None and len(marks) >= number:
            end = marks[number - 1] + 1
            begin = marks[number - 2] + 1 if number > 1 else 0
            lines = lines[begin:end]
        return "\n".join([f"{self.log}:", *lines[-KEEP_LINES:]])
