# SPDX-License-Identifier: LGPL-3.0
"""Requests that hypothesis makes up, sent to the epilog RPCs of a live job manager.

t/scripts/epilog-hostile.py sends them, in an instance of the patched tree, and says what was not
as its model has it: an answer always, a refusal with a reason, and no changed hold.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import live

SCRIPTS = live.PROJECT / "t/scripts"
PATIENCE = 120.0  # seconds for an answer, and for the instance to come and go
EXAMPLES = int(os.environ.get("RPC_FUZZ_EXAMPLES", "300"))
ID = "@ID@"  # becomes the job's id, as a number
SESSION = """
flux setattr log-stderr-level 1 &&
id=$(flux submit -N4 --setattr=system.exec.test.run_duration=60s true) &&
flux job wait-event -q -t 60 $id start &&
flux post-job-event $id epilog-start description=keeper &&
flux cancel $id &&
flux job wait-event -q -t 60 $id release &&
exec flux python $SCRIPTS/epilog-hostile.py $id serve
"""

pytestmark = pytest.mark.skipif(bool(live.left_out()), reason=live.left_out() or "never")


class Server:
    """epilog-hostile.py serve, in an instance of its own."""

    def __init__(self) -> None:
        """Start it."""
        flux = live.tree() / "src/cmd/flux"
        conf = ["--conf=fake-resources.nnodes=4", "--conf=fake-resources.cores-per-node=1"]
        environ = {**os.environ, "SCRIPTS": str(SCRIPTS), "FLUX_DISABLE_JOB_CLEANUP": "t"}
        self.process = subprocess.Popen(
            [str(flux), "start", *conf, "sh", "-c", SESSION],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            text=True,
            start_new_session=True,
        )

    def judge(self, name: str, payload: str, unterminated: bool = False) -> str:
        """Send a request and return complaints."""
        print(json.dumps([name, payload, unterminated]), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, f"{name} {payload!r}: no verdict"
        line = self.process.stdout.readline()
        assert line, f"{name} {payload!r}: the instance has ended"
        return line.strip()

    def stop(self) -> None:
        """End it."""
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """An instance with a job that is held."""
    server = Server()
    yield server
    server.stop()
    assert server.process.returncode == 0


names = st.sampled_from(["start", "finish", "list"])
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.one_of(st.integers(), st.integers(-2, 9), st.floats(allow_nan=False))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
)
items = st.builds(
    lambda low, high: f"{low}-{high}" if high is not None else f"{low}",
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(0, 6), st.integers(0, 2**64)),
)
idsets = st.one_of(
    st.lists(items, max_size=4).map(",".join),
    st.lists(items, max_size=4).map(",".join).map("[{}]".format),
    st.text("0123456789,-[] al", max_size=10),
    st.sampled_from(["all", "", "0-3", "0", "3"]),
)
ids = st.one_of(st.just(ID), st.just(ID), st.just(ID), values)
descriptions = st.one_of(st.just("hold"), text, st.sampled_from(["", "Hold", "hold "]))
requests = st.fixed_dictionaries(
    {"id": ids, "description": st.one_of(descriptions, descriptions, values)},
    optional={
        "ranks": st.one_of(idsets, idsets, values),
        "status": st.one_of(st.integers(-(2**31), 2**31 - 1), values),
    },
)
odd_requests = st.dictionaries(
    st.one_of(st.sampled_from(["id", "description", "ranks", "status", "Ranks"]), text),
    st.one_of(ids, descriptions, idsets, values),
    max_size=6,
)


def encode(payload: Any, ascii_only: bool) -> str:
    """Return JSON text with the job's id as a number that epilog-hostile.py puts in."""
    return json.dumps(payload, ensure_ascii=ascii_only).replace(json.dumps(ID), "ID")


def as_text(data: bytes) -> str:
    """Return bytes as epilog-hostile.py wants them."""
    return data.replace(b"\0", b"").decode(errors="surrogateescape")


def judge(server: Server, name: str, payload: str, unterminated: bool = False) -> None:
    """Fail on complaints."""
    complaints = server.judge(name, payload, unterminated)
    assert not complaints


fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@fuzz
@given(names, requests, st.booleans())
def test_requests_that_are_nearly_right(
    server: Server, name: str, payload: dict, ascii_only: bool
) -> None:
    if name == "list":
        payload = {key: payload[key] for key in payload if key != "description"}
    judge(server, name, encode(payload, ascii_only))


@fuzz
@given(names, st.one_of(odd_requests, values), st.booleans())
def test_any_json(server: Server, name: str, payload: Any, ascii_only: bool) -> None:
    judge(server, name, encode(payload, ascii_only))


@fuzz
@given(names, requests, st.data())
def test_json_that_is_cut_or_damaged(
    server: Server, name: str, payload: dict, data: st.DataObject
) -> None:
    whole = encode(payload, True)
    at = data.draw(st.integers(0, len(whole)))
    inserted = data.draw(st.text(st.characters(max_codepoint=127, min_codepoint=1), max_size=3))
    skipped = data.draw(st.integers(0, 5))
    judge(server, name, whole[:at] + inserted + whole[at + skipped :], data.draw(st.booleans()))


@fuzz
@given(names, st.one_of(text, st.binary().map(as_text)), st.booleans())
def test_any_text(server: Server, name: str, payload: str, unterminated: bool) -> None:
    judge(server, name, payload, unterminated)
