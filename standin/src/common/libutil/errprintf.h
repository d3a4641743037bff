/* SPDX-License-Identifier: LGPL-3.0 */

/* errprintf.h - stand-in for flux-core's header of that name
 */

#ifndef _STANDIN_LIBUTIL_ERRPRINTF_H
#define _STANDIN_LIBUTIL_ERRPRINTF_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/common/libflux/types.h" // flux_error_t

/* Write a text to 'error' (may be NULL).  A text that does not fit is cut,
 * and ends in "+".  Always returns -1; keeps errno.
 */
__attribute__ ((format (printf, 2, 3)))
static inline int errprintf (flux_error_t *error, const char *fmt, ...)
{
    if (error) {
        const int max = sizeof (error->text);
        int saved_errno = errno;
        va_list ap;

        va_start (ap, fmt);
        if (vsnprintf (error->text, max, fmt, ap) >= max)
            error->text[max - 2] = '+';
        va_end (ap);
        errno = saved_errno;
    }
    return -1;
}

static inline void err_init (flux_error_t *error)
{
    if (error)
        memset (error, 0, sizeof (*error));
}

#endif /* !_STANDIN_LIBUTIL_ERRPRINTF_H */

// vi:ts=4 sw=4 expandtab
