/* SPDX-License-Identifier: LGPL-3.0 */

/* holder.h - the ways in for those who hold ranks after a job ended
 *
 * Jobtap functions (jobtap.h) and RPCs post the same two events (RFC 21),
 * and are refused for the same reasons.
 *
 * RPCs, all for the instance owner only.  'ranks' is an RFC 22 idset of
 * execution targets as they stand in R (RFC 20), or "all".  Other keys are
 * refused: a misspelled "ranks" would let go of everything.
 *
 *   job-manager.epilog-start {"id", "description", "ranks"?, "unique"?} -> {}
 *     Absent or "all": the action holds every rank that has not gone.
 *     "": it holds the job only.  If 'unique' is true, another action of that
 *     description must not be outstanding.
 *   job-manager.epilog-finish {"id", "description", "status"?, "ranks"?} -> {}
 *     With 'ranks' the oldest action of that very description lets go of them
 *     and goes on, without it ends.  'status' is 0 if absent.
 *   job-manager.epilog-list {"id"?} -> {"jobs":[...]}
 *     Jobs with outstanding actions, in no order, or only the job asked for,
 *     if it has any.  {"id", "userid", "state", "ended", "ranks",
 *     "handed_over", "kept", "ready", "obstacle"?, "actions":[...]}: is it over,
 *     with its shells and prologs; ranks of R, those that went,
 *     that one is kept back by final-free, those that nobody holds but that
 *     are still here, and the reason why no rank can go at the moment.
 *     Actions, oldest first: {"description", "t_start", "held", "released"}.
 *
 * Errors: EPERM not the owner; EPROTO malformed request; ENOENT no such job,
 * or no such action; EINVAL job state or ranks; EEXIST not unique; EOVERFLOW
 * too many actions.
 * Each but EPERM comes with a text.
 */

#ifndef _FLUX_JOB_MANAGER_HOLDER_H
#define _FLUX_JOB_MANAGER_HOLDER_H

#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "job.h"
#include "job-manager.h"

/* Call when the job manager's own message handlers are in place.
 */
struct holder *holder_create (struct job_manager *ctx);
void holder_destroy (struct holder *holder);

/* For flux_jobtap_epilog_start_ranks() and flux_jobtap_epilog_finish_ranks(),
 * which say what the arguments mean.  'job' may be NULL with errno set.
 * Return 0 on success, -1 on failure with errno set.
 */
int holder_start (struct job_manager *ctx,
                  struct job *job,
                  const char *description,
                  const struct idset *ranks);
int holder_finish (struct job_manager *ctx,
                   struct job *job,
                   const char *description,
                   int status,
                   const struct idset *ranks);

#endif /* ! _FLUX_JOB_MANAGER_HOLDER_H */

// vi:ts=4 sw=4 expandtab
