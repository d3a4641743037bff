/* SPDX-License-Identifier: LGPL-3.0 */

/* perilog_mock.c - the release of perilog.so, on ranks that are not there
 *
 * perilog-release.c with a bulk_exec that runs no processes: they end, and are
 * notified of in batches of 10 ms, as those of libsubprocess are.  A job asks
 * for an epilog by the jobspec attribute
 *   system.perilog-mock = {"ranks":N, "seconds":S, "delay":D}
 * N processes on ranks 0 to N-1 end well within S seconds, one after the
 * other.  With D below 0 they are let go of at the end, else after D.
 *
 * Build it with -Bsymbolic, against a patched tree.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#define flux_subprocess_state mock_state
#define flux_subprocess_status mock_status
#define flux_subprocess_fail_errno mock_fail_errno
#include <stdlib.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <flux/jobtap.h>

#include "src/modules/job-manager/plugins/perilog-release.c"

static const double batch = 0.01; // seconds

struct bulk_exec {
    flux_plugin_t *p;
    flux_jobid_t id;
    double begin;
    double seconds;
    int total;
    int ended;
    flux_watcher_t *timer;
    void *aux;
    flux_free_f aux_free;
};

flux_subprocess_state_t mock_state (flux_subprocess_t *sp)
{
    return FLUX_SUBPROCESS_EXITED;
}

int mock_status (flux_subprocess_t *sp)
{
    return 0;
}

int mock_fail_errno (flux_subprocess_t *sp)
{
    return 0;
}

void *bulk_exec_aux_get (struct bulk_exec *exec, const char *key)
{
    return exec->aux;
}

int bulk_exec_aux_set (struct bulk_exec *exec,
                       const char *key,
                       void *val,
                       flux_free_f free_fn)
{
    exec->aux = val;
    exec->aux_free = free_fn;
    return 0;
}

int bulk_exec_rc (struct bulk_exec *exec)
{
    return 0;
}

int bulk_exec_active_count (struct bulk_exec *exec)
{
    return exec->total - exec->ended;
}

flux_subprocess_t *bulk_exec_get_subprocess (struct bulk_exec *exec, int rank)
{
    return (flux_subprocess_t *)exec;
}

static void mock_destroy (struct bulk_exec *exec)
{
    if (exec) {
        if (exec->aux_free)
            exec->aux_free (exec->aux);
        flux_watcher_destroy (exec->timer);
        free (exec);
    }
}

static void mock_finish (struct bulk_exec *exec)
{
    if (flux_jobtap_epilog_finish (exec->p, exec->id, "mock", 0) < 0)
        flux_log_error (flux_jobtap_get_flux (exec->p), "mock: epilog_finish");
    mock_destroy (exec);
}

/* Let those processes end whose time has come.
 */
static void batch_cb (flux_reactor_t *r,
                      flux_watcher_t *w,
                      int revents,
                      void *arg)
{
    struct bulk_exec *exec = arg;
    double part = (flux_reactor_now (r) - exec->begin) / exec->seconds;
    int due = part >= 1. ? exec->total : part * exec->total;
    struct idset *ranks;

    if (due == exec->ended)
        return;
    if (!(ranks = idset_create (exec->total, 0))
        || idset_range_set (ranks, exec->ended, due - 1) < 0)
        flux_log_error (flux_jobtap_get_flux (exec->p), "mock: idset");
    exec->ended = due;
    perilog_release_exit_cb (exec, NULL, ranks);
    idset_destroy (ranks);
    if (exec->ended == exec->total)
        mock_finish (exec);
}

static int finish_cb (flux_plugin_t *p,
                      const char *topic,
                      flux_plugin_arg_t *args,
                      void *arg)
{
    flux_reactor_t *r = flux_get_reactor (flux_jobtap_get_flux (p));
    struct bulk_exec *exec;
    double delay;

    if (!(exec = calloc (1, sizeof (*exec))))
        return -1;
    exec->p = p;
    exec->begin = flux_reactor_now (r);
    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:I s:{s:{s:{s:{s:i s:F s:F}}}}}",
                                "id", &exec->id,
                                "jobspec",
                                  "attributes",
                                    "system",
                                      "perilog-mock",
                                        "ranks", &exec->total,
                                        "seconds", &exec->seconds,
                                        "delay", &delay) < 0
        || perilog_release_create (p, exec->id, "mock", delay, exec) < 0
        || !(exec->timer = flux_timer_watcher_create (r,
                                                      batch,
                                                      batch,
                                                      batch_cb,
                                                      exec))) {
        mock_destroy (exec);
        return -1;
    }
    flux_watcher_start (exec->timer);
    return flux_jobtap_epilog_start (p, "mock");
}

/* Only jobs that ask for it get the finish event.
 */
static int run_cb (flux_plugin_t *p,
                   const char *topic,
                   flux_plugin_arg_t *args,
                   void *arg)
{
    json_t *o;

    if (flux_plugin_arg_unpack (args,
                                FLUX_PLUGIN_ARG_IN,
                                "{s:{s:{s:{s:o}}}}",
                                "jobspec",
                                  "attributes",
                                    "system",
                                      "perilog-mock", &o) < 0)
        return 0;
    return flux_jobtap_job_subscribe (p, FLUX_JOBTAP_CURRENT_JOB);
}

static const struct flux_plugin_handler tab[] = {
    { "job.state.run", run_cb, NULL },
    { "job.event.finish", finish_cb, NULL },
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    return flux_plugin_register (p, "perilog-mock", tab);
}

// vi:ts=4 sw=4 expandtab
