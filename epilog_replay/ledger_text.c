/* SPDX-License-Identifier: LGPL-3.0 */

/* ledger_text.c - the ledger's calls with ranks as RFC 22 text
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <flux/idset.h>

#include "src/common/libutil/errprintf.h"

#include "ledger_text.h"

/* Decode 'ranks' to *ids, which stays NULL if 'ranks' is.
 */
static int ranks_decode (const struct epilog *ep,
                         const char *ranks,
                         struct idset **ids,
                         flux_error_t *error)
{
    *ids = NULL;
    if (ranks && !(*ids = epilog_decode (ep, ranks, error)))
        return -1;
    return 0;
}

struct epilog *ledger_text_create (const char *ranks, flux_error_t *error)
{
    struct idset *ids = NULL;
    struct epilog *ep;

    if (ranks && !(ids = idset_decode (ranks))) {
        errprintf (error, "'%.32s': %s", ranks, strerror (errno));
        return NULL;
    }
    if (!(ep = epilog_create (ids)))
        errprintf (error, "%s", strerror (errno));
    idset_destroy (ids);
    return ep;
}

int ledger_text_start (struct epilog *ep,
                       const char *description,
                       const char *ranks,
                       double t_start,
                       flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_start (ep, description, ids, t_start, error);
    idset_destroy (ids);
    return rc;
}

int ledger_text_release (struct epilog *ep,
                         const char *description,
                         const char *ranks,
                         flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_release (ep, description, ids, error);
    idset_destroy (ids);
    return rc;
}

int ledger_text_start_check (const struct epilog *ep,
                             const char *description,
                             const char *ranks,
                             flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_start_check (ep, description, ids, error);
    idset_destroy (ids);
    return rc;
}

int ledger_text_release_check (const struct epilog *ep,
                               const char *description,
                               const char *ranks,
                               flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_release_check (ep, description, ids, error);
    idset_destroy (ids);
    return rc;
}

int ledger_text_gone (struct epilog *ep,
                      const char *ranks,
                      flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_gone (ep, ids, error);
    idset_destroy (ids);
    return rc;
}

int ledger_text_restore_gone (struct epilog *ep,
                              const char *ranks,
                              flux_error_t *error)
{
    struct idset *ids;
    int rc;

    if (ranks_decode (ep, ranks, &ids, error) < 0)
        return -1;
    rc = epilog_restore_gone (ep, ids, error);
    idset_destroy (ids);
    return rc;
}

char *ledger_text_encode (const struct idset *ids)
{
    return ids ? idset_encode (ids, IDSET_FLAG_RANGE) : strdup ("");
}

void ledger_text_free (char *s)
{
    free (s);
}

// vi:ts=4 sw=4 expandtab
