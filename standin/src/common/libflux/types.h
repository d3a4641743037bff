/* SPDX-License-Identifier: LGPL-3.0 */

/* types.h - stand-in for flux-core's header of that name: the error text
 */

#ifndef _STANDIN_LIBFLUX_TYPES_H
#define _STANDIN_LIBFLUX_TYPES_H

typedef struct {
    char text[160];
} flux_error_t;

#endif /* !_STANDIN_LIBFLUX_TYPES_H */

// vi:ts=4 sw=4 expandtab
