# SPDX-License-Identifier: LGPL-3.0
"""Sequences of the random driver: the same for the same seed, and shrunk when they fail."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from epilog_oracle import parse_idset
from epilog_sequence import read, resolve, sequence, shrink, write

DOES = {"submit", "post", "raise", "settle", "guest", "finish", "sched", "config"}


def test_seed_and_number_say_all(tmp_path: Path) -> None:
    steps = sequence(7, 3)
    assert steps == sequence(7, 3)
    assert steps != sequence(7, 4)
    assert steps != sequence(8, 3)
    write(str(tmp_path / "steps"), steps)
    assert read(str(tmp_path / "steps")) == steps


def test_each_kind_of_step_occurs() -> None:
    many = [step for number in range(3000) for step in sequence(1, number)]
    assert {step["do"] for step in many} == DOES | {"sync", "restart"}
    assert {step["how"] for step in many if step["do"] == "restart"} == {"crash", "stop", "reload"}
    assert {step["type"] for step in many if step["do"] == "raise"} == {
        "cancel",
        "test",
        "scheduler-restart",
    }
    assert len({step["module"] for step in many if step["do"] == "sched"}) == 6


def test_a_sequence_begins_and_ends() -> None:
    for number in range(200):
        steps = sequence(5, number)
        assert [step["do"] for step in steps if step["do"] in ("submit", "finish")] == [
            "submit",
            "finish",
        ]
        assert steps[0]["do"] == "submit" and steps[-1]["do"] == "finish"


def test_no_steps(tmp_path: Path) -> None:
    (tmp_path / "steps").write_text("\n")
    with pytest.raises(ValueError, match="no steps"):
        read(str(tmp_path / "steps"))


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("@0", "4"), ("@1-2", "7,9"), ("@0-9", "4,7,9"), ("@3", "4"), ("all", "all"), ("@", "")]
    + [("@x", "@x"), ("0", "0"), (7, 7)],
)
def test_ranks_are_counted_from_0(text: object, ranks: object) -> None:
    assert resolve({"ranks": text}, [4, 7, 9]) == {"ranks": ranks}


def test_nothing_to_count() -> None:
    assert resolve(None, [4]) is None
    assert resolve({"ranks": "@0"}, []) == {"ranks": "@0"}
    for number in range(300):
        for step in sequence(2, number):
            context = step.get("context")
            text = context.get("ranks") if isinstance(context, dict) else None
            if isinstance(text, str) and text.startswith("@"):
                assert parse_idset(text[1:])


@pytest.mark.parametrize("seed", range(20))
def test_shrink_leaves_what_matters(seed: int) -> None:
    """Steps fail if three of them are there, in order."""
    random = Random(seed)
    steps = [{"seq": random.randrange(9), "n": n} for n in range(120)]
    matter = sorted(random.sample(range(120), 3))
    tries = []

    def fails(trial: list[dict]) -> bool:
        tries.append(trial)
        return {step["n"] for step in trial} >= set(matter)

    assert [step["n"] for step in shrink(steps, fails)] == matter
    assert len(tries) < 150


def test_shrink_of_what_fails_always_leaves_one() -> None:
    assert len(shrink([{"seq": 0}, {"seq": 1}, {"seq": 1}], lambda trial: True)) == 1
