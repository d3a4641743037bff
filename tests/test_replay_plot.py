# SPDX-License-Identifier: LGPL-3.0
"""The picture: which bands it shows, and that it is written."""

import pytest

from replay_log import PENDING, RELEASED, T0, exception, finish, job_of, prolog, start, write

plot = pytest.importorskip("epilog_replay.plot", reason="matplotlib is not installed")


def shown(job):
    """(low, high, [(holders, from, to)], went) of each band, times in seconds after T0."""
    origin = plot._origin(job)
    return [
        (
            band.low,
            band.high,
            [(set(h), a - T0, b - T0) for h, a, b in plot._pieces(band, origin, job.t_last)],
            None if band.went is None else band.went - T0,
        )
        for band in plot.bands(job)
    ]


def test_ranks_alike_are_one_band_others_are_not():
    steps = [*RELEASED, start(101, "a"), finish(110, "a", ranks="6")]
    steps += [(110, "partial-free", {"ranks": "6"}), finish(120, "a"), (121, "free")]
    shells = ({"the job's shells"}, 100.0, 100.5)
    idle = (set(), 100.5, 101.0)
    a = {"epilog a"}
    assert shown(job_of(write(steps), "2-3,6,8-9")) == [
        (0, 1, [shells, idle, (a, 101.0, 120.0), (set(), 120.0, 121.0)], 121.0),
        (2, 2, [shells, idle, (a, 101.0, 110.0)], 110.0),
        (3, 4, [shells, idle, (a, 101.0, 120.0), (set(), 120.0, 121.0)], 121.0),
    ]


def test_several_holders_are_shown_together():
    job = job_of(write([*RELEASED, start(101, "a"), start(101, "b", ranks="0"), (105, "memo")]))
    pieces = [pieces[-1][0] for _, _, pieces, _ in shown(job)]
    assert pieces == [{"epilog a", "epilog b"}, {"epilog a"}]


def test_one_rank_at_a_time_of_8196_is_as_many_bands(tmp_path):
    steps = [*RELEASED, start(101, "a")]
    steps += [finish(102 + r / 100, "a", ranks=str(r)) for r in range(8196)]
    steps += [(102 + r / 100, "partial-free", {"ranks": str(r)}) for r in range(8195)]
    steps.sort(key=lambda step: step[0])
    job = job_of(write([*steps, (200, "free")]), "0-8195")
    assert [(b.low, b.high) for b in plot.bands(job)] == [(r, r) for r in range(8196)]
    path = tmp_path / "x.svg"  # so many are pixels in it, not a shape each
    plot.draw([job], str(path))
    assert 10_000 < path.stat().st_size < 500_000


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_kinds_of_logs_are_drawn_and_named(tmp_path, kind):
    deadlock = [*PENDING, (4, "alloc"), prolog(5, "start", "p $x_1$"), exception(6, "x")]
    jobs = [
        job_of(write([*RELEASED, start(101, "a"), (300, "memo")]), "0-3", ["a="], "first"),
        job_of(write([*RELEASED, start(101, "none", ranks=""), (102, "free")]), "0-3"),
        job_of(write(deadlock), None),
        job_of(write(deadlock[:-1])),
        job_of(write([*PENDING, exception(5, "x"), start(6, "b")])),
    ]
    path = tmp_path / f"x.{kind}"
    plot.draw(jobs, str(path))
    data = path.read_bytes()
    if kind == "png":
        assert data.startswith(b"\x89PNG")
        return
    text = data.decode()
    assert "<svg" in text
    for name in ("epilog a", "epilog none", "prolog p $x_1$", "would have gone", "first"):
        assert f"<!-- {name}" in text
    plot.draw(jobs, str(path))
    assert path.read_bytes() == data  # the same each time


def test_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError):
        plot.draw([job_of(write(RELEASED))], str(tmp_path / "none" / "x.png"))
