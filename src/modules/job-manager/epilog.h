/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog.h - which epilog action holds which rank of a job
 *
 * One ledger per job that has, or had, an epilog action.  It answers: who
 * holds rank r, which ranks may be handed over now, which have gone.  It is
 * pure accounting: no broker handle, no reactor, no JSON, no clock, no
 * global state.  The job manager links it, and so does the replay tool.
 *
 * Terms:
 *   rank    execution target as it stands in R (RFC 20), not 0..n-1 of a job
 *   action  one epilog-start event, until its epilog-finish (RFC 21)
 *   held    at least one outstanding action holds the rank
 *   ready   nothing holds the rank, and it has not gone: it may go now
 *   gone    handed over; never again held or ready
 *   kept    the one rank kept back by epilog_set_keep_last()
 * Each rank of the job is in exactly one of held, ready, gone and kept, except
 * that what would be ready is in none while a prolog is outstanding.
 *
 * Conventions, for all functions here:
 * - int functions return 0 on success, -1 on failure with errno set; pointer
 *   functions return NULL with errno set.  What a description or a set of
 *   ranks is to blame for is told in 'error' (may be NULL).  The text names
 *   the value and the reason, not the event: the caller knows where it is.
 * - A call that fails changes nothing.
 * - A call costs what it changes, that is the ranks that it names, not what
 *   the job has.  Calls that take "all ranks" name them all.
 * - A set passed in belongs to the caller and may have any universe size; a
 *   const set returned belongs to the ledger and lasts until the next call
 *   that changes it.  It may be one that idset_count() has to count.
 *
 * errno: EINVAL bad argument, ENOENT no such action, EOVERFLOW too many
 * actions outstanding, ENOMEM.  If several things are wrong, any of them.
 */

#ifndef _FLUX_JOB_MANAGER_EPILOG_H
#define _FLUX_JOB_MANAGER_EPILOG_H

#include <stdbool.h>
#include <stddef.h>
#include <flux/idset.h>

#include "src/common/libflux/types.h" // flux_error_t

/* struct job counts outstanding prologs and epilogs in eight bits.
 */
#define EPILOG_ACTIONS_MAX 255

struct epilog;

/* An outstanding action, to look at only.
 */
struct epilog_action {
    char *description;
    double t_start;         // as given to epilog_start()
    struct idset *held;     // ranks that the action holds now
    struct idset *released; // ranks let go of so far; NULL if none yet
};

/* Create the ledger of a job that was given 'ranks'.  NULL or empty: a job
 * that never got resources, or whose ranks do not matter yet; its actions hold
 * the job and no rank.
 */
struct epilog *epilog_create (const struct idset *ranks);

/* Give the ledger the ranks of the job, if it was created without.  Each
 * outstanding action is taken to hold all of them: as long as none was started
 * with a set, a ledger need not know them.  EINVAL if it has ranks.
 */
int epilog_set_ranks (struct epilog *ep, const struct idset *ranks);

struct epilog *epilog_copy (const struct epilog *ep);
void epilog_destroy (struct epilog *ep);

/* Read an RFC 22 idset that names ranks of the job.  Stricter than
 * idset_decode(): an empty item ("1,,2", "1,") and a number over 32 bits are
 * refused.  A rank that is not the job's is refused before anything is
 * allocated for it, so "0-4294967294" costs nothing.  "" and "[]" give the
 * empty set.  The word "all" is not an idset: it is the caller's to treat.
 * The caller destroys the set.
 */
struct idset *epilog_decode (const struct epilog *ep,
                             const char *s,
                             flux_error_t *error);

/* An action starts and holds 'ranks': NULL means all that have not gone yet,
 * the empty set means none: it holds the job only.  Named ranks that have
 * gone, or are not the job's, are EINVAL.  One description may be started
 * several times; each start makes an action of its own.
 */
int epilog_start (struct epilog *ep,
                  const char *description,
                  const struct idset *ranks,
                  double t_start,
                  flux_error_t *error);

/* Partial finish: the oldest action with that description lets go of 'ranks'
 * (NULL: of all) and goes on.  Naming ranks that it does not hold (any more)
 * is no error.  The empty set, or a rank that is not the job's, is EINVAL.
 * ENOENT if no such action is outstanding.
 */
int epilog_release (struct epilog *ep,
                    const char *description,
                    const struct idset *ranks,
                    flux_error_t *error);

/* Full finish: the oldest action with that description ends and lets go of
 * what it still holds.  If there is none, and exactly one action is
 * outstanding, that one ends, whatever its description: return 1 and name it
 * in 'error'.  'description' may be NULL (an event that had none).
 * Otherwise ENOENT, and 'error' names those outstanding.
 */
int epilog_finish (struct epilog *ep,
                   const char *description,
                   flux_error_t *error);

/* Would the call above succeed?  Same return values; changes nothing.
 */
int epilog_start_check (const struct epilog *ep,
                        const char *description,
                        const struct idset *ranks,
                        flux_error_t *error);
int epilog_release_check (const struct epilog *ep,
                          const char *description,
                          const struct idset *ranks,
                          flux_error_t *error);
int epilog_finish_check (const struct epilog *ep,
                         const char *description,
                         flux_error_t *error);

/* Count of prologs outstanding.  While it is not zero nothing is ready.
 * A finish without a start is not counted.
 */
void epilog_prolog_start (struct epilog *ep);
void epilog_prolog_finish (struct epilog *ep);
unsigned int epilog_prolog_count (const struct epilog *ep);

/* The last-free rule.  With 'keep' true, one rank (the lowest of the last
 * that are ready) is kept back while any action is outstanding, so that the
 * job's last free comes after its last action.  Default: false.
 */
int epilog_set_keep_last (struct epilog *ep, bool keep);

/* What may go now.  Kept up to date by the calls above; costs nothing.
 */
const struct idset *epilog_ready (const struct epilog *ep);

/* These ranks, all of them ready, have been handed over.
 */
int epilog_gone (struct epilog *ep,
                 const struct idset *ranks,
                 flux_error_t *error);

/* Replay: a record says that these ranks (NULL: all) were handed over.  It
 * outweighs any hold: no action holds them any more.  Ranks that are not the
 * job's are EINVAL.
 */
int epilog_restore_gone (struct epilog *ep,
                         const struct idset *ranks,
                         flux_error_t *error);

/* Queries.
 */
const struct idset *epilog_ranks (const struct epilog *ep); // of the job
const struct idset *epilog_handed_over (const struct epilog *ep);
bool epilog_all_gone (const struct epilog *ep);
size_t epilog_left (const struct epilog *ep); // ranks that have not gone
size_t epilog_action_count (const struct epilog *ep);
/* index 0 is the oldest; NULL past the end */
const struct epilog_action *epilog_action_get (const struct epilog *ep,
                                               size_t index);
bool epilog_holds (const struct epilog_action *action, unsigned int rank);
unsigned int epilog_hold_count (const struct epilog *ep, unsigned int rank);
/* IDSET_INVALID_ID if none is kept back */
unsigned int epilog_kept (const struct epilog *ep);

#endif /* !_FLUX_JOB_MANAGER_EPILOG_H */

// vi:ts=4 sw=4 expandtab
