/* SPDX-License-Identifier: LGPL-3.0 */

/* claim.h - what the scheduler still counts as a job's, rank by rank
 *
 * A job that hands its resources over in one piece needs none of this.  One
 * that hands them over in parts gets a claim, which lasts until the scheduler
 * has all of R back.  It sees each sched.free (RFC 27) of the job, whether
 * from housekeeping or direct, and so knows which one is the last.
 */

#ifndef _FLUX_JOB_MANAGER_CLAIM_H
#define _FLUX_JOB_MANAGER_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <flux/core.h>
#include <jansson.h>

#include "src/common/libsubprocess/bulk-exec.h"
#include "epilog.h"
#include "job.h"
#include "job-manager.h"

struct claims *claims_create (struct job_manager *ctx);
void claims_destroy (struct claims *claims);

/* Does the scheduler that will see the next free take back a part of a job's
 * resources, and restart with one that is partly back?  As it said in its
 * hello; false before the first.
 */
bool claims_partial_ok (struct claims *claims);

/* Begin a claim for 'job': of its ranks, those that have gone are back already.
 * No-op if it has one.  Returns 0 on success, -1 with errno set.
 */
int claim_create (struct claims *claims,
                  struct job *job,
                  const struct epilog *ledger);
bool claim_exists (struct claims *claims, flux_jobid_t id);

/* 'job' has lost its resources, but not by the scheduler's will, which calls
 * claim_exception(): somebody else raised scheduler-restart.  What has not been
 * handed over is not coming back, the next hello must not tell of it.  No-op if
 * the job has no claim.  Returns 0 on success, -1 with errno set.
 */
int claim_abandon (struct claims *claims,
                   struct job *job,
                   const struct epilog *ledger);

/* The scheduler dropped the job: forget the claim and its frees in waiting,
 * and end housekeeping for it.
 */
void claim_drop (struct claims *claims, flux_jobid_t id);

/* An exception is raised on job 'id', active or not, by 'cred'.  If that is
 * how the scheduler, an instance owner, says that it dropped the job, do the
 * same.
 */
void claim_exception (struct claims *claims,
                      struct flux_msg_cred cred,
                      flux_jobid_t id,
                      const char *type,
                      int severity);

/* Call once when R, a part or the whole of the resources of job 'id', goes back
 * to the scheduler, whether or not one is online.  Return 1 if that was seen
 * to here, 0 if the caller shall send sched.free (or, if none is online, shall
 * not) as it would without claims, -1 on failure with errno set.
 *
 * Between the scheduler's hello and its ready, frees wait for the latter: the
 * hello spoke of those resources as allocated.  With no hello, nothing is to
 * be sent: the next hello will tell.
 */
int claim_free (struct claims *claims, flux_jobid_t id, json_t *R, bool final);

/* Answer the part of a hello that is about jobs with a claim: one response
 * per job, with what is back in "free".  A scheduler without partial-ok can't
 * be told that: it is told of the whole, if what is back is not in use.  If it
 * is, the job is dropped: it gets a scheduler-restart exception, if it is still
 * active, and its housekeeping ends.
 */
int claims_hello_respond (struct claims *claims, const flux_msg_t *msg);

/* The scheduler is ready: send the frees that waited for it.
 */
void claims_ready (struct claims *claims);

/* Set FLUX_JOB_RANKS of the commands of 'exec' to all ranks of job 'id', if it
 * has a claim.  Returns 0 on success, -1 with errno set.
 */
int claim_setenv_ranks (struct claims *claims,
                        struct bulk_exec *exec,
                        flux_jobid_t id);

/* Housekeeping may run on several parts of a job: before 'stats' of one is
 * put in the dictionary 'running' under 'key', add what is there already.
 * Returns 0 on success, -1 with errno set and the reference on 'stats' dropped.
 */
int claim_merge_stats (json_t *running, const char *key, json_t *stats);

#endif /* ! _FLUX_JOB_MANAGER_CLAIM_H */

// vi:ts=4 sw=4 expandtab
