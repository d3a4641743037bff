# SPDX-License-Identifier: LGPL-3.0
"""Lost nodes: which ranks the note of a node failure names."""

import re

from epilog_replay import codes, idset
from epilog_replay.job import Job

_RANK = re.compile(r"(shell )?ranks? (\[[0-9,-]+\]|[0-9][0-9,-]*)")
_HOST = re.compile(r"node failure on (\S+)")


def lost_ranks(job: Job, line: int, note: str) -> int:
    """Return the ranks that the note of a node failure names.

    job-exec writes "node failure on HOST (shell rank N)", N counted from 0 within the job, or,
    if the job can't go on without it, "node failure on HOST (rank N)". Ranks of an unknown R
    are taken as they stand.
    """
    mask = 0
    job_ranks = idset.ids(job.rset.mask) if job.rset is not None else None
    for shell, text in _RANK.findall(note):
        try:
            named = idset.decode(text.rstrip(",-"))
        except idset.IdsetError:
            continue
        if shell:
            for index in idset.ids(named):
                if job_ranks is not None and index < len(job_ranks):
                    mask |= 1 << job_ranks[index]
        else:
            mask |= named
    hosts = job.rset.hosts() if job.rset is not None else []
    if not mask and hosts and job_ranks:
        names = set(_HOST.findall(note))
        mask = sum(1 << rank for rank, host in zip(job_ranks, hosts) if host in names)
    if job.rset is not None and mask & ~job.rset.mask:
        outside = idset.encode(mask & ~job.rset.mask)
        job.warn(codes.RANKS_NOT_IN_R, line, f"exception: lost rank {outside} is not the job's")
        mask &= job.rset.mask
    elif not mask:
        job.warn(codes.BAD_VALUE, line, f"exception: can't tell which rank is lost: {note:.64}")
    return mask
