# SPDX-License-Identifier: LGPL-3.0
"""Send requests that no one should send to the epilog RPCs, and look at what they did.

    flux python epilog-hostile.py ID corpus          send those below
    flux python epilog-hostile.py ID serve           send those that come on standard input
    flux python epilog-hostile.py ID memory          send the same ones for long, and look at memory

ID is a job in CLEANUP state that one action, of any name, holds whole. Each request must be
answered; a bad one with an errno that is documented and a text; and after each, the job's actions
must be what a model says: the same as before if the request was a bad one. Exit 1 with a line per
complaint.

A request is [NAME, PAYLOAD] or [NAME, PAYLOAD, true]: NAME is start, finish or list, PAYLOAD is
text (bytes that are not UTF-8 as Python's surrogateescape has them), and the third says to send it
without the NUL that ends a string. serve reads one per line,
in JSON, with "ID" in PAYLOAD for the job's id, and answers with a line: complaints, or nothing.
"""

import argparse
import errno
import json
import re
import sys

import epilog_oracle
import flux
from flux.core.inner import lib
from flux.future import Future
from flux.job import JobID

PATIENCE = 60.0  # seconds for an answer
REFUSALS = (errno.EPROTO, errno.EINVAL, errno.ENOENT, errno.EOVERFLOW)
KEYS = {
    "start": {"id", "description", "ranks"},
    "finish": {"id", "description", "ranks", "status"},
    "list": {"id"},
}
CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
MEMORY_ROUNDS = 60
MEMORY_MARGIN = 2**20  # bytes
HELD = "hold"  # the action that requests try to change

# Values that none of the keys may have. Texts are JSON.
NOT_TEXT = [
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "[]",
    '["0"]',
    "{}",
    '{"a":"0"}',
    "[" * 400 + "]" * 400,
]
NOT_INTEGER = ["null", "false", '"0"', '""', "1.5", "1e3", "[]", "[1]", "{}", '"ID"']
NOT_JOBS = [
    "0",
    "1",
    "-1",
    "-2",
    str(2**31),
    str(2**62),
    str(-(2**63)),
    str(2**63),
    str(2**64),
]
NOT_RANKS = [
    "9",
    "0-9",
    "0-4294967293",
    "0-4294967294",
    "0-4294967295",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "9" * 1000,
    "-1",
    "--1",
    "-",
    ",",
    "0,",
    ",0",
    "0,,1",
    "0-",
    "-0",
    "1-0",
    "0-0",
    "0-1-2",
    "0,0",
    "0,0-1",
    "0-1,1-2",
    "1,0",
    "00",
    "01",
    "0x1",
    "1e1",
    "1.0",
    "+1",
    " 0",
    "0 ",
    "0, 1",
    "0\\n",
    "0\\u0000",
    "[0",
    "0]",
    "[[0]]",
    "[0],[1]",
    "[]0",
    "ALL",
    "All",
    "all ",
    "all,0",
    "none",
    "null",
    "\\uff10",
    "\\u0660",
    "a",
    "%s%n",
    "0;1",
    ",".join(str(2 * one) for one in range(120000)),
    "0-1," * 250000,
    "[" * 1000000,
    "a" * 1000000,
]
# Names that no action has, but may have.
ODD_DESCRIPTIONS = [
    "",
    " ",
    "hold ",
    "Hold",
    "hol",
    "holdd",
    "hold\\u0000",
    "\\u0000",
    "h\\u00f6ld",
    "\\ud83d\\ude00",
    "\\u202ehold",
    "%s%n%d",
    "\\n\\t\\u001b[31m",
    "\\u007f\\u0080\\u009b31m\\u009f\\u00a0",
    '\\"',
    "x" * 159,
    "\\u20ac" * 53,
    "\\ud83d\\ude00" * 41,
    "y" * 1000000,
    "\\u00e9" * 500000,
    *(
        "x" * pad + character * 60
        for pad in range(4)
        for character in ("\u00e9", "\u20ac", "\U0001f600")
    ),
]
NOT_REQUESTS = [
    *(
        '{"id":ID,"description":"hold","%s%s":0}' % ("x" * pad, character * 200)
        for pad in range(4)
        for character in ("\u00e9", "\u20ac", "\U0001f600")
    ),
    "",
    " ",
    "null",
    "true",
    "0",
    '"ID"',
    "[]",
    "[ID]",
    '{"id":ID}',
    '{"description":"hold"}',
    "{",
    '{"id":',
    '{"id":ID,"description":"hold"',
    '{"id":ID,"description":"hold"}}',
    '{"id":ID,"description":"hold"} x',
    "{'id':ID,'description':'hold'}",
    '{"id":ID,"description":"hold",}',
    '{"id":ID "description":"hold"}',
    '{"id":NaN,"description":"hold"}',
    '{"id":ID,"description":"hold","status":Infinity}',
    '{"id":ID,"description":"hold","status":1e999}',
    '{"id":ID,"description":"\\ud800"}',
    '{"id":ID,"description":"\udcff\udcfe"}',
    '\ufeff{"id":ID,"description":"hold"}',
    '{"id":ID,"description":"hold","rank":"0"}',
    '{"id":ID,"description":"hold","Ranks":"0"}',
    '{"id":ID,"description":"hold","ranks ":"0"}',
    '{"id":ID,"description":"hold","ranks\\u0000":"0"}',
    '{"id":ID,"description":"hold","idset":"0"}',
    '{"id":ID,"description":"hold","deep":%s}' % ("[" * 1500 + "]" * 1500),
    '{"id":ID,"description":"hold","deep":%s}' % ("[" * 5000 + "]" * 5000),
    '{"a":' * 100000 + "0" + "}" * 100000,
    "[" * 1000000,
    '{"id":ID,"description":"hold","pad":"%s"}' % ("z" * 1000000),
    "\x01\x02",
    "\x7fELF",
]


def corpus():
    """Return requests. Nearly all are bad."""
    requests = []
    for name in KEYS:
        requests += [[name, text] for text in NOT_REQUESTS]
        requests += [[name, '{"id":ID,"description":"hold"}', True], [name, "", True]]
        for value in NOT_INTEGER + NOT_JOBS:
            payload = '{"id":%s%s}' % (
                value,
                "" if name == "list" else ',"description":"hold"',
            )
            requests.append([name, payload])
    for name in ("start", "finish"):
        for ranks in NOT_TEXT + ['"%s"' % text for text in NOT_RANKS]:
            for what in (HELD, "nothing"):
                payload = '{"id":ID,"description":"%s","ranks":%s}' % (what, ranks)
                requests.append([name, payload])
        for description in NOT_TEXT:
            requests.append([name, '{"id":ID,"description":%s}' % description])
    for description in ODD_DESCRIPTIONS:
        for rest in ("", ',"ranks":"0"', ',"ranks":""', ',"status":1'):
            payload = '{"id":ID,"description":"%s"%s}' % (description, rest)
            requests.append(["finish", payload])
    for status in NOT_INTEGER[:-1] + [str(2**31), str(2**63), "-%d" % (2**63)]:
        payload = '{"id":ID,"description":"hold","status":%s}' % status
        requests.append(["finish", payload])
    return requests


def odd_but_good():
    """Return requests that are to be taken, odd as they are."""
    requests = []
    for description in ODD_DESCRIPTIONS:
        if "\\u0000" not in description:
            requests.append(
                ["start", '{"id":ID,"description":"%s","ranks":"0"}' % description]
            )
    for ranks in ("0", "[0]", "0-1", "[0-1]", "0,1", "[0,1]", "all"):
        for name in ("start", "finish"):
            payload = '{"id":ID,"description":"hold","ranks":"%s"}' % ranks
            requests.append([name, payload])
    for ranks in ("", "[]"):
        requests.append(
            ["start", '{"id":ID,"description":"hold","ranks":"%s"}' % ranks]
        )
    for status in (0, 1, -1, 255, 2**31 - 1, -(2**31)):
        payload = '{"id":ID,"description":"hold","status":%d}' % status
        requests.append(["finish", payload])
    requests.append(["finish", '{"id":1,"description":"hold","id":ID}'])
    requests.append(["finish", ' \n{ "description" : "hold", "id" : ID }\t'])
    return requests + [["list", "{}"], ["list", '{"id":ID}']]


def refuse(text):
    """Refuse what Python takes for JSON and others do not."""
    raise ValueError(text)


def integer(text):
    """Return an integer of JSON as the job manager's library reads it."""
    number = int(text)
    return number if -(2**63) <= number < 2**63 else refuse(text)


def real(text):
    """Return a number of JSON as the job manager's library reads it."""
    number = float(text)
    return refuse(text) if number in (float("inf"), float("-inf")) else number


def parse(text):
    """Return a payload, ValueError if it is not JSON."""
    try:
        payload = json.loads(
            text, parse_int=integer, parse_float=real, parse_constant=refuse
        )
        text.encode()
        json.dumps(payload, ensure_ascii=False).encode()
    except RecursionError:
        refuse("too deep")
    return payload


def is_integer(value, bits=64):
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    )


class Model:
    """What the job's actions should be: a list of [description, held, released]."""

    def __init__(self, jobid, ranks, actions):
        self.jobid = jobid
        self.ranks = ranks
        self.actions = actions

    def decode(self, ranks):
        """Return a set of the job's ranks, ValueError if it is bad."""
        if not isinstance(ranks, str):
            raise ValueError("ranks")
        if ranks == "all":
            return set(self.ranks)
        ranges = epilog_oracle.parse_idset(ranks)
        if any(last not in self.ranks for _, last in ranges):
            raise ValueError("ranks")
        ids = {one for first, last in ranges for one in range(first, last + 1)}
        if not ids <= self.ranks:
            raise ValueError("ranks")
        return ids

    def apply(self, name, text, unterminated):
        """Do as the request says, ValueError if it is a bad one."""
        payload = refuse("string without end") if unterminated else parse(text)
        if not isinstance(payload, dict) or not set(payload) <= KEYS[name]:
            raise ValueError("keys")
        if name == "list" and "id" not in payload:
            return
        if not is_integer(payload.get("id")) or payload["id"] != self.jobid:
            raise ValueError("id")
        if name != "list":
            self.apply_event(name, payload)

    def apply_event(self, name, payload):
        """Do as a request to start or finish says, ValueError if it is a bad one."""
        what = payload.get("description")
        if not isinstance(what, str) or "\0" in what:
            raise ValueError("description")
        if not is_integer(payload.get("status", 0), 32):
            raise ValueError("status")
        ids = self.decode(payload["ranks"]) if "ranks" in payload else None
        if name == "start":
            self.actions.append([what, set(self.ranks) if ids is None else ids, set()])
            return
        found = [action for action in self.actions if action[0] == what]
        if not found or ids == set():
            raise ValueError("no such action, or no ranks")
        if ids is None:
            self.actions.remove(found[0])
        else:
            found[0][2] |= ids & found[0][1]
            found[0][1] -= ids


class Victim:
    """The job that requests are about."""

    def __init__(self, handle, jobid):
        self.handle = handle
        self.jobid = int(jobid)
        self.keeper = self.list()["actions"][0]["description"]
        self.ranks = self.decode(self.list()["ranks"])
        self.reset()

    def request(self, name, payload):
        return self.handle.rpc("job-manager.epilog-" + name, payload).get()

    def list(self):
        return self.request("list", {"id": self.jobid})["jobs"][0]

    @staticmethod
    def decode(text):
        ranges = epilog_oracle.parse_idset(text)
        return {one for first, last in ranges for one in range(first, last + 1)}

    def actions(self):
        """Return the job's actions in the form of the model."""
        return [
            [one["description"], self.decode(one["held"]), self.decode(one["released"])]
            for one in self.list()["actions"]
        ]

    def reset(self):
        """End all actions but the first, and start one."""
        for what, _, _ in self.actions()[1:]:
            self.request("finish", {"id": self.jobid, "description": what})
        self.request("start", {"id": self.jobid, "description": HELD})

    def send(self, name, text, unterminated=False):
        """Send a request. Return its error, if any; TimeoutError if there is no answer."""
        topic = "job-manager.epilog-" + name
        if unterminated:
            data = text.encode(errors="surrogateescape")
            future = Future(
                lib.flux_rpc_raw(
                    self.handle.handle, topic.encode(), data, len(data), 0, 0
                )
            )
        else:
            future = self.handle.rpc(topic, text)
        future.wait_for(PATIENCE)
        try:
            future.get()
        except OSError as exc:
            return exc
        except UnicodeDecodeError:
            return OSError(errno.EILSEQ, "the text of the error is not UTF-8")
        return None

    def is_bad(self, name, payload, unterminated=False):
        """Return whether a request should be refused."""
        model = Model(self.jobid, self.ranks, self.actions())
        try:
            model.apply(name, payload.replace("ID", str(self.jobid)), unterminated)
        except ValueError:
            return True
        return False

    def judge(self, name, payload, unterminated=False):
        """Send a request and return complaints."""
        text = payload.replace("ID", str(self.jobid))
        before = self.actions()
        model = Model(self.jobid, self.ranks, self.actions())
        try:
            model.apply(name, text, unterminated)
            good = True
        except ValueError:
            model.actions = before
            good = False
        exc = self.send(name, text, unterminated)
        complaints = []
        if good and exc:
            complaints.append(f"refused: {exc}")
        elif not good and not exc:
            complaints.append("taken")
        elif exc and (exc.errno not in REFUSALS or not exc.strerror):
            complaints.append(f"refused in a way that is not documented: {exc}")
        elif exc and CONTROL.search(exc.strerror):
            complaints.append(f"refused with control characters: {exc.strerror!r}")
        after = self.actions()
        if after != model.actions:
            complaints.append(f"actions are {after}, want {model.actions}")
        if after != before:
            self.reset()
        return [f"{name} {text[:200]!r}: {complaint}" for complaint in complaints]

    def check(self):
        """Return complaints about the job as a whole."""
        job = self.list()
        if job["handed_over"] or job["ranks"] != epilog_oracle.encode_idset(self.ranks):
            return [f"the job has changed: {job}"]
        return []


def rss(handle):
    """Return the memory of the broker, and with it of the job manager, in bytes."""
    pid = handle.attr_get("broker.pid")
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise OSError(errno.ENOENT, f"/proc/{pid}/status: no VmRSS")


def memory(victim):
    """Send bad requests for long and return a complaint if memory grows."""
    bad = [one for one in corpus() if victim.is_bad(*one)]
    requests = [one for one in bad if len(one[1]) < 10000]
    large = [one for one in bad if len(one[1]) >= 10000]
    sizes = []
    for number in range(MEMORY_ROUNDS):
        for request in requests + large[number % len(large) :][:2]:
            text = request[1].replace("ID", str(victim.jobid))
            if not victim.send(request[0], text, *request[2:]):
                return [f"taken: {request[0]} {text[:200]!r}"]
        sizes.append(rss(victim.handle))
    half = len(sizes) // 2
    print(
        f"{MEMORY_ROUNDS * (len(requests) + 2)} requests:"
        f" {sizes[half] >> 10} KiB after half, {sizes[-1] >> 10} KiB at the end"
    )
    steps = [after - before for before, after in zip(sizes[half:], sizes[half + 1 :])]
    if sum(steps) - max(steps) > MEMORY_MARGIN:  # a leak takes more than one step
        return [f"memory grows: {[size >> 10 for size in sizes[half:]]} KiB"]
    return []


def serve(victim):
    """Judge requests as they come."""
    for line in sys.stdin:
        complaints = victim.judge(*json.loads(line))
        print("; ".join(complaints), flush=True)
    return []


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="epilog-hostile.py")
    parser.add_argument("id", type=JobID)
    parser.add_argument("command", choices=["corpus", "serve", "memory"])
    args = parser.parse_args()
    victim = Victim(flux.Flux(), args.id)
    complaints = []
    if args.command == "corpus":
        requests = corpus() + odd_but_good()
        for request in requests:
            complaints += victim.judge(*request)
        print(f"{len(requests)} requests")
    elif args.command == "serve":
        serve(victim)
    else:
        complaints += memory(victim)
    complaints += victim.check()
    for complaint in complaints:
        print("epilog-hostile: " + complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
