# SPDX-License-Identifier: LGPL-3.0
"""Run an epilog per rank on fake resources: see how it lets go of very many nodes.

    flux python epilog-run-scale.py JOB SECONDS

What flux epilog run --per-rank does when a job has ended, with commands that are not run: they end
well one after the other, within SECONDS. If that is "inf" they do not end, can't be killed, and
are given 0.1s. Prints the seconds that it took, and exits as flux epilog run does.
"""

import sys
import time

import flux
from flux.job.epilog_run import EpilogRun

TICK = 0.01  # seconds


class FakeCommands:
    """Stand in for RankCommands."""

    seconds = 0.0

    def __init__(self, handle, _cmdline, _env, _on_output, on_end):
        self.on_end = on_end
        self.ranks = []
        self.total = 0
        self.begun = time.monotonic()
        self.timer = handle.timer_watcher_create(TICK, self.tick, repeat=TICK).start()

    def start(self, rank):
        """Begin on a rank."""
        self.ranks.append(rank)
        self.total += 1

    def kill(self, rank, signum):
        """Have no effect."""

    def tick(self, *_args):
        """End on ranks whose time has come."""
        part = (time.monotonic() - self.begun) / (self.seconds or TICK)
        while self.ranks and self.total - len(self.ranks) < part * self.total:
            self.on_end(self.ranks.pop(0), 0, None)


class FakeRun(EpilogRun):
    """Run nothing."""

    transport = FakeCommands


def main():
    """Run, and tell how long that took."""
    FakeCommands.seconds = float(sys.argv[2])
    run = FakeRun(
        flux.Flux(),
        sys.argv[1],
        ["fake"],
        per_rank=True,
        timeout=0.1 if FakeCommands.seconds == float("inf") else None,
    )
    start = time.monotonic()
    well = run.run()
    print(f"{time.monotonic() - start:.3f}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
