/* SPDX-License-Identifier: LGPL-3.0 */

/* handoff.h - hand ranks that no epilog action holds over, before clean
 *
 * The job manager calls these from its state machine.  Which rank may go is
 * for the ledger to say (epilog.h, fed by hold.h), what the scheduler still
 * counts as the job's is kept by claim.h; this is what happens between them.
 */

#ifndef _FLUX_JOB_MANAGER_HANDOFF_H
#define _FLUX_JOB_MANAGER_HANDOFF_H

#include <stdbool.h>
#include <flux/core.h>
#include <jansson.h>

#include "src/common/librlist/rlist.h"
#include "job.h"
#include "job-manager.h"

struct handoff *handoff_create (struct job_manager *ctx);
void handoff_destroy (struct handoff *handoff);

/* Why can no rank of 'job' go now, whether or not an action holds it?
 * Returns a text that completes "ranks are kept because", or NULL if they can.
 */
const char *handoff_obstacle (struct handoff *handoff, struct job *job);

/* Get {"jobs", "actions", "partial-frees", "ranks"}: counts of jobs with
 * outstanding actions, and of those actions, now; of partial-free events, and
 * the ranks in them, since the job manager was loaded.
 */
json_t *handoff_get_stats (struct handoff *handoff);

/* Call when action is due for a job in CLEANUP state, before anything else is
 * decided about its resources.  May post events.  Idempotent.
 * Returns 0 on success, -1 on failure with errno set.
 */
int handoff_action (struct handoff *handoff, struct job *job);

/* Take out of 'rl', made from the job's R, what is not allocated to the job
 * any more.  Returns 0 on success, -1 on failure with errno set.
 */
int handoff_reduce (struct job *job, struct rlist *rl);

#endif /* ! _FLUX_JOB_MANAGER_HANDOFF_H */

// vi:ts=4 sw=4 expandtab
