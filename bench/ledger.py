# SPDX-License-Identifier: LGPL-3.0
"""Does a call to the ledger cost what it changes, not what the job has?

A job of 16,384 ranks is let go of one rank at a time, and one of 1,024; the cost of a partial
finish (text read, rank let go of, handoff) may differ by 1.3 times at most. Runs bench/ledger.c
with the stand-in for libflux-idset, and with the real one where FLUX_CORE_DIR names a built
flux-core tree. Exit status 1 if the stand-in's ratio is over the limit.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

FEW, MANY = 1024, 16384  # ranks
LIMIT = 1.3  # cost per call with MANY over that with FEW
RUNS = 21  # pairs, by turns, so that a busy machine slows both; the median counts

CC = os.environ.get("CC", "cc")
SOURCES = [PROJECT / "src/modules/job-manager/epilog.c", PROJECT / "bench/ledger.c"]


def compile_bench(program: Path, flags: list[str]) -> None:
    """Compile the benchmark with these include directories and libraries."""
    command = [CC, "-std=gnu11", "-O2", *map(str, SOURCES), *flags, "-o", str(program)]
    subprocess.run(command, check=True)


def standin_flags() -> list[str]:
    """Return how to build against the stand-in."""
    standin = PROJECT / "standin"
    return [f"-I{standin}", f"-I{PROJECT}", str(standin / "idset.c")]


def flux_flags(tree: Path) -> list[str]:
    """Return how to build against a built flux-core tree."""
    common = tree / "src/common"
    return [
        "-DHAVE_CONFIG_H",
        *(f"-I{path}" for path in (PROJECT, tree, tree / "config", tree / "src/include")),
        *(f"-L{common / '.libs'}", f"-Wl,-rpath,{common / '.libs'}"),
        *("-lflux-core", "-lflux-idset", str(common / ".libs/libflux-internal.a"), "-ljansson"),
    ]


def cost(program: Path, ranks: int, actions: int) -> float:
    """Return nanoseconds per partial finish of one run."""
    command = [str(program), str(ranks), str(actions)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure(program: Path, name: str, actions: int) -> float:
    """Print the two costs and their ratio; return the ratio."""
    runs = [(cost(program, FEW, actions), cost(program, MANY, actions)) for _ in range(RUNS)]
    few, many = (statistics.median(column) for column in zip(*runs))
    ratio = statistics.median(many / few for few, many in runs)
    print(
        f"ledger, {name}, {actions} action{'s' if actions > 1 else ''}: "
        f"{few:.0f} ns a call at {FEW} ranks, {many:.0f} ns at {MANY}: ratio {ratio:.2f}"
    )
    return ratio


def main() -> int:
    """Compile and measure; return 1 if the limit is passed."""
    tree = os.environ.get("FLUX_CORE_DIR")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "ledger"
        compile_bench(program, standin_flags())
        worst = max(measure(program, "stand-in idset", actions) for actions in (1, 2))
        if tree:
            compile_bench(program, flux_flags(Path(tree)))
            for actions in (1, 2):
                measure(program, "flux-core's idset", actions)
    if worst > LIMIT:
        print(f"ledger: ratio {worst:.2f} is over {LIMIT}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
