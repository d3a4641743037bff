/* SPDX-License-Identifier: LGPL-3.0 */

/* test/heap.h - let allocations fail, and count what is never freed
 *
 * malloc(3) and its kin are replaced by including this, in the one source file
 * of a test program: libraries use the replacements too.  (valgrind(1) puts its
 * own in their place, unless --soname-synonyms=somalloc=nouserintercepts.)
 */

#ifndef _FLUX_JOB_MANAGER_TEST_HEAP_H
#define _FLUX_JOB_MANAGER_TEST_HEAP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // RTLD_NEXT
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum heap_mode {
    HEAP_REST, // all later ones fail too
    HEAP_ONE,  // later ones work again
};

static struct {
    bool armed;
    enum heap_mode mode;
    int countdown; // allocations that still work
    bool failed;
    long live;     // allocations less frees
} heap;

/* Allocations that were not freed.  AddressSanitizer has some of its own, such
 * as strndup(3), and looks for leaks itself.
 */
static inline long heap_live (void)
{
#if __SANITIZE_ADDRESS__
    return 0;
#else
    return heap.live;
#endif
}

/* The functions that are replaced, from whatever library would have served.
 */
static struct {
    bool looked_up;
    void *(*malloc) (size_t);
    void *(*calloc) (size_t, size_t);
    void *(*realloc) (void *, size_t);
    void (*free) (void *);
} heap_real;

/* dlsym(3) may itself allocate or free: it finds no memory then, which it
 * can do without.  Return false in that case.
 */
static bool heap_lookup (void)
{
    if (!heap_real.looked_up) {
        heap_real.looked_up = true;
        *(void **)&heap_real.malloc = dlsym (RTLD_NEXT, "malloc");
        *(void **)&heap_real.calloc = dlsym (RTLD_NEXT, "calloc");
        *(void **)&heap_real.realloc = dlsym (RTLD_NEXT, "realloc");
        *(void **)&heap_real.free = dlsym (RTLD_NEXT, "free");
    }
    return heap_real.free != NULL;
}

static bool heap_fails (void)
{
    if (heap_lookup ()) {
        if (!heap.armed || heap.countdown-- > 0)
            return false;
        if (heap.mode == HEAP_ONE)
            heap.armed = false;
    }
    heap.failed = true;
    errno = ENOMEM;
    return true;
}

static void *heap_note (void *p)
{
    if (p)
        heap.live++;
    return p;
}

/* From now on, 'count' allocations work and the next one fails.
 */
static void heap_arm (int count, enum heap_mode mode)
{
    heap.countdown = count;
    heap.mode = mode;
    heap.failed = false;
    heap.armed = true;
}

/* Return true if an allocation failed since heap_arm().  Keeps errno.
 */
static bool heap_disarm (void)
{
    heap.armed = false;
    return heap.failed;
}

void *malloc (size_t size)
{
    return heap_fails () ? NULL : heap_note (heap_real.malloc (size));
}

void *calloc (size_t n, size_t size)
{
    return heap_fails () ? NULL : heap_note (heap_real.calloc (n, size));
}

void *realloc (void *p, size_t size)
{
    if (heap_fails ())
        return NULL;
    return p
        ? heap_real.realloc (p, size)
        : heap_note (heap_real.realloc (p, size));
}

void free (void *p)
{
    if (p && heap_lookup ()) {
        heap.live--;
        heap_real.free (p);
    }
}

char *strdup (const char *s)
{
    size_t size = strlen (s) + 1;
    char *cpy = malloc (size);

    return cpy ? memcpy (cpy, s, size) : NULL;
}

#endif /* !_FLUX_JOB_MANAGER_TEST_HEAP_H */

// vi:ts=4 sw=4 expandtab
