/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog-hold.c - start the epilog actions that a job asks for
 *
 * The jobspec attribute system.epilog-hold is an array of contexts, each of
 * which is posted as it is in an epilog-start event, when the job enters
 * CLEANUP state.  system.epilog-hold-run does the same in RUN state.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include <flux/core.h>
#include <flux/jobtap.h>
#include <jansson.h>

static int hold (flux_plugin_t *p,
                 const char *topic,
                 flux_plugin_arg_t *args,
                 void *arg)
{
    const char *key = arg;
    flux_jobid_t id;
    json_t *contexts = NULL;
    json_t *context;
    size_t index;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:I s:{s:{s?{s?o}}}}",
                                "id", &id,
                                "jobspec",
                                  "attributes",
                                    "system",
                                      key, &contexts) < 0)
        return -1;
    json_array_foreach (contexts, index, context) {
        if (flux_jobtap_event_post_pack (p,
                                         id,
                                         "epilog-start",
                                         "O",
                                         context) < 0)
            flux_log_error (flux_jobtap_get_flux (p),
                            "epilog-hold: error posting epilog-start %zu",
                            index);
    }
    return 0;
}

static const struct flux_plugin_handler tab[] = {
    { "job.state.cleanup", hold, "epilog-hold" },
    { "job.state.run", hold, "epilog-hold-run" },
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    return flux_plugin_register (p, "epilog-hold", tab);
}

// vi:ts=4 sw=4 expandtab
