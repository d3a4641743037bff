# SPDX-License-Identifier: LGPL-3.0
"""Post events that a job manager has to refuse.

    flux python epilog-refused.py ID <FILE

A line of FILE is EVENT | TEXT | CONTEXT, the last in JSON, or absent. Each event must fail with
EINVAL, ENOENT or EOVERFLOW and an answer that has the event's name and TEXT in it; the log must
have a line with the job, the event and TEXT; and the eventlog must be as before. Exit 1 with a
line for each that is not so.
"""

import errno
import json
import sys

import flux
import flux.job

EXPECTED = (errno.EINVAL, errno.ENOENT, errno.EOVERFLOW)


def eventlog(handle, jobid):
    """Return the job's eventlog as it is."""
    return flux.job.job_kvs_lookup(handle, jobid, keys=["eventlog"], decode=False)[
        "eventlog"
    ]


def log_lines(handle):
    """Return what the broker has logged, as lines."""
    lines = []
    rpc = handle.rpc(
        "log.dmesg", {"follow": False}, flags=flux.constants.FLUX_RPC_STREAMING
    )
    try:
        while True:
            lines.append(rpc.get_str())
            rpc.reset()
    except OSError as exc:
        if exc.errno != errno.ENODATA:
            raise
    return lines


def post(handle, jobid, name, context):
    """Post an event. Return its error, if any."""
    request = {"id": jobid, "name": name}
    if context is not None:
        request["context"] = context
    try:
        handle.rpc("job-manager.post-event.post", request).get()
    except OSError as exc:
        return exc
    return None


def main():
    """Post all and complain."""
    handle = flux.Flux()
    jobid = flux.job.JobID(sys.argv[1])
    before = eventlog(handle, jobid)
    complaints = []
    wanted = []
    for line in sys.stdin:
        name, text, context = [part.strip() for part in (line + "||").split("|")[:3]]
        exc = post(handle, jobid, name, json.loads(context or "null"))
        wanted.append((line.strip(), name, text))
        if not exc:
            complaints.append(f"taken: {line.strip()}")
        elif (
            exc.errno not in EXPECTED
            or name + ": " not in str(exc)
            or text not in str(exc)
        ):
            complaints.append(f"{line.strip()}: got: {exc}")
    log = [
        line
        for line in log_lines(handle)
        if jobid.f58plain in line or jobid.f58 in line
    ]
    for line, name, text in wanted:
        if not any("refused " + name in one and text in one for one in log):
            complaints.append(f"not logged: {line}")
    if not wanted:
        complaints.append("nothing was posted")
    if eventlog(handle, jobid) != before:
        complaints.append("the eventlog has changed")
    for complaint in complaints:
        print("epilog-refused: " + complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
