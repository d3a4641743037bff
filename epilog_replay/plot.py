# SPDX-License-Identifier: LGPL-3.0
"""A picture of who held which ranks when: time to the right, ranks upward, a colour a holder.

One panel a log. Ranks beside each other with the same history are one band. Needs matplotlib.
"""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from epilog_replay import idset
from epilog_replay.action import EPILOG
from epilog_replay.job import STATES, Job
from epilog_replay.words import node_seconds, plural, printable, shorten, span, when

# Colours that the colour-blind can tell apart (Okabe and Ito).
_PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442")
_EXEC, _EXEC_COLOR = "the job's shells", "#BBBBBB"
_IDLE, _IDLE_COLOR = "held by none, not gone", "#F4F4F4"
_WENT_COLOR, _WHAT_IF_COLOR = "#000000", "#7A00CC"

BANDS_LABELLED = 20  # up to so many, each band is labelled with its ranks
BANDS_MARKED = 60  # up to so many, a mark stands on the line where a band went
BANDS_SPLIT = 64  # up to so many, there is a gap between bands
VECTORS_MAX = 2000  # more bands than this are pixels in an .svg, too

_INCH_WIDTH = 11.0
_INCH_LEFT = 1.8  # room for rank labels
_INCH_BAND = 0.3
_INCH_TITLE = 0.35  # above a panel
_INCH_ABOVE_BELOW = 1.0  # title, ticks and label of a panel

Holders = FrozenSet[str]
Box = Tuple[float, float, float, float]  # from, to (seconds), low, high (rank positions)


class Band(NamedTuple):
    """Ranks beside each other with one history; positions count the job's ranks from 0."""

    low: int
    high: int
    holds: Tuple[Tuple[str, float, float], ...]  # (holder, from, to)
    went: Optional[float]
    would: Optional[float]  # when it would have gone by what-if


def _times(
    positions: Dict[int, int], count: int, steps: List[Tuple[float, int]]
) -> List[Optional[float]]:
    """Return per rank position the time of the step (time, ranks) that names it."""
    found: List[Optional[float]] = [None] * count
    for timestamp, ranks in steps:
        for rank in idset.ids(ranks):
            found[positions[rank]] = timestamp
    return found


def _origin(job: Job) -> float:
    """Return the time at which the picture begins: CLEANUP, else the first hold that is open."""
    if job.t_cleanup is not None and job.t_cleanup < job.t_last:
        return job.t_cleanup
    starts = [action.start for action in job.open] or [job.t_state or job.t_last]
    return min(starts)


def bands(job: Job) -> List[Band]:
    """Return the bands of a job, lowest rank first."""
    ranks = idset.ids(job.full)
    positions = {rank: position for position, rank in enumerate(ranks)}
    count = len(ranks)
    origin = _origin(job)
    holds: List[List[Tuple[str, float, float]]] = [[] for _ in ranks]
    if job.started and job.t_cleanup is not None:
        done = job.t_last if job.t_exec_done is None else job.t_exec_done
        for rank in range(count):
            holds[rank].append((_EXEC, origin, done))
    for action in job.actions:
        name = f"{action.kind} {action.name}"
        for mask, start, end in action.intervals():
            until = job.t_last if end is None else end
            if until > origin:
                for rank in idset.ids(mask):
                    holds[positions[rank]].append((name, max(start, origin), until))
    went = _times(positions, count, [(h.timestamp, h.ranks) for h in job.handoffs])
    would = _times(positions, count, job.what_if.handoffs if job.what_if else [])
    found: List[Band] = []
    for position in range(count):
        band = Band(position, position, tuple(holds[position]), went[position], would[position])
        if found and found[-1][2:] == band[2:]:
            found[-1] = found[-1]._replace(high=position)
        else:
            found.append(band)
    return found


def _pieces(band: Band, origin: float, end: float) -> List[Tuple[Holders, float, float]]:
    """Return (holders, from, to) of a band, up to when it went; holders empty: held by none."""
    until = end if band.went is None else min(end, band.went)
    edges = {origin, until}
    for _, start, stop in band.holds:
        edges.update(t for t in (start, stop) if origin < t < until)
    times = sorted(edges)
    pieces: List[Tuple[Holders, float, float]] = []
    for start, stop in zip(times, times[1:]):
        names = frozenset(n for n, a, b in band.holds if a <= start and b >= stop)
        if pieces and pieces[-1][0] == names:
            pieces[-1] = (names, pieces[-1][1], stop)
        else:
            pieces.append((names, start, stop))
    return pieces


class _Colors:
    """One colour a holder, the same in all panels; several holders are hatched."""

    def __init__(self) -> None:
        self._colors: Dict[str, str] = {_EXEC: _EXEC_COLOR}
        self._seen: Dict[Holders, Patch] = {}

    def _color(self, name: str) -> str:
        if name not in self._colors:
            self._colors[name] = _PALETTE[(len(self._colors) - 1) % len(_PALETTE)]
        return self._colors[name]

    def style(self, holders: Holders) -> Dict[str, Any]:
        """Return the style of boxes for these holders, and remember it for the legend."""
        names = sorted(holders - {_EXEC}) or sorted(holders)
        colors = [self._color(name) for name in sorted(names)]
        style: Dict[str, Any] = {"facecolor": colors[0] if colors else _IDLE_COLOR}
        if len(colors) > 1:
            style.update(hatch="////" if len(colors) == 2 else "xxxx", edgecolor=colors[1])
            style.update(linewidth=0.0)
        label = " + ".join(names) or _IDLE
        key = frozenset(names)
        if key not in self._seen:
            self._seen[key] = Patch(label=_plain(label, 60), **style)
        return style

    def legend(self) -> List[Patch]:
        """Return what the legend has to show, single holders first."""
        return [patch for _, patch in sorted(self._seen.items(), key=lambda item: len(item[0]))]


def _plain(text: str, width: int) -> str:
    """Return text from a log so that matplotlib draws it as it stands."""
    return shorten(printable(text), width).replace("$", r"\$")


def _unit(seconds: float) -> Tuple[float, str]:
    """Return what to divide seconds by for an axis of that length, and its name."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * size:
            return size, name
    return 1.0, "seconds"


def _label_ranks(axes: Axes, job: Job, found: List[Band]) -> None:
    """Label bands with their ranks if they are few, else some ranks."""
    ranks = idset.ids(job.full)
    axes.set_ylim(-0.5, len(ranks) - 0.5)
    if not job.ranks_known:
        axes.set_yticks([band.low for band in found], ["?"] * len(found))
        axes.set_ylabel("ranks unknown")
        return
    axes.set_ylabel("ranks")
    if len(found) <= BANDS_LABELLED:
        spots = [(band.low + band.high) / 2 for band in found]
        texts = [
            _plain(idset.encode(sum(1 << r for r in ranks[band.low : band.high + 1])), 24)
            for band in found
        ]
        # Narrow bands lie close together: leave out labels that would overlap.
        space = len(ranks) / BANDS_LABELLED
        kept: List[int] = []
        for index in sorted(range(len(found)), key=lambda i: found[i].low - found[i].high):
            if all(abs(spots[index] - spots[other]) >= space for other in kept):
                kept.append(index)
        axes.set_yticks([spots[i] for i in kept], [texts[i] for i in kept])
        return
    ticks = range(0, len(ranks), max(1, (len(ranks) - 1) // 10))
    axes.set_yticks(list(ticks), [str(ranks[tick]) for tick in ticks])


def _job_only(job: Job, origin: float) -> List[Tuple[str, float, float]]:
    """Return (name, from, to) of the epilogs that hold the job but never a rank of it."""
    return [
        (
            f"{action.kind} {action.name}",
            max(action.start, origin),
            job.t_last if action.end is None else action.end,
        )
        for action in job.actions
        if action.kind == EPILOG and not action.held and not action.let_go
    ]


def _panel(axes: Axes, job: Job, found: List[Band], colors: _Colors) -> None:
    """Draw one log."""
    origin = _origin(job)
    job_only = _job_only(job, origin)
    ends = [band.went for band in found]
    ends += [stop for _, _, stop in job_only]
    end = max(job.t_last if stop is None else stop for stop in ends)
    scale, unit = _unit(end - origin)
    gap = 0.04 if len(found) <= BANDS_SPLIT else 0.0
    boxes: Dict[Holders, List[Box]] = {}
    for band in found:
        for holders, start, stop in _pieces(band, origin, end):
            box = (
                (start - origin) / scale,
                (stop - origin) / scale,
                band.low - 0.5 + gap,
                band.high + 0.5 - gap,
            )
            boxes.setdefault(holders, []).append(box)
    lane = 0.2 * (found[-1].high + 1) if job_only else 0.0
    for name, start, stop in job_only:
        box = ((start - origin) / scale, (stop - origin) / scale, -0.5 - lane, -0.5 - lane / 8)
        boxes.setdefault(frozenset((name,)), []).append(box)
    rough = len(found) > VECTORS_MAX
    for holders in sorted(boxes, key=sorted):
        corners = [((a, c), (b, c), (b, d), (a, d)) for a, b, c, d in boxes[holders]]
        style = colors.style(holders)
        axes.add_collection(PolyCollection(corners, rasterized=rough, **style), autolim=False)
    _moments(axes, found, [band.went for band in found], origin, scale, _WENT_COLOR, "-")
    would = [
        None if b.would is None or b.would == b.went or _near(b, end - origin) else b.would
        for b in found
    ]
    _moments(axes, found, would, origin, scale, _WHAT_IF_COLOR, (0, (3, 2)))
    width = (end - origin) / scale or 1.0
    if end == origin:
        axes.text(0.01, 0.5, "the log ends where it begins to hold", transform=axes.transAxes)
    axes.set_xlim(-0.01 * width, 1.02 * width)
    since = "CLEANUP" if origin == job.t_cleanup else "the first hold"
    axes.set_xlabel(f"{unit} since {since}, {when(origin)}")
    _label_ranks(axes, job, found)
    if job_only:
        axes.set_ylim(bottom=-0.5 - 1.1 * lane)
        axes.text(0.0, -0.5 - 0.56 * lane, " holds no rank", va="center", fontsize="x-small")
    count = job.count(job.full)
    nranks = plural(count, "rank") if count is not None else "ranks unknown"
    title = f"{_plain(job.log, 60)}   {STATES[job.state]}   {nranks}"
    if job.t_cleanup is not None:
        title += f"   {node_seconds(job.waited_node_seconds())} node-s waited"
    axes.set_title(title, fontsize="medium", loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _near(band: Band, width: float) -> bool:
    """Return whether a band went so near to when it would have gone that it looks the same."""
    return (
        band.went is not None
        and band.would is not None
        and abs(band.went - band.would) < width / 500
    )


def _moments(
    axes: Axes,
    found: List[Band],
    times: List[Optional[float]],
    origin: float,
    scale: float,
    color: str,
    dashes: object,
) -> None:
    """Draw a line across each band at its moment, with a mark if bands are few."""
    lines = []
    for band, timestamp in zip(found, times):
        if timestamp is not None:
            at = (timestamp - origin) / scale
            lines.append(((at, band.low - 0.5), (at, band.high + 0.5)))
    axes.add_collection(
        LineCollection(
            lines,
            colors=color,
            linestyles=[dashes],
            linewidths=1.6,
            zorder=3,
            rasterized=len(lines) > VECTORS_MAX,
        ),
        autolim=False,
    )
    if len(found) <= BANDS_MARKED:
        spots = [(a[0], (a[1] + b[1]) / 2) for a, b in lines]
        axes.plot(
            [x for x, _ in spots],
            [y for _, y in spots],
            linestyle="none",
            marker="D",
            markersize=4,
            color=color,
            zorder=4,
            clip_on=False,
        )


def _no_ranks(axes: Axes, job: Job) -> None:
    """Draw the panel of a job that was never given resources: words only."""
    axes.set_axis_off()
    axes.set_title(f"{_plain(job.log, 60)}   {STATES[job.state]}", fontsize="medium", loc="left")
    names = ", ".join(f"{a.kind} {a.name} ({span(_length(job, a))})" for a in job.actions)
    text = f"no ranks; actions: {names}" if names else "no ranks, no actions"
    axes.text(0.01, 0.5, _plain(text, 110), va="center")


def _length(job: Job, action) -> float:
    return max(0.0, (job.t_last if action.end is None else action.end) - action.start)


def _legend(colors: _Colors, what_if: bool) -> List[object]:
    """Return what the legend shows."""
    went = Line2D([], [], color=_WENT_COLOR, marker="D", markersize=4, label="went")
    marks: List[object] = [*colors.legend(), went]
    if what_if:
        label = "would have gone (what-if)"
        marks.append(
            Line2D([], [], color=_WHAT_IF_COLOR, marker="D", markersize=4, ls="--", label=label)
        )
    return marks


def draw(jobs: List[Job], path: str) -> None:
    """Draw the logs to ``path`` (.svg or .png). Raises OSError if it can't be written."""
    panels = [bands(job) for job in jobs]
    heights = [_INCH_BAND * min(max(len(found), 3), 14) for found in panels]
    legend_height = 0.25 + 0.22 * 4  # room for four rows
    height = sum(heights) + _INCH_ABOVE_BELOW * len(jobs) + legend_height
    figure = Figure(figsize=(_INCH_WIDTH, height))
    colors = _Colors()
    top = height
    for job, found, own in zip(jobs, panels, heights):
        bottom = top - own - _INCH_TITLE
        left, width = _INCH_LEFT / _INCH_WIDTH, 1.0 - (_INCH_LEFT + 0.25) / _INCH_WIDTH
        axes = figure.add_axes((left, bottom / height, width, own / height))
        if found:
            _panel(axes, job, found, colors)
        else:
            _no_ranks(axes, job)
        top -= own + _INCH_ABOVE_BELOW
    marks = _legend(colors, any(job.what_if is not None for job in jobs))
    figure.legend(
        handles=marks,
        loc="lower left",
        bbox_to_anchor=(_INCH_LEFT / _INCH_WIDTH, 0.0),
        ncols=max(2, -(-len(marks) // 4)),
        frameon=False,
        fontsize="small",
    )
    with matplotlib.rc_context({"svg.hashsalt": "flux-epilog-replay", "hatch.linewidth": 2.5}):
        metadata = {"Date": None} if path.endswith(".svg") else {}
        figure.savefig(path, dpi=110, metadata=metadata)
