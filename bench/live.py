# SPDX-License-Identifier: LGPL-3.0
"""What partial release costs on a live instance, against flux-core without it.

``python3 bench/live.py [MEASURE...]`` starts one instance of a patched tree and one of a stock
tree, and takes turns between them, so that what else the machine does hits both. The trees are
FLUX_CORE_DIR (or flux-core-epilog in the home folder) and FLUX_CORE_STOCK (or flux-core-stock).
The measures are the functions of ``MEASURES``; without arguments all are taken, in about six
minutes on a quiet machine. Each figure is printed with its bound, if it has one, and "holds" or
"OVER". Exit status is 0 all the same: figures depend on the machine. It is 1 if a measure could
not be taken.
"""

from __future__ import annotations

import importlib
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Callable

from live_instance import PLUGIN, Instance, InstanceError

PROJECT = Path(__file__).resolve().parent.parent

PAIRS = 25  # of throughput runs
JOBS = 200  # in a throughput run
THROUGHPUT_MIN = 0.98  # patched against stock

RANKS = 16384  # of the machine that large jobs run on
BURSTS = {256: 25, 1024: 15, 4096: 5, 16384: 2}  # events, and how many pairs of bursts
BURST_MAX = 1.3  # partial finishes against plain events
FLAT_MAX = 1.2  # that ratio with most events against that with fewest

FINISHES = 40  # to take the time from, of each kind
BATCH = 0.010  # seconds: an event batch, the most that partial release may add

MOVE_RANKS = 256
MOVE_SECONDS = 10.0
RETURNED_MIN = 0.99

PERILOG_RANKS = 1024
PERILOG_SECONDS = 4.0
PERILOG_DELAYS = {"at the end": -1.0, "release-after=1s": 1.0, "release-after=0": 0.0}

HELD_RANKS = 1024
HELD_JOBS = 1000
LET_GO = "0-255,512-767"  # in the first part of the machine
RESTARTS = 5


def say(what: str, value: str, bound: str = "", holds: bool = True) -> None:
    """Print a figure."""
    verdict = f" (bound {bound}: {'holds' if holds else 'OVER'})" if bound else ""
    print(f"{what}: {value}{verdict}", flush=True)


def spread(values: list[float], unit: str = "", digits: int = 3) -> str:
    """Return the median of some figures, and the least and the most."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def in_turn(count: int, one: Callable[[], float], other: Callable[[], float]) -> list[float]:
    """Take ``count`` pairs, each the other way round than the last; return one / other of each."""
    ratios = []
    for number in range(count):
        if number % 2:
            first = one()
            ratios.append(first / other())
        else:
            second = other()
            ratios.append(one() / second)
    return ratios


def throughput(patched: Instance, stock: Instance) -> None:
    """Jobs per second, without any epilog."""
    for instance in (patched, stock):
        instance.ask("machine", ranks=2, cores=64)
        instance.ask("run_jobs", count=JOBS)
    cpu: dict[Instance, list[float]] = {patched: [], stock: []}

    def take(instance: Instance) -> float:
        result = instance.ask("run_jobs", count=JOBS)
        cpu[instance].append(result["cpu"])
        return JOBS / result["seconds"]

    ratios = in_turn(PAIRS, lambda: take(patched), lambda: take(stock))
    say(
        f"throughput without epilogs, patched/stock, {PAIRS} pairs of {JOBS} jobs",
        spread(ratios),
        f"{THROUGHPUT_MIN} or more",
        statistics.median(ratios) >= THROUGHPUT_MIN,
    )
    each = {instance: statistics.median(cpu[instance]) * 1e6 / JOBS for instance in cpu}
    say("CPU of job-manager for each", f"{each[patched]:.0f} us, stock {each[stock]:.0f} us")


def bursts(patched: Instance, stock: Instance) -> None:
    """Partial finishes of one rank each, posted at once by one client, against plain events.

    The CPU figures are with what it takes to free all ranks, in parts or in one piece.
    """
    patched.ask("machine", ranks=RANKS)
    patched.ask("burst", ranks=min(BURSTS), partial=True, trace=True)
    ratios = [burst(patched, count, pairs) for count, pairs in BURSTS.items()]
    flat = ratios[-1] / ratios[0]
    say("growth of that ratio", f"{flat:.2f}", f"{FLAT_MAX} or less", flat <= FLAT_MAX)


def burst(patched: Instance, count: int, pairs: int) -> float:
    """Take pairs of bursts of ``count`` events; return the median ratio of seconds."""
    results: dict[bool, list[dict]] = {True: [], False: []}

    def take(partial: bool) -> float:
        results[partial].append(patched.ask("burst", ranks=count, partial=partial))
        return results[partial][-1]["seconds"]

    ratios = in_turn(pairs, lambda: take(True), lambda: take(False))
    ratio = statistics.median(ratios)
    what = f"{count:5} partial finishes"
    say(
        f"{what} / plain events, seconds, {pairs} pairs",
        spread(ratios),
        f"{BURST_MAX} or less",
        ratio <= BURST_MAX,
    )
    for module in ("job-manager", "sched-simple"):
        cost = {
            partial: statistics.median(one["cpu"][module] for one in ones) * 1e6 / count
            for partial, ones in results.items()
        }
        say(f"{what}, CPU of {module}", f"{cost[True]:.1f} us each, plain {cost[False]:.1f} us")
    frees = [one["frees"] for one in results[True]]
    say(f"{what}, sched.free messages", spread(frees, "", 0))
    return ratio


def latency(patched: Instance, stock: Instance) -> None:
    """Time from a finish event to its sched.free."""
    kinds = {
        "stock": (stock, False),
        "patched, no ranks key": (patched, False),
        "patched, partial": (patched, True),
    }
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for instance in (patched, stock):
        instance.ask("machine", ranks=2)
    for _ in range(FINISHES):
        for kind, (instance, partial) in kinds.items():
            times[kind].append(1e3 * instance.ask("last_finish", ranks=2, partial=partial))
    base = statistics.median(times["stock"])
    for kind, values in times.items():
        say(f"finish to sched.free, {kind}, {FINISHES} jobs", spread(values, " ms", 2))
    for kind in list(kinds)[1:]:
        more = statistics.median(times[kind]) - base
        bound = BATCH * 1e3
        say(f"{kind}, more than stock", f"{more:.2f} ms", f"{bound:.0f} ms", more <= bound)


def movement(patched: Instance, stock: Instance) -> None:
    """Node-seconds that come back while data moves off the nodes of a job."""
    patched.ask("machine", ranks=MOVE_RANKS)
    result = patched.ask("move_data", ranks=MOVE_RANKS, seconds=MOVE_SECONDS)
    part = result["returned"] / result["possible"]
    say(
        f"data movement, {MOVE_RANKS} nodes, {MOVE_SECONDS:.0f} s",
        f"{result['returned']:.1f} of {result['possible']:.1f} node-seconds: {part:.4f}",
        f"{RETURNED_MIN} or more",
        part >= RETURNED_MIN,
    )


def build_mock(tree: Path) -> Path:
    """Compile perilog_mock.c against a patched tree; return the plugin."""
    plugin = PROJECT / "build/perilog-mock.so"
    plugin.parent.mkdir(exist_ok=True)
    include = [tree, tree / "config", tree / "src/include"]
    command = ["cc", "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-DHAVE_CONFIG_H"]
    command += [f"-I{path}" for path in include]
    command += ["-o", str(plugin), str(PROJECT / "bench/perilog_mock.c")]
    command += [str(tree / "src/common/.libs/libflux-internal.a"), "-ljansson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstanceError(f"perilog_mock.c: {done.stderr}")
    return plugin


def perilog(patched: Instance, stock: Instance) -> None:
    """The administrative epilog by rank, with processes that are mocks."""
    patched.ask("load", plugin=str(build_mock(patched.tree)))
    patched.ask("machine", ranks=PERILOG_RANKS)
    what = f"per-rank epilog, {PERILOG_RANKS} nodes, {PERILOG_SECONDS:.0f} s"
    for name, delay in PERILOG_DELAYS.items():
        result = patched.ask("perilog", ranks=PERILOG_RANKS, seconds=PERILOG_SECONDS, delay=delay)
        say(
            f"{what}, {name}",
            f"{result['events']} events, {result['frees']} sched.free,"
            f" {result['seconds']:.2f} s, {result['held']:.0f} node-seconds",
        )


def restart(patched: Instance, stock: Instance) -> None:
    """Restart and memory with many jobs in their epilog. The last measure: no job runs after."""
    kinds = {"patched": (patched, LET_GO), "stock": (stock, None)}
    before = {}
    for kind, (instance, let_go) in kinds.items():
        instance.ask("machine", ranks=HELD_RANKS)
        before[kind] = instance.ask("prepare", ranks=HELD_RANKS, count=HELD_JOBS, let_go=let_go)
        instance.ask("restart")
    what = f"{HELD_JOBS} jobs of {HELD_RANKS} ranks in their epilog"
    results: dict[str, list[dict]] = {kind: [] for kind in kinds}

    def take(kind: str) -> float:
        result = kinds[kind][0].ask("restart")
        if result["jobs"] != HELD_JOBS:
            raise InstanceError(f"{kind}: hello told of {result['jobs']} jobs, not {HELD_JOBS}")
        results[kind].append(result)
        return result["replay"] + result["hello"]

    ratios = in_turn(RESTARTS, lambda: take("patched"), lambda: take("stock"))
    for kind, ones in results.items():
        times = [one["replay"] + one["hello"] for one in ones]
        cpu = statistics.median(one["cpu"] for one in ones)
        say(
            f"restart and hello, {what}, {kind}",
            f"{spread(times, ' s', 2)}, CPU of job-manager {cpu:.2f} s",
        )
    say("restart and hello, patched (half of the ranks gone) / stock", spread(ratios, "", 2))
    for kind, (instance, _let_go) in kinds.items():
        each = (instance.ask("memory") - before[kind]["memory"]) / HELD_JOBS
        say(f"job manager memory for each, {kind}", f"{each / 1024:.1f} KiB")


MEASURES = [throughput, bursts, latency, movement, perilog, restart]


def trees() -> tuple[Path, Path] | str:
    """Return the patched and the stock tree, or what is missing."""
    sys.path.insert(0, str(PROJECT / "tests"))
    live_tests = importlib.import_module("live")
    patched = live_tests.tree()
    stock = live_tests.stock_tree()
    if not patched:
        return live_tests.left_out()
    if not (patched / PLUGIN).exists():
        return f"{patched}: no {PLUGIN}: run make check TESTS= there"
    if not (stock / "src/cmd/flux").exists():
        return (
            "no stock flux-core tree: build v0.88.0 as it is, and set FLUX_CORE_STOCK"
            " (or put it in ~/flux-core-stock)"
        )
    fault = live_tests.fault(patched)
    if fault:
        print(f"bench/live.py: measured all the same: {fault}", file=sys.stderr)
    return patched, stock


def main() -> int:
    """Take the measures named, or all."""
    wanted = sys.argv[1:]
    known = {measure.__name__: measure for measure in MEASURES}
    for name in wanted:
        if name not in known:
            print(f"bench/live.py: no measure {name}: {', '.join(known)}", file=sys.stderr)
            return 1
    found = trees()
    if isinstance(found, str):
        print(f"live: not measured: {found}")
        return 0
    patched_tree, stock_tree = found
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the instances are ended
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} from others", flush=True)
    plugin = patched_tree / PLUGIN
    try:
        with Instance(patched_tree, plugin) as patched, Instance(stock_tree, plugin) as stock:
            for name, measure in known.items():
                if not wanted or name in wanted:
                    measure(patched, stock)
    except InstanceError as exc:
        print(f"bench/live.py: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
