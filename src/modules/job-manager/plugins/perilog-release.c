/* SPDX-License-Identifier: LGPL-3.0 */

/* perilog-release.c - let go of each rank when its epilog has ended
 *
 * Configuration, only with per-rank = true:
 *   [job-manager.epilog]
 *   release-after = "FSD"
 *
 *   As release-after of housekeeping: if unset, all ranks are held until the
 *   last process has ended.  Otherwise a timer is started when the first one
 *   has ended well, and when it expires all ranks where that is so are let go
 *   of.  After that, and from the beginning if it is 0, each goes at once.
 *
 * Other ranks stay held: those whose process failed, was signaled, or can't be
 * reached any more.  perilog.c drains them when the last process has ended, and
 * ends the action when that is answered.  The last ranks to end go with that.
 *
 * When processes get killed, for a timeout or because the epilog is canceled,
 * nothing is let go of before the end.  If it is canceled, what failed is not
 * drained, as without release-after.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <math.h>
#include <stdio.h>
#include <flux/core.h>
#include <flux/idset.h>
#include <flux/jobtap.h>
#include <jansson.h>

#include "src/common/libjob/idf58.h"
#include "src/common/libmissing/macros.h"
#include "src/common/libutil/errno_safe.h"
#include "src/common/libutil/errprintf.h"
#include "src/common/libutil/fsd.h"

#include "perilog-release.h"

static const char *auxkey = "flux::perilog-release";

struct perilog_release {
    flux_plugin_t *p;
    flux_jobid_t id;
    const char *description;
    double delay;           // seconds, 0. when it is over
    flux_watcher_t *timer;  // NULL until the first rank has ended well
    struct idset *ended;    // ended well, still held
    bool lost;              // a rank could not be reached
    bool failed;            // a process failed otherwise
    bool stopped;
};

static void perilog_release_destroy (struct perilog_release *release)
{
    if (release) {
        int saved_errno = errno;
        flux_watcher_destroy (release->timer);
        idset_destroy (release->ended);
        free (release);
        errno = saved_errno;
    }
}

int perilog_release_create (flux_plugin_t *p,
                            flux_jobid_t id,
                            const char *description,
                            double delay,
                            struct bulk_exec *bulk_exec)
{
    struct perilog_release *release;

    if (delay < 0.)
        return 0;
    if (!(release = calloc (1, sizeof (*release))))
        return -1;
    release->p = p;
    release->id = id;
    release->description = description;
    release->delay = delay;
    if (!(release->ended = idset_create (0, IDSET_FLAG_AUTOGROW))
        || bulk_exec_aux_set (bulk_exec,
                              auxkey,
                              release,
                              (flux_free_f)perilog_release_destroy) < 0) {
        perilog_release_destroy (release);
        return -1;
    }
    return 0;
}

static void let_go (struct perilog_release *release)
{
    flux_t *h = flux_jobtap_get_flux (release->p);

    if (idset_empty (release->ended))
        return;
    /* What fails here goes with the end of the action.
     */
    if (flux_jobtap_epilog_finish_ranks (release->p,
                                         release->id,
                                         release->description,
                                         0,
                                         release->ended) < 0)
        flux_log_error (h,
                        "%s: epilog: error letting go of ranks",
                        idf58 (release->id));
    idset_range_clear (release->ended,
                       idset_first (release->ended),
                       idset_last (release->ended));
}

static void timer_cb (flux_reactor_t *r,
                      flux_watcher_t *w,
                      int revents,
                      void *arg)
{
    struct perilog_release *release = arg;

    release->delay = 0.;
    let_go (release);
}

static void timer_start (struct perilog_release *release)
{
    flux_t *h = flux_jobtap_get_flux (release->p);

    if (release->timer)
        return;
    if (!(release->timer = flux_timer_watcher_create (flux_get_reactor (h),
                                                      release->delay,
                                                      0.,
                                                      timer_cb,
                                                      release))) {
        flux_log_error (h,
                        "%s: epilog: error starting release timer",
                        idf58 (release->id));
        return;
    }
    flux_watcher_start (release->timer);
}

static bool is_unreachable (flux_subprocess_t *sp)
{
    return flux_subprocess_state (sp) == FLUX_SUBPROCESS_FAILED
        && flux_subprocess_fail_errno (sp) == EHOSTUNREACH;
}

/* There is no process for a rank whose command was canceled.
 */
static bool ended_well (flux_subprocess_t *sp)
{
    return sp
        && flux_subprocess_state (sp) == FLUX_SUBPROCESS_EXITED
        && flux_subprocess_status (sp) == 0;
}

/* The same rank may be notified twice: it is not held the second time.
 */
static int sort_out (struct perilog_release *release,
                     struct bulk_exec *bulk_exec,
                     unsigned int rank)
{
    flux_subprocess_t *sp = bulk_exec_get_subprocess (bulk_exec, rank);

    if (ended_well (sp))
        return idset_set (release->ended, rank);
    if (sp && is_unreachable (sp))
        release->lost = true;
    else
        release->failed = true;
    return 0;
}

void perilog_release_exit_cb (struct bulk_exec *bulk_exec,
                              void *arg,
                              const struct idset *ranks)
{
    struct perilog_release *release = bulk_exec_aux_get (bulk_exec, auxkey);
    unsigned int rank;

    if (!release)
        return;
    rank = idset_first (ranks);
    while (rank != IDSET_INVALID_ID) {
        if (sort_out (release, bulk_exec, rank) < 0)
            flux_log_error (flux_jobtap_get_flux (release->p),
                            "%s: epilog: rank %u stays held",
                            idf58 (release->id),
                            rank);
        rank = idset_next (ranks, rank);
    }
    /* After the last ones the action ends.
     */
    if (release->stopped || bulk_exec_active_count (bulk_exec) == 0)
        return;
    if (release->delay == 0.)
        let_go (release);
    else if (!idset_empty (release->ended))
        timer_start (release);
}

void perilog_release_stop (struct bulk_exec *bulk_exec)
{
    struct perilog_release *release = bulk_exec_aux_get (bulk_exec, auxkey);

    if (release) {
        release->stopped = true;
        flux_watcher_stop (release->timer);
    }
}

bool perilog_release_drain (struct bulk_exec *bulk_exec)
{
    struct perilog_release *release = bulk_exec_aux_get (bulk_exec, auxkey);

    return release && (release->lost || release->failed);
}

int perilog_release_status (struct bulk_exec *bulk_exec)
{
    struct perilog_release *release = bulk_exec_aux_get (bulk_exec, auxkey);
    int status = bulk_exec_rc (bulk_exec);

    if (status == 0 && release && release->lost)
        return __W_EXITCODE (1, 0);
    return status;
}

char *perilog_release_errmsg (struct bulk_exec *bulk_exec,
                              const char *hosts,
                              const char *ranks)
{
    struct perilog_release *release = bulk_exec_aux_get (bulk_exec, auxkey);
    char *s;

    if (!release || !release->lost || bulk_exec_rc (bulk_exec) != 0)
        return NULL; // perilog.c knows
    if (asprintf (&s, "epilog lost contact with %s (rank %s)", hosts, ranks) < 0)
        return NULL;
    return s;
}

int perilog_release_query (json_t *o, double delay)
{
    if (delay >= 0.
        && json_object_set_new (o, "release-after", json_real (delay)) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* Get the seconds of release-after.
 */
static int parse_delay (json_t *table, double *delay, flux_error_t *error)
{
    json_error_t e;
    const char *fsd;
    int per_rank = 0;

    if (json_unpack_ex (table,
                        &e,
                        0,
                        "{s:s s?b}",
                        "release-after", &fsd,
                        "per-rank", &per_rank) < 0)
        return errprintf (error, "[job-manager.epilog]: %s", e.text);
    if (fsd_parse_duration (fsd, delay) < 0)
        return errprintf (error,
                          "[job-manager.epilog]: release-after: '%s' is not a"
                          " duration in Flux Standard Duration",
                          fsd);
    if (!per_rank)
        return errprintf (error,
                          "[job-manager.epilog]: release-after needs"
                          " per-rank = true");
    if (isinf (*delay))
        *delay = -1.;
    return 0;
}

int perilog_release_config (flux_plugin_t *p,
                            json_t **table,
                            double *delay,
                            flux_error_t *error)
{
    json_t *cpy;

    *delay = -1.;
    if (!*table || !json_object_get (*table, "release-after"))
        return 0;
    if (parse_delay (*table, delay, error) < 0)
        return -1;
    if (!(cpy = json_copy (*table))
        || flux_plugin_aux_set (p, auxkey, cpy, (flux_free_f)json_decref) < 0) {
        ERRNO_SAFE_WRAP (json_decref, cpy);
        return errprintf (error, "[job-manager.epilog]: out of memory");
    }
    (void)json_object_del (cpy, "release-after");
    *table = cpy;
    return 0;
}

// vi:ts=4 sw=4 expandtab
