/* SPDX-License-Identifier: LGPL-3.0 */

/* test/epilog.c - unit tests of epilog.[ch]
 *
 * Every call that is expected to work is followed by a look at the whole
 * ledger: each rank in exactly one of held, ready, gone and kept, and the
 * count of holders right.  Every call that is expected to be refused is
 * followed by a look that nothing has changed.
 *
 * Any allocation can be made to fail, and what is never freed is found: see
 * heap.h.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/modules/job-manager/test/heap.h" // first: it asks for RTLD_NEXT

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <flux/idset.h>

#include "src/common/libtap/tap.h"
#include "src/modules/job-manager/epilog.h"

/* Looking at a ledger
 */

static bool set_is (const struct idset *set, const char *want)
{
    char *s = NULL;
    bool match;

    if (set && !(s = idset_encode (set, IDSET_FLAG_RANGE)))
        BAIL_OUT ("idset_encode: %s", strerror (errno));
    match = s && strcmp (s, want) == 0;
    if (!match)
        diag ("set is '%s', want '%s'", s ? s : "NULL", want);
    free (s);
    return match;
}

static void print_set (FILE *fp, const char *name, const struct idset *set)
{
    char *s = NULL;

    if (set && !(s = idset_encode (set, IDSET_FLAG_RANGE)))
        BAIL_OUT ("idset_encode: %s", strerror (errno));
    fprintf (fp, "%s=%s\n", name, s ? s : "NULL");
    free (s);
}

/* Return all that can be seen of a ledger as text.
 */
static char *state (const struct epilog *ep)
{
    const struct epilog_action *a;
    char *buf = NULL;
    size_t size;
    FILE *fp;

    if (!(fp = open_memstream (&buf, &size)))
        BAIL_OUT ("open_memstream: %s", strerror (errno));
    print_set (fp, "ranks", epilog_ranks (ep));
    print_set (fp, "ready", epilog_ready (ep));
    print_set (fp, "gone", epilog_handed_over (ep));
    fprintf (fp,
             "kept=%u all_gone=%d prologs=%u actions=%zu\n",
             epilog_kept (ep),
             epilog_all_gone (ep),
             epilog_prolog_count (ep),
             epilog_action_count (ep));
    for (size_t i = 0; (a = epilog_action_get (ep, i)); i++) {
        fprintf (fp, "%s %f\n", a->description, a->t_start);
        print_set (fp, "held", a->held);
        print_set (fp, "released", a->released);
    }
    if (fclose (fp) != 0 || !buf)
        BAIL_OUT ("open_memstream: out of memory");
    return buf;
}

static unsigned int count_holders (const struct epilog *ep, unsigned int rank)
{
    unsigned int count = 0;

    for (size_t i = 0; i < epilog_action_count (ep); i++) {
        if (epilog_holds (epilog_action_get (ep, i), rank))
            count++;
    }
    return count;
}

/* Each rank is in one place, and no other rank is anywhere.
 */
static bool is_sound (const struct epilog *ep)
{
    const struct idset *ranks = epilog_ranks (ep);
    unsigned int rank;
    size_t ready = 0;
    size_t gone = 0;

    for (rank = idset_first (ranks); rank != IDSET_INVALID_ID;
         rank = idset_next (ranks, rank)) {
        unsigned int holders = epilog_hold_count (ep, rank);
        int places = 0;

        places += holders > 0;
        places += idset_test (epilog_ready (ep), rank);
        places += idset_test (epilog_handed_over (ep), rank);
        places += epilog_kept (ep) == rank;
        if (holders != count_holders (ep, rank)
            || places > 1
            || (places == 0 && epilog_prolog_count (ep) == 0)) {
            diag ("rank %u is in %d places, %u holders", rank, places, holders);
            return false;
        }
        ready += idset_test (epilog_ready (ep), rank);
        gone += idset_test (epilog_handed_over (ep), rank);
    }
    return idset_count (epilog_ready (ep)) == ready
        && idset_count (epilog_handed_over (ep)) == gone
        && epilog_all_gone (ep) == (gone == idset_count (ranks))
        && !epilog_action_get (ep, epilog_action_count (ep));
}

/* A ledger, and how it looked when a call last worked
 */
struct ledger {
    struct epilog *ep;
    char *state;
    flux_error_t error;
};

static struct idset *ids (const char *s)
{
    struct idset *set = NULL;

    if (s && !(set = idset_decode (s)))
        BAIL_OUT ("idset_decode %s: %s", s, strerror (errno));
    return set;
}

static void setup (struct ledger *l, const char *ranks)
{
    struct idset *set = ids (ranks);

    memset (l, 0, sizeof (*l));
    if (!(l->ep = epilog_create (set)))
        BAIL_OUT ("epilog_create: %s", strerror (errno));
    idset_destroy (set);
    l->state = state (l->ep);
}

static void setup_copy (struct ledger *l, const struct ledger *orig)
{
    memset (l, 0, sizeof (*l));
    if (!(l->ep = epilog_copy (orig->ep)))
        BAIL_OUT ("epilog_copy: %s", strerror (errno));
    l->state = state (l->ep);
}

static void teardown (struct ledger *l)
{
    epilog_destroy (l->ep);
    free (l->state);
}

static void look (struct ledger *l)
{
    free (l->state);
    l->state = state (l->ep);
}

static bool unchanged (const struct ledger *l)
{
    char *now = state (l->ep);
    bool match = strcmp (now, l->state) == 0;

    if (!match)
        diag ("was:\n%sis:\n%s", l->state, now);
    free (now);
    return match;
}

/* The calls, with ranks as text (NULL stays NULL).  Where there is a _check
 * variant, it has to foretell what the call returns and says.
 */

static bool foretold (const struct ledger *l,
                      const char *before,
                      int check_rc,
                      int check_errno,
                      const flux_error_t *check_error,
                      int rc,
                      int errnum)
{
    bool match = check_rc == rc
        && (rc >= 0 || check_errno == errnum)
        && (rc == 0 || strcmp (check_error->text, l->error.text) == 0);

    if (!match)
        diag ("check returned %d '%s', call %d '%s'",
              check_rc,
              check_error->text,
              rc,
              l->error.text);
    if (strcmp (before, l->state) != 0) {
        diag ("check changed the ledger");
        match = false;
    }
    return match;
}

static int start (struct ledger *l, const char *description, const char *ranks)
{
    struct idset *set = ids (ranks);
    flux_error_t error = {0};
    char *before;
    int check_rc;
    int check_errno;
    int errnum;
    int rc;

    check_rc = epilog_start_check (l->ep, description, set, &error);
    check_errno = errno;
    before = state (l->ep);
    l->error.text[0] = '\0';
    rc = epilog_start (l->ep, description, set, 1.5, &l->error);
    errnum = errno;
    if (!foretold (l, before, check_rc, check_errno, &error, rc, errnum))
        fail ("epilog_start_check foretells epilog_start");
    free (before);
    idset_destroy (set);
    errno = errnum;
    return rc;
}

static int release (struct ledger *l,
                    const char *description,
                    const char *ranks)
{
    struct idset *set = ids (ranks);
    flux_error_t error = {0};
    char *before;
    int check_rc;
    int check_errno;
    int errnum;
    int rc;

    check_rc = epilog_release_check (l->ep, description, set, &error);
    check_errno = errno;
    before = state (l->ep);
    l->error.text[0] = '\0';
    rc = epilog_release (l->ep, description, set, &l->error);
    errnum = errno;
    if (!foretold (l, before, check_rc, check_errno, &error, rc, errnum))
        fail ("epilog_release_check foretells epilog_release");
    free (before);
    idset_destroy (set);
    errno = errnum;
    return rc;
}

static int finish (struct ledger *l, const char *description)
{
    flux_error_t error = {0};
    char *before;
    int check_rc;
    int check_errno;
    int errnum;
    int rc;

    check_rc = epilog_finish_check (l->ep, description, &error);
    check_errno = errno;
    before = state (l->ep);
    l->error.text[0] = '\0';
    rc = epilog_finish (l->ep, description, &l->error);
    errnum = errno;
    if (!foretold (l, before, check_rc, check_errno, &error, rc, errnum))
        fail ("epilog_finish_check foretells epilog_finish");
    free (before);
    errno = errnum;
    return rc;
}

static int gone (struct ledger *l, const char *ranks)
{
    struct idset *set = ids (ranks);
    int errnum;
    int rc;

    l->error.text[0] = '\0';
    rc = epilog_gone (l->ep, set, &l->error);
    errnum = errno;
    idset_destroy (set);
    errno = errnum;
    return rc;
}

static int restore_gone (struct ledger *l, const char *ranks)
{
    struct idset *set = ids (ranks);
    int errnum;
    int rc;

    l->error.text[0] = '\0';
    rc = epilog_restore_gone (l->ep, set, &l->error);
    errnum = errno;
    idset_destroy (set);
    errno = errnum;
    return rc;
}

/* The call that returned rc worked, and left this behind.
 */
static void works (struct ledger *l,
                   int rc,
                   const char *ready,
                   const char *handed_over,
                   const char *name)
{
    if (rc != 0)
        diag ("%s: %s", strerror (errno), l->error.text);
    ok (rc == 0
        && is_sound (l->ep)
        && set_is (epilog_ready (l->ep), ready)
        && set_is (epilog_handed_over (l->ep), handed_over),
        "%s: ready '%s', gone '%s'",
        name,
        ready,
        handed_over);
    look (l);
}

/* The call that returned rc was refused with this errno, says why, and has
 * changed nothing.
 */
static void refused (struct ledger *l,
                     int rc,
                     int errnum,
                     const char *text,
                     const char *name)
{
    int saved_errno = errno;
    bool match = rc == -1
        && saved_errno == errnum
        && strstr (l->error.text, text) != NULL
        && unchanged (l);

    if (!match)
        diag ("rc=%d %s: %s", rc, strerror (saved_errno), l->error.text);
    ok (match, "%s is refused: %s", name, l->error.text);
}

static bool action_is (const struct ledger *l,
                       size_t index,
                       const char *description,
                       const char *held,
                       const char *released)
{
    const struct epilog_action *a = epilog_action_get (l->ep, index);

    if (!a || strcmp (a->description, description) != 0) {
        diag ("action %zu is '%s'", index, a ? a->description : "missing");
        return false;
    }
    if (!set_is (a->held, held))
        return false;
    if (!released)
        return a->released == NULL;
    return set_is (a->released, released);
}

/* The tests
 */

static void test_null (void)
{
    struct idset *set = ids ("0-1");
    struct epilog *ep;
    flux_error_t error;

    if (!(ep = epilog_create (set)))
        BAIL_OUT ("epilog_create: %s", strerror (errno));

    errno = EXDEV;
    epilog_destroy (NULL);
    ok (errno == EXDEV, "epilog_destroy of NULL keeps errno");
    epilog_prolog_start (NULL);
    epilog_prolog_finish (NULL);
    pass ("the calls without a return value take NULL");

    errno = 0;
    ok (!epilog_copy (NULL) && errno == EINVAL, "epilog_copy of NULL is EINVAL");
    errno = 0;
    error.text[0] = '\0';
    ok (!epilog_decode (NULL, "0", &error)
        && errno == EINVAL
        && error.text[0] != '\0',
        "epilog_decode without a ledger is EINVAL, with a text");
    errno = 0;
    ok (!epilog_decode (ep, NULL, NULL) && errno == EINVAL,
        "epilog_decode of NULL is EINVAL");
    errno = 0;
    ok (epilog_start (NULL, "a", NULL, 0., NULL) == -1 && errno == EINVAL,
        "epilog_start without a ledger is EINVAL");
    errno = 0;
    ok (epilog_start (ep, NULL, NULL, 0., NULL) == -1 && errno == EINVAL,
        "epilog_start without a description is EINVAL");
    errno = 0;
    ok (epilog_start_check (NULL, "a", NULL, NULL) == -1 && errno == EINVAL,
        "epilog_start_check without a ledger is EINVAL");
    errno = 0;
    ok (epilog_start_check (ep, NULL, NULL, NULL) == -1 && errno == EINVAL,
        "epilog_start_check without a description is EINVAL");
    errno = 0;
    ok (epilog_release (NULL, "a", NULL, NULL) == -1 && errno == EINVAL,
        "epilog_release without a ledger is EINVAL");
    errno = 0;
    ok (epilog_release (ep, NULL, NULL, NULL) == -1 && errno == EINVAL,
        "epilog_release without a description is EINVAL");
    errno = 0;
    ok (epilog_release_check (NULL, "a", NULL, NULL) == -1 && errno == EINVAL,
        "epilog_release_check without a ledger is EINVAL");
    errno = 0;
    ok (epilog_release_check (ep, NULL, NULL, NULL) == -1 && errno == EINVAL,
        "epilog_release_check without a description is EINVAL");
    errno = 0;
    ok (epilog_finish (NULL, "a", NULL) == -1 && errno == EINVAL,
        "epilog_finish without a ledger is EINVAL");
    errno = 0;
    ok (epilog_finish_check (NULL, "a", NULL) == -1 && errno == EINVAL,
        "epilog_finish_check without a ledger is EINVAL");
    errno = 0;
    ok (epilog_set_keep_last (NULL, true) == -1 && errno == EINVAL,
        "epilog_set_keep_last without a ledger is EINVAL");
    errno = 0;
    ok (epilog_gone (NULL, set, NULL) == -1 && errno == EINVAL,
        "epilog_gone without a ledger is EINVAL");
    errno = 0;
    ok (epilog_gone (ep, NULL, NULL) == -1 && errno == EINVAL,
        "epilog_gone without a set is EINVAL");
    errno = 0;
    ok (epilog_restore_gone (NULL, set, NULL) == -1 && errno == EINVAL,
        "epilog_restore_gone without a ledger is EINVAL");

    ok (!epilog_ready (NULL)
        && !epilog_ranks (NULL)
        && !epilog_handed_over (NULL)
        && !epilog_action_get (NULL, 0),
        "queries without a ledger return NULL");
    ok (!epilog_all_gone (NULL)
        && epilog_action_count (NULL) == 0
        && epilog_prolog_count (NULL) == 0
        && epilog_hold_count (NULL, 0) == 0
        && !epilog_holds (NULL, 0)
        && epilog_kept (NULL) == IDSET_INVALID_ID,
        "or nothing, or IDSET_INVALID_ID");
    ok (epilog_action_count (ep) == 0
        && is_sound (ep)
        && set_is (epilog_ready (ep), "0-1"),
        "no refused call has changed the ledger");

    /* without 'error' */
    errno = 0;
    ok (!epilog_decode (ep, "2", NULL) && errno == EINVAL,
        "'error' may be NULL: epilog_decode");
    errno = 0;
    ok (epilog_finish (ep, "a", NULL) == -1 && errno == ENOENT,
        "'error' may be NULL: epilog_finish");
    ok (epilog_start (ep, "a", NULL, 0., NULL) == 0
        && epilog_finish (ep, "b", NULL) == 1
        && epilog_action_count (ep) == 0,
        "'error' may be NULL: finish of the only action");

    epilog_destroy (ep);
    idset_destroy (set);
}

static void test_create (void)
{
    struct idset *set = ids ("3-5,9");
    struct ledger l;

    memset (&l, 0, sizeof (l));
    if (!(l.ep = epilog_create (set)))
        BAIL_OUT ("epilog_create: %s", strerror (errno));
    if (idset_clear (set, 4) < 0 || idset_set (set, 2000) < 0)
        BAIL_OUT ("idset: %s", strerror (errno));
    idset_destroy (set);
    l.state = state (l.ep);
    ok (set_is (epilog_ranks (l.ep), "3-5,9"),
        "the set that a ledger was made from stays the caller's");
    works (&l, 0, "3-5,9", "", "new ledger");
    ok (epilog_action_count (l.ep) == 0
        && epilog_prolog_count (l.ep) == 0
        && epilog_kept (l.ep) == IDSET_INVALID_ID
        && !epilog_all_gone (l.ep),
        "nothing is outstanding in it");
    ok (epilog_hold_count (l.ep, 3) == 0
        && epilog_hold_count (l.ep, 4000) == 0
        && epilog_hold_count (l.ep, IDSET_INVALID_ID) == 0
        && epilog_hold_count (l.ep, UINT_MAX) == 0,
        "nothing holds a rank, be it the job's or not");
    teardown (&l);

    setup (&l, "7");
    works (&l, 0, "7", "", "ledger of one rank");
    works (&l, start (&l, "a", NULL), "", "", "action on it");
    works (&l, finish (&l, "a"), "7", "", "its end");
    works (&l, gone (&l, "7"), "", "7", "handoff of the one rank");
    ok (epilog_all_gone (l.ep), "all have gone");
    teardown (&l);
}

/* A job without ranks: actions hold the job.
 */
static void test_empty (void)
{
    static const char *ranks[] = { NULL, "" };
    struct ledger l;

    for (size_t i = 0; i < sizeof (ranks) / sizeof (ranks[0]); i++) {
        setup (&l, ranks[i]);
        works (&l, 0, "", "", "ledger without ranks");
        ok (epilog_all_gone (l.ep), "all of none have gone");
        works (&l, start (&l, "a", NULL), "", "", "start on all of none");
        works (&l, start (&l, "b", ""), "", "", "start on none");
        refused (&l, start (&l, "c", "0"), EINVAL, "rank 0 ", "start on 0");
        works (&l,
               epilog_set_keep_last (l.ep, true),
               "",
               "",
               "keep-last without ranks");
        ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "nothing is kept");
        works (&l, release (&l, "a", NULL), "", "", "release of all of none");
        works (&l, gone (&l, ""), "", "", "handoff of none");
        works (&l, restore_gone (&l, NULL), "", "", "restore of all of none");
        refused (&l, restore_gone (&l, "0"), EINVAL, "rank 0 ", "restore of 0");
        ok (epilog_action_count (l.ep) == 2, "two actions are outstanding");
        works (&l, finish (&l, "a"), "", "", "one ends");
        works (&l, finish (&l, "b"), "", "", "the other ends");
        teardown (&l);
    }
}

struct decode_case {
    const char *in;
    const char *out;  // NULL if refused, with
    const char *text; // this in the text
};

/* For a job of ranks 0-3,8-11,40.
 */
static const struct decode_case decode_cases[] = {
    { "", "", NULL },
    { "[]", "", NULL },
    { "0", "0", NULL },
    { "[40]", "40", NULL },
    { "0-3,8-11,40", "0-3,8-11,40", NULL },
    { "[0-3,8-11,40]", "0-3,8-11,40", NULL },
    { "0,1,2,3", "0-3", NULL },
    { "0-1,2-3", "0-3", NULL },
    { "8,10", "8,10", NULL },
    { "10-11", "10-11", NULL },
    // not the job's
    { "4", NULL, "rank 4 " },
    { "0-4", NULL, "rank 4 " },
    { "0-3,8-40", NULL, "rank 12 " },
    { "41", NULL, "rank 41 " },
    { "0-4294967294", NULL, "rank 4 " },
    { "2147483647", NULL, "rank 2147483647 " },
    { "2147483648", NULL, "rank 2147483648 " },
    { "4294967294", NULL, "rank 4294967294 " },
    { "4294967295", NULL, "rank 4294967295 " },
    { "40-4294967295", NULL, "rank 41 " },
    // not an idset
    { "4294967296", NULL, "'4294967296'" },
    { "0-4294967297", NULL, "'0-4294967297'" },
    { "18446744073709551616", NULL, "'18446744073709551616'" },
    { "99999999999999999999999999", NULL, "'99999999999999999999999999'" },
    { "00", NULL, "'00'" },
    { "01", NULL, "'01'" },
    { "0,01", NULL, "'01'" },
    { "1-02", NULL, "'1-02'" },
    { "2-1", NULL, "'2-1'" },
    { "1-1", NULL, "'1-1'" },
    { "2,1", NULL, "'1'" },
    { "1,1", NULL, "'1'" },
    { "0-2,2-3", NULL, "'2-3'" },
    { "0-3,1", NULL, "'1'" },
    { "1,,2", NULL, "'" },
    { ",1", NULL, "',1'" },
    { "1,", NULL, "'1,'" },
    { ",", NULL, "','" },
    { "[,]", NULL, "'," },
    { "[1,]", NULL, "'1," },
    { "1-", NULL, "'1-'" },
    { "[1-]", NULL, "'1-" },
    { "-1", NULL, "'-1'" },
    { "-", NULL, "'-'" },
    { "1--2", NULL, "'1--2'" },
    { "1-2-3", NULL, "'1-2-3'" },
    { "[", NULL, "'['" },
    { "]", NULL, "']'" },
    { "[1", NULL, "'[1'" },
    { "1]", NULL, "'1]'" },
    { "[[1]]", NULL, "'[1]" },
    { "[1]]", NULL, "'1]" },
    { "[1],[2]", NULL, "'1],[2" },
    { "0,[2]", NULL, "'[2]'" },
    { "[]1", NULL, "'[]1'" },
    { " 1", NULL, "' 1'" },
    { "1 ", NULL, "'1 '" },
    { "1, 2", NULL, "' 2'" },
    { "+1", NULL, "'+1'" },
    { "0x1", NULL, "'0x1'" },
    { "1e1", NULL, "'1e1'" },
    { "1.0", NULL, "'1.0'" },
    { "1\t", NULL, "'1" },
    { "all", NULL, "'all'" },
    { "\xef\xbc\x91", NULL, "'\xef\xbc\x91'" }, // full-width 1
};

static void test_decode (void)
{
    struct idset *set;
    struct ledger l;
    const struct decode_case *c;

    setup (&l, "0-3,8-11,40");
    for (size_t i = 0; i < sizeof (decode_cases) / sizeof (*c); i++) {
        c = &decode_cases[i];
        l.error.text[0] = '\0';
        errno = 0;
        set = epilog_decode (l.ep, c->in, &l.error);
        if (c->out) {
            ok (set && set_is (set, c->out) && unchanged (&l),
                "'%s' is decoded to '%s'",
                c->in,
                c->out);
        }
        else
            refused (&l, set ? 0 : -1, errno, c->text, c->in);
        ok (c->out || errno == EINVAL, "with EINVAL, if refused");
        idset_destroy (set);
    }
    teardown (&l);

    setup (&l, "0-3");
    set = epilog_decode (l.ep, "\xff", &l.error);
    ok (!set && errno == EINVAL, "a byte that is no character is refused");
    idset_destroy (set);
    teardown (&l);

    setup (&l, "");
    set = epilog_decode (l.ep, "", &l.error);
    ok (set && idset_empty (set), "a job without ranks can name none");
    idset_destroy (set);
    ok (!epilog_decode (l.ep, "0", &l.error) && errno == EINVAL,
        "and no other");
    teardown (&l);
}

/* Of a range that begins among the job's ranks and goes on far beyond,
 * nothing may be allocated for what is beyond.
 */
static void test_decode_bounded (void)
{
    struct ledger l;
    struct idset *set;
    char text[100];
    bool failed;

    setup (&l, "0-3");
    heap_arm (2, HEAP_REST); // one set: its head and its body
    set = epilog_decode (l.ep, "0-4294967294", &l.error);
    failed = heap_disarm ();
    ok (!set && !failed, "0-4294967294 costs no more than the empty set");
    idset_destroy (set);

    memset (text, '9', sizeof (text) - 1);
    text[sizeof (text) - 1] = '\0';
    l.error.text[0] = '\0';
    set = epilog_decode (l.ep, text, &l.error);
    refused (&l, set ? 0 : -1, EINVAL, "'9999", "a number of 99 digits");
    idset_destroy (set);
    teardown (&l);
}

static void test_start (void)
{
    struct ledger l;

    setup (&l, "0-7");
    works (&l, start (&l, "a", "0-3"), "4-7", "", "start of a on 0-3");
    works (&l, start (&l, "b", "2-5"), "6-7", "", "start of b on 2-5");
    works (&l, start (&l, "c", ""), "6-7", "", "start of c on none");
    works (&l, start (&l, "a", "6"), "7", "", "a second start of a, on 6");
    ok (epilog_action_count (l.ep) == 4
        && action_is (&l, 0, "a", "0-3", NULL)
        && action_is (&l, 1, "b", "2-5", NULL)
        && action_is (&l, 2, "c", "", NULL)
        && action_is (&l, 3, "a", "6", NULL),
        "four actions are outstanding, the oldest first");
    ok (epilog_action_get (l.ep, 0)->t_start == 1.5,
        "the time of the start is kept");
    ok (epilog_hold_count (l.ep, 1) == 1
        && epilog_hold_count (l.ep, 2) == 2
        && epilog_hold_count (l.ep, 7) == 0,
        "holders are counted");
    ok (epilog_holds (epilog_action_get (l.ep, 1), 5)
        && !epilog_holds (epilog_action_get (l.ep, 1), 6)
        && !epilog_holds (epilog_action_get (l.ep, 2), 0)
        && !epilog_holds (epilog_action_get (l.ep, 2), UINT_MAX),
        "epilog_holds says who holds a rank");
    refused (&l,
             start (&l, "d", "0-8"),
             EINVAL,
             "rank 8 is not in the job's R",
             "start on a rank that is not the job's");
    refused (&l,
             start (&l, "d", "2147483647"),
             EINVAL,
             "rank 2147483647 ",
             "start on the highest rank there can be");
    works (&l, gone (&l, "7"), "", "7", "7 goes");
    refused (&l,
             start (&l, "d", "6-7"),
             EINVAL,
             "rank 7 was already handed over",
             "late start on a rank that has gone");
    works (&l, start (&l, "d", NULL), "", "7", "late start on all");
    ok (action_is (&l, 4, "d", "0-6", NULL), "holds what has not gone");
    works (&l, start (&l, "", "0"), "", "7", "start with an empty description");
    ok (action_is (&l, 5, "", "0", NULL), "is one like others");
    works (&l, finish (&l, ""), "", "7", "and ends");
    teardown (&l);

    /* late start on what is ready, and when all have gone */
    setup (&l, "0-3");
    works (&l, start (&l, "a", "1"), "0,2-3", "", "1 is held");
    works (&l, start (&l, "b", "2"), "0,3", "", "2 is no longer ready");
    works (&l, gone (&l, "0,3"), "", "0,3", "the rest goes");
    works (&l, finish (&l, "a"), "1", "0,3", "a ends");
    works (&l, finish (&l, "b"), "1-2", "0,3", "b ends");
    works (&l, gone (&l, "1-2"), "", "0-3", "all go");
    works (&l, start (&l, "c", NULL), "", "0-3", "start when all have gone");
    ok (action_is (&l, 0, "c", "", NULL), "holds the job only");
    refused (&l, start (&l, "c", "0"), EINVAL, "rank 0 ", "start on one gone");
    works (&l, finish (&l, "c"), "", "0-3", "and ends");
    teardown (&l);
}

static void test_limit (void)
{
    struct ledger l;
    int good = 0;

    setup (&l, "0-1");
    for (int i = 0; i < EPILOG_ACTIONS_MAX; i++) {
        char name[16];

        snprintf (name, sizeof (name), "a%d", i);
        if (start (&l, name, i % 2 == 0 ? "0" : NULL) == 0)
            good++;
        look (&l);
    }
    ok (good == EPILOG_ACTIONS_MAX && good == 255, "255 actions can start");
    ok (is_sound (l.ep)
        && epilog_hold_count (l.ep, 0) == 255
        && epilog_hold_count (l.ep, 1) == 127,
        "and hold the same rank");
    refused (&l, start (&l, "b", "1"), EOVERFLOW, "255 ", "one more");
    works (&l, finish (&l, "a100"), "", "", "when one has ended");
    works (&l, start (&l, "b", "1"), "", "", "another can start");
    ok (action_is (&l, 99, "a99", "0-1", NULL)
        && action_is (&l, 100, "a101", "0-1", NULL)
        && action_is (&l, 254, "b", "1", NULL),
        "the order is that of the starts");
    good = 0;
    while (epilog_action_count (l.ep) > 0) {
        const struct epilog_action *a = epilog_action_get (l.ep, 0);
        char *name = strdup (a->description);

        if (name && finish (&l, name) == 0)
            good++;
        free (name);
        look (&l);
    }
    ok (good == 255, "all of them end");
    works (&l, 0, "0-1", "", "and hold nothing any more");
    teardown (&l);
}

static void test_release (void)
{
    struct ledger l;

    setup (&l, "0-7");
    refused (&l,
             release (&l, "a", "0"),
             ENOENT,
             "no action 'a' is outstanding (none is)",
             "release when nothing is outstanding");
    works (&l, start (&l, "a", "0-5"), "6-7", "", "a starts on 0-5");
    works (&l, start (&l, "b", "4-7"), "", "", "b starts on 4-7");
    works (&l, release (&l, "a", "0-1"), "0-1", "", "a lets go of 0-1");
    ok (action_is (&l, 0, "a", "2-5", "0-1"), "and holds the rest");
    works (&l, release (&l, "a", "4"), "0-1", "", "a lets go of 4");
    ok (action_is (&l, 0, "a", "2-3,5", "0-1,4")
        && epilog_hold_count (l.ep, 4) == 1,
        "which b still holds");
    works (&l, release (&l, "b", "4-5"), "0-1,4", "", "b lets go of 4-5");
    works (&l, release (&l, "a", "0-1"), "0-1,4", "", "0-1 a second time");
    works (&l, gone (&l, "0-1"), "4", "0-1", "0-1 go");
    works (&l, release (&l, "a", "0-1"), "4", "0-1", "0-1 a third time");
    works (&l,
           release (&l, "a", "0,2,6"),
           "2,4",
           "0-1",
           "of three ranks, one is held by a");
    ok (action_is (&l, 0, "a", "3,5", "0-2,4"),
        "released has only what a held");
    refused (&l,
             release (&l, "a", ""),
             EINVAL,
             "empty",
             "release of the empty set");
    refused (&l,
             release (&l, "a", "3,8"),
             EINVAL,
             "rank 8 is not in the job's R",
             "release of a rank that is not the job's");
    refused (&l,
             release (&l, "c", "3"),
             ENOENT,
             "no action 'c' is outstanding (a, b)",
             "release by an action that never started");
    works (&l, release (&l, "a", NULL), "2-5", "0-1", "a lets go of all");
    ok (epilog_action_count (l.ep) == 2
        && action_is (&l, 0, "a", "", "0-5"),
        "a goes on, and holds the job only");
    works (&l, release (&l, "a", NULL), "2-5", "0-1", "of all, again");
    works (&l, finish (&l, "a"), "2-5", "0-1", "a ends");
    refused (&l, release (&l, "a", NULL), ENOENT, "'a'", "release after the end");
    teardown (&l);

    setup (&l, "0-3");
    works (&l, start (&l, "a", "0-1"), "2-3", "", "a starts on 0-1");
    works (&l, release (&l, "a", "2-3"), "2-3", "", "lets go of others' ranks");
    ok (action_is (&l, 0, "a", "0-1", NULL), "that is: of none yet");
    works (&l, start (&l, "b", ""), "2-3", "", "b starts on none");
    works (&l, release (&l, "b", NULL), "2-3", "", "lets go of all it holds");
    ok (action_is (&l, 1, "b", "", NULL), "that is: of none yet");
    teardown (&l);
}

static void test_finish (void)
{
    struct ledger l;

    setup (&l, "0-3");
    refused (&l,
             finish (&l, "a"),
             ENOENT,
             "no action 'a' is outstanding (none is)",
             "finish when nothing is outstanding");
    refused (&l, finish (&l, NULL), ENOENT, "none is", "finish without a name");
    works (&l, start (&l, "a", NULL), "", "", "a starts on all");
    works (&l, start (&l, "b", "1-2"), "", "", "b starts on 1-2");
    works (&l, finish (&l, "a"), "0,3", "", "a ends");
    works (&l, gone (&l, "0"), "3", "0", "0 goes");
    works (&l, finish (&l, "b"), "1-3", "0", "b ends");
    refused (&l, finish (&l, "b"), ENOENT, "'b'", "finish after the end");
    ok (epilog_action_count (l.ep) == 0, "no action is outstanding");
    works (&l, gone (&l, "1-3"), "", "0-3", "all go");
    ok (epilog_all_gone (l.ep), "all have gone");
    teardown (&l);

    /* one description, several actions: the oldest answers */
    setup (&l, "0-3");
    works (&l, start (&l, "a", "0-1"), "2-3", "", "a starts on 0-1");
    works (&l, start (&l, "a", "1-2"), "3", "", "a starts on 1-2");
    works (&l, start (&l, "b", "3"), "", "", "b starts on 3");
    works (&l, release (&l, "a", "1-2"), "", "", "a lets go of 1-2");
    ok (action_is (&l, 0, "a", "0", "1") && action_is (&l, 1, "a", "1-2", NULL),
        "the oldest a did");
    works (&l, finish (&l, "a"), "0", "", "a ends");
    ok (epilog_action_count (l.ep) == 2
        && action_is (&l, 0, "a", "1-2", NULL)
        && action_is (&l, 1, "b", "3", NULL),
        "the oldest a did");
    works (&l, release (&l, "a", "1"), "0-1", "", "a lets go of 1");
    works (&l, finish (&l, "a"), "0-2", "", "a ends");
    refused (&l, release (&l, "a", "3"), ENOENT, "(b)", "a third a");
    teardown (&l);
}

/* A finish that matches nothing ends the only action, but never one of two.
 */
static void test_finish_only (void)
{
    static const char *wrong[] = { "x", "", "A", "aa", NULL };
    struct ledger l;
    int rc;

    for (size_t i = 0; i < sizeof (wrong) / sizeof (wrong[0]); i++) {
        const char *name = wrong[i] ? wrong[i] : "";

        setup (&l, "0-3");
        works (&l, start (&l, "a", NULL), "", "", "a starts");
        rc = finish (&l, wrong[i]);
        ok (rc == 1
            && strstr (l.error.text, "'a'") != NULL
            && strstr (l.error.text, name) != NULL,
            "finish of '%s' ends it: %s",
            name,
            l.error.text);
        works (&l, 0, "0-3", "", "it holds nothing");
        ok (epilog_action_count (l.ep) == 0, "no action is outstanding");
        refused (&l, finish (&l, wrong[i]), ENOENT, "none is", "once more");

        works (&l, start (&l, "a", "0"), "1-3", "", "a starts");
        works (&l, start (&l, "b", "1"), "2-3", "", "b starts");
        refused (&l, finish (&l, wrong[i]), ENOENT, "(a, b)", "with two");
        refused (&l,
                 release (&l, "x", NULL),
                 ENOENT,
                 "(a, b)",
                 "partial finish with two");
        works (&l, finish (&l, "a"), "0,2-3", "", "a ends");
        refused (&l,
                 release (&l, "x", NULL),
                 ENOENT,
                 "(b)",
                 "partial finish with one");
        teardown (&l);
    }

    /* twice the same description is two actions */
    setup (&l, "0-3");
    works (&l, start (&l, "a", "0"), "1-3", "", "a starts");
    works (&l, start (&l, "a", "1"), "2-3", "", "a starts again");
    refused (&l, finish (&l, NULL), ENOENT, "(a, a)", "finish without a name");
    teardown (&l);

    /* 'error' is not touched by a finish that matches */
    setup (&l, "0");
    works (&l, start (&l, "a", NULL), "", "", "a starts");
    works (&l, finish (&l, "a"), "0", "", "a ends");
    ok (l.error.text[0] == '\0', "there is nothing to say about it");
    teardown (&l);
}

/* A text is cut rather than overrun, and not within a character.
 */
static void test_text (void)
{
    char name[400];
    struct ledger l;
    int rc;

    name[0] = 'x'; // so that a cut at any even place is within a character
    for (size_t i = 1; i + 2 < sizeof (name); i += 2)
        memcpy (name + i, "\xc3\xa4", 2); // a umlaut
    name[sizeof (name) - 1] = '\0';

    setup (&l, "0-3");
    works (&l, start (&l, name, "0"), "1-3", "", "long description");
    ok (action_is (&l, 0, name, "0", NULL), "is kept whole");
    rc = finish (&l, name + 1);
    ok (rc == 1
        && memchr (l.error.text, '\0', sizeof (l.error.text)) != NULL
        && strstr (l.error.text, "\xc3\xa4'") != NULL
        && strstr (l.error.text, "\xc3'") == NULL,
        "a text that quotes it is cut: %s",
        l.error.text);
    look (&l);
    for (int i = 0; i < 20; i++) {
        snprintf (name, sizeof (name), "description-of-action-%d", i);
        works (&l, start (&l, name, ""), "0-3", "", name);
    }
    refused (&l,
             finish (&l, "x"),
             ENOENT,
             "(description-of-action-0, ",
             "finish that matches none of many");
    ok (strlen (l.error.text) < sizeof (l.error.text) - 1
        && strstr (l.error.text, "...)") != NULL,
        "the text names some, says that there are more, and is whole");
    teardown (&l);
}

static void test_keep_last (void)
{
    struct ledger l;

    setup (&l, "3-6");
    works (&l, epilog_set_keep_last (l.ep, true), "3-6", "", "keep last");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "without an action: no effect");
    works (&l, start (&l, "a", NULL), "", "", "a starts on all");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "what is held isn't kept");
    works (&l, release (&l, "a", "5"), "5", "", "a lets go of 5");
    works (&l, gone (&l, "5"), "", "5", "5 goes");
    works (&l, release (&l, "a", "3,6"), "3,6", "5", "a lets go of 3,6");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "4 is held and can go last");
    works (&l, release (&l, "a", "4"), "4,6", "5", "a lets go of 4");
    ok (epilog_kept (l.ep) == 3, "the lowest is kept");
    refused (&l,
             gone (&l, "3-4"),
             EINVAL,
             "rank 3 may not go now",
             "handoff of the one kept");
    works (&l, gone (&l, "4,6"), "", "4-6", "the rest goes");
    ok (epilog_kept (l.ep) == 3 && !epilog_all_gone (l.ep), "3 is still kept");
    works (&l, start (&l, "b", ""), "", "4-6", "b starts on none");
    works (&l, finish (&l, "a"), "", "4-6", "a ends");
    ok (epilog_kept (l.ep) == 3, "while any action is outstanding 3 is kept");
    works (&l, start (&l, "c", "3"), "", "4-6", "late start on the one kept");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "makes it held, not kept");
    works (&l, finish (&l, "b"), "", "4-6", "b ends");
    works (&l, release (&l, "c", NULL), "", "4-6", "c lets go of it");
    ok (epilog_kept (l.ep) == 3, "it is kept again");
    works (&l, finish (&l, "c"), "3", "4-6", "the last action ends");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "none is kept");
    works (&l, gone (&l, "3"), "", "3-6", "the last goes");
    works (&l, start (&l, "d", NULL), "", "3-6", "start when all have gone");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "there is none to keep");
    teardown (&l);

    /* ready before, and asked to keep later, and no longer */
    setup (&l, "0-3");
    works (&l, start (&l, "a", ""), "0-3", "", "a starts on none");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "by default none is kept");
    works (&l, epilog_set_keep_last (l.ep, true), "1-3", "", "keep last");
    ok (epilog_kept (l.ep) == 0, "0 is kept");
    works (&l, epilog_set_keep_last (l.ep, true), "1-3", "", "and again");
    works (&l, start (&l, "b", "2"), "0-1,3", "", "b starts on 2");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "2 is held and can go last");
    works (&l, gone (&l, "0"), "1,3", "0", "0 goes");
    works (&l, finish (&l, "b"), "2-3", "0", "b ends");
    ok (epilog_kept (l.ep) == 1, "the lowest that has not gone is kept");
    works (&l, epilog_set_keep_last (l.ep, false), "1-3", "0", "don't keep");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "none is kept");
    works (&l, gone (&l, "1-3"), "", "0-3", "all go under an open action");
    teardown (&l);

    /* a mistyped finish is an end too */
    setup (&l, "0-1");
    works (&l, epilog_set_keep_last (l.ep, true), "0-1", "", "keep last");
    works (&l, start (&l, "a", ""), "1", "", "a starts on none");
    ok (epilog_kept (l.ep) == 0, "0 is kept");
    ok (finish (&l, NULL) == 1, "a ends by a finish without a name");
    works (&l, 0, "0-1", "", "none is kept");
    teardown (&l);
}

static void test_prolog (void)
{
    struct ledger l;

    setup (&l, "0-3");
    epilog_prolog_finish (l.ep);
    ok (epilog_prolog_count (l.ep) == 0, "a finish without a start: no effect");
    epilog_prolog_start (l.ep);
    epilog_prolog_start (l.ep);
    works (&l, 0, "", "", "two prologs are outstanding");
    ok (epilog_prolog_count (l.ep) == 2, "two are counted");
    refused (&l, gone (&l, "0"), EINVAL, "rank 0 may not go now", "handoff");
    works (&l, gone (&l, ""), "", "", "handoff of none");
    works (&l, start (&l, "a", "1"), "", "", "a starts on 1");
    works (&l, start (&l, "b", NULL), "", "", "b starts on all");
    works (&l, release (&l, "b", "2-3"), "", "", "b lets go of 2-3");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "", "", "one prolog has ended");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "2-3", "", "the other has ended");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "2-3", "", "a finish too many");
    epilog_prolog_start (l.ep);
    works (&l, 0, "", "", "a prolog starts late");
    works (&l, restore_gone (&l, "2"), "", "2", "a record of 2 counts still");
    works (&l, finish (&l, "b"), "", "2", "b ends");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "0,3", "2", "the prolog has ended");
    teardown (&l);

    /* with one kept back */
    setup (&l, "0-3");
    works (&l, epilog_set_keep_last (l.ep, true), "0-3", "", "keep last");
    epilog_prolog_start (l.ep);
    works (&l, 0, "", "", "a prolog starts");
    works (&l, start (&l, "a", ""), "", "", "a starts under it");
    refused (&l, gone (&l, "0"), EINVAL, "rank 0 ", "handoff");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "1-3", "", "the prolog has ended");
    ok (epilog_kept (l.ep) == 0, "0 is kept");
    teardown (&l);
}

static void test_gone (void)
{
    struct idset *wide;
    struct ledger l;

    setup (&l, "0-7");
    works (&l, start (&l, "a", "0-3"), "4-7", "", "a starts on 0-3");
    refused (&l, gone (&l, "3-4"), EINVAL, "rank 3 may not go now", "one held");
    refused (&l, gone (&l, "4-8"), EINVAL, "rank 8 may not", "one not the job's");
    works (&l, gone (&l, "5"), "4,6-7", "5", "5 goes");
    refused (&l, gone (&l, "4-5"), EINVAL, "rank 5 may not", "one that has gone");
    works (&l, gone (&l, ""), "4,6-7", "5", "none go");
    works (&l,
           epilog_gone (l.ep, epilog_ready (l.ep), NULL),
           "",
           "4-7",
           "the ledger's own ready set goes");
    works (&l,
           epilog_gone (l.ep, epilog_ready (l.ep), NULL),
           "",
           "4-7",
           "and again, empty");
    works (&l, finish (&l, "a"), "0-3", "4-7", "a ends");
    if (!(wide = idset_create (100000, 0)) || idset_range_set (wide, 0, 1) < 0)
        BAIL_OUT ("idset: %s", strerror (errno));
    works (&l,
           epilog_gone (l.ep, wide, NULL),
           "2-3",
           "0-1,4-7",
           "a set with a wider universe goes");
    if (idset_set (wide, 99999) < 0 || idset_range_clear (wide, 0, 1) < 0)
        BAIL_OUT ("idset: %s", strerror (errno));
    refused (&l,
             epilog_gone (l.ep, wide, &l.error),
             EINVAL,
             "rank 99999 ",
             "a rank far beyond");
    idset_destroy (wide);
    works (&l, gone (&l, "2-3"), "", "0-7", "the rest goes");
    ok (epilog_all_gone (l.ep), "all have gone");
    teardown (&l);
}

static void test_restore (void)
{
    struct ledger l;

    setup (&l, "0-7");
    works (&l, start (&l, "a", NULL), "", "", "a starts on all");
    works (&l, start (&l, "b", "2-4"), "", "", "b starts on 2-4");
    works (&l, release (&l, "b", "4"), "", "", "b lets go of 4");
    works (&l, restore_gone (&l, "3-5"), "", "3-5", "3-5 went, says a record");
    ok (action_is (&l, 0, "a", "0-2,6-7", NULL) && action_is (&l, 1, "b", "2", "4"),
        "no action holds them, or let go of them");
    ok (epilog_hold_count (l.ep, 3) == 0, "nothing holds them");
    works (&l, restore_gone (&l, "3-5"), "", "3-5", "the record is repeated");
    works (&l, restore_gone (&l, ""), "", "3-5", "a record of none");
    refused (&l,
             restore_gone (&l, "2,8"),
             EINVAL,
             "rank 8 is not in the job's R",
             "a record of a rank that is not the job's");
    refused (&l, start (&l, "c", "3"), EINVAL, "rank 3 was", "late start");
    works (&l, release (&l, "a", "3"), "", "3-5", "a lets go of one that went");
    works (&l, release (&l, "a", "6"), "6", "3-5", "and of 6");
    works (&l, restore_gone (&l, "6-7"), "", "3-7", "6, ready, and 7, held, went");
    ok (action_is (&l, 0, "a", "0-2", "6"), "only 6 was let go of");
    works (&l, restore_gone (&l, NULL), "", "0-7", "all went");
    ok (epilog_all_gone (l.ep)
        && epilog_action_count (l.ep) == 2
        && action_is (&l, 0, "a", "", "6"),
        "the actions go on");
    works (&l, finish (&l, "b"), "", "0-7", "b ends");
    works (&l, finish (&l, "a"), "", "0-7", "a ends");
    teardown (&l);

    /* the kept rank; a set of the ledger's own */
    setup (&l, "0-3");
    works (&l, epilog_set_keep_last (l.ep, true), "0-3", "", "keep last");
    works (&l, start (&l, "a", ""), "1-3", "", "a starts on none");
    works (&l, restore_gone (&l, "0"), "2-3", "0", "the one kept went");
    ok (epilog_kept (l.ep) == 1, "another is kept");
    works (&l,
           epilog_restore_gone (l.ep, epilog_ready (l.ep), NULL),
           "",
           "0,2-3",
           "the ledger's own ready set went");
    works (&l, restore_gone (&l, "1"), "", "0-3", "the last one went");
    ok (epilog_kept (l.ep) == IDSET_INVALID_ID, "none is kept");
    teardown (&l);

    setup (&l, "0-3");
    works (&l, start (&l, "a", "0-2"), "3", "", "a starts on 0-2");
    works (&l,
           epilog_restore_gone (l.ep, epilog_action_get (l.ep, 0)->held, NULL),
           "3",
           "0-2",
           "an action's own held set went");
    works (&l,
           epilog_restore_gone (l.ep, epilog_ranks (l.ep), NULL),
           "",
           "0-3",
           "the job's own ranks went");
    teardown (&l);

    /* the last that was held went: what is ready is the last */
    setup (&l, "0-3");
    works (&l, epilog_set_keep_last (l.ep, true), "0-3", "", "keep last");
    works (&l, start (&l, "a", "3"), "0-2", "", "a starts on 3");
    works (&l, restore_gone (&l, "3"), "1-2", "3", "3 went");
    ok (epilog_kept (l.ep) == 0, "0 is kept");
    teardown (&l);
}

/* The ledger's own sets may be passed to any call.
 */
static void test_own_sets (void)
{
    const struct epilog_action *a;
    struct ledger l;

    setup (&l, "0-7");
    works (&l,
           epilog_start (l.ep, "a", epilog_ranks (l.ep), 0., NULL),
           "",
           "",
           "start on the job's ranks");
    works (&l, release (&l, "a", "0-5"), "0-5", "", "a lets go of 0-5");
    works (&l,
           epilog_start (l.ep, "b", epilog_ready (l.ep), 0., NULL),
           "",
           "",
           "start on what is ready");
    ok (action_is (&l, 1, "b", "0-5", NULL), "holds that");
    a = epilog_action_get (l.ep, 1);
    works (&l,
           epilog_start (l.ep, "c", a->held, 0., NULL),
           "",
           "",
           "start on what b holds");
    works (&l, release (&l, "b", "0,2"), "", "", "b lets go of 0,2");
    a = epilog_action_get (l.ep, 1);
    works (&l,
           epilog_release (l.ep, "c", a->held, NULL),
           "",
           "",
           "release of what b holds");
    ok (action_is (&l, 2, "c", "0,2", "1,3-5"), "leaves c the rest");
    a = epilog_action_get (l.ep, 2);
    works (&l,
           epilog_release (l.ep, "c", a->held, NULL),
           "0,2",
           "",
           "release of what c itself holds");
    ok (action_is (&l, 2, "c", "", "0-5"), "leaves it none");
    a = epilog_action_get (l.ep, 1);
    works (&l,
           epilog_release (l.ep, a->description, NULL, NULL),
           "0-5",
           "",
           "release by the action's own description");
    a = epilog_action_get (l.ep, 2);
    works (&l,
           epilog_finish (l.ep, a->description, NULL),
           "0-5",
           "",
           "finish by the action's own description");
    a = epilog_action_get (l.ep, 0);
    works (&l,
           epilog_start (l.ep, a->description, NULL, 0., NULL),
           "",
           "",
           "start by an action's own description");
    teardown (&l);
}

static void test_copy (void)
{
    struct ledger l;
    struct ledger c;

    setup (&l, "0-7");
    works (&l, epilog_set_keep_last (l.ep, true), "0-7", "", "keep last");
    works (&l, start (&l, "a", NULL), "", "", "a starts");
    works (&l, start (&l, "b", ""), "", "", "b starts");
    works (&l, release (&l, "a", "4-7"), "4-7", "", "a lets go of 4-7");
    works (&l, gone (&l, "7"), "4-6", "7", "7 goes");
    epilog_prolog_start (l.ep);
    works (&l, 0, "", "7", "a prolog starts");
    setup_copy (&c, &l);
    ok (strcmp (c.state, l.state) == 0, "a copy looks the same");
    epilog_prolog_finish (l.ep);
    works (&l, 0, "4-6", "7", "original: the prolog has ended");
    works (&c, 0, "", "7", "copy: it has not");
    epilog_prolog_finish (c.ep);
    works (&c, 0, "4-6", "7", "copy: the prolog has ended");

    works (&c, release (&c, "a", NULL), "1-6", "7", "copy: a lets go");
    ok (epilog_kept (c.ep) == 0 && epilog_kept (l.ep) == IDSET_INVALID_ID,
        "copy: one is kept");
    works (&c, start (&c, "c", "0-1"), "2-6", "7", "copy: c starts");
    works (&c, start (&c, "d", "0-1"), "2-6", "7", "copy: d starts");
    epilog_prolog_start (c.ep);
    ok (unchanged (&l), "the original is as it was");
    look (&c);
    works (&l, finish (&l, "b"), "4-6", "7", "original: b ends");
    works (&l, start (&l, "e", "6"), "4-5", "7", "original: e starts");
    works (&l, gone (&l, "4"), "5", "4,7", "original: 4 goes");
    ok (unchanged (&c), "the copy is as it was");
    teardown (&l);
    ok (unchanged (&c), "also when the original is destroyed");
    epilog_prolog_finish (c.ep);
    works (&c, 0, "2-6", "7", "copy: the prolog has ended");
    teardown (&c);

    /* one kept, and no ranks at all */
    setup (&l, "5,9");
    works (&l, start (&l, "a", ""), "5,9", "", "a starts on none");
    works (&l, epilog_set_keep_last (l.ep, true), "9", "", "keep last");
    setup_copy (&c, &l);
    works (&c, 0, "9", "", "a copy keeps the rank too");
    works (&c, finish (&c, "a"), "5,9", "", "until the action ends");
    teardown (&c);
    teardown (&l);

    setup (&l, NULL);
    setup_copy (&c, &l);
    works (&c, start (&c, "a", NULL), "", "", "copy of a ledger without ranks");
    teardown (&c);
    teardown (&l);
}

/* Ranks far apart, and high.
 */
static void test_sparse (void)
{
    struct ledger l;

    setup (&l, "1000000-1000003");
    works (&l, start (&l, "a", NULL), "", "", "a starts on all");
    refused (&l,
             start (&l, "b", "999999"),
             EINVAL,
             "rank 999999 ",
             "start on a rank just below");
    refused (&l,
             start (&l, "b", "1000004"),
             EINVAL,
             "rank 1000004 ",
             "start on a rank just above");
    refused (&l, start (&l, "b", "0-3"), EINVAL, "rank 0 ", "start on 0-3");
    works (&l,
           release (&l, "a", "1000001"),
           "1000001",
           "",
           "a lets go of 1000001");
    ok (epilog_hold_count (l.ep, 1000000) == 1
        && epilog_hold_count (l.ep, 1000001) == 0
        && epilog_hold_count (l.ep, 999999) == 0
        && epilog_hold_count (l.ep, 1000004) == 0
        && epilog_hold_count (l.ep, 0) == 0,
        "holders are counted");
    works (&l, gone (&l, "1000001"), "", "1000001", "it goes");
    works (&l,
           finish (&l, "a"),
           "1000000,1000002-1000003",
           "1000001",
           "a ends");
    teardown (&l);

    setup (&l, "0,63-64,127-128,4095-4096,262143-262144");
    works (&l, start (&l, "a", NULL), "", "", "a starts on all");
    works (&l, start (&l, "b", "63,128,262144"), "", "", "b starts on three");
    works (&l, finish (&l, "a"), "0,64,127,4095-4096,262143", "", "a ends");
    works (&l,
           gone (&l, "0,127,4096"),
           "64,4095,262143",
           "0,127,4096",
           "three go");
    works (&l, start (&l, "c", NULL), "", "0,127,4096", "c starts on all");
    ok (action_is (&l, 1, "c", "63-64,128,4095,262143-262144", NULL),
        "that have not gone");
    works (&l, finish (&l, "b"), "", "0,127,4096", "b ends");
    works (&l,
           release (&l, "c", "262144"),
           "262144",
           "0,127,4096",
           "c lets go of the highest");
    teardown (&l);
}

/* Ranks let go of one at a time, by two actions.
 */
static void test_single (void)
{
    const unsigned int count = 1000;
    struct idset *one;
    struct ledger l;
    int good = 0;

    setup (&l, "0-999");
    works (&l, start (&l, "a", NULL), "", "", "a starts");
    works (&l, start (&l, "b", "500-999"), "", "", "b starts");
    for (unsigned int i = 0; i < count; i++) {
        bool free_now = i < count / 2;

        if (!(one = idset_create (0, 0)) || idset_set (one, i) < 0)
            BAIL_OUT ("idset: %s", strerror (errno));
        if (epilog_release (l.ep, "a", one, NULL) == 0
            && idset_count (epilog_ready (l.ep)) == (free_now ? 1 : 0)
            && epilog_gone (l.ep, one, NULL) == (free_now ? 0 : -1))
            good++;
        idset_destroy (one);
    }
    ok (good == 1000, "a lets go of one rank after another");
    works (&l, 0, "", "0-499", "half of them have gone");
    works (&l, finish (&l, "b"), "500-999", "0-499", "b ends");
    teardown (&l);
}

/* Memory.  A step makes one call and returns -1 if it fails.
 */
struct step {
    const char *name;
    int (*call) (struct ledger *l, const struct idset *set);
    int allocations; // at least
};

/* A ledger that gets its ranks late is as one that had them from the start.
 */
static void test_set_ranks (void)
{
    const char *widths[] = { "0", "0-7", "3,9-12", "1000000-1000003", "" };

    for (size_t i = 0; i < sizeof (widths) / sizeof (widths[0]); i++) {
        struct idset *set = ids (widths[i]);
        struct ledger late;
        struct ledger early;
        char *before;
        char *after;
        char *want;
        int count = 0;
        int rc;

        setup (&late, "");
        setup (&early, widths[i]);
        for (int j = 0; j < 2; j++) {
            struct epilog *ep = j ? early.ep : late.ep;

            epilog_prolog_start (ep);
            epilog_set_keep_last (ep, true);
            epilog_start (ep, "a", NULL, 1., NULL);
            epilog_start (ep, "b", NULL, 2., NULL);
            epilog_start (ep, "a", NULL, 3., NULL);
            epilog_finish (ep, "a", NULL);
        }
        before = state (late.ep);
        for (;;) {
            bool failed;

            heap_arm (count, HEAP_REST);
            rc = epilog_set_ranks (late.ep, set);
            failed = heap_disarm ();
            after = state (late.ep);
            if (!failed)
                break;
            if (rc != -1 || errno != ENOMEM || strcmp (before, after) != 0)
                diag ("allocation %d: rc=%d %s", count, rc, after);
            if (rc != -1 || strcmp (before, after) != 0)
                break;
            free (after);
            count++;
        }
        want = state (early.ep);
        ok (rc == 0 && count > 0 && strcmp (after, want) == 0,
            "ranks %s may come late, each of %d allocations may fail",
            widths[i][0] ? widths[i] : "(none)",
            count);
        errno = 0;
        ok (idset_empty (set)
            || (epilog_set_ranks (late.ep, set) == -1 && errno == EINVAL),
            "they come once");
        free (before);
        free (after);
        free (want);
        teardown (&late);
        teardown (&early);
        idset_destroy (set);
    }
    errno = 0;
    ok (epilog_set_ranks (NULL, NULL) == -1 && errno == EINVAL,
        "epilog_set_ranks without a ledger is EINVAL");
}

static int step_copy (struct ledger *l, const struct idset *set)
{
    struct epilog *ep = epilog_copy (l->ep);

    (void)set;
    epilog_destroy (ep);
    return ep ? 0 : -1;
}

static int step_create (struct ledger *l, const struct idset *set)
{
    struct epilog *ep = epilog_create (set);

    (void)l;
    epilog_destroy (ep);
    return ep ? 0 : -1;
}

static int step_decode (struct ledger *l, const struct idset *set)
{
    struct idset *ids = epilog_decode (l->ep, "1-2,6", &l->error);

    (void)set;
    idset_destroy (ids);
    return ids ? 0 : -1;
}

static int step_start (struct ledger *l, const struct idset *set)
{
    return epilog_start (l->ep, "new", set, 0., &l->error);
}

static int step_start_all (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_start (l->ep, "new", NULL, 0., &l->error);
}

static int step_release (struct ledger *l, const struct idset *set)
{
    return epilog_release (l->ep, "new", set, &l->error);
}

static int step_release_more (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_release (l->ep, "new", NULL, &l->error);
}

static int step_gone (struct ledger *l, const struct idset *set)
{
    return epilog_gone (l->ep, set, &l->error);
}

static int step_restore (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_restore_gone (l->ep, NULL, &l->error);
}

static int step_keep_last (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_set_keep_last (l->ep, !epilog_action_count (l->ep));
}

static int step_prolog (struct ledger *l, const struct idset *set)
{
    (void)set;
    epilog_prolog_start (l->ep);
    epilog_prolog_finish (l->ep);
    return 0;
}

static int step_finish (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_finish (l->ep, "new", &l->error);
}

static int step_finish_only (struct ledger *l, const struct idset *set)
{
    (void)set;
    return epilog_finish (l->ep, NULL, &l->error) == 1 ? 0 : -1;
}

/* In this order, on a ledger of ranks 0-7 with a set of 1-2,6.
 */
static const struct step steps[] = {
    { "create", step_create, 5 },
    { "copy of a new ledger", step_copy, 5 },
    { "keep last", step_keep_last, 0 },
    { "start on all", step_start_all, 4 },
    { "start on some", step_start, 3 },
    { "start on all, a third", step_start_all, 4 },
    { "decode", step_decode, 1 },
    { "release of some", step_release, 1 },
    { "release of the rest", step_release_more, 0 },
    { "copy of all that", step_copy, 10 },
    { "finish", step_finish, 0 },
    { "finish, a second", step_finish, 0 },
    { "release, of the third", step_release, 1 },
    { "handoff", step_gone, 0 },
    { "prolog", step_prolog, 0 },
    { "copy with some gone", step_copy, 10 },
    { "restore", step_restore, 0 },
    { "finish of the only action", step_finish_only, 0 },
    { "start when all have gone", step_start_all, 3 },
};

/* Make the step with the first, the second, the third... allocation failing
 * until it works.
 */
static void make_step (struct ledger *l,
                       const struct step *step,
                       const struct idset *set)
{
    int count = 0;
    bool good = true;

    for (;;) {
        long live = heap.live;
        int errnum;
        bool failed;
        int rc;

        l->error.text[0] = '\0';
        heap_arm (count, HEAP_REST);
        errno = 0;
        rc = step->call (l, set);
        errnum = errno;
        failed = heap_disarm ();
        if (!failed) {
            if (rc < 0) {
                diag ("%s: %s", strerror (errnum), l->error.text);
                good = false;
            }
            break;
        }
        if (rc != -1 || errnum != ENOMEM || !unchanged (l)) {
            diag ("allocation %d: rc=%d %s", count, rc, strerror (errnum));
            good = false;
        }
        if (strncmp (step->name, "copy", 4) == 0 && heap.live != live) {
            diag ("allocation %d: %ld not freed", count, heap.live - live);
            good = false;
        }
        if (rc != -1)
            break;
        count++;
    }
    ok (good && count >= step->allocations && is_sound (l->ep),
        "%s: each of %d allocations may fail",
        step->name,
        count);
    ok (step->allocations > 0 || count == 0,
        "%s: %s memory",
        step->name,
        step->allocations > 0 ? "takes" : "takes no");
    look (l);
}

static void test_nomem (void)
{
    long live = heap.live;
    struct idset *set = ids ("1-2,6");
    struct ledger l;

    ok (heap.live > live, "allocations are seen here");
    setup (&l, "0-7");
    for (size_t i = 0; i < sizeof (steps) / sizeof (steps[0]); i++)
        make_step (&l, &steps[i], set);
    ok (set_is (epilog_handed_over (l.ep), "0-7")
        && epilog_action_count (l.ep) == 1,
        "all steps were made");
    teardown (&l);
    idset_destroy (set);
    ok (heap.live == live, "what was allocated was freed");

    /* every start makes room for itself, however many there are */
    setup (&l, "0-7");
    set = ids ("3");
    for (int i = 0; i < 40; i++) {
        const struct step step = { "start", step_start, 3 };

        make_step (&l, &step, set);
    }
    ok (epilog_hold_count (l.ep, 3) == 40, "40 actions have started");
    teardown (&l);
    idset_destroy (set);
    ok (heap.live == live, "what was allocated was freed");
}

static void test_leak (void (*test) (void), const char *name)
{
    long live = heap.live;

    test ();
    ok (heap.live == live,
        "%s: what was allocated was freed (%ld)",
        name,
        heap.live - live);
}

int main (int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    plan (NO_PLAN);
    printf ("# stdio has its buffer\n");

    test_leak (test_null, "null");
    test_leak (test_create, "create");
    test_leak (test_empty, "empty");
    test_leak (test_decode, "decode");
    test_leak (test_decode_bounded, "decode bounded");
    test_leak (test_start, "start");
    test_leak (test_limit, "limit");
    test_leak (test_release, "release");
    test_leak (test_finish, "finish");
    test_leak (test_finish_only, "finish only");
    test_leak (test_text, "text");
    test_leak (test_keep_last, "keep last");
    test_leak (test_prolog, "prolog");
    test_leak (test_gone, "gone");
    test_leak (test_restore, "restore");
    test_leak (test_own_sets, "own sets");
    test_leak (test_copy, "copy");
    test_leak (test_sparse, "sparse");
    test_leak (test_single, "single");
    test_leak (test_set_ranks, "set ranks");
    test_leak (test_nomem, "nomem");

    done_testing ();
}

// vi:ts=4 sw=4 expandtab
