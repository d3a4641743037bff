# SPDX-License-Identifier: LGPL-3.0
"""Play sequences of steps on a live instance, and hold each answer against the model.

What steps are is said in epilog_sequence.py, what is right in epilog_model.py. Many
jobs are played at once, on one connection; whatever a step does to the world is done
to all of them.
"""

import json
import os
import random
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

import epilog_json
import epilog_sequence
from epilog_instance import Answer, Connection, Instance
from epilog_model import KEPT, JobModel, Wrong

BROKERS = 3  # more would be more like a real instance, but slow to start
CORES = 2  # of a node
OTHER_MODULES = ["job-list", "job-exec", "job-ingest", "job-manager"]
IDLE = 0.2  # seconds without a message
REQUEST, RESPONSE = 1, 2  # message types
SCHEDULER = {
    "simple": ["sched-simple"],
    "simple-nopartial": ["sched-simple", "test-hello-nopartial"],
    "strict": ["sched-strict"],
    "strict-nopartial": ["sched-strict", "nopartial"],
    "strict-waits": ["sched-strict", "ready-key={}"],  # until the key is in the KVS
}

HOUSEKEEPING = """#!/bin/sh
# One rank goes on as long as a file is there, one for a moment, one fails.
case $(flux getattr rank) in
0) while test -f {0}/slow; do sleep 0.05; done ;;
1) sleep 0.1 ;;
*) exit 1 ;;
esac
"""


class Shuffle:
    """Many sequences at a time, in a random order. Each goes on when it can."""

    def __init__(self, sequences: Iterable[List[dict]], width: int, seed: int) -> None:
        self.waiting = iter(sequences)
        self.width = width
        self.random = random.Random("order/{}".format(seed))
        self.active = []  # type: List[List[dict]]

    def next(self, player: "Player") -> Optional[dict]:
        """Return a step that can be done now, if there is one."""
        self.active = [
            steps for steps in self.active if steps and not player.over(steps[0])
        ]
        while len(self.active) < self.width:
            steps = next(self.waiting, None)
            if steps is None:
                break
            self.active.append(list(steps))
        order = list(self.active)
        self.random.shuffle(order)
        for steps in order:
            if player.ready(steps[0]):
                return steps.pop(0)
        return None

    def what(self) -> str:
        """Return what is waited for."""
        return " ".join(json.dumps(steps[0]) for steps in self.active)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.active


class Listed:
    """Steps in the order that they have."""

    def __init__(self, steps: List[dict]) -> None:
        self.steps = list(steps)

    def next(self, player: "Player") -> Optional[dict]:
        """Return the next step if it can be done now."""
        while self.steps and player.over(self.steps[0]):
            self.steps.pop(0)
        if self.steps and player.ready(self.steps[0]):
            return self.steps.pop(0)
        return None

    def what(self) -> str:
        """Return what is waited for."""
        return json.dumps(self.steps[:1])

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.steps


class Player:
    """An instance, and all that is known of it. Everything raises Wrong."""

    def __init__(self, folder: str, plugins: List[str], patience: float) -> None:
        self.folder = folder
        self.patience = patience  # seconds without any message, while waiting for one
        self.models = {}  # type: Dict[str, JobModel]
        self.ids = {}  # type: Dict[int, JobModel]
        self.closing = set()  # type: Set[str]
        self.finished = set()  # type: Set[str]
        self.unanswered = {}  # type: Dict[str, int]
        self.handlers = {}  # type: Dict[int, Callable[[Answer], None]]
        self.floors = {}  # type: Dict[str, int]  events that survive a crash
        self.partial = {True}  # type: Set[bool]  what claims_partial_ok() may be
        self.scheduler = "simple"
        self.loading = None  # type: Any  a process
        self.key = ""  # that a scheduler waits for, between hello and ready
        self.hello = False  # it has said hello
        self.played = []  # type: List[dict]
        self.counts = {}  # type: Dict[str, int]
        self.watches = 0
        self.history = None  # type: Optional[Dict[int, dict]]
        self.settings = {"final-free": "auto"}  # type: Dict[str, Any]
        self.dropping = set()  # type: Set[str]  jobs that a scheduler drops
        self.ending = set()  # type: Set[str]  jobs that nobody need cancel any more
        self.plugins = plugins
        os.makedirs(folder, exist_ok=True)
        with open(self.path("housekeeping.sh"), "w") as out:
            out.write(HOUSEKEEPING.format(folder))
        os.chmod(self.path("housekeeping.sh"), 0o755)
        self.instance = Instance(folder, self.config(), BROKERS)
        self.connection = None  # type: Any

    def path(self, name: str) -> str:
        """Return where a file is."""
        return os.path.join(self.folder, name)

    def count(self, what: str, number: int = 1) -> None:
        """Count something that happened."""
        self.counts[what] = self.counts.get(what, 0) + number

    def config(self) -> dict:
        """Return the configuration of the instance as it is to be."""
        manager = {
            "plugins": [{"load": plugin} for plugin in self.plugins],
            "epilog-release": {"final-free": self.settings["final-free"]},
        }  # type: dict
        housekeeping = self.settings.get("housekeeping")
        if housekeeping:
            commands = {
                "slow": self.path("housekeeping.sh"),
                "missing": self.path("missing"),
            }
            name = housekeeping["command"]
            command = [commands.get(name, name)]
            manager["housekeeping"] = dict(housekeeping, command=command)
        if self.settings.get("prolog"):
            manager["prolog"] = {"command": [self.settings["prolog"]]}
        return {
            "resource": {"noverify": True},
            "fake-resources": {
                "nnodes": epilog_sequence.NODES,
                "cores-per-node": CORES,
            },
            "job-manager": manager,
        }

    # Begin and end

    def begin(self) -> None:
        """Start the instance."""
        self.connection = self.instance.start()
        self.connect()

    def end(self) -> None:
        """All is done: nothing may be left, and the watch saw nothing wrong."""
        self.rest()
        self.judge(True)
        self.connection.close()
        self.instance.stop()

    def abandon(self) -> None:
        """Leave nothing running, but the broker's log."""
        if self.instance.process and self.instance.process.poll() is None:
            with open(self.path("dmesg"), "w") as out:
                out.write(self.instance.command("dmesg"))
        self.slow(False)
        if self.connection:
            self.connection.close()
        self.instance.kill()

    def watch_name(self) -> str:
        """Return the name of the file of the watch."""
        return "watch.{}.jsonl".format(self.watches)

    def judge(self, alive: bool, *options: str) -> None:
        """End the watch."""
        lines = self.instance.judge(self.watch_name(), alive, *options)
        if lines:
            text = re.sub(r"^epilog-watch: (f\w+: )?", "", lines[0])
            kind = "watch: " + re.sub(r"[0-9][-0-9,]*", "N", text)
            raise Wrong(kind, "\n".join(lines))

    # Messages

    def connect(self) -> None:
        """Begin to watch the instance, with whatever it remembers."""
        self.watches += 1
        self.instance.watch(self.watch_name())
        self.handlers.clear()
        self.unanswered.clear()
        trace = {"typemask": REQUEST | RESPONSE, "topic_glob": "job-manager.sched-*"}
        trace.update(names=["job-manager"], full=True)
        self.stream("module.trace", trace, self.on_trace)
        self.history = {}
        self.stream("job-manager.events-journal", {"full": True}, self.on_journal)
        self.wait(lambda: self.history is None, "the journal")
        for model in list(self.models.values()):
            if model.id and not model.settled_down and model.key in self.ending:
                self.throw(model, "cancel", 0)  # it had ended, or nearly, and came back

    def stream(
        self, topic: str, payload: dict, handler: Callable[[Answer], None]
    ) -> None:
        """Send a request that has many responses."""
        self.handlers[self.connection.send(topic, payload, True)] = handler

    def ask(self, topic: str, payload: Any) -> Answer:
        """Send a request and wait for its answer."""
        answers = []  # type: List[Answer]
        self.handlers[self.connection.send(topic, payload)] = answers.append
        self.wait(lambda: bool(answers), topic)
        return answers[0]

    def receive(self, seconds: float) -> bool:
        """Take one message, if there is one in time."""
        answer = self.connection.receive(seconds)
        if not answer:
            return False
        handler = self.handlers.get(answer.tag)
        if handler:
            handler(answer)
        elif answer.topic == "job-ingest.submit" and answer.errnum:
            raise Wrong("submit refused", str(answer))
        return True

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Take messages until something is so."""
        end = time.monotonic() + self.patience
        while not condition():
            self.receive(0.1)
            if time.monotonic() > end:
                raise Wrong("nothing happens", "waiting for " + what)

    def on_trace(self, answer: Answer) -> None:
        """Follow what the scheduler says of partial-ok."""
        message = json.loads(answer.text or "{}")
        topic, kind = message["topic"], message["type"]
        if topic == "job-manager.sched-hello" and kind == REQUEST:
            self.hello = True
            self.coming = bool((message.get("payload") or {}).get("partial-ok"))
            self.partial = self.partial | {self.coming}
        elif topic == "job-manager.sched-ready" and kind == RESPONSE:
            self.partial = {self.coming}

    def on_journal(self, answer: Answer) -> None:
        """Take events of a job."""
        if answer.errnum:
            raise Wrong("journal", os.strerror(answer.errnum))
        payload = json.loads(answer.text or "{}")
        if self.history is not None:
            if payload["id"] == -1:
                history, self.history = self.history, None
                self.remember(history)
            else:
                self.history[payload["id"]] = payload
            return
        model = self.find(payload)
        for event in payload["events"]:
            self.feed(model, event, payload.get("R"), self.partial)

    def find(self, payload: dict) -> JobModel:
        """Return the model of a job in the journal."""
        model = self.ids.get(payload["id"])
        if not model:
            key = payload["jobspec"]["attributes"]["system"]["epilog-random"]
            model = self.models[key]
            model.id = payload["id"]
            self.ids[payload["id"]] = model
        return model

    def feed(self, model: JobModel, event: dict, R: Any, partial: Set[bool]) -> None:
        """Give an event to a model."""
        if event["name"] == "exception":
            context = event["context"]
            if (
                context["type"] == "scheduler-restart"
                and model.key not in self.dropping
                and False not in partial
            ):
                raise Wrong("dropped for no reason", model.key + ": " + str(event))
        self.count(event["name"])
        model.feed(event, R, partial)

    # Restarts

    def remember(self, history: Dict[int, dict]) -> None:
        """Compare what the instance remembers with what should be."""
        if not self.models:
            return
        floors = self.floors
        if self.restarted != "crash":  # nothing may be lost
            floors = {key: len(model.events) for key, model in self.models.items()}
        for payload in history.values():
            model = self.find(payload)
            floor = floors.get(model.key, 0)
            model.restart(payload["events"], payload.get("R"), floor, self.down)
            if self.restarted != "reload":  # what is new is not on disk yet
                self.floors[model.key] = sum(
                    event["timestamp"] < self.down for event in model.events
                )
            if model.key in self.finished:  # it may have come back
                self.closing.add(model.key)
        for model in list(self.models.values()):
            if model.id in history or model.id is None and self.restarted == "reload":
                continue
            if floors.get(model.key, 0):
                raise Wrong("job lost by a restart", model.key)
            self.count("lost jobs")
            if model.id is not None:
                del self.ids[model.id]
            del self.models[model.key]

    def written(self, model: JobModel) -> int:
        """Return how many of a job's events that are kept are in the KVS."""
        request = {"id": model.id, "keys": ["eventlog"], "flags": 0}
        answer = self.ask("job-info.lookup", request)
        if answer.errnum:
            return 0
        lines = json.loads(answer.text or "{}")["eventlog"].splitlines()
        return sum(json.loads(line)["name"] in KEPT for line in lines)

    def sync(self) -> None:
        """What is written down by now survives a crash."""
        floors = {}
        for model in list(self.models.values()):
            if model.id is not None:
                floors[model.key] = self.written(model)
        self.instance.command("kvs", "sync")
        self.floors.update(floors)

    def restart(self, how: str) -> None:
        """Crash or stop the instance and start it again, or only the job manager."""
        self.restarted = how
        self.count(how)
        # whatever ended a job may be lost, and nobody else will end it then
        self.finished.update(key for key, one in self.models.items() if one.ended)
        if how == "crash":
            self.instance.kill()
            if self.loading:
                self.loading.communicate()
            self.loading = None
            self.key = ""
        else:
            self.loaded()
            self.wait(lambda: not any(self.unanswered.values()), "answers")
            self.check_strict()
            self.judge(True, "--active-ok")
        if how == "stop":
            self.instance.stop()
        self.slow(False)
        self.connection.close()
        self.down = time.time()
        if how == "crash":
            self.judge(False, "--active-ok")
        if how == "reload":
            self.unload()
            for module in OTHER_MODULES:
                self.instance.command("module", "remove", module)
            self.down = time.time()
            for module in reversed(OTHER_MODULES):
                self.instance.command("module", "load", module)
            self.partial = {False}
            self.connection = Connection(self.instance.uri)
        else:
            self.instance.config = self.config()
            self.connection = self.instance.start()
            self.scheduler = "simple"
            self.partial = {True}
        self.slow(True)
        self.connect()
        if how == "reload":
            self.load("simple")

    # The world

    def slow(self, on: bool) -> None:
        """Let housekeeping hang, if it is that kind; or go on."""
        housekeeping = self.settings.get("housekeeping") or {}
        if on and housekeeping.get("command") == "slow":
            open(self.path("slow"), "w").close()
        elif os.path.exists(self.path("slow")):
            os.unlink(self.path("slow"))

    def check_strict(self) -> None:
        """The scheduler that keeps books has found no fault."""
        self.loaded()
        if self.scheduler.startswith("strict"):
            answer = self.ask("sched-strict.stats-get", {})
            faults = json.loads(answer.text or "{}").get("faults")
            if answer.errnum or faults != []:
                raise Wrong("scheduler", str(faults))

    def let_be_ready(self) -> None:
        """A scheduler that waits between hello and ready need wait no longer."""
        if self.key:
            self.instance.command("kvs", "put", self.key + "=1")
            self.key = ""

    def loaded(self) -> None:
        """Wait until the scheduler is there that was last asked for."""
        self.let_be_ready()
        process, self.loading = self.loading, None
        if process:
            self.wait(lambda: process.poll() is not None, "a scheduler")
            text = process.stderr.read().strip()
            process.stderr.close()
            if process.returncode != 0:
                raise Wrong("scheduler", text)

    def unload(self) -> None:
        """Have no scheduler."""
        self.loaded()
        if self.scheduler != "none":
            name = SCHEDULER[self.scheduler][0]
            self.instance.command("module", "remove", name)
            self.scheduler = "none"

    def load(self, name: str) -> None:
        """Have this scheduler soon, there being none."""
        words = list(SCHEDULER[name])
        if words[0] == "sched-strict":
            here = os.path.dirname(os.path.abspath(__file__))
            words[0] = os.path.join(here, "..", "scheduler", "sched-strict.py")
        self.hello = False
        if name.endswith("-waits"):
            self.key = "ready.{}".format(self.counts["scheduler reloads"])
            words[1] = words[1].format(self.key)
        self.partial = self.partial | {not name.endswith("-nopartial")}
        self.loading = self.instance.begin("module", "load", *words)
        self.scheduler = name

    def reschedule(self, name: str) -> None:
        """Change the scheduler."""
        self.count("scheduler reloads")
        self.check_strict()
        self.unload()
        if name != "none":
            self.load(name)

    def keeps(self, model: JobModel) -> bool:
        """Is one rank of the job kept until its last action has ended?"""
        rule = self.settings["final-free"]
        return rule == "last-action" or rule == "auto" and model.storage

    def configure(self, step: dict) -> None:
        """Change the configuration."""
        self.loaded()  # or a scheduler that waits would be waited for
        self.slow(False)
        for key in ("housekeeping", "final-free", "prolog"):
            if key in step:
                self.settings[key] = step[key]
        self.slow(True)
        for model in self.models.values():
            model.keep_may_become(self.keeps(model))
        answer = self.ask("config.load", self.config())
        if answer.errnum:
            raise Wrong("config", str(answer.text))
        for model in self.models.values():
            model.keep_is(self.keeps(model))
        self.instance.config = self.config()

    # Steps

    def model(self, step: dict) -> Optional[JobModel]:
        """Return the model of the step's own job, if there is one."""
        return self.models.get(str(step["seq"]))

    def over(self, step: dict) -> bool:
        """Is there no point in this step?"""
        if step["do"] in ("submit", "sched", "config", "sync", "restart"):
            return False
        model = self.model(step)
        return not model or (step["do"] == "finish" and model.ended)

    def ready(self, step: dict) -> bool:
        """Can this step be done now?"""
        model = self.model(step)
        do = step["do"]
        if do in ("submit", "sched", "config", "sync", "restart") or not model:
            return True
        if do in ("post", "raise") and step["at"] == "run":
            return model.running
        if not model.settled_down:
            return False
        if do == "finish":
            return model.key not in self.closing
        return do in ("post", "raise") or self.settled(model)

    def settled(self, model: JobModel) -> bool:
        """Has all gone that may go?"""
        if self.unanswered.get(model.key):
            return False
        if model.oracle.outstanding and self.partial != {True}:
            return True
        return not model.may_go()

    def do(self, step: dict) -> None:
        """Do a step that is ready."""
        self.played.append(step)
        self.count("steps")
        getattr(self, "do_" + step["do"])(step, self.model(step))

    def do_submit(self, step: dict, model: Optional[JobModel]) -> None:
        """Submit the sequence's job."""
        self.submit(str(step["seq"]), step)

    def submit(self, key: str, step: dict, rank: Optional[int] = None) -> None:
        """Submit a job, on one rank if that is given."""
        ranks = [rank] if rank is not None else step.get("on")
        model = JobModel(
            key,
            [epilog_sequence.resolve(one, ranks) for one in step.get("run", [])],
            [epilog_sequence.resolve(one, ranks) for one in step.get("end", [])],
        )
        model.storage = step.get("storage", False)
        model.keep_is(self.keeps(model))
        slot = {"type": "slot", "count": step["ranks"], "label": "task"}  # type: dict
        slot["with"] = [{"type": "core", "count": step["cores"]}]
        resources = [slot]
        if model.storage:  # which these schedulers don't look at
            resources.append({"type": "ssd", "count": 1})
        system = {
            "duration": 0,
            "epilog-random": key,
            "epilog-hold-run": model.plugin["run"],
            "epilog-hold": model.plugin["cleanup"],
            "exec": {"test": {"run_duration": "{}s".format(step["seconds"])}},
        }  # type: dict
        if ranks:
            system["constraints"] = {"ranks": [",".join(map(str, ranks))]}
        tasks = [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}]
        self.models[key] = model
        if step["seconds"] < 1:
            self.ending.add(key)
        self.connection.submit(
            {
                "version": 1,
                "resources": resources,
                "tasks": tasks,
                "attributes": {"system": system},
            }
        )

    def do_post(self, step: dict, model: JobModel) -> None:
        """Post an event."""
        if "text" in step:
            self.post_text(model, step["event"], self.named(step["text"], model))
            return
        context = epilog_sequence.resolve(step["context"], sorted(model.ranks))
        self.post(model, step["event"], context)

    def named(self, text: str, model: JobModel) -> str:
        """Return a context, in JSON, with the job's own ranks, if it can be read."""
        try:
            context = epilog_json.decode(text)
        except ValueError:
            return text
        mine = epilog_sequence.resolve(context, sorted(model.ranks))
        return text if mine is context else json.dumps(mine)

    def post(self, model: JobModel, name: str, context: Any) -> None:
        """Post an event, whose answer must be right. None: without context."""
        self.post_text(model, name, None if context is None else json.dumps(context))

    def post_text(self, model: JobModel, name: str, text: Optional[str]) -> None:
        """Post an event with a context in JSON, more or less."""
        request = model.request(name, text)

        def answered(answer: Answer) -> None:
            self.unanswered[model.key] -= 1
            self.count("refused" if answer.errnum else "taken")
            model.answered(request, answer.errnum)
            if model.ended and not self.unanswered[model.key]:
                model.at_end()

        tag = self.connection.send("job-manager.post-event.post", request)
        self.handlers[tag] = answered
        self.unanswered[model.key] = self.unanswered.get(model.key, 0) + 1

    def do_raise(self, step: dict, model: JobModel) -> None:
        """Raise an exception."""
        scheduler = self.scheduler
        if step["type"] == "scheduler-restart":  # only a scheduler that starts says so
            self.dropping.add(model.key)
            self.reschedule("none")
        self.throw(model, step["type"], step["severity"])
        if self.scheduler != scheduler:
            self.load(scheduler)

    def throw(self, model: JobModel, kind: str, severity: int) -> None:
        """Raise an exception on a job."""
        request = {"id": model.id, "type": kind, "severity": severity}
        request["note"] = "random"
        if severity == 0:
            self.ending.add(model.key)
        answer = self.ask("job-manager.raise", request)
        if answer.errnum and not model.ended:
            raise Wrong("exception refused", str(answer))

    def do_settle(self, step: dict, model: JobModel) -> None:
        """It is."""

    def do_guest(self, step: dict, model: JobModel) -> None:
        """Another job runs on what went."""
        gone = sorted(model.oracle.gone_set)
        if gone and not model.ended:
            self.count("guests")
            key = "{}.{}".format(model.key, self.counts["guests"])
            job = {"ranks": 1, "cores": 1, "seconds": 0.01}
            self.submit(key, job, gone[0])

    def do_edit(self, step: dict, model: JobModel) -> None:
        """Write events to the job's eventlog, behind the job manager's back."""
        from flux.job import JobID

        if model.ended:
            return
        events = [
            {
                "timestamp": time.time(),
                "name": name,
                "context": epilog_sequence.resolve(context, sorted(model.ranks)),
            }
            for name, context in step["events"]
        ]
        lines = "".join(json.dumps(event) + "\n" for event in events)
        self.wait(lambda: self.written(model) == len(model.events), "an eventlog")
        self.instance.append(JobID(model.id).kvs + ".eventlog", lines)
        model.events.extend(events)
        self.count("edits")

    def do_finish(self, step: dict, model: JobModel) -> None:
        """End the job, from now on."""
        self.closing.add(model.key)
        self.finished.add(model.key)

    def do_sched(self, step: dict, model: Any) -> None:
        """Change the scheduler."""
        self.reschedule(step["module"])

    def do_config(self, step: dict, model: Any) -> None:
        """Change the configuration."""
        self.count("configurations")
        self.configure(step)

    def do_sync(self, step: dict, model: Any) -> None:
        """Write down all that is done."""
        self.sync()

    def do_restart(self, step: dict, model: Any) -> None:
        """Start again."""
        self.restart(step["how"])

    # Playing

    def close(self) -> None:
        """Go on with ending jobs."""
        for key in list(self.closing):
            model = self.models.get(key)
            if not model or model.ended:
                self.closing.discard(key)
            elif model.settled_down and not self.unanswered.get(key):
                for name in model.own_actions():
                    context = {"description": name, "status": 0}
                    self.post(model, "epilog-finish", context)
                for _ in range(model.own_prologs()):
                    self.post(model, "prolog-finish", {"description": "p"})

    def play(self, source: Any) -> None:
        """Play all steps, and end all jobs."""
        self.begin()
        quiet = time.monotonic() + self.patience
        while True:
            while self.receive(0):
                quiet = time.monotonic() + self.patience
            step = source.next(self)
            if step:
                self.do(step)
                quiet = time.monotonic() + self.patience
                continue
            if source.done and all(model.ended for model in self.models.values()):
                break
            self.close()
            if source.done:
                self.hurry()
            if self.receive(IDLE):
                continue
            self.slow(False)  # nothing else can move, maybe
            if self.hello:
                self.let_be_ready()
            if self.scheduler == "none":
                self.load("simple")
            if time.monotonic() > quiet:
                if self.is_cut_short():
                    return
                raise Wrong("nothing happens", source.what() + self.left())
        self.end()

    def is_cut_short(self) -> bool:
        """Has flux-core's issue 6059 put an end to scheduling? Leave nothing running then.

        If a crash lost an alloc event but not R, the job manager takes the next answer
        to alloc for a fault of the scheduler, and that of the next scheduler, too.
        """
        if "already allocated" not in self.instance.command("dmesg"):
            return False
        self.count("cut short by 6059")
        self.abandon()
        return True

    def hurry(self) -> None:
        """All steps are done: let all that still goes on end."""
        self.slow(False)
        for model in self.models.values():
            if not model.ended:
                self.closing.add(model.key)

    def left(self) -> str:
        """Return what has not ended."""
        return " ".join(
            "{}:{}:{}".format(model.key, model.state, model.id)
            for model in self.models.values()
            if not model.ended
        )

    def rest(self) -> None:
        """When all jobs have ended, all resources are free."""
        self.slow(False)
        end = time.monotonic() + self.patience
        while self.housekeeping():
            if time.monotonic() > end:
                raise Wrong("housekeeping does not end", "")
        if self.scheduler == "none":
            self.load("simple")
        self.check_strict()
        for model in self.models.values():
            model.at_end()
        for service in ("job-manager", "sched"):
            answer = self.ask(service + ".resource-status", {})
            if answer.errnum:
                raise Wrong("resource-status", service + ": " + str(answer.text))
            allocated = json.loads(answer.text or "{}")["allocated"]
            if allocated and allocated["execution"]["R_lite"]:
                raise Wrong("allocated at the end", service + ": " + str(allocated))

    def housekeeping(self) -> bool:
        """Is there any left?"""
        answer = self.ask("job-manager.stats-get", {})
        running = json.loads(answer.text or "{}")["housekeeping"]["running"]
        if running:
            self.receive(0.1)
        return bool(running)
