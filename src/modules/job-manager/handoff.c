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
 *   Ranks that are let go of one at a time, but together, go together.  A
 *   handoff waits for one event batch (batch_timeout), except for the last
 *   one, after which nothing can come.
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

// seconds, as long as an event batch
static const double batch_timeout = 0.01;

static const char *auxkey = "flux::job-manager.handoff";

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
    bool hold_logged;           // said that the scheduler is not partial-ok

    bool asked;                 // the next handoff_validate() tells why
    int refused;                // errno of that, or 0
    flux_error_t reason;
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

static int validate (struct job *job,
                     int flags,
                     json_t *entry,
                     flux_error_t *error)
{
    const char *name;

    if (eventlog_entry_parse (entry, NULL, &name, NULL) == 0
        && streq (name, "partial-free")
        && !(flags & EVENT_HANDOFF)) {
        errno = EINVAL;
        return errprintf (error, "only the job manager posts this event");
    }
    return hold_validate (job, entry, error);
}

int handoff_validate (struct handoff *handoff,
                      struct job *job,
                      int flags,
                      json_t *entry)
{
    flux_error_t error;
    const char *name = "event";
    json_t *context = NULL;
    bool asked = handoff->asked;
    int saved_errno;
    char *s;

    handoff->asked = false; // events posted on the way are not meant
    err_init (&error);
    if (validate (job, flags, entry, &error) == 0)
        return 0;
    saved_errno = errno;
    (void)eventlog_entry_parse (entry, NULL, &name, &context);
    if (asked) {
        handoff->refused = saved_errno;
        errprintf (&handoff->reason, "%s: %s", name, error.text);
    }
    s = json_dumps (context, JSON_COMPACT | JSON_ENSURE_ASCII);
    flux_log (handoff->ctx->h,
              LOG_ERR,
              "%s: refused %s %.256s: %s",
              idf58 (job->id),
              name,
              s ? s : "",
              error.text);
    free (s);
    errno = saved_errno;
    return -1;
}

void handoff_clear_error (flux_t *h)
{
    struct handoff *handoff = flux_aux_get (h, auxkey);

    if (handoff) {
        handoff->asked = true;
        handoff->refused = 0;
    }
}

bool handoff_respond_error (flux_t *h, const flux_msg_t *msg)
{
    struct handoff *handoff = flux_aux_get (h, auxkey);
    int errnum;

    if (!handoff || !handoff->refused)
        return false;
    /* To those who post events, ENOENT means that there is no such job.
     */
    errnum = handoff->refused == ENOENT ? EINVAL : handoff->refused;
    if (flux_respond_error (h, msg, errnum, handoff->reason.text) < 0)
        flux_log_error (h, "error responding to job-manager.post-event");
    return true;
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

/* May any rank of this job go, as far as the ledger has no say in it?
 */
static bool job_may_let_go (struct handoff *handoff, struct job *job)
{
    if (job->state != FLUX_JOB_STATE_CLEANUP
        || !job->has_resources
        || job->alloc_bypass
        || job->start_pending
        || job->free_posted
        || job_event_is_queued (job, "epilog-start"))
        return false;
    /* What would be left to do by the caller, had nothing gone before, needs
     * no scheduler that takes parts.
     */
    if (!job->perilog_active)
        return true;
    if (!claims_partial_ok (handoff->ctx->claims)) {
        if (!handoff->hold_logged && alloc_sched_ready (handoff->ctx->alloc)) {
            flux_log (handoff->ctx->h,
                      LOG_INFO,
                      "jobs keep all ranks until their last epilog ends"
                      " because the scheduler does not take them in parts");
            handoff->hold_logged = true;
        }
        return false;
    }
    handoff->hold_logged = false;
    return true;
}

static int post_free (struct handoff *handoff, struct job *job)
{
    job->free_posted = 1;
    if (event_job_post_pack (handoff->ctx->event, job, "free", 0, NULL) < 0) {
        job->free_posted = 0;
        return -1;
    }
    return 0;
}

/* Hand 'ranks' over: all that have not gone yet if 'last' is true.  If they
 * can't be, nothing has changed, and the job's next action tries again.  They
 * are marked gone before the event is posted, since that comes back here.
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
    char *s = NULL;
    int rc = -1;

    if (!(s = idset_encode (ranks, IDSET_FLAG_RANGE)))
        goto done;
    if (whole)
        R = json_incref (job->R_redacted);
    else if (!(R = fragment_create (job->R_redacted,
                                    epilog_ranks (ledger),
                                    ranks))
        || claim_create (ctx->claims, job, epilog_handed_over (ledger)) < 0)
        goto done;
    if (housekeeping_start (ctx->housekeeping, R, job->id, job->userid) < 0
        || epilog_gone (ledger, ranks, NULL) < 0)
        goto done;
    if (last)
        rc = post_free (handoff, job);
    else {
        rc = event_job_post_pack (ctx->event,
                                  job,
                                  "partial-free",
                                  EVENT_HANDOFF,
                                  "{s:s}",
                                  "ranks", s);
    }
done:
    if (rc < 0)
        flux_log_error (ctx->h,
                        "%s: error handing over ranks %s",
                        idf58 (job->id),
                        s ? s : "?");
    ERRNO_SAFE_WRAP (json_decref, R);
    ERRNO_SAFE_WRAP (free, s);
    return rc;
}

/* Hand over what may go now, if anything.
 */
static int let_go (struct handoff *handoff, struct job *job)
{
    struct epilog *ledger = hold_ledger (job);
    struct idset *ranks;
    size_t left;
    int rc;

    if (!job_may_let_go (handoff, job) || idset_empty (epilog_ready (ledger)))
        return 0;
    if (!(ranks = idset_copy (epilog_ready (ledger)))) {
        flux_log_error (handoff->ctx->h,
                        "%s: error handing over ranks",
                        idf58 (job->id));
        return -1;
    }
    left = idset_count (epilog_ranks (ledger))
         - idset_count (epilog_handed_over (ledger));
    rc = hand_over (handoff, job, ranks, idset_count (ranks) == left);
    ERRNO_SAFE_WRAP (idset_destroy, ranks);
    return rc;
}

static void timer_cb (flux_reactor_t *r,
                      flux_watcher_t *w,
                      int revents,
                      void *arg)
{
    struct handoff *handoff = arg;
    struct job *job;

    while ((job = zhashx_first (handoff->due))) {
        job_incref (job);
        zhashx_delete (handoff->due, &job->id);
        if (job->hold)
            (void)let_go (handoff, job); // logs its own errors
        job_decref (job);
    }
}

static void let_go_soon (struct handoff *handoff, struct job *job)
{
    if (zhashx_insert (handoff->due, &job->id, job) == 0
        && !flux_watcher_is_active (handoff->timer)) {
        flux_timer_watcher_reset (handoff->timer, batch_timeout, 0.);
        flux_watcher_start (handoff->timer);
    }
}

int handoff_action (struct handoff *handoff, struct job *job)
{
    struct claims *claims = handoff->ctx->claims;
    struct epilog *ledger = hold_ledger (job);

    if (!ledger)
        return 0;
    hold_count_early (job);
    log_notes (handoff, job);
    if (!job->has_resources || job->alloc_bypass || job->free_posted)
        return 0;
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
        && claim_create (claims, job, epilog_handed_over (ledger)) < 0)
        return -1;
    if (idset_empty (epilog_ready (ledger)))
        return 0;
    if (job->perilog_active) {
        let_go_soon (handoff, job);
        return 0;
    }
    return hold_in_parts (job) ? let_go (handoff, job) : 0;
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
        (void)flux_aux_set (handoff->ctx->h, auxkey, NULL, NULL);
        flux_watcher_destroy (handoff->timer);
        zhashx_destroy (&handoff->due);
        free (handoff);
        errno = saved_errno;
    }
}

struct handoff *handoff_create (struct job_manager *ctx)
{
    struct handoff *handoff;
    flux_error_t error;

    if (!(handoff = calloc (1, sizeof (*handoff))))
        return NULL;
    handoff->ctx = ctx;
    if (!(handoff->due = job_hash_create ())) {
        errno = ENOMEM;
        goto error;
    }
    zhashx_set_destructor (handoff->due, job_destructor);
    zhashx_set_duplicator (handoff->due, job_duplicator);
    if (!(handoff->timer = flux_timer_watcher_create (flux_get_reactor (ctx->h),
                                                      batch_timeout,
                                                      0.,
                                                      timer_cb,
                                                      handoff))
        || flux_aux_set (ctx->h, auxkey, handoff, NULL) < 0)
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
