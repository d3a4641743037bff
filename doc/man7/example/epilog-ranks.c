/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog-ranks.c - let go of nodes one by one after a job
 *
 * Whoever cleans up a node of a job says so to this plugin:
 *
 *   job-manager.epilog-ranks.done {"id":I, "ranks":s}
 *
 * Nodes that are done go to the next job at once.  With a job manager that
 * can't do that, all wait for the last one.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <flux/jobtap.h>
#include <jansson.h>

static const char *description = "clean-up";
static const char *auxkey = "epilog-ranks::todo";

/* A weak symbol is NULL if the job manager lacks the function.
 */
#pragma weak flux_jobtap_epilog_start_ranks
#pragma weak flux_jobtap_epilog_finish_ranks

static int start (flux_plugin_t *p, const struct idset *ranks)
{
    if (flux_jobtap_epilog_start_ranks)
        return flux_jobtap_epilog_start_ranks (p, description, ranks);
    return flux_jobtap_epilog_start (p, description);
}

static int let_go (flux_plugin_t *p, flux_jobid_t id, const struct idset *ranks)
{
    if (!flux_jobtap_epilog_finish_ranks)
        return 0;
    return flux_jobtap_epilog_finish_ranks (p, id, description, 0, ranks);
}

/* Get the ranks that R is on.
 */
static struct idset *get_ranks (json_t *R)
{
    struct idset *ids;
    json_t *R_lite;
    json_t *o;
    const char *s;
    size_t index;

    if (!(ids = idset_create (0, IDSET_FLAG_AUTOGROW))
        || json_unpack (R, "{s:{s:o}}", "execution", "R_lite", &R_lite) < 0)
        goto error;
    json_array_foreach (R_lite, index, o) {
        if (json_unpack (o, "{s:s}", "rank", &s) < 0
            || idset_decode_add (ids, s, -1, NULL) < 0)
            goto error;
    }
    return ids;
error:
    idset_destroy (ids);
    return NULL;
}

static int cleanup_cb (flux_plugin_t *p,
                       const char *topic,
                       flux_plugin_arg_t *args,
                       void *arg)
{
    json_t *R = NULL;
    struct idset *todo;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s?o}",
                                "R", &R) < 0)
        return -1;
    if (!R)
        return 0; // canceled before it had any node
    if (!(todo = get_ranks (R))
        || flux_jobtap_job_aux_set (p,
                                    FLUX_JOBTAP_CURRENT_JOB,
                                    auxkey,
                                    todo,
                                    (flux_free_f)idset_destroy) < 0) {
        idset_destroy (todo);
        return -1;
    }
    return start (p, todo);
}

static void done_cb (flux_t *h,
                     flux_msg_handler_t *mh,
                     const flux_msg_t *msg,
                     void *arg)
{
    flux_plugin_t *p = arg;
    flux_jobid_t id;
    const char *s;
    struct idset *ranks = NULL;
    struct idset *todo;

    if (flux_request_unpack (msg, NULL, "{s:I s:s}", "id", &id, "ranks", &s) < 0
        || !(ranks = idset_decode (s))
        || !(todo = flux_jobtap_job_aux_get (p, id, auxkey))
        || let_go (p, id, ranks) < 0
        || idset_subtract (todo, ranks) < 0
        || (idset_empty (todo)
            && flux_jobtap_epilog_finish (p, id, description, 0) < 0)) {
        if (flux_respond_error (h, msg, errno, NULL) < 0)
            flux_log_error (h, "error responding to done request");
    }
    else if (flux_respond (h, msg, NULL) < 0)
        flux_log_error (h, "error responding to done request");
    idset_destroy (ranks);
}

static const struct flux_plugin_handler tab[] = {
    { "job.state.cleanup", cleanup_cb, NULL },
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    if (flux_plugin_register (p, "epilog-ranks", tab) < 0
        || flux_jobtap_service_register_ex (p,
                                            "done",
                                            FLUX_ROLE_OWNER,
                                            done_cb,
                                            p) < 0)
        return -1;
    return 0;
}

// vi:ts=4 sw=4 expandtab
