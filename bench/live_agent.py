# SPDX-License-Identifier: LGPL-3.0
"""Inside an instance: does what live.py asks for, one line of JSON at a time.

Run by live_instance.py as ``flux python live_agent.py PLUGIN``. A question is
``{"what": NAME, "args": {...}}``; NAME is a function of ``WORK``. The answer is
``{"result": ...}`` or ``{"error": TEXT}``.
"""

import json
import sys

import flux
import live_job
import live_machine
import live_restart

WORK = {
    "machine": live_machine.make,
    "load": live_machine.load,
    "run_jobs": live_job.run_jobs,
    "burst": live_job.burst,
    "last_finish": live_job.last_finish,
    "move_data": live_job.move_data,
    "perilog": live_job.perilog,
    "prepare": live_restart.prepare,
    "restart": live_restart.restart,
    "memory": live_restart.memory,
}


def main() -> None:
    """Answer until there are no more questions."""
    handle = flux.Flux()
    live_machine.prepare(handle, sys.argv[1])
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"result": WORK[question["what"]](handle, **question["args"])}
        except Exception as exc:
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
