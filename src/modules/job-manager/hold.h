/* SPDX-License-Identifier: LGPL-3.0 */

/* hold.h - what a job's events say about who holds which rank
 *
 * The state of one job that has, or had, an epilog action: job->hold, NULL
 * for any other.  It feeds the ledger (epilog.h) from the eventlog.
 */

#ifndef _FLUX_JOB_MANAGER_HOLD_H
#define _FLUX_JOB_MANAGER_HOLD_H

#include <stdbool.h>
#include <flux/core.h>
#include <jansson.h>

#include "epilog.h"
#include "job.h"

void hold_destroy (struct hold *hold);

/* Call with each event of 'job', new or replayed, before the job's state is
 * updated by it.  Bad input is never an error here: a bad start holds all
 * ranks, a bad finish has no effect, and a note is taken.
 * Returns 0 if the caller shall go on with the event, 1 if it shall take no
 * further notice of it, -1 on failure with errno set.
 */
int hold_update (struct job *job, json_t *entry);

/* Would the event, if it came after all that are queued for 'job', be taken
 * as it is?  Events that don't concern epilogs are.  'flags' are those that
 * it is posted with (event.h).
 * Returns 0 if so, else -1 with errno set (EINVAL, ENOENT, EOVERFLOW) and the
 * reason in 'error'.
 */
int hold_validate (struct job *job,
                   int flags,
                   json_t *entry,
                   flux_error_t *error);

/* Will an action of that very description be outstanding when all events that
 * are queued for 'job' are done with?
 * Returns 0 if so, else -1 with errno set: ENOENT, and 'error' names those
 * that will.
 */
int hold_find (struct job *job, const char *description, flux_error_t *error);

/* Call when the state of 'job' may have become CLEANUP, before anything is
 * decided by job->perilog_active.
 */
void hold_count_early (struct job *job);

/* Get the ledger of 'job', or NULL if it has none.
 */
struct epilog *hold_ledger (struct job *job);

/* True if the ledger of 'job' knows the job's ranks.  If not, each of its
 * actions holds all of them, and none has gone.
 */
bool hold_has_ranks (struct job *job);

/* True if 'job' may have resources that belong to no rank: its jobspec names
 * some, or its R came with a "scheduling" key.
 */
bool hold_has_storage (struct job *job);

/* True if the job's resources are not to be freed as a whole: a part has gone
 * already, or an action is outstanding.
 */
bool hold_in_parts (struct job *job);

/* Keep 'record', the partial-free or free event for ranks that have been handed
 * over, until it is in a batch: on its way there it may get lost, for want of
 * memory say, and after a restart its ranks would be held again.  A job can
 * have one on the way, which hold_record() gets, or NULL.
 */
void hold_set_record (struct job *job, json_t *record);
json_t *hold_record (struct job *job);

/* Call when the event at the head of the queue of 'job' is in a batch: be done
 * with the record if it is that.
 */
void hold_check_record (struct job *job);

/* Get the notes taken since the last call, an array of strings to be
 * dereferenced by the caller, or NULL.
 */
json_t *hold_take_notes (struct job *job);

#endif /* ! _FLUX_JOB_MANAGER_HOLD_H */

// vi:ts=4 sw=4 expandtab
