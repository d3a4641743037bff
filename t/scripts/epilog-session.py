# SPDX-License-Identifier: LGPL-3.0
"""Do what an example session in a manual page does, and compare what is printed.

    flux python epilog-session.py PAGE ID USER

In PAGE (reStructuredText), the lines that begin with "  # " in the section EXAMPLE are commands,
and what follows each, as far as it is indented, is what it prints. The first job id there stands
for ID, "alice" for USER, and times for any times. Commands that change something are followed by a
wait for what they bring about. Exit 1 with a line for each command that prints something else.
"""

import json
import re
import subprocess
import sys

import flux
import flux.job

PROMPT = "# "
JOBID = re.compile(r"\b[fƒ][1-9A-HJ-NP-Za-km-z]{6,}\b")
AGE = re.compile(r"(?<= )\d+(\.\d+)?[smhd](?= )")
DATE = re.compile(r"^[A-Z][a-z]{2}\d\d \d\d:\d\d", re.MULTILINE)


def session(page):
    """Return the page's session as a list of [command, output]."""
    with open(page, encoding="utf-8") as lines:
        text = lines.read()
    section = text[text.index("\nEXAMPLE\n=======\n") + 17 :]
    steps = []
    for line in section[: section.index("\n====")].splitlines():
        if line.startswith("  " + PROMPT):
            steps.append([line[2 + len(PROMPT) :], ""])
        elif line.startswith("  ") and steps:
            steps[-1][1] += line[2:] + "\n"
    return steps


def normal(text):
    """Return text with times made equal, and blanks that depend on the width of words."""
    text = AGE.sub("AGE", DATE.sub("DATE", text))
    return re.sub(r" *$", "", re.sub(r" +", " ", text), flags=re.MULTILINE)


def wait(handle, jobid, command, seen):
    """Wait for what a command brings about. ``seen`` counts events by name."""
    wanted = ()
    if command.startswith("flux epilog release"):
        wanted = ("partial-free", "free")
    elif command.startswith("flux epilog finish"):
        wanted = ("clean",)
    if not wanted:
        return
    count = 0
    for event in flux.job.event_watch(handle, jobid):
        count += event.name in wanted
        if count > sum(seen.get(name, 0) for name in wanted):
            seen[event.name] = seen.get(event.name, 0) + 1
            return
    raise RuntimeError(f"{command}: no {' or '.join(wanted)} event")


def main():
    """Run the session."""
    page, jobid, user = sys.argv[1:]
    jobid = flux.job.JobID(jobid)
    handle = flux.Flux()
    seen = {}
    log = flux.job.job_kvs_lookup(handle, jobid, keys=["eventlog"], decode=False)
    for line in log["eventlog"].splitlines():
        name = json.loads(line)["name"]
        seen[name] = seen.get(name, 0) + 1
    steps = session(page)
    text = "\n".join(command + "\n" + output for command, output in steps)
    theirs = JOBID.search(text).group()
    complaints = []
    for command, output in steps:
        command = command.replace(theirs, jobid.f58)
        output = output.replace(theirs, jobid.f58)
        output = re.sub(r"\balice\b", user, output)
        done = subprocess.run(
            command,
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        printed = done.stdout.decode()
        print(PROMPT + command + "\n" + printed, end="", flush=True)
        if normal(printed) != normal(output):
            complaints.append(
                f"{command}: printed {printed!r}, the page has {output!r}"
            )
        if done.returncode == 0:
            wait(handle, jobid, command, seen)
    if not steps:
        complaints.append(f"{page}: no session")
    for complaint in complaints:
        print("epilog-session: " + complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
