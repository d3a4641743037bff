# SPDX-License-Identifier: LGPL-3.0
"""The logs in examples/: what `make run` shows of them."""

from pathlib import Path

import pytest

from epilog_replay.cli import Options, read_logs
from epilog_replay.record import to_dict

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

# log: state, ranks, held, (blocker's kind, description), times that ranks went, node-seconds back
# if dws-epilog had held none
SHOWN = {
    "hangs": ("cleanup", "32-47", "32-47", ("epilog", "dws-epilog"), 0, 16 * 1208.5),
    "holds-none": ("inactive", "0-2,5-7", "", None, 1, 0),
    "one-by-one": ("inactive", "8-15", "", None, 8, 0),
    "plain": ("inactive", "0-3", "", None, 1, 0),
    "prolog-deadlock": ("cleanup", "20-21", "20-21", ("prolog", "dws-setup"), 0, 0),
}


def test_examples():
    found = {
        Path(job.log).stem: to_dict(job)
        for job in read_logs(Options(["--what-if", "dws-epilog=", str(EXAMPLES)]))
    }
    assert found.keys() == SHOWN.keys()
    for name, (state, ranks, held, blocks, handoffs, returned) in SHOWN.items():
        record = found[name]
        assert record["warnings"] == []
        assert (record["state"], record["ranks"], record["held"]) == (state, ranks, held)
        b = record["blocker"]
        assert (b and (b["kind"], b["description"])) == blocks
        assert len(record["handoffs"]) == handoffs
        assert record["what_if"]["returned_node_seconds"] == pytest.approx(returned, abs=0.1)
