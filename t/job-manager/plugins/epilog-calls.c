/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog-calls.c - call the jobtap epilog functions as a job, or a request, says
 *
 * A call is {"call":"start" or "finish", "description"?, "status"?, "ranks"?,
 * "id"?, "plugin"?}.  What is absent is NULL (status: 0), 'ranks' is an idset,
 * "id" is the current job, "plugin":false passes no plugin handle.
 *
 * The jobspec attribute system.epilog-calls has an array of calls for any of
 * the callbacks below, by topic.  Each leaves an "call-returned" event with
 * "errno", 0 if it succeeded.  The service job-manager.epilog-calls.call makes
 * one call, outside of any job, and answers with "errno" too.
 *
 * Each epilog-finish leaves an "finish-seen" event: was it a partial one?
 *
 * The functions are weak here, as is one that does not exist: the plugin loads
 * all the same, and job-manager.epilog-calls.have says which are there.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <string.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <flux/jobtap.h>
#include <jansson.h>

int flux_jobtap_epilog_not_yet (flux_plugin_t *p);

#pragma weak flux_jobtap_epilog_start_ranks
#pragma weak flux_jobtap_epilog_finish_ranks
#pragma weak flux_jobtap_epilog_not_yet

/* Make one call.  Returns 0 or errno, -1 if 'o' makes no sense.
 */
static int make_call (flux_plugin_t *p, json_t *o)
{
    json_int_t id = FLUX_JOBTAP_CURRENT_JOB;
    const char *call;
    const char *description = NULL;
    const char *s = NULL;
    int status = 0;
    int plugin = 1;
    struct idset *ranks = NULL;
    int rc;

    if (json_unpack (o,
                     "{s:s s?s s?i s?s s?I s?b !}",
                     "call", &call,
                     "description", &description,
                     "status", &status,
                     "ranks", &s,
                     "id", &id,
                     "plugin", &plugin) < 0
        || (s && !(ranks = idset_decode (s))))
        return -1;
    if (!plugin)
        p = NULL;
    errno = 0;
    if (strcmp (call, "start") == 0)
        rc = flux_jobtap_epilog_start_ranks (p, description, ranks);
    else
        rc = flux_jobtap_epilog_finish_ranks (p,
                                              id,
                                              description,
                                              status,
                                              ranks);
    rc = rc < 0 ? errno : 0;
    idset_destroy (ranks);
    return rc;
}

static int calls_cb (flux_plugin_t *p,
                     const char *topic,
                     flux_plugin_arg_t *args,
                     void *arg)
{
    json_t *calls = NULL;
    json_t *call;
    size_t index;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:{s:{s:{s?{s?o}}}}}",
                                "jobspec",
                                  "attributes",
                                    "system",
                                      "epilog-calls",
                                        topic, &calls) < 0)
        return -1;
    json_array_foreach (calls, index, call) {
        if (flux_jobtap_event_post_pack (p,
                                         FLUX_JOBTAP_CURRENT_JOB,
                                         "call-returned",
                                         "{s:s s:i}",
                                         "topic", topic,
                                         "errno", make_call (p, call)) < 0)
            return -1;
    }
    return 0;
}

static int new_cb (flux_plugin_t *p,
                   const char *topic,
                   flux_plugin_arg_t *args,
                   void *arg)
{
    return flux_jobtap_job_subscribe (p, FLUX_JOBTAP_CURRENT_JOB);
}

static int finish_cb (flux_plugin_t *p,
                      const char *topic,
                      flux_plugin_arg_t *args,
                      void *arg)
{
    json_t *context;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:{s:o}}",
                                "entry",
                                  "context", &context) < 0)
        return -1;
    return flux_jobtap_event_post_pack (p,
                                        FLUX_JOBTAP_CURRENT_JOB,
                                        "finish-seen",
                                        "{s:b}",
                                        "partial",
                                        json_object_get (context, "ranks")
                                            ? 1 : 0);
}

static void call_cb (flux_t *h,
                     flux_msg_handler_t *mh,
                     const flux_msg_t *msg,
                     void *arg)
{
    json_t *o;

    if (flux_request_unpack (msg, NULL, "o", &o) < 0)
        goto error;
    if (flux_respond_pack (h, msg, "{s:i}", "errno", make_call (arg, o)) < 0)
        flux_log_error (h, "error responding to call");
    return;
error:
    if (flux_respond_error (h, msg, errno, NULL) < 0)
        flux_log_error (h, "error responding to call");
}

static void have_cb (flux_t *h,
                     flux_msg_handler_t *mh,
                     const flux_msg_t *msg,
                     void *arg)
{
    if (flux_respond_pack (h,
                           msg,
                           "{s:b s:b s:b}",
                           "start_ranks",
                           flux_jobtap_epilog_start_ranks != NULL,
                           "finish_ranks",
                           flux_jobtap_epilog_finish_ranks != NULL,
                           "not_yet",
                           flux_jobtap_epilog_not_yet != NULL) < 0)
        flux_log_error (h, "error responding to have");
}

static const struct flux_plugin_handler tab[] = {
    { "job.new", new_cb, NULL },
    { "job.event.epilog-finish", finish_cb, NULL },
    { "job.state.sched", calls_cb, NULL },
    { "job.state.run", calls_cb, NULL },
    { "job.state.cleanup", calls_cb, NULL },
    { "job.state.inactive", calls_cb, NULL },
    { "job.event.partial-free", calls_cb, NULL },
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    if (flux_plugin_register (p, "epilog-calls", tab) < 0
        || flux_jobtap_service_register (p, "call", call_cb, p) < 0
        || flux_jobtap_service_register (p, "have", have_cb, p) < 0)
        return -1;
    return 0;
}

// vi:ts=4 sw=4 expandtab
