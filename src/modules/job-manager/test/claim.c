/* SPDX-License-Identifier: LGPL-3.0 */

/* test/claim.c - unit tests of claim.[ch]
 *
 * The handle is a loop: what is sent to the scheduler comes back to be read.
 * The rest of the job manager is stood in for, and the code under test is
 * included rather than linked.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libczmqcontainers/czmq_containers.h"
#include "src/common/libtap/tap.h"
#include "src/common/libjob/job_hash.h"
#include "src/common/librlist/rlist.h"
#include "ccan/str/str.h"
#include "src/modules/job-manager/alloc.h"
#include "src/modules/job-manager/housekeeping.h"
#include "src/modules/job-manager/job-manager.h"
#include "src/modules/job-manager/job.h"
#include "src/modules/job-manager/raise.h"
#include "src/modules/job-manager/test/heap.h"

/* Stand-ins
 */

static bool online; // a scheduler that is ready
static int dropped; // calls of housekeeping_drop()
static int raised;  // exceptions

bool alloc_sched_ready (struct alloc *alloc)
{
    return online;
}

void alloc_status_changed (struct alloc *alloc)
{
}

int housekeeping_stat_append (struct housekeeping *hk,
                              struct rlist *rl,
                              flux_error_t *error)
{
    return 0;
}

void housekeeping_drop (struct housekeeping *hk, flux_jobid_t id)
{
    dropped++;
}

int raise_job_exception (struct job_manager *ctx, struct job *job,
                         const char *type, int severity,
                         uint32_t userid, const char *note)
{
    raised++;
    return 0;
}

/* Containers assert when out of memory, messages are made of them, and
 * librlist does not look.  So these fail as a whole or not at all.
 */
#define WHOLE(type, failure, call) \
    ({ \
        bool armed = heap.armed; \
        bool fails = armed && heap_fails (); \
        type result = failure; \
        if (!fails) { \
            heap.armed = false; \
            result = call; \
            heap.armed = armed; \
        } \
        result; \
    })

static int insert_or_fail (zhashx_t *hash, const void *key, void *item)
{
    return WHOLE (int, -1, zhashx_insert (hash, key, item));
}

static void *add_end_or_fail (zlistx_t *list, void *item)
{
    return WHOLE (void *, NULL, zlistx_add_end (list, item));
}

static bool rpc_fails;

#define flux_rpc_pack(...) \
    (rpc_fails ? (errno = ENOMEM, NULL) \
        : WHOLE (flux_future_t *, NULL, flux_rpc_pack (__VA_ARGS__)))
#define flux_respond_pack(...) \
    WHOLE (int, -1, flux_respond_pack (__VA_ARGS__))
#define rlist_create() \
    WHOLE (struct rlist *, NULL, rlist_create ())
#define rlist_ranks(rl) \
    WHOLE (struct idset *, NULL, rlist_ranks (rl))

#undef zhashx_insert
#undef zlistx_add_end
#define zhashx_insert insert_or_fail
#define zlistx_add_end add_end_or_fail
#include "src/modules/job-manager/claim.c"

/* The tests
 */

static const char *R_text =
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"%s\","
    "\"children\":{\"core\":\"0-3\"}}],\"starttime\":1,\"expiration\":9}}";

/* Ledgers of the job: nothing has gone, rank 0 has.
 */
static struct epilog *none_gone;
static struct epilog *first_gone;

static struct epilog *ledger_create (const char *gone)
{
    struct idset *all = idset_decode ("0-3");
    struct idset *ids = idset_decode (gone);
    struct epilog *ledger = epilog_create (all);

    if (!all || !ids || !ledger || epilog_restore_gone (ledger, ids, NULL) < 0)
        BAIL_OUT ("ledger: %s", strerror (errno));
    idset_destroy (all);
    idset_destroy (ids);
    return ledger;
}

static json_t *R_create (const char *ranks)
{
    char buf[256];
    json_t *R;

    snprintf (buf, sizeof (buf), R_text, ranks);
    if (!(R = json_loads (buf, 0, NULL)))
        BAIL_OUT ("%s is not JSON", buf);
    return R;
}

struct test {
    struct job_manager ctx;
    struct job job;
};

static flux_t *test_handle; // has a message queue that stays when empty

static void setup (struct test *t, bool sched_online, bool partial_ok)
{
    memset (t, 0, sizeof (*t));
    t->ctx.h = test_handle;
    if (!(t->ctx.active_jobs = job_hash_create ())
        || !(t->ctx.inactive_jobs = job_hash_create ())
        || !(t->ctx.claims = claims_create (&t->ctx)))
        BAIL_OUT ("out of memory");
    t->job.id = 1;
    t->job.state = FLUX_JOB_STATE_CLEANUP;
    t->job.has_resources = 1;
    t->job.R_redacted = R_create ("0-3");
    if (zhashx_insert (t->ctx.active_jobs, &t->job.id, &t->job) < 0)
        BAIL_OUT ("out of memory");
    t->ctx.claims->partial_ok = partial_ok;
    online = sched_online;
    dropped = raised = 0;
}

static void teardown (struct test *t)
{
    claims_destroy (t->ctx.claims);
    zhashx_destroy (&t->ctx.active_jobs);
    zhashx_destroy (&t->ctx.inactive_jobs);
    json_decref (t->job.R_redacted);
}

/* Read what was sent: "RANKS " or "RANKS final " for each sched.free, "told
 * FREE " for each hello response.
 */
static char *sent (void)
{
    char *buf = NULL;
    size_t size;
    FILE *fp;
    flux_msg_t *msg;

    if (!(fp = open_memstream (&buf, &size)))
        BAIL_OUT ("open_memstream: %s", strerror (errno));
    while ((msg = flux_recv (test_handle, FLUX_MATCH_ANY, FLUX_O_NONBLOCK))) {
        const char *ranks = "none";
        const char *topic = "";
        json_t *R;
        int final;

        if (flux_msg_get_topic (msg, &topic) == 0 && strstarts (topic, "log."))
            ;
        else if (flux_msg_unpack (msg,
                                  "{s:o s:b}",
                                  "R", &R,
                                  "final", &final) == 0) {
            struct idset *ids = fragment_ranks (R);
            char *s = ids ? idset_encode (ids, IDSET_FLAG_RANGE) : NULL;

            fprintf (fp, "%s%s ", s ? s : "?", final ? " final" : "");
            free (s);
            idset_destroy (ids);
        }
        else if (flux_msg_unpack (msg, "{s?s}", "free", &ranks) == 0)
            fprintf (fp, "told %s ", ranks);
        else
            fprintf (fp, "? ");
        flux_msg_destroy (msg);
    }
    if (fclose (fp) != 0)
        BAIL_OUT ("out of memory");
    return buf;
}

static bool sent_is (const char *want)
{
    char *got = sent ();
    bool match = streq (got, want);

    if (!match)
        diag ("sent '%s', want '%s'", got, want);
    free (got);
    return match;
}

static int give_back (struct test *t, const char *ranks)
{
    json_t *R = R_create (ranks);
    int rc = claim_free (t->ctx.claims, t->job.id, R, false);

    ERRNO_SAFE_WRAP (json_decref, R);
    return rc;
}

static flux_msg_t *hello_create (bool partial_ok)
{
    flux_msg_t *msg;

    if (!(msg = flux_request_encode ("job-manager.sched-hello", NULL))
        || flux_msg_pack (msg, "{s:b}", "partial-ok", partial_ok) < 0)
        BAIL_OUT ("flux_request_encode: %s", strerror (errno));
    return msg;
}

static int hello (struct test *t, bool partial_ok)
{
    flux_msg_t *msg = hello_create (partial_ok);
    int rc = claims_hello_respond (t->ctx.claims, msg);

    ERRNO_SAFE_WRAP (flux_msg_destroy, msg);
    return rc;
}

static void test_parts (void)
{
    struct test t;

    setup (&t, true, true);
    ok (give_back (&t, "0-3") == 0 && sent_is (""),
        "a free of a job without a claim is the caller's");
    ok (claim_create (t.ctx.claims, &t.job, none_gone) == 0
        && claim_exists (t.ctx.claims, 1),
        "claim_create works");
    ok (give_back (&t, "1") == 1 && sent_is ("1 "),
        "a part goes back");
    errno = 0;
    ok (give_back (&t, "1-2") == -1 && errno == EEXIST && sent_is (""),
        "what is back can't be given back again");
    ok (give_back (&t, "0,3") == 1 && sent_is ("0,3 "),
        "another part goes back");
    ok (give_back (&t, "2") == 1 && sent_is ("2 final "),
        "the last part is final");
    ok (!claim_exists (t.ctx.claims, 1), "and ends the claim");
    teardown (&t);

    setup (&t, true, true);
    ok (claim_create (t.ctx.claims, &t.job, first_gone) == 0
        && give_back (&t, "1-3") == 1
        && sent_is ("1-3 final "),
        "what went before a restart counts as back");
    teardown (&t);

    setup (&t, true, false);
    ok (claim_create (t.ctx.claims, &t.job, none_gone) == 0
        && give_back (&t, "0") == 1
        && give_back (&t, "1") == 1
        && sent_is (""),
        "a scheduler that takes no parts gets none");
    ok (give_back (&t, "2-3") == 1 && sent_is ("0-3 final "),
        "but the whole in the end");
    teardown (&t);
}

static void test_hello (void)
{
    struct test t;

    setup (&t, false, true);
    ok (claim_create (t.ctx.claims, &t.job, none_gone) == 0
        && give_back (&t, "0") == 1
        && sent_is (""),
        "nothing is sent while no scheduler is there");
    ok (hello (&t, true) == 0 && sent_is ("told 0 "),
        "the next one is told what is back");
    ok (give_back (&t, "1") == 1 && sent_is (""),
        "what goes back before it is ready waits");
    online = true;
    claims_ready (t.ctx.claims);
    ok (sent_is ("1 "), "until it is");
    online = false;
    ok (hello (&t, false) == 0 && sent_is ("told none ") && raised == 0,
        "one that takes no parts is told of the whole");
    online = true;
    claims_ready (t.ctx.claims);
    ok (give_back (&t, "2-3") == 1 && sent_is ("0-3 final "),
        "and gets it");
    teardown (&t);
}

/* A job whose resources are lost, but not to the scheduler, has what was handed
 * over before, and no more.
 */
static void test_abandon (void)
{
    struct test t;

    setup (&t, true, true);
    ok (claim_abandon (t.ctx.claims, &t.job, first_gone) == 0,
        "claim_abandon takes a job without a claim");
    if (claim_create (t.ctx.claims, &t.job, none_gone) < 0)
        BAIL_OUT ("claim_create: %s", strerror (errno));
    ok (claim_abandon (t.ctx.claims, &t.job, first_gone) == 0
        && claim_abandon (t.ctx.claims, &t.job, first_gone) == 0
        && sent_is (""),
        "a job loses what was not handed over, once");
    online = false;
    ok (hello (&t, true) == 0 && sent_is ("told 1-3 "),
        "the next scheduler is told of the rest");
    online = true;
    claims_ready (t.ctx.claims);
    ok (give_back (&t, "0") == 1
        && sent_is ("0 final ")
        && !claim_exists (t.ctx.claims, 1),
        "and that ends the claim");
    if (claim_create (t.ctx.claims, &t.job, none_gone) < 0
        || give_back (&t, "0") != 1
        || !sent_is ("0 "))
        BAIL_OUT ("claim_create: %s", strerror (errno));
    ok (claim_abandon (t.ctx.claims, &t.job, first_gone) == 0
        && !claim_exists (t.ctx.claims, 1)
        && sent_is (""),
        "if all that went is back, there is no claim any more");
    teardown (&t);
}

/* What can't be sent is back all the same: the next hello will tell.
 */
static void test_send_fails (void)
{
    struct test t;

    setup (&t, true, true);
    if (claim_create (t.ctx.claims, &t.job, none_gone) < 0)
        BAIL_OUT ("claim_create: %s", strerror (errno));
    rpc_fails = true;
    ok (give_back (&t, "1") == 1 && sent_is (""),
        "a part goes back that the scheduler can't be told of");
    rpc_fails = false;
    ok (hello (&t, true) == 0 && sent_is ("told 1 "),
        "the next scheduler is told");
    claims_ready (t.ctx.claims);
    rpc_fails = true;
    ok (give_back (&t, "0,2-3") == 1 && !claim_exists (t.ctx.claims, 1),
        "and so it is with the last part");
    rpc_fails = false;
    ok (hello (&t, true) == 0 && sent_is (""),
        "of which the next scheduler is told nothing any more");
    teardown (&t);
}

/* Want of memory
 */

static void test_create_nomem (void)
{
    struct test t;

    setup (&t, true, true);
    for (enum heap_mode mode = HEAP_REST; mode <= HEAP_ONE; mode++) {
        int errors = 0;
        int count = 0;
        bool failed;

        do {
            long live = heap_live ();
            int rc;

            heap_arm (count, mode);
            errno = 0;
            rc = claim_create (t.ctx.claims, &t.job, first_gone);
            failed = heap_disarm ();
            if ((rc < 0 && errno != ENOMEM)
                || claim_exists (t.ctx.claims, 1) != (rc == 0)
                || (!failed && rc < 0)) {
                diag ("allocation %d: rc=%d %s", count, rc, strerror (errno));
                errors++;
            }
            if (rc == 0) {
                claim_drop (t.ctx.claims, 1);
                zhashx_purge (t.ctx.claims->jobs);
            }
            if (heap_live () != live) {
                diag ("allocation %d: %ld not freed",
                      count,
                      heap_live () - live);
                errors++;
            }
            count++;
        } while (failed);
        ok (errors == 0 && count > 3,
            "claim_create: each of %d allocations may fail%s",
            count - 1,
            mode == HEAP_REST ? ", and all after it" : "");
    }
    teardown (&t);
}

/* Give back the parts of a job, the scheduler being in some state, with one
 * allocation failing on the way.  A call that fails may be repeated.  What the
 * scheduler is not told of at once, it learns from the next hello: in the end
 * it has all, each rank once.
 */
static bool parts_arrive (bool sched_online,
                          bool between,
                          int count,
                          enum heap_mode mode,
                          bool *failed)
{
    static const char *parts[] = { "1", "0,3", "2" };
    struct test t;
    json_t *R[3];
    char *s;
    bool result = true;

    setup (&t, sched_online, true);
    for (int i = 0; i < 3; i++)
        R[i] = R_create (parts[i]);
    if (claim_create (t.ctx.claims, &t.job, none_gone) < 0)
        BAIL_OUT ("claim_create: %s", strerror (errno));
    if (between && hello (&t, true) < 0)
        BAIL_OUT ("claims_hello_respond: %s", strerror (errno));
    free (sent ());
    *failed = false;
    heap_arm (count, mode);
    for (int i = 0; i < 3; i++) {
        int rc = claim_free (t.ctx.claims, 1, R[i], false);

        if (rc < 0) {
            *failed = heap_disarm () || *failed;
            rc = claim_free (t.ctx.claims, 1, R[i], false);
        }
        if (rc != 1)
            result = false;
    }
    *failed = heap_disarm () || *failed;
    if (claim_exists (t.ctx.claims, 1)) {
        diag ("the claim is still there");
        result = false;
    }
    if (between) {
        online = true;
        claims_ready (t.ctx.claims);
    }
    s = sent ();
    if (!*failed
        && !streq (s, sched_online || between ? "1 0,3 2 final " : "")) {
        diag ("sent '%s'", s);
        result = false;
    }
    if (hello (&t, true) < 0 || !sent_is (""))
        result = false;
    free (s);
    for (int i = 0; i < 3; i++)
        json_decref (R[i]);
    teardown (&t);
    return result;
}

static void test_free_nomem (void)
{
    static const struct {
        bool online;
        bool between;
        const char *name;
    } states[] = {
        { true, false, "a scheduler is ready" },
        { false, true, "a scheduler is not ready yet" },
        { false, false, "no scheduler is there" },
    };

    for (int i = 0; i < 3; i++) {
        for (enum heap_mode mode = HEAP_REST; mode <= HEAP_ONE; mode++) {
            int errors = 0;
            int count = 0;
            bool failed;

            do {
                long live = heap_live ();

                if (!parts_arrive (states[i].online,
                                   states[i].between,
                                   count,
                                   mode,
                                   &failed)) {
                    diag ("allocation %d", count);
                    errors++;
                }
                if (heap_live () != live) {
                    diag ("allocation %d: %ld not freed",
                          count,
                          heap_live () - live);
                    errors++;
                }
                count++;
            } while (failed);
            ok (errors == 0 && count > 3,
                "claim_free, %s: each of %d allocations may fail%s",
                states[i].name,
                count - 1,
                mode == HEAP_REST ? ", and all after it" : "");
        }
    }
}

/* A hello that can't be answered fails, and may be tried again.
 */
static void test_hello_nomem (void)
{
    for (int partial_ok = 0; partial_ok < 2; partial_ok++) {
        struct test t;
        int errors = 0;
        int count = 0;
        bool failed;

        setup (&t, false, true);
        if (claim_create (t.ctx.claims, &t.job, none_gone) < 0
            || give_back (&t, "0") != 1)
            BAIL_OUT ("out of memory");
        do {
            long live = heap_live ();
            flux_msg_t *msg = hello_create (partial_ok);
            int rc;

            heap_arm (count, HEAP_ONE);
            rc = claims_hello_respond (t.ctx.claims, msg);
            failed = heap_disarm ();
            flux_msg_destroy (msg);
            free (sent ());
            if (!claim_exists (t.ctx.claims, 1)) {
                /* It could not be found out whether what is back is in use.
                 */
                if (partial_ok || raised != 1 || dropped != 1) {
                    diag ("allocation %d: the job was dropped", count);
                    errors++;
                }
                raised = dropped = 0;
                if (claim_create (t.ctx.claims, &t.job, none_gone) < 0
                    || give_back (&t, "0") != 1)
                    BAIL_OUT ("out of memory");
            }
            else {
                if (!failed && rc < 0)
                    errors++;
                if (heap_live () != live) {
                    diag ("allocation %d: %ld not freed",
                          count,
                          heap_live () - live);
                    errors++;
                }
            }
            count++;
        } while (failed);
        ok (errors == 0 && count > 2,
            "hello%s: each of %d allocations may fail",
            partial_ok ? " with partial-ok" : "",
            count - 1);
        teardown (&t);
    }
}

int main (int argc, char *argv[])
{
    plan (NO_PLAN);

    if (!(test_handle = flux_open ("loop://", 0)))
        BAIL_OUT ("flux_open loop://: %s", strerror (errno));
    none_gone = ledger_create ("");
    first_gone = ledger_create ("0");
    test_parts ();
    test_hello ();
    test_abandon ();
    test_send_fails ();
    test_create_nomem ();
    test_free_nomem ();
    test_hello_nomem ();
    epilog_destroy (none_gone);
    epilog_destroy (first_gone);
    flux_close (test_handle);
    done_testing ();
}

// vi:ts=4 sw=4 expandtab
