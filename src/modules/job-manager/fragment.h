/* SPDX-License-Identifier: LGPL-3.0 */

/* fragment.h - cut a part of R (RFC 20) out by execution target
 *
 * Works on the JSON object and costs about what R's text is long, plus the
 * ranks asked for.  A resource list (librlist) of the whole of R would cost
 * its every core, at each cut.
 */

#ifndef _FLUX_JOB_MANAGER_FRAGMENT_H
#define _FLUX_JOB_MANAGER_FRAGMENT_H

#include <jansson.h>
#include <flux/idset.h>

/* Get the execution targets of R.  The caller destroys the set.
 * Returns NULL with errno set: EPROTO if R is not as RFC 20 says, ENOMEM.
 */
struct idset *fragment_ranks (json_t *R);

/* Get the part of R that 'ranks' names: R_lite, nodelist and properties cut
 * down to them, the rest of "execution" as it is.  A "scheduling" key is left
 * out: it can't be split.  'all' is the execution targets of R.  The caller
 * drops the reference.
 * Returns NULL with errno set: EINVAL if 'ranks' is empty or not a part of
 * 'all', EPROTO, ENOMEM.
 */
json_t *fragment_create (json_t *R,
                         const struct idset *all,
                         const struct idset *ranks);

#endif /* ! _FLUX_JOB_MANAGER_FRAGMENT_H */

// vi:ts=4 sw=4 expandtab
