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

/* Call before 'entry' is queued for 'job'.  Refuse a bad "ranks" key, and an
 * epilog-finish that can't be matched, as long as the sender can still be
 * told.  Events that don't concern epilogs pass.
 * Returns 0 on success, -1 with errno set: EINVAL, ENOENT or EOVERFLOW.  The
 * reason is logged, and is there for handoff_respond_error().
 */
int handoff_validate (struct handoff *handoff,
                      struct job *job,
                      int flags,
                      json_t *entry);

/* For the handler of a request that posts an event: call the first before,
 * and the second on failure.  If it was handoff_validate() that refused the
 * event, it responds to 'msg' with the reason, and returns true.
 */
void handoff_clear_error (flux_t *h);
bool handoff_respond_error (flux_t *h, const flux_msg_t *msg);

/* Get the reason for which handoff_validate() refused the first event posted
 * since handoff_clear_error(), or NULL if it did not.
 */
const char *handoff_reason (struct handoff *handoff);

/* Respond to 'msg' with an error and a text that, when it was cut to fit, may
 * have lost a part of a character: that is made good with '?'.
 */
int handoff_respond_text (flux_t *h,
                          const flux_msg_t *msg,
                          int errnum,
                          const char *text);

/* Why can no rank of 'job' go now, whether or not an action holds it?
 * Returns a text that completes "ranks are kept because", or NULL if they can.
 */
const char *handoff_obstacle (struct handoff *handoff, struct job *job);

/* Get {"jobs", "actions", "partial-frees", "ranks", "refused"}: counts of jobs
 * with outstanding actions, and of those actions, now; of partial-free events,
 * the ranks in them, and refused events since the job manager was loaded.
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
