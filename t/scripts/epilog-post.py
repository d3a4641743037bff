# SPDX-License-Identifier: LGPL-3.0
"""Post many epilog events of a job at once, without waiting in between.

    flux python epilog-post.py ID start DESCRIPTION...
    flux python epilog-post.py ID finish DESCRIPTION...
    flux python epilog-post.py ID finish --ranks DESCRIPTION RANK...

The last lets go of the ranks one at a time. Exit 1 if any event is refused.
"""

import argparse
import sys

import flux
from flux.job import JobID


def main():
    """Post all, then wait for all."""
    parser = argparse.ArgumentParser(prog="epilog-post.py")
    parser.add_argument("id", type=JobID)
    parser.add_argument("name", choices=["start", "finish"])
    parser.add_argument("--ranks", metavar="DESCRIPTION")
    parser.add_argument("what", nargs="+")
    args = parser.parse_args()
    handle = flux.Flux()
    futures = []
    for what in args.what:
        context = {"description": what}
        if args.ranks:
            context = {"description": args.ranks, "ranks": what}
        if args.name == "finish":
            context["status"] = 0
        request = {"id": args.id, "name": "epilog-" + args.name, "context": context}
        futures.append(handle.rpc("job-manager.post-event.post", request))
    failed = 0
    for what, future in zip(args.what, futures):
        try:
            future.get()
        except OSError as exc:
            print(f"epilog-post: {what}: {exc}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
