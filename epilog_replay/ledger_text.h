/* SPDX-License-Identifier: LGPL-3.0 */

/* ledger_text.h - the ledger's calls with ranks as RFC 22 text, so that a
 * program in another language needs one call for each
 *
 * 'ranks' NULL means what NULL means in epilog.h.  A text that
 * epilog_decode() refuses is EINVAL.
 */

#ifndef _EPILOG_REPLAY_LEDGER_TEXT_H
#define _EPILOG_REPLAY_LEDGER_TEXT_H

#include <flux/idset.h>

#include "src/common/libflux/types.h" // flux_error_t
#include "src/modules/job-manager/epilog.h"

/* Here any RFC 22 text will do: it says which ranks are the job's.
 */
struct epilog *ledger_text_create (const char *ranks, flux_error_t *error);

int ledger_text_start (struct epilog *ep,
                       const char *description,
                       const char *ranks,
                       double t_start,
                       flux_error_t *error);
int ledger_text_release (struct epilog *ep,
                         const char *description,
                         const char *ranks,
                         flux_error_t *error);
int ledger_text_start_check (const struct epilog *ep,
                             const char *description,
                             const char *ranks,
                             flux_error_t *error);
int ledger_text_release_check (const struct epilog *ep,
                               const char *description,
                               const char *ranks,
                               flux_error_t *error);
int ledger_text_gone (struct epilog *ep,
                      const char *ranks,
                      flux_error_t *error);
int ledger_text_restore_gone (struct epilog *ep,
                              const char *ranks,
                              flux_error_t *error);

/* Shortest RFC 22 form; NULL gives "".  Free with ledger_text_free().
 */
char *ledger_text_encode (const struct idset *ids);
void ledger_text_free (char *s);

#endif /* !_EPILOG_REPLAY_LEDGER_TEXT_H */

// vi:ts=4 sw=4 expandtab
