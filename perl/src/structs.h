/* The structs that several files of Perl's native half use. */

#ifndef PINYON_PERL_STRUCTS_H
#define PINYON_PERL_STRUCTS_H

#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include "pinyon.h"

#ifndef G_LIST
#define G_LIST G_ARRAY
#endif
#ifndef is_utf8_invariant_string
#define is_utf8_invariant_string is_ascii_string
#endif
#ifndef newSVsv_nomg
#define newSVsv_nomg newSVsv
#endif
#ifndef dTHXa
#define dTHXa(context) dNOOP
#endif

#ifdef __GNUC__
#define COLD __attribute__((cold, noinline))
#define HOT  __attribute__((always_inline)) inline
#else
#define COLD
#define HOT
#endif

/* ---- Handles: what the objects of Perl hold ------------------------------------------------------------------------ */

typedef struct loop_handle  loop_handle;
typedef struct locks_handle locks_handle;
typedef struct operation    operation;

/* How values that are no plain scalars are stored. */
typedef enum { SERIALIZE_PLAIN, SERIALIZE_RAW, SERIALIZE_STORABLE, SERIALIZE_OBJECT } serialization;

/* Kinds that are stored as they are. */
#define PLAIN_KINDS (PINYON_TEXT + 1)

typedef struct cache_handle {
    pinyon_client   *client;
    pinyon_writer   *writer; /* kept for the next value; NULL while one is written */
    pinyon_reader   *reader;
    loop_handle     *loop; /* of a client in an event loop; its object has the loop */
    serialization    serialization;
    uint32_t         storable_flags;
    uint32_t         plain_flags[PLAIN_KINDS]; /* of a new value; by kind */
    bool             has_plain[PLAIN_KINDS];   /* whether the dialect has that kind */
    uint32_t         flags_of_kind;            /* of the last value that was read */
    pinyon_part_kind kind;                     /* and what they say */
    unsigned         users;                    /* calls that wait */
    bool             knows_kind;
    bool             is_gone;     /* the object died during a call */
    bool             tells;       /* of events */
    bool             passes_over; /* values that cannot be read count as missing */

    struct cache_handle *old; /* of a migrating client: how values of the old pool are read */

    void  *spare; /* memory that a call about many keys has left for the next */
    size_t spare_size;
} cache_handle;

/* A lock: from when it is wished for until its object dies. */
typedef struct lock_handle {
    pinyon_lock  *lock;   /* NULL until it is acquired */
    SV           *object; /* the lock's own, which has this */
    SV           *client; /* the object of the locks */
    SV           *names;  /* those to write, as they were given: one, or an array of them */
    SV           *read;   /* those to read, in the same way, or NULL */
    locks_handle *of;     /* those of the client; NULL: they are gone, as happens while Perl ends */

    struct lock_handle *before, *after;

    unsigned forks;
    bool     is_held;
    bool     is_released;
    bool     listens;
} lock_handle;

struct locks_handle {
    pinyon_locks *locks;
    loop_handle  *loop; /* as a cache's */
    HV           *lock_class;
    lock_handle  *acquired;  /* all locks of this thread, the newest first */
    SV           *event;     /* taken from the library, and not told yet */
    unsigned      listeners; /* locks that are to tell of their loss */
    unsigned      users;
    bool          is_gone;
};

/* ---- A call of a method on one key --------------------------------------------------------------------------------- */

typedef enum {
    TAKES_KEY,   /* key */
    TAKES_TTL,   /* key, ttl */
    TAKES_VALUE, /* key, value, ttl */
    TAKES_BYTES, /* key, value */
    TAKES_CAS,   /* key, value, cas, ttl */
    TAKES_STALE, /* key, stale => seconds */
    TAKES_DELTA, /* key, delta, initial => number, ttl => seconds */
    TAKES_LEASE  /* key, lease => seconds, recache => seconds */
} call_takes;

typedef enum {
    GIVES_VALUE,
    GIVES_PAIR, /* a value and a number */
    GIVES_TRUTH,
    GIVES_CHANGED, /* true, '' if the item has changed, undef if there is none */
    GIVES_NUMBER,
    GIVES_METADATA,
    GIVES_LEASE
} call_gives;

typedef struct {
    const char *name;
    pinyon_verb verb;
    uint32_t    with;
    call_takes  takes;
    call_gives  gives;
} call_method_of;

#define MOST_METHODS 32

typedef enum { EACH_METHOD, EACH_THAT_CHANGES } methods_chosen;

#define MOST_ARGUMENTS 8

typedef struct {
    pinyon_request       *request;
    const call_method_of *method;
    SV                   *value;  /* what was received, as bytes */
    SV                   *target; /* the caller's op has this for a short result; NULL: it has none */
    uint32_t              flags;
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
    /* Copies of what the request refers to: a handler of signals may change the caller's variables during the call. */
    char  *room;
    STRLEN left;
} call;

/* A call that stands alone, on C's stack. */
typedef struct {
    call           one;
    pinyon_request request;
    char           room[1024];
} lone_call;

/* A call that waits. */
typedef struct {
    pinyon_host host;
    SV         *died;  /* what a handler of signals died of */
    bool        exits; /* a handler ended the program */
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
} waiting;

/* ---- Many keys ----------------------------------------------------------------------------------------------------- */

/* A key that is only read. */
typedef struct {
    pinyon_found found; /* the first field: the library steps over the others */
    SV          *key;
    SV          *value; /* what was received, as bytes */
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
} wanted_key;

typedef struct {
    cache_handle *cache;
    size_t        size; /* of this memory */
    size_t        count;
    bool          with_cas; /* of an event loop */
    wanted_key    keys[1];
} wanted_keys;

/* What has failed. The first failure is thrown, with what did work. With `failed`, that has the error of each server, and of
 * each key whose value cannot be read. */
typedef struct {
    HV *results;
    HV *failed;
    SV *thrown;
} failures;

/* ---- Event loops --------------------------------------------------------------------------------------------------- */

#define CLOSURES   4 /* by pinyon_action_kind */
#define SHORT_FILE 80

/* What a loop does for coroutines that wait. */
typedef struct {
    void (*wake)(pTHX_ loop_handle *, operation *);       /* lets the one go on that waits for this */
    void (*read_apart)(pTHX_ operation *);                /* reads its value in a coroutine of its own */
} coroutine_hooks;

struct loop_handle {
    pinyon_loop   *loop; /* NULL until it is needed, and after a fork */
    pinyon_client *client;
    pinyon_locks  *locks; /* one of the two */
    SV            *closures[CLOSURES];
    operation     *begun;   /* all that is under way */
    operation     *spare;   /* to be used again */
    size_t         spares;
    size_t         used;    /* operations of calls that are not spare */
    operation     *orphans; /* what was under way when the process forked */
    SV            *owner;   /* the object of the client, weakly */
    uint64_t       scope;   /* callers of get_or_set in it wake each other; 0: none has called yet */
    SV            *died;    /* what a callback died of, until all replies are handed out */
    size_t         lanes;   /* a number that all lanes are below */
    unsigned       forks;
    unsigned       users;
    unsigned       depth; /* while replies are handed out: what is begun then leaves after the last */
    bool           turn_is_due;
    bool           turn_is_announced;
    bool           is_gone;
    bool           is_dropped; /* but for the memory, for operations that are used still */
    bool           is_calm;    /* coroutines are made ready, but run later */

    const coroutine_hooks *coroutines; /* of a client for Coro; NULL: of another */
};

/* What a caller began. */
struct operation {
    call          one;  /* the first field: what place_value is told */
    loop_handle  *loop; /* while it is under way */
    loop_handle  *home; /* of a call: where its memory is used again */
    operation    *before, *after;
    cache_handle *cache;  /* that of `self`, unless it has locks */
    pinyon_verb   verb;   /* of a question to all servers */
    pinyon_lock  *lock;   /* what is released for an object that is gone */
    wanted_keys  *wanted; /* what is read at once */
    int           wish;   /* the kind of a wish */
    bool          at_once;
    SV *(*read)(pTHX_ operation *); /* the answer: a new reference, or NULL for undef. It may die */
    uint64_t     ticket;
    pinyon_reply reply;
    SV          *self;      /* the client */
    SV          *object;    /* what the reply is for: a lock, a caller of get_or_set */
    size_t       part;      /* of a caller of get_or_set_multi: the number of the request */
    SV          *callback;  /* called with value and error */
    SV          *coroutine; /* that waits */
    SV          *value;
    SV          *failure;
    char        *file; /* where a callback's operation was begun */
    line_t       line;
    unsigned     holders;
    bool         is_over;
    bool         is_miss_empty; /* a miss is the empty list, where a list is wanted */
    bool         is_plain;      /* reading the answer cannot die */
    bool         has_no_place;
    char         short_file[SHORT_FILE]; /* the last field: it is not cleared */
};

#endif
