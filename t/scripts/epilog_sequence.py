# SPDX-License-Identifier: LGPL-3.0
"""Sequences: what is done to one job, and to the world around it, step by step.

A step is a dictionary with "seq", the number of its sequence, and "do", one of:

submit   ranks, cores, seconds; on: ranks that it has to have, if it matters
         storage: it has resources that belong to no rank
         run, end: contexts that a plugin posts in these states
post     event, context; at: "run" (the job runs) or "end" (only epilogs hold it)
raise    type, severity; at
settle   wait until what may go has gone
guest    another job runs on a rank that went
finish   end all actions that are left, and wait for the job to end
sched    module: what scheduler is loaded; options
config   housekeeping, final-free, prolog: what the job manager is configured to do
sync     what was done so far survives a crash
restart  how: "crash", "stop" or "reload" (of the job manager)

A "ranks" text that begins with "@" counts the job's ranks from 0, whatever they are.
"""

import json
import random
from typing import Any, Callable, List, Optional

from epilog_oracle import encode_idset, parse_idset

NAMES = ["a", "a", "a", "b", "b", "c"]
BAD_RANKS = ["x", "0-", "-1", "1,,2", "1,", "2,1", "0,0", "0-4294967294", "99999999"]
BAD_RANKS += ["4294967296", "00", " 0", "[0", "all ", "ALL", "0-3-5", "1-0", "\u00bd"]
BAD_VALUES = [7, -1, 1.5, None, True, [], [0], {}, {"all": 1}]
NODES = 64  # of the instance
FIRST = 8  # of those, on some of which there are brokers
MANY = 300  # more than there can be actions

SCHEDULERS = ["simple", "strict", "strict-waits", "strict-waits", "none"]
NOPARTIAL = ["simple-nopartial", "strict-nopartial"]
HOUSEKEEPING = [
    None,
    {"command": "true"},
    {"command": "false"},
    {"command": "slow"},
    {"command": "slow", "release-after": "0"},
    {"command": "slow", "release-after": "50ms"},
    {"command": "missing", "release-after": "0"},
]


def resolve(context: Any, ranks: Optional[List[int]]) -> Any:
    """Return a context with ranks of the job, if they are known, for "@..."."""
    if not isinstance(context, dict) or not ranks:
        return context
    text = context.get("ranks")
    if not isinstance(text, str) or not text.startswith("@"):
        return context
    try:
        ranges = parse_idset(text[1:])
    except ValueError:
        return context
    chosen = {
        ranks[index % len(ranks)]
        for first, last in ranges
        for index in range(first, min(last, first + NODES) + 1)
    }
    return dict(context, ranks=encode_idset(chosen))


class Author:
    """Writes the sequence that a seed and a number stand for."""

    def __init__(self, seed: int, number: int, restarts: bool) -> None:
        self.random = random.Random("{}/{}".format(seed, number))
        self.number = number
        self.restarts = restarts
        self.ranks = 1
        self.steps = []  # type: List[dict]

    def add(self, do: str, **keys: Any) -> None:
        """Write a step."""
        step = {"seq": self.number, "do": do}  # type: dict
        step.update(keys)
        self.steps.append(step)

    def some(self) -> str:
        """Return a text for some of the job's ranks, maybe all."""
        kind = self.random.random()
        if kind < 0.12:
            return "all"
        count = self.random.randint(1, self.ranks)
        if kind < 0.4:
            count = 1
        return "@" + encode_idset(self.random.sample(range(self.ranks), count))

    def start(self, bad: float) -> Any:
        """Return a context for an epilog-start, bad with this probability."""
        context = {"description": self.random.choice(NAMES)}  # type: dict
        kind = self.random.random()
        if kind < 0.12:
            context["ranks"] = ""
        elif kind < 0.9:
            context["ranks"] = self.some()
        if self.random.random() < bad:
            self.spoil(context)
        return context

    def spoil(self, context: dict) -> None:
        """Make a context one that should be refused, mostly."""
        kind = self.random.random()
        if kind < 0.5:
            context["ranks"] = self.random.choice(BAD_RANKS)
        elif kind < 0.7:
            context["ranks"] = self.random.choice(BAD_VALUES)
        elif kind < 0.8:
            context["description"] = "nobody"
        elif kind < 0.9:
            context["description"] = self.random.choice([5, None, ["a"], "", "A"])
        else:
            del context["description"]

    def post(self, at: str) -> None:
        """Write a step that posts an event."""
        kind = self.random.random()
        context = {"description": self.random.choice(NAMES)}  # type: Any
        event = "epilog-finish"
        if kind < 0.5:
            context.update(status=0, ranks=self.some())
        elif kind < 0.6:
            context["status"] = 0
        elif kind < 0.72:
            event = "epilog-start"
            context = self.start(0.0)
        elif kind < 0.8:
            event = "epilog-start"
            context = self.start(1.0)
        elif kind < 0.9:
            context["ranks"] = self.some()
            self.spoil(context)
        elif kind < 0.95:
            event = self.random.choice(["prolog-start", "prolog-finish"])
            context = {"description": "p"}
        else:
            event = self.random.choice(
                ["partial-free", "epilog-release", "memo", "epilog-start"]
            )
            context = self.random.choice(
                [{"ranks": "0"}, {"ranks": "@0"}, {}, None, 5, "x", []]
            )
            if event == "memo":
                context = {"key": "value"}
        self.add("post", event=event, context=context, at=at)

    def burst(self) -> None:
        """Write steps that let go of a job's ranks one at a time."""
        self.add(
            "post", event="epilog-start", context={"description": "burst"}, at="end"
        )
        for rank in self.random.sample(range(self.ranks), self.ranks):
            context = {"description": "burst", "ranks": "@{}".format(rank), "status": 0}
            self.add("post", event="epilog-finish", context=context, at="end")

    def many(self) -> None:
        """Write steps that start more actions than there can be."""
        for _ in range(MANY):
            context = {"description": "many", "ranks": self.some()}
            self.add("post", event="epilog-start", context=context, at="end")

    def world(self) -> None:
        """Write a step that changes the world, maybe."""
        kind = self.random.random()
        if kind < 0.01:
            self.add("sched", module=self.random.choice(SCHEDULERS))
        elif kind < 0.013:
            self.add("sched", module=self.random.choice(NOPARTIAL))
            self.undo = {"do": "sched", "module": self.random.choice(SCHEDULERS)}
        elif kind < 0.027:
            self.add("config", housekeeping=self.random.choice(HOUSEKEEPING))
        elif kind < 0.052:
            value = self.random.choice(
                ["auto", "last-rank", "last-action", "last-action"]
            )
            self.add("config", **{"final-free": value})
        elif kind < 0.054:
            self.add("config", prolog=self.random.choice(["true", "false"]))
            self.undo = {"do": "config", "prolog": None}
        elif kind < 0.057 and self.restarts:
            self.add("sync")
            how = self.random.choice(["crash", "crash", "stop", "reload"])
            self.undo = {"do": "restart", "how": how}

    def job(self) -> None:
        """Write a step about the job."""
        kind = self.random.random()
        if kind < 0.65:
            self.post("end")
        elif kind < 0.87:
            self.add("settle")
        elif kind < 0.94:
            self.add("guest")
        elif kind < 0.96:
            self.add("raise", type="cancel", severity=0, at="end")
        elif kind < 0.964:
            self.add("raise", type="scheduler-restart", severity=0, at="end")
        else:
            self.add("raise", type="test", severity=3, at="end")

    def write(self) -> List[dict]:
        """Return the steps."""
        choose = self.random.random
        self.ranks = self.random.choice([1, 2, 3, 4, 4, 5, 6, 8])
        if choose() < 0.04:
            self.ranks = 20
        pinned = None
        if choose() < 0.75:
            first = choose() < 0.4 and self.ranks <= FIRST
            nodes = range(FIRST if first else NODES)
            pinned = sorted(self.random.sample(nodes, self.ranks))
        late = choose() < 0.3
        run = [self.start(0.1) for _ in range(self.random.choice([0, 0, 0, 0, 1, 2]))]
        end = [self.start(0.15) for _ in range(self.random.choice([0, 1, 1, 1, 2, 3]))]
        for context in run + end:
            if not pinned and str(context.get("ranks")).startswith("@"):
                del context["ranks"]  # nobody knows them that early
        self.add(
            "submit",
            ranks=self.ranks,
            on=pinned,
            cores=2 if pinned else self.random.choice([1, 1, 2]),
            seconds=600 if late else self.random.choice([0.01, 0.01, 0.1]),
            storage=choose() < 0.25,
            run=run,
            end=end,
        )
        if late:
            for _ in range(self.random.randint(0, 3)):
                self.post("run")
            kind = "test" if choose() < 0.2 else "cancel"
            self.add("raise", type=kind, severity=0, at="run")
        if choose() < 0.015:
            self.many()
        elif choose() < 0.1:
            self.burst()
        for _ in range(self.random.randint(0, 12)):
            self.undo = {}  # type: dict
            self.world()
            self.job()
            if self.undo:
                for _ in range(self.random.randint(0, 3)):
                    self.job()
                self.steps.append(dict(self.undo, seq=self.number))
        self.add("finish")
        return self.steps


def sequence(seed: int, number: int, restarts: bool = True) -> List[dict]:
    """Return the steps of sequence ``number`` of a seed."""
    return Author(seed, number, restarts).write()


def write(path: str, steps: List[dict]) -> None:
    """Write steps to a file, one a line."""
    with open(path, "w") as out:
        for step in steps:
            out.write(json.dumps(step, sort_keys=True) + "\n")


def read(path: str) -> List[dict]:
    """Return the steps in a file. ValueError if it has none."""
    with open(path) as lines:
        steps = [json.loads(line) for line in lines if line.strip()]
    if not steps:
        raise ValueError(path + ": no steps")
    return steps


def shrink(steps: List[dict], fails: Callable[[List[dict]], bool]) -> List[dict]:
    """Return as few of the steps as still fail, in order.

    First whole sequences are left out, then steps: halves, quarters, and so on.
    """
    parts = []  # type: List[List[int]]
    for number in sorted({step["seq"] for step in steps}):
        parts.append([i for i, step in enumerate(steps) if step["seq"] == number])
    steps = without(steps, parts, fails)
    return without(steps, [[index] for index in range(len(steps))], fails)


def without(
    steps: List[dict], parts: List[List[int]], fails: Callable[[List[dict]], bool]
) -> List[dict]:
    """Return the steps without the parts (lists of indices) that needn't be there."""
    kept = list(range(len(parts)))
    size = max(1, len(kept) // 2)
    while kept:
        dropped = False
        start = 0
        while start < len(kept):
            trial = kept[:start] + kept[start + size :]
            if trial and fails(chosen(steps, parts, trial)):
                kept = trial
                dropped = True
            else:
                start += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return chosen(steps, parts, kept)


def chosen(steps: List[dict], parts: List[List[int]], kept: List[int]) -> List[dict]:
    """Return the steps whose indices are in some parts, in order."""
    indices = sorted(index for part in kept for index in parts[part])
    return [steps[index] for index in indices]
