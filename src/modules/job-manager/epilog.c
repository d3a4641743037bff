/* SPDX-License-Identifier: LGPL-3.0 */

/* epilog.c - which epilog action holds which rank of a job
 *
 * What each call means is said in epilog.h.  How it is kept:
 *
 * - Each action has the set of ranks that it holds, so that an action can let
 *   go of ranks that others hold too.
 * - 'holds' counts, per rank, the actions that hold it.  When a count drops
 *   to zero the rank becomes ready, at once and alone: nothing is recomputed.
 * - Sets are as wide as the job's highest rank, and making an empty one that
 *   wide costs far more than putting one rank in.  'none' is such a set, for
 *   idset_copy() to clone.
 * - A set that keeps count of its ids looks four times at each that is put in
 *   or taken out.  'none' does not, nor do its clones: what is counted is
 *   counted here.
 *
 * Calls that need memory get all of it first, then change the ledger with
 * steps that cannot fail: setting or clearing an id within the width of a set
 * allocates nothing.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <flux/idset.h>

#include "src/common/libutil/errprintf.h"

#include "epilog.h"

/* Texts are short (flux_error_t): quote no more bytes of a value than this.
 */
#define QUOTE_MAX 32

struct epilog {
    struct idset *ranks;    // of the job; never changes
    struct idset *none;     // empty and as wide as 'ranks', for cloning
    struct idset *ready;
    struct idset *gone;
    size_t rank_count;
    size_t ready_count;
    size_t gone_count;
    unsigned int kept;      // kept back from 'ready', or IDSET_INVALID_ID
    bool keep_last;

    unsigned int first;     // lowest rank of the job
    unsigned int last;      // highest
    uint8_t *holds;         // indexed by rank - first

    struct epilog_action **actions; // oldest first
    size_t count;
    size_t size;

    unsigned int prologs;
};

/* Bytes of 's' to quote: not more than 'max', and whole UTF-8 characters.
 */
static int quote_len (const char *s, size_t max)
{
    size_t len = strnlen (s, max + 1);

    if (len > max) {
        len = max;
        while (len > 0 && (s[len] & 0xc0) == 0x80)
            len--;
    }
    return len;
}

static void action_destroy (struct epilog_action *a)
{
    if (a) {
        int saved_errno = errno;
        free (a->description);
        idset_destroy (a->held);
        idset_destroy (a->released);
        free (a);
        errno = saved_errno;
    }
}

static struct epilog_action *action_create (const char *description,
                                            const struct idset *held,
                                            double t_start)
{
    struct epilog_action *a;

    if (!(a = calloc (1, sizeof (*a)))
        || !(a->description = strdup (description))
        || !(a->held = idset_copy (held))) {
        action_destroy (a);
        errno = ENOMEM;
        return NULL;
    }
    a->t_start = t_start;
    return a;
}

static struct epilog_action *action_copy (const struct epilog_action *orig)
{
    struct epilog_action *a;

    if (!(a = action_create (orig->description, orig->held, orig->t_start)))
        return NULL;
    if (orig->released && !(a->released = idset_copy (orig->released))) {
        action_destroy (a);
        errno = ENOMEM;
        return NULL;
    }
    return a;
}

void epilog_destroy (struct epilog *ep)
{
    if (ep) {
        int saved_errno = errno;
        for (size_t i = 0; i < ep->count; i++)
            action_destroy (ep->actions[i]);
        free (ep->actions);
        free (ep->holds);
        idset_destroy (ep->ranks);
        idset_destroy (ep->none);
        idset_destroy (ep->ready);
        idset_destroy (ep->gone);
        free (ep);
        errno = saved_errno;
    }
}

/* Width of 'holds'.
 */
static size_t holds_size (const struct epilog *ep)
{
    return ep->last - ep->first + 1;
}

struct epilog *epilog_create (const struct idset *ranks)
{
    struct epilog *ep;

    if (!(ep = calloc (1, sizeof (*ep))))
        return NULL;
    ep->kept = IDSET_INVALID_ID;
    if (!idset_empty (ranks)) {
        ep->first = idset_first (ranks);
        ep->last = idset_last (ranks);
    }
    if (!(ep->none = idset_create (ep->last + 1, IDSET_FLAG_COUNT_LAZY))
        || !(ep->ranks = idset_copy (ranks ? ranks : ep->none))
        || !(ep->ready = idset_copy (ep->ranks))
        || !(ep->gone = idset_copy (ep->none))
        || !(ep->holds = calloc (holds_size (ep), sizeof (ep->holds[0])))) {
        epilog_destroy (ep);
        errno = ENOMEM;
        return NULL;
    }
    ep->rank_count = ep->ready_count = idset_count (ep->ranks);
    return ep;
}

/* Exchange what two ledgers hold.
 */
static void ledger_swap (struct epilog *a, struct epilog *b)
{
    struct epilog tmp = *a;

    *a = *b;
    *b = tmp;
}

int epilog_set_ranks (struct epilog *ep, const struct idset *ranks)
{
    struct epilog *full;

    if (!ep || !idset_empty (ep->ranks)) {
        errno = EINVAL;
        return -1;
    }
    if (!(full = epilog_create (ranks)))
        return -1;
    for (size_t i = 0; i < ep->count; i++) {
        const struct epilog_action *a = ep->actions[i];

        if (epilog_start (full, a->description, NULL, a->t_start, NULL) < 0) {
            epilog_destroy (full);
            return -1;
        }
    }
    full->prologs = ep->prologs;
    (void)epilog_set_keep_last (full, ep->keep_last);
    ledger_swap (ep, full);
    epilog_destroy (full);
    return 0;
}

struct epilog *epilog_copy (const struct epilog *orig)
{
    struct epilog *ep;
    size_t size;

    if (!orig) {
        errno = EINVAL;
        return NULL;
    }
    size = holds_size (orig);
    if (!(ep = calloc (1, sizeof (*ep))))
        return NULL;
    ep->kept = orig->kept;
    ep->keep_last = orig->keep_last;
    ep->first = orig->first;
    ep->last = orig->last;
    ep->rank_count = orig->rank_count;
    ep->ready_count = orig->ready_count;
    ep->gone_count = orig->gone_count;
    ep->prologs = orig->prologs;
    if (!(ep->none = idset_copy (orig->none))
        || !(ep->ranks = idset_copy (orig->ranks))
        || !(ep->ready = idset_copy (orig->ready))
        || !(ep->gone = idset_copy (orig->gone))
        || !(ep->holds = calloc (size, sizeof (ep->holds[0]))))
        goto nomem;
    memcpy (ep->holds, orig->holds, size * sizeof (ep->holds[0]));
    if (orig->count > 0) {
        if (!(ep->actions = calloc (orig->count, sizeof (ep->actions[0]))))
            goto nomem;
        ep->size = orig->count;
        for (size_t i = 0; i < orig->count; i++) {
            if (!(ep->actions[i] = action_copy (orig->actions[i])))
                goto nomem;
            ep->count++;
        }
    }
    return ep;
nomem:
    epilog_destroy (ep);
    errno = ENOMEM;
    return NULL;
}

/* Idset text
 */

/* Read a number of RFC 22: decimal digits, no sign, no leading zero, of 32
 * bits at most.  Advance *sp past it.
 */
static int parse_number (const char **sp, unsigned int *np)
{
    const char *s = *sp;
    uint64_t n = 0;

    if (*s < '0' || *s > '9')
        return -1;
    if (*s == '0' && s[1] >= '0' && s[1] <= '9')
        return -1;
    while (*s >= '0' && *s <= '9') {
        n = n * 10 + (*s++ - '0');
        if (n > UINT_MAX)
            return -1;
    }
    *np = n;
    *sp = s;
    return 0;
}

/* Are lo to hi the job's, without a look at each?  Most jobs have all ranks
 * from their first to their last.  False means that each is to be looked at.
 */
static bool spans (const struct epilog *ep, unsigned int lo, unsigned int hi)
{
    return ep->rank_count == holds_size (ep)
        && lo >= ep->first
        && hi <= ep->last;
}

/* Put lo-hi, named by a text, in 'ids' if all of it is the job's.  It looks
 * at no more ids than the job has, and none is set before all are known good.
 */
static int add_range (const struct epilog *ep,
                      struct idset *ids,
                      unsigned int lo,
                      unsigned int hi,
                      flux_error_t *error)
{
    unsigned int id = spans (ep, lo, hi) ? hi : lo;

    for (; id < hi; id++) {
        if (!idset_test (ep->ranks, id))
            break;
    }
    if (!idset_test (ep->ranks, id)) {
        errno = EINVAL;
        return errprintf (error, "rank %u is not in the job's R", id);
    }
    return idset_range_set (ids, lo, hi);
}

/* Read what stands between the brackets, up to 'end'.
 */
static int parse_ranges (const struct epilog *ep,
                         struct idset *ids,
                         const char *s,
                         const char *end,
                         flux_error_t *error)
{
    bool first = true;
    unsigned int prev = 0;

    while (s < end) {
        const char *item = s;
        unsigned int lo;
        unsigned int hi;

        if (parse_number (&s, &lo) < 0)
            goto inval;
        hi = lo;
        if (*s == '-') {
            s++;
            if (parse_number (&s, &hi) < 0 || hi <= lo)
                goto inval;
        }
        if (s < end) {
            if (*s != ',' || s + 1 == end)
                goto inval;
            s++;
        }
        if (!first && lo <= prev) {
            errno = EINVAL;
            return errprintf (error,
                              "'%.*s' is repeated or out of order",
                              quote_len (item, QUOTE_MAX),
                              item);
        }
        if (add_range (ep, ids, lo, hi, error) < 0)
            return -1;
        first = false;
        prev = hi;
        continue;
    inval:
        errno = EINVAL;
        return errprintf (error,
                          "'%.*s' is not an idset",
                          quote_len (item, QUOTE_MAX),
                          item);
    }
    return 0;
}

struct idset *epilog_decode (const struct epilog *ep,
                             const char *s,
                             flux_error_t *error)
{
    struct idset *ids;
    const char *end;

    if (!ep || !s) {
        errno = EINVAL;
        errprintf (error, "%s", strerror (errno));
        return NULL;
    }
    end = s + strlen (s);
    if (s[0] == '[' && end - s > 1 && end[-1] == ']') {
        s++;
        end--;
    }
    if (!(ids = idset_copy (ep->none))) {
        errno = ENOMEM;
        errprintf (error, "out of memory");
        return NULL;
    }
    if (parse_ranges (ep, ids, s, end, error) < 0) {
        idset_destroy (ids);
        return NULL;
    }
    return ids;
}

/* Holding and letting go
 */

static void ready_add (struct epilog *ep, unsigned int rank)
{
    (void)idset_set (ep->ready, rank);
    ep->ready_count++;
}

static void ready_remove (struct epilog *ep, unsigned int rank)
{
    (void)idset_clear (ep->ready, rank);
    ep->ready_count--;
}

static void gone_add (struct epilog *ep, unsigned int rank)
{
    (void)idset_set (ep->gone, rank);
    ep->gone_count++;
}

/* Rank is of the job and not gone: one more action holds it.
 */
static void rank_hold (struct epilog *ep, unsigned int rank)
{
    if (ep->holds[rank - ep->first]++ == 0) {
        if (ep->kept == rank)
            ep->kept = IDSET_INVALID_ID;
        else
            ready_remove (ep, rank);
    }
}

/* One action less holds rank.
 */
static void rank_drop (struct epilog *ep, unsigned int rank)
{
    if (--ep->holds[rank - ep->first] == 0)
        ready_add (ep, rank);
}

/* Apply the last-free rule after any change: one rank is kept back exactly
 * while an action is outstanding and nothing is held that could go last.
 */
static void settle (struct epilog *ep)
{
    size_t loose = ep->ready_count + ep->gone_count;
    bool keep;

    if (ep->kept != IDSET_INVALID_ID)
        loose++;
    keep = ep->keep_last
        && ep->count > 0
        && loose == ep->rank_count;
    if (!keep && ep->kept != IDSET_INVALID_ID) {
        ready_add (ep, ep->kept);
        ep->kept = IDSET_INVALID_ID;
    }
    else if (keep && ep->kept == IDSET_INVALID_ID) {
        unsigned int rank = idset_first (ep->ready);

        if (rank != IDSET_INVALID_ID) {
            ep->kept = rank;
            ready_remove (ep, rank);
        }
    }
}

static int check_ranks (const struct epilog *ep,
                        const struct idset *ranks,
                        bool gone_ok,
                        flux_error_t *error)
{
    unsigned int rank = idset_first (ranks);

    if (rank != IDSET_INVALID_ID
        && spans (ep, rank, idset_last (ranks))
        && (gone_ok || ep->gone_count == 0))
        return 0;
    while (rank != IDSET_INVALID_ID) {
        const char *reason = NULL;

        if (!idset_test (ep->ranks, rank))
            reason = "is not in the job's R";
        else if (!gone_ok && idset_test (ep->gone, rank))
            reason = "was already handed over";
        if (reason) {
            errno = EINVAL;
            return errprintf (error, "rank %u %s", rank, reason);
        }
        rank = idset_next (ranks, rank);
    }
    return 0;
}

static int check_args (const struct epilog *ep,
                       const char *description,
                       flux_error_t *error)
{
    if (!ep || !description) {
        errno = EINVAL;
        return errprintf (error, "%s", strerror (errno));
    }
    return 0;
}

int epilog_start_check (const struct epilog *ep,
                        const char *description,
                        const struct idset *ranks,
                        flux_error_t *error)
{
    if (check_args (ep, description, error) < 0)
        return -1;
    if (ep->count >= EPILOG_ACTIONS_MAX) {
        errno = EOVERFLOW;
        return errprintf (error, "%zu actions are outstanding", ep->count);
    }
    return check_ranks (ep, ranks, false, error);
}

static int actions_reserve (struct epilog *ep)
{
    if (ep->count == ep->size) {
        size_t size = ep->size > 0 ? 2 * ep->size : 2;
        void *actions;

        if (!(actions = realloc (ep->actions,
                                 size * sizeof (ep->actions[0])))) {
            errno = ENOMEM;
            return -1;
        }
        ep->actions = actions;
        ep->size = size;
    }
    return 0;
}

/* The set that an action starts with: as wide as the others, whatever the
 * width of 'ranks'.
 */
static struct idset *start_set (const struct epilog *ep,
                                const struct idset *ranks)
{
    struct idset *set;

    if (!(set = idset_copy (ranks ? ep->none : ep->ranks)))
        return NULL;
    if ((ranks && idset_add (set, ranks) < 0)
        || (!ranks && idset_subtract (set, ep->gone) < 0)) {
        idset_destroy (set);
        return NULL;
    }
    return set;
}

/* An action holds all ranks, and none has gone.  'none' becomes what is ready.
 * What 'holds' says of ids that are not the job's does not matter.
 */
static void hold_all (struct epilog *ep, struct idset *none)
{
    for (size_t i = 0; i < holds_size (ep); i++)
        ep->holds[i]++;
    idset_destroy (ep->ready);
    ep->ready = none;
    ep->ready_count = 0;
    ep->kept = IDSET_INVALID_ID;
}

static void hold_each (struct epilog *ep, const struct idset *ranks)
{
    unsigned int rank = idset_first (ranks);

    while (rank != IDSET_INVALID_ID) {
        rank_hold (ep, rank);
        rank = idset_next (ranks, rank);
    }
}

int epilog_start (struct epilog *ep,
                  const char *description,
                  const struct idset *ranks,
                  double t_start,
                  flux_error_t *error)
{
    struct idset *set = NULL;
    struct idset *none = NULL;
    struct epilog_action *a;

    if (epilog_start_check (ep, description, ranks, error) < 0)
        return -1;
    if (actions_reserve (ep) < 0
        || !(none = idset_copy (ep->none))
        || !(set = start_set (ep, ranks))
        || !(a = action_create (description, set, t_start))) {
        idset_destroy (none);
        idset_destroy (set);
        errno = ENOMEM;
        return errprintf (error, "out of memory");
    }
    ep->actions[ep->count++] = a;
    if (!ranks && ep->gone_count == 0)
        hold_all (ep, none);
    else {
        hold_each (ep, set);
        idset_destroy (none);
    }
    settle (ep);
    idset_destroy (set);
    return 0;
}

/* Index of the oldest action with that description, or -1.
 */
static int action_find (const struct epilog *ep, const char *description)
{
    if (description) {
        for (size_t i = 0; i < ep->count; i++) {
            if (strcmp (ep->actions[i]->description, description) == 0)
                return i;
        }
    }
    return -1;
}

/* Say that nothing matches, and what is outstanding, as far as it fits.
 */
static int error_nomatch (const struct epilog *ep,
                          const char *description,
                          flux_error_t *error)
{
    const char *what = description ? description : "";
    char names[80] = "none is";
    size_t len = 0;

    for (size_t i = 0; i < ep->count; i++) {
        const char *name = ep->actions[i]->description;
        const char *sep = i > 0 ? ", " : "";
        int n = quote_len (name, QUOTE_MAX);

        if (len + strlen (sep) + n + strlen (", ...") >= sizeof (names)) {
            (void)snprintf (names + len, sizeof (names) - len, "%s...", sep);
            break;
        }
        len += snprintf (names + len,
                         sizeof (names) - len,
                         "%s%.*s",
                         sep,
                         n,
                         name);
    }
    errno = ENOENT;
    return errprintf (error,
                      "no action '%.*s' is outstanding (%s)",
                      quote_len (what, QUOTE_MAX),
                      what,
                      names);
}

int epilog_release_check (const struct epilog *ep,
                          const char *description,
                          const struct idset *ranks,
                          flux_error_t *error)
{
    if (check_args (ep, description, error) < 0)
        return -1;
    if (ranks && idset_empty (ranks)) {
        errno = EINVAL;
        return errprintf (error, "the set is empty");
    }
    if (check_ranks (ep, ranks, true, error) < 0)
        return -1;
    if (action_find (ep, description) < 0)
        return error_nomatch (ep, description, error);
    return 0;
}

/* Take rank away from 'a', if it holds it.
 */
static bool action_drop (struct epilog *ep,
                         struct epilog_action *a,
                         unsigned int rank)
{
    if (!idset_test (a->held, rank))
        return false;
    (void)idset_clear (a->held, rank);
    rank_drop (ep, rank);
    return true;
}

static void action_drop_all (struct epilog *ep, struct epilog_action *a)
{
    unsigned int rank;

    while ((rank = idset_first (a->held)) != IDSET_INVALID_ID)
        (void)action_drop (ep, a, rank);
}

/* 'a' lets go of 'ranks' and goes on.
 */
static int action_release (struct epilog *ep,
                           struct epilog_action *a,
                           const struct idset *ranks)
{
    unsigned int rank;

    if (!idset_has_intersection (a->held, ranks))
        return 0;
    if (!a->released && !(a->released = idset_copy (ep->none)))
        return -1;
    rank = idset_first (ranks);
    while (rank != IDSET_INVALID_ID) {
        unsigned int next = idset_next (ranks, rank); // may be a->held

        if (action_drop (ep, a, rank))
            (void)idset_set (a->released, rank);
        rank = next;
    }
    settle (ep);
    return 0;
}

int epilog_release (struct epilog *ep,
                    const char *description,
                    const struct idset *ranks,
                    flux_error_t *error)
{
    struct epilog_action *a;

    if (epilog_release_check (ep, description, ranks, error) < 0)
        return -1;
    a = ep->actions[action_find (ep, description)];
    if (action_release (ep, a, ranks ? ranks : a->held) < 0) {
        errno = ENOMEM;
        return errprintf (error, "out of memory");
    }
    return 0;
}

/* Which action a full finish ends: set *index and return 0 if it has that
 * description, 1 if it is the only one.
 */
static int finish_match (const struct epilog *ep,
                         const char *description,
                         int *index,
                         flux_error_t *error)
{
    const char *what = description ? description : "";
    const char *only;

    if (!ep) {
        errno = EINVAL;
        return errprintf (error, "%s", strerror (errno));
    }
    if ((*index = action_find (ep, description)) >= 0)
        return 0;
    if (ep->count != 1)
        return error_nomatch (ep, description, error);
    *index = 0;
    only = ep->actions[0]->description;
    errprintf (error,
               "no action '%.*s' is outstanding: it ends '%.*s', the only one",
               quote_len (what, QUOTE_MAX),
               what,
               quote_len (only, QUOTE_MAX),
               only);
    return 1;
}

int epilog_finish_check (const struct epilog *ep,
                         const char *description,
                         flux_error_t *error)
{
    int index;

    return finish_match (ep, description, &index, error);
}

int epilog_finish (struct epilog *ep,
                   const char *description,
                   flux_error_t *error)
{
    struct epilog_action *a;
    int index;
    int rc;

    if ((rc = finish_match (ep, description, &index, error)) < 0)
        return -1;
    a = ep->actions[index];
    ep->count--;
    memmove (&ep->actions[index],
             &ep->actions[index + 1],
             (ep->count - index) * sizeof (ep->actions[0]));
    action_drop_all (ep, a);
    action_destroy (a);
    settle (ep);
    return rc;
}

void epilog_prolog_start (struct epilog *ep)
{
    if (ep)
        ep->prologs++;
}

void epilog_prolog_finish (struct epilog *ep)
{
    if (ep && ep->prologs > 0)
        ep->prologs--;
}

unsigned int epilog_prolog_count (const struct epilog *ep)
{
    return ep ? ep->prologs : 0;
}

int epilog_set_keep_last (struct epilog *ep, bool keep)
{
    if (!ep) {
        errno = EINVAL;
        return -1;
    }
    ep->keep_last = keep;
    settle (ep);
    return 0;
}

const struct idset *epilog_ready (const struct epilog *ep)
{
    if (!ep)
        return NULL;
    return ep->prologs > 0 ? ep->none : ep->ready;
}

int epilog_gone (struct epilog *ep,
                 const struct idset *ranks,
                 flux_error_t *error)
{
    unsigned int rank;

    if (!ep || !ranks) {
        errno = EINVAL;
        return errprintf (error, "%s", strerror (errno));
    }
    rank = idset_first (ranks);
    while (rank != IDSET_INVALID_ID) {
        if (!idset_test (epilog_ready (ep), rank)) {
            errno = EINVAL;
            return errprintf (error, "rank %u may not go now", rank);
        }
        rank = idset_next (ranks, rank);
    }
    rank = idset_first (ranks);
    while (rank != IDSET_INVALID_ID) {
        unsigned int next = idset_next (ranks, rank); // 'ranks' may be 'ready'

        ready_remove (ep, rank);
        gone_add (ep, rank);
        rank = next;
    }
    return 0;
}

/* A record says that rank is gone: whoever holds it lets go.
 */
static void rank_gone (struct epilog *ep, unsigned int rank)
{
    for (size_t i = 0; i < ep->count; i++)
        (void)action_drop (ep, ep->actions[i], rank);
    if (ep->kept == rank)
        ep->kept = IDSET_INVALID_ID;
    if (idset_test (ep->ready, rank))
        ready_remove (ep, rank);
    if (!idset_test (ep->gone, rank))
        gone_add (ep, rank);
}

int epilog_restore_gone (struct epilog *ep,
                         const struct idset *ranks,
                         flux_error_t *error)
{
    const struct idset *set;
    unsigned int rank;

    if (!ep) {
        errno = EINVAL;
        return errprintf (error, "%s", strerror (errno));
    }
    if (check_ranks (ep, ranks, true, error) < 0)
        return -1;
    set = ranks ? ranks : ep->ranks;
    rank = idset_first (set);
    while (rank != IDSET_INVALID_ID) {
        unsigned int next = idset_next (set, rank);

        rank_gone (ep, rank);
        rank = next;
    }
    settle (ep);
    return 0;
}

const struct idset *epilog_ranks (const struct epilog *ep)
{
    return ep ? ep->ranks : NULL;
}

const struct idset *epilog_handed_over (const struct epilog *ep)
{
    return ep ? ep->gone : NULL;
}

bool epilog_all_gone (const struct epilog *ep)
{
    return ep && ep->gone_count == ep->rank_count;
}

size_t epilog_left (const struct epilog *ep)
{
    return ep ? ep->rank_count - ep->gone_count : 0;
}

size_t epilog_action_count (const struct epilog *ep)
{
    return ep ? ep->count : 0;
}

const struct epilog_action *epilog_action_get (const struct epilog *ep,
                                               size_t index)
{
    return ep && index < ep->count ? ep->actions[index] : NULL;
}

bool epilog_holds (const struct epilog_action *action, unsigned int rank)
{
    return action && idset_test (action->held, rank);
}

unsigned int epilog_hold_count (const struct epilog *ep, unsigned int rank)
{
    if (!ep || !idset_test (ep->ranks, rank))
        return 0;
    return ep->holds[rank - ep->first];
}

unsigned int epilog_kept (const struct epilog *ep)
{
    return ep ? ep->kept : IDSET_INVALID_ID;
}

// vi:ts=4 sw=4 expandtab
