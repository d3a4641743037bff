/* SPDX-License-Identifier: LGPL-3.0 */

/* partial-free.c - follow partial-free events in a set of resources */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <flux/idset.h>

#include "partial-free.h"

int partial_free (json_t *entry, struct rlist *rl, struct rlist **allocated)
{
    const char *ranks;
    struct idset *ids;
    struct rlist *part = NULL;
    struct rlist *rest;
    int rc = -1;

    if (!rl)
        return 0;
    if (json_unpack (entry, "{s:{s:s}}", "context", "ranks", &ranks) < 0
        || !(ids = idset_decode (ranks))) {
        errno = EPROTO;
        return -1;
    }
    if (!(part = rlist_copy_ranks (rl, ids))
        || !(rest = rlist_diff (*allocated, part))) {
        errno = ENOMEM;
        goto done;
    }
    rlist_destroy (*allocated);
    *allocated = rest;
    if (rlist_remove_ranks (rl, ids) < 0)
        goto done;
    rc = 0;
done:
    rlist_destroy (part);
    idset_destroy (ids);
    return rc;
}

// vi:ts=4 sw=4 expandtab
