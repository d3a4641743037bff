/* SPDX-License-Identifier: LGPL-3.0 */

/* handoff.c - hand ranks that no epilog action holds over, before clean
 *
 * Purpose:
 *   An epilog action may name the ranks that it holds ("ranks" of the
 *   epilog-start event) and let go of them as it runs (epilog-finish with
 *   "ranks").  While the job is in CLEANUP, each rank that no action holds
 *   goes to housekeeping, and so to the scheduler.
 *
 * Events:
 *   partial-free {"ranks":s}
 *     These ranks were handed over and the job has others left.  Posted with
 *     each handoff but the last, for which "free" is posted as ever.
 *   A job without a "ranks" key in any of its events has no partial-free, and
 *   its one free is left to event_job_action().
 *
 * Configuration:
 *   [job-manager.epilog-release]
 *   final-free = "auto"|"last-rank"|"last-action"
 *
 *   Resources that belong to no rank, such as a rabbit's storage, go back to
 *   the scheduler with the job's last free.
 *   - last-rank: that is when the last rank is let go of.
 *   - last-action: one rank is kept back until no action is outstanding.
 *   - auto: last-action if the jobspec asks for anything but slots, nodes,
 *     sockets, cores and gpus, or R came with a "scheduling" key; else
 *     last-rank.
 *
 * Coalescing:
 *   Ranks that are let go of one at a time, but together, go together, since
 *   each handoff may cost a scheduler as much as the job has ranks.  One waits
 *   until nothing was let go of for half an event batch, so that partial-free
 *   is committed with the event that caused it.  A long burst is cut in pieces
 *   of ten event batches.  Nothing can come after the last action has ended:
 *   that handoff does not wait.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libczmqcontainers/czmq_containers.h"
#include "src/common/libeventlog/eventlog.h"
#include "src/common/libjob/idf58.h"
#include "src/common/libjob/job_hash.h"
#include "src/common/librlist/rlist.h"
#include "src/common/libutil/errno_safe.h"
#include "src/common/libutil/errprintf.h"
#include "ccan/str/str.h"

#include "alloc.h"
#include "claim.h"
#include "conf.h"
#include "epilog.h"
#include "event.h"
#include "fragment.h"
#include "hold.h"
#include "housekeeping.h"

#include "handoff.h"

static const double quiet_timeout = 0.005; // seconds
static const double burst_timeout = 0.1; // seconds

/* seconds, until what failed for want of memory is tried again
 */
static const double retry_timeout = 1.;

enum final_free {
    FINAL_FREE_AUTO,
    FINAL_FREE_LAST_RANK,
    FINAL_FREE_LAST_ACTION,
};

struct handoff {
    struct job_manager *ctx;
    enum final_free final_free;
    flux_watcher_t *timer;
    zhashx_t *due;              // id => job with ranks to hand over
    double t_due;               // since when there are any
    flux_watcher_t *retry_timer;
    zhashx_t *failed;           // id => job with ranks to try again
    zhashx_t *spare;            // empty, but in let_all_go()
    bool hold_logged;           // said that the scheduler is not partial-ok

    struct {
        json_int_t partial_frees;   // partial-free events posted
        json_int_t ranks;           // named in them
    } count;
};

static void log_notes (struct handoff *handoff, struct job *job)
{
    json_t *notes = hold_take_notes (job);
    json_t *o;
    size_t index;

    json_array_foreach (notes, index, o) {
        flux_log (handoff->ctx->h,
                  LOG_ERR,
                  "%s: %s",
                  idf58 (job->id),
                  json_string_value (o));
    }
    json_decref (notes);
}

/* Apply the final-free rule to the job's ledger.
 */
static int set_keep_last (struct handoff *handoff, struct job *job)
{
    bool keep = false;

    switch (handoff->final_free) {
        case FINAL_FREE_LAST_RANK:
            break;
        case FINAL_FREE_LAST_ACTION:
            keep = true;
            break;
        case FINAL_FREE_AUTO:
            keep = hold_has_storage (job);
            break;
    }
    return epilog_set_keep_last (hold_ledger (job), keep);
}

static const char no_parts[] = "the scheduler does not take them in parts";

const char *handoff_obstacle (struct handoff *handoff, struct job *job)
{
    struct epilog *ledger = hold_ledger (job);

    if (job->state != FLUX_JOB_STATE_CLEANUP)
        return "the job has not ended";
    if (job->alloc_bypass)
        return "the scheduler did not allocate them";
    if (!job->has_resources || job->free_posted)
        return "there are none left";
    if (job->start_pending)
        return "the job's shells have not all ended";
    if (job_event_is_queued (job, "epilog-start"))
        return "another action is about to start";
    if (ledger && epilog_prolog_count (ledger) > 0)
        return "a prolog has not ended";
    /* What would be left to do by the caller, had nothing gone before, needs
     * no scheduler that takes parts.
     */
    if (job->perilog_active && !claims_partial_ok (handoff->ctx->claims))
        return no_parts;
    return NULL;
}

/* May any rank of this job go, as far as the ledger has no say in it?
 */
static bool job_may_let_go (struct handoff *handoff, struct job *job)
{
    const char *obstacle = handoff_obstacle (handoff, job);

    if (obstacle == no_parts
        && !handoff->hold_logged
        && alloc_sched_ready (handoff->ctx->alloc)) {
        flux_log (handoff->ctx->h,
                  LOG_INFO,
                  "jobs keep all ranks until their last epilog ends"
                  " because %s",
                  obstacle);
        handoff->hold_logged = true;
    }
    else if (!obstacle && job->perilog_active)
        handoff->hold_logged = false;
    return !obstacle;
}

/* Make the event that records a handoff, before anything is done that can't be
 * undone.
 */
static json_t *record_create (const char *ranks, bool last)
{
    if (last)
        return eventlog_entry_pack (0., "free", NULL);
    return eventlog_entry_pack (0., "partial-free", "{s:s}", "ranks", ranks);
}

static bool record_is_last (json_t *record)
{
    return streq (json_string_value (json_object_get (record, "name")), "free");
}

static int record_post (struct handoff *handoff, struct job *job, json_t *record)
{
    struct event *event = handoff->ctx->event;

    hold_set_record (job, record);
    if (record_is_last (record))
        job->free_posted = 1;
    return event_job_post_entry (event, job, EVENT_HANDOFF, record);
}

/* All parts went, but the log ends before it says so.
 */
static int post_free (struct handoff *handoff, struct job *job)
{
    json_t *record;
    int rc;

    if (!(record = record_create (NULL, true)))
        return -1;
    rc = record_post (handoff, job, record);
    ERRNO_SAFE_WRAP (json_decref, record);
    return rc;
}

/* Hand 'ranks' over: all that have not gone yet if 'last' is true.  They are
 * marked gone before the event is posted, since that comes back here.
 */
static int hand_over (struct handoff *handoff,
                      struct job *job,
                      const struct idset *ranks,
                      bool last)
{
    struct job_manager *ctx = handoff->ctx;
    struct epilog *ledger = hold_ledger (job);
    bool whole = last && idset_empty (epilog_handed_over (ledger));
    json_t *R = NULL;
    json_t *record = NULL;
    char *s = NULL;
    int rc = -1;

    if (!(s = idset_encode (ranks, IDSET_FLAG_RANGE))
        || !(record = record_create (s, last)))
        goto done;
    if (whole)
        R = json_incref (job->R_redacted);
    else if (!(R = fragment_create (job->R_redacted,
                                    epilog_ranks (ledger),
                                    ranks))
        || claim_create (ctx->claims, job, ledger) < 0)
        goto done;
    if (housekeeping_start (ctx->housekeeping, R, job->id, job->userid) < 0
        || epilog_gone (ledger, ranks, NULL) < 0)
        goto done;
    if (!last) {
        handoff->count.partial_frees++;
        handoff->count.ranks += idset_count (ranks);
    }
    rc = record_post (handoff, job, record);
done:
    ERRNO_SAFE_WRAP (json_decref, R);
    ERRNO_SAFE_WRAP (json_decref, record);
    ERRNO_SAFE_WRAP (free, s);
    return rc;
}

static void timer_start (flux_watcher_t *timer, double timeout)
{
    flux_watcher_stop (timer);
    flux_timer_watcher_reset (timer, timeout, 0.);
    flux_watcher_start (timer);
}

static void let_go_later (struct handoff *handoff, struct job *job)
{
    if (zhashx_size (handoff->failed) == 0)
        timer_start (handoff->retry_timer, retry_timeout);
    (void)zhashx_insert (handoff->failed, &job->id, job); // may be there
}

/* Post a record again that got lost on its way.
 */
static int catch_up (struct handoff *handoff, struct job *job)
{
    json_t *record = json_incref (hold_record (job));
    const char *name = record_is_last (record) ? "free" : "partial-free";
    int rc = 0;

    if (!job_event_is_queued (job, name))
        rc = record_post (handoff, job, record);
    ERRNO_SAFE_WRAP (json_decref, record);
    return rc;
}

static int hand_over_ready (struct handoff *handoff, struct job *job)
{
    struct epilog *ledger = hold_ledger (job);
    struct idset *ranks;
    bool last;
    int rc;

    if (!job_may_let_go (handoff, job))
        return 0;
    if (epilog_all_gone (ledger) && !idset_empty (epilog_ranks (ledger)))
        return post_free (handoff, job);
    if (idset_empty (epilog_ready (ledger)))
        return 0;
    if (!(ranks = idset_copy (epilog_ready (ledger))))
        return -1;
    last = idset_count (ranks) == epilog_left (ledger);
    rc = hand_over (handoff, job, ranks, last);
    ERRNO_SAFE_WRAP (idset_destroy, ranks);
    return rc;
}

/* Hand over what may go now, if anything, but not before there is a record of
 * what went last.  What fails is tried again, and a record that is queued is
 * looked after: if an event before it fails, the queue is dropped.
 */
static void let_go (struct handoff *handoff, struct job *job)
{
    int rc;

    if (hold_record (job))
        rc = catch_up (handoff, job);
    else
        rc = hand_over_ready (handoff, job);
    if (rc < 0)
        flux_log_error (handoff->ctx->h,
                        "%s: error handing over ranks",
                        idf58 (job->id));
    if (rc < 0 || hold_record (job))
        let_go_later (handoff, job);
}

/* Let go of what the jobs in '*jobs' have.  Others may get in there on the
 * way, and those that fail may come back: true is returned if there are any.
 */
static bool let_all_go (struct handoff *handoff, zhashx_t **jobs)
{
    zhashx_t *now = *jobs;
    struct job *job;

    *jobs = handoff->spare;
    handoff->spare = now;
    job = zhashx_first (now);
    while (job) {
        if (job->hold)
            let_go (handoff, job);
        job = zhashx_next (now);
    }
    zhashx_purge (now);
    return zhashx_size (*jobs) > 0;
}

static double get_now (struct handoff *handoff)
{
    return flux_reactor_now (flux_get_reactor (handoff->ctx->h));
}

static void timer_cb (flux_reactor_t *r,
                      flux_watcher_t *w,
                      int revents,
                      void *arg)
{
    struct handoff *handoff = arg;

    if (let_all_go (handoff, &handoff->due)) {
        handoff->t_due = get_now (handoff);
        timer_start (handoff->timer, quiet_timeout);
    }
}

static void retry_timer_cb (flux_reactor_t *r,
                            flux_watcher_t *w,
                            int revents,
                            void *arg)
{
    struct handoff *handoff = arg;

    if (let_all_go (handoff, &handoff->failed))
        timer_start (handoff->retry_timer, retry_timeout);
}

static void let_go_soon (struct handoff *handoff, struct job *job)
{
    double now = get_now (handoff);

    if (zhashx_size (handoff->due) == 0)
        handoff->t_due = now;
    (void)zhashx_insert (handoff->due, &job->id, job); // may be there
    if (now < handoff->t_due + burst_timeout - quiet_timeout)
        timer_start (handoff->timer, quiet_timeout);
}

static int action (struct handoff *handoff, struct job *job)
{
    struct claims *claims = handoff->ctx->claims;
    struct epilog *ledger = hold_ledger (job);

    if (job->alloc_bypass || job->free_posted)
        return 0;
    if (!job->has_resources)
        return claim_abandon (claims, job, ledger);
    if (set_keep_last (handoff, job) < 0)
        return -1;
    /* A replayed log may say that all parts went, but lack the free event.
     */
    if (epilog_all_gone (ledger) && !idset_empty (epilog_ranks (ledger)))
        return post_free (handoff, job);
    /* Parts of this job went before the job manager restarted: they count as
     * returned, housekeeping is not run on them again.
     */
    if (!idset_empty (epilog_handed_over (ledger))
        && claim_create (claims, job, ledger) < 0)
        return -1;
    if (idset_empty (epilog_ready (ledger)))
        return 0;
    if (job->perilog_active) {
        let_go_soon (handoff, job);
        return 0;
    }
    if (hold_in_parts (job))
        let_go (handoff, job);
    return 0;
}

int handoff_action (struct handoff *handoff, struct job *job)
{
    int rc;

    if (!job->hold)
        return 0;
    hold_count_early (job);
    hold_check_record (job);
    log_notes (handoff, job);
    if ((rc = action (handoff, job)) < 0)
        ERRNO_SAFE_WRAP (let_go_later, handoff, job);
    return rc;
}

int handoff_reduce (struct job *job, struct rlist *rl)
{
    struct idset *ranks;
    int rc;

    if (!job->has_resources) {
        if (!(ranks = rlist_ranks (rl)))
            return -1;
        rc = rlist_remove_ranks (rl, ranks);
        idset_destroy (ranks);
        return rc;
    }
    if (!job->hold)
        return 0;
    return rlist_remove_ranks (rl, epilog_handed_over (hold_ledger (job)));
}

json_t *handoff_get_stats (struct handoff *handoff)
{
    json_int_t jobs = 0;
    json_int_t actions = 0;
    struct job *job;
    json_t *o;

    job = zhashx_first (handoff->ctx->active_jobs);
    while (job) {
        size_t count = job->hold ? epilog_action_count (hold_ledger (job)) : 0;

        if (count > 0)
            jobs++;
        actions += count;
        job = zhashx_next (handoff->ctx->active_jobs);
    }
    if (!(o = json_pack ("{s:I s:I s:I s:I}",
                         "jobs", jobs,
                         "actions", actions,
                         "partial-frees", handoff->count.partial_frees,
                         "ranks", handoff->count.ranks)))
        errno = ENOMEM;
    return o;
}

static int parse_config (const flux_conf_t *conf,
                         flux_error_t *error,
                         void *arg)
{
    struct handoff *handoff = arg;
    enum final_free final_free = FINAL_FREE_AUTO;
    const char *s = "auto";
    struct job *job;
    flux_error_t e;

    if (flux_conf_unpack (conf,
                          &e,
                          "{s?{s?{s?s !}}}",
                          "job-manager",
                            "epilog-release",
                              "final-free", &s) < 0)
        return errprintf (error, "job-manager.epilog-release: %s", e.text);
    if (streq (s, "last-rank"))
        final_free = FINAL_FREE_LAST_RANK;
    else if (streq (s, "last-action"))
        final_free = FINAL_FREE_LAST_ACTION;
    else if (!streq (s, "auto"))
        return errprintf (error,
                          "job-manager.epilog-release.final-free: '%s' is not"
                          " auto, last-rank or last-action",
                          s);
    handoff->final_free = final_free;
    job = zhashx_first (handoff->ctx->active_jobs);
    while (job) {
        if (job->hold) {
            (void)set_keep_last (handoff, job);
            let_go_soon (handoff, job);
        }
        job = zhashx_next (handoff->ctx->active_jobs);
    }
    return 1; // allow dynamic changes
}

void handoff_destroy (struct handoff *handoff)
{
    if (handoff) {
        int saved_errno = errno;
        conf_unregister_callback (handoff->ctx->conf, parse_config);
        flux_watcher_destroy (handoff->timer);
        flux_watcher_destroy (handoff->retry_timer);
        zhashx_destroy (&handoff->due);
        zhashx_destroy (&handoff->failed);
        zhashx_destroy (&handoff->spare);
        free (handoff);
        errno = saved_errno;
    }
}

static zhashx_t *create_jobs (void)
{
    zhashx_t *jobs;

    if (!(jobs = job_hash_create ())) {
        errno = ENOMEM;
        return NULL;
    }
    zhashx_set_destructor (jobs, job_destructor);
    zhashx_set_duplicator (jobs, job_duplicator);
    return jobs;
}

static flux_watcher_t *create_timer (struct handoff *handoff, flux_watcher_f cb)
{
    flux_reactor_t *r = flux_get_reactor (handoff->ctx->h);

    return flux_timer_watcher_create (r, 0., 0., cb, handoff);
}

struct handoff *handoff_create (struct job_manager *ctx)
{
    struct handoff *handoff;
    flux_error_t error;

    if (!(handoff = calloc (1, sizeof (*handoff))))
        return NULL;
    handoff->ctx = ctx;
    /* The job manager has room for a limited number of event names: have these
     * before others use it up.
     */
    (void)event_index (ctx->event, "epilog-start");
    (void)event_index (ctx->event, "epilog-finish");
    (void)event_index (ctx->event, "partial-free");
    if (!(handoff->due = create_jobs ())
        || !(handoff->failed = create_jobs ())
        || !(handoff->spare = create_jobs ())
        || !(handoff->timer = create_timer (handoff, timer_cb))
        || !(handoff->retry_timer = create_timer (handoff, retry_timer_cb)))
        goto error;
    if (conf_register_callback (ctx->conf,
                                &error,
                                parse_config,
                                handoff) < 0) {
        flux_log (ctx->h, LOG_ERR, "%s", error.text);
        goto error;
    }
    return handoff;
error:
    handoff_destroy (handoff);
    return NULL;
}

// vi:ts=4 sw=4 expandtab
