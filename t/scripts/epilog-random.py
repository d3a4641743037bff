# SPDX-License-Identifier: LGPL-3.0
"""Play random sequences of epilog events, and all that may get in their way.

    flux python epilog-random.py --plugin FILE [--seed N] [--count N] [--first N]
    flux python epilog-random.py --plugin FILE --seed N --only K
    flux python epilog-random.py --plugin FILE --replay STEPS

Starts an instance of its own in --folder. Each answer and each event of each job is
held against epilog_model.py. On failure the steps are shrunk, and left in
--folder/failed.steps for --replay. FILE is epilog-hold.so.
"""

import argparse
import os
import random
import shutil
import sys
import time

import epilog_player
import epilog_sequence
from epilog_model import Wrong

PATIENCE = 60.0  # seconds
SHRINK_PATIENCE = 15.0


def attempt(args, source, patience, name):
    """Play in a new folder. Return the player and what went wrong, if anything."""
    folder = os.path.join(args.folder, name)
    shutil.rmtree(folder, ignore_errors=True)
    plugins = ["alloc-check.so", "perilog.so", args.plugin]
    player = epilog_player.Player(folder, plugins, patience)
    try:
        player.play(source)
    except Wrong as exc:
        player.abandon()
        return player, exc
    except BaseException:
        player.abandon()
        raise
    return player, None


def shrink(args, steps, wrong):
    """Return fewer steps that go wrong in the same way, as far as time permits."""
    end = time.monotonic() + args.shrink

    def fails(trial):
        if time.monotonic() > end:
            return False
        source = epilog_player.Listed(trial)
        return any(
            exc and exc.kind == wrong.kind
            for exc in [attempt(args, source, SHRINK_PATIENCE, "shrink")[1]]
        )

    if not fails(steps):
        print("it does not go wrong again when played in the same order")
        return steps
    return epilog_sequence.shrink(steps, fails)


def main():
    """Play what the command line says; exit 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="epilog-random.py")
    parser.add_argument("--plugin", required=True, metavar="FILE")
    parser.add_argument("--folder", default="random", metavar="DIR")
    parser.add_argument("--seed", type=int, help="default: a random one")
    parser.add_argument("--count", type=int, default=100, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N")
    parser.add_argument("--width", type=int, default=20, metavar="N")
    parser.add_argument("--only", type=int, metavar="K")
    parser.add_argument("--replay", metavar="STEPS")
    parser.add_argument(
        "--shrink", type=float, default=300, metavar="S", help="seconds; 0: don't"
    )
    args = parser.parse_args()
    args.folder = os.path.abspath(args.folder)
    args.plugin = os.path.abspath(args.plugin)
    seed = args.seed if args.seed is not None else random.randrange(10**9)
    print("seed", seed, flush=True)
    if args.replay:
        source = epilog_player.Listed(epilog_sequence.read(args.replay))
    elif args.only is not None:
        source = epilog_player.Listed(epilog_sequence.sequence(seed, args.only))
    else:
        numbers = range(args.first, args.first + args.count)
        sequences = (epilog_sequence.sequence(seed, number) for number in numbers)
        source = epilog_player.Shuffle(sequences, args.width, seed)
    began = time.monotonic()
    player, wrong = attempt(args, source, PATIENCE, "play")
    counts = ["{} {}".format(n, what) for what, n in sorted(player.counts.items())]
    seconds = time.monotonic() - began
    print("{:.1f} s: {}".format(seconds, ", ".join(counts)), flush=True)
    if not wrong:
        return 0
    print("epilog-random: seed {}: {}".format(seed, wrong), file=sys.stderr)
    path = os.path.join(args.folder, "failed.steps")
    epilog_sequence.write(path, player.played)
    if args.shrink:
        epilog_sequence.write(path, shrink(args, player.played, wrong))
    with open(path) as steps:
        print("epilog-random: steps:\n" + steps.read(), file=sys.stderr, end="")
    return 1


if __name__ == "__main__":
    sys.exit(main())
