# SPDX-License-Identifier: LGPL-3.0
"""The live tests, run on a patched flux-core and reported by pytest: t/, fluxion/, unit tests in C.

Of t/ the files that run are the tree's own, as are the unit tests in C: it has to hold the series
as it is here, and to be built. The tree is FLUX_CORE_DIR, or flux-core-epilog in the home folder;
those in fluxion/ want flux-sched too: FLUX_SCHED_DIR, or flux-sched there. CHECK_LIVE=no leaves
the live tests out. One pytest test is reported per TAP line. The hooks below are for conftest.py.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tap_run import Result, Run

PROJECT = Path(__file__).resolve().parent.parent
AT_A_TIME = 2  # files
LIMIT = float(os.environ.get("LIVE_LIMIT", 1800))  # seconds for one file
MODULE = "src/modules/.libs/job-manager.so"
SOURCES = "src/modules/job-manager"
UNIT_TESTS = PROJECT / SOURCES / "test"


def tree() -> Path | None:
    """Return the tree to run in, or None if there is none."""
    given = os.environ.get("FLUX_CORE_DIR")
    folder = Path(given) if given else Path.home() / "flux-core-epilog"
    return folder if given or folder.is_dir() else None


def stock_tree() -> Path:
    """Return where a tree without the series should be."""
    given = os.environ.get("FLUX_CORE_STOCK")
    return Path(given) if given else Path.home() / "flux-core-stock"


def left_out() -> str:
    """Return why no live test runs, if so."""
    if os.environ.get("CHECK_LIVE") == "no":
        return "CHECK_LIVE=no"
    if not tree():
        return (
            "no patched flux-core tree: apply the series to a clone, build it, and set"
            " FLUX_CORE_DIR (or put it in ~/flux-core-epilog)"
        )
    return ""


def sched_tree() -> Path | None:
    """Return the flux-sched tree to run with, or None if there is none."""
    given = os.environ.get("FLUX_SCHED_DIR")
    folder = Path(given) if given else Path.home() / "flux-sched"
    return folder if given or folder.is_dir() else None


def fluxion_left_out() -> str:
    """Return why no test runs on Fluxion, if so."""
    if left_out():
        return left_out()
    if not sched_tree():
        return (
            "no flux-sched tree: build it against the patched flux-core, and set FLUX_SCHED_DIR"
            " (or put it in ~/flux-sched)"
        )
    return ""


def fault(folder: Path) -> str:
    """Return what is wrong with the tree and the way out, or nothing."""
    command = [sys.executable, str(PROJECT / "scripts/series"), "verify", "--tree", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stdout + done.stderr).strip()
    paths = list((PROJECT / SOURCES).glob("*.[ch]"))
    why = not_built(folder, folder / MODULE, paths, "make")
    for path in sorted(UNIT_TESTS.glob("*.c")):
        inputs = [*paths, path, *UNIT_TESTS.glob("*.h")]
        why = why or not_built(folder, program(path, folder), inputs, "make check TESTS=")
    return why


def not_built(folder: Path, built: Path, paths: list[Path], make: str) -> str:
    """Return whether ``built`` is missing, or older than what it is made of, and the way out."""
    if not built.exists():
        return f"{folder}: {built.name} is not built: run make, and make check TESTS=, there"
    newest = max((folder / path.relative_to(PROJECT)).stat().st_mtime for path in paths)
    if newest > built.stat().st_mtime:
        return f"{folder}: {built.name} is older than its sources: run {make} there"
    return ""


def program(path: Path, folder: Path) -> Path:
    """Return what runs, in a tree, for a live test of ours."""
    if path.parent == UNIT_TESTS:
        return folder / SOURCES / f"test_{path.stem}.t"
    return folder / path.relative_to(PROJECT)


class Pool:
    """Runs files, a few at a time, in order; keeps the results of each for whoever asks."""

    def __init__(self, paths: list[Path], folder: Path) -> None:
        """Begin with the first few."""
        self.results: dict[Path, queue.Queue[Result | None]] = {one: queue.Queue() for one in paths}
        self.todo = list(paths)
        self.folder = folder
        self.running: set[Run] = set()
        self.lock = threading.Lock()
        self.fault = fault(folder)
        for _ in range(AT_A_TIME):
            threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        """Run files until there are none left."""
        while True:
            with self.lock:
                if not self.todo:
                    return
                path = self.todo.pop(0)
            try:
                self.run(path)
            except Exception as exc:
                self.results[path].put(Result("whole file", "failed", 0.0, f"{path}: {exc!r}"))
            finally:
                self.results[path].put(None)

    def run(self, path: Path) -> None:
        """Run one file of the tree."""
        if self.fault:
            self.results[path].put(Result("whole file", "failed", 0.0, self.fault))
            return
        if path.parent == PROJECT / "fluxion":
            run = Run(path, LIMIT, FLUX_CORE_DIR=str(self.folder), FLUX_SCHED_DIR=str(sched_tree()))
        else:
            run = Run(program(path, self.folder), LIMIT)
        with self.lock:
            self.running.add(run)
        for result in run.results():
            self.results[path].put(result)
        with self.lock:
            self.running.discard(run)

    def stop(self) -> None:
        """Stop what runs, and begin nothing new."""
        with self.lock:
            self.todo.clear()
            running = list(self.running)
        for run in running:
            run.stop("interrupted")

    def take(self, path: Path) -> Iterator[Result]:
        """Give the results of one file as they come."""
        while True:
            result = self.results[path].get()
            if result is None:
                return
            yield result


class LiveFile(pytest.File):
    """A file of ours that prints TAP."""

    def collect(self) -> Iterator[LiveItem]:
        """Its tests are not known before it runs."""
        yield LiveItem.from_parent(self, name="live")


class LiveItem(pytest.Item):
    """A run of such a file."""

    def pool(self) -> Pool:
        """Return the pool that runs all live files of the session."""
        config = self.config
        if not hasattr(config, "live_pool"):
            paths = [item.path for item in self.session.items if isinstance(item, LiveItem)]
            config.live_pool = Pool(paths, tree())
        return config.live_pool

    def report(self, result: Result) -> None:
        """Report one result as pytest does for a test."""
        nodeid = f"{self.parent.nodeid}::{result.name}"
        location = (self.parent.nodeid, None, result.name)
        longrepr = result.detail or None
        if result.outcome == "skipped":
            longrepr = (str(self.path), 0, f"Skipped: {result.detail}")
        report = pytest.TestReport(
            nodeid=nodeid,
            location=location,
            keywords={},
            outcome=result.outcome,
            longrepr=longrepr,
            when="call",
            duration=result.seconds,
        )
        self.ihook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        self.ihook.pytest_runtest_logreport(report=report)
        self.ihook.pytest_runtest_logfinish(nodeid=nodeid, location=location)

    def runtest(self) -> None:
        """Report all results of the file. No result is a failure."""
        count = 0
        for result in self.pool().take(self.path):
            if count:
                self.session.testscollected += 1  # it counted as one
            count += 1
            self.report(result)
        if not count:
            self.report(Result("whole file", "failed", 0.0, f"{self.path}: no test was reported"))


def is_live(path: Path) -> bool:
    """True if a file is a live test that can run here."""
    if path.parent == PROJECT / "fluxion":
        return path.suffix == ".t" and not fluxion_left_out()
    kinds = {PROJECT / "t": ".t", PROJECT / "t/python": ".py", UNIT_TESTS: ".c"}
    return kinds.get(path.parent) == path.suffix and not left_out()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LiveFile | None:
    """Collect our live tests, if there is a tree to run them in."""
    return LiveFile.from_parent(parent, path=file_path) if is_live(file_path) else None


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Run a live file, whose reports are many."""
    if not isinstance(item, LiveItem):
        return None
    item.runtest()
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave nothing running when interrupted."""
    pool = getattr(session.config, "live_pool", None)
    if pool:
        pool.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so if no live test ran."""
    if left_out():
        terminalreporter.write_line(f"live tests: not run: {left_out()}")
    elif fluxion_left_out():
        terminalreporter.write_line(f"tests on Fluxion: not run: {fluxion_left_out()}")
