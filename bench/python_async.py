# SPDX-License-Identifier: LGPL-3.0
"""Many outstanding releases through Python: time against plain events, and descriptors.

``python3 bench/python_async.py [RANKS]`` starts an instance of the patched tree (FLUX_CORE_DIR, or
flux-core-epilog in the home folder) with RANKS (2,000) fake ranks and a job that an action holds
whole. It lets go of them one at a time, without waiting in between, and does the same with plain
events (job-manager.post-event) of as many bytes. It prints ratios of times, median of PAIRS
alternating pairs, for answers that are waited for with the reactor and with get(), and how many
descriptors the process had at most. Exit status 1 if a bound is not met. With 10,000 ranks the
figures are much the same, but flux-core's KVS takes minutes to store so long an eventlog.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

RANKS = 2000
PAIRS = 3
RATIO_MAX = 3.0  # releases against plain events
SPARE = 16  # descriptors that a process may have beyond those that it began with
LIMIT = 600.0  # seconds for all of it


def descriptors() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def descriptor_limit(count: int) -> None:
    """Set how many descriptors this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def with_reactor(handle: Any, futures: list[Any]) -> int:
    """Wait for all futures with the reactor. Return how many descriptors there are then."""
    for future in futures:
        future.then(lambda future: future.get())
    handle.reactor_run()
    return descriptors()


def with_get(_handle: Any, futures: list[Any]) -> int:
    """Wait for all futures with get(). Return how many descriptors there are then."""
    for future in futures:
        future.get()
    return descriptors()


class Bench:
    """A job that is held whole, and what is sent about it."""

    def __init__(self, ranks: int) -> None:
        """Start the job and hold it."""
        import flux
        import flux.job

        self.handle = flux.Flux()
        self.ranks = ranks
        self.most = 0  # descriptors after releases, beyond those at the start
        jobspec = flux.job.JobspecV1.from_command(["true"], num_nodes=ranks, num_tasks=ranks)
        jobspec.setattr("system.exec.test.run_duration", "1h")
        self.jobid = int(flux.job.submit(self.handle, jobspec, urgency=0, waitable=True))
        self.hold()

    def hold(self) -> None:
        """Let the job run and end, held."""
        import flux.job

        rpc = self.handle.rpc("job-manager.urgency", {"id": self.jobid, "urgency": 16})
        rpc.get()
        for event in flux.job.event_watch(self.handle, self.jobid):
            if event.name == "start":
                flux.job.epilog_start(self.handle, self.jobid, "bench")
                flux.job.cancel(self.handle, self.jobid)
            if event.name == "release":
                return

    def releases(self) -> list[Any]:
        """Let go of each rank."""
        from flux.job import epilog_finish_async

        return [
            epilog_finish_async(self.handle, self.jobid, "bench", ranks=[rank])
            for rank in range(self.ranks)
        ]

    def events(self) -> list[Any]:
        """Post as many events that say nothing."""
        return [
            self.handle.rpc(
                "job-manager.post-event.post",
                {
                    "id": self.jobid,
                    "name": "mark",
                    "context": {"description": "bench", "status": 0, "ranks": str(rank)},
                },
            )
            for rank in range(self.ranks)
        ]

    def measure(self, send: Callable[[], list[Any]], wait: Callable[..., int], limit: int) -> float:
        """Send all, wait for all, and return the seconds that it took."""
        before = descriptors()
        descriptor_limit(before + limit)
        begin = time.perf_counter()
        after = wait(self.handle, send())
        seconds = time.perf_counter() - begin
        if send == self.releases:
            self.most = max(self.most, after - before)
        return seconds


def inside(ranks: int) -> int:
    """Measure. Run in an instance."""
    failed = 0
    for wait in (with_reactor, with_get):
        ratios = []
        seconds = []
        for _ in range(PAIRS):
            bench = Bench(ranks)
            events = bench.measure(bench.events, wait, ranks + 64)
            releases = bench.measure(bench.releases, wait, SPARE)
            ratios.append(releases / events)
            seconds.append(releases)
            end(bench)
            failed |= bench.most > SPARE
        ratio = statistics.median(ratios)
        print(
            f"python {ranks} releases {wait.__name__}: {ratio:.2f} of plain events"
            f" ({statistics.median(seconds):.2f} s), {bench.most} more descriptors",
            flush=True,
        )
        failed |= ratio > RATIO_MAX
    return int(failed)


def end(bench: Bench) -> None:
    """End the job."""
    import flux.job

    flux.job.epilog_finish(bench.handle, bench.jobid, "bench")
    flux.job.wait(bench.handle, bench.jobid)


def tree() -> Path:
    """Return the patched tree; without one, say so and end."""
    folder = Path(os.environ.get("FLUX_CORE_DIR") or Path.home() / "flux-core-epilog")
    if not (folder / "src/cmd/flux").exists():
        print(f"python_async: not measured: {folder}: no patched flux-core: set FLUX_CORE_DIR")
        sys.exit(0)
    return folder


def main() -> int:
    """Start an instance and measure there."""
    ranks = int(sys.argv[-1]) if sys.argv[-1].isdigit() else RANKS
    if "inside" in sys.argv:
        return inside(ranks)
    command = [str(tree() / "src/cmd/flux"), "start", f"--conf=fake-resources.nnodes={ranks}"]
    command += ["--conf=fake-resources.cores-per-node=1"]
    command += ["flux", "python", os.path.abspath(__file__), "inside", str(ranks)]
    return subprocess.run(command, timeout=LIMIT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
