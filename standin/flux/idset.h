/* SPDX-License-Identifier: LGPL-3.0 */

/* idset.h - stand-in for flux-core's <flux/idset.h>, for building the ledger
 * where flux-core is not installed
 *
 * Only the calls that the ledger and its unit test make.  Names, flag values
 * and errno are those of flux-core, where a longer contract is written down.
 * Differences, all of them on the strict side:
 * - Flags that are not in the enum below are EINVAL.
 * - idset_decode() reads RFC 22 to the letter: an empty item ("1,,2") and a
 *   number over 32 bits are refused.
 * - idset_add() that fails leaves its first argument as it was.
 */

#ifndef _STANDIN_FLUX_IDSET_H
#define _STANDIN_FLUX_IDSET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum idset_flags {
    IDSET_FLAG_AUTOGROW = 1, // create: set beyond the universe makes it grow
    IDSET_FLAG_RANGE = 4,    // encode: "1-3", not "1,2,3"
    IDSET_FLAG_COUNT_LAZY = 16, // create: idset_count() may be slow (here: is not)
};

#define IDSET_INVALID_ID (UINT_MAX - 1)
#define IDSET_MAX_UNIVERSE ((size_t)(INT_MAX) + 1)

/* A set made with size N holds ids 0 to N - 1; 0 means 1024.
 */
struct idset *idset_create (size_t size, int flags);
struct idset *idset_copy (const struct idset *idset);
void idset_destroy (struct idset *idset);

/* The caller frees the string.  The empty set gives "".
 */
char *idset_encode (const struct idset *idset, int flags);
struct idset *idset_decode (const char *s);

int idset_set (struct idset *idset, unsigned int id);
int idset_range_set (struct idset *idset, unsigned int lo, unsigned int hi);
int idset_clear (struct idset *idset, unsigned int id);
int idset_range_clear (struct idset *idset, unsigned int lo, unsigned int hi);

/* These take NULL for an empty set.  first, next and last return
 * IDSET_INVALID_ID where there is no such id.
 */
bool idset_test (const struct idset *idset, unsigned int id);
unsigned int idset_first (const struct idset *idset);
unsigned int idset_next (const struct idset *idset, unsigned int id);
unsigned int idset_last (const struct idset *idset);
size_t idset_count (const struct idset *idset);
bool idset_empty (const struct idset *idset);
bool idset_has_intersection (const struct idset *a, const struct idset *b);

/* a += b, a -= b.  'b' may be NULL.
 */
int idset_add (struct idset *a, const struct idset *b);
int idset_subtract (struct idset *a, const struct idset *b);

#endif /* !_STANDIN_FLUX_IDSET_H */

// vi:ts=4 sw=4 expandtab
