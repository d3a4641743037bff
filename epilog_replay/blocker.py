# SPDX-License-Identifier: LGPL-3.0
"""What keeps a job from going on, as its log ends."""

from typing import List, NamedTuple, Optional

from epilog_replay.action import EPILOG, PROLOG, Action
from epilog_replay.job import CLEANUP, INACTIVE, RUN, SCHED, Job


class Blocker(NamedTuple):
    """``kind`` is epilog, prolog, exec or scheduler; ``ranks`` a mask; ``since`` a time."""

    kind: str
    description: Optional[str]  # of the actions, oldest first, comma between
    ranks: int
    since: Optional[float]


def _actions(kind: str, actions: List[Action]) -> Blocker:
    ranks = 0
    for action in actions:
        ranks |= action.held
    names = ", ".join(action.name for action in actions)
    return Blocker(kind, names, ranks, min(action.start for action in actions))


def _settled(job: Job) -> Optional[float]:
    """Return when the last thing that held the ranks came to its end."""
    times = [job.t_cleanup, job.t_exec_done, *(action.end for action in job.actions)]
    return max((t for t in times if t is not None), default=None)


def find(job: Job) -> Optional[Blocker]:
    """Return what the job waits for, or None: it is over, not queued yet, or just passing.

    An open prolog comes first, as it stops all else; then shells that still run; then open
    epilogs; then the scheduler, if ranks could go and did not.
    """
    if job.state == INACTIVE or job.state < SCHED:
        return None
    if job.state == SCHED:
        return Blocker("scheduler", None, 0, job.t_state)
    prologs = [action for action in job.open if action.kind == PROLOG]
    if prologs:
        return _actions(PROLOG, prologs)
    left = 0 if job.claim_lost is not None else job.full & ~job.gone
    if job.state == RUN:
        since = job.t_start
        if since is None:
            ends = [action.end for action in job.actions if action.end is not None]
            since = max([*ends, job.t_alloc or job.t_state or 0.0])
        return Blocker("exec", None, left, since)
    assert job.state == CLEANUP
    epilogs = [action for action in job.open if action.kind == EPILOG]
    running = job.started and job.t_exec_done is None
    if running and (job.t_finish is None or not epilogs):
        return Blocker("exec", None, left, job.t_finish or job.t_cleanup)
    if epilogs:
        return _actions(EPILOG, epilogs)
    if left and not job.bypass:
        return Blocker("scheduler", None, left, _settled(job))
    return None
