/* pinyon/locks.h - locks: a chapter of pinyon.h, which includes it. */
#ifndef PINYON_H
#include "../pinyon.h"
#elif !defined PINYON_LOCKS_H
#define PINYON_LOCKS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Locks ------------------------------------------------------------------------------------------------------- */

typedef struct pinyon_locks pinyon_locks;

/* Makes a client of locks: options url, namespace, ttl, timeout, … Several urls are independent servers, of which a
 * majority holds each lock. It does not connect yet. A program that ends may still hold locks: PINYON_RELEASE_ALL
 * releases them; without it they end with their ttl. */
pinyon_locks *pinyon_locks_new(const pinyon_option *options, size_t count, pinyon_error **error);
pinyon_locks *pinyon_locks_clone(const pinyon_locks *locks);
/* Fails all waits and closes the connections. Those that waited leave the server's queues. Held locks are lost here; on the
 * server they end with their ttl. Event loops begin nothing more; pinyon_loop_close ends what is under way there. */
void        pinyon_locks_close(const pinyon_locks *locks);
void        pinyon_locks_free(pinyon_locks *locks);
const char *pinyon_locks_server(const pinyon_locks *locks);
/* What stands before the names of locks in the server's keys. It lives as long as the handle. */
pinyon_bytes pinyon_locks_prefix(const pinyon_locks *locks);

typedef enum pinyon_wish_kind {
    PINYON_LOCK          = 0, /* acquire all names and permits or none: DONE with `lock`, or TAKEN with PINYON_AT_ONCE */
    PINYON_RELEASE       = 1, /* DONE, or NOT_HELD if it was lost before */
    PINYON_EXTEND        = 2, /* to `ttl` from now: DONE, or NOT_HELD */
    PINYON_PARK          = 3, /* release the names until notified, for `wait` at most; then acquire them again */
    PINYON_NOTIFY        = 4, /* notify `most` of those that are parked on the same names; 0: all of them */
    PINYON_INSPECT       = 5, /* who holds or reads the names, and who waits for them: `answers` */
    PINYON_FORCE_RELEASE = 6, /* take the names away from their holders */
    PINYON_COMMAND       = 7, /* send `names` as a command of the server: pinyon_read_answers */
    PINYON_RATE          = 8, /* take `most` permits of a rate: DONE, or TAKEN if they are not there, with `number`, `ttl`
                                 and `last_access` of the reply. See pinyon_rate */
    PINYON_RELEASE_ALL   = 9, /* release all that the client's threads hold, or those of the event loop; `number` of them */
    PINYON_HAND_OVER     = 10, /* DONE with the ticket in `value`: a LOCK with it takes the lock over, in any process */
    PINYON_AVAILABLE     = 11, /* how many permits of a pool nobody holds now: `number` */
    PINYON_UPGRADE       = 12, /* write what the lock reads, `names` or all: DONE with its new token in `number`. Waits for
                                  others that read it, for `wait`; after a failure the lock still reads */
    PINYON_DOWNGRADE     = 13  /* read what the lock writes, `names` or all */
} pinyon_wish_kind;

/* For `with` of wishes. */
typedef enum pinyon_wish_with {
    PINYON_AT_ONCE       = 0x1, /* LOCK: do not wait: if others hold it, PINYON_TAKEN. UPGRADE: if others read it,
                                   PINYON_E_LOCK_TIMEOUT */
    PINYON_NO_RENEWAL    = 0x2, /* LOCK: it ends after its ttl */
    PINYON_REENTRANT     = 0x4, /* LOCK: the owner may hold the names already */
    PINYON_NOT_REENTRANT = 0x8, /* LOCK: it must not, whatever the client's option says */
    PINYON_WITH_TOKEN    = 0x10, /* FORCE_RELEASE: only from the holder of `token` */
    PINYON_WAITS         = 0x20, /* RATE: wait for the permits: DONE when their time has come, or PINYON_E_LOCK_TIMEOUT at
                                   once, if that would be too late */
    PINYON_EARLY         = 0x40, /* RELEASE: although `at_least` is not over, as what it was for has failed */
    PINYON_PROCEED       = 0x80  /* LOCK: DONE without the lock while the servers are away, for work that may run twice:
                                   pinyon_lock_is_certain tells */
} pinyon_wish_with;

/* How many permits a name gives in a time, counted on the server for all processes: one every `per` / `limit` seconds. If
 * none was taken for a while, it gives up to `burst` at once. A check is one command, and is never repeated. */
typedef struct pinyon_rate {
    size_t  size; /* sizeof(pinyon_rate) */
    int64_t limit;
    double  per;   /* seconds */
    int64_t burst; /* 0: `limit` */
} pinyon_rate;

/* Permits of a pool. A pool of permits and a lock of the same name are different things. */
typedef struct pinyon_permits {
    pinyon_bytes pool;  /* its name */
    uint32_t     count; /* how many a lock wants, up to 1,000 */
    uint32_t     limit; /* how many there are, up to 1,000,000: what was told last counts for all clients. 0: as this client
                           was told before; PINYON_E_INVALID_NAME if it was not */
} pinyon_permits;

typedef struct pinyon_wish {
    size_t              size; /* sizeof(pinyon_wish) */
    pinyon_wish_kind    kind;
    uint32_t            with;
    const pinyon_bytes *names; /* LOCK (those that it writes, which is to have them alone), INSPECT, FORCE_RELEASE, COMMAND;
                                  RATE: its name. UPGRADE, DOWNGRADE: some of the lock's; none: all that can be */
    size_t              count; /* of names */
    pinyon_lock        *lock;  /* of all wishes about a lock that is held: in the loop where it was acquired, or waiting */
    uint64_t            owner; /* LOCK: who must not wait for itself; 0: the calling thread. See pinyon_new_owner */
    double              ttl;   /* LOCK, EXTEND: 0 for the client's option. HAND_OVER: to adopt it; 0 for the lock's own */
    double              wait;  /* LOCK: 0 for the client's option `timeout`. UPGRADE: 0 for as long as the lock was to wait.
                                  PARK: 0 for no end. All: below 0, not at all,
                                  so that LOCK fails with PINYON_E_LOCK_TIMEOUT; INFINITY: no end. RATE with
                                  PINYON_WAITS: as LOCK. RELEASE_ALL: for the answers; 0 for the client's option
                                  `command_timeout` */
    double              max_hold; /* LOCK: renew it for so long at most; 0: until it is released */
    uint64_t            token;    /* FORCE_RELEASE */
    uint32_t            most;     /* NOTIFY. RATE: how many permits, of which it gives all or none; 0: one */
    pinyon_bytes        tag;      /* COMMAND: with the option hash_tags=names, the names' tag; otherwise nothing */
    void               *context;  /* of the reply. LOCK: also of the note of a loss, unless it is NULL */
    const pinyon_rate  *rate;     /* RATE */
    double              at_least; /* LOCK: the names stay locked so long, even if it is released earlier; 0: no longer */
    pinyon_bytes        ticket;   /* LOCK: adopt the lock that was handed over, instead of acquiring `names` */
    const pinyon_bytes *read;     /* LOCK: names to have together with others that read them */
    size_t              read_count;
    const pinyon_permits *permits; /* LOCK: of several pools. AVAILABLE: of one, whatever its count */
    size_t              permits_count;
    pinyon_bytes        note; /* LOCK: what it is for, up to 200 bytes of UTF-8, for people who look who holds it or waits.
                                 Without it, one that is adopted keeps the note that it had */
} pinyon_wish;

/* Remembers the limit of a pool, for wishes whose permits have the limit 0. Asks no server. */
pinyon_status pinyon_locks_tell_permits(const pinyon_locks *locks, const pinyon_permits *permits, pinyon_error **error);

/* Carries out a wish, and waits for its reply. An interrupted LOCK is given up. */
pinyon_status pinyon_lock_run(const pinyon_locks *locks, const pinyon_wish *wish, pinyon_reply *reply,
                              const pinyon_host *host);

/* The fencing token: it grows with every acquisition of any of the names. */
uint64_t pinyon_lock_token(const pinyon_lock *lock);
/* What its holder says about it, for people; its size is 0 if nothing. It lives as long as the handle. */
pinyon_bytes pinyon_lock_note(const pinyon_lock *lock);
/* How long it is held without renewal; 0: it is not held. */
double pinyon_lock_remaining(const pinyon_lock *lock);
/* PINYON_DONE, or PINYON_FAILED with PINYON_E_LOCK_LOST and the reason. Asks no server. */
pinyon_status pinyon_lock_check(const pinyon_lock *lock, pinyon_error **error);
/* Whether it has been held from its acquisition until now, or until its release. False if it was lost, or if PINYON_PROCEED
 * let its holder go on without it: then the holder may not have been alone. */
bool pinyon_lock_is_certain(const pinyon_lock *lock);
/* The error for a block of code that ends, and whose lock was lost inside. NULL: PINYON_PROCEED let its holder go on. */
pinyon_error *pinyon_lock_lost_early(const pinyon_lock *lock);

typedef enum pinyon_loss {
    PINYON_NOT_LOST     = 0,
    PINYON_LOSS_EXPIRED = 1, /* its ttl passed before a renewal was confirmed */
    PINYON_LOSS_GONE    = 2, /* it is gone from the server */
    PINYON_LOSS_FORCED  = 3, /* it was released by force */
    PINYON_LOSS_CLOSED  = 4, /* its client was closed */
    PINYON_LOSS_FORKED  = 5, /* it belongs to the process that this one was forked from */
    PINYON_LOSS_RELEASED    = 6, /* it was released with all other locks of its client */
    PINYON_LOSS_HANDED_OVER = 7  /* it was handed over; no note tells of this */
} pinyon_loss;

pinyon_loss pinyon_lock_loss(const pinyon_lock *lock);
const char *pinyon_loss_text(pinyon_loss loss); /* a phrase that follows a colon */
/* Has a later loss noted with this context, beside the one of the wish. False: it was lost already. */
bool pinyon_lock_listen(const pinyon_lock *lock, void *context);
/* Frees the handle. A lock that is held still is given up: it is not renewed, and ends with its ttl. */
void pinyon_lock_free(pinyon_lock *lock);

/* The metrics of the locks, as JSON: an object. Free it with pinyon_text_free. */
char *pinyon_locks_metrics(const pinyon_locks *locks);

/* What happened by itself: a lock that was lost (context), or an event of the servers, of one of these kinds: connected,
 * disconnected, down, up, gone (was down, and is no longer used), switched (the primary), sentinel_down, sentinel_up,
 * renewals (are refused), proceeded (a holder, without its lock), certificates, stale_certificates, warning (any other).
 * Where the option `events` is off, only switched, renewals, proceeded, stale_certificates and warning are noted. */
typedef struct pinyon_note {
    size_t              size;    /* that of the library's struct */
    const char         *warning; /* the line of such an event, for operators; NULL for all else */
    void               *context;
    pinyon_loss         loss;
    const pinyon_event *event; /* it lives as long as the note; NULL: a loss */
} pinyon_note;

pinyon_note *pinyon_next_note(const pinyon_locks *locks); /* NULL: none */
/* Waits for a note, for so many seconds at most. For a thread that does nothing else. */
pinyon_note *pinyon_wait_note(const pinyon_locks *locks, double seconds, const pinyon_host *host);
void         pinyon_note_free(pinyon_note *note);

/* ---- Leaders: at most one candidate for a name leads ------------------------------------------------------------- */

/* A candidate asks for the lock on its name for ever, and leads while it has it. Its host does what each step says, in a
 * thread, a coroutine or by callbacks, and reports what became of it to pinyon_candidate_next, until that returns
 * PINYON_LEADER_OVER. All decisions are the library's. docs/c.md has a program. */
typedef struct pinyon_candidate pinyon_candidate;

typedef enum pinyon_leader_step {
    PINYON_LEADER_OVER    = 0, /* it has ended; also in a forked child, and after an error */
    PINYON_LEADER_ASK     = 1, /* acquire a lock on the name with `wait` INFINITY: GRANTED, FAILED or CLOSED. DONE if the wait
                                  was ended because of pinyon_candidate_stop */
    PINYON_LEADER_ELECTED = 2, /* tell the program that it leads, with the token: DONE or FAILED */
    PINYON_LEADER_LEAD    = 3, /* if the lock is not held: LOCK_LOST. Otherwise wait until it is lost, or the candidate is to
                                  resign or to stop, for so many seconds at most: DONE */
    PINYON_LEADER_LOST    = 4, /* tell the program that it leads no more, with the token: DONE or FAILED */
    PINYON_LEADER_RELEASE = 5, /* release the lock, which may be lost: DONE or FAILED */
    PINYON_LEADER_PAUSE   = 6, /* wait for so many seconds, or until it is to stop: DONE */
    PINYON_LEADER_WARN    = 7  /* report the line to the operators: DONE */
} pinyon_leader_step;

typedef enum pinyon_leader_report {
    PINYON_LEADER_DONE      = 0, /* also the first report of all */
    PINYON_LEADER_GRANTED   = 1, /* with the token of the lock */
    PINYON_LEADER_LOCK_LOST = 2,
    PINYON_LEADER_FAILED    = 3, /* with the reason */
    PINYON_LEADER_CLOSED    = 4, /* the client of locks was closed */
    PINYON_LEADER_INTERRUPTED = 5 /* what takes the steps was ended in this one, with the reason: the candidate is to stop.
                                     May follow each step */
} pinyon_leader_report;

/* The names of steps and reports, for hosts that pass them on: those of the enums, in lower case and without
 * "PINYON_LEADER_". */
const char *pinyon_leader_step_name(pinyon_leader_step step); /* "": there is no such step */
bool        pinyon_leader_report_named(const char *name, pinyon_leader_report *report); /* false: there is none */

pinyon_candidate  *pinyon_candidate_new(pinyon_bytes name, pinyon_error **error);
/* The next step. `token` and `why` belong to some reports; otherwise 0 and nothing. One thread at a time. */
pinyon_leader_step pinyon_candidate_next(const pinyon_candidate *candidate, pinyon_leader_report report, uint64_t token,
                                         pinyon_bytes why, pinyon_error **error);
/* What belongs to the last step. */
uint64_t    pinyon_candidate_step_token(const pinyon_candidate *candidate);
double      pinyon_candidate_step_seconds(const pinyon_candidate *candidate);
const char *pinyon_candidate_step_line(const pinyon_candidate *candidate); /* until the next step */
/* These may be called by any thread. After the first two, wake what waits. */
bool        pinyon_candidate_resign(const pinyon_candidate *candidate); /* whether it led */
void        pinyon_candidate_stop(const pinyon_candidate *candidate);
bool        pinyon_candidate_is_stopping(const pinyon_candidate *candidate);
uint64_t    pinyon_candidate_token(const pinyon_candidate *candidate); /* with which it leads, if the lock is held; or 0 */
const char *pinyon_candidate_state(const pinyon_candidate *candidate); /* candidate, leader, resigning, paused, stopped */
void        pinyon_candidate_free(pinyon_candidate *candidate);

uint64_t pinyon_new_owner(void);   /* a number for a coroutine, which no other has in this process */
uint64_t pinyon_this_thread(void); /* the number of the calling thread */
/* The hash tag that all names have, those of pools included; start NULL: they have none. Fails if they have several. */
pinyon_status pinyon_common_tag(const pinyon_bytes *names, size_t count, pinyon_bytes *tag, pinyon_error **error);

#ifdef __cplusplus
}
#endif
#endif
