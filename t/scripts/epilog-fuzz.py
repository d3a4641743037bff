# SPDX-License-Identifier: LGPL-3.0
"""Play sequences of hostile epilog events: types, sizes, depths, and nonsense.

    flux python epilog-fuzz.py --plugin FILE [--seed N] [--count N]

Events come in by all ways that there are: requests to the job manager, a jobtap plugin,
and an eventlog that is replayed. --count is that of payloads. Each answer is held
against epilog_model.py, and after that the same payloads are refused over and over
while the broker's memory is watched. FILE is epilog-hold.so.
"""

import argparse
import json
import os
import random
import shutil
import sys

import epilog_json
import epilog_player
import epilog_sequence
from epilog_model import Wrong

PATIENCE = 60.0  # seconds
POSTS = 60  # of a sequence, at most
LARGE = 1 << 20  # bytes
SHALLOW = 500  # depth of a jobspec that a scheduler in Python can read
GROWTH = 3000  # kB that the broker may grow by
REPEATS = 2000
ROUNDS = 4

TEXTS = ["all", "", "0", "1", "0-1", "@0", "@0-1", "@1-3", "@0-99", "[0]", "[]"]
TEXTS += [
    "-1",
    "--1",
    "0-",
    "-",
    "0--1",
    "1-0",
    "0-0",
    "0,0",
    "1,0",
    "0,1-",
    ",",
    "0,,1",
]
TEXTS += ["00", "01", "0x1", "1e3", "+1", " 0", "0 ", "0, 1", "0;1", "0-1-2", "0-1,1-2"]
TEXTS += [
    "[0",
    "0]",
    "[[0]]",
    "[0][1]",
    "[0],[1]",
    "[",
    "]",
    "][",
    "[]0",
    "ALL",
    "all,0",
]
TEXTS += ["4294967294", "4294967295", "4294967296", "0-4294967294", "0-4294967295"]
TEXTS += ["18446744073709551615", "18446744073709551616", "0-18446744073709551615"]
TEXTS += ["\u0664", "\uff10", "\u00bd", "0\u20131", "\ufeff0", "\u202e0", "\U0001f600"]
TEXTS += ["%s%n%d", "0\n1", "0\t", "\u0001", "$(id)", "null", "nan", "{}", '"', "\\"]
NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1e2",
    "1e308",
    "1e-400",
    "2147483648",
    "-2147483649",
]
NUMBERS += ["9223372036854775807", "9223372036854775808", "1e999", "-1e999", "1" * 400]
BROKEN = [
    "NaN",
    "Infinity",
    "01",
    "1.",
    ".5",
    "+1",
    "'a'",
    "tru",
    "nul",
    "",
    "\\",
    "[1,]",
]
BROKEN += [
    '"\\u0000"',
    '"a\\u0000b"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\x"',
    '"',
    "{",
    "[",
    "]",
]
BROKEN += ['{"a"}', '{"a":}', "{1:2}", '"\n"', "//", "[" * 5000, '{"a":' * 3000]


class Fuzzer(epilog_sequence.Author):
    """Writes a hostile sequence."""

    def text(self) -> str:
        """Return a text for an idset, more or less."""
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(TEXTS)
        if kind < 0.75:
            count = self.random.randint(1, 40)
            return ",".join(str(self.random.randint(0, 99)) for _ in range(count))
        if kind < 0.9:
            alphabet = "0123456789,-[] "
            count = self.random.randint(1, 30)
            return "".join(self.random.choice(alphabet) for _ in range(count))
        return self.random.choice(["0", "1,", "ab", "\u00e4"]) * self.random.randint(
            1, 999
        )

    def large(self) -> str:
        """Return a text of a megabyte."""
        return self.random.choice(
            [
                lambda: ",".join(str(rank) for rank in range(0, LARGE // 4, 2)),
                lambda: "9" * LARGE,
                lambda: "0," * (LARGE // 2),
                lambda: "[" * LARGE,
                lambda: "\u00e4" * (LARGE // 2),
            ]
        )()

    def value(self) -> str:
        """Return JSON of any type."""
        kind = self.random.random()
        if kind < 0.5:
            return json.dumps(self.text(), ensure_ascii=self.random.random() < 0.5)
        if kind < 0.65:
            return self.random.choice(NUMBERS)
        if kind < 0.8:
            simple = [
                "true",
                "false",
                "null",
                "[]",
                "{}",
                "[0]",
                '{"ranks":"0"}',
                '["0"]',
            ]
            return self.random.choice(simple)
        if kind < 0.85:
            return self.random.choice(BROKEN)
        depth = self.random.choice([10, 500, 2000, 2100, 9000])
        pair = self.random.choice([("[", "]"), ('{"a":', "}")])
        if kind < 0.87:
            return pair[0] * depth + "0" + pair[1] * depth
        return json.dumps(self.text() * 3)

    def context(self) -> str:
        """Return JSON, more or less, for the context of an event."""
        kind = self.random.random()
        if kind < 0.06:
            return self.value()
        keys = []
        if self.random.random() < 0.93:
            name = json.dumps(self.random.choice(epilog_sequence.NAMES))
            kind = self.random.random()
            if kind < 0.1:
                name = self.value()
            elif kind < 0.12:
                name = json.dumps("\u00e4\U0001f600" * self.random.randint(1, 3000))
            keys.append(("description", name))
        if self.random.random() < 0.85:
            keys.append(("ranks", self.value()))
        if self.random.random() < 0.2:
            keys.append(("status", self.value()))
        if self.random.random() < 0.1:
            keys.append((self.text(), self.value()))
        if keys and self.random.random() < 0.1:
            keys.append((self.random.choice(keys)[0], self.value()))
        self.random.shuffle(keys)
        text = "{" + ",".join(json.dumps(key) + ":" + one for key, one in keys) + "}"
        if self.random.random() < 0.05:
            place = self.random.randrange(len(text))
            text = (
                text[:place]
                + self.random.choice(["", '"', "\x07", ","])
                + text[place + 1 :]
            )
        return text

    def huge(self) -> str:
        """Return JSON of a context of a megabyte."""
        key = self.random.choice(["ranks", "ranks", "description"])
        context = {"description": "a", "ranks": "@0"}
        context[key] = self.large()
        return json.dumps(context)

    def readable(self, count: int) -> list:
        """Return contexts that can be in a jobspec or in an eventlog."""
        contexts = []
        while len(contexts) < count:
            text = self.context()
            if max(text.count(char) for char in "[{") > SHALLOW:
                continue
            try:
                context = epilog_json.decode(text)
            except ValueError:
                continue
            if isinstance(context, dict) and "\\u0000" not in json.dumps(context):
                contexts.append(context)
        return contexts

    def write(self) -> list:
        """Return the steps."""
        choose = self.random.random
        self.ranks = self.random.choice([1, 2, 4, 8])
        late = choose() < 0.3
        self.add(
            "submit",
            ranks=self.ranks,
            on=sorted(self.random.sample(range(epilog_sequence.NODES), self.ranks)),
            cores=2,
            seconds=600 if late else 0.01,
            run=self.readable(self.random.randint(0, 6)),
            end=[self.start(0.0), self.start(0.0)] + self.readable(10),
        )
        count = self.random.randint(POSTS // 2, POSTS)
        for index in range(count):
            if late and index == count // 2:
                self.add("raise", type="cancel", severity=0, at="run")
                late = False
            text = self.huge() if choose() < 0.01 else self.context()
            event = self.random.choice(["epilog-start"] + ["epilog-finish"] * 2)
            if choose() < 0.02:
                event = "partial-free"
            self.add("post", event=event, text=text, at="run" if late else "end")
            if not late and choose() < 0.03:
                self.add("settle")
        if choose() < 0.25:
            events = self.random.choices(["epilog-start", "epilog-finish"], k=10)
            contexts = self.readable(len(events))
            self.add("edit", events=[list(pair) for pair in zip(events, contexts)])
            if choose() < 0.3:
                self.add("restart", how="reload")
        self.add("finish")
        return self.steps


class Budget:
    """Sequences until so many payloads were written."""

    def __init__(self, seed: int, count: int) -> None:
        self.seed = seed
        self.left = count
        self.ways = {"request": 0, "jobtap": 0, "replay": 0}

    def __iter__(self):
        number = 0
        while self.left > 0:
            steps = Fuzzer(self.seed, number, False).write()
            number += 1
            for step in steps:
                self.ways["request"] += step["do"] == "post"
                self.ways["replay"] += len(step.get("events", []))
                self.ways["jobtap"] += len(step.get("run", []) + step.get("end", []))
            self.left -= sum(len(step.get("events", [])) + 1 for step in steps)
            yield steps


class FuzzPlayer(epilog_player.Player):
    """Plays, and at the end looks at the memory that refusing takes."""

    def rest(self) -> None:
        """Refuse the same payloads over and over."""
        super().rest()
        self.submit("memory", {"ranks": 4, "cores": 2, "seconds": 600})
        model = self.models["memory"]
        self.wait(lambda: model.running, "a job")
        posts = []
        fuzzer = Fuzzer(0, 0, False)
        while len(posts) < REPEATS:
            text = fuzzer.context() if len(posts) % 200 else fuzzer.huge()
            name = fuzzer.random.choice(["epilog-start", "epilog-finish"])
            if model.check_text(model.request(name, text)):
                posts.append((name, text))
        sizes = []
        for _ in range(ROUNDS):
            for name, text in posts:
                self.post_text(model, name, text)
                while self.unanswered["memory"] > 100:
                    self.receive(1.0)
            self.wait(lambda: not self.unanswered["memory"], "answers")
            sizes.append(self.instance.memory())
        print("broker: {} kB".format(" ".join(map(str, sizes))))
        if sizes[-1] - sizes[1] > GROWTH:
            raise Wrong("memory", "the broker has grown: {} kB".format(sizes))
        if model.oracle.outstanding:
            raise model.wrong("taken", "in the end")
        self.throw(model, "cancel", 0)
        self.wait(lambda: model.ended, "the end of a job")
        super().rest()


def main():
    """Play, and exit 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="epilog-fuzz.py")
    parser.add_argument("--plugin", required=True, metavar="FILE")
    parser.add_argument("--folder", default="fuzz", metavar="DIR")
    parser.add_argument("--seed", type=int, help="default: a random one")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    shutil.rmtree(folder, ignore_errors=True)
    seed = args.seed if args.seed is not None else random.randrange(10**9)
    print("seed", seed, flush=True)
    plugins = ["alloc-check.so", "perilog.so", os.path.abspath(args.plugin)]
    player = FuzzPlayer(folder, plugins, PATIENCE)
    budget = Budget(seed, args.count)
    try:
        player.play(epilog_player.Shuffle(budget, 10, seed))
    except Wrong as exc:
        print("epilog-fuzz: seed {}: {:.2000}".format(seed, str(exc)), file=sys.stderr)
        epilog_sequence.write(player.path("failed.steps"), player.played)
        player.abandon()
        return 1
    except BaseException:
        player.abandon()
        raise
    counts = dict(player.counts, **budget.ways)
    print(", ".join("{} {}".format(n, what) for what, n in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
