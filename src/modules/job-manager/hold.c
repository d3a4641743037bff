/* SPDX-License-Identifier: LGPL-3.0 */

/* hold.c - what a job's events say about who holds which rank
 *
 * Events are taken from the eventlog as they are, new ones and replayed ones
 * alike.  What is wrong with a new one is found before it is queued, by
 * hold_validate(), which asks the ledger what it would make of it.
 *
 * A hold that is placed in RUN state is put down in the ledger at once, but
 * counts in job->perilog_active only from CLEANUP on, or it would keep the
 * job from starting.  That is made up for at the first chance after the
 * transition: the next event, or action, whichever comes first.
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <flux/core.h>
#include <flux/idset.h>
#include <jansson.h>

#include "src/common/libutil/errno_safe.h"
#include "src/common/libutil/errprintf.h"
#include "ccan/str/str.h"

#include "epilog.h"
#include "event.h"
#include "fragment.h"

#include "hold.h"

struct hold {
    struct epilog *ledger;
    unsigned int early;         // actions not in perilog_active yet
    bool has_ranks;             // 'ledger' knows the ranks of the job
    bool has_storage;
    json_t *notes;              // array of strings: odd things to log
    json_t *record;             // partial-free or free on its way, or NULL

    /* The ledger as it will be when the first 'ahead_count' events that are
     * queued for the job are done with.  NULL if nobody asked.
     */
    struct epilog *ahead;
    size_t ahead_count;
};

void hold_destroy (struct hold *hold)
{
    if (hold) {
        int saved_errno = errno;
        epilog_destroy (hold->ledger);
        epilog_destroy (hold->ahead);
        json_decref (hold->notes);
        json_decref (hold->record);
        free (hold);
        errno = saved_errno;
    }
}

/* Get the parts of an event.  eventlog_entry_parse() needs memory: an event of
 * the job manager's own that was posted must not fail for want of it.
 */
static int entry_get (json_t *entry,
                      double *timestamp,
                      const char **name,
                      json_t **context)
{
    *timestamp = json_number_value (json_object_get (entry, "timestamp"));
    *name = json_string_value (json_object_get (entry, "name"));
    *context = json_object_get (entry, "context");
    if (!*name || (*context && !json_is_object (*context))) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static void ahead_forget (struct hold *hold)
{
    epilog_destroy (hold->ahead);
    hold->ahead = NULL;
}

/* A ledger need not know the job's ranks before one of its events names some.
 * If R makes no sense, no part of it will go before the whole does.
 */
static int need_ranks (struct job *job)
{
    struct hold *hold = job->hold;
    struct idset *ranks = NULL;
    int rc = -1;

    if (hold->has_ranks)
        return 0;
    if (job->R_redacted
        && !(ranks = fragment_ranks (job->R_redacted))
        && errno != EPROTO)
        return -1;
    if (epilog_set_ranks (hold->ledger, ranks) == 0
        && (!job->free_posted
            || epilog_restore_gone (hold->ledger, NULL, NULL) == 0)) {
        hold->has_ranks = true;
        ahead_forget (hold);
        rc = 0;
    }
    ERRNO_SAFE_WRAP (idset_destroy, ranks);
    return rc;
}

/* Do 'resources' of a jobspec (RFC 14) name anything that need not belong to
 * a rank, that is any type but these?
 */
static bool names_storage (json_t *resources)
{
    static const char *known[] = { "slot", "node", "socket", "core", "gpu" };
    size_t index;
    json_t *vertex;

    json_array_foreach (resources, index, vertex) {
        const char *type = json_string_value (json_object_get (vertex, "type"));
        bool found = false;

        for (int i = 0; i < sizeof (known) / sizeof (known[0]); i++) {
            if (type && streq (type, known[i]))
                found = true;
        }
        if (!found || names_storage (json_object_get (vertex, "with")))
            return true;
    }
    return false;
}

/* Get the holds of 'job', created if there are none.  What is in
 * perilog_active then can only be prologs.
 */
static struct hold *hold_get (struct job *job)
{
    struct hold *hold;

    if (job->hold)
        return job->hold;
    if (!(hold = calloc (1, sizeof (*hold))))
        return NULL;
    if (!(hold->ledger = epilog_create (NULL))) {
        hold_destroy (hold);
        return NULL;
    }
    for (int i = 0; i < job->perilog_active; i++)
        epilog_prolog_start (hold->ledger);
    hold->has_storage = job->R_has_scheduling
        || names_storage (json_object_get (job->jobspec_redacted,
                                           "resources"));
    job->hold = hold;
    return hold;
}

static void note (struct hold *hold, const char *name, const char *text)
{
    json_t *o;

    if (!hold->notes)
        hold->notes = json_array ();
    if (!(o = json_sprintf ("%s: %s", name, text))
        || json_array_append_new (hold->notes, o) < 0)
        return; // out of memory: the accounting matters more
}

/* Decoded context of an epilog event.
 */
struct action_args {
    const char *description;    // NULL if there is none that makes sense
    json_t *ranks;              // NULL if there is none
    struct idset *ids;          // NULL: all ranks
};

/* Get JSON text, in ASCII so that it may be cut anywhere.
 */
static char *dump_value (json_t *o)
{
    return json_dumps (o, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
}

/* Get the value of a JSON string, or NULL if 'o' is none, or has a NUL in it.
 */
static const char *plain_string (json_t *o)
{
    const char *s = json_string_value (o);

    return s && strlen (s) == json_string_length (o) ? s : NULL;
}

static int decode_ranks (const struct epilog *ledger,
                         struct action_args *args,
                         flux_error_t *error)
{
    const char *s = plain_string (args->ranks);
    flux_error_t e;

    if (args->ranks && !s) {
        char *value = dump_value (args->ranks);

        errprintf (error,
                   "ranks: %.32s is not a string%s: want an idset or \"all\"",
                   value ? value : "?",
                   json_is_string (args->ranks) ? " without NUL" : "");
        free (value);
        errno = EINVAL;
        return -1;
    }
    if (s && !streq (s, "all")) {
        if (!(args->ids = epilog_decode (ledger, s, &e)))
            return errprintf (error, "ranks: %s", e.text);
    }
    return 0;
}

static void get_args (json_t *context, struct action_args *args)
{
    memset (args, 0, sizeof (*args));
    args->description = plain_string (json_object_get (context,
                                                       "description"));
    args->ranks = json_object_get (context, "ranks");
}

/* The ledger says EINVAL of ranks only, and does not know what the key is.
 */
static void blame_ranks (flux_error_t *error)
{
    if (errno == EINVAL && error) {
        flux_error_t e = *error;

        errprintf (error, "ranks: %s", e.text);
    }
}

/* Would the ledger take this event?  If 'apply' is true, let it.
 * Returns 0 on success, 1 if it took it but something was odd, -1 if not with
 * errno set; in the last two cases with a text in 'error'.
 */
static int ledger_start (struct epilog *ledger,
                         json_t *context,
                         double timestamp,
                         bool apply,
                         flux_error_t *error)
{
    struct action_args args;
    int rc;

    get_args (context, &args);
    if (!args.description) {
        if (args.ranks) {
            errno = EINVAL;
            return errprintf (error, "description is missing, or no string");
        }
        args.description = ""; // was always taken
    }
    if (decode_ranks (ledger, &args, error) < 0)
        return -1;
    if (apply)
        rc = epilog_start (ledger,
                           args.description,
                           args.ids,
                           timestamp,
                           error);
    else
        rc = epilog_start_check (ledger, args.description, args.ids, error);
    if (rc < 0)
        blame_ranks (error);
    ERRNO_SAFE_WRAP (idset_destroy, args.ids);
    return rc;
}

static int ledger_release (struct epilog *ledger,
                           struct action_args *args,
                           bool apply,
                           flux_error_t *error)
{
    int rc;

    if (!args->description) {
        errno = EINVAL;
        return errprintf (error, "description is missing, or no string");
    }
    if (decode_ranks (ledger, args, error) < 0)
        return -1;
    if (apply)
        rc = epilog_release (ledger, args->description, args->ids, error);
    else
        rc = epilog_release_check (ledger,
                                   args->description,
                                   args->ids,
                                   error);
    if (rc < 0)
        blame_ranks (error);
    return rc;
}

static int ledger_finish (struct epilog *ledger,
                          json_t *context,
                          bool apply,
                          flux_error_t *error)
{
    struct action_args args;
    int rc;

    get_args (context, &args);
    if (args.ranks)
        rc = ledger_release (ledger, &args, apply, error);
    else if (apply)
        rc = epilog_finish (ledger, args.description, error);
    else
        rc = epilog_finish_check (ledger, args.description, error);
    ERRNO_SAFE_WRAP (idset_destroy, args.ids);
    return rc;
}

/* Start an action.  One that can't be taken as it is holds all ranks.
 * Returns 0 on success, 1 if it holds all ranks for the reason in 'error', -1
 * with errno set.
 */
static int ledger_start_anyhow (struct epilog *ledger,
                                json_t *context,
                                double timestamp,
                                flux_error_t *error)
{
    struct action_args args;

    if (ledger_start (ledger, context, timestamp, true, error) == 0)
        return 0;
    get_args (context, &args);
    if (epilog_start (ledger,
                      args.description ? args.description : "",
                      NULL,
                      timestamp,
                      NULL) < 0)
        return -1;
    return 1;
}

void hold_count_early (struct job *job)
{
    struct hold *hold = job->hold;

    if (hold && job->state == FLUX_JOB_STATE_CLEANUP) {
        while (hold->early > 0 && job->perilog_active < UINT8_MAX) {
            job->perilog_active++;
            hold->early--;
        }
    }
}

/* Could job->perilog_active take one more?
 */
static bool perilog_full (struct job *job)
{
    unsigned int early = job->hold ? job->hold->early : 0;

    return job->perilog_active + early >= UINT8_MAX;
}

static int update_start (struct job *job, double timestamp, json_t *context)
{
    struct hold *hold;
    flux_error_t error;
    int rc;

    if (!(hold = hold_get (job))
        || (json_object_get (context, "ranks") && need_ranks (job) < 0))
        return -1;
    if (epilog_action_count (hold->ledger) == EPILOG_ACTIONS_MAX)
        return 0; // the caller says EOVERFLOW, or takes no notice in RUN
    if ((rc = ledger_start_anyhow (hold->ledger,
                                   context,
                                   timestamp,
                                   &error)) < 0)
        return -1;
    if (rc > 0)
        note (hold, "epilog-start: holds all ranks", error.text);
    /* When replayed, a prolog-start counts that did not when it was new, since
     * shells ran: for an action that was taken there may be no room then.
     */
    if (job->state == FLUX_JOB_STATE_RUN || job->perilog_active == UINT8_MAX) {
        hold->early++;
        return 1;
    }
    return 0;
}

static int update_finish (struct job *job, json_t *context)
{
    struct hold *hold = job->hold;
    size_t count;
    flux_error_t error;
    int rc;

    count = hold ? epilog_action_count (hold->ledger) : 0;
    if (count == 0)
        return 1; // nothing to end, and a prolog is not to be counted down
    if (json_object_get (context, "ranks") && need_ranks (job) < 0)
        return -1;
    if ((rc = ledger_finish (hold->ledger, context, true, &error)) != 0)
        note (hold,
              rc < 0 ? "epilog-finish: ignored" : "epilog-finish",
              error.text);
    if (epilog_action_count (hold->ledger) == count)
        return 1; // it goes on
    if (hold->early > 0) {
        hold->early--;
        return 1;
    }
    return 0;
}

static int update_partial_free (struct job *job, json_t *context)
{
    struct hold *hold;
    struct action_args args;
    flux_error_t error;
    int rc = 0;

    if (!(hold = hold_get (job)) || need_ranks (job) < 0)
        return -1;
    get_args (context, &args);
    if (!args.ranks)
        note (hold, "partial-free: ignored", "ranks is missing");
    else if (decode_ranks (hold->ledger, &args, &error) < 0
        || epilog_restore_gone (hold->ledger, args.ids, &error) < 0) {
        if (errno == ENOMEM) // ignored, these ranks would go twice
            rc = -1;
        else
            note (hold, "partial-free: ignored", error.text);
    }
    ERRNO_SAFE_WRAP (idset_destroy, args.ids);
    return rc;
}

static void update_free (struct job *job)
{
    if (job->has_resources) {
        job->free_posted = 1;
        if (job->hold)
            (void)epilog_restore_gone (job->hold->ledger, NULL, NULL);
    }
}

/* Many jobs stay in memory when inactive.
 */
static void update_clean (struct job *job)
{
    if (job->state == FLUX_JOB_STATE_CLEANUP) {
        hold_destroy (job->hold);
        job->hold = NULL;
    }
}

/* A finish that no prolog owes must not count an epilog action down.
 */
static int update_prolog (struct job *job, const char *cmd)
{
    struct epilog *ledger = hold_ledger (job);

    if (job->start_pending)
        return 0;
    if (streq (cmd, "start") && job->perilog_active == UINT8_MAX)
        return 1; // replayed: did not count when it was new, see above
    if (!ledger)
        return 0;
    if (streq (cmd, "start"))
        epilog_prolog_start (ledger);
    else if (streq (cmd, "finish")) {
        if (epilog_prolog_count (ledger) == 0
            && epilog_action_count (ledger) > 0)
            return 1;
        epilog_prolog_finish (ledger);
    }
    return 0;
}

int hold_update (struct job *job, json_t *entry)
{
    double timestamp;
    const char *name;
    json_t *context;
    int rc = 0;

    if (entry_get (entry, &timestamp, &name, &context) < 0)
        return -1;
    hold_count_early (job);
    if (job->hold)
        ahead_forget (job->hold);
    if (streq (name, "epilog-start")) {
        if (job->state == FLUX_JOB_STATE_RUN
            || job->state == FLUX_JOB_STATE_CLEANUP)
            rc = update_start (job, timestamp, context);
    }
    else if (streq (name, "epilog-finish")) {
        if (job->state == FLUX_JOB_STATE_RUN
            || job->state == FLUX_JOB_STATE_CLEANUP)
            rc = update_finish (job, context);
    }
    else if (strstarts (name, "prolog-"))
        rc = update_prolog (job, name + 7);
    else if (streq (name, "partial-free")) {
        if (job->state == FLUX_JOB_STATE_CLEANUP)
            rc = update_partial_free (job, context);
    }
    else if (streq (name, "free"))
        update_free (job);
    else if (streq (name, "clean"))
        update_clean (job);
    return rc;
}

/* Apply a queued event to the ledger of what will be.  What is bad about it
 * has the effect that it will have.  Returns 0 on success, -1 if out of memory.
 */
static int ahead_update (struct epilog *ahead, json_t *entry)
{
    const char *name;
    json_t *context;
    double t;
    int rc = 0;

    if (entry_get (entry, &t, &name, &context) < 0)
        return 0; // event_job_update() will refuse it
    errno = 0;
    if (streq (name, "epilog-start"))
        rc = ledger_start_anyhow (ahead, context, t, NULL);
    else if (streq (name, "epilog-finish"))
        rc = ledger_finish (ahead, context, true, NULL);
    return rc != 0 && errno == ENOMEM ? -1 : 0;
}

/* Get the ledger as it will be when what is queued for the job is done with.
 * The head of the queue is being processed, and in the ledger already.
 */
static struct epilog *ledger_ahead (struct job *job)
{
    struct hold *hold = job->hold;
    size_t size = json_array_size (job->event_queue);

    if (size < 2)
        return hold->ledger;
    if (!hold->ahead) {
        if (!(hold->ahead = epilog_copy (hold->ledger)))
            return NULL;
        hold->ahead_count = 1;
    }
    for (; hold->ahead_count < size; hold->ahead_count++) {
        json_t *wrap = json_array_get (job->event_queue, hold->ahead_count);

        if (ahead_update (hold->ahead, json_object_get (wrap, "entry")) < 0) {
            ahead_forget (hold);
            return NULL;
        }
    }
    return hold->ahead;
}

static int validate_finish (struct epilog *ledger,
                            json_t *context,
                            flux_error_t *error)
{
    if (epilog_action_count (ledger) == 0
        && !json_object_get (context, "ranks"))
        return 0; // always was without effect, and still is
    return ledger_finish (ledger, context, false, error);
}

static int validate_with (struct epilog *ledger,
                          struct job *job,
                          const char *name,
                          json_t *context,
                          flux_error_t *error)
{
    if (streq (name, "epilog-finish"))
        return validate_finish (ledger, context, error);
    if (perilog_full (job)) {
        errno = EOVERFLOW;
        return errprintf (error, "too many actions are outstanding");
    }
    return ledger_start (ledger, context, 0., false, error);
}

int hold_validate (struct job *job,
                   int flags,
                   json_t *entry,
                   flux_error_t *error)
{
    struct epilog *ledger;
    const char *name;
    json_t *context;
    double t;

    if (entry_get (entry, &t, &name, &context) < 0)
        return errprintf (error, "malformed event");
    if (streq (name, "partial-free") && !(flags & EVENT_HANDOFF)) {
        errno = EINVAL;
        return errprintf (error, "only the job manager posts this event");
    }
    /* It would be told by the journal, and then fail.
     */
    if (streq (name, "prolog-start")
        && !job->start_pending
        && job->perilog_active == UINT8_MAX) {
        errno = EOVERFLOW;
        return errprintf (error, "%d actions are outstanding", UINT8_MAX);
    }
    if ((job->state != FLUX_JOB_STATE_RUN
        && job->state != FLUX_JOB_STATE_CLEANUP)
        || (!streq (name, "epilog-start")
            && !streq (name, "epilog-finish")))
        return 0;
    if (streq (name, "epilog-start")
        && !json_object_get (context, "ranks")
        && !perilog_full (job))
        return 0; // holds all: nothing to be wrong
    if (!hold_get (job)
        || (json_object_get (context, "ranks") && need_ranks (job) < 0))
        return errprintf (error, "%s", strerror (errno));
    if (job->free_posted && hold_has_ranks (job)) // which may be queued
        (void)epilog_restore_gone (hold_ledger (job), NULL, NULL);
    if (!(ledger = ledger_ahead (job)))
        return errprintf (error, "%s", strerror (errno));
    return validate_with (ledger, job, name, context, error) < 0 ? -1 : 0;
}

int hold_find (struct job *job, const char *description, flux_error_t *error)
{
    struct epilog *ledger;

    if (!hold_get (job) || !(ledger = ledger_ahead (job)))
        return errprintf (error, "%s", strerror (errno));
    return epilog_release_check (ledger, description, NULL, error);
}

struct epilog *hold_ledger (struct job *job)
{
    return job->hold ? job->hold->ledger : NULL;
}

bool hold_has_ranks (struct job *job)
{
    return job->hold && job->hold->has_ranks;
}

bool hold_has_storage (struct job *job)
{
    return job->hold && job->hold->has_storage;
}

bool hold_in_parts (struct job *job)
{
    struct epilog *ledger = hold_ledger (job);

    return ledger
        && (!idset_empty (epilog_handed_over (ledger))
            || epilog_action_count (ledger) > 0);
}

void hold_set_record (struct job *job, json_t *record)
{
    json_incref (record);
    json_decref (job->hold->record);
    job->hold->record = record;
}

json_t *hold_record (struct job *job)
{
    return job->hold ? job->hold->record : NULL;
}

void hold_check_record (struct job *job)
{
    json_t *head = json_array_get (job->event_queue, 0);

    if (head && json_object_get (head, "entry") == hold_record (job))
        hold_set_record (job, NULL);
}

json_t *hold_take_notes (struct job *job)
{
    json_t *notes = job->hold ? job->hold->notes : NULL;

    if (notes)
        job->hold->notes = NULL;
    return notes;
}

// vi:ts=4 sw=4 expandtab
