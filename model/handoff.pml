/* SPDX-License-Identifier: LGPL-3.0 */

/* handoff.pml - a job's ranks on their way back to the scheduler
 *
 * A model, for Spin, of what epilog.c, hold.c, handoff.c and claim.c do,
 * together with what they are called from: event.c (job states), alloc.c
 * (hello, ready, free), housekeeping.c and start.c.  Names are those of the C
 * code.  `sh model/check` runs it.
 *
 * One job with NR ranks and an SSD that belongs to none of them; up to three
 * epilog actions; housekeeping; a scheduler module that keeps a book, and may
 * be replaced; a job that takes what the book has free.  Each step is what
 * one callback of the job manager's reactor does, with all the events that it
 * posts.  Spin tries them in any order.  A crash takes job manager, scheduler
 * and housekeeping, and the events that were not committed.  Sets of ranks are
 * bits of a byte.
 *
 * What is checked.  These are the texts that model/check prints:
 * - given while in use: nobody gets a rank that an action, a prolog, a shell
 *   or housekeeping is on.
 * - freed twice: the job manager returns no rank twice.
 * - not the job's: the scheduler gets no free of what its book does not have
 *   for the job, nor of a job that it dropped.
 * - final is not the rest: final comes with all that is left, and only then.
 * - second final: one final in the job's life; to be left out of a hello is
 *   one, too.
 * - part to no-parts: a scheduler without partial-ok gets the whole.
 * - told twice: a hello gives no rank to two jobs.
 * - told of purged: a scheduler can read R of each job that it is told of.
 * - dropped needlessly: no job is dropped that a scheduler can have.
 * - SSD under an action: with last-action, the SSD outlasts the actions.
 * - clean under an action: the job is active until its actions have ended.
 * - left lying: what may go is on its way, after each step.
 * - job is stuck, rank is lost: when nobody has anything left to do, the job
 *   is inactive and the scheduler's book is empty.
 * - deadlock: Spin's invalid end state.
 * If somebody who is not the scheduler says that it dropped the job, what the
 * job had not let go of is out until a final free, or the next scheduler.
 *
 * What is left out:
 * - Time.  A timer that is set fires at any later time.  Messages are not
 *   counted.
 * - Bad events, matching of descriptions, the limit of 255 actions: the
 *   ledger's own tests have these.  Prolog events out of order.
 * - Failure: of memory, of a commit, of a command that can't be started.
 * - Ranks that jobs share; alloc-bypass; an R that makes no sense; the tables
 *   of resource-status, stats and alloc-check; R of a job whose alloc event
 *   was not committed.
 * - A change of final-free while the job is in CLEANUP.
 * - The other job's frees are not on the wire, and it lets go of a part only
 *   while no scheduler is between hello and ready.
 * - A hello from anybody but the scheduler, or while another is ready.
 * - Parts of a job that has no claim, as release-after makes them: flux-core
 *   sends these to any scheduler.  Here only if all take parts.
 */

#ifndef NR
#define NR 3        /* ranks of the job, 3 at most */
#endif
#ifndef START
#define START 0     /* 0: from RUN, shells up  1: from SCHED, with cancel */
#endif
#ifndef PROLOG
#define PROLOG 0    /* 1: a prolog may run */
#endif
#ifndef EARLY
#define EARLY 0     /* 1: actions may start, let go and end in RUN */
#endif
#ifndef LATE
#define LATE 0      /* 1: a third action may start at any time in CLEANUP
                       2: a plugin starts it, as its second, after a crash */
#endif
#ifndef HK
#define HK 1        /* 0: no housekeeping  1: always  2: switched at will */
#endif
#ifndef KEEP
#define KEEP 0      /* 1: final-free = "last-action" */
#endif
#ifndef PARTIAL
#define PARTIAL 1   /* partial-ok: 0: no scheduler  1: each  2: some */
#endif
#ifndef RELOAD
#define RELOAD 0    /* so many schedulers are unloaded */
#endif
#ifndef CRASH
#define CRASH 0     /* so many crashes */
#endif
#ifndef DROP
#define DROP 0      /* so often a scheduler can't have what it is told of */
#endif
#ifndef RAISE
#define RAISE 0     /* so often somebody else says that it can't */
#endif
#ifndef OTHER
#define OTHER 1     /* so often another job starts */
#endif
#ifndef OTHER_PARTS
#define OTHER_PARTS 0   /* 1: the other job has a rank more, and lets go of
                           those of this job first */
#endif
#ifndef PURGE
#define PURGE 0     /* 1: the job may be purged once it is inactive */
#endif

#define ALL ((1 << NR) - 1)
#define ELSEWHERE (1 << NR)     /* a rank that is not this job's */
#define ACTIONS 3

#define SCHED 0
#define RUN 1
#define CLEANUP 2
#define INACTIVE 3

#define NONE 0          /* no action, or no scheduler module */
#define OPEN 1
#define ENDED 2
#define HELLO 1
#define READY 2

#define MUST(cond, text) \
    if \
    :: (cond) -> skip \
    :: else -> printf (text); assert (false) \
    fi

#define LOWEST(m) ((m) & ~((m) & ((m) - 1)))

/* The job, as its events say.  'kvs_' is what of that is committed. */
byte state, kvs_state;
bool has_resources, kvs_has_resources;
byte action[ACTIONS], kvs_action[ACTIONS];
byte held[ACTIONS], kvs_held[ACTIONS];    /* ranks, by action */
byte gone, kvs_gone;
bool prolog, kvs_prolog;
bool dropped, kvs_dropped;                /* scheduler-restart exception */
byte other, kvs_other;                  /* ranks that another job is on */
byte other_back, kvs_other_back;        /* that it let go of before the rest */

/* The job, as only memory has it */
bool start_pending;     /* shells are up, or exec was asked for them */
bool alloc_pending;
byte queued;            /* so many epilog-start events are in its queue */
bool due;               /* the timer will let ranks go */
bool purged;
bool hk_config = (HK > 0);
byte frag[NR];          /* ranks in housekeeping, by the lowest at start */

/* struct claims, struct claim */
bool online;            /* alloc->scheduler_is_online */
bool between;
bool partial_ok, hello_partial_ok;
bool claim;
byte returned;          /* without a claim: what one housekeeping freed */
chan waiting = [NR + 1] of { byte, bool };
bool waiting_other;     /* the other job's free waits */

/* The scheduler module and its book */
byte module;            /* NONE, HELLO (answered), READY */
bool takes_parts;
bool tracked;           /* the book has the job, and with it the SSD */
byte book;              /* ranks of the job */
byte book_other;        /* ranks of the other job */
bool asked;             /* for an alloc */
bool granted;           /* sched.alloc response on its way */
chan wire = [NR + 1] of { byte, bool };     /* sched.free: ranks, final */
bool final_seen;

byte crashes = CRASH;
byte reloads = RELOAD;
byte drops = DROP;
byte raises = RAISE;
bool raised;            /* and this scheduler does not know */
byte others = OTHER;

#define HELD (held[0] | held[1] | held[2])
#define ANYOPEN (action[0] == OPEN || action[1] == OPEN || action[2] == OPEN)
#if NR == 1
#define IN_HK frag[0]
#elif NR == 2
#define IN_HK (frag[0] | frag[1])
#else
#define IN_HK (frag[0] | frag[1] | frag[2])
#endif

/* What somebody is on.  A dropped job has lost its ranks: that is what the
 * exception says. */
#define IN_USE (IN_HK | (dropped -> 0 : (HELD \
    | (has_resources -> ALL & ~HANDED : 0) \
    | (prolog || start_pending -> ALL : 0))))

#define PARTIAL_OK (between && !online -> hello_partial_ok : partial_ok)

/* BUG_*: each takes out one rule; model/check wants it to be caught. */

/* BUG_EARLY_LOST: an epilog-start in RUN is ignored, as in flux-core */
#ifdef BUG_EARLY_LOST
bool lost;
#define COUNTED (held[0] | (lost -> 0 : held[1]) | held[2])
#define PERILOG_ACTIVE (prolog || action[0] == OPEN || action[2] == OPEN \
    || (action[1] == OPEN && !lost))
#else
#define COUNTED (HELD)
#define PERILOG_ACTIVE (prolog || ANYOPEN)
#endif

/* BUG_HELD: hands over what an action holds */
#ifdef BUG_HELD
#define UNHELD (ALL & ~gone)
#else
#define UNHELD (ALL & ~gone & ~COUNTED)
#endif

/* BUG_KEEP: final-free is ignored, no rank is kept back */
#if KEEP && !defined (BUG_KEEP)
#define KEPT (ANYOPEN && HELD == 0 -> LOWEST (UNHELD) : 0)
#else
#define KEPT 0
#endif

/* BUG_PROLOG: an outstanding prolog holds nothing */
#ifdef BUG_PROLOG
#define MAY_GO (UNHELD & ~KEPT)
#define NO_PROLOG true
#else
#define MAY_GO (prolog -> 0 : UNHELD & ~KEPT)
#define NO_PROLOG (!prolog)
#endif

/* BUG_EXEC: shells that are still up don't matter */
#ifdef BUG_EXEC
#define SHELLS_DONE true
#else
#define SHELLS_DONE (!start_pending)
#endif

/* BUG_QUEUED: an epilog-start that is in the queue doesn't matter */
#ifdef BUG_QUEUED
#define NO_START_QUEUED true
#else
#define NO_START_QUEUED (queued == 0)
#endif

/* BUG_EARLY_COUNTS: an action started in RUN is in perilog_active at once */
#ifdef BUG_EARLY_COUNTS
#define MAY_START (!prolog && !ANYOPEN)
#else
#define MAY_START (!prolog)
#endif

/* BUG_MARK_LATE: ranks are marked gone some time after they were handed over */
#ifdef BUG_MARK_LATE
byte unmarked;
#define HANDED (gone | unmarked)
#else
#define HANDED gone
#endif
/* BUG_STALE: the timer hands over what could go when it was set */
#ifdef BUG_STALE
byte stale;
#endif

/* hold.c: update_start(), with all ranks, none, or one.  'left' is what the job
 * had left when the event was posted: others are refused. */
inline epilog_start (i)
{
    action[i] = OPEN;
    if
    :: held[i] = left
    :: skip
    :: held[i] = LOWEST (left)
    fi;
#ifdef BUG_LATE
    gone = gone & ~held[i];
#endif
    skip
}

/* BUG_LATE: a start may name ranks that went, and takes them back */
#ifdef BUG_LATE
#define LEFT (has_resources -> ALL : 0)
#else
#define LEFT (has_resources -> ALL & ~gone : 0)
#endif

/* A partial finish, of one rank or of all */
inline epilog_release (i)
{
    if
    :: held[i] = held[i] & ~LOWEST (held[i])
    :: (i == 0) -> held[i] = 0
    fi
}

inline epilog_finish (i)
{
    action[i] = ENDED; held[i] = 0
}

#define OWNER_ACTS(i) (action[i] == OPEN \
    && (state == CLEANUP || (EARLY && state == RUN)))

inline flush (ch)
{
    do
    :: nempty (ch) -> ch ? m, last
    :: empty (ch) -> break
    od;
    m = 0; last = false
}

inline end_housekeeping ()
{
    frag[0] = 0;
#if NR > 1
    frag[1] = 0;
#endif
#if NR > 2
    frag[2] = 0;
#endif
    skip
}

/* claim.c: free_send() */
inline free_send (ranks, final)
{
    if
    :: online -> wire ! ranks, final
    :: !online && between ->
#ifdef BUG_BETWEEN              /* frees between hello and ready are dropped */
        skip
#else
        waiting ! ranks, final
#endif
    :: else -> skip             /* the next hello tells */
    fi
}

/* alloc.c: alloc_send_free_request(), with claim_free() in it */
inline send_free (ranks, final)
{
    if
    :: claim ->
        MUST ((returned & ranks) == 0, "freed twice");
        returned = returned | ranks;
#ifndef BUG_FINAL               /* final says that a fragment is done */
        final = (returned == ALL);
#endif
        if
#ifdef BUG_PARTS                /* parts go to a scheduler without partial-ok */
        :: true -> free_send (ranks, final)
#else
        :: PARTIAL_OK -> free_send (ranks, final)
        :: !(PARTIAL_OK) && final -> free_send (ALL, true)
        :: else -> skip
#endif
        fi;
        if
#ifndef BUG_END                 /* a claim outlasts its final free */
        :: (returned == ALL) -> claim = false; returned = 0
#endif
        :: else -> skip
        fi
    :: else ->
        free_send (ranks, final);
        returned = (final -> 0 : returned | ranks)
    fi
}

/* claim_exception(): the claim and its frees go, and housekeeping ends.  The
 * exception itself, if the job is active. */
inline drop ()
{
#ifdef BUG_DROP_PLAIN           /* not so if it is inactive, without a claim */
    if
    :: (claim || state != INACTIVE) -> returned = 0; end_housekeeping ()
    :: else -> skip
    fi;
#else
    returned = 0;
#ifndef BUG_DROP_HK             /* housekeeping of a dropped job goes on */
    end_housekeeping ();
#endif
#endif
    claim = false;
#ifndef BUG_DROP_WAITING        /* frees of a dropped job go out at ready */
    flush (waiting);
#endif
    if
    :: (state != INACTIVE) ->
        dropped = true; has_resources = false; state = CLEANUP
    :: else -> skip
    fi
}

/* claim_abandon(): a job has lost its ranks, but not to the scheduler */
inline abandon ()
{
    if
#ifndef BUG_ABANDON             /* its claim is on all of them still */
    :: (dropped && claim) ->
        returned = returned | (ALL & ~gone);
        if
        :: (returned == ALL) -> claim = false; returned = 0
        :: else -> skip
        fi
#endif
    :: else -> skip
    fi
}

/* BUG_OVERLAP: two jobs are told of as wholes, with a rank that both returned */
#ifdef BUG_OVERLAP
#define SPOKEN_OF(b) 0
#else
#define SPOKEN_OF(b) (b)
#endif

/* Hello speaks of the other job; if it let go of a part, by its claim. */
inline hello_other ()
{
    if
    :: (!takes_parts && (other_back & (IN_HK | SPOKEN_OF (book)
        | (has_resources -> ALL & ~returned : 0))) != 0) ->
        other = 0; other_back = 0
    :: else -> skip
    fi;
    book_other = other | (takes_parts -> 0 : other_back)
}

/* alloc.c: hello_cb(), with housekeeping_hello_respond() and
 * claims_hello_respond() in it */
inline hello ()
{
    module = HELLO; between = true; takes_parts = (PARTIAL > 0);
    raised = false;
    if
    :: (PARTIAL == 2) -> takes_parts = false
    :: skip
    fi;
    hello_partial_ok = takes_parts;
#ifndef BUG_STALE_WAITING       /* frees that waited go to the next module */
    flush (waiting);
#endif
    waiting_other = false;
    if
    :: hello_other ()
    :: (other_back != 0) -> i = 1       /* later: claims have no order */
    fi;
    if
#ifndef BUG_OBSTACLE            /* told of the whole, although others use it */
    :: (claim && !purged && !takes_parts
#ifndef BUG_EAGER               /* a job is dropped if anything is back */
        && (returned & (other | SPOKEN_OF (book_other) | IN_HK)) != 0
#else
        && returned != 0
#endif
        ) ->
        MUST ((returned & (other | book_other)) != 0, "dropped needlessly");
        drop ()
#endif
#ifndef BUG_PURGED              /* a claim is told of although R is not there */
    :: (claim && purged) -> drop ()
#endif
    :: (!claim && !has_resources && purged) -> end_housekeeping ()
    :: else ->
        if
        :: (claim || has_resources || IN_HK != 0) ->
            MUST (!purged, "told of purged");
            MUST (!final_seen, "second final");
            tracked = true;
            book = ALL;
#ifndef BUG_HELLO               /* told of the whole, with partial-ok */
            if
            :: takes_parts -> book = ALL & ~returned
            :: else -> skip
            fi
#endif
        :: else -> final_seen = (state > RUN)
        fi
    fi;
    if
    :: (i == 1) -> i = 0; hello_other ()
    :: else -> skip
    fi;
    MUST ((book & book_other) == 0, "told twice")
}

/* alloc.c: ready_cb(), with claims_ready() in it */
inline ready ()
{
    module = READY; online = true; between = false;
    partial_ok = hello_partial_ok;
    do
    :: nempty (waiting) -> waiting ? m, last; wire ! m, last
    :: empty (waiting) -> break
    od;
    m = 0; last = false;
    if
    :: waiting_other -> waiting_other = false; book_other = 0
    :: else -> skip
    fi
}

/* The scheduler module goes, and so does what is on its way to and from it.
 * The job manager hears of it only if it was ready. */
inline unload ()
{
    module = NONE; takes_parts = false;
    online = false; alloc_pending = false;
    tracked = false; book = 0; book_other = 0;
    asked = false; granted = false;
    flush (wire)
}

#if CRASH
inline commit ()
{
    kvs_state = state; kvs_has_resources = has_resources;
    kvs_action[0] = action[0]; kvs_held[0] = held[0];
    kvs_action[1] = action[1]; kvs_held[1] = held[1];
    kvs_action[2] = action[2]; kvs_held[2] = held[2];
    kvs_gone = gone; kvs_prolog = prolog; kvs_dropped = dropped;
    kvs_other = other; kvs_other_back = other_back
}

#define COMMITTED (kvs_state == state && kvs_has_resources == has_resources \
    && kvs_action[0] == action[0] && kvs_held[0] == held[0] \
    && kvs_action[1] == action[1] && kvs_held[1] == held[1] \
    && kvs_action[2] == action[2] && kvs_held[2] == held[2] \
    && kvs_gone == gone && kvs_prolog == prolog && kvs_dropped == dropped \
    && kvs_other == other && kvs_other_back == other_back)

inline crash ()
{
    unload ();
    state = kvs_state; has_resources = kvs_has_resources;
    action[0] = kvs_action[0]; held[0] = kvs_held[0];
    action[1] = kvs_action[1]; held[1] = kvs_held[1];
    action[2] = kvs_action[2]; held[2] = kvs_held[2];
    gone = kvs_gone; prolog = kvs_prolog; dropped = kvs_dropped;
    other = kvs_other; other_back = kvs_other_back;
#ifdef BUG_RECORD               /* partial-free is not replayed */
    gone = (gone == ALL -> ALL : 0);
#endif
    final_seen = (gone == ALL);
    start_pending = false; due = false; purged = false;
    between = false; partial_ok = false; hello_partial_ok = false;
    claim = false; returned = 0;
    flush (waiting); waiting_other = false;
    end_housekeeping ();
    if
    :: (crashes == 0) ->        /* equal states are one */
        kvs_state = 0; kvs_has_resources = false;
        kvs_action[0] = 0; kvs_action[1] = 0; kvs_action[2] = 0;
        kvs_held[0] = 0; kvs_held[1] = 0; kvs_held[2] = 0;
        kvs_gone = 0; kvs_prolog = false; kvs_dropped = false;
        kvs_other = 0; kvs_other_back = 0
    :: else -> skip
    fi;
    if
    :: (LATE == 2 && state == CLEANUP && action[2] == NONE && !dropped) ->
        left = LEFT;
        epilog_start (2)        /* a plugin is told of the job again */
    :: skip
    fi
}
#endif

active proctype job_manager ()
{
    byte m;     /* ranks that go, or that housekeeping is done with */
    bool last;
    byte left;
    byte i;

    atomic {
        if
        :: (START == 0) ->
            state = RUN; has_resources = true; start_pending = true;
            tracked = true; book = ALL;
            kvs_state = RUN; kvs_has_resources = true
        :: else -> skip
        fi;
        online = true; module = READY;
        takes_parts = (PARTIAL > 0);
        if
        :: (PARTIAL == 2) -> takes_parts = false
        :: skip
        fi;
        partial_ok = takes_parts; hello_partial_ok = takes_parts
    };
loop:
    do
    /* The job on its way to CLEANUP */
#if START == 1
    :: atomic { (state == SCHED && !alloc_pending && online) ->
        alloc_pending = true; asked = true }
    :: atomic { granted ->
        granted = false;
        if
        :: (state == SCHED && alloc_pending) ->
            alloc_pending = false; has_resources = true; state = RUN;
            if
            :: PROLOG -> prolog = true
            :: skip
            fi;
            goto act
        :: else -> m = ALL; last = true; goto free
        fi }
    :: atomic { (state == SCHED || state == RUN) ->     /* canceled */
        state = CLEANUP; alloc_pending = false;
        goto cleanup }
#endif
#if PROLOG
    :: atomic { prolog -> prolog = false; goto act }
#endif
    :: atomic { (state == RUN && start_pending) ->      /* finish */
        state = CLEANUP;
        goto cleanup }
    :: atomic { (state == CLEANUP && start_pending) ->  /* release */
        start_pending = false;
        goto chain }

    /* Epilog actions */
#if EARLY
    :: atomic { (state == RUN && action[1] == NONE) ->
        left = LEFT;
        epilog_start (1);
#ifdef BUG_EARLY_LOST
        lost = true;
#endif
        goto act }
#endif
    :: atomic { (OWNER_ACTS (0) && held[0]) -> epilog_release (0); goto act }
    :: atomic { (OWNER_ACTS (1) && held[1]) -> epilog_release (1); goto act }
    :: atomic { OWNER_ACTS (0) -> epilog_finish (0); goto chain }
    :: atomic { OWNER_ACTS (1) -> epilog_finish (1); goto act }
#if LATE
    :: atomic { (OWNER_ACTS (2) && held[2]) -> epilog_release (2); goto act }
    :: atomic { OWNER_ACTS (2) -> epilog_finish (2); goto act }
    :: atomic { (state == CLEANUP && action[2] == NONE && !dropped
        && (LATE == 1 || crashes < CRASH)) ->
        left = LEFT;
        epilog_start (2);
        goto act }
#endif

    /* handoff.c: timer_cb() */
    :: atomic { due ->
        due = false;
#ifdef BUG_STALE
        m = stale & ~gone; stale = 0;
#else
        m = MAY_GO;
#endif
        goto let_go }
#ifdef BUG_MARK_LATE
    :: atomic { unmarked ->
        gone = gone | unmarked; unmarked = 0;
        goto act }
#endif

    /* Housekeeping is done with one rank of a fragment, or more. */
#if HK
    :: atomic { IN_HK != 0 ->
        if
        :: frag[0] != 0 -> i = 0
#if NR > 1
        :: frag[1] != 0 -> i = 1
#endif
#if NR > 2
        :: frag[2] != 0 -> i = 2
#endif
        fi;
        if
        :: m = frag[i]
        :: (claim || PARTIAL == 1) -> m = LOWEST (frag[i])
        :: ((claim || PARTIAL == 1) && frag[i] != LOWEST (frag[i])) ->
            m = frag[i] & ~LOWEST (frag[i])
        fi;
        frag[i] = frag[i] & ~m;
        last = (frag[i] == 0);
        i = 0;
        goto free }
#endif
#if HK == 2
    :: atomic { (state == CLEANUP && has_resources) -> hk_config = !hk_config }
#endif

    /* The other job ends. */
    :: atomic { other != 0 ->
        other = 0; other_back = 0;
        if
        :: online -> book_other = 0
#ifndef BUG_BETWEEN
        :: !online && between -> waiting_other = true
#endif
        :: else -> skip
        fi }
#if OTHER_PARTS
    :: atomic { ((other & ALL) != 0 && partial_ok && !between) ->
        other_back = other & ALL; other = ELSEWHERE;
        if
        :: online -> book_other = ELSEWHERE
        :: else -> skip
        fi }
#endif
#if PURGE
    :: atomic { (state == INACTIVE && !purged) -> purged = true }
#endif

    /* Another scheduler */
#if RELOAD
    :: atomic { (reloads > 0 && module != NONE) -> reloads--; unload () }
#endif
#if RELOAD || CRASH
    :: atomic { (module == NONE) ->
        hello ();
        if
        :: dropped -> goto act
        :: else -> goto next
        fi }
    :: atomic { (module == HELLO) ->
        ready ();
#ifdef BUG_READY                /* jobs are not looked at when one is ready */
        goto next
#else
        goto act
#endif
        }
#endif
#if DROP
    :: atomic { (module == HELLO && tracked && drops > 0) ->
        drops--; tracked = false; book = 0;
        drop ();
        goto act }
#endif

#if RAISE
    :: atomic { (raises > 0 && state > SCHED && has_resources) ->
        raises--; raised = true;
        dropped = true; has_resources = false; state = CLEANUP;
        goto act }
#endif

#if CRASH
    :: atomic { (crashes > 0 && !COMMITTED) -> commit () }
    :: atomic { (crashes > 0) -> crashes--; crash (); goto act }
#endif

    /* Nobody has anything left to do. */
    :: atomic { (state > RUN && !ANYOPEN && !prolog && !start_pending && !due
        && IN_HK == 0 && module == READY && empty (wire) && empty (waiting)
        && other == 0 && !asked && !granted) ->
        MUST (state == INACTIVE, "job is stuck");
        MUST (raised || (!tracked && book == 0), "rank is lost");
        MUST (book_other == 0 && !claim, "rank is lost");
        break }
    od;
    goto done;

    atomic {
    skip;
cleanup:
    left = LEFT;
    /* A plugin's callback starts actions: their events come after this one. */
    if
    :: (action[0] == NONE) -> queued = 1
    :: (action[0] == NONE && action[1] == NONE) -> queued = 2
    :: skip
    fi;
    goto act;

chain:
    left = LEFT;
    /* One that follows what has ended */
    if
    :: (state == CLEANUP && action[0] != NONE && action[1] == NONE) ->
        queued = 1
    :: skip
    fi;

act:
    /* event.c: event_job_action() */
    if
    :: (state == RUN && MAY_START) -> start_pending = true; goto next
    :: (state == CLEANUP && has_resources) -> skip
    :: else -> abandon (); goto clean
    fi;
    /* handoff.c: handoff_action() */
    if
    :: (gone != 0 && !claim) ->
        claim = true;
#ifndef BUG_RETURNED            /* after a restart nothing counts as returned */
        returned = gone;
#endif
        skip
    :: else -> skip
    fi;
    if
    :: (PERILOG_ACTIVE && MAY_GO != 0) ->
        due = true;
#ifdef BUG_STALE
        stale = MAY_GO;
#endif
        goto clean
    :: (!PERILOG_ACTIVE && MAY_GO != 0) -> m = MAY_GO
    :: else -> goto clean
    fi;

let_go:
    /* let_go(), hand_over(); if nothing went before and nothing is open, the
     * same is done by flux-core */
    if
    :: (state == CLEANUP && has_resources && SHELLS_DONE && NO_START_QUEUED
        && m != 0 && (!PERILOG_ACTIVE || PARTIAL_OK)) -> skip
    :: else -> m = 0; goto clean
    fi;
    if
    :: (gone == 0 && m == ALL) || claim -> skip
    :: else -> claim = true; returned = gone
    fi;
#ifdef BUG_MARK_LATE
    unmarked = unmarked | m; due = true;
    has_resources = ((gone | unmarked) != ALL);
#else
    gone = gone | m;
    has_resources = (gone != ALL);      /* free; else partial-free */
#endif
    /* housekeeping.c: housekeeping_start() */
    if
    :: !hk_config -> last = true; goto free
    :: hk_config && (m & 1) -> frag[0] = m
#if NR > 1
    :: hk_config && (m & 3) == 2 -> frag[1] = m
#endif
#if NR > 2
    :: hk_config && (m & 7) == 4 -> frag[2] = m
#endif
    fi;
    m = 0;
    goto clean;

free:
    send_free (m, last);
    m = 0; last = false;

clean:
    if
    :: (state == CLEANUP && !start_pending && !has_resources && queued == 0
        && !PERILOG_ACTIVE) ->
        MUST (!ANYOPEN, "clean under an action");
        state = INACTIVE
    :: else -> skip
    fi;

next:
    /* The next event in the queue */
    if
    :: (queued > 0) ->
        queued--;
        if
        :: (action[0] == NONE) -> epilog_start (0)
        :: else -> epilog_start (1)
        fi;
        goto act
    :: else -> left = 0
    fi;
    /* What may go has been let go of, or will be. */
    MUST (!(state == RUN && !prolog && !start_pending), "job is stuck");
    MUST (!(state == CLEANUP && has_resources && !start_pending
        && !PERILOG_ACTIVE), "left lying");
    MUST (!(state == CLEANUP && has_resources && !start_pending && online
        && partial_ok && MAY_GO != 0 && !due), "left lying");
    goto loop
    };
done:
    skip
}

active proctype scheduler ()
{
    byte m;
    bool last;

end:
    do
    :: atomic { wire ? m, last ->
        MUST (tracked && (m & ~book) == 0, "not the job's");
        MUST (takes_parts || (m == ALL && last), "part to no-parts");
        MUST (raised || last == (m == book), "final is not the rest");
        book = (raised && last -> 0 : book & ~m);
        if
        :: last ->
            MUST (!final_seen, "second final");
            MUST (!KEEP || !ANYOPEN, "SSD under an action");
            final_seen = true; tracked = false
        :: else -> skip
        fi;
        m = 0; last = false }
    :: atomic { (module == READY && others > 0 && other == 0
        && book_other == 0 && book != ALL) ->
        others--;
        m = ALL & ~book;
        if
        :: skip
        :: m = LOWEST (m)
        fi;
        MUST ((m & IN_USE) == 0, "given while in use");
        other = m | (OTHER_PARTS -> ELSEWHERE : 0);
        book_other = other; m = 0 }
#if START == 1
    :: atomic { (module == READY && asked && book == 0 && !tracked
        && book_other == 0) ->
        asked = false; granted = true; tracked = true; book = ALL }
    :: atomic { (module == READY && asked && state > RUN) -> asked = false }
#endif
    od
}
