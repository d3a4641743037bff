# SPDX-License-Identifier: LGPL-3.0
"""Let an epilog action let go of ranks, or end, while a scheduler starts.

    flux python post-at-hello.py ID DESCRIPTION [RANKS]

Prints "waiting", then waits until a scheduler says hello to the job manager, and posts an
epilog-finish right then. It fails if no scheduler does so within a minute, or if the event is
refused.
"""

from __future__ import annotations

import signal
import sys

import flux
from flux.constants import FLUX_RPC_STREAMING
from flux.job import JobID

PATIENCE = 60  # seconds


def main() -> int:
    """Wait and post."""
    jobid, description = sys.argv[1:3]
    context: dict[str, object] = {"description": description, "status": 0}
    if len(sys.argv) > 3:
        context["ranks"] = sys.argv[3]
    handle = flux.Flux()
    trace = handle.rpc(
        "module.trace",
        {
            "names": ["job-manager"],
            "topic_glob": "job-manager.sched-hello",
            "typemask": 1,  # requests
            "full": False,
        },
        flags=FLUX_RPC_STREAMING,
    )
    handle.rpc("module.list", {}).get()  # answered after the trace began
    print("waiting", flush=True)
    signal.alarm(PATIENCE)
    trace.get()
    event = {"id": JobID(jobid), "name": "epilog-finish", "context": context}
    handle.rpc("job-manager.post-event.post", event).get()
    return 0


if __name__ == "__main__":
    sys.exit(main())
