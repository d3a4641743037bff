/* SPDX-License-Identifier: LGPL-3.0 */

/* perilog-release.h - let go of each rank when its epilog has ended
 *
 * For perilog.c.  A release belongs to the bulk_exec of one job's epilog, and
 * is destroyed with it.  The calls below may be made for any bulk_exec: for one
 * without a release they do nothing.
 */

#ifndef _FLUX_JOB_MANAGER_PERILOG_RELEASE_H
#define _FLUX_JOB_MANAGER_PERILOG_RELEASE_H

#include <stdbool.h>
#include <jansson.h>
#include <flux/core.h>
#include <flux/idset.h>

#include "src/common/libsubprocess/bulk-exec.h"

/* Take release-after out of [job-manager.epilog], which has to be as perilog.c
 * knows it.  '*table' is replaced by a copy, which 'p' owns until the next
 * call; it may be NULL.  'delay' is set to seconds, or to -1. if ranks are not
 * let go of early.  Return 0, or -1 with 'error' set.
 */
int perilog_release_config (flux_plugin_t *p,
                            json_t **table,
                            double *delay,
                            flux_error_t *error);

/* Add the key to what a query of the plugin says of the epilog table, if it is
 * set.  Return 0, or -1 with errno set.
 */
int perilog_release_query (json_t *o, double delay);

/* Let go of ranks of the job's action 'description' as their processes in
 * 'bulk_exec' end well: those that have done so 'delay' seconds after the first
 * one, then each at once.  Those that end together are let go of together.
 * Does nothing if 'delay' is negative.  Return 0, or -1 with errno set.
 */
int perilog_release_create (flux_plugin_t *p,
                            flux_jobid_t id,
                            const char *description,
                            double delay,
                            struct bulk_exec *bulk_exec);

/* Let go of nothing more: processes are being killed.
 */
void perilog_release_stop (struct bulk_exec *bulk_exec);

/* Return true if ranks that have failed have to be drained, although perilog.c
 * would not: bulk_exec_rc() is 0 for a lost rank, and those that were killed
 * for a timeout are not drained if others survive that.
 */
bool perilog_release_drain (struct bulk_exec *bulk_exec);

/* Return the wait status to report: not 0 if a rank was lost.
 */
int perilog_release_status (struct bulk_exec *bulk_exec);

/* Return the text to report if ranks were lost and nothing else failed, NULL
 * otherwise.  The caller frees it.
 */
char *perilog_release_errmsg (struct bulk_exec *bulk_exec,
                              const char *hosts,
                              const char *ranks);

/* Ranks have ended, well or not.
 */
void perilog_release_exit_cb (struct bulk_exec *bulk_exec,
                              void *arg,
                              const struct idset *ranks);

#endif /* ! _FLUX_JOB_MANAGER_PERILOG_RELEASE_H */

// vi:ts=4 sw=4 expandtab
