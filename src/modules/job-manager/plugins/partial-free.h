/* SPDX-License-Identifier: LGPL-3.0 */

#ifndef _FLUX_JOB_MANAGER_PARTIAL_FREE_H
#define _FLUX_JOB_MANAGER_PARTIAL_FREE_H

#include <jansson.h>

#include "src/common/librlist/rlist.h"

/* The partial-free event 'entry' says that a part of a job's resources 'rl'
 * was handed over.  Take that part out of 'rl', and out of '*allocated', the
 * resources of all jobs, which is replaced.  No-op if 'rl' is NULL.
 * Returns 0 on success, -1 with errno set and nothing changed.
 */
int partial_free (json_t *entry, struct rlist *rl, struct rlist **allocated);

#endif /* ! _FLUX_JOB_MANAGER_PARTIAL_FREE_H */

// vi:ts=4 sw=4 expandtab
