/* SPDX-License-Identifier: LGPL-3.0 */

/* fragment.c - cut a part of R (RFC 20) out by execution target
 *
 * The nodelist has one host per execution target, in order of rank, whatever
 * the order of the R_lite entries.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <flux/idset.h>
#include <flux/hostlist.h>
#include <jansson.h>

#include "src/common/libutil/errno_safe.h"

#include "fragment.h"

/* Get the R_lite array.  (json_unpack() would need memory.)
 */
static json_t *get_R_lite (json_t *R)
{
    json_t *R_lite = json_object_get (json_object_get (R, "execution"),
                                      "R_lite");

    if (!json_is_array (R_lite)) {
        errno = EPROTO;
        return NULL;
    }
    return R_lite;
}

/* A part of R could not be read: unless it is for want of memory, R is wrong.
 */
static void blame_R (void)
{
    if (errno != ENOMEM)
        errno = EPROTO;
}

/* json_copy() leaves keys out when it runs out of memory.
 */
static json_t *copy_object (json_t *o)
{
    json_t *copy = json_copy (o);

    if (json_object_size (copy) != json_object_size (o)) {
        json_decref (copy);
        copy = NULL;
    }
    if (!copy)
        errno = ENOMEM;
    return copy;
}

static json_t *encode_ids (const struct idset *ids)
{
    json_t *o;
    char *s;

    if (!(s = idset_encode (ids, IDSET_FLAG_RANGE)))
        return NULL;
    o = json_string (s);
    free (s);
    if (!o)
        errno = ENOMEM;
    return o;
}

/* Get an empty set that is as wide as the ranks of R_lite need.  Growing one
 * while it is filled costs far more.
 */
static struct idset *create_ranks (json_t *R_lite)
{
    json_t *entry;
    size_t index;
    size_t width = 1;

    json_array_foreach (R_lite, index, entry) {
        const char *s = json_string_value (json_object_get (entry, "rank"));
        unsigned int last;

        if (idset_decode_info (s, -1, NULL, &last, NULL) < 0) {
            blame_R ();
            return NULL;
        }
        if (last != IDSET_INVALID_ID && last >= width)
            width = last + 1;
    }
    return idset_create (width, 0);
}

struct idset *fragment_ranks (json_t *R)
{
    json_t *R_lite;
    json_t *entry;
    size_t index;
    struct idset *ranks;

    if (!(R_lite = get_R_lite (R)) || !(ranks = create_ranks (R_lite)))
        return NULL;
    json_array_foreach (R_lite, index, entry) {
        const char *s = json_string_value (json_object_get (entry, "rank"));

        if (idset_decode_add (ranks, s, -1, NULL) < 0) {
            blame_R ();
            ERRNO_SAFE_WRAP (idset_destroy, ranks);
            return NULL;
        }
    }
    return ranks;
}

/* Put those of 'ranks' that the idset text 's' names in 'cut'.  The text may
 * name far more.
 */
static int pick_ids (const char *s, const struct idset *ranks, struct idset *cut)
{
    while (*s) {
        char *end;
        unsigned int lo;
        unsigned int hi;
        unsigned int rank;

        if (*s < '0' || *s > '9') { // bracket or comma
            s++;
            continue;
        }
        lo = hi = strtoul (s, &end, 10);
        if (*end == '-')
            hi = strtoul (end + 1, &end, 10);
        rank = idset_test (ranks, lo) ? lo : idset_next (ranks, lo);
        while (rank != IDSET_INVALID_ID && rank <= hi) {
            if (idset_set (cut, rank) < 0)
                return -1;
            rank = idset_next (ranks, rank);
        }
        s = end;
    }
    return 0;
}

/* Get those of the ids of 'o' (a JSON string) that are in 'ranks', as a JSON
 * string, in *op: NULL if there are none.
 */
static int cut_ids (json_t *o, const struct idset *ranks, json_t **op)
{
    const char *s = json_string_value (o);
    struct idset *cut;
    int rc = -1;

    *op = NULL;
    if (idset_decode_info (s, -1, NULL, NULL, NULL) < 0) {
        blame_R ();
        return -1;
    }
    if (!(cut = idset_copy (ranks)))
        return -1;
    if (idset_clear_all (cut) < 0 || pick_ids (s, ranks, cut) < 0)
        goto done;
    if (!idset_empty (cut) && !(*op = encode_ids (cut)))
        goto done;
    rc = 0;
done:
    ERRNO_SAFE_WRAP (idset_destroy, cut);
    return rc;
}

static json_t *cut_R_lite (json_t *R_lite, const struct idset *ranks)
{
    json_t *result;
    json_t *entry;
    size_t index;

    if (!(result = json_array ()))
        goto nomem;
    json_array_foreach (R_lite, index, entry) {
        json_t *rank;
        json_t *copy;

        if (cut_ids (json_object_get (entry, "rank"), ranks, &rank) < 0)
            goto error;
        if (!rank)
            continue;
        if (!(copy = copy_object (entry))) {
            json_decref (rank);
            goto error;
        }
        if (json_array_append_new (result, copy) < 0) {
            json_decref (rank);
            goto nomem;
        }
        if (json_object_set_new (copy, "rank", rank) < 0)
            goto nomem;
    }
    return result;
nomem:
    errno = ENOMEM;
error:
    json_decref (result);
    return NULL;
}

static struct hostlist *decode_nodelist (json_t *nodelist)
{
    struct hostlist *hl;
    json_t *entry;
    size_t index;

    if (!(hl = hostlist_create ()))
        return NULL;
    json_array_foreach (nodelist, index, entry) {
        const char *s = json_string_value (entry);

        errno = 0;
        if (!s || hostlist_append (hl, s) < 0) {
            blame_R ();
            ERRNO_SAFE_WRAP (hostlist_destroy, hl);
            return NULL;
        }
    }
    return hl;
}

/* Position of 'rank' among 'all', where that of 'prev' is known.
 */
static int position_of (const struct idset *all,
                        unsigned int rank,
                        unsigned int prev,
                        int position)
{
    if (idset_last (all) - idset_first (all) + 1 == idset_count (all))
        return rank - idset_first (all);
    while (prev != rank) {
        prev = idset_next (all, prev);
        position++;
    }
    return position;
}

/* Get the hosts of 'ranks', each with a comma after it.  To append them to a
 * hostlist one at a time would cost far more.
 */
static char *hosts_text (struct hostlist *hl,
                         const struct idset *all,
                         const struct idset *ranks)
{
    unsigned int prev = idset_first (all);
    unsigned int rank = idset_first (ranks);
    int position = 0;
    char *text = NULL;
    size_t size;
    FILE *f;

    if (!(f = open_memstream (&text, &size)))
        return NULL;
    while (rank != IDSET_INVALID_ID) {
        const char *host;

        position = position_of (all, rank, prev, position);
        errno = 0;
        if (!(host = hostlist_nth (hl, position))) {
            blame_R ();
            ERRNO_SAFE_WRAP (fclose, f);
            ERRNO_SAFE_WRAP (free, text);
            return NULL;
        }
        (void)fprintf (f, "%s,", host); // fclose() tells of an error
        prev = rank;
        rank = idset_next (ranks, rank);
    }
    if (fclose (f) != 0) {
        free (text);
        errno = ENOMEM;
        return NULL;
    }
    return text;
}

static json_t *cut_nodelist (json_t *nodelist,
                             const struct idset *all,
                             const struct idset *ranks)
{
    struct hostlist *hl;
    struct hostlist *cut = NULL;
    char *text = NULL;
    char *s = NULL;
    json_t *result = NULL;

    if (!(hl = decode_nodelist (nodelist))
        || !(text = hosts_text (hl, all, ranks))
        || !(cut = hostlist_decode (text))
        || !(s = hostlist_encode (cut)))
        goto done;
    if (!(result = json_pack ("[s]", s)))
        errno = ENOMEM;
done:
    ERRNO_SAFE_WRAP (free, s);
    ERRNO_SAFE_WRAP (free, text);
    hostlist_destroy (hl);
    hostlist_destroy (cut);
    return result;
}

static json_t *cut_properties (json_t *properties, const struct idset *ranks)
{
    json_t *result;
    const char *name;
    json_t *value;

    if (!(result = json_object ()))
        goto nomem;
    json_object_foreach (properties, name, value) {
        json_t *ids;

        if (cut_ids (value, ranks, &ids) < 0)
            goto error;
        if (ids && json_object_set_new (result, name, ids) < 0)
            goto nomem;
    }
    return result;
nomem:
    errno = ENOMEM;
error:
    json_decref (result);
    return NULL;
}

/* Set 'key' of 'execution' to 'value', whose reference is taken.  NULL means
 * that making it failed, with errno set.
 */
static int set_part (json_t *execution, const char *key, json_t *value)
{
    if (!value)
        return -1;
    if (json_object_set_new (execution, key, value) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static int cut_execution (json_t *execution,
                          const struct idset *all,
                          const struct idset *ranks)
{
    json_t *R_lite = json_object_get (execution, "R_lite");
    json_t *nodelist = json_object_get (execution, "nodelist");
    json_t *properties = json_object_get (execution, "properties");

    if (set_part (execution, "R_lite", cut_R_lite (R_lite, ranks)) < 0)
        return -1;
    if (nodelist
        && set_part (execution,
                     "nodelist",
                     cut_nodelist (nodelist, all, ranks)) < 0)
        return -1;
    if (properties
        && set_part (execution,
                     "properties",
                     cut_properties (properties, ranks)) < 0)
        return -1;
    return 0;
}

static bool is_part (const struct idset *ranks, const struct idset *all)
{
    unsigned int rank = idset_first (ranks);

    while (rank != IDSET_INVALID_ID) {
        if (!idset_test (all, rank))
            return false;
        rank = idset_next (ranks, rank);
    }
    return true;
}

json_t *fragment_create (json_t *R,
                         const struct idset *all,
                         const struct idset *ranks)
{
    json_t *execution;
    json_t *result = NULL;

    if (!get_R_lite (R))
        return NULL;
    if (idset_empty (ranks) || !is_part (ranks, all)) {
        errno = EINVAL;
        return NULL;
    }
    if (!(execution = copy_object (json_object_get (R, "execution"))))
        return NULL;
    if (cut_execution (execution, all, ranks) == 0
        && !(result = json_pack ("{s:i s:O}",
                                 "version", 1,
                                 "execution", execution)))
        errno = ENOMEM;
    ERRNO_SAFE_WRAP (json_decref, execution);
    return result;
}

// vi:ts=4 sw=4 expandtab
