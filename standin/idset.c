/* SPDX-License-Identifier: LGPL-3.0 */

/* idset.c - stand-in for flux-core's libidset
 *
 * A tree of bitmaps, 64 ways.  Level 0 has one bit for each id.  Level n has
 * one bit for each word of level n-1, set if that word is not zero.  The top
 * level is one word.  So first, next and last take one step per level (three
 * for 16384 ids, six at most), and the operations on two sets visit only
 * words that are not zero.  All levels lie in one block: a copy is a memcpy.
 */

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flux/idset.h>

#define WORD_BITS 64
#define LEVELS_MAX 6 // 64^6 > IDSET_MAX_UNIVERSE

#define NOWHERE SIZE_MAX

static const size_t default_size = 1024; // ids; as in flux-core

struct idset {
    size_t size;  // ids
    size_t count; // ids set
    int flags;
    int levels;
    size_t start[LEVELS_MAX + 1]; // words; [levels] is the length of 'word'
    uint64_t *word;
};

static int fail (int errnum)
{
    errno = errnum;
    return -1;
}

/* Lay out the levels of a set of 'size' ids, all clear.
 */
static int tree_create (struct idset *idset, size_t size)
{
    size_t bits = size;
    size_t total = 0;
    int level = 0;

    do {
        bits = (bits + WORD_BITS - 1) / WORD_BITS;
        idset->start[level++] = total;
        total += bits;
    } while (bits > 1);
    idset->start[level] = total;
    idset->levels = level;
    idset->size = size;
    idset->count = 0;
    return (idset->word = calloc (total, sizeof (uint64_t))) ? 0 : -1;
}

struct idset *idset_create (size_t size, int flags)
{
    struct idset *idset;

    if ((flags & ~(IDSET_FLAG_AUTOGROW | IDSET_FLAG_COUNT_LAZY))) {
        errno = EINVAL;
        return NULL;
    }
    if (size == 0)
        size = default_size;
    if (size > IDSET_MAX_UNIVERSE) {
        errno = ERANGE;
        return NULL;
    }
    if (!(idset = malloc (sizeof (*idset))))
        return NULL;
    idset->flags = flags;
    if (tree_create (idset, size) < 0) {
        free (idset);
        return NULL;
    }
    return idset;
}

void idset_destroy (struct idset *idset)
{
    if (idset) {
        int saved_errno = errno;
        free (idset->word);
        free (idset);
        errno = saved_errno;
    }
}

struct idset *idset_copy (const struct idset *idset)
{
    struct idset *cpy;
    size_t bytes;

    if (!idset) {
        errno = EINVAL;
        return NULL;
    }
    if (!(cpy = malloc (sizeof (*cpy))))
        return NULL;
    *cpy = *idset;
    bytes = idset->start[idset->levels] * sizeof (uint64_t);
    if (!(cpy->word = malloc (bytes))) {
        free (cpy);
        return NULL;
    }
    memcpy (cpy->word, idset->word, bytes);
    return cpy;
}

/* Words of level 0, that is of ids.
 */
static size_t word_count (const struct idset *idset)
{
    return idset->start[1];
}

/* Set word 'w' of level 0 to 'bits', and the levels above to match.
 */
static void word_put (struct idset *idset, size_t w, uint64_t bits)
{
    uint64_t old = idset->word[w];

    idset->word[w] = bits;
    idset->count -= __builtin_popcountll (old);
    idset->count += __builtin_popcountll (bits);
    for (int level = 1; level < idset->levels && !old != !bits; level++) {
        uint64_t *up = &idset->word[idset->start[level] + w / WORD_BITS];
        uint64_t bit = UINT64_C (1) << (w % WORD_BITS);

        old = *up;
        *up = bits ? old | bit : old & ~bit;
        bits = *up;
        w /= WORD_BITS;
    }
}

/* Find the first bit of 'level' that is set, at 'pos' or after.
 */
static size_t bit_find (const struct idset *idset, int level, size_t pos)
{
    int base = level;

    for (; level < idset->levels; level++) {
        const uint64_t *word = idset->word + idset->start[level];
        size_t words = idset->start[level + 1] - idset->start[level];
        size_t w = pos / WORD_BITS;
        uint64_t bits;

        if (w >= words)
            return NOWHERE;
        if ((bits = word[w] & (UINT64_MAX << (pos % WORD_BITS)))) {
            pos = w * WORD_BITS + __builtin_ctzll (bits);
            while (level-- > base) {
                word = idset->word + idset->start[level];
                pos = pos * WORD_BITS + __builtin_ctzll (word[pos]);
            }
            return pos;
        }
        pos = w + 1;
    }
    return NOWHERE;
}

/* Find the first word of level 0 that is not zero, at 'w' or after.
 */
static size_t word_find (const struct idset *idset, size_t w)
{
    if (idset->levels == 1)
        return w == 0 && idset->word[0] ? 0 : NOWHERE;
    return bit_find (idset, 1, w);
}

static uint64_t word_get (const struct idset *idset, size_t w)
{
    return w < word_count (idset) ? idset->word[w] : 0;
}

static bool valid_id (unsigned int id)
{
    return id < IDSET_INVALID_ID;
}

/* Make room for id 'max' by doubling the universe.
 */
static int idset_grow (struct idset *idset, unsigned int max)
{
    struct idset old = *idset;
    size_t size = idset->size;

    if (max < idset->size)
        return 0;
    if (max >= IDSET_MAX_UNIVERSE)
        return fail (ERANGE);
    if (!(idset->flags & IDSET_FLAG_AUTOGROW))
        return fail (EINVAL);
    while (size <= max)
        size *= 2;
    if (size > IDSET_MAX_UNIVERSE)
        size = IDSET_MAX_UNIVERSE;
    if (tree_create (idset, size) < 0) {
        *idset = old;
        return -1;
    }
    for (size_t w = word_find (&old, 0); w != NOWHERE;
         w = word_find (&old, w + 1))
        word_put (idset, w, old.word[w]);
    free (old.word);
    return 0;
}

/* Set or clear lo..hi, all inside the universe, word by word.
 */
static void range_put (struct idset *idset, size_t lo, size_t hi, bool set)
{
    for (size_t w = lo / WORD_BITS; w <= hi / WORD_BITS; w++) {
        uint64_t mask = UINT64_MAX;

        if (w == lo / WORD_BITS)
            mask &= UINT64_MAX << (lo % WORD_BITS);
        if (w == hi / WORD_BITS)
            mask &= UINT64_MAX >> (WORD_BITS - 1 - hi % WORD_BITS);
        word_put (idset,
                  w,
                  set ? idset->word[w] | mask : idset->word[w] & ~mask);
    }
}

int idset_range_set (struct idset *idset, unsigned int lo, unsigned int hi)
{
    if (!idset || !valid_id (lo) || !valid_id (hi))
        return fail (EINVAL);
    if (lo > hi)
        return idset_range_set (idset, hi, lo);
    if (idset_grow (idset, hi) < 0)
        return -1;
    range_put (idset, lo, hi, true);
    return 0;
}

int idset_set (struct idset *idset, unsigned int id)
{
    return idset_range_set (idset, id, id);
}

int idset_range_clear (struct idset *idset, unsigned int lo, unsigned int hi)
{
    if (!idset || !valid_id (lo) || !valid_id (hi))
        return fail (EINVAL);
    if (lo > hi)
        return idset_range_clear (idset, hi, lo);
    if (lo < idset->size)
        range_put (idset, lo, hi < idset->size ? hi : idset->size - 1, false);
    return 0;
}

int idset_clear (struct idset *idset, unsigned int id)
{
    return idset_range_clear (idset, id, id);
}

bool idset_test (const struct idset *idset, unsigned int id)
{
    if (!idset || id >= idset->size)
        return false;
    return (idset->word[id / WORD_BITS] >> (id % WORD_BITS)) & 1;
}

unsigned int idset_first (const struct idset *idset)
{
    size_t pos = idset ? bit_find (idset, 0, 0) : NOWHERE;
    return pos == NOWHERE ? IDSET_INVALID_ID : pos;
}

unsigned int idset_next (const struct idset *idset, unsigned int id)
{
    size_t pos = idset ? bit_find (idset, 0, (size_t)id + 1) : NOWHERE;
    return pos == NOWHERE ? IDSET_INVALID_ID : pos;
}

unsigned int idset_last (const struct idset *idset)
{
    size_t pos = 0;

    if (idset_empty (idset))
        return IDSET_INVALID_ID;
    for (int level = idset->levels - 1; level >= 0; level--) {
        uint64_t bits = idset->word[idset->start[level] + pos];
        pos = pos * WORD_BITS + WORD_BITS - 1 - __builtin_clzll (bits);
    }
    return pos;
}

size_t idset_count (const struct idset *idset)
{
    return idset ? idset->count : 0;
}

bool idset_empty (const struct idset *idset)
{
    return idset_count (idset) == 0;
}

bool idset_has_intersection (const struct idset *a, const struct idset *b)
{
    if (!a || !b)
        return false;
    if (a->count < b->count)
        return idset_has_intersection (b, a);
    for (size_t w = word_find (b, 0); w != NOWHERE; w = word_find (b, w + 1)) {
        if ((b->word[w] & word_get (a, w)))
            return true;
    }
    return false;
}

int idset_add (struct idset *a, const struct idset *b)
{
    if (!a)
        return fail (EINVAL);
    if (idset_empty (b))
        return 0;
    if (idset_grow (a, idset_last (b)) < 0)
        return -1;
    for (size_t w = word_find (b, 0); w != NOWHERE; w = word_find (b, w + 1))
        word_put (a, w, a->word[w] | b->word[w]);
    return 0;
}

int idset_subtract (struct idset *a, const struct idset *b)
{
    if (!a)
        return fail (EINVAL);
    if (!b)
        return 0;
    for (size_t w = word_find (b, 0); w != NOWHERE && w < word_count (a);
         w = word_find (b, w + 1))
        word_put (a, w, a->word[w] & ~b->word[w]);
    return 0;
}

/* Return the last id of the run of ids that 'lo' begins.
 */
static unsigned int run_end (const struct idset *idset, unsigned int lo)
{
    uint64_t from = UINT64_MAX << (lo % WORD_BITS);

    for (size_t w = lo / WORD_BITS; w < word_count (idset); w++) {
        uint64_t missing = ~idset->word[w] & from;

        if (missing)
            return w * WORD_BITS + __builtin_ctzll (missing) - 1;
        from = UINT64_MAX;
    }
    return idset->size - 1;
}

char *idset_encode (const struct idset *idset, int flags)
{
    static const size_t item_max = sizeof ("2147483647-2147483647,");
    size_t items = 0;
    unsigned int lo, hi;
    char *buf;
    char *p;

    if (!idset || (flags & ~IDSET_FLAG_RANGE)) {
        errno = EINVAL;
        return NULL;
    }
    for (lo = idset_first (idset); lo != IDSET_INVALID_ID;
         lo = idset_next (idset, hi)) {
        hi = (flags & IDSET_FLAG_RANGE) ? run_end (idset, lo) : lo;
        items++;
    }
    if (!(buf = malloc (items * item_max + 1)))
        return NULL;
    p = buf;
    for (lo = idset_first (idset); lo != IDSET_INVALID_ID;
         lo = idset_next (idset, hi)) {
        hi = (flags & IDSET_FLAG_RANGE) ? run_end (idset, lo) : lo;
        p += sprintf (p, lo == hi ? "%u," : "%u-%u,", lo, hi);
    }
    if (items > 0)
        p--; // the last comma
    *p = '\0';
    return buf;
}

/* Read a decimal number at *s and move *s past it.
 */
static int number_decode (const char **s, unsigned int *id)
{
    const char *p = *s;
    uint64_t n = 0;

    if (!isdigit ((unsigned char)*p)
        || (p[0] == '0' && isdigit ((unsigned char)p[1])))
        return fail (EINVAL);
    for (; isdigit ((unsigned char)*p); p++) {
        n = n * 10 + (*p - '0');
        if (n >= IDSET_MAX_UNIVERSE)
            return fail (ERANGE);
    }
    *s = p;
    *id = n;
    return 0;
}

/* Read "N" or "N-M" at *s, add it to 'idset', and move *s past it.
 */
static int item_decode (const char **s, struct idset *idset)
{
    unsigned int last = idset_last (idset);
    unsigned int lo, hi;

    if (number_decode (s, &lo) < 0)
        return -1;
    hi = lo;
    if (**s == '-') {
        (*s)++;
        if (number_decode (s, &hi) < 0)
            return -1;
        if (hi <= lo)
            return fail (EINVAL);
    }
    if (last != IDSET_INVALID_ID && lo <= last)
        return fail (EINVAL);
    return idset_range_set (idset, lo, hi);
}

/* Read items up to the end of 's', or up to its closing bracket.
 */
static int list_decode (const char *s, struct idset *idset)
{
    bool brackets = *s == '[';
    const char *end = brackets ? "]" : "";

    if (brackets)
        s++;
    if (strcmp (s, end) == 0)
        return 0;
    if (item_decode (&s, idset) < 0)
        return -1;
    while (*s == ',') {
        s++;
        if (item_decode (&s, idset) < 0)
            return -1;
    }
    return strcmp (s, end) == 0 ? 0 : fail (EINVAL);
}

struct idset *idset_decode (const char *s)
{
    struct idset *idset;

    if (!s) {
        errno = EINVAL;
        return NULL;
    }
    if (!(idset = idset_create (0, IDSET_FLAG_AUTOGROW)))
        return NULL;
    if (list_decode (s, idset) < 0) {
        idset_destroy (idset);
        return NULL;
    }
    return idset;
}

// vi:ts=4 sw=4 expandtab
