# SPDX-License-Identifier: LGPL-3.0
"""Watch what an instance does with the resources of its jobs, and judge it.

    flux python epilog-watch.py start FILE    begin, in the background
    flux python epilog-watch.py check FILE    end, and fail with a line per violation
    python3 epilog-watch.py judge FILE        judge a file again, without Flux

The watch writes records to FILE, a JSON object a line; epilog_books.py says what they look like
and what is right. They come from the job manager's journal, from a trace of its messages to and
from the scheduler, and from questions that it is asked after each of these. It answers in the
order in which it acts, and a single handle receives all, so the order of records is the order of
what happened. The scheduler may be reloaded, and may be any.

With --active-ok (check, judge), jobs may be active at the end, and the watch may be cut off.
"""

import argparse
import json
import os
import sys
import time
import traceback

import epilog_books
import epilog_json  # noqa: F401  lets json read as deep as the job manager does

PATIENCE = 120.0  # seconds that check waits for the watch to end
HOUSEKEEPING = 60.0  # seconds that the watch waits for housekeeping before it ends
EVENT_END = "epilog-watch.end"
FINALIZING = 2  # status of a module that goes
REQUEST, RESPONSE = 1, 2  # message types
ALLOC_SUCCESS = 0  # type of a scheduler's answer (RFC 27)


class Watch:
    """Receive messages on one handle and write records of them."""

    def __init__(self, path):
        import flux

        self.out = open(path, "w", buffering=1)
        self.handle = flux.Flux()
        self.streams = []
        self.questions = []
        self.unanswered = 0
        self.statuses = 0  # answers to resource-status
        self.news = False  # since the last questions
        self.scheduler = None  # name of the module
        self.began = False
        self.end_at = None  # a time, once the end was asked for

    def write(self, what, **keys):
        """Write a record."""
        record = {"what": what}
        record.update(keys)
        self.out.write(json.dumps(record) + "\n")

    def stream(self, topic, payload):
        """Send a request that has many responses."""
        from flux.constants import FLUX_RPC_STREAMING

        self.streams.append(self.handle.rpc(topic, payload, flags=FLUX_RPC_STREAMING))

    def trace(self, names, glob):
        """Trace requests and responses of modules, all if none is named."""
        payload = {"typemask": REQUEST | RESPONSE, "topic_glob": glob, "names": names}
        payload["full"] = True
        self.stream("module.trace", payload)

    def ask(self, *topics):
        """Ask questions, whose answers come through receive()."""
        self.news = False
        self.questions = [self.handle.rpc(topic, {}) for topic in topics]
        self.unanswered = len(topics)

    def begin(self):
        """Start all streams. History comes first, then a record says that the watch began."""
        self.handle.event_subscribe(EVENT_END)
        for module in self.handle.rpc("module.list", {}).get()["mods"]:
            if "sched" in module["services"]:
                self.scheduler = module["name"]
        self.trace([], "*sched*")
        self.trace([], "module.status")
        self.trace(["job-manager"], "job-manager.raise")
        self.stream("job-manager.events-journal", {"full": True})
        self.ask("job-manager.stats-get")
        while not self.began:
            self.receive()

    def run(self):
        """Go on until the end was asked for, and housekeeping is done."""
        while not self.out.closed:
            self.receive()
            if not self.unanswered and (self.news or self.end_at):
                if self.end_at:
                    time.sleep(0.05)  # or it would do nothing else
                self.ask("job-manager.resource-status", "job-manager.stats-get")

    # Messages

    def receive(self):
        """Receive one message."""
        message = self.handle.recv()
        topic = message.topic
        if topic == EVENT_END:
            self.end_at = self.end_at or time.time() + HOUSEKEEPING
            return
        try:
            payload = json.loads(message.decode()[2] or "null")
        except OSError as exc:
            self.failed(topic, message, exc)
            return
        if topic == "module.trace":
            self.traced(payload)
        elif topic == "job-manager.events-journal":
            self.journal(payload)
        elif topic == "job-manager.resource-status":
            self.unanswered -= 1
            self.statuses += 1
            self.write("status", allocated=payload["allocated"])
        elif topic == "job-manager.stats-get":
            self.unanswered -= 1
            self.tasks(payload["housekeeping"]["running"])

    def failed(self, topic, message, exc):
        """A request failed: that is a violation for some, and the end of the watch for others."""
        text = message.payload_str or os.strerror(exc.errno)
        if topic != "job-manager.resource-status":
            raise RuntimeError(f"{topic}: {text}")
        self.unanswered -= 1
        self.write("status", error=text)

    def journal(self, payload):
        """Write events of a job, with R where the job gets it."""
        for event in payload["events"]:
            keys = {"id": payload["id"], "name": event["name"]}
            if event.get("context"):
                keys["context"] = event["context"]
            if event["name"] == "alloc":
                keys["R"] = payload.get("R")
            self.write("event", **keys)
            self.news = True

    def tasks(self, running):
        """Write what housekeeping has; begin or end the watch with it."""
        from flux.job import JobID

        ranks = {
            str(int(JobID(name))): job["allocated"] for name, job in running.items()
        }
        if not self.began:
            self.began = True
            self.write("start", housekeeping=ranks, online=self.scheduler is not None)
        elif self.end_at and (not ranks or time.time() > self.end_at) and not self.news:
            self.write("end", housekeeping=ranks, statuses=self.statuses)
            self.out.close()
        else:
            self.write("tasks", housekeeping=ranks, at=time.monotonic())

    def traced(self, message):
        """Write what a message says between job manager and scheduler, if it matters."""
        topic, kind, name = message["topic"], message["type"], message["name"]
        payload = message.get("payload") or {}
        if topic == "module.status":
            if name == self.scheduler and payload.get("status") == FINALIZING:
                self.write("offline")
        elif name != "job-manager":
            if topic == "job-manager.sched-hello" and kind == REQUEST:
                self.scheduler = name
        elif kind == REQUEST:
            self.traced_request(topic, payload)
        elif topic == "sched.alloc" and payload.get("type") == ALLOC_SUCCESS:
            self.write("alloc", id=payload["id"], R=payload["R"])
            self.news = True
        elif topic == "job-manager.sched-hello" and not message["errnum"]:
            self.write("told", id=payload["id"], free=payload.get("free"))
            self.news = True

    def traced_request(self, topic, payload):
        """Write what a request to, or of, the job manager says."""
        if topic == "sched.free":
            self.write(
                "free",
                id=payload["id"],
                R=payload["R"],
                final=payload.get("final", False),
            )
        elif topic == "job-manager.sched-hello":
            self.write("hello", partial_ok=bool(payload.get("partial-ok")))
        elif topic == "job-manager.sched-ready":
            self.write("ready")
        elif topic == "job-manager.raise":
            severity = payload.get("severity")
            self.write(
                "raise", id=payload["id"], type=payload["type"], severity=severity
            )
        else:
            return
        self.news = True


def daemon(path, log, ready):
    """Be the watch; write to the descriptor ``ready`` when it began. Never returns."""
    status = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(ready, 3)
        os.closerange(4, 256)  # whoever reads what the test writes must see its end
        watch = Watch(path)
        watch.begin()
        os.write(3, b"1")
        os.close(3)
        watch.run()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def start(args):
    """Begin the watch, and return when it sees everything."""
    log = os.open(args.file + ".log", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        daemon(args.file, log, write_end)
    os.close(write_end)
    if os.read(read_end, 1) != b"1":
        with open(args.file + ".log") as lines:
            return ["the watch did not begin:"] + lines.read().splitlines()
    return []


def load(path):
    """Return the records of a file. The last one may be cut."""
    records = []
    with open(path) as lines:
        for line in lines:
            if line.endswith("\n"):
                records.append(json.loads(line))
    return records


def judge(args):
    """Return the violations in a file of records."""
    return epilog_books.check(load(args.file), args.active_ok)


def check(args):
    """End the watch and judge its records."""
    import flux

    handle = flux.Flux()
    handle.rpc("event.publish", {"topic": EVENT_END, "flags": 0}).get()
    give_up = time.time() + PATIENCE
    while time.time() < give_up and load(args.file)[-1]["what"] != "end":
        time.sleep(0.1)
    with open(args.file + ".log") as log:
        return judge(args) + log.read().splitlines()


def main():
    """Do what the command line says; exit 1 if there is anything to tell."""
    parser = argparse.ArgumentParser(prog="epilog-watch.py")
    parser.add_argument("command", choices=["start", "check", "judge"])
    parser.add_argument(
        "--active-ok", action="store_true", help="jobs may be active at the end"
    )
    parser.add_argument("file", metavar="FILE", help="where the records are")
    args = parser.parse_args()
    try:
        lines = {"start": start, "check": check, "judge": judge}[args.command](args)
    except OSError as exc:
        lines = [str(exc)]
    for line in lines:
        print("epilog-watch: " + line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
