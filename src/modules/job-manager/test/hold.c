/* SPDX-License-Identifier: LGPL-3.0 */

/* test/hold.c - unit tests of hold.[ch]
 *
 * Events go to a job as the job manager gives them: by event_job_update() when
 * new, by job_create_from_eventlog() when replayed.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libtap/tap.h"
#include "ccan/str/str.h"
#include "src/modules/job-manager/event.h"
#include "src/modules/job-manager/hold.h"
#include "src/modules/job-manager/job.h"
#include "src/modules/job-manager/test/heap.h"

static const char *R =
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-7\","
    "\"children\":{\"core\":\"0-3\"}}],\"nodelist\":[\"a[0-7]\"],"
    "\"starttime\":1,\"expiration\":9}}";

/* Every log begins like this: the job is in RUN state.
 */
static const char *head =
    "{\"timestamp\":1,\"name\":\"submit\",\"context\":{\"userid\":1,"
      "\"urgency\":16,\"flags\":0,\"version\":1}}\n"
    "{\"timestamp\":2,\"name\":\"validate\"}\n"
    "{\"timestamp\":2,\"name\":\"depend\"}\n"
    "{\"timestamp\":2,\"name\":\"priority\",\"context\":{\"priority\":16}}\n"
    "{\"timestamp\":3,\"name\":\"alloc\"}\n";

struct event {
    const char *name;
    const char *context;
    const char *state; // after it: see job_state()
};

static json_t *entry_create (const char *name, json_t *context)
{
    json_t *entry = json_pack ("{s:f s:s s:O}",
                               "timestamp", 4.,
                               "name", name,
                               "context", context);

    if (!entry)
        BAIL_OUT ("out of memory");
    return entry;
}

static json_t *event_entry (const struct event *event)
{
    json_t *context = json_loads (event->context, 0, NULL);
    json_t *entry;

    if (!context)
        BAIL_OUT ("%s is not JSON", event->context);
    entry = entry_create (event->name, context);
    json_decref (context);
    return entry;
}

/* Make the eventlog of a job up to and without event 'count'.
 */
static char *eventlog_create (const struct event *events, int count)
{
    char *buf = NULL;
    size_t size;
    FILE *fp;

    if (!(fp = open_memstream (&buf, &size)))
        BAIL_OUT ("open_memstream: %s", strerror (errno));
    fputs (head, fp);
    for (int i = 0; i < count; i++)
        fprintf (fp,
                 "{\"timestamp\":4,\"name\":\"%s\",\"context\":%s}\n",
                 events[i].name,
                 events[i].context);
    if (fclose (fp) != 0)
        BAIL_OUT ("out of memory");
    return buf;
}

static struct job *job_replay (const struct event *events, int count)
{
    char *log = eventlog_create (events, count);
    flux_error_t error;
    struct job *job;

    if (!(job = job_create_from_eventlog (1, log, "{}", R, &error)))
        BAIL_OUT ("job_create_from_eventlog: %s", error.text);
    free (log);
    return job;
}

static void print_set (FILE *fp, const char *name, const struct idset *set)
{
    char *s = NULL;

    if (!set || idset_empty (set))
        return;
    if ((s = idset_encode (set, IDSET_FLAG_RANGE)))
        fprintf (fp, " %s=%s", name, s);
    else
        BAIL_OUT ("idset_encode: %s", strerror (errno));
    free (s);
}

/* Return what is known of a job's holds.  Ranks are known once an event named
 * some: see to that first.
 */
static char *job_state (struct job *job)
{
    const struct event probe = { "epilog-start",
                                 "{\"description\":\"x\",\"ranks\":\"0\"}",
                                 NULL };
    json_t *entry = event_entry (&probe);
    const struct epilog_action *a;
    struct epilog *ledger;
    flux_error_t error;
    char *buf = NULL;
    size_t size;
    FILE *fp;

    (void)hold_validate (job, 0, entry, &error);
    json_decref (entry);
    if (!(fp = open_memstream (&buf, &size)))
        BAIL_OUT ("open_memstream: %s", strerror (errno));
    ledger = hold_ledger (job);
    fprintf (fp, "active=%d", job->perilog_active);
    print_set (fp, "ready", epilog_ready (ledger));
    print_set (fp, "gone", epilog_handed_over (ledger));
    for (size_t i = 0; (a = epilog_action_get (ledger, i)); i++)
        print_set (fp, a->description, a->held);
    if (fclose (fp) != 0)
        BAIL_OUT ("out of memory");
    return buf;
}

static bool state_is (struct job *job, const char *want)
{
    char *got = job_state (job);
    bool match = streq (got, want);

    if (!match)
        diag ("is '%s', want '%s'", got, want);
    free (got);
    return match;
}

/* How many notes were taken?
 */
static int note_count (struct job *job)
{
    json_t *notes = hold_take_notes (job);
    int count = json_array_size (notes);

    json_decref (notes);
    return count;
}

/* The life of a job.  "Holds" that are not in RUN state any more are counted
 * in 'active' once CLEANUP is noticed.
 */
static const struct event life[] = {
    { "epilog-start", "{\"description\":\"early\",\"ranks\":\"7\"}",
      "active=0 ready=0-6 early=7" },
    { "finish", "{\"status\":0}",
      "active=0 ready=0-6 early=7" },
    { "epilog-start", "{\"description\":\"all\"}",
      "active=2 early=7 all=0-7" },
    { "epilog-start", "{\"description\":\"some\",\"ranks\":\"0-3\"}",
      "active=3 early=7 all=0-7 some=0-3" },
    { "epilog-start", "{\"description\":\"bad\",\"ranks\":\"9\"}",
      "active=4 early=7 all=0-7 some=0-3 bad=0-7" },
    { "epilog-finish", "{\"description\":\"bad\",\"status\":0}",
      "active=3 early=7 all=0-7 some=0-3" },
    { "epilog-finish", "{\"description\":\"some\",\"ranks\":\"0\"}",
      "active=3 early=7 all=0-7 some=1-3" },
    { "epilog-finish", "{\"description\":\"all\",\"ranks\":\"0-5\"}",
      "active=3 ready=0,4-5 early=7 all=6-7 some=1-3" },
    { "epilog-finish", "{\"description\":\"some\",\"ranks\":\"x\"}",
      "active=3 ready=0,4-5 early=7 all=6-7 some=1-3" },
    { "epilog-finish", "{\"description\":\"some\",\"ranks\":[1]}",
      "active=3 ready=0,4-5 early=7 all=6-7 some=1-3" },
    { "partial-free", "{\"ranks\":\"0,4-5\"}",
      "active=3 gone=0,4-5 early=7 all=6-7 some=1-3" },
    { "epilog-start", "{\"description\":\"late\",\"ranks\":\"1\"}",
      "active=4 gone=0,4-5 early=7 all=6-7 some=1-3 late=1" },
    { "epilog-finish", "{\"description\":\"early\",\"status\":0}",
      "active=3 gone=0,4-5 all=6-7 some=1-3 late=1" },
    { "prolog-start", "{\"description\":\"p\"}",
      "active=4 gone=0,4-5 all=6-7 some=1-3 late=1" },
    { "epilog-finish", "{\"description\":\"some\",\"status\":0}",
      "active=3 gone=0,4-5 all=6-7 late=1" },
    { "prolog-finish", "{\"description\":\"p\"}",
      "active=2 ready=2-3 gone=0,4-5 all=6-7 late=1" },
    { "epilog-finish", "{\"description\":\"all\",\"ranks\":\"all\"}",
      "active=2 ready=2-3,6-7 gone=0,4-5 late=1" },
    { "epilog-finish", "{\"description\":\"late\",\"status\":0}",
      "active=1 ready=1-3,6-7 gone=0,4-5" },
    { "epilog-finish", "{\"description\":\"typo\",\"status\":0}",
      "active=0 ready=1-3,6-7 gone=0,4-5" },
    { "free", "{}",
      "active=0 gone=0-7" },
};
static const int life_count = sizeof (life) / sizeof (life[0]);

/* Is the event one that a note is taken of?
 */
static bool is_odd (const struct event *event)
{
    return strstr (event->context, "\"9\"")
        || strstr (event->context, "\"x\"")
        || strstr (event->context, "[1]")
        || strstr (event->context, "typo");
}

static void test_life (void)
{
    for (int i = 0; i < life_count; i++) {
        struct job *job = job_replay (life, i);
        json_t *entry = event_entry (&life[i]);
        struct job *replayed;
        bool replays;

        (void)note_count (job);
        ok (event_job_update (job, entry) == 0
            && state_is (job, life[i].state)
            && note_count (job) == is_odd (&life[i]),
            "%s %s: %s",
            life[i].name,
            life[i].context,
            life[i].state);
        replayed = job_replay (life, i + 1);
        replays = state_is (replayed, life[i].state);
        ok (replays, "and so when it is replayed");
        json_decref (entry);
        job_decref (replayed);
        job_decref (job);
    }
}

/* A record of ranks that went is kept until it has been through.
 */
static void test_record (void)
{
    const int i = 10; // partial-free
    json_t *record = event_entry (&life[i]);
    json_t *other = event_entry (&life[i]);
    struct job *job = job_replay (life, i);

    ok (hold_record (job) == NULL, "a job has no record of its own");
    hold_set_record (job, record);
    hold_check_record (job);
    ok (hold_record (job) == record, "one that was set is kept");
    if (job_event_enqueue (job, 0, other) < 0
        || job_event_enqueue (job, 0, record) < 0)
        BAIL_OUT ("job_event_enqueue: %s", strerror (errno));
    hold_check_record (job);
    ok (event_job_update (job, other) == 0 && hold_record (job) == record,
        "while another that says the same is at the head of the queue");
    job_event_dequeue (job, NULL, NULL);
    ok (event_job_update (job, record) == 0
        && hold_record (job) == record
        && state_is (job, life[i].state),
        "and while it is taken");
    hold_check_record (job);
    ok (hold_record (job) == NULL, "but no longer than that");
    job_event_dequeue (job, NULL, NULL);
    hold_set_record (job, record);
    job_decref (job);
    ok (record->refcount == 1, "it does not outlive the job");
    json_decref (record);
    json_decref (other);
}

/* End all actions that are outstanding: all ranks that have not gone may go.
 */
static bool may_end (struct job *job)
{
    struct epilog *ledger = hold_ledger (job);
    size_t left;

    while (epilog_prolog_count (ledger) > 0) {
        const struct event finish = { "prolog-finish", "{}", NULL };
        json_t *entry = event_entry (&finish);

        if (event_job_update (job, entry) < 0)
            BAIL_OUT ("prolog-finish: %s", strerror (errno));
        json_decref (entry);
    }
    while (epilog_action_count (ledger) > 0) {
        const char *name = epilog_action_get (ledger, 0)->description;
        json_t *context = json_pack ("{s:s}", "description", name);
        json_t *entry = entry_create ("epilog-finish", context);

        if (event_job_update (job, entry) < 0)
            BAIL_OUT ("epilog-finish: %s", strerror (errno));
        json_decref (entry);
        json_decref (context);
    }
    left = idset_count (epilog_ranks (ledger))
         - idset_count (epilog_handed_over (ledger));
    if (job->perilog_active != 0
        || idset_count (epilog_ready (ledger)) != left) {
        diag ("%d actions are counted, %zu of %zu ranks may go",
              job->perilog_active,
              idset_count (epilog_ready (ledger)),
              left);
        return false;
    }
    return true;
}

/* This job has room for no more.  It is destroyed.
 */
static void check_full (struct job *job)
{
    const struct event starts[] = {
        { "epilog-start", "{\"description\":\"b\",\"ranks\":\"1-3\"}", NULL },
        { "prolog-start", "{\"description\":\"p\"}", NULL },
    };

    for (int i = 0; i < 2; i++) {
        json_t *entry = event_entry (&starts[i]);
        flux_error_t error;

        errno = 0;
        ok (hold_validate (job, 0, entry, &error) < 0 && errno == EOVERFLOW,
            "one more %s is refused",
            starts[i].name);
        json_decref (entry);
    }
    ok (may_end (job), "all ranks may go in the end");
    job_decref (job);
}

/* What was taken can be replayed, even if a prolog-start counts then that did
 * not before, since shells ran (start_pending).
 */
static void test_full (void)
{
    static struct event events[EPILOG_ACTIONS_MAX + 3] = {
        { "prolog-start", "{\"description\":\"p\"}", NULL },
        { "finish", "{\"status\":0}", NULL },
    };
    const int count = sizeof (events) / sizeof (events[0]);
    struct job *job = job_replay (events, 0);
    json_t *entry;
    flux_error_t error;
    int refused = 0;

    for (int i = 2; i < count - 1; i++) {
        events[i].name = "epilog-start";
        events[i].context = i % 2 ? "{\"description\":\"a\",\"ranks\":\"0\"}"
                                  : "{\"description\":\"b\",\"ranks\":\"1-3\"}";
    }
    events[count - 1] = events[0];
    job->start_pending = 1;
    for (int i = 0; i < count; i++) {
        entry = event_entry (&events[i]);
        if (hold_validate (job, 0, entry, &error) < 0
            || event_job_update (job, entry) < 0)
            refused++;
        json_decref (entry);
    }
    job->start_pending = 0;
    ok (refused == 0
        && epilog_action_count (hold_ledger (job)) == EPILOG_ACTIONS_MAX,
        "%d actions are taken while shells run", EPILOG_ACTIONS_MAX);
    check_full (job);
    job = job_replay (events, count);
    ok (epilog_action_count (hold_ledger (job)) == EPILOG_ACTIONS_MAX
        && note_count (job) == 0
        && epilog_prolog_count (hold_ledger (job)) == 1,
        "so it is when they are replayed");
    check_full (job);
}

/* Prologs alone, too.
 */
static void test_full_prologs (void)
{
    static struct event events[UINT8_MAX + 2];
    const int count = sizeof (events) / sizeof (events[0]);
    struct job *job;

    for (int i = 0; i < count; i++) {
        events[i].name = "prolog-start";
        events[i].context = "{\"description\":\"p\"}";
    }
    job = job_replay (events, count);
    ok (job->perilog_active == UINT8_MAX,
        "%d prologs, of which the last can't have counted, are replayed",
        count);
    job_decref (job);
}

/* Want of memory
 */

/* Is every rank of one set of a state, such as "ready", in that of the other?
 */
static bool is_part (struct job *job, struct job *good)
{
    const struct idset *a = epilog_ready (hold_ledger (job));
    const struct idset *b = epilog_ready (hold_ledger (good));
    struct idset *rest = a ? idset_copy (a) : NULL;
    bool result;

    if (rest && b && idset_subtract (rest, b) < 0)
        BAIL_OUT ("idset_subtract: %s", strerror (errno));
    result = !rest || idset_empty (rest);
    idset_destroy (rest);
    return result;
}

/* What may become of an event when there is no memory: it is refused and
 * nothing has changed, or it is taken as ever, or it holds more than it said,
 * which a note says if there is memory for that.
 */
static bool is_safe (struct job *job,
                     const struct event *events,
                     int i,
                     int rc,
                     enum heap_mode mode)
{
    struct job *before = job_replay (events, i);
    struct job *good = job_replay (events, i + 1);
    char *was;
    char *want;
    char *is;
    int notes = note_count (job);
    bool result = true;

    hold_count_early (before);
    hold_count_early (good);
    hold_count_early (job);
    want = job_state (good);
    was = job_state (before);
    is = job_state (job);
    if (rc < 0)
        result = streq (is, was);
    else if (!streq (is, want)) {
        json_t *entry = event_entry (&events[i]);
        char *holds_all;

        json_object_del (json_object_get (entry, "context"), "ranks");
        if (streq (events[i].name, "epilog-start")
            && event_job_update (before, entry) < 0)
            BAIL_OUT ("epilog-start: %s", strerror (errno));
        holds_all = job_state (before);
        result = streq (is, holds_all) && is_part (job, good);
        if (notes != 1 && mode == HEAP_ONE)
            result = false;
        json_decref (entry);
        free (holds_all);
    }
    if (!result)
        diag ("rc=%d was '%s' is '%s' want '%s' notes=%d",
              rc,
              was,
              is,
              want,
              notes);
    free (was);
    free (want);
    free (is);
    job_decref (before);
    job_decref (good);
    return result;
}

/* Give event 'i' to a job with the first, the second, the third... allocation
 * failing.
 */
static void check_update (const struct event *events,
                          int i,
                          enum heap_mode mode)
{
    json_t *entry = event_entry (&events[i]);
    long live = heap_live ();
    int errors = 0;
    int count = 0;
    bool failed;

    do {
        struct job *job = job_replay (events, i);
        int rc;

        (void)note_count (job);
        heap_arm (count, mode);
        rc = event_job_update (job, entry);
        failed = heap_disarm ();
        if (!is_safe (job, events, i, rc, mode) || !may_end (job)) {
            diag ("allocation %d", count);
            errors++;
        }
        job_decref (job);
        if (heap_live () != live) {
            diag ("allocation %d: %ld not freed", count, heap_live () - live);
            live = heap_live ();
            errors++;
        }
        count++;
    } while (failed);
    ok (errors == 0,
        "%s %s: each of %d allocations may fail%s",
        events[i].name,
        events[i].context,
        count - 1,
        mode == HEAP_REST ? ", and all after it" : "");
    json_decref (entry);
}

/* Replay the whole of a log like that.  Ranks that went must never count as
 * being there still, or they would go to two jobs.
 */
static void check_replay (const struct event *events,
                          int size,
                          enum heap_mode mode)
{
    char *log = eventlog_create (events, size);
    struct job *good = job_replay (events, size);
    long live;
    int errors = 0;
    int replayed = 0;
    int count = 2; // job.c drops the job if its own second one fails
    bool failed;
    char *want = job_state (good);

    do {
        struct job *job;

        live = heap_live ();
        heap_arm (count, mode);
        job = job_create_from_eventlog (1, log, "{}", R, NULL);
        failed = heap_disarm ();
        if (job) {
            char *is = job_state (job);

            replayed++;
            if (!is_part (job, good)
                || !idset_equal (epilog_handed_over (hold_ledger (job)),
                                 epilog_handed_over (hold_ledger (good)))
                || !may_end (job)) {
                diag ("allocation %d: is '%s', want '%s'", count, is, want);
                errors++;
            }
            free (is);
        }
        job_decref (job);
        if (heap_live () != live) {
            diag ("allocation %d: %ld not freed", count, heap_live () - live);
            errors++;
        }
        count++;
    } while (failed);
    ok (errors == 0 && count > 100 && replayed > 0,
        "replay of %d events: each of %d allocations may fail%s",
        size,
        count - 3,
        mode == HEAP_REST ? ", and all after it" : "");
    free (want);
    free (log);
    job_decref (good);
}

/* Put event 'i' in the queue of a job that has had 'had' of them, as if those
 * between were waiting there.  The one that is processed is at its head.
 */
static struct job *job_queue (const struct event *events, int had, int i)
{
    struct job *job = job_replay (events, had);

    for (int n = had > 0 ? had - 1 : 0; n < i; n++) {
        json_t *entry = event_entry (&events[n]);

        if (job_event_enqueue (job, 0, entry) < 0)
            BAIL_OUT ("job_event_enqueue: %s", strerror (errno));
        json_decref (entry);
    }
    return job;
}

/* Ask whether event 'i' would be taken, others waiting before it.
 */
static void check_validate (const struct event *events,
                            int had,
                            int i,
                            enum heap_mode mode)
{
    json_t *entry = event_entry (&events[i]);
    struct job *good = job_queue (events, had, i);
    long live = heap_live ();
    flux_error_t error;
    int want = hold_validate (good, 0, entry, &error);
    int want_errno = errno;
    char *was;
    int errors = 0;
    int count = 0;
    bool failed;

    was = job_state (good);
    job_decref (good);
    live = heap_live ();
    do {
        struct job *job = job_queue (events, had, i);
        char *is;
        int errnum;
        int rc;

        heap_arm (count, mode);
        error.text[0] = '\0';
        rc = hold_validate (job, 0, entry, &error);
        errnum = errno;
        failed = heap_disarm ();
        if ((rc == 0 && want < 0)
            || (rc < 0 && error.text[0] == '\0')
            || (rc < 0
                && errnum != ENOMEM
                && (want == 0 || errnum != want_errno))) {
            diag ("allocation %d: rc=%d %s: %s",
                  count,
                  rc,
                  strerror (errnum),
                  error.text);
            errors++;
        }
        rc = hold_validate (job, 0, entry, &error);
        errnum = errno;
        is = job_state (job);
        if (rc != want
            || (rc < 0 && errnum != want_errno)
            || !streq (is, was)) {
            diag ("allocation %d: asked again: rc=%d %s '%s'",
                  count,
                  rc,
                  strerror (errnum),
                  is);
            errors++;
        }
        free (is);
        job_decref (job);
        if (heap_live () != live) {
            diag ("allocation %d: %ld not freed", count, heap_live () - live);
            live = heap_live ();
            errors++;
        }
        count++;
    } while (failed);
    ok (errors == 0,
        "%s %s, %d before it: each of %d allocations may fail%s",
        events[i].name,
        events[i].context,
        i - had,
        count - 1,
        mode == HEAP_REST ? ", and all after it" : "");
    free (was);
    json_decref (entry);
}

static void test_nomem (void)
{
    for (enum heap_mode mode = HEAP_REST; mode <= HEAP_ONE; mode++) {
        for (int i = 0; i < life_count; i++)
            check_update (life, i, mode);
        for (int i = 0; i < life_count; i++) {
            check_validate (life, i, i, mode);
            if (i > 2)
                check_validate (life, 2, i, mode);
        }
        check_replay (life, life_count - 1, mode);
        check_replay (life, 11, mode);
    }
}

/* Any context
 */

static unsigned long long fuzz_state;

/* Return a number below 'n' (xorshift).
 */
static int fuzz_below (int n)
{
    fuzz_state ^= fuzz_state << 13;
    fuzz_state ^= fuzz_state >> 7;
    fuzz_state ^= fuzz_state << 17;
    return fuzz_state % n;
}

static json_t *fuzz_deep (int depth)
{
    json_t *o = json_array ();

    while (depth-- > 0) {
        json_t *outer = fuzz_below (2) ? json_pack ("[o]", o)
                                       : json_pack ("{s:o}", "ranks", o);
        o = outer;
    }
    return o;
}

static json_t *fuzz_value (void)
{
    switch (fuzz_below (9)) {
        case 0:
            return json_integer (fuzz_below (10) - 1);
        case 1:
            return json_integer (INT64_MIN);
        case 2:
            return json_real (0.5);
        case 3:
            return json_null ();
        case 4:
            return json_boolean (fuzz_below (2));
        case 5:
            return json_array ();
        case 6:
            return json_object ();
        case 7:
            return json_pack ("[i,i]", 0, 1);
        default:
            return fuzz_deep (fuzz_below (500));
    }
}

static json_t *fuzz_description (void)
{
    static const char *names[] = {
        "a", "b", "c", "", "all", "ranks", "a b", "%s%n", "a\n",
        "\xc3\xa4", "a long one, longer than what an error text quotes of it",
    };
    int n = fuzz_below (20);

    if (n == 0)
        return fuzz_value ();
    if (n < 12)
        return json_string (names[fuzz_below (3)]);
    return json_string (names[fuzz_below (sizeof (names) / sizeof (names[0]))]);
}

/* Text of ranks, mostly of 0-7: often good, or nearly.
 */
static json_t *fuzz_ranks (void)
{
    static const char *texts[] = {
        "all", "", "0-7", "0-8", "8", "0-", "-", ",", "[0-7]", "[0", "0]", " 0",
        "0,0", "1,0", "00", "0-0", "4294967295", "4294967296", "-1",
        "0-4294967294", "99999999999999999999", "0x1", "1e0", "\xef\xbc\x91",
        "all,0", "ALL",
    };
    char text[64] = "";
    int rank = -1;

    switch (fuzz_below (8)) {
        case 0:
            return fuzz_value ();
        case 1:
        case 2:
            return json_string (texts[fuzz_below (sizeof (texts)
                                                  / sizeof (texts[0]))]);
        case 3:
            for (int i = fuzz_below (12); i > 0; i--)
                text[strlen (text)] = "0123456789,-[] "[fuzz_below (15)];
            return json_string (text);
        default:
            while ((rank += 1 + fuzz_below (3)) < 8)
                sprintf (text + strlen (text), "%s%d", *text ? "," : "", rank);
            return json_string (text);
    }
}

static json_t *fuzz_context (void)
{
    json_t *context = json_object ();
    int n = fuzz_below (100);

    if (n > 3)
        json_object_set_new (context, "description", fuzz_description ());
    if (n % 3 > 0)
        json_object_set_new (context, "ranks", fuzz_ranks ());
    if (n % 2 > 0)
        json_object_set_new (context, "status", fuzz_value ());
    return context;
}

/* Each rank is held by somebody, or it may go.
 */
static bool is_sound (struct job *job)
{
    struct epilog *ledger = hold_ledger (job);

    for (unsigned int rank = 0; rank < 8; rank++) {
        bool held = epilog_hold_count (ledger, rank) > 0;

        if (held == idset_test (epilog_ready (ledger), rank))
            return false;
    }
    return job->perilog_active == epilog_action_count (ledger);
}

/* Ask for an event, then let it happen, as a replayed one would even if it was
 * refused.  Return what is wrong with what came of that, or NULL.
 */
static const char *fuzz_one (struct job *job, const char *name, json_t *context)
{
    struct epilog *ledger = hold_ledger (job);
    json_t *entry = entry_create (name, context);
    bool starts = streq (name, "epilog-start");
    bool partial = json_object_get (context, "ranks") != NULL;
    int count = epilog_action_count (ledger);
    struct idset *ready = idset_copy (epilog_ready (ledger));
    const char *wrong = NULL;
    flux_error_t error = {0};
    int want = count;
    int notes;
    int errnum;
    int valid;
    int rc;

    errno = 0;
    valid = hold_validate (job, 0, entry, &error);
    errnum = errno;
    rc = event_job_update (job, entry);
    notes = note_count (job);
    if (starts && count < EPILOG_ACTIONS_MAX)
        want++;
    else if (!starts && valid == 0 && !partial && count > 0)
        want--;

    if (!is_sound (job))
        wrong = "a rank is lost, or actions are";
    else if (epilog_action_count (ledger) != want)
        wrong = "the count of actions is not as it should be";
    else if (valid == 0
             && (rc != 0 || error.text[0] != '\0')
             && (starts || partial))
        wrong = "it was to be taken, but was not";
    else if (valid == 0 && notes > 0 && (starts || partial))
        wrong = "it was to be taken, and a note says that it was not";
    else if (valid < 0
             && errnum != EINVAL
             && errnum != ENOENT
             && errnum != EOVERFLOW)
        wrong = "errno";
    else if (valid < 0 && (error.text[0] == '\0' || strlen (error.text) > 158))
        wrong = "no reason was given";
    else if (valid < 0 && errnum == EOVERFLOW) {
        if (rc == 0 || notes > 0 || count < EPILOG_ACTIONS_MAX)
            wrong = "too many actions are not too many";
    }
    else if (valid < 0 && (rc != 0 || notes != (starts || count > 0)))
        wrong = "a bad event that is replayed is one note, no error";
    else if (valid < 0 && starts && !idset_empty (epilog_ready (ledger)))
        wrong = "a bad start does not hold all ranks";
    else if (valid < 0
             && !starts
             && !idset_equal (ready, epilog_ready (ledger)))
        wrong = "a bad finish has an effect";
    if (wrong) {
        char *s = json_dumps (context, JSON_COMPACT);

        diag ("%s %.200s: %s: valid=%d rc=%d %s '%s' notes=%d actions=%d-%zu",
              name,
              s,
              wrong,
              valid,
              rc,
              strerror (errnum),
              error.text,
              notes,
              count,
              epilog_action_count (ledger));
        free (s);
    }
    idset_destroy (ready);
    json_decref (entry);
    return wrong;
}

/* End one action, so that there are few, but for a while now and then.
 */
static void fuzz_finish (struct job *job)
{
    struct epilog *ledger = hold_ledger (job);
    const struct epilog_action *a = epilog_action_get (ledger, 0);
    json_t *context = json_pack ("{s:s}", "description", a->description);

    if (fuzz_one (job, "epilog-finish", context) != NULL)
        fail ("an action ends");
    json_decref (context);
}

/* HOLD_FUZZ_COUNT contexts (20000), from seed HOLD_FUZZ_SEED (1) on.
 */
static void test_fuzz (void)
{
    const char *s = getenv ("HOLD_FUZZ_COUNT");
    int total = s ? atoi (s) : 20000;
    const struct event begin[] = {
        { "finish", "{\"status\":0}", NULL },
        { "epilog-start",
          "{\"description\":\"a\",\"ranks\":\"0-3\"}",
          NULL },
    };
    struct job *job = job_replay (begin, 2);
    long live = 0;
    int wrong = 0;
    int limit = 4;

    s = getenv ("HOLD_FUZZ_SEED");
    fuzz_state = s ? strtoull (s, NULL, 10) : 1;
    for (int i = 0; i < total; i++) {
        unsigned long long state = fuzz_state;
        const char *name = fuzz_below (3) ? "epilog-finish" : "epilog-start";
        json_t *context = fuzz_context ();

        if (fuzz_one (job, name, context)) {
            diag ("HOLD_FUZZ_SEED=%llu HOLD_FUZZ_COUNT=1", state);
            wrong++;
        }
        json_decref (context);
        if (i % 5000 == 0)
            limit = 300;
        if (epilog_action_count (hold_ledger (job)) == EPILOG_ACTIONS_MAX
            && fuzz_below (20) == 0)
            limit = 4;
        while (epilog_action_count (hold_ledger (job)) > limit)
            fuzz_finish (job);
        if (i == total / 2) {
            while (epilog_action_count (hold_ledger (job)) > 0)
                fuzz_finish (job);
            live = heap_live ();
        }
    }
    while (epilog_action_count (hold_ledger (job)) > 0)
        fuzz_finish (job);
    ok (wrong == 0, "%d contexts are taken, or refused and of no harm", total);
    ok (heap_live () == live,
        "and leave nothing behind (%ld)",
        heap_live () - live);
    ok (may_end (job), "and all ranks may go in the end");
    job_decref (job);
}

int main (int argc, char *argv[])
{
    plan (NO_PLAN);
    test_life ();
    test_record ();
    test_full ();
    test_full_prologs ();
    test_nomem ();
    test_fuzz ();
    done_testing ();
}

// vi:ts=4 sw=4 expandtab
