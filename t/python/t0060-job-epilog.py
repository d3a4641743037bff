#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0

import errno
import os
import resource
import signal
import unittest
from contextlib import contextmanager

import flux
import flux.constants
import flux.job
from flux.idset import IDset
from flux.job import (
    EpilogHold,
    EpilogJob,
    EpilogListFuture,
    JobID,
    epilog_finish,
    epilog_finish_async,
    epilog_list,
    epilog_list_async,
    epilog_start,
    epilog_start_async,
)
from flux.job.epilog import EpilogFuture, _encode_ranks
from subflux import rerun_under_flux

SIZE = 4
MANY = 10000


def __flux_size():
    return SIZE


def descriptors():
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def descriptor_limit(limit):
    """Lower the number of descriptors that this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def interrupt_after(seconds):
    """Do as Ctrl-C does, after some time."""
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class TestRanks(unittest.TestCase):
    """What ranks may be, and what is sent."""

    def test_taken(self):
        for ranks, sent in (
            (None, None),
            ("all", "all"),
            ("", ""),
            ("0-3,7", "0-3,7"),
            ("[0-3]", "[0-3]"),
            ("3-", "3-"),
            (IDset("0,3-4"), "0,3-4"),
            (IDset(), ""),
            ([], ""),
            ([2, 0, 1, 1], "0-2"),
            ((5,), "5"),
            ({4, 3}, "3-4"),
            (range(3), "0-2"),
            ((rank for rank in (9, 7)), "7,9"),
            ([2**32 - 2], "4294967294"),
        ):
            self.assertEqual(_encode_ranks(ranks), sent)

    def test_idset_flags_do_not_matter(self):
        ids = IDset("0-1", flags=flux.idset.IDSET_FLAG_BRACKETS)
        self.assertEqual(_encode_ranks(ids), "0-1")

    def test_refused_by_type(self):
        for ranks in (3, 0, True, 1.5, b"0-3", bytearray(b"1"), object(), {0: 1}):
            with self.assertRaises(TypeError):
                _encode_ranks(ranks)
        for ranks in (["0"], [None], [1.0], [True], ["all"], [(0,)]):
            with self.assertRaises(TypeError):
                _encode_ranks(ranks)

    def test_refused_by_value(self):
        for ranks in ([-1], [0, 2**32 - 1], [2**32], [10**30]):
            with self.assertRaises(ValueError):
                _encode_ranks(ranks)


class EpilogTestCase(unittest.TestCase):
    """A job that runs on all ranks, for each test."""

    def setUp(self):
        self.handle = flux.Flux()
        self.marks = 0
        jobspec = flux.job.JobspecV1.from_command(
            ["sleep", "inf"], num_tasks=SIZE, num_nodes=SIZE
        )
        self.jobid = JobID(flux.job.submit(self.handle, jobspec, waitable=True))
        self.wait("start")

    def tearDown(self):
        try:
            flux.job.cancel(self.handle, self.jobid)
        except OSError:
            pass
        for job in epilog_list(self.handle):
            for action in job.actions:
                epilog_finish(self.handle, job.id, action.description)
        flux.job.wait(self.handle, self.jobid)

    def wait(self, name, jobid=None):
        """Wait for an event of the job and return its context."""
        for event in flux.job.event_watch(self.handle, jobid or self.jobid):
            if event.name == name:
                return event.context
        self.fail(f"the job ended without {name}")

    def eventlog(self):
        """Return the events of the job so far, the last one being ours if it is active.

        A request is answered before its event is in the eventlog.
        """
        events = []
        try:
            request = {"id": self.jobid, "name": "mark", "context": {}}
            self.handle.rpc("job-manager.post-event.post", request).get()
        except OSError as exc:
            if exc.errno != errno.ENOENT:
                raise
        marks = self.marks = self.marks + 1
        for event in flux.job.event_watch(self.handle, self.jobid):
            events.append(event)
            if event.name == "mark":
                marks -= 1
            if not marks:
                break
        return events

    def events(self, name):
        """Return the contexts of all events of a name so far."""
        return [event.context for event in self.eventlog() if event.name == name]

    def end_job(self):
        """Let the job end, and wait until nothing but actions can hold it."""
        flux.job.cancel(self.handle, self.jobid)
        self.wait("release")

    def actions(self):
        """Return the job's actions as tuples of text."""
        return [
            (action.description, str(action.held), str(action.released))
            for job in epilog_list(self.handle, self.jobid)
            for action in job.actions
        ]

    def assert_error(self, number, text, function, *args, **kwargs):
        with self.assertRaises(OSError) as caught:
            function(*args, **kwargs)
        self.assertEqual(caught.exception.errno, number)
        self.assertIn(text, caught.exception.strerror)


class TestFunctions(EpilogTestCase):
    def test_start_release_finish(self):
        epilog_start(self.handle, self.jobid, "a", ranks="0-1")
        epilog_start(self.handle, self.jobid, "b", ranks=IDset("1-3"))
        epilog_start(self.handle, self.jobid, "none", ranks=[])
        self.assertEqual(
            self.actions(), [("a", "0-1", ""), ("b", "1-3", ""), ("none", "", "")]
        )
        self.end_job()
        epilog_finish(self.handle, self.jobid, "a", ranks=[0])
        self.assertEqual(self.wait("partial-free"), {"ranks": "0"})
        epilog_finish(self.handle, self.jobid, "b", status=7)
        epilog_finish(self.handle, self.jobid, "a", ranks="all")
        self.assertEqual(self.actions(), [("a", "", "0-1"), ("none", "", "")])
        epilog_finish(self.handle, self.jobid, "a")
        epilog_finish(self.handle, self.jobid, "none")
        self.wait("clean")
        self.assertEqual(
            self.events("epilog-finish"),
            [
                {"description": "a", "status": 0, "ranks": "0"},
                {"description": "b", "status": 7},
                {"description": "a", "status": 0, "ranks": "all"},
                {"description": "a", "status": 0},
                {"description": "none", "status": 0},
            ],
        )

    def test_unique(self):
        epilog_start(self.handle, self.jobid, "a", ranks="0", unique=True)
        with self.assertRaises(OSError) as error:
            epilog_start(self.handle, self.jobid, "a", ranks="1", unique=True)
        self.assertEqual(error.exception.errno, errno.EEXIST)
        epilog_start(self.handle, self.jobid, "b", unique=True)
        epilog_start(self.handle, self.jobid, "a", ranks="1")
        (job,) = epilog_list(self.handle, self.jobid)
        self.assertEqual(
            [(action.description, str(action.held)) for action in job.actions],
            [("a", "0"), ("b", "0-3"), ("a", "1")],
        )

    def test_list_is_typed(self):
        started = self.eventlog()[-1].timestamp
        epilog_start(self.handle, self.jobid, "a", ranks="0-2")
        (job,) = [job for job in epilog_list(self.handle) if job.id == self.jobid]
        self.assertIsInstance(job, EpilogJob)
        self.assertIsInstance(job.id, JobID)
        self.assertEqual(job.userid, os.getuid())
        self.assertEqual(job.state, "RUN")
        self.assertEqual(str(job.ranks), "0-3")
        self.assertEqual(str(job.handed_over), "")
        self.assertEqual(str(job.kept), "")
        self.assertIs(job.ended, False)
        self.assertIn("not ended", job.obstacle)
        (action,) = job.actions
        self.assertEqual(action.description, "a")
        self.assertGreaterEqual(action.t_start, started)
        self.assertIsInstance(action.held, IDset)
        self.assertEqual(str(action.held), "0-2")
        self.assertEqual(str(action.released), "")
        self.end_job()
        self.wait("partial-free")
        (job,) = epilog_list(self.handle, self.jobid)
        self.assertEqual(job.state, "CLEANUP")
        self.assertEqual(str(job.handed_over), "3")
        self.assertEqual(str(job.ready), "")
        self.assertIs(job.ended, True)
        self.assertIsNone(job.obstacle)

    def test_list_of_a_job_without_actions_is_empty(self):
        self.assertEqual(epilog_list(self.handle, self.jobid), [])
        self.assertEqual(epilog_list(self.handle), [])

    def test_job_id_in_any_form(self):
        for jobid in (self.jobid, int(self.jobid), self.jobid.f58, self.jobid.dothex):
            epilog_start(self.handle, jobid, "a")
            self.assertEqual(len(epilog_list(self.handle, jobid)), 1)
            epilog_finish(self.handle, jobid, "a")
        for function in (epilog_start, epilog_finish):
            with self.assertRaises(ValueError):
                function(self.handle, "nonsense!", "a")
        with self.assertRaises(ValueError):
            epilog_list(self.handle, "nonsense!")

    def test_description_is_text(self):
        for description in (
            "a b",
            "ƒ€\U0001f600",
            "",
            '"',
            "\\",
            "\n",
            "%s",
            "x" * 5000,
        ):
            epilog_start(self.handle, self.jobid, description)
            self.assertEqual(self.actions(), [(description, "0-3", "")])
            epilog_finish(self.handle, self.jobid, description)
            self.assertEqual(self.actions(), [])
        for description in (None, 3, b"a"):
            with self.assertRaises(TypeError):
                epilog_start(self.handle, self.jobid, description)
            with self.assertRaises(TypeError):
                epilog_finish(self.handle, self.jobid, description)

    def test_async(self):
        done = []
        futures = [
            epilog_start_async(self.handle, self.jobid, "a"),
            epilog_finish_async(self.handle, self.jobid, "a", ranks="0"),
            epilog_list_async(self.handle, self.jobid),
            epilog_finish_async(self.handle, self.jobid, "a"),
            epilog_list_async(self.handle),
        ]
        self.assertIsInstance(futures[2], EpilogListFuture)
        for future in futures:
            future.then(lambda future: done.append(future.get()))
        self.handle.reactor_run()
        self.assertEqual(done[:2] + done[3:], [None, None, None, []])
        self.assertEqual(str(done[2][0].actions[0].released), "0")

    def test_refused(self):
        epilog_start(self.handle, self.jobid, "a", ranks="0-1")
        before = self.actions()
        nobody = JobID(12345)
        for number, text, function, args in (
            (errno.ENOENT, "unknown job", epilog_start, (nobody, "a")),
            (errno.ENOENT, "unknown job", epilog_finish, (nobody, "a")),
            (errno.ENOENT, "unknown job", epilog_list, (nobody,)),
            (errno.EINVAL, "4", epilog_start, (self.jobid, "b", "3-4")),
            (errno.EINVAL, "ranks", epilog_start, (self.jobid, "b", "3-")),
            (errno.EINVAL, "9", epilog_finish, (self.jobid, "a", 0, [9])),
            (errno.EINVAL, "ranks", epilog_finish, (self.jobid, "a", 0, [])),
            (errno.ENOENT, "'b'", epilog_finish, (self.jobid, "b")),
            (errno.ENOENT, "(a)", epilog_finish, (self.jobid, "b", 0, "0")),
            (errno.EPROTO, "", epilog_finish, (self.jobid, "a", "zero")),
        ):
            self.assert_error(number, text, function, self.handle, *args)
            self.assertEqual(self.actions(), before)

    def test_guest_is_refused(self):
        epilog_start(self.handle, self.jobid, "a")
        log = self.events("epilog-start") + self.events("epilog-finish")
        os.environ["FLUX_HANDLE_ROLEMASK"] = "0x2"
        os.environ["FLUX_HANDLE_USERID"] = str(os.getuid() + 1)
        try:
            guest = flux.Flux()
        finally:
            del os.environ["FLUX_HANDLE_ROLEMASK"], os.environ["FLUX_HANDLE_USERID"]
        for function, args in (
            (epilog_start, (self.jobid, "b")),
            (epilog_finish, (self.jobid, "a")),
            (epilog_list, ()),
        ):
            self.assert_error(errno.EPERM, "", function, guest, *args)
        self.assertEqual(self.actions(), [("a", "0-3", "")])
        self.assertEqual(
            self.events("epilog-start") + self.events("epilog-finish"), log
        )

    def test_job_that_is_not_there_yet_or_any_more(self):
        epilog_start(self.handle, self.jobid, "a")
        self.end_job()
        epilog_finish(self.handle, self.jobid, "a")
        self.wait("clean")
        for function, args in (
            (epilog_start, ("a",)),
            (epilog_finish, ("a",)),
            (epilog_list, ()),
        ):
            self.assert_error(
                errno.EINVAL, "inactive", function, self.handle, self.jobid, *args
            )
        jobspec = flux.job.JobspecV1.from_command(["true"])
        held = flux.job.submit(self.handle, jobspec, urgency=0)
        try:
            self.assert_error(
                errno.EINVAL, "not in RUN", epilog_start, self.handle, held, "a"
            )
            self.assert_error(
                errno.EINVAL, "not in RUN", epilog_finish, self.handle, held, "a"
            )
        finally:
            flux.job.cancel(self.handle, held)
            self.wait("clean", held)


class TestHold(EpilogTestCase):
    def finishes(self):
        """Return what ended actions, without partial finishes."""
        return [
            (context["description"], context["status"])
            for context in self.events("epilog-finish")
            if "ranks" not in context
        ]

    def test_start_release_finish(self):
        with EpilogHold(self.handle, self.jobid, "copy") as hold:
            self.end_job()
            self.assertEqual(self.actions(), [("copy", "0-3", "")])
            for rank in (2, 0):
                hold.release([rank])
            self.assertEqual(self.actions(), [("copy", "1,3", "0,2")])
            hold.release_async("all").get()
            self.assertEqual(self.actions(), [("copy", "", "0-3")])
        self.wait("clean")
        self.assertEqual(self.finishes(), [("copy", 0)])

    def test_ranks(self):
        for ranks, held in ((None, "0-3"), ("1", "1"), ([3, 2], "2-3"), ("", "")):
            with EpilogHold(self.handle, self.jobid, "copy", ranks=ranks):
                self.assertEqual(self.actions(), [("copy", held, "")])

    def test_release_needs_ranks(self):
        with EpilogHold(self.handle, self.jobid, "copy") as hold:
            for release in (hold.release, hold.release_async):
                with self.assertRaises(TypeError):
                    release(None)
            self.assert_error(errno.EINVAL, "ranks", hold.release, [])
            self.assertEqual(self.actions(), [("copy", "0-3", "")])

    def test_explicit_finish(self):
        with EpilogHold(self.handle, self.jobid, "copy") as hold:
            hold.finish(status=9)
            self.assertEqual(self.actions(), [])
            epilog_start(self.handle, self.jobid, "copy")
        self.assertEqual(self.actions(), [("copy", "0-3", "")])
        self.assertEqual(self.finishes(), [("copy", 9)])

    def test_exceptions_end_it_with_status_1(self):
        class Mine(Exception):
            pass

        for exc in (Mine("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
            with self.assertRaises(type(exc)) as caught:
                with EpilogHold(self.handle, self.jobid, "copy"):
                    raise exc
            self.assertIs(caught.exception, exc)
            self.assertEqual(self.actions(), [])
            self.assertEqual(self.finishes()[-1], ("copy", 1))

    def test_real_interrupt(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with self.assertRaises(KeyboardInterrupt):
            with EpilogHold(self.handle, self.jobid, "copy"):
                os.kill(os.getpid(), signal.SIGINT)
                self.fail("not reached")
        self.assertEqual(self.actions(), [])
        self.assertEqual(self.finishes(), [("copy", 1)])

    def test_ended_by_somebody_else(self):
        hold = EpilogHold(self.handle, self.jobid, "copy")
        with self.assertRaises(OSError) as caught:
            with hold:
                epilog_finish(self.handle, self.jobid, "copy")
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        with self.assertRaises(ZeroDivisionError):
            with hold:
                epilog_finish(self.handle, self.jobid, "copy")
                1 / 0

    def test_never_ends_the_action_of_somebody_else(self):
        epilog_start(self.handle, self.jobid, "other")
        with self.assertRaises(ZeroDivisionError):
            with EpilogHold(self.handle, self.jobid, "copy"):
                epilog_finish(self.handle, self.jobid, "copy")
                1 / 0
        with self.assertRaises(OSError):
            with EpilogHold(self.handle, self.jobid, "copy", ranks="77"):
                self.fail("not reached")
        self.assertEqual(self.actions(), [("other", "0-3", "")])

    def test_job_went_inactive(self):
        def until_inactive():
            self.end_job()
            epilog_finish(self.handle, self.jobid, "copy")
            self.wait("clean")

        with self.assertRaises(ZeroDivisionError):
            with EpilogHold(self.handle, self.jobid, "copy"):
                until_inactive()
                1 / 0
        self.assert_error(
            errno.EINVAL, "inactive", EpilogHold(self.handle, self.jobid, "x").__enter__
        )

    def test_refused_start_leaves_nothing(self):
        hold = EpilogHold(self.handle, self.jobid, "copy", ranks="77")
        self.assert_error(errno.EINVAL, "77", hold.__enter__)
        self.assertFalse(hold.outstanding)
        self.assertEqual(self.actions(), [])
        self.assertEqual(self.finishes(), [])

    def test_used_again(self):
        hold = EpilogHold(self.handle, self.jobid, "copy")
        for _ in range(2):
            with hold:
                self.assertEqual(self.actions(), [("copy", "0-3", "")])
                with self.assertRaises(RuntimeError):
                    hold.__enter__()
            self.assertEqual(self.actions(), [])

    def test_interrupted_start_is_ended(self):
        class Interrupted(EpilogFuture):
            def get(self):
                type(self).get = EpilogFuture.get
                raise KeyboardInterrupt

        start_async = flux.job.epilog.epilog_start_async
        hold = EpilogHold(self.handle, self.jobid, "copy")

        def interrupted(*args):
            future = start_async(*args)
            future.__class__ = Interrupted
            return future

        flux.job.epilog.epilog_start_async = interrupted
        try:
            with self.assertRaises(KeyboardInterrupt):
                hold.__enter__()
        finally:
            flux.job.epilog.epilog_start_async = start_async
        self.assertEqual(self.actions(), [])
        self.assertEqual(self.finishes(), [("copy", 1)])


class TestFuture(EpilogTestCase):
    """Waiting, in all ways, with few descriptors and many requests."""

    def setUp(self):
        super().setUp()
        epilog_start(self.handle, self.jobid, "a")

    def unanswered(self):
        """Return a future of a request that nobody answers before the end."""
        request = {"namespace": "primary", "rootseq": 2**30}
        return EpilogFuture(self.handle, "kvs.wait-version", request)

    def releases(self, count):
        """Send many releases and return their futures."""
        return [
            epilog_finish_async(self.handle, self.jobid, "a", ranks=[index % SIZE])
            for index in range(count)
        ]

    def test_many_waited_for_one_by_one(self):
        before = descriptors()
        with descriptor_limit(before + 16):
            futures = self.releases(MANY)
            for future in futures:
                future.get()
            self.assertLess(descriptors(), before + 8)
            for future in futures:
                self.assertTrue(future.is_ready())
                future.get()
        self.assertEqual(self.actions(), [("a", "", "0-3")])

    def test_many_with_the_reactor(self):
        before = descriptors()
        done = []
        with descriptor_limit(before + 16):
            for future in self.releases(MANY):
                future.then(lambda future: done.append(future.get()))
            self.handle.reactor_run()
            self.assertLess(descriptors(), before + 8)
        self.assertEqual(len(done), MANY)

    def test_many_refused(self):
        before = descriptors()
        with descriptor_limit(before + 16):
            futures = [
                epilog_finish_async(self.handle, self.jobid, "a", ranks="9")
                for _ in range(200)
            ]
            for future in futures + futures:
                self.assert_error(errno.EINVAL, "9", future.get)
                self.assertIn("9", future.error_string())
            self.assertLess(descriptors(), before + 8)

    def test_last_first(self):
        futures = self.releases(200)
        for future in reversed(futures):
            future.get()

    def test_then_after_get(self):
        done = []
        taken, refused = self.releases(1)[0], epilog_list_async(self.handle, 12345)
        taken.get()
        self.assert_error(errno.ENOENT, "unknown job", refused.get)

        def done_cb(future):
            try:
                done.append(future.get())
            except OSError as exc:
                done.append(exc.errno)

        taken.then(done_cb)
        self.handle.reactor_run()
        refused.then(done_cb)
        self.handle.reactor_run()
        self.assertEqual(done, [None, errno.ENOENT])

    def test_list_twice(self):
        future = epilog_list_async(self.handle, self.jobid)
        self.assertEqual(future.get(), future.get())
        self.assertEqual(future.get_dict()["jobs"][0]["id"], self.jobid)

    def test_timeout(self):
        future = self.unanswered()
        for timeout in (0.0, 0.01, 0.25):
            with self.assertRaises(OSError) as caught:
                future.wait_for(timeout)
            self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
        self.assertFalse(future.is_ready())

    def test_a_wait_in_vain_keeps_no_answers_of_others(self):
        others = self.releases(3)
        future = self.unanswered()
        with self.assertRaises(OSError):
            future.wait_for(0.25)
        for other in others:
            other.wait_for(60.0)
        self.assertEqual(self.actions(), [("a", "3", "0-2")])

    def test_a_wait_can_be_interrupted(self):
        others = self.releases(3)
        future = self.unanswered()
        with self.assertRaises(KeyboardInterrupt), interrupt_after(0.2):
            future.get()
        for other in others:
            other.wait_for(60.0)
        with self.assertRaises(KeyboardInterrupt), interrupt_after(0.2):
            future.wait_for(60.0)

    def test_a_refusal_leaves_interrupts_as_they_were(self):
        before = signal.getsignal(signal.SIGINT)
        self.assert_error(
            errno.ENOENT, "'b'", epilog_finish, self.handle, self.jobid, "b"
        )
        self.assertIs(signal.getsignal(signal.SIGINT), before)


if __name__ == "__main__":
    if rerun_under_flux(__flux_size()):
        from pycotap import TAPTestRunner

        unittest.main(testRunner=TAPTestRunner(), buffer=False)

# vi: ts=4 sw=4 expandtab
