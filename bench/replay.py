# SPDX-License-Identifier: LGPL-3.0
"""Replay of many logs: time against only parsing the same bytes, and peak memory.

``python3 bench/replay.py [LOGS]`` writes LOGS (20,000) eventlogs of mixed kinds to a scratch
folder, then prints the ratio of CPU times (best of ROUNDS each) and the peak memory for a tenth
of the logs and for all of them. Both read every file, R too, and both decode every line. Exit
status 1 if a bound is not met.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List

import msgspec

from epilog_replay import cli

LOGS = 20000
ROUNDS = 5
RATIO_MAX = 3.0  # replay against parsing
GROWTH_MAX = 1.1  # peak memory of all logs against a tenth of them

# What the job of a log goes through, and how many of 100 logs are like that.
KINDS: Dict[str, int] = {
    "plain": 30,
    "epilog": 25,
    "two-epilogs": 15,
    "part-by-part": 8,
    "holds-none": 5,
    "failed": 7,
    "hangs": 5,
    "pending": 5,
}

_measure = """
import sys
from epilog_replay import cli
cli.main(sys.argv[1:])
status = open("/proc/self/status").read().split()
print(status[status.index("VmHWM:") + 1], file=sys.stderr)
"""


def _events(kind: str, nranks: int, annotated: bool, rng: random.Random) -> Iterator[dict]:
    """Give the events of one job as (name, context) objects without a time."""
    yield {"name": "submit", "context": {"userid": 1000, "urgency": 16, "flags": 0, "version": 1}}
    yield {"name": "jobspec-update", "context": {"attributes.system.bank": "bank0"}}
    yield {"name": "validate"}
    yield {"name": "depend"}
    yield {"name": "priority", "context": {"priority": rng.randrange(100000)}}
    if kind == "pending":
        yield {"name": "flux-restart"}
        yield {"name": "priority", "context": {"priority": 16}}
        return
    summary = f"rank[0-{nranks - 1}]/core[0-95]" if nranks > 1 else "rank0/core[0-95]"
    sched = {"resource_summary": summary} if annotated else {"queue": "batch"}
    yield {"name": "alloc", "context": {"annotations": {"sched": sched}}}
    prologs = ["job-manager.prolog", "cray-pals-port-distributor"][: rng.randrange(3)]
    for name in prologs:
        yield {"name": "prolog-start", "context": {"description": name}}
    for name in reversed(prologs):
        yield {"name": "prolog-finish", "context": {"description": name, "status": 0}}
    yield {"name": "start"}
    yield {"name": "memo", "context": {"uri": f"ssh://node{rng.randrange(999)}/run/flux/local-0"}}
    if kind == "failed":
        note = "task 0: start failed: app: No such file or directory"
        context = {"type": "exec", "severity": 0, "userid": 1000, "note": note}
        yield {"name": "exception", "context": context}
    yield {"name": "finish", "context": {"status": 0}}
    epilogs = {"plain": [], "epilog": ["job-manager.epilog"], "failed": ["job-manager.epilog"]}
    names = epilogs.get(kind, ["job-manager.epilog", "dws-epilog"])
    for name in names:
        context = {"description": name}
        if kind == "holds-none" and name == "dws-epilog":
            context["ranks"] = ""
        yield {"name": "epilog-start", "context": context}
    yield {"name": "release", "context": {"ranks": "all", "final": True}}
    if kind == "part-by-part":
        for rank in range(min(nranks, 8)):
            context = {"description": "dws-epilog", "status": 0, "ranks": str(rank)}
            yield {"name": "epilog-finish", "context": context}
    for name in names[:1] if kind == "hangs" else names:
        yield {"name": "epilog-finish", "context": {"description": name, "status": 0}}
    if kind != "hangs":
        yield {"name": "free"}
        yield {"name": "clean"}


def write_logs(folder: Path, count: int) -> None:
    """Write ``count`` logs to ``folder``; a third with an R beside, a third annotated."""
    rng = random.Random(20230630)
    kinds = rng.choices(list(KINDS), list(KINDS.values()), k=count)
    for index, kind in enumerate(kinds):
        nranks = rng.choice((1, 1, 2, 4, 16, 256))
        timestamp = 1.7e9 + rng.random() * 1e7
        lines: List[str] = []
        for event in _events(kind, nranks, index % 3 == 1, rng):
            timestamp = round(timestamp + rng.random() * 10, 6)
            lines.append(json.dumps({"timestamp": timestamp, **event}, separators=(",", ":")))
        (folder / f"{index:06d}.eventlog").write_text("\n".join(lines) + "\n")
        if index % 3 == 0:
            R_lite = [{"rank": f"0-{nranks - 1}" if nranks > 1 else "0", "children": {}}]
            R_lite[0]["children"] = {"core": "0-95", "gpu": "0-3"}
            nodes = [f"node[0-{nranks - 1}]" if nranks > 1 else "node0"]
            execution = {"R_lite": R_lite, "nodelist": nodes, "starttime": 0, "expiration": 0}
            R = {"version": 1, "execution": execution}
            (folder / f"{index:06d}.R.json").write_text(json.dumps(R))


def parse_only(folder: Path) -> int:
    """Read every file and parse every line of it; return the number of lines."""
    decode = msgspec.json.Decoder().decode
    count = 0
    for name in sorted(os.listdir(folder)):
        with open(folder / name, "rb") as file:
            data = file.read()
        if name.endswith(".R.json"):
            decode(data)
            continue
        for line in data.splitlines():
            decode(line)
            count += 1
    return count


def replay_all(folder: Path, *options: str) -> None:
    """Run the command in this process, its output thrown away."""
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        cli.main([*options, str(folder)])


def peak_kib(folder: Path, *options: str) -> int:
    """Return the peak memory of the command, in KiB, in a process of its own."""
    argv = [sys.executable, "-c", _measure, *options, str(folder)]
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return int(done.stderr.split()[-1])


def seconds(work, *args) -> float:
    """Return the CPU time that a call takes: other programs don't count."""
    start = time.process_time()
    work(*args)
    return time.process_time() - start


def main() -> int:
    """Measure and print; return 1 if a bound is not met."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else LOGS
    with tempfile.TemporaryDirectory() as scratch:
        small, large = Path(scratch) / "small", Path(scratch) / "large"
        for folder, number in ((small, count // 10), (large, count)):
            folder.mkdir()
            write_logs(folder, number)
        lines = parse_only(large)
        print(f"{count:,} logs, {lines:,} events")
        met = True
        for options in ((), ("--json",)):
            rounds = [
                (seconds(parse_only, large), seconds(replay_all, large, *options))
                for _ in range(ROUNDS)
            ]
            parse, replay = (min(column) for column in zip(*rounds))
            ratio = replay / parse
            peaks = [peak_kib(folder, *options) for folder in (small, large)]
            growth = peaks[1] / peaks[0]
            met = met and ratio <= RATIO_MAX and growth <= GROWTH_MAX
            print(
                f"{' '.join(options) or 'text':6} parse {parse:.3f} s, replay {replay:.3f} s:"
                f" ratio {ratio:.2f} (bound {RATIO_MAX}); peak {peaks[0]:,} KiB for"
                f" {count // 10:,} logs, {peaks[1]:,} KiB for {count:,}: ratio {growth:.3f}"
                f" (bound {GROWTH_MAX})"
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
