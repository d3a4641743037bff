/* SPDX-License-Identifier: LGPL-3.0 */

/* refusal.h - refuse bad epilog events, and tell their senders why
 *
 * What is wrong with an event is for hold_validate() to say.  The reason is
 * logged here, counted, and kept for the one who answers the request that the
 * event came with.
 */

#ifndef _FLUX_JOB_MANAGER_REFUSAL_H
#define _FLUX_JOB_MANAGER_REFUSAL_H

#include <stdbool.h>
#include <flux/core.h>
#include <jansson.h>

#include "job.h"
#include "job-manager.h"

struct refusal *refusal_create (struct job_manager *ctx);
void refusal_destroy (struct refusal *refusal);

/* Call before 'entry' is queued for 'job'.  Refuse a bad "ranks" key, and an
 * epilog-finish that can't be matched, as long as the sender can still be
 * told.  Events that don't concern epilogs pass.
 * Returns 0 on success, -1 with errno set: EINVAL, ENOENT, EOVERFLOW or
 * ENOMEM.
 */
int refusal_check (struct refusal *refusal,
                   struct job *job,
                   int flags,
                   json_t *entry);

/* For the handler of a request that posts an event: call the first before,
 * and the second on failure.  If it was refusal_check() that refused the
 * event, it responds to 'msg' with the reason, and returns true.
 */
void refusal_clear (flux_t *h);
bool refusal_respond (flux_t *h, const flux_msg_t *msg);

/* Get the reason for which refusal_check() refused the first event posted
 * since refusal_clear(), or NULL if it did not.
 */
const char *refusal_reason (struct refusal *refusal);

/* Respond to 'msg' with an error and a text that may quote anything: '?' is
 * put for control characters, and for what is not UTF-8, such as a character
 * of which a part was cut off to make the text fit.
 */
int refusal_respond_text (flux_t *h,
                          const flux_msg_t *msg,
                          int errnum,
                          const char *text);

/* How many events were refused since the job manager was loaded?
 */
json_int_t refusal_count (struct refusal *refusal);

#endif /* ! _FLUX_JOB_MANAGER_REFUSAL_H */

// vi:ts=4 sw=4 expandtab
