# SPDX-License-Identifier: LGPL-3.0
"""A Flux instance of one tree, asked to do things from outside.

The instance is a single broker that runs live_agent.py. Question and answer are a line of JSON
each. An instance that does not answer is ended, and so are its processes.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

AGENT = Path(__file__).resolve().with_name("live_agent.py")
PLUGIN = "t/job-manager/plugins/.libs/epilog-hold.so"
LIMIT = 600.0  # seconds for one answer


class InstanceError(Exception):
    """An instance could not do what it was asked."""


class Instance:
    """A running instance of a built flux-core tree. Use as a context manager."""

    def __init__(self, tree: Path, plugin: Path) -> None:
        """Start it. ``plugin`` is epilog-hold.so, which any tree can load."""
        command = [tree / "src/cmd/flux", "start", tree / "src/cmd/flux", "python", AGENT, plugin]
        env = {**os.environ, "FLUX_DISABLE_JOB_CLEANUP": "t"}
        self.tree = tree
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        self.answers: queue.Queue[str] = queue.Queue()
        self.log: list[str] = []
        self.readers = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def _read_answers(self) -> None:
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.rstrip())

    def ask(self, what: str, **args: Any) -> Any:
        """Call a function of the agent and return what it returned. Raises InstanceError."""
        try:
            self.process.stdin.write(json.dumps({"what": what, "args": args}) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=LIMIT)
        except OSError:
            line = ""
        except queue.Empty:
            raise InstanceError(f"{self.tree}: {what}: no answer in {LIMIT:.0f} s") from None
        if not line:
            self.process.wait(LIMIT)
            last = "; ".join(self.log[-3:])
            raise InstanceError(f"{self.tree}: {what}: the instance ended: {last}")
        answer = json.loads(line)
        if "error" in answer:
            raise InstanceError(f"{self.tree}: {what}: {answer['error']}")
        return answer["result"]

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *exc: object) -> None:
        """End it: in order if all went well, else at once."""
        self.process.stdin.close()
        try:
            if exc[0]:
                raise subprocess.TimeoutExpired("flux", 0)
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if "LIVE_LOG" in os.environ:
            print("\n".join(self.log), file=sys.stderr)
