/* SPDX-License-Identifier: LGPL-3.0 */

/* holder.c - the ways in for those who hold ranks after a job ended
 *
 * What is wrong with an event is found where it is posted, whatever way it
 * comes (refusal_check()).  What is looked at here is what an event can't
 * be blamed for: the job's state, and who asks.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <limits.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libczmqcontainers/czmq_containers.h"
#include "src/common/libjob/idf58.h"
#include "src/common/libutil/errno_safe.h"
#include "src/common/libutil/errprintf.h"
#include "ccan/str/str.h"

#include "epilog.h"
#include "event.h"
#include "fragment.h"
#include "handoff.h"
#include "hold.h"
#include "housekeeping.h"
#include "journal.h"
#include "refusal.h"

#include "holder.h"

struct holder {
    struct job_manager *ctx;
    flux_msg_handler_t **handlers;
};

/* Epilog events of other states are for the job manager to drop.
 */
static int check_state (struct job *job, flux_error_t *error)
{
    if (job->state != FLUX_JOB_STATE_RUN
        && job->state != FLUX_JOB_STATE_CLEANUP) {
        errno = EINVAL;
        return errprintf (error,
                          "job is in %s state, not in RUN or CLEANUP",
                          flux_job_statetostr (job->state, "L"));
    }
    return 0;
}

static int post_start (struct job_manager *ctx,
                       struct job *job,
                       const char *description,
                       bool unique,
                       json_t *ranks,
                       flux_error_t *error)
{
    if (check_state (job, error) < 0)
        return -1;
    if (unique) {
        if (hold_find (job, description, NULL) == 0) {
            errno = EEXIST;
            return errprintf (error,
                              "an action '%s' is outstanding already",
                              description);
        }
        if (errno != ENOENT)
            return -1;
    }
    return event_job_post_pack (ctx->event,
                                job,
                                "epilog-start",
                                0,
                                "{s:s s:O*}",
                                "description", description,
                                "ranks", ranks);
}

static int post_finish (struct job_manager *ctx,
                        struct job *job,
                        const char *description,
                        int status,
                        json_t *ranks,
                        flux_error_t *error)
{
    /* A raw event also ends the only action, whatever that is called, and does
     * nothing if there is none.
     */
    if (check_state (job, error) < 0
        || hold_find (job, description, error) < 0)
        return -1;
    return event_job_post_pack (ctx->event,
                                job,
                                "epilog-finish",
                                0,
                                "{s:s s:i s:O*}",
                                "description", description,
                                "status", status,
                                "ranks", ranks);
}

/* Set 'op' to the JSON form of 'ranks', NULL if that is NULL.
 */
static int pack_ranks (const struct idset *ranks, json_t **op)
{
    char *s;

    *op = NULL;
    if (!ranks)
        return 0;
    if (!(s = idset_encode (ranks, IDSET_FLAG_RANGE)))
        return -1;
    *op = json_string (s);
    free (s);
    if (!*op) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* A plugin gets no text: log it, unless refusal_check() did.
 */
static void log_refusal (struct job_manager *ctx,
                         struct job *job,
                         const char *name,
                         const flux_error_t *error)
{
    if (strlen (error->text) > 0) {
        int saved_errno = errno;
        flux_log (ctx->h,
                  LOG_ERR,
                  "%s: refused %s: %s",
                  idf58 (job->id),
                  name,
                  error->text);
        errno = saved_errno;
    }
}

/* Post the event 'name' for a plugin.
 */
static int post (struct job_manager *ctx,
                 struct job *job,
                 const char *name,
                 const char *description,
                 int status,
                 const struct idset *ranks)
{
    flux_error_t error;
    json_t *o;
    int rc;

    err_init (&error);
    if (!job || !description) {
        errno = EINVAL;
        return -1;
    }
    if (pack_ranks (ranks, &o) < 0)
        return -1;
    if (streq (name, "epilog-start"))
        rc = post_start (ctx, job, description, false, o, &error);
    else
        rc = post_finish (ctx, job, description, status, o, &error);
    if (rc < 0)
        log_refusal (ctx, job, name, &error);
    ERRNO_SAFE_WRAP (json_decref, o);
    return rc;
}

int holder_start (struct job_manager *ctx,
                  struct job *job,
                  const char *description,
                  const struct idset *ranks)
{
    return post (ctx, job, "epilog-start", description, 0, ranks);
}

int holder_finish (struct job_manager *ctx,
                   struct job *job,
                   const char *description,
                   int status,
                   const struct idset *ranks)
{
    return post (ctx, job, "epilog-finish", description, status, ranks);
}

static struct job *lookup (struct job_manager *ctx,
                           flux_jobid_t id,
                           flux_error_t *error)
{
    struct job *job = zhashx_lookup (ctx->active_jobs, &id);

    if (!job) {
        if (zhashx_lookup (ctx->inactive_jobs, &id)) {
            errprintf (error, "job is inactive");
            errno = EINVAL;
        }
        else {
            errprintf (error, "unknown job");
            errno = ENOENT;
        }
    }
    return job;
}

/* Get the payload of a request.
 */
static int unpack (const flux_msg_t *msg,
                   flux_error_t *error,
                   const char *fmt,
                   ...)
{
    va_list keys;
    int rc;

    va_start (keys, fmt);
    rc = flux_msg_vunpack (msg, fmt, keys);
    va_end (keys);
    if (rc < 0) {
        const char *text = flux_msg_last_error (msg);

        errprintf (error,
                   "malformed request: %s",
                   text && *text ? text : strerror (errno));
        errno = EPROTO;
    }
    return rc;
}

/* A string may have a NUL in it: 'length' is that of all of it.
 */
static int check_description (const char *s, size_t length, flux_error_t *error)
{
    if (strlen (s) != length) {
        errno = EINVAL;
        return errprintf (error, "description has a NUL in it");
    }
    return 0;
}

static int check_status (json_int_t status, flux_error_t *error)
{
    if (status < INT_MIN || status > INT_MAX) {
        errno = EINVAL;
        return errprintf (error, "status is not a 32 bit integer");
    }
    return 0;
}

static void respond (struct holder *holder, const flux_msg_t *msg)
{
    if (flux_respond (holder->ctx->h, msg, NULL) < 0)
        flux_log_error (holder->ctx->h, "error responding to epilog request");
}

/* Say why, in the words of whoever found the fault.
 */
static void respond_error (struct holder *holder,
                           const flux_msg_t *msg,
                           const flux_error_t *error)
{
    const char *text = refusal_reason (holder->ctx->refusal);

    if (strlen (error->text) > 0)
        text = error->text;
    if (refusal_respond_text (holder->ctx->h,
                              msg,
                              errno,
                              text ? text : strerror (errno)) < 0)
        flux_log_error (holder->ctx->h, "error responding to epilog request");
}

static void start_cb (flux_t *h,
                      flux_msg_handler_t *mh,
                      const flux_msg_t *msg,
                      void *arg)
{
    struct holder *holder = arg;
    flux_jobid_t id;
    const char *description;
    size_t length;
    int unique = 0;
    json_t *ranks = NULL;
    struct job *job;
    flux_error_t error;

    err_init (&error);
    refusal_clear (h);
    if (unpack (msg,
                &error,
                "{s:I s:s% s?b s?o !}",
                "id", &id,
                "description", &description, &length,
                "unique", &unique,
                "ranks", &ranks) < 0
        || check_description (description, length, &error) < 0
        || !(job = lookup (holder->ctx, id, &error))
        || post_start (holder->ctx,
                       job,
                       description,
                       unique,
                       ranks,
                       &error) < 0)
        respond_error (holder, msg, &error);
    else
        respond (holder, msg);
}

static void finish_cb (flux_t *h,
                       flux_msg_handler_t *mh,
                       const flux_msg_t *msg,
                       void *arg)
{
    struct holder *holder = arg;
    flux_jobid_t id;
    const char *description;
    size_t length;
    json_int_t status = 0;
    json_t *ranks = NULL;
    struct job *job;
    flux_error_t error;

    err_init (&error);
    refusal_clear (h);
    if (unpack (msg,
                &error,
                "{s:I s:s% s?I s?o !}",
                "id", &id,
                "description", &description, &length,
                "status", &status,
                "ranks", &ranks) < 0
        || check_description (description, length, &error) < 0
        || check_status (status, &error) < 0
        || !(job = lookup (holder->ctx, id, &error))
        || post_finish (holder->ctx,
                        job,
                        description,
                        status,
                        ranks,
                        &error) < 0)
        respond_error (holder, msg, &error);
    else
        respond (holder, msg);
}

/* Get the RFC 22 form of 'ids', "" if that is NULL.
 */
static json_t *encode (const struct idset *ids)
{
    char *s = ids ? idset_encode (ids, IDSET_FLAG_RANGE) : NULL;
    json_t *o = ids && !s ? NULL : json_string (s ? s : "");

    free (s);
    return o;
}

/* 'all' are the ranks that an action holds if the ledger does not know.
 */
static json_t *list_actions (struct epilog *ledger, const struct idset *all)
{
    const struct epilog_action *action;
    size_t index = 0;
    json_t *a;
    json_t *o;

    if (!(a = json_array ()))
        return NULL;
    while ((action = epilog_action_get (ledger, index++))) {
        if (!(o = json_pack ("{s:s s:f s:o s:o}",
                             "description", action->description,
                             "t_start", action->t_start,
                             "held", encode (all ? all : action->held),
                             "released", encode (action->released)))
            || json_array_append_new (a, o) < 0) {
            json_decref (a);
            return NULL;
        }
    }
    return a;
}

static json_t *encode_kept (struct epilog *ledger)
{
    unsigned int kept = epilog_kept (ledger);

    return kept == IDSET_INVALID_ID ? json_string ("")
                                    : json_sprintf ("%u", kept);
}

/* Is the job over, with its shells and its prologs?
 */
static bool has_ended (struct job *job, struct epilog *ledger)
{
    return job->state == FLUX_JOB_STATE_CLEANUP
        && !job->start_pending
        && epilog_prolog_count (ledger) == 0;
}

static json_t *list_job (struct holder *holder, struct job *job)
{
    struct epilog *ledger = hold_ledger (job);
    struct idset *all = NULL;
    json_t *o;

    if (!hold_has_ranks (job)
        && job->R_redacted
        && !(all = fragment_ranks (job->R_redacted))
        && errno != EPROTO)
        return NULL;
    o = json_pack ("{s:I s:I s:s s:b s:o s:o s:o s:o s:s* s:o}",
                   "id", (json_int_t)job->id,
                   "userid", (json_int_t)job->userid,
                   "state", flux_job_statetostr (job->state, "L"),
                   "ended", has_ended (job, ledger),
                   "ranks", encode (all ? all : epilog_ranks (ledger)),
                   "handed_over", encode (epilog_handed_over (ledger)),
                   "kept", encode_kept (ledger),
                   "ready", encode (epilog_ready (ledger)),
                   "obstacle", handoff_obstacle (holder->ctx->handoff, job),
                   "actions", list_actions (ledger, all));
    idset_destroy (all);
    return o;
}

/* Add 'job' to 'jobs' if it has an outstanding action.
 */
static int list_append (struct holder *holder, struct job *job, json_t *jobs)
{
    json_t *o;

    if (!job->hold || epilog_action_count (hold_ledger (job)) == 0)
        return 0;
    if (!(o = list_job (holder, job))
        || json_array_append_new (jobs, o) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static json_t *list_jobs (struct holder *holder, struct job *only)
{
    struct job *job;
    json_t *jobs;

    if (!(jobs = json_array ()))
        goto nomem;
    job = only ? only : zhashx_first (holder->ctx->active_jobs);
    while (job) {
        if (list_append (holder, job, jobs) < 0)
            goto nomem;
        job = only ? NULL : zhashx_next (holder->ctx->active_jobs);
    }
    return jobs;
nomem:
    json_decref (jobs);
    errno = ENOMEM;
    return NULL;
}

static struct job *lookup_json (struct job_manager *ctx,
                                json_t *id,
                                flux_error_t *error)
{
    if (!json_is_integer (id)) {
        errprintf (error, "malformed request: id is not an integer");
        errno = EPROTO;
        return NULL;
    }
    return lookup (ctx, json_integer_value (id), error);
}

static void list_cb (flux_t *h,
                     flux_msg_handler_t *mh,
                     const flux_msg_t *msg,
                     void *arg)
{
    struct holder *holder = arg;
    json_t *id = NULL;
    struct job *only = NULL;
    json_t *jobs;
    flux_error_t error;

    err_init (&error);
    refusal_clear (h);
    if (unpack (msg, &error, "{s?o !}", "id", &id) < 0
        || (id && !(only = lookup_json (holder->ctx, id, &error)))
        || !(jobs = list_jobs (holder, only)))
        respond_error (holder, msg, &error);
    else if (flux_respond_pack (h, msg, "{s:o}", "jobs", jobs) < 0)
        flux_log_error (h, "error responding to epilog request");
}

static json_t *get_epilog_stats (struct job_manager *ctx)
{
    json_t *refused = json_integer (refusal_count (ctx->refusal));
    json_t *o = handoff_get_stats (ctx->handoff);

    if (json_object_set_new (o, "refused", refused) < 0) {
        json_decref (o);
        return NULL;
    }
    return o;
}

static json_t *get_stats (struct job_manager *ctx)
{
    json_t *o = json_pack ("{s:i s:i s:I}",
                           "active_jobs", (int)zhashx_size (ctx->active_jobs),
                           "inactive_jobs",
                           (int)zhashx_size (ctx->inactive_jobs),
                           "max_jobid", (json_int_t)ctx->max_jobid);

    if (json_object_set_new (o,
                             "journal",
                             journal_get_stats (ctx->journal)) < 0
        || json_object_set_new (o,
                                "housekeeping",
                                housekeeping_get_stats (ctx->housekeeping)) < 0
        || json_object_set_new (o, "epilog", get_epilog_stats (ctx)) < 0) {
        json_decref (o);
        errno = ENOMEM;
        return NULL;
    }
    return o;
}

/* This stands in front of the job manager's own handler, which gives the same
 * but for "epilog".
 */
static void stats_cb (flux_t *h,
                      flux_msg_handler_t *mh,
                      const flux_msg_t *msg,
                      void *arg)
{
    struct holder *holder = arg;
    struct flux_msg_cred cred;
    json_t *stats;

    if (flux_msg_get_cred (msg, &cred) < 0)
        goto error;
    if (holder->ctx->private_mode && !(cred.rolemask & FLUX_ROLE_PRIVILEGED)) {
        errno = EPERM;
        goto error;
    }
    if (!(stats = get_stats (holder->ctx)))
        goto error;
    if (flux_respond_pack (h, msg, "o", stats) < 0)
        flux_log_error (h, "error responding to stats-get request");
    return;
error:
    if (flux_respond_error (h, msg, errno, NULL) < 0)
        flux_log_error (h, "error responding to stats-get request");
}

static const struct flux_msg_handler_spec htab[] = {
    { FLUX_MSGTYPE_REQUEST, "job-manager.epilog-start", start_cb, 0 },
    { FLUX_MSGTYPE_REQUEST, "job-manager.epilog-finish", finish_cb, 0 },
    { FLUX_MSGTYPE_REQUEST, "job-manager.epilog-list", list_cb, 0 },
    {
        FLUX_MSGTYPE_REQUEST,
        "job-manager.stats-get",
        stats_cb,
        FLUX_ROLE_USER
    },
    FLUX_MSGHANDLER_TABLE_END,
};

void holder_destroy (struct holder *holder)
{
    if (holder) {
        int saved_errno = errno;
        flux_msg_handler_delvec (holder->handlers);
        free (holder);
        errno = saved_errno;
    }
}

struct holder *holder_create (struct job_manager *ctx)
{
    struct holder *holder;

    if (!(holder = calloc (1, sizeof (*holder))))
        return NULL;
    holder->ctx = ctx;
    if (flux_msg_handler_addvec (ctx->h, htab, holder, &holder->handlers) < 0) {
        holder_destroy (holder);
        return NULL;
    }
    return holder;
}

// vi:ts=4 sw=4 expandtab
