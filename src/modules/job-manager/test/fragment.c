/* SPDX-License-Identifier: LGPL-3.0 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <flux/idset.h>
#include <flux/hostlist.h>
#include <jansson.h>

#include "src/common/libtap/tap.h"
#include "src/common/librlist/rlist.h"
#include "ccan/str/str.h"
#include "src/modules/job-manager/test/heap.h"

/* libhostlist is not made to go without memory: it asserts, or leaves a host
 * out.  So the functions that make a list are replaced by some that fail as a
 * whole, and the code under test is included rather than linked.
 */
static bool hostlist_fails (void)
{
    return heap.armed && heap_fails ();
}

static int append_or_fail (struct hostlist *hl, const char *hosts)
{
    bool armed = heap.armed;
    int rc;

    if (hostlist_fails ())
        return -1;
    heap.armed = false;
    rc = hostlist_append (hl, hosts);
    heap.armed = armed;
    return rc;
}

static struct hostlist *decode_or_fail (const char *hosts)
{
    bool armed = heap.armed;
    struct hostlist *hl;

    if (hostlist_fails ())
        return NULL;
    heap.armed = false;
    hl = hostlist_decode (hosts);
    heap.armed = armed;
    return hl;
}

#define hostlist_append append_or_fail
#define hostlist_decode decode_or_fail
#include "src/modules/job-manager/fragment.c"
#undef hostlist_append
#undef hostlist_decode

/* R of several shapes.  Entries out of rank order, a host that has two ranks,
 * a rank in the middle of another entry, gpus, properties, one rank only.
 */
static const char *good[] = {
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-7\","
    "\"children\":{\"core\":\"0-3\"}}],\"nodelist\":[\"a[0-7]\"],"
    "\"starttime\":1,\"expiration\":9}}",
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"2-4\","
    "\"children\":{\"core\":\"0-3\"}},{\"rank\":\"0\","
    "\"children\":{\"core\":\"1,3\"}}],\"nodelist\":[\"x7\",\"b[0-2]\"]}}",
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"10,12-13\","
    "\"children\":{\"core\":\"0-1\",\"gpu\":\"0\"}},{\"rank\":\"11\","
    "\"children\":{\"core\":\"0-7\"}}],\"nodelist\":[\"n2\",\"n3\",\"n1,n4\"],"
    "\"properties\":{\"debug\":\"10-11\",\"batch\":\"12-13\"}}}",
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-1\","
    "\"children\":{\"core\":\"0\"}}],\"nodelist\":[\"vm,vm\"]}}",
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"9000\","
    "\"children\":{\"core\":\"5\"}}],\"nodelist\":[\"last\"]}}",
};

/* What librlist makes of it.
 */
static char *expect_fragment (json_t *R, struct idset *ranks)
{
    struct rlist *rl = rlist_from_json (R, NULL);
    struct rlist *part = rl ? rlist_copy_ranks (rl, ranks) : NULL;
    char *s = part ? rlist_dumps (part) : NULL;
    struct hostlist *hl = part ? rlist_nodelist (part) : NULL;
    char *hosts = hl ? hostlist_encode (hl) : NULL;
    char *result = NULL;

    if (!s || !hosts || asprintf (&result, "%s on %s", s, hosts) < 0)
        BAIL_OUT ("could not make the expected part of R");
    free (s);
    free (hosts);
    hostlist_destroy (hl);
    rlist_destroy (part);
    rlist_destroy (rl);
    return result;
}

static char *describe (json_t *R)
{
    struct rlist *rl = rlist_from_json (R, NULL);
    struct idset *ranks = rl ? rlist_ranks (rl) : NULL;
    char *result = ranks ? expect_fragment (R, ranks) : strdup ("unreadable");

    idset_destroy (ranks);
    rlist_destroy (rl);
    return result;
}

/* Cut out every subset of the ranks of R.
 */
static void check_subsets (json_t *R)
{
    struct idset *all = fragment_ranks (R);
    int n = idset_count (all);
    int errors = 0;

    for (int mask = 1; mask < (1 << n); mask++) {
        struct idset *ranks = idset_create (0, IDSET_FLAG_AUTOGROW);
        unsigned int rank = idset_first (all);
        json_t *part;
        char *want;
        char *got;

        for (int i = 0; i < n; i++) {
            if ((mask & (1 << i)))
                idset_set (ranks, rank);
            rank = idset_next (all, rank);
        }
        part = fragment_create (R, all, ranks);
        want = expect_fragment (R, ranks);
        got = part ? describe (part) : strdup (strerror (errno));
        if (!streq (got, want)) {
            diag ("got %s", got);
            diag ("want %s", want);
            errors++;
        }
        free (want);
        free (got);
        json_decref (part);
        idset_destroy (ranks);
    }
    ok (errors == 0, "each of %d parts is as librlist has it", (1 << n) - 1);
    idset_destroy (all);
}

static void test_good (void)
{
    for (int i = 0; i < sizeof (good) / sizeof (good[0]); i++) {
        json_t *R = json_loads (good[i], 0, NULL);
        json_t *orig = json_deep_copy (R);
        struct rlist *rl = rlist_from_json (R, NULL);
        struct idset *want = rl ? rlist_ranks (rl) : NULL;
        struct idset *got;

        if (!want)
            BAIL_OUT ("R %d can't be read", i);
        got = fragment_ranks (R);
        ok (got && idset_equal (got, want),
            "fragment_ranks gets the ranks of R %d",
            i);
        check_subsets (R);
        ok (json_equal (R, orig), "R itself is as it was");
        idset_destroy (got);
        idset_destroy (want);
        rlist_destroy (rl);
        json_decref (orig);
        json_decref (R);
    }
}

static void test_rest (void)
{
    json_t *R = json_loads (good[2], 0, NULL);
    struct idset *all = fragment_ranks (R);
    struct idset *ranks = idset_decode ("11-12");
    json_t *part = NULL;
    json_t *o = NULL;
    const char *debug = NULL;
    const char *batch = NULL;

    json_object_set_new (R, "scheduling", json_object ());
    json_object_set_new (json_object_get (R, "execution"),
                         "expiration",
                         json_integer (42));
    part = fragment_create (R, all, ranks);
    ok (part && !json_object_get (part, "scheduling"),
        "the scheduling key is left out");
    o = json_object_get (part, "execution");
    ok (json_integer_value (json_object_get (o, "expiration")) == 42,
        "expiration is carried over");
    ok (json_unpack (o,
                     "{s:{s:s s:s}}",
                     "properties",
                       "debug", &debug,
                       "batch", &batch) == 0
        && streq (debug, "11")
        && streq (batch, "12"),
        "properties are cut");
    json_decref (part);
    idset_destroy (ranks);

    ranks = idset_decode ("13");
    part = fragment_create (R, all, ranks);
    o = json_object_get (json_object_get (part, "execution"), "properties");
    ok (json_object_size (o) == 1 && !json_object_get (o, "debug"),
        "a property of no rank in the part is left out");
    json_decref (part);
    idset_destroy (ranks);

    ranks = idset_decode ("9");
    errno = 0;
    ok (!fragment_create (R, all, ranks) && errno == EINVAL,
        "ranks that are not in R are EINVAL");
    idset_destroy (ranks);

    ranks = idset_decode ("9-10");
    errno = 0;
    ok (!fragment_create (R, all, ranks) && errno == EINVAL,
        "so are ranks of which some are not");
    idset_destroy (ranks);

    ranks = idset_decode ("");
    errno = 0;
    ok (!fragment_create (R, all, ranks) && errno == EINVAL,
        "so is the empty set");
    idset_destroy (ranks);
    idset_destroy (all);
    json_decref (R);
}

static const char *bad[] = {
    "{}",
    "{\"execution\":{}}",
    "{\"execution\":{\"R_lite\":\"0\"}}",
    "{\"execution\":{\"R_lite\":[{}]}}",
    "{\"execution\":{\"R_lite\":[{\"rank\":0}]}}",
    "{\"execution\":{\"R_lite\":[{\"rank\":\"-1\"}]}}",
    "{\"execution\":{\"R_lite\":[{\"rank\":\"1\"}],\"nodelist\":[]}}",
    "{\"execution\":{\"R_lite\":[{\"rank\":\"1\"}],\"nodelist\":[7]}}",
    "{\"execution\":{\"R_lite\":[{\"rank\":\"1\"}],"
      "\"properties\":{\"p\":7}}}",
    "[]",
};

static void test_bad (void)
{
    struct idset *ranks = idset_decode ("1");
    struct idset *all = idset_decode ("0-1");

    for (int i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        json_t *R = json_loads (bad[i], 0, NULL);

        errno = 0;
        ok (!fragment_create (R, all, ranks) && errno == EPROTO,
            "fragment_create of %s is EPROTO",
            bad[i]);
        json_decref (R);
    }
    errno = 0;
    ok (!fragment_ranks (NULL) && errno == EPROTO,
        "fragment_ranks of NULL is EPROTO");
    idset_destroy (ranks);
    idset_destroy (all);
}

/* Cut 'ranks' out of R, or get all ranks of R if it is NULL, with the first,
 * the second, the third... allocation failing until none is left that could.
 * A call that a failed allocation does not keep from giving what it should is
 * as good as one that says ENOMEM.
 */
static void check_nomem (json_t *R,
                         const struct idset *all,
                         struct idset *ranks,
                         enum heap_mode mode,
                         const char *name)
{
    char *want = ranks ? expect_fragment (R, ranks) : NULL;
    int errors = 0;
    int count = 0;
    bool failed;

    do {
        json_t *orig = json_deep_copy (R);
        long live = heap_live ();
        struct idset *ids = NULL;
        json_t *part = NULL;
        char *got = NULL;
        int errnum;

        errno = 0;
        heap_arm (count, mode);
        if (ranks)
            part = fragment_create (R, all, ranks);
        else
            ids = fragment_ranks (R);
        errnum = errno;
        failed = heap_disarm ();
        if (part)
            got = describe (part);
        if ((part && !streq (got, want))
            || (ids && !idset_equal (ids, all))
            || (!part && !ids && !failed)) {
            diag ("allocation %d: got %s", count, got ? got : "other ranks");
            errors++;
        }
        if (!part && !ids && errnum != ENOMEM) {
            diag ("allocation %d: errno is %s", count, strerror (errnum));
            errors++;
        }
        if (!json_equal (R, orig)) {
            diag ("allocation %d: R has changed", count);
            errors++;
        }
        free (got);
        json_decref (part);
        idset_destroy (ids);
        if (heap_live () != live) {
            diag ("allocation %d: %ld not freed", count, heap_live () - live);
            errors++;
        }
        json_decref (orig);
        count++;
    } while (failed);
    ok (errors == 0 && count > 1,
        "%s: each of %d allocations may fail%s",
        name,
        count - 1,
        mode == HEAP_REST ? ", and all after it" : "");
    free (want);
}

static void test_nomem (void)
{
    for (int i = 0; i < sizeof (good) / sizeof (good[0]); i++) {
        json_t *R = json_loads (good[i], 0, NULL);
        struct idset *all = fragment_ranks (R);
        struct idset *part = idset_copy (all);

        if (idset_count (part) > 2)
            idset_clear (part, idset_first (part));
        if (idset_count (part) > 2)
            idset_clear (part, idset_next (part, idset_first (part)));
        for (enum heap_mode mode = HEAP_REST; mode <= HEAP_ONE; mode++) {
            check_nomem (R, all, NULL, mode, "fragment_ranks");
            check_nomem (R, all, part, mode, "fragment_create");
            check_nomem (R, all, all, mode, "fragment_create of all");
        }
        idset_destroy (part);
        idset_destroy (all);
        json_decref (R);
    }
}

int main (int argc, char *argv[])
{
    plan (NO_PLAN);
    test_good ();
    test_rest ();
    test_bad ();
    test_nomem ();
    done_testing ();
}

// vi:ts=4 sw=4 expandtab
