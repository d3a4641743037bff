/* SPDX-License-Identifier: LGPL-3.0 */

/* tap.h - stand-in for flux-core's libtap: a unit test that says "ok" or
 * "not ok" for each thing it looks at (Test Anything Protocol)
 *
 * One test program, one source file: the counts are the file's own.
 */

#ifndef _STANDIN_LIBTAP_TAP_H
#define _STANDIN_LIBTAP_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PLAN (-1)

static struct {
    int planned;
    int count;
    int failed;
} tap;

static inline void plan (int tests)
{
    setvbuf (stdout, NULL, _IOLBF, BUFSIZ); // in step with stderr
    tap.planned = tests;
    if (tests != NO_PLAN)
        printf ("1..%d\n", tests);
}

__attribute__ ((format (printf, 1, 2)))
static inline void diag (const char *fmt, ...)
{
    va_list ap;

    va_start (ap, fmt);
    fputs ("# ", stderr);
    vfprintf (stderr, fmt, ap);
    fputc ('\n', stderr);
    va_end (ap);
}

__attribute__ ((format (printf, 4, 5)))
static inline bool tap_ok (const char *file,
                           int line,
                           bool good,
                           const char *fmt,
                           ...)
{
    va_list ap;

    va_start (ap, fmt);
    printf ("%sok %d - ", good ? "" : "not ", ++tap.count);
    vprintf (fmt, ap);
    putchar ('\n');
    va_end (ap);
    if (!good) {
        tap.failed++;
        diag ("failed at %s:%d", file, line);
    }
    return good;
}

__attribute__ ((format (printf, 1, 2), noreturn))
static inline void tap_bail_out (const char *fmt, ...)
{
    va_list ap;

    va_start (ap, fmt);
    fputs ("Bail out!  ", stdout);
    vprintf (fmt, ap);
    putchar ('\n');
    va_end (ap);
    exit (255);
}

/* Exit status of the program: 0 if all went well.
 */
static inline int tap_finish (void)
{
    if (tap.planned == NO_PLAN)
        printf ("1..%d\n", tap.count);
    else if (tap.planned != tap.count) {
        diag ("planned %d, but ran %d", tap.planned, tap.count);
        return 1;
    }
    if (tap.failed > 0)
        diag ("failed %d of %d", tap.failed, tap.count);
    return tap.failed > 0 ? 1 : 0;
}

#define ok(good, ...) tap_ok (__FILE__, __LINE__, (good), __VA_ARGS__)
#define pass(...) ok (true, __VA_ARGS__)
#define fail(...) ok (false, __VA_ARGS__)
#define BAIL_OUT(...) tap_bail_out (__VA_ARGS__)
#define done_testing() return tap_finish ()

#endif /* !_STANDIN_LIBTAP_TAP_H */

// vi:ts=4 sw=4 expandtab
