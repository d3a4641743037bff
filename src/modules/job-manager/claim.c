/* SPDX-License-Identifier: LGPL-3.0 */

/* claim.c - what the scheduler still counts as a job's, rank by rank
 *
 * 'returned' is what the job no longer needs, whether or not a scheduler
 * was there to be told.  What the scheduler's books say is R less 'returned'
 * after a hello with partial-ok, and all of R after one without.
 *
 * What a hello says is taken to be the scheduler's word only at ready: before,
 * its sender may be anybody.
 *
 * RFC 27 wants final=true once per job.  It goes out with the free that makes
 * 'returned' complete, whoever sends it.  If no scheduler listens at that
 * moment, leaving the job out of the next hello does the same.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libczmqcontainers/czmq_containers.h"
#include "src/common/libjob/idf58.h"
#include "src/common/libjob/job_hash.h"
#include "src/common/librlist/rlist.h"
#include "src/common/libutil/errno_safe.h"
#include "ccan/str/str.h"

#include "alloc.h"
#include "fragment.h"
#include "housekeeping.h"
#include "raise.h"

#include "claim.h"

struct claim {
    flux_jobid_t id;
    json_t *R;
    struct idset *ranks;        // of R
    struct idset *returned;
    size_t left;                // count of ranks less returned
};

/* A sched.free that waits for ready.
 */
struct waiting {
    flux_jobid_t id;
    json_t *R;
    bool final;
};

struct claims {
    struct job_manager *ctx;
    zhashx_t *jobs;             // id => struct claim
    zlistx_t *waiting;          // struct waiting
    bool partial_ok;            // of the scheduler that is online, or was
    bool hello_partial_ok;      // of the last hello
    bool between;               // hello was answered, ready has not come
};

static void claim_destroy (struct claim *claim)
{
    if (claim) {
        int saved_errno = errno;
        json_decref (claim->R);
        idset_destroy (claim->ranks);
        idset_destroy (claim->returned);
        free (claim);
        errno = saved_errno;
    }
}

// zhashx_destructor_fn footprint
static void claim_destructor (void **item)
{
    if (item) {
        claim_destroy (*item);
        *item = NULL;
    }
}

static void waiting_destroy (struct waiting *w)
{
    if (w) {
        int saved_errno = errno;
        json_decref (w->R);
        free (w);
        errno = saved_errno;
    }
}

// zlistx_destructor_fn footprint
static void waiting_destructor (void **item)
{
    if (item) {
        waiting_destroy (*item);
        *item = NULL;
    }
}

static struct claim *claim_lookup (struct claims *claims, flux_jobid_t id)
{
    return zhashx_lookup (claims->jobs, &id);
}

bool claim_exists (struct claims *claims, flux_jobid_t id)
{
    return claim_lookup (claims, id) ? true : false;
}

int claim_create (struct claims *claims,
                  struct job *job,
                  const struct epilog *ledger)
{
    struct claim *claim;

    if (claim_exists (claims, job->id))
        return 0;
    if (!(claim = calloc (1, sizeof (*claim))))
        return -1;
    claim->id = job->id;
    claim->R = json_incref (job->R_redacted);
    claim->left = epilog_left (ledger);
    if (!(claim->ranks = idset_copy (epilog_ranks (ledger)))
        || !(claim->returned = idset_copy (epilog_handed_over (ledger))))
        goto error;
    if (zhashx_insert (claims->jobs, &claim->id, claim) < 0) {
        errno = ENOMEM;
        goto error;
    }
    return 0;
error:
    claim_destroy (claim);
    return -1;
}

int claim_abandon (struct claims *claims,
                   struct job *job,
                   const struct epilog *ledger)
{
    struct claim *claim;
    struct idset *rest;
    int rc;

    if (!(claim = claim_lookup (claims, job->id)))
        return 0;
    if (!(rest = idset_difference (claim->ranks, epilog_handed_over (ledger))))
        return -1;
    if ((rc = idset_add (claim->returned, rest)) == 0) {
        claim->left = idset_count (claim->ranks) - idset_count (claim->returned);
        if (claim->left == 0)
            zhashx_delete (claims->jobs, &job->id);
    }
    ERRNO_SAFE_WRAP (idset_destroy, rest);
    return rc;
}

static void waiting_drop (struct claims *claims, flux_jobid_t id)
{
    struct waiting *w = zlistx_first (claims->waiting);

    while (w) {
        if (w->id == id)
            zlistx_delete (claims->waiting, zlistx_cursor (claims->waiting));
        w = zlistx_next (claims->waiting);
    }
}

void claim_drop (struct claims *claims, flux_jobid_t id)
{
    zhashx_delete (claims->jobs, &id);
    waiting_drop (claims, id);
    housekeeping_drop (claims->ctx->housekeeping, id);
    alloc_status_changed (claims->ctx->alloc);
}

void claim_exception (struct claims *claims,
                      struct flux_msg_cred cred,
                      flux_jobid_t id,
                      const char *type,
                      int severity)
{
    if (severity != 0
        || !streq (type, "scheduler-restart")
        || !(cred.rolemask & FLUX_ROLE_OWNER))
        return;
    claim_drop (claims, id);
}

bool claims_partial_ok (struct claims *claims)
{
    if (claims->between && !alloc_sched_ready (claims->ctx->alloc))
        return claims->hello_partial_ok;
    return claims->partial_ok;
}

static int free_send_now (struct claims *claims,
                          flux_jobid_t id,
                          json_t *R,
                          bool final)
{
    flux_future_t *f;

    if (!(f = flux_rpc_pack (claims->ctx->h,
                             "sched.free",
                             FLUX_NODEID_ANY,
                             FLUX_RPC_NORESPONSE,
                             "{s:I s:O s:b}",
                             "id", id,
                             "R", R,
                             "final", final)))
        return -1;
    flux_future_destroy (f);
    return 0;
}

/* Send sched.free, or keep it for ready, as the scheduler's state wants.
 */
static int free_send (struct claims *claims,
                      flux_jobid_t id,
                      json_t *R,
                      bool final)
{
    struct waiting *w;

    if (alloc_sched_ready (claims->ctx->alloc))
        return free_send_now (claims, id, R, final);
    if (!claims->between)
        return 0;
    if (!(w = calloc (1, sizeof (*w))))
        return -1;
    w->id = id;
    w->R = json_incref (R);
    w->final = final;
    if (!zlistx_add_end (claims->waiting, w)) {
        waiting_destroy (w);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* All of 'ranks' must be out still, or the scheduler would take them from
 * another job.
 */
static int check_out (struct claims *claims,
                      struct claim *claim,
                      const struct idset *ranks)
{
    if (idset_has_intersection (claim->returned, ranks)) {
        flux_log (claims->ctx->h,
                  LOG_CRIT,
                  "%s: internal error: resources are returned twice",
                  idf58 (claim->id));
        errno = EEXIST;
        return -1;
    }
    return 0;
}

int claim_free (struct claims *claims, flux_jobid_t id, json_t *R, bool final)
{
    struct claim *claim;
    struct idset *ranks;
    int rc = -1;

    if (!(claim = claim_lookup (claims, id))) {
        if (!claims->between)
            return 0;
        return free_send (claims, id, R, final) < 0 ? -1 : 1;
    }
    if (!(ranks = fragment_ranks (R)))
        return -1;
    if (check_out (claims, claim, ranks) < 0)
        goto done;
    final = idset_count (ranks) == claim->left;
    if (idset_add (claim->returned, ranks) < 0)
        goto done;
    claim->left -= idset_count (ranks);
    rc = 0;
    if (claims_partial_ok (claims))
        rc = free_send (claims, id, R, final);
    else if (final)
        rc = free_send (claims, id, claim->R, true);
    if (rc < 0) // as if no scheduler were there: its next hello will tell
        flux_log_error (claims->ctx->h,
                        "%s: error sending sched.free: the scheduler has to"
                        " be reloaded to learn of it",
                        idf58 (id));
    if (final)
        zhashx_delete (claims->jobs, &id);
    rc = 1;
done:
    ERRNO_SAFE_WRAP (idset_destroy, ranks);
    return rc;
}

static int hello_respond_one (struct claims *claims,
                              struct claim *claim,
                              struct job *job,
                              const flux_msg_t *msg)
{
    flux_t *h = claims->ctx->h;
    char *ranks = NULL;
    int rc;

    if (claims->hello_partial_ok
        && !idset_empty (claim->returned)
        && !(ranks = idset_encode (claim->returned, IDSET_FLAG_RANGE)))
        return -1;
    rc = flux_respond_pack (h,
                            msg,
                            "{s:I s:I s:I s:f s:s*}",
                            "id", job->id,
                            "priority", job->priority,
                            "userid", (json_int_t)job->userid,
                            "t_submit", job->t_submit,
                            "free", ranks);
    ERRNO_SAFE_WRAP (free, ranks);
    return rc;
}

/* Get the ranks of which 'job' has something now.
 */
static struct idset *job_ranks (struct claims *claims, struct job *job)
{
    struct claim *claim;
    struct idset *ranks;

    if (!(ranks = fragment_ranks (job->R_redacted)))
        return NULL;
    if ((claim = claim_lookup (claims, job->id))
        && idset_subtract (ranks, claim->returned) < 0) {
        idset_destroy (ranks);
        return NULL;
    }
    return ranks;
}

/* Get the ranks of which any active job, or housekeeping, has something now.
 */
static struct idset *ranks_in_use (struct claims *claims)
{
    struct job_manager *ctx = claims->ctx;
    struct idset *in_use = NULL;
    struct idset *ranks = NULL;
    struct rlist *rl;
    struct job *job;

    if (!(rl = rlist_create ())
        || housekeeping_stat_append (ctx->housekeeping, rl, NULL) < 0
        || !(in_use = rlist_ranks (rl)))
        goto error;
    job = zhashx_first (ctx->active_jobs);
    while (job) {
        if (job->has_resources && !job->alloc_bypass) {
            if (!(ranks = job_ranks (claims, job))
                || idset_add (in_use, ranks) < 0)
                goto error;
            idset_destroy (ranks);
            ranks = NULL;
        }
        job = zhashx_next (ctx->active_jobs);
    }
    rlist_destroy (rl);
    return in_use;
error:
    rlist_destroy (rl);
    idset_destroy (ranks);
    idset_destroy (in_use);
    return NULL;
}

/* Why can't a scheduler be told of this claim?  NULL if it can.  'told' are
 * ranks that this hello has named as another job's although they are back.
 */
static const char *hello_obstacle (struct claims *claims,
                                   struct claim *claim,
                                   struct job *job,
                                   const struct idset *told)
{
    struct idset *in_use;
    bool conflict;

    if (!job) // a scheduler needs its R, which is no longer in the KVS
        return "the job was purged";
    if (claims->hello_partial_ok || idset_empty (claim->returned))
        return NULL;
    in_use = ranks_in_use (claims);
    conflict = !in_use
        || idset_has_intersection (in_use, claim->returned)
        || idset_has_intersection (told, claim->returned);
    idset_destroy (in_use);
    return conflict ? "the scheduler does not support restart with partially"
                      " released resources" : NULL;
}

/* Let go of a job of which the scheduler can't be told.
 */
static void hello_drop (struct claims *claims,
                        flux_jobid_t id,
                        struct job *job,
                        const char *reason)
{
    flux_log (claims->ctx->h,
              LOG_ERR,
              "%s: resources are dropped because %s",
              idf58 (id),
              reason);
    claim_drop (claims, id);
    if (job
        && job->state == FLUX_JOB_STATE_CLEANUP
        && raise_job_exception (claims->ctx,
                                job,
                                "scheduler-restart",
                                0,
                                claims->ctx->owner,
                                reason) < 0)
        flux_log_error (claims->ctx->h,
                        "%s: error raising scheduler-restart exception",
                        idf58 (id));
}

static int compare_ids (const void *item1, const void *item2)
{
    const flux_jobid_t *id1 = item1;
    const flux_jobid_t *id2 = item2;

    return *id1 < *id2 ? -1 : *id1 > *id2 ? 1 : 0;
}

/* Get the ids of the 'count' jobs that have a claim, oldest first: of two that
 * can't both be told, the older one is.  Claims may end while they are told.
 */
static flux_jobid_t *sorted_ids (struct claims *claims, size_t count)
{
    flux_jobid_t *ids;
    size_t index = 0;
    struct claim *claim;

    if (!(ids = calloc (count + 1, sizeof (*ids))))
        return NULL;
    claim = zhashx_first (claims->jobs);
    while (claim) {
        ids[index++] = claim->id;
        claim = zhashx_next (claims->jobs);
    }
    qsort (ids, count, sizeof (*ids), compare_ids);
    return ids;
}

int claims_hello_respond (struct claims *claims, const flux_msg_t *msg)
{
    struct job_manager *ctx = claims->ctx;
    int partial_ok = 0; // a request without payload says no
    struct idset *told = NULL;
    size_t count = zhashx_size (claims->jobs);
    flux_jobid_t *ids;
    int rc = -1;

    (void)flux_request_unpack (msg, NULL, "{s?b}", "partial-ok", &partial_ok);
    claims->hello_partial_ok = partial_ok;
    claims->between = true;
    zlistx_purge (claims->waiting);

    if (!(ids = sorted_ids (claims, count)))
        return -1;
    if (!(told = idset_create (0, IDSET_FLAG_AUTOGROW)))
        goto done;
    for (size_t i = 0; i < count; i++) {
        flux_jobid_t id = ids[i];
        struct claim *claim = claim_lookup (claims, id);
        const char *obstacle;
        struct job *job;

        if (!claim)
            continue;
        if (!(job = zhashx_lookup (ctx->active_jobs, &id)))
            job = zhashx_lookup (ctx->inactive_jobs, &id);
        if ((obstacle = hello_obstacle (claims, claim, job, told)))
            hello_drop (claims, id, job, obstacle);
        else if (hello_respond_one (claims, claim, job, msg) < 0
            || (!claims->hello_partial_ok
                && idset_add (told, claim->returned) < 0))
            goto done;
    }
    rc = 0;
done:
    ERRNO_SAFE_WRAP (idset_destroy, told);
    ERRNO_SAFE_WRAP (free, ids);
    return rc;
}

void claims_ready (struct claims *claims)
{
    struct waiting *w;

    claims->between = false;
    claims->partial_ok = claims->hello_partial_ok;
    while ((w = zlistx_first (claims->waiting))) {
        if (free_send (claims, w->id, w->R, w->final) < 0)
            flux_log_error (claims->ctx->h,
                            "%s: error sending sched.free",
                            idf58 (w->id));
        zlistx_delete (claims->waiting, zlistx_cursor (claims->waiting));
    }
}

int claim_setenv_ranks (struct claims *claims,
                        struct bulk_exec *exec,
                        flux_jobid_t id)
{
    struct claim *claim;
    char *ranks;
    int rc;

    if (!(claim = claim_lookup (claims, id)))
        return 0;
    if (!(ranks = idset_encode (claim->ranks, IDSET_FLAG_RANGE)))
        return -1;
    rc = bulk_exec_setenv (exec, "FLUX_JOB_RANKS", ranks);
    ERRNO_SAFE_WRAP (free, ranks);
    return rc;
}

/* Set 'key' of 'stats' to the union of what it and 'other' have there.
 */
static int merge_ranks (json_t *stats, json_t *other, const char *key)
{
    const char *a = json_string_value (json_object_get (stats, key));
    const char *b = json_string_value (json_object_get (other, key));
    struct idset *ids = NULL;
    char *s = NULL;
    int rc = -1;

    if (!a || !b) {
        errno = EPROTO;
        return -1;
    }
    if (!(ids = idset_decode (a))
        || idset_decode_add (ids, b, -1, NULL) < 0
        || !(s = idset_encode (ids, IDSET_FLAG_RANGE)))
        goto done;
    if (json_object_set_new (stats, key, json_string (s)) < 0) {
        errno = ENOMEM;
        goto done;
    }
    rc = 0;
done:
    ERRNO_SAFE_WRAP (free, s);
    ERRNO_SAFE_WRAP (idset_destroy, ids);
    return rc;
}

int claim_merge_stats (json_t *running, const char *key, json_t *stats)
{
    json_t *other = json_object_get (running, key);
    json_t *t_start = json_object_get (other, "t_start");

    if (!other)
        return 0;
    if (merge_ranks (stats, other, "pending") < 0
        || merge_ranks (stats, other, "allocated") < 0)
        goto error;
    if (json_real_value (t_start)
        < json_real_value (json_object_get (stats, "t_start"))
        && json_object_set (stats, "t_start", t_start) < 0) {
        errno = ENOMEM;
        goto error;
    }
    return 0;
error:
    ERRNO_SAFE_WRAP (json_decref, stats);
    return -1;
}

void claims_destroy (struct claims *claims)
{
    if (claims) {
        int saved_errno = errno;
        zhashx_destroy (&claims->jobs);
        zlistx_destroy (&claims->waiting);
        free (claims);
        errno = saved_errno;
    }
}

struct claims *claims_create (struct job_manager *ctx)
{
    struct claims *claims;

    if (!(claims = calloc (1, sizeof (*claims))))
        return NULL;
    claims->ctx = ctx;
    if (!(claims->jobs = job_hash_create ())
        || !(claims->waiting = zlistx_new ())) {
        claims_destroy (claims);
        errno = ENOMEM;
        return NULL;
    }
    zhashx_set_destructor (claims->jobs, claim_destructor);
    zlistx_set_destructor (claims->waiting, waiting_destructor);
    return claims;
}

// vi:ts=4 sw=4 expandtab
