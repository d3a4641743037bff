/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog-rabbit.c - hold a job's nodes until their storage is unmounted
 *
 * This is the job manager's half of a service for storage near the nodes, as
 * flux-coral2 has one for rabbits.  The other half is scripts/epilog-rabbit.py.
 *
 * A job with the jobspec attribute system.rabbit is held by the epilog action
 * "rabbit-epilog" from its finish event on, or from CLEANUP if it did not start.
 * The service is told, and works.  It says when nodes may go, and when all is
 * done:
 *
 *   job-manager.epilog-rabbit.release {"id":I, "ranks":s, "status":i}
 *   job-manager.epilog-rabbit.remove  {"id":I, "status":i}
 *
 * and is told of fatal exceptions on the way:
 *
 *   rabbit.begin    {"id":I, "started":b}
 *   rabbit.teardown {"id":I}   skip what is not needed
 *   rabbit.abort    {"id":I}   (exception of type rabbit-abort) give up
 *
 * The service does not respond to these.  If it is not there, the job is held
 * until it is: it asks for outstanding actions when it starts.  Nothing is
 * remembered here, so a restart of the job manager makes no difference.
 *
 * One binary for all job managers: flux_jobtap_epilog_finish_ranks() is weak
 * here, so the plugin loads where it is missing, and compares with NULL there.
 * All nodes are then held until "remove": an epilog-finish event with ranks
 * would give them all away.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <flux/jobtap.h>
#include <jansson.h>

#pragma weak flux_jobtap_epilog_finish_ranks

static const char *description = "rabbit-epilog";
static const char *abort_type = "rabbit-abort";

static int let_go (flux_plugin_t *p,
                   flux_jobid_t id,
                   int status,
                   const struct idset *ranks)
{
    if (!flux_jobtap_epilog_finish_ranks)
        return 0;
    return flux_jobtap_epilog_finish_ranks (p, id, description, status, ranks);
}

/* Where it is there, the newer function is used to end the action too: it does
 * not end another one if this has ended already.
 */
static int end (flux_plugin_t *p, flux_jobid_t id, int status)
{
    if (!flux_jobtap_epilog_finish_ranks)
        return flux_jobtap_epilog_finish (p, id, description, status);
    return flux_jobtap_epilog_finish_ranks (p, id, description, status, NULL);
}

/* Tell the service, which may not be there.
 */
static int tell (flux_plugin_t *p, const char *topic, json_t *payload)
{
    flux_t *h = flux_jobtap_get_flux (p);
    flux_future_t *f;

    if (!payload) {
        errno = ENOMEM;
        return -1;
    }
    if (!(f = flux_rpc_pack (h,
                             topic,
                             FLUX_NODEID_ANY,
                             FLUX_RPC_NORESPONSE,
                             "o",
                             payload))) {
        flux_log_error (h, "error sending %s", topic);
        return -1;
    }
    flux_future_destroy (f);
    return 0;
}

/* Get the job's id, and whether it is one of ours.
 */
static int get_job (flux_plugin_arg_t *args, flux_jobid_t *id, bool *ours)
{
    json_t *settings = NULL;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:I s:{s:{s?{s?o}}}}",
                                "id", id,
                                "jobspec",
                                  "attributes",
                                    "system",
                                      "rabbit", &settings) < 0)
        return -1;
    *ours = settings != NULL;
    return 0;
}

static int begin (flux_plugin_t *p, flux_jobid_t id, bool started)
{
    if (flux_jobtap_epilog_start (p, description) < 0)
        return -1;
    return tell (p,
                 "rabbit.begin",
                 json_pack ("{s:I s:b}", "id", id, "started", started));
}

static int new_cb (flux_plugin_t *p,
                   const char *topic,
                   flux_plugin_arg_t *args,
                   void *arg)
{
    flux_jobid_t id;
    bool ours;

    if (get_job (args, &id, &ours) < 0)
        return -1;
    return ours ? flux_jobtap_job_subscribe (p, id) : 0;
}

static int finish_cb (flux_plugin_t *p,
                      const char *topic,
                      flux_plugin_arg_t *args,
                      void *arg)
{
    flux_jobid_t id;
    bool ours;

    if (get_job (args, &id, &ours) < 0)
        return -1;
    return ours ? begin (p, id, true) : 0;
}

static int cleanup_cb (flux_plugin_t *p,
                       const char *topic,
                       flux_plugin_arg_t *args,
                       void *arg)
{
    flux_jobid_t id;
    bool ours;

    if (get_job (args, &id, &ours) < 0)
        return -1;
    if (!ours
        || flux_jobtap_job_event_posted (p, FLUX_JOBTAP_CURRENT_JOB, "start"))
        return 0; // if it started, there will be a finish event
    return begin (p, id, false);
}

static int exception_cb (flux_plugin_t *p,
                         const char *topic,
                         flux_plugin_arg_t *args,
                         void *arg)
{
    flux_jobid_t id;
    bool ours;
    const char *type;
    int severity;

    if (get_job (args, &id, &ours) < 0
        || flux_plugin_arg_unpack (args,
                                   FLUX_PLUGIN_ARG_IN,
                                   "{s:{s:{s:s s:i}}}",
                                   "entry",
                                     "context",
                                       "type", &type,
                                       "severity", &severity) < 0)
        return -1;
    if (!ours || severity > 0)
        return 0;
    return tell (p,
                 strcmp (type, abort_type) ? "rabbit.teardown" : "rabbit.abort",
                 json_pack ("{s:I}", "id", id));
}

static void respond (flux_t *h, const flux_msg_t *msg, int rc)
{
    if (rc < 0)
        rc = flux_respond_error (h, msg, errno, NULL);
    else
        rc = flux_respond (h, msg, NULL);
    if (rc < 0)
        flux_log_error (h, "error responding to epilog-rabbit request");
}

static void release_cb (flux_t *h,
                        flux_msg_handler_t *mh,
                        const flux_msg_t *msg,
                        void *arg)
{
    flux_jobid_t id;
    const char *s;
    int status;
    struct idset *ranks = NULL;
    int rc = -1;

    if (flux_request_unpack (msg,
                             NULL,
                             "{s:I s:s s:i}",
                             "id", &id,
                             "ranks", &s,
                             "status", &status) == 0
        && (ranks = idset_decode (s)))
        rc = let_go (arg, id, status, ranks);
    respond (h, msg, rc);
    idset_destroy (ranks);
}

static void remove_cb (flux_t *h,
                       flux_msg_handler_t *mh,
                       const flux_msg_t *msg,
                       void *arg)
{
    flux_jobid_t id;
    int status;
    int rc;

    if ((rc = flux_request_unpack (msg,
                                   NULL,
                                   "{s:I s:i}",
                                   "id", &id,
                                   "status", &status)) == 0)
        rc = end (arg, id, status);
    respond (h, msg, rc);
}

static const struct flux_plugin_handler tab[] = {
    { "job.new", new_cb, NULL },
    { "job.event.finish", finish_cb, NULL },
    { "job.state.cleanup", cleanup_cb, NULL },
    { "job.event.exception", exception_cb, NULL },
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    if (flux_plugin_register (p, "epilog-rabbit", tab) < 0
        || flux_jobtap_service_register (p, "release", release_cb, p) < 0
        || flux_jobtap_service_register (p, "remove", remove_cb, p) < 0)
        return -1;
    return 0;
}

// vi:ts=4 sw=4 expandtab
