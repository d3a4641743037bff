/* SPDX-License-Identifier: LGPL-3.0 */

/* refusal.c - refuse bad epilog events, and tell their senders why
 */

#if HAVE_CONFIG_H
#include "config.h"
#endif
#include <flux/core.h>
#include <jansson.h>

#include "src/common/libeventlog/eventlog.h"
#include "src/common/libjob/idf58.h"
#include "src/common/libutil/errprintf.h"

#include "hold.h"

#include "refusal.h"

static const char *auxkey = "flux::job-manager.refusal";

struct refusal {
    struct job_manager *ctx;
    json_int_t count;       // events refused
    bool asked;             // the next refusal_check() tells why
    int errnum;             // that of its refusal, or 0
    flux_error_t reason;
};

/* Get the length of the UTF-8 character at 's', 0 if it is none, or one that
 * a terminal takes as a command (U+0000 to U+001F, U+007F to U+009F).
 */
static int utf8_length (const char *s)
{
    unsigned char c = *s;
    int length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3
               : c < 0xf5 ? 4 : 0;

    if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0))
        return 0;
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

/* Texts quote what was sent, and are cut to fit.
 */
static void make_printable (char *s)
{
    while (*s) {
        int length = utf8_length (s);

        if (length == 0)
            *s = '?';
        s += length > 0 ? length : 1;
    }
}

int refusal_check (struct refusal *refusal,
                   struct job *job,
                   int flags,
                   json_t *entry)
{
    flux_error_t error;
    const char *name = "event";
    json_t *context = NULL;
    bool asked = refusal->asked;
    int saved_errno;
    char *s;

    refusal->asked = false; // events posted on the way are not meant
    err_init (&error);
    if (hold_validate (job, flags, entry, &error) == 0)
        return 0;
    saved_errno = errno;
    make_printable (error.text);
    refusal->count++;
    (void)eventlog_entry_parse (entry, NULL, &name, &context);
    if (asked) {
        refusal->errnum = saved_errno;
        errprintf (&refusal->reason, "%s: %s", name, error.text);
    }
    s = json_dumps (context, JSON_COMPACT | JSON_ENSURE_ASCII);
    flux_log (refusal->ctx->h,
              LOG_ERR,
              "%s: refused %s %.256s: %s",
              idf58 (job->id),
              name,
              s ? s : "",
              error.text);
    free (s);
    errno = saved_errno;
    return -1;
}

void refusal_clear (flux_t *h)
{
    struct refusal *refusal = flux_aux_get (h, auxkey);

    if (refusal) {
        refusal->asked = true;
        refusal->errnum = 0;
    }
}

const char *refusal_reason (struct refusal *refusal)
{
    return refusal->errnum ? refusal->reason.text : NULL;
}

int refusal_respond_text (flux_t *h,
                          const flux_msg_t *msg,
                          int errnum,
                          const char *text)
{
    flux_error_t printable;

    errprintf (&printable, "%s", text);
    make_printable (printable.text);
    return flux_respond_error (h, msg, errnum, printable.text);
}

bool refusal_respond (flux_t *h, const flux_msg_t *msg)
{
    struct refusal *refusal = flux_aux_get (h, auxkey);
    int errnum;

    if (!refusal || !refusal->errnum)
        return false;
    /* To those who post events, ENOENT means that there is no such job.
     */
    errnum = refusal->errnum == ENOENT ? EINVAL : refusal->errnum;
    if (refusal_respond_text (h, msg, errnum, refusal->reason.text) < 0)
        flux_log_error (h, "error responding to job-manager.post-event");
    return true;
}

json_int_t refusal_count (struct refusal *refusal)
{
    return refusal->count;
}

void refusal_destroy (struct refusal *refusal)
{
    if (refusal) {
        int saved_errno = errno;
        (void)flux_aux_set (refusal->ctx->h, auxkey, NULL, NULL);
        free (refusal);
        errno = saved_errno;
    }
}

struct refusal *refusal_create (struct job_manager *ctx)
{
    struct refusal *refusal;

    if (!(refusal = calloc (1, sizeof (*refusal))))
        return NULL;
    refusal->ctx = ctx;
    if (flux_aux_set (ctx->h, auxkey, refusal, NULL) < 0) {
        refusal_destroy (refusal);
        return NULL;
    }
    return refusal;
}

// vi:ts=4 sw=4 expandtab
