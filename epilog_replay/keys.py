# SPDX-License-Identifier: LGPL-3.0
"""Keys of an event's context: read with a warning where they are not what they should be."""

from typing import Any, Dict, Optional

from epilog_replay import codes, idset
from epilog_replay.job import Job

Context = Optional[Dict[str, Any]]


def missing(job: Job, line: int, name: str, context: Context, *keys: str) -> None:
    """Warn of the keys that RFC 21 requires and that ``context`` lacks."""
    lacking = [key for key in keys if not context or key not in context]
    if lacking:
        job.warn(codes.MISSING_KEY, line, f"{name} has no {', no '.join(lacking)}")


def description(job: Job, line: int, name: str, context: Context) -> Optional[str]:
    """Return the description of an action's event, None if it has none."""
    if context is None or "description" not in context:
        return None
    value = context["description"]
    if isinstance(value, str) and "\0" not in value:
        return value
    text = f"{name}: description {value!r:.32} is not a name: read without it"
    job.warn(codes.BAD_VALUE, line, text)
    return None


def status(job: Job, line: int, name: str, context: Context) -> Optional[int]:
    """Return the wait status of an action's finish, None if it has none."""
    if context is None or "status" not in context:
        return None
    value = context["status"]
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    text = f"{name}: status {value!r:.32} is not a wait status: read without it"
    job.warn(codes.BAD_VALUE, line, text)
    return None


def ranks(job: Job, line: int, name: str, value: object, instead: str) -> Optional[int]:
    """Return the ranks that a ``ranks`` key names as a mask.

    None if it is not "all", nor an idset of ranks of the job; a warning then says what is done
    ``instead``.
    """
    if value == "all":
        return job.full
    if not isinstance(value, str):
        text = f"{name}: ranks {value!r:.32} is not a string: {instead}"
        job.warn(codes.BAD_VALUE, line, text)
        return None
    try:
        ranges = idset.parse(value)
    except idset.IdsetError as exc:
        job.warn(codes.BAD_VALUE, line, f"{name}: ranks {exc}: {instead}")
        return None
    width = job.full.bit_length()
    inside = not ranges or ranges[-1][1] < width
    mask = idset.to_mask(ranges) if inside else 0
    if not inside and not job.ranks_known:
        text = f"{name}: ranks {value:.32} name a rank over {idset.LIMIT - 1}: {instead}"
        job.warn(codes.BAD_VALUE, line, text)
        return None
    if not inside or mask & ~job.full:
        job.warn(
            codes.RANKS_NOT_IN_R,
            line,
            f"{name}: ranks {value:.32} are not all of the job's {job.full_text or 'none'}:"
            f" {instead}",
        )
        return None
    return mask
