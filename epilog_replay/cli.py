# SPDX-License-Identifier: LGPL-3.0
"""The command ``flux-epilog-replay``: options, and what is read and printed in which order."""

import argparse
import os
import sys
from typing import IO, Callable, Dict, Iterator, List, NoReturn, Optional

from epilog_replay import codes, event, idset, rset, source, whatif
from epilog_replay.job import Job, unusable
from epilog_replay.replay import replay

COMMAND = "flux-epilog-replay"
PLOTS_MAX = 8  # logs in one plot
_CODES = "\n".join(
    f"  {code:17} " + text.replace("\n", "\n" + " " * 20) for code, text in codes.MEANING.items()
)
_EPILOG = f"""\
LOG is an eventlog as `flux job eventlog` prints it (JSON lines, or for people,
-H too), a .gz of one, a folder of them (*.eventlog, *.gz), or - for standard
input. R is --R or --ranks, else NAME.R.json beside NAME.eventlog, else, with a
warning, the alloc event's annotation.

warning codes:
{_CODES}

exit status: 0 all read (warnings allowed), 1 some log unusable (with --strict:
or a warning), 2 usage.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, not a page of usage."""
        sys.stderr.write(f"{COMMAND}: {message} (see --help)\n")
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=COMMAND,
        description="Replay job eventlogs: which action held which ranks, until when, at what"
        " cost, and what a ranks key would have saved.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--R", metavar="FILE", help="the job's R (RFC 20), for every LOG")
    parser.add_argument("--ranks", metavar="IDSET", help="the job's ranks, where R is not at hand")
    parser.add_argument("--json", action="store_true", help="print one JSON object a log")
    parser.add_argument("--plot", metavar="FILE", help="draw ranks against time: .svg or .png")
    parser.add_argument(
        "--what-if",
        metavar="DESC=RANKS[@SECONDS]",
        action="append",
        default=[],
        help="what if action DESC had held RANKS (an idset, all, or nothing: none), and let go"
        " of them SECONDS after its start; may be repeated",
    )
    parser.add_argument("--strict", action="store_true", help="a warning is a failure")
    parser.add_argument("logs", metavar="LOG", nargs="+", help="eventlog, folder, .gz or -")
    return parser


class Options:
    """The options, checked. Raises SystemExit(2) with one line on what is wrong."""

    def __init__(self, argv: Optional[List[str]]) -> None:
        parser = _parser()
        args = parser.parse_args(argv)
        self.json: bool = args.json
        self.plot: Optional[str] = args.plot
        self.strict: bool = args.strict
        self.logs: List[str] = args.logs
        self.rset: Optional[rset.ResourceSet] = None
        self.bad_R: Optional[str] = None  # why --R can't be used
        if args.R is not None and args.ranks is not None:
            parser.error("--R and --ranks exclude each other: give one")
        if self.logs.count("-") > 1:
            parser.error("standard input (-) can be read once only")
        if self.plot is not None and not self.plot.endswith((".svg", ".png")):
            parser.error(f"--plot {self.plot}: the name must end in .svg or .png")
        try:
            rules = [whatif.parse(text) for text in args.what_if]
            self.rules: Dict[str, whatif.Rule] = {rule.description: rule for rule in rules}
            if args.ranks is not None:
                self.rset = rset.from_ranks(args.ranks)
        except whatif.RuleError as exc:
            parser.error(f"--what-if {exc}")
        except idset.IdsetError as exc:
            parser.error(f"--ranks {exc}")
        if len(self.rules) < len(rules):
            parser.error("--what-if names one action twice")
        if args.R is not None:
            try:
                self.rset = rset.parse(source.read(args.R, source.R_MAX)[0])
            except source.SourceError as exc:
                parser.error(f"--R {args.R}: {exc}")
            except rset.RError as exc:
                self.bad_R = f"{args.R}: {exc}: not used"


def _resources(job: Job, R_path: Optional[str], options: Options) -> None:
    """Give the job its R: the option's, else what lies beside the log."""
    if options.bad_R is not None:
        job.warn(codes.BAD_R, None, options.bad_R)
    elif options.rset is not None:
        job.rset = options.rset
    elif R_path is not None and os.access(R_path, os.F_OK):
        try:
            job.rset = rset.parse(source.read(R_path, source.R_MAX)[0])
        except (source.SourceError, rset.RError) as exc:
            job.warn(codes.BAD_R, None, f"{R_path}: {exc}: not used")
    if job.rset is not None:
        for fault in job.rset.faults:
            job.warn(codes.BAD_R, None, f"{fault}; its ranks are used")


def _weigh(job: Job, rules: Dict[str, whatif.Rule]) -> None:
    """Work out what the rules would have changed."""
    for name in whatif.applies(job, rules):
        ranks = rules[name].ranks
        outside = 0 if ranks == "all" else idset.decode(ranks) & ~job.full
        if outside and job.ranks_known and job.has_resources:
            text = f"--what-if {name}={ranks}: {idset.encode(outside)} not in the job's R: left out"
            job.warn(codes.RANKS_NOT_IN_R, None, text)
    job.what_if = whatif.weigh(job, rules)
    job.moves = None


def read_log(found: source.Source, options: Options) -> Job:
    """Return the record of one log; what is wrong with it is in its warnings."""
    if found.trouble is not None:
        return unusable(found.path, codes.WRONG_LOG, found.trouble)
    try:
        data, cut = source.read(found.path)
    except source.SourceError as exc:
        return unusable(found.path, codes.WRONG_LOG, f"can't be read: {exc}")
    job = Job(found.path)
    job.id = found.jobid
    if options.rules:
        job.moves = []
    _resources(job, found.R_path, options)
    events, numbers = event.read(data, job.warn) if data else ((), ())
    if cut:
        job.warn(codes.CUT_LINE, None, "the .gz is cut off: what is there is read")
    replay(job, events, numbers)
    if options.rules and job.usable:
        _weigh(job, options.rules)
    return job


def read_logs(options: Options) -> Iterator[Job]:
    """Give the record of each log, one at a time."""
    for found in source.expand(options.logs):
        yield read_log(found, options)


class _Progress:
    """A count on standard error, if that is a terminal; one line that is wiped at the end."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()

    def step(self, count: int) -> None:
        if self._shown and count % 250 == 0:
            sys.stderr.write(f"\r{COMMAND}: {count:,} logs read")
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _print_json(jobs: Iterator[Job], out: IO[bytes], seen: Callable[[Job], None]) -> None:
    from epilog_replay.record import to_line

    for job in jobs:
        out.write(to_line(job))
        seen(job)


def _print_text(
    jobs: Iterator[Job], out: IO[bytes], seen: Callable[[Job], None], what_if: bool
) -> None:
    """Print a block if there is one log, else lines and totals."""
    from rich.console import Console

    from epilog_replay import text
    from epilog_replay.totals import Totals
    from epilog_replay.words import columns

    console = Console(width=columns(), highlight=False, markup=False, emoji=False)
    totals = Totals()
    first: Optional[Job] = None  # held back until it is known whether there is another
    for job in jobs:
        seen(job)
        totals.add(job)
        if first is None and totals.logs == 1:
            first = job
            continue
        if first is not None:
            out.write((text.line_header(what_if) + "\n" + text.line(first) + "\n").encode())
            first = None
        out.write((text.line(job) + "\n").encode())
    out.flush()
    if first is not None:
        text.block(console, first)
    else:
        totals.print(console, what_if)


def _plot(options: Options, jobs: List[Job]) -> None:
    """Draw the plot, or say in one line why not."""
    assert options.plot is not None
    try:
        from epilog_replay.plot import draw
    except ImportError as exc:
        raise SystemExit(
            f"{COMMAND}: --plot needs matplotlib: pip install 'flux-epilog[plot]' ({exc})"
        ) from None
    try:
        draw(jobs, options.plot)
    except OSError as exc:
        raise SystemExit(f"{COMMAND}: --plot {options.plot}: {exc.strerror or exc}") from None
    sys.stderr.write(f"{COMMAND}: plot written to {options.plot}\n")


def run(options: Options) -> int:
    """Read and print; return the exit status."""
    kept: List[Job] = []  # for the plot
    status = 0
    applied = set()
    count = 0
    progress = _Progress()

    def seen(job: Job) -> None:
        nonlocal status, count
        count += 1
        progress.step(count)
        if not job.usable or (options.strict and job.warnings):
            status = 1
        if options.rules:
            applied.update(whatif.applies(job, options.rules))
        if options.plot is not None and job.usable:
            if len(kept) == PLOTS_MAX:
                progress.close()
                text = f"--plot draws {PLOTS_MAX} logs at most: name fewer"
                sys.stderr.write(f"{COMMAND}: {text} (see --help)\n")
                raise SystemExit(2)
            kept.append(job)

    jobs = read_logs(options)
    out = sys.stdout.buffer
    if options.json:
        _print_json(jobs, out, seen)
    else:
        _print_text(jobs, out, seen, bool(options.rules))
    progress.close()
    sys.stdout.flush()
    for name in options.rules:
        if name not in applied:
            sys.stderr.write(f"{COMMAND}: --what-if {name}: no log has such an epilog\n")
    if options.plot is not None and kept:
        _plot(options, kept)
    return status


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command; return its exit status."""
    options = Options(argv)
    try:
        return run(options)
    except BrokenPipeError:  # `| head`: whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
