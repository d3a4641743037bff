# SPDX-License-Identifier: LGPL-3.0
"""What the job manager should make of one job's events (RFC 21), step by step.

A JobModel takes the job's events as the journal has them, and the answers to events
that were posted; it raises Wrong at the first thing that is not as the oracle of
epilog_oracle.py has it. It knows no broker.
"""

import copy
import errno
import json
from typing import Any, FrozenSet, List, Optional, Set

import epilog_json
from epilog_books import units_of
from epilog_oracle import ACTIONS_MAX, Oracle, RefusedError, encode_idset

ACTIVE = ("run", "cleanup")
PERILOG = ("job-manager.prolog", "job-manager.epilog")  # descriptions of perilog.so

# Events that a restart finds again if they were written down.
KEPT = (
    "alloc",
    "start",
    "finish",
    "release",
    "exception",
    "prolog-start",
    "prolog-finish",
    "epilog-start",
    "epilog-finish",
    "partial-free",
    "free",
    "clean",
)

POSTED = ("prolog-start", "prolog-finish", "epilog-start", "epilog-finish")


class Wrong(Exception):
    """Something is not as it should be: ``kind`` says what, whatever the job."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(kind + ": " + text)


def plain(value: Any) -> Optional[str]:
    """Return a string that C can have, or None if this is none."""
    return value if isinstance(value, str) and "\0" not in value else None


def is_full(oracle: Oracle) -> bool:
    """Return whether no prolog or action can be counted any more."""
    return len(oracle.outstanding) + oracle.prolog_count >= ACTIONS_MAX


class JobModel:
    """One job. ``key`` names it in messages."""

    def __init__(self, key: str, run: List[Any], end: List[Any]) -> None:
        self.key = key
        self.plugin = {"run": run, "cleanup": end}  # contexts that a plugin posts
        self.id = None  # type: Optional[int]
        self.events = []  # type: List[dict]  those that are kept
        self.storage = False  # it has resources that belong to no rank
        self.keep = [False]  # values that the rule of the last free may have
        self.reset()

    def reset(self) -> None:
        """Forget what the events have said."""
        self.state = "early"
        self.oracle = Oracle(None)
        self.prologs = 0  # that we have started and not finished
        self.started = False
        self.exec_done = False
        self.allocated = False
        self.has_resources = False
        self.dropped = False
        self.freed = False
        self.expected = []  # type: List[Any]  contexts that the plugin is to post
        self.unclaimed = []  # type: List[dict]  events that nobody was told of
        self.replaying = False

    def wrong(self, kind: str, text: str) -> Wrong:
        """Return a complaint about this job."""
        held = ["{0}:{2}".format(*action) for action in self.oracle.actions()]
        state = "{} of ranks {}, gone {}, held {}".format(
            self.state, self.oracle.ranks, self.oracle.handed_over, " ".join(held)
        )
        return Wrong(kind, "{} ({}): {}".format(self.key, state, text))

    # What the job may do

    @property
    def ranks(self) -> FrozenSet[int]:
        """Ranks of R."""
        return self.oracle.rank_set

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more."""
        return self.state == "inactive"

    @property
    def running(self) -> bool:
        """Whether tasks run, or ran."""
        return self.started or self.state in ("cleanup", "inactive")

    @property
    def settled_down(self) -> bool:
        """Whether nothing but epilogs and prologs can hold the job."""
        return self.ended or self.state == "cleanup" and not self.executing

    @property
    def executing(self) -> bool:
        """Whether the exec system has the job.

        When events are replayed it has not, and so a prolog-start that was posted while
        tasks ran counts then, although it did not before. flux-core is like that.
        """
        return self.started and not self.exec_done and not self.replaying

    def may_go(self) -> Set[int]:
        """Return the ranks that may go now, if the scheduler takes them in parts."""
        if self.state != "cleanup" or not self.has_resources or self.executing:
            return set()
        return self.oracle.ready_set()

    def keep_may_become(self, keep: bool) -> None:
        """The rule of the last free may change at any time."""
        self.keep.append(keep)

    def keep_is(self, keep: bool) -> None:
        """The rule of the last free is this."""
        self.keep = [keep]
        self.oracle.set_keep_last(keep)

    def own_prologs(self) -> int:
        """Return how many prologs nobody else will end."""
        return min(self.prologs, self.oracle.prolog_count)

    def own_actions(self) -> List[str]:
        """Return descriptions of actions that nobody else will end."""
        names = [action.description for action in self.oracle.outstanding]
        return [name for name in names if name not in PERILOG]

    # Would an event be taken?

    def check(self, name: str, context: Any) -> FrozenSet[int]:
        """Return the errors that posting this event may fail with, if it is to fail."""
        if self.ended:
            return frozenset([errno.ENOENT])
        if context is not None and not isinstance(context, dict):
            return frozenset([errno.EINVAL])
        if name == "partial-free":
            return frozenset([errno.EINVAL])
        if name not in POSTED and name.startswith(("epilog-", "prolog-")):
            taken = self.state != "cleanup" or name[0] == "p" and self.executing
            return frozenset([] if taken else [errno.EPROTO])
        if name == "prolog-start" and self.state in ACTIVE and not self.executing:
            count = self.oracle.prolog_count
            if self.state == "cleanup":  # actions count from there on
                count += len(self.oracle.outstanding)
            return frozenset([errno.EOVERFLOW] if count >= ACTIONS_MAX else [])
        if self.state in ACTIVE and name.startswith("epilog-"):
            trial = copy.deepcopy(self.oracle)
            try:
                self.apply(trial, name, context or {})
            except RefusedError as exc:
                return frozenset(
                    errno.EINVAL if number == errno.ENOENT else number
                    for number in exc.errnos
                )
        return frozenset()

    def apply(self, oracle: Oracle, name: str, context: dict) -> None:
        """Let an oracle have an epilog event. RefusedError if it is not taken."""
        description = plain(context.get("description"))
        partial = "ranks" in context
        text = plain(context.get("ranks", "all"))
        if name == "epilog-finish" and not partial:
            if oracle.outstanding:
                oracle.finish(description)
            return
        errnos = set()
        if partial and description is None:
            errnos.add(errno.EINVAL)
        if text is None:
            errnos.add(errno.EINVAL)
        ranks = None if text == "all" else text
        if name == "epilog-start":
            if is_full(oracle) and not self.replaying:
                errnos.add(errno.EOVERFLOW)
            if errnos:
                raise RefusedError(errnos)
            oracle.start(description or "", ranks)
        elif errnos:
            raise RefusedError(errnos | {errno.ENOENT})
        else:
            oracle.release(description or "", ranks)

    # Events

    def feed(self, event: dict, R: Optional[dict], partial: Set[bool]) -> None:
        """Take an event.

        ``R`` comes with alloc. ``partial`` is what the scheduler in charge may say of
        partial-ok. Raises Wrong.
        """
        name = event["name"]
        context = event.get("context")
        if name in KEPT:
            self.events.append(event)
        if self.state == "inactive":
            raise self.wrong("event after clean", name)
        take = getattr(self, "take_" + name.replace("-", "_"), None)
        if take:
            take(event, context or {}, R, partial)
        if not self.replaying and name in POSTED:
            self.account(event, context)

    def account(self, event: dict, context: Any) -> None:
        """Somebody posted this event: the plugin, perilog, or we."""
        if (context or {}).get("description") in PERILOG:
            return
        if (
            event["name"] == "epilog-start"
            and self.expected
            and self.expected[0] == context
        ):
            self.expected.pop(0)
        else:
            self.unclaimed.append(event)

    def plugin_posts(self, state: str) -> None:
        """The plugin acts: which of its events are taken?"""
        if self.expected:
            raise self.wrong("event is missing", "{}".format(self.expected[0]))
        trial = copy.deepcopy(self.oracle)
        for context in self.plugin[state]:
            if not isinstance(context, dict):
                continue
            try:
                self.apply(trial, "epilog-start", context)
            except RefusedError:
                continue
            self.expected.append(context)

    def enter(self, state: str) -> None:
        """The job's state changes."""
        if self.state != state:
            self.state = state
            if not self.replaying:
                self.plugin_posts(state)

    def take_alloc(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """The job has resources."""
        if not R:
            raise self.wrong("alloc without R", "")
        self.oracle = Oracle(encode_idset(units_of(R)))
        self.oracle.set_keep_last(self.keep[-1])
        self.allocated = True
        self.has_resources = True
        if self.state == "early":
            self.enter("run")

    def take_start(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """The job's tasks run."""
        self.started = True

    def take_release(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """The exec system lets go of ranks."""
        self.exec_done = self.exec_done or bool(context["final"])

    def take_finish(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """The job's tasks are done."""
        if self.state == "run":
            self.enter("cleanup")

    def take_exception(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """A severe one ends the job; some are told only to say that all went wrong."""
        if context["type"] == "alloc-check":
            raise self.wrong("resources are allocated twice", str(context.get("note")))
        if context["severity"] == 0:
            if context["type"] == "scheduler-restart":
                self.has_resources = False
                self.dropped = True
            if self.state != "cleanup":
                self.enter("cleanup")

    def take_prolog_start(
        self, event: dict, context: dict, R: Any, partial: Any
    ) -> None:
        """A prolog holds everything, unless the exec system does."""
        if self.replaying and self.state == "cleanup" and is_full(self.oracle):
            return
        if not self.executing:
            self.oracle.prolog_start()
            self.prologs += context.get("description") == "p"

    def take_prolog_finish(
        self, event: dict, context: dict, R: Any, partial: Any
    ) -> None:
        """A prolog ends."""
        if not self.executing:
            self.oracle.prolog_finish()
            if context.get("description") == "p":
                self.prologs = max(0, self.prologs - 1)

    def take_epilog(self, name: str, context: dict) -> None:
        """An epilog event."""
        if self.state not in ACTIVE:
            return
        try:
            self.apply(self.oracle, name, context)
        except RefusedError as exc:
            if not self.replaying:
                raise self.wrong("taken", "{} {}: {}".format(name, context, exc))
            if name == "epilog-start":
                self.oracle.start(plain(context.get("description")) or "", None)

    def take_epilog_start(
        self, event: dict, context: dict, R: Any, partial: Any
    ) -> None:
        """An action starts."""
        self.take_epilog("epilog-start", context)

    def take_epilog_finish(
        self, event: dict, context: dict, R: Any, partial: Any
    ) -> None:
        """An action lets go of ranks, or ends."""
        self.take_epilog("epilog-finish", context)

    def take_partial_free(
        self, event: dict, context: dict, R: Any, partial: Set[bool]
    ) -> None:
        """All that may go went, and something is left."""
        ids = self.oracle.decode_set(context["ranks"])
        if self.replaying:
            self.oracle.restore_gone(context["ranks"])
            return
        self.check_handover("partial-free", ids, partial)
        if ids == self.ranks - self.oracle.gone_set:
            raise self.wrong("partial-free of all that is left", context["ranks"])
        self.oracle.gone(context["ranks"])

    def take_free(self, event: dict, context: dict, R: Any, partial: Set[bool]) -> None:
        """All that is left went."""
        if self.freed:
            raise self.wrong("second free", "")
        if not self.replaying:
            self.check_handover("free", set(self.ranks - self.oracle.gone_set), partial)
        self.freed = True
        self.has_resources = False
        self.oracle.restore_gone(None)

    def check_handover(self, name: str, ids: Set[int], partial: Set[bool]) -> None:
        """Exactly these ranks may go now."""
        what = "{} of {}".format(name, encode_idset(ids))
        # all may have gone before a crash that lost no more than the free event
        if name == "free" and not ids and self.ranks and self.has_resources:
            return
        for keep in reversed(self.keep):  # the last is the one that stays
            self.oracle.set_keep_last(keep)
            if self.may_go() == ids:
                break
        else:
            raise self.wrong(
                "not what may go", what + ", want " + encode_idset(self.may_go())
            )
        if self.oracle.outstanding and True not in partial:
            raise self.wrong("in parts without partial-ok", what)

    def take_clean(self, event: dict, context: dict, R: Any, partial: Any) -> None:
        """Nothing is left of the job."""
        self.events[-1:] = [event]
        if not self.replaying:
            if self.oracle.outstanding or self.oracle.prolog_count:
                raise self.wrong("clean while an action is outstanding", "")
            if self.has_resources:
                raise self.wrong("clean without free", "")
        self.state = "inactive"

    # Answers to events that were posted

    def request(self, name: str, context: Optional[str]) -> str:
        """Return a request to post an event, in JSON if the context is in JSON."""
        request = json.dumps({"id": self.id, "name": name})
        if context is not None:
            request = '{},"context":{}}}'.format(request[:-1], context)
        return request

    def check_text(self, text: str) -> FrozenSet[int]:
        """Return the errors that a request to post an event may fail with."""
        try:
            request = epilog_json.decode(text)
        except ValueError:
            return frozenset([errno.EPROTO])
        if request.get("id") != self.id or not isinstance(request.get("name"), str):
            return frozenset([errno.EPROTO, errno.ENOENT])
        if "context" in request and request["context"] is None:
            return frozenset([errno.ENOENT if self.ended else errno.EINVAL])
        return self.check(request["name"], request.get("context"))

    def answered(self, text: str, errnum: int) -> None:
        """A request of ours to post an event was answered; what it did came before."""
        if errnum == 0:
            request = epilog_json.decode(text)
            if request["name"] in POSTED:
                self.claim(request["name"], request.get("context"))
            return
        errnos = self.check_text(text)
        if errnum not in errnos:
            got = errno.errorcode.get(errnum, str(errnum))
            want = " or ".join(errno.errorcode[number] for number in errnos) or "0"
            raise self.wrong(
                "wrong answer", "{:.999}: {}, want {}".format(text, got, want)
            )

    def claim(self, name: str, context: Any) -> None:
        """This event that was taken is ours."""
        for index, event in enumerate(self.unclaimed):
            posted = event.get("context") or None
            if event["name"] == name and posted == (context or None):
                del self.unclaimed[index]
                return
        text = "{} {:.999}".format(name, str(context))
        raise self.wrong("answered, but not done", text)

    def at_end(self) -> None:
        """Nothing that should have been is missing, and nothing was too much."""
        if self.expected:
            raise self.wrong("event is missing", str(self.expected[0]))
        if self.unclaimed:
            raise self.wrong("event that nobody posted", str(self.unclaimed[0]))
        frees = [event for event in self.events if event["name"] == "free"]
        want = 1 if self.ended and self.allocated and not self.dropped else 0
        if len(frees) != want and not (self.dropped and len(frees) == 1):
            raise self.wrong("free events", str(len(frees)))

    # A restart

    def restart(
        self, events: List[dict], R: Optional[dict], floor: int, when: float
    ) -> None:
        """The job manager has come back with these events.

        ``floor`` of those known before must be among them. ``when`` is a time while it
        was down. Raises Wrong.
        """
        before = self.events
        kept = [event for event in events if event["name"] in KEPT]
        same = 0
        while same < min(len(before), len(kept)) and before[same] == kept[same]:
            same += 1
        if same < floor:
            raise self.wrong("lost by a restart", str(before[same]))
        self.events = []
        self.reset()
        if R and not any(event["name"] == "alloc" for event in kept):
            # the scheduler wrote it, but there is no alloc event: flux-core takes it as R
            self.oracle = Oracle(encode_idset(units_of(R)))
            self.oracle.set_keep_last(self.keep[-1])
        self.replaying = True
        for event in kept[:same]:
            self.feed(event, R, {True, False})
        self.replaying = False
        fresh = kept[same:]
        for event in fresh:
            if event["timestamp"] < when:
                self.feed(event, R, {True, False})
        if self.state == "cleanup":
            self.exec_done = True  # an exec system that comes back has nothing of it
        for event in fresh:
            if event["timestamp"] >= when:
                self.feed(event, R, {True, False})
        self.expected = []
        self.unclaimed = []
