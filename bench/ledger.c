/* SPDX-License-Identifier: LGPL-3.0 */

/* ledger.c - what a job's ledger costs when its ranks are let go of singly
 *
 * Usage: ledger RANKS ACTIONS
 *
 * All of a job's life: made, ACTIONS actions started on all ranks, then for
 * one rank after another, in an order that jumps about, each action's partial
 * finish as the job manager takes it (text read, rank let go of), and the
 * handoff of what is ready; at last the full finishes.  Prints nanoseconds
 * of CPU time per partial finish.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <flux/idset.h>

#include "src/modules/job-manager/epilog.h"

static const unsigned int stride = 7919; // a prime: visits every rank once
static const double measure_ns = 5E7;      // of CPU time, at least

static void die (const char *what)
{
    perror (what);
    exit (1);
}

static double cpu_time (void)
{
    struct timespec ts;

    if (clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
        die ("clock_gettime");
    return ts.tv_sec * 1E9 + ts.tv_nsec;
}

static void name_action (char *buf, size_t size, unsigned int i)
{
    snprintf (buf, size, "action-%u", i);
}

static void partial_finish (struct epilog *ep,
                            const char *description,
                            unsigned int rank)
{
    struct idset *ids;
    char text[16];

    snprintf (text, sizeof (text), "%u", rank);
    if (!(ids = epilog_decode (ep, text, NULL))
        || epilog_release (ep, description, ids, NULL) < 0)
        die ("partial finish");
    idset_destroy (ids);
}

static struct epilog *make (unsigned int count)
{
    struct idset *ranks;
    struct epilog *ep;

    if (!(ranks = idset_create (count, 0))
        || idset_range_set (ranks, 0, count - 1) < 0
        || !(ep = epilog_create (ranks)))
        die ("epilog_create");
    idset_destroy (ranks);
    return ep;
}

static void live (unsigned int count, unsigned int actions)
{
    struct epilog *ep = make (count);
    char name[32];
    unsigned int handoffs = 0;

    for (unsigned int i = 0; i < actions; i++) {
        name_action (name, sizeof (name), i);
        if (epilog_start (ep, name, NULL, 0., NULL) < 0)
            die ("epilog_start");
    }
    for (unsigned int n = 0; n < count; n++) {
        unsigned int rank = (unsigned long)n * stride % count;

        for (unsigned int i = 0; i < actions; i++) {
            name_action (name, sizeof (name), i);
            partial_finish (ep, name, rank);
            if (!idset_empty (epilog_ready (ep))) {
                if (epilog_gone (ep, epilog_ready (ep), NULL) < 0)
                    die ("epilog_gone");
                handoffs++;
            }
        }
    }
    for (unsigned int i = 0; i < actions; i++) {
        name_action (name, sizeof (name), i);
        if (epilog_finish (ep, name, NULL) < 0)
            die ("epilog_finish");
    }
    if (handoffs != count || !epilog_all_gone (ep)) {
        fprintf (stderr, "%u handoffs of %u ranks\n", handoffs, count);
        exit (1);
    }
    epilog_destroy (ep);
}

int main (int argc, char *argv[])
{
    unsigned int count = argc == 3 ? strtoul (argv[1], NULL, 10) : 0;
    unsigned int actions = argc == 3 ? strtoul (argv[2], NULL, 10) : 0;
    unsigned int lives = 0;
    double start;
    double spent;

    if (count == 0 || actions == 0 || count % stride == 0) {
        fprintf (stderr, "Usage: ledger RANKS ACTIONS\n");
        return 2;
    }
    live (count, actions); // warm
    start = cpu_time ();
    do {
        live (count, actions);
        lives++;
        spent = cpu_time () - start;
    } while (spent < measure_ns);
    printf ("%.1f\n", spent / lives / count / actions);
    return 0;
}

// vi:ts=4 sw=4 expandtab
