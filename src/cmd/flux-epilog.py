#!/bin/false
# SPDX-License-Identifier: LGPL-3.0
"""List and change what epilog actions hold."""

import errno
import json
import logging
import pwd
import re
import sys
import time

import flux
import flux.util
from flux.cli.argparse import FluxArgumentParser
from flux.hostlist import Hostlist
from flux.idset import IDset
from flux.job import JobID
from flux.job.epilog import (
    epilog_finish,
    epilog_list,
    epilog_list_async,
    epilog_start,
)
from flux.job.epilog_run import EpilogRun, drain_ranks
from flux.resource import ResourceSet
from flux.util import Deduplicator, UtilConfig, parse_fsd

LOGGER = logging.getLogger("flux-epilog")


class FluxEpilogConfig(UtilConfig):
    """flux-epilog specific configuration"""

    builtin_formats = {
        "default": {
            "description": "Default flux-epilog format string",
            "format": (
                "{id.f58:>12} {username:<8.8} {state:<7} +:{description:<12} "
                "{age!F:>8} {held.nnodes:>6} {released.nnodes:>9} {held.nodelist}"
            ),
        },
        "ranks": {
            "description": "What is held and released, as ranks",
            "format": (
                "{id.f58:>12} +:{description:<12} {age!F:>8} "
                "+:{held.ranks:<10} {released.ranks}"
            ),
        },
        "job": {
            "description": "What is held and released, and what became of the job's nodes",
            "format": (
                "{id.f58:>12} +:{description:<12} +:{nodelist:<8} +:{held.nodelist:<8} "
                "+:{released.nodelist:<8} +:{handed_over.nodelist:<8} "
                "?+:{kept.nodelist:<4} {obstacle}"
            ),
        },
    }

    def __init__(self):
        initial_dict = {"formats": dict(self.builtin_formats)}
        super().__init__(name="flux-epilog", initial_dict=initial_dict)


JOBID_FIELDS = ["id"] + [
    "id." + form
    for form in "dec hex f58 f58plain emoji kvs words dothex".split()
]


class EpilogFormat(flux.util.OutputFormat):
    """Fields of a row, and their headings"""

    headings = {
        **dict.fromkeys(JOBID_FIELDS, "JOBID"),
        "userid": "UID",
        "username": "USER",
        "state": "STATE",
        "description": "DESCRIPTION",
        "t_start": "T_START",
        "age": "AGE",
        "ranks": "RANKS",
        "nodelist": "NODELIST",
        "nnodes": "NNODES",
        "held.ranks": "HELD",
        "held.nodelist": "HELD",
        "held.nnodes": "NHELD",
        "released.ranks": "RELEASED",
        "released.nodelist": "RELEASED",
        "released.nnodes": "NRELEASED",
        "handed_over.ranks": "HANDED-OVER",
        "handed_over.nodelist": "HANDED-OVER",
        "handed_over.nnodes": "NHANDED-OVER",
        "kept.ranks": "KEPT",
        "kept.nodelist": "KEPT",
        "kept.nnodes": "NKEPT",
        "ready.ranks": "READY",
        "ready.nodelist": "READY",
        "ready.nnodes": "NREADY",
        "obstacle": "OBSTACLE",
    }
    sets = [
        name
        for name in headings
        if name.endswith("ranks")
        or name.endswith("nodelist")
        or name.endswith("nnodes")
    ]


class Hosts:
    """Host names by rank, as the instance's R has them"""

    def __init__(self, handle):
        self.rpc = handle.rpc("resource.status", nodeid=0)
        self._names = None

    @property
    def names(self):
        if self._names is None:
            rset = ResourceSet(self.rpc.get()["R"])
            self._names = dict(zip(rset.ranks, rset.nodelist))
        return self._names

    def nodelist(self, ranks):
        """Return the hosts of some ranks, in order of rank"""
        return Hostlist([self.names.get(rank, f"rank{rank}") for rank in ranks])

    def ranks(self, hosts):
        """Return the ranks that a Hostlist names"""
        ranks = IDset()
        for host in hosts:
            found = [rank for rank, name in self.names.items() if name == host]
            if not found:
                raise ValueError(f"{host}: no such host in this instance")
            ranks.add(found)
        return ranks


class RankSet:
    """A set of ranks as the fields of a row want it"""

    def __init__(self, ids, hosts):
        self.ids = ids
        self.hosts = hosts

    @property
    def ranks(self):
        return str(self.ids)

    @property
    def nodelist(self):
        return str(self.hosts.nodelist(self.ids))

    @property
    def nnodes(self):
        return len(self.ids)


class EpilogRow:
    """One action of a job"""

    names = {}  # of users, by id

    def __init__(self, job, action, hosts, now):
        self.id = job.id
        self.userid = job.userid
        self.state = job.state
        self.description = action.description
        self.t_start = action.t_start
        self.age = max(0.0, now - action.t_start)
        self.job = RankSet(job.ranks, hosts)
        self.held = RankSet(action.held, hosts)
        self.released = RankSet(action.released, hosts)
        self.handed_over = RankSet(job.handed_over, hosts)
        self.kept = RankSet(job.kept, hosts)
        self.ready = RankSet(job.ready, hosts)
        self.obstacle = job.obstacle or ""

    @property
    def username(self):
        if self.userid not in self.names:
            try:
                self.names[self.userid] = pwd.getpwuid(self.userid).pw_name
            except KeyError:
                self.names[self.userid] = str(self.userid)
        return self.names[self.userid]

    @property
    def ranks(self):
        return self.job.ranks

    @property
    def nodelist(self):
        return self.job.nodelist

    @property
    def nnodes(self):
        return self.job.nnodes

    def combine(self, other):
        """Take in a row that looks the same but for its sets"""
        for name in ("job", "held", "released", "handed_over", "kept", "ready"):
            mine = getattr(self, name)
            mine.ids = mine.ids.union(getattr(other, name).ids)


def list_actions(args):
    """List actions, oldest first"""
    fmt = FluxEpilogConfig().load().get_format_string(args.format)
    try:
        formatter = EpilogFormat(fmt)
    except ValueError as err:
        raise ValueError(f"Error in user format: {err}") from None

    handle = flux.Flux()
    jobids = sorted(set(args.jobid)) or [None]
    futures = [epilog_list_async(handle, jobid) for jobid in jobids]
    if args.json:
        jobs = [job for future in futures for job in future.get_dict()["jobs"]]
        jobs.sort(key=lambda job: min(one["t_start"] for one in job["actions"]))
        print(json.dumps({"jobs": jobs}))
        return

    hosts = Hosts(handle)
    now = time.time()
    rows = [
        EpilogRow(job, action, hosts, now)
        for future in futures
        for job in future.get()
        for action in job.actions
    ]
    rows.sort(key=lambda row: row.t_start)
    lines = Deduplicator(
        formatter=formatter,
        except_fields=EpilogFormat.sets,
        combine=lambda row, other: row.combine(other),
    )
    for row in rows:
        lines.append(row)
    formatter.print_items(lines.items, no_header=args.no_header)


def parse_targets(handle, targets):
    """Return what a ranks argument shall be for targets given by a user

    An idset goes to the job manager as it is: it says what is wrong with it.
    """
    if targets is None or targets == "all" or re.match(r"^\[?[\d,-]*\]?$", targets):
        return targets
    try:
        hosts = Hostlist(targets)
    except ValueError:
        raise ValueError(f"{targets}: neither an idset nor a hostlist") from None
    return str(Hosts(handle).ranks(hosts))


def find_action(handle, jobid, description):
    """Return the action that a request would be about"""
    actions = [action for job in epilog_list(handle, jobid) for action in job.actions]
    for action in actions:
        if action.description == description:
            return action
    names = ", ".join(action.description for action in actions) or "none"
    raise ValueError(f"no action '{description}' is outstanding ({names})")


def drain(handle, jobid, description, targets, reason):
    """Drain what an action holds. Return it, as an idset, when the scheduler is told

    Nothing is drained unless the action can let go of all of it.
    """
    held = find_action(handle, jobid, description).held
    if targets == "all":
        targets = str(held)
    numbers = set(map(int, re.findall(r"\d+", targets)))
    try:  # with no number that is not held, a range is no larger than the job
        ranks = IDset(targets) if numbers.issubset(held) else numbers
    except ValueError:
        raise ValueError(f"{targets}: not an idset: nothing was drained") from None
    foreign = set(ranks).difference(held)
    if foreign:
        raise ValueError(
            f"rank {min(foreign)} is not held by '{description}': nothing was drained"
        )
    if not ranks:
        raise ValueError("no ranks to let go of: nothing was drained")
    try:
        drain_ranks(handle, ranks, reason)
    except OSError as exc:
        raise OSError(exc.errno, f"{exc.strerror}: nothing was released") from None
    except ValueError as exc:
        raise ValueError(f"{exc}: nothing was released") from None
    return str(ranks)


def hold(args):
    """Start an action"""
    handle = flux.Flux()
    ranks = parse_targets(handle, args.targets)
    epilog_start(handle, args.jobid, args.description, ranks)


def release(args):
    """Let an action let go of ranks"""
    handle = flux.Flux()
    ranks = parse_targets(handle, args.targets)
    if args.drain is not None:
        ranks = drain(handle, args.jobid, args.description, ranks, args.drain)
    epilog_finish(handle, args.jobid, args.description, ranks=ranks)


def finish(args):
    """End an action"""
    epilog_finish(flux.Flux(), args.jobid, args.description, args.status)


def run(args):
    """Run a command when a job has ended, and release its nodes as it gets done"""
    handle = flux.Flux()
    hosts = Hosts(handle)
    ranks = parse_targets(handle, args.on)
    handle.log_set_appname("flux-epilog")
    hosts.names  # now: the answer would get lost later
    well = EpilogRun(
        handle,
        args.jobid,
        args.command,
        ranks=ranks,
        per_rank=args.per_rank or args.on is not None,
        timeout=args.timeout,
        drain_failed=args.drain_failed,
        label_io=args.label_io,
        description=args.description,
        resume=args.resume,
        nodelist=lambda ranks: str(hosts.nodelist(sorted(ranks))),
    ).run()
    sys.exit(0 if well else 1)


def add_action_arguments(parser):
    """Add arguments that name an action"""
    parser.add_argument("jobid", metavar="JOB", type=JobID, help="job ID")
    parser.add_argument(
        "description", metavar="DESCRIPTION", help="name of the epilog action"
    )


def parse_args():
    parser = FluxArgumentParser(prog="flux-epilog")
    subparsers = parser.add_subparsers(
        title="subcommands", description="", dest="subcommand"
    )
    subparsers.required = True

    list_parser = subparsers.add_parser(
        "list", help="list epilog actions that are outstanding, oldest first"
    )
    list_parser.add_argument(
        "-o",
        "--format",
        metavar="FORMAT",
        default="default",
        help="Print FORMAT: a name ('help' lists them) or a Python format string",
    )
    list_parser.add_argument(
        "-n", "--no-header", action="store_true", help="Leave out the header line"
    )
    list_parser.add_argument(
        "--json", action="store_true", help="Print a JSON object, with ranks"
    )
    list_parser.add_argument(
        "jobid", metavar="JOB", type=JobID, nargs="*", help="list actions of JOB only"
    )
    list_parser.set_defaults(func=list_actions)

    hold_parser = subparsers.add_parser(
        "hold", help="start an epilog action that holds nodes of a job"
    )
    add_action_arguments(hold_parser)
    hold_parser.add_argument(
        "targets",
        metavar="TARGETS",
        nargs="?",
        help="hosts or ranks to hold (default: all of the job)",
    )
    hold_parser.set_defaults(func=hold)

    release_parser = subparsers.add_parser(
        "release", help="let go of nodes that an epilog action holds"
    )
    release_parser.add_argument(
        "--drain",
        metavar="REASON",
        help="Drain TARGETS first, and release them when they are drained",
    )
    add_action_arguments(release_parser)
    release_parser.add_argument(
        "targets", metavar="TARGETS", help="hosts or ranks to let go of"
    )
    release_parser.set_defaults(func=release)

    finish_parser = subparsers.add_parser("finish", help="end an epilog action")
    finish_parser.add_argument(
        "--status",
        metavar="N",
        type=int,
        default=0,
        help="Note N as the completion status of the action (default: 0)",
    )
    add_action_arguments(finish_parser)
    finish_parser.set_defaults(func=finish)

    run_parser = subparsers.add_parser(
        "run",
        usage="flux epilog run [OPTIONS] JOB -- COMMAND...",
        help="run a command when a job has ended, and release its nodes",
    )
    where = run_parser.add_mutually_exclusive_group()
    where.add_argument(
        "--per-rank",
        action="store_true",
        help="Run COMMAND on each node of the job, not just here,"
        " and release each as it gets done",
    )
    where.add_argument(
        "--on",
        metavar="TARGETS",
        help="Hold TARGETS only, hosts or ranks, and run COMMAND on each",
    )
    run_parser.add_argument(
        "--timeout",
        metavar="FSD",
        type=parse_fsd,
        help="Kill COMMAND if it takes longer",
    )
    run_parser.add_argument(
        "--drain-failed",
        action="store_true",
        help="Drain nodes where COMMAND fails before they are released",
    )
    run_parser.add_argument(
        "--label-io", action="store_true", help="Label lines of output with the rank"
    )
    run_parser.add_argument(
        "--description",
        metavar="NAME",
        default="run",
        help="Name of the epilog action (default: run)",
    )
    run_parser.add_argument(
        "--resume",
        action="store_true",
        help="Take up an action that was left behind, on the nodes that it holds",
    )
    run_parser.add_argument("jobid", metavar="JOB", type=JobID, help="job ID")
    run_parser.add_argument(
        "command", metavar="COMMAND", nargs="+", help="command and its arguments"
    )
    run_parser.set_defaults(func=run)

    return parser.parse_args()


@flux.util.CLIMain(LOGGER)
def main():
    # Descriptions are printed whatever is in them.
    utf8 = {"encoding": "utf8", "errors": "surrogateescape"}
    sys.stdout, sys.stderr = (
        open(stream.fileno(), "w", **utf8) for stream in (sys.stdout, sys.stderr)
    )
    args = parse_args()
    try:
        args.func(args)
    except OSError as exc:
        if exc.errno == errno.ENOSYS and "job-manager.epilog" in str(exc):
            raise OSError(
                exc.errno, f"this job manager has no epilog service: {exc.strerror}"
            ) from None
        raise


if __name__ == "__main__":
    main()

# vi: ts=4 sw=4 expandtab
