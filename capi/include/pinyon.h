/* pinyon.h - one client for shared caches (memcached) and for locks (Redis, Valkey). This header is the manual.
 *
 * Bytes      are a pointer and a size, and never end with a NUL. What you pass in is used during the call only, and
 *            copied if it is needed longer. Where this is not so, the function says so.
 * Failures   are a status below 0. Then a `pinyon_error *` says why: in the reply, or where the parameter `error`
 *            points. Pass NULL there if you do not want to know. A miss is not a failure.
 * Handles    are opaque. Every *_free takes NULL. Threads may use a client, a client of locks and a lock at the same
 *            time; a batch, a loop, a reader, a writer, a reply, or a `pinyon_making` (`_many`) is used by one thread at
 *            a time.
 * Structs    that you fill begin with their size. Set it, and zero the rest: 0 is the usual choice everywhere. Later
 *            versions add fields at the end only.
 * Texts      that are `const char *` are UTF-8, end with a NUL, and live as long as what they come from.
 * Times      are in seconds.
 * Callbacks  must return: no longjmp and no exception may leave them. `interrupted` may use this library, the others
 *            may not, unless it is said there.
 * Signals    are left alone. The library's own threads (they resolve names and renew locks) block all of them.
 * Forks      need nothing. A child makes connections of its own. A batch or a loop stays its parent's: free it in the
 *            child. Your event loop's epoll set may be its parent's too: see to that before you watch anything in it.
 * Panics     do not leave the library: what was called fails with PINYON_E_INTERNAL, and so does every later call with
 *            the same handle.
 *
 * A program in ten lines:
 *
 *     pinyon_option options[] = {PINYON_OPTION("servers", "cache1:11211,cache2:11211")};
 *     pinyon_client *client = pinyon_client_new(options, 1, NULL);
 *     pinyon_request set = {.size = sizeof set, .verb = PINYON_SET};
 *     pinyon_reply reply = {.size = sizeof reply};
 *     set.key = pinyon_text("user:1");
 *     set.value = pinyon_text("Ada");
 *     if (pinyon_run(client, &set, &reply, NULL) < 0) puts(pinyon_error_message(reply.error));
 *     pinyon_reply_clear(&reply);
 *     pinyon_client_free(client);
 */
#ifndef PINYON_H
#define PINYON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ---------------------------------------------------------------------------------------------------- */

/* The number of this interface. It grows without changing this number; what would break a program changes it, and the
 * soname (libpinyon.so.1). */
#define PINYON_ABI 1
uint32_t    pinyon_abi(void);     /* that of the library: compare it with PINYON_ABI where the library is shared */
const char *pinyon_version(void); /* for people, such as "0.1.0" */

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

typedef struct pinyon_bytes {
    const char *start;
    size_t      size;
} pinyon_bytes;

/* Nothing is a `start` of NULL and a `size` of 0. A `start` of NULL with another size is refused. */

/* The bytes of a C string. */
static inline pinyon_bytes pinyon_text(const char *text)
{
    pinyon_bytes bytes;
    bytes.start = text;
    bytes.size  = text ? strlen(text) : 0;
    return bytes;
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Kinds of errors. They are the classes of the other languages, and form a tree: pinyon_kind_is_a. */
typedef enum pinyon_kind {
    PINYON_E_ERROR             = 1,  /* the root; nothing fails with it */
    PINYON_E_TIMEOUT           = 2,  /* not finished within the client's timeout */
    PINYON_E_LEASE_TIMEOUT     = 3,  /* another caller was still making the value */
    PINYON_E_CONNECT           = 4,  /* no connection could be made */
    PINYON_E_CONNECTION_LOST   = 5,  /* the connection broke while the command was in flight */
    PINYON_E_SERVER_DOWN       = 6,  /* the server is marked down, and is not tried now */
    PINYON_E_PROTOCOL          = 7,  /* the server sent what the protocol does not allow */
    PINYON_E_SERVER            = 8,  /* the server answered with an error of its own */
    PINYON_E_UNSUPPORTED       = 9,  /* the server's version cannot do it */
    PINYON_E_USAGE             = 10, /* an argument, or the way something was used, makes no sense */
    PINYON_E_INVALID_KEY       = 11, /* a key that cannot be sent */
    PINYON_E_INVALID_SERVERS   = 12, /* a list of servers that cannot be understood */
    PINYON_E_INVALID_NAME      = 13, /* a name that no lock can have */
    PINYON_E_VALUE_TOO_LARGE   = 14, /* larger than the client's limit, or than the server stores */
    PINYON_E_UNSUPPORTED_TYPE  = 15, /* a value that the client or the dialect does not take */
    PINYON_E_UNPICKLABLE       = 16, /* a value that the host's own serializer cannot write */
    PINYON_E_UNDECODABLE_VALUE = 17, /* a stored value that is not what its flags say */
    PINYON_E_UNKNOWN_FLAGS     = 18, /* a stored value whose flags nobody here knows */
    PINYON_E_CLOSED            = 19, /* the client was closed */
    PINYON_E_BATCH             = 20, /* commands of a batch failed; for hosts that raise them as one error */
    PINYON_E_LOCK              = 21, /* what can go wrong with a lock; nothing fails with it */
    PINYON_E_LOCK_TIMEOUT      = 22, /* others held the lock for too long */
    PINYON_E_LOCK_LOST         = 23, /* the lock is no longer held */
    PINYON_E_ALREADY_HELD      = 24, /* the owner holds one of the names already, and would wait for itself */
    PINYON_E_DEADLOCK          = 25, /* the holders wait, in turn, for what this owner holds */
    PINYON_E_MAKER             = 26, /* of this interface: the value could not be made (pinyon_making_failed) */
    PINYON_E_INTERNAL          = 27  /* of this interface: a panic in the library, a fault of it */
} pinyon_kind;

/* Whether the server may have carried out the command. If not, repeating it is safe. */
typedef enum pinyon_sent {
    PINYON_SENT_NO    = 0, /* nothing of it was sent */
    PINYON_SENT_MAYBE = 1, /* it was sent, at least in part, and no answer came */
    PINYON_SENT_YES   = 2  /* the server answered */
} pinyon_sent;

typedef struct pinyon_error pinyon_error;

pinyon_kind pinyon_error_kind(const pinyon_error *error);
pinyon_sent pinyon_error_sent(const pinyon_error *error);
const char *pinyon_error_message(const pinyon_error *error); /* for people; names server and command */
const char *pinyon_error_server(const pinyon_error *error);  /* as the option named it; "" if there was none */
const char *pinyon_error_command(const pinyon_error *error); /* the protocol's name; "" if there was none */
/* Whether a server failed, rather than refused the request. The option on_failure=miss turns these into misses. */
bool pinyon_error_is_outage(const pinyon_error *error);
/* The holders in the cycle of a PINYON_E_DEADLOCK, in order; NULL from `index` = their number on. */
const char   *pinyon_error_holder(const pinyon_error *error, size_t index);
pinyon_error *pinyon_error_clone(const pinyon_error *error);
void          pinyon_error_free(pinyon_error *error);

/* The name of a kind in the other languages ("LockTimeout"); NULL if there is no such kind. */
const char *pinyon_kind_name(pinyon_kind kind);
/* Whether `kind` is `above`, or below it in the tree: PINYON_E_LOCK_TIMEOUT is a PINYON_E_TIMEOUT. */
bool pinyon_kind_is_a(pinyon_kind kind, pinyon_kind above);
/* The direct parents of a kind, most specific first; 0 from `index` = their number on. */
pinyon_kind pinyon_kind_parent(pinyon_kind kind, size_t index);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Settings are named texts: {"timeout", "0.5"}. Names, defaults and checks are those of every language; pinyon_settings
 * lists them. Booleans are 1, true, yes, on or 0, false, no, off. A list is one text with commas, or the same name
 * again. A value whose start is NULL leaves the setting as it is. Further settings of `tls` and `compression` have names
 * of two words: "tls.ca", "compression.threshold", "compression.dictionaries". Besides, both kinds of client have:
 *   events      whether the host takes events (pinyon_next_event, pinyon_next_note); off, few of locks are kept
 * and a client of caches has:
 *   serializer  how a pinyon_writer writes lists and maps in Pinyon's own dialect: portable (MessagePack), json */
typedef struct pinyon_option {
    const char  *name;
    pinyon_bytes value;
} pinyon_option;

#define PINYON_OPTION(name, text) {name, {text, sizeof(text) - 1}} /* for string literals */

/* Credentials that change. The value of "username.function", "password.function", "sentinel_username.function" or
 * "sentinel_password.function" is a pinyon_credentials_source, instead of the setting's text: PINYON_CREDENTIALS. Its
 * `ask` is called before each connection is made; and again on connections of locks, before the credentials end. Any
 * thread may call it, several at a time, and later than the call that needs the connection. It answers each question
 * once, in any thread: pinyon_credentials_answer or pinyon_credentials_fail. */
typedef struct pinyon_credentials_question pinyon_credentials_question;

typedef struct pinyon_credentials_source {
    size_t size; /* sizeof(pinyon_credentials_source) */
    void (*ask)(void *context, pinyon_credentials_question *question);
    void (*release)(void *context); /* may be NULL; called once, in any thread, when nothing asks any more */
    void    *context;
    uint32_t waits; /* 1: `ask` may wait, so it is called in a short-lived thread of the library that blocks all signals.
                     * 0: it is called where the library may hold locks. It keeps the question and returns at once; the
                     *    host answers later, for instance when `interrupted` is called, or in its event loop. */
} pinyon_credentials_source;

#define PINYON_CREDENTIALS(name, source) {name, {(const char *)(source), sizeof *(source)}} /* an option */

typedef struct pinyon_credentials {
    size_t       size; /* sizeof(pinyon_credentials) */
    pinyon_bytes own;  /* the text of the setting itself; or, */
    pinyon_bytes username, password; /* which may be one, or both */
    double       lifetime;           /* for how many seconds they last; 0 if they do not end */
} pinyon_credentials;

/* Answers a question, which is freed. The credentials are copied. */
void pinyon_credentials_answer(pinyon_credentials_question *question, const pinyon_credentials *credentials);
/* Says why there are none, for the error of the call that needs them. The next connection asks again. */
void pinyon_credentials_fail(pinyon_credentials_question *question, pinyon_bytes why);

/* All settings as JSON, with "defaults", "texts" (what each is for) and "choices" (of settings with a fixed choice). Each
 * has the tables "Client", "View", "Locks"; "defaults" has "Tls", "Compression" and "Near", too. */
const char *pinyon_settings(void);

/* ---- Requests: the same for threads and for event loops ---------------------------------------------------------- */

typedef enum pinyon_verb {
    PINYON_GET       = 0,
    PINYON_GAT       = 1, /* get, and set the ttl */
    PINYON_SET       = 2,
    PINYON_ADD       = 3,
    PINYON_REPLACE   = 4,
    PINYON_APPEND    = 5,
    PINYON_PREPEND   = 6,
    PINYON_DELETE    = 7,
    PINYON_TOUCH     = 8,
    PINYON_INCR      = 9,
    PINYON_DECR      = 10,
    PINYON_METADATA  = 11, /* what the server knows about the item, without its value and without touching it */
    PINYON_MARK_STALE = 12, /* keep the value as stale; the next PINYON_LEASE wins it. ttl: its life from now */
    PINYON_LEASE     = 13, /* get, or win the right to make the value: see "Leases" */
    PINYON_GIVE_BACK = 14, /* give a lease back; `cas` is its token */
    /* These go to every server, and have no key. The reply's `answers` say what each answered. */
    PINYON_VERSIONS  = 15,
    PINYON_STATS     = 16, /* `value`: the kind of statistics as memcached names it, or nothing */
    PINYON_FLUSH_ALL = 17, /* `ttl`: the delay */
    PINYON_CLEAR_NAMESPACE = 18, /* forget all items of the client's namespace, and nothing else. Needs the settings
                                   "namespace" and "clearable"; other processes see it within their "generation_ttl" */
    /* This has no key either. */
    PINYON_INVALIDATE_TAGS = 19 /* `tags`: have all values with one of them count as missing, wherever they are. Other
                                   processes see it within their "generation_ttl" */
} pinyon_verb;

/* For `with`, added up by |. */
typedef enum pinyon_with {
    PINYON_WITH_CAS      = 0x1,   /* reading: return the token. Storing, DELETE, MARK_STALE: only if it is `cas` still.
                                     LEASE: you cannot read the value with the token `cas`; one caller wins it */
    PINYON_WITH_TTL      = 0x2,   /* GET: return the seconds that are left. MARK_STALE: set `ttl` */
    PINYON_WITH_METADATA = 0x4,   /* GET: return the value with all that PINYON_METADATA returns */
    PINYON_WITHOUT_BUMP  = 0x8,   /* with the former: this does not count as an access */
    PINYON_WITH_NEW_CAS  = 0x10,  /* storing: return the token of what was stored, if the server tells it */
    PINYON_WITH_INITIAL  = 0x20,  /* INCR, DECR: make a missing counter from `initial` and `ttl` */
    PINYON_KEEP          = 0x40,  /* GIVE_BACK: the reply to LEASE had PINYON_HAS_STALE; its value stays */
    PINYON_NO_FAILOVER   = 0x80,  /* fail if the key's server is down, whatever the client's option says */
    PINYON_RAW           = 0x100, /* store the value, or return it, as it is: never compressed, never decompressed */
    PINYON_TTL_AS_SENT   = 0x200  /* `ttl` is memcached's own number: over 30 days a Unix time, 0 without end */
} pinyon_with;

/* A call that all languages have (docs/calls.md), and how a request for it begins. A language that calls by names finds them
 * here. */
typedef struct pinyon_command {
    size_t      size;  /* sizeof(pinyon_command), set by you */
    pinyon_verb verb;
    uint32_t    with;
    const char *name;  /* "get_with_ttl" */
    const char *takes; /* its arguments by kind: "key value stored_ttl" */
    const char *gives; /* what it returns: "value_and_ttl" */
} pinyon_command;

/* Finds a call by its name; false if there is no such call. */
bool pinyon_command_named(const char *name, pinyon_command *command);
/* The calls in their order; false from `index` = their number on. */
bool pinyon_command_at(size_t index, pinyon_command *command);

/* Tags of values: names of what they were made from, such as "user:7". PINYON_INVALIDATE_TAGS has all values with a tag
 * count as missing, in all programs and languages. */
typedef struct pinyon_tags pinyon_tags;

/* For `ttl`: an item without end, if the option default_ttl says otherwise. */
#define PINYON_FOREVER INT64_MAX

typedef struct pinyon_request {
    size_t       size; /* sizeof(pinyon_request) */
    pinyon_verb  verb;
    uint32_t     with;
    pinyon_bytes key;
    pinyon_bytes value;
    pinyon_bytes route;        /* what the ring is asked about, if that is not the key; start NULL otherwise */
    uint32_t     client_flags; /* of the value; of a counter that is made: those of an integer in the dialect */
    uint32_t     lease;        /* LEASE: seconds until another caller may win a missing key; 0 for 10 */
    int64_t      ttl;          /* seconds; 0: the option default_ttl (GAT, TOUCH: without end); below 0: at once. One that would end
                                  after 2038-01-19 ends then, with memcached's clock */
    uint64_t     cas;
    uint64_t     delta;   /* INCR, DECR */
    uint64_t     initial; /* INCR, DECR with PINYON_WITH_INITIAL */
    int64_t      recache; /* LEASE: win an item that has fewer seconds left than this; 0: never */
    void        *context; /* yours: comes back with the reply, and is what `place` is told */
    const pinyon_tags *tags; /* SET, ADD, REPLACE: of the value. INVALIDATE_TAGS. NULL: none. Not in batches */
} pinyon_request;

typedef enum pinyon_status {
    PINYON_DONE        = 0, /* found, stored, deleted, counted, marked; of locks: acquired, released, extended, … */
    PINYON_MISS        = 1, /* no such item. DELETE and MARK_STALE with a token: no such item with this token */
    PINYON_NOT_STORED  = 2, /* ADD found an item; REPLACE, APPEND, PREPEND found none */
    PINYON_CHANGED     = 3, /* storing with a token: the item has another by now */
    PINYON_WON         = 4, /* LEASE: make the value, and store it with the token in `cas`, or give it back */
    PINYON_STALE       = 5, /* LEASE: a value that is stale, or will be soon; another caller makes a new one */
    PINYON_FILLING     = 6, /* LEASE: no value yet; another caller makes it */
    PINYON_MAKE        = 7, /* pinyon_making_run: make the value now */
    PINYON_TAKEN       = 8, /* PINYON_LOCK with PINYON_AT_ONCE: others hold it */
    PINYON_NOT_HELD    = 9, /* RELEASE, EXTEND: the lock was lost before */
    PINYON_END         = 10, /* pinyon_read: the value is complete */
    PINYON_FAILED      = -1,
    PINYON_INTERRUPTED = -2 /* `interrupted` said so. Of what was sent nothing is known */
} pinyon_status;

/* For `marks`. */
typedef enum pinyon_mark {
    PINYON_HAS_VALUE    = 0x1,   /* `value`, or what `place` gave, is filled; it may be empty */
    PINYON_HAS_CAS      = 0x2,   /* `cas` is known. A lease that was won without it cannot be stored */
    PINYON_HAS_STALE    = 0x4,   /* WON: there is a value still, which is stale: see PINYON_KEEP */
    PINYON_HAS_TTL      = 0x8,   /* `ttl` is known */
    PINYON_HAS_LAST_ACCESS = 0x10, /* `last_access` and PINYON_FETCHED are known */
    PINYON_FETCHED      = 0x20,  /* the item was read before */
    PINYON_IS_STALE     = 0x40,  /* with METADATA: the item was marked stale */
    PINYON_IS_WON       = 0x80,  /* with METADATA: this caller should make a new value */
    PINYON_IS_FILLING   = 0x100, /* with METADATA: another caller makes a new value already */
    PINYON_WAS_NOTIFIED = 0x200, /* PARK: it was notified, rather than that its time was up */
    PINYON_OF_OLD       = 0x400, /* migrating: the value is as the old pool has it. Read it as one of the old client's */
    PINYON_HAS_TAGS     = 0x800  /* LEASE: the value has tags, by which programs invalidate it */
} pinyon_mark;

typedef struct pinyon_answers pinyon_answers;
typedef struct pinyon_lock    pinyon_lock;

typedef struct pinyon_reply {
    size_t        size; /* sizeof(pinyon_reply): the only field that you set */
    pinyon_status status;
    uint32_t      marks;
    uint32_t      client_flags; /* of the value, once it is decompressed */
    uint32_t      reserved;
    pinyon_bytes  value;        /* the library's; start is NULL if `place` took it, whose memory is filled then */
    uint64_t      cas;
    uint64_t      number;    /* INCR, DECR: the count. Locks: the token, or how many were notified or released.
                                RATE: how many permits it would give at once now */
    int64_t       ttl;       /* seconds left; -1: without end. RATE: microseconds until it is whole */
    uint64_t      last_access; /* seconds since the last access before this one. RATE: microseconds until asking again */
    uint64_t      item_size; /* METADATA: of the stored value, in bytes */
    void         *context;   /* of the request */
    uint64_t      ticket;    /* of an event loop */
    pinyon_error *error;     /* if the status is PINYON_FAILED. The reply frees it: do not, unless you set this to NULL */
    pinyon_answers *answers; /* of every server, of each name, … The reply frees them, as the error */
    pinyon_lock  *lock;      /* PINYON_LOCK: take it over by setting this to NULL, and free it in the end */
    void         *memory;      /* the library's */
    size_t        memory_size; /* the library's */
} pinyon_reply;

/* Frees what a reply has. It may be used again. A reply that is passed to another call without this is cleared by it, and
 * the memory of its value is used again, which saves an allocation for each call. */
void pinyon_reply_clear(pinyon_reply *reply);

/* What many servers answered, or what is known about several names. */
typedef struct pinyon_answer {
    size_t              size;   /* sizeof(pinyon_answer), set by you */
    const char         *server; /* the server that answers; "" with locks */
    pinyon_bytes        name;   /* STATS: the statistic's name. INSPECT: the lock's name */
    pinyon_bytes        value;  /* VERSIONS, STATS: the value. INSPECT: who holds, reads or waits for the name; its size is
                                   0 if nobody holds it */
    const pinyon_error *error;  /* why this server has no answer; NULL otherwise */
    uint64_t            token;  /* INSPECT: the holder's, if it is known; 0 otherwise */
    double              left;   /* INSPECT: seconds until the name is free unless renewed; below 0: unknown */
    double              age;    /* INSPECT: seconds since it was acquired; below 0: unknown */
    bool                waits;  /* INSPECT: `value` is one that waits for the name in the last answer without both */
    bool                reads;  /* INSPECT: `value` is one that reads it; all that do follow, the holder too */
    uint32_t            pid;    /* INSPECT: the process of the one in `value`; 0: unknown */
    pinyon_bytes        host;   /* INSPECT: the short name of its host; its size is 0 if that is unknown */
    pinyon_bytes        label;  /* INSPECT: what its client is called (option label); its size is 0 without a label */
    pinyon_bytes        note;   /* INSPECT: what it says about its lock; its size is 0 if nothing */
} pinyon_answer;

/* The next answer; false after the last. What it points to lives as long as the answers. */
bool pinyon_next_answer(pinyon_answers *answers, pinyon_answer *answer);
void pinyon_answers_free(pinyon_answers *answers);

/* ---- What a host does during a call ------------------------------------------------------------------------------ */

/* Where to put a value of so many bytes; NULL to have it in the reply. It is written to until the reply is there, even
 * for a request that fails in the end. A request that is repeated may ask again; the last memory counts. It must not
 * wait, and not use the library. */
typedef void *(*pinyon_place)(void *context, size_t size, uint32_t client_flags);
/* Asked after every wait, at least ten times a second. Anything but 0 ends the call with PINYON_INTERRUPTED. */
typedef int (*pinyon_interrupted)(void *host);
/* Called before and after every wait, by the thread that waits: let others run meanwhile. */
typedef void (*pinyon_waits)(void *host);

typedef struct pinyon_host {
    size_t             size; /* sizeof(pinyon_host) */
    pinyon_place       place;
    pinyon_interrupted interrupted;
    pinyon_waits       before_wait;
    pinyon_waits       after_wait;
    void              *host; /* yours */
} pinyon_host;

/* ---- Caches ------------------------------------------------------------------------------------------------------ */

typedef struct pinyon_client pinyon_client;

/* Makes a client. It does not connect yet. NULL: an option is wrong. */
pinyon_client *pinyon_client_new(const pinyon_option *options, size_t count, pinyon_error **error);
/* Another handle to the same client. */
pinyon_client *pinyon_client_clone(const pinyon_client *client);
/* A view of the client with another policy for failures (options failover, on_failure, on_unreadable) or another namespace.
 * It shares connections, metrics and events with the client. */
pinyon_client *pinyon_client_using(const pinyon_client *client, const pinyon_option *options, size_t count,
                                   pinyon_error **error);
/* Whether values that cannot be read count as missing (option on_unreadable). `reason`, unless it is empty: why a caller
 * cannot read one, as a line for the event "unreadable". The library itself does so for values that it cannot decompress,
 * but in requests about many keys. */
bool pinyon_passes_over(const pinyon_client *client, pinyon_bytes reason);
/* Closes the connections of the client and its views. Calls that wait end, and later ones fail (PINYON_E_CLOSED). Event
 * loops begin nothing more; pinyon_loop_close ends what is under way there. */
void pinyon_client_close(const pinyon_client *client);
void pinyon_client_free(pinyon_client *client);

/* Carries out a request, and waits for its reply. Returns the reply's status. `host` may be NULL. */
pinyon_status pinyon_run(const pinyon_client *client, const pinyon_request *request, pinyon_reply *reply,
                         const pinyon_host *host);
/* Carries out many requests about keys at the same time, on all servers. Each has a reply at the same index, which says
 * how it went. Returns PINYON_FAILED if any of them failed, PINYON_INTERRUPTED, or PINYON_DONE. Requests for the same
 * key are carried out in order. */
pinyon_status pinyon_run_many(const pinyon_client *client, const pinyon_request *requests, pinyon_reply *replies,
                              size_t count, const pinyon_host *host);

/* A key to read, and what came of it. It may be the first field of a struct of yours. */
typedef struct pinyon_found {
    size_t        size; /* sizeof(pinyon_found), or that of your struct */
    pinyon_bytes  key;  /* copied before anything waits */
    /* The library sets what follows. */
    pinyon_status status;       /* PINYON_DONE, PINYON_MISS, PINYON_FAILED or PINYON_INTERRUPTED */
    uint32_t      client_flags; /* of the value, once it is decompressed */
    uint64_t      cas;
    pinyon_error *error; /* if the status is PINYON_FAILED: free it with pinyon_error_free */
} pinyon_found;

/* Reads many keys at the same time, as pinyon_run_many does with a PINYON_GET for each, at less cost. `keys` are structs
 * that follow each other, all as large as the first says. `with`, for all: PINYON_WITH_CAS, PINYON_NO_FAILOVER, PINYON_RAW.
 * `host` must have a `place`, which is told the key's struct, and which must not return NULL. It may be asked for a key
 * that is missing or fails in the end. A migrating client is refused, because its replies must say which pool a value comes
 * from. */
pinyon_status pinyon_get_many(const pinyon_client *client, pinyon_found *keys, size_t count, uint32_t with,
                              const pinyon_host *host);

/* Makes tags for values of a client and its views, from names of 1 to 255 bytes, 64 at most. Any number of requests and
 * terms may have them, in any thread; free them afterwards, not before a call with them has returned. A migrating client has
 * the tags of its new client. Fails for a client of another dialect than "pinyon".
 *
 * A value counts while its tags are as they were when it was stored. So a value that you make yourself and set does not
 * notice an invalidation in between: have it made by pinyon_making_new (`tags` of the terms). For many values with the same
 * tags, pass pinyon_run_many requests with the same pinyon_tags, which are read once. */
pinyon_tags *pinyon_tags_new(const pinyon_client *client, const pinyon_bytes *names, size_t count, pinyon_error **error);
void         pinyon_tags_free(pinyon_tags *tags);

/* The servers that may have the key, in the order in which they are asked; all servers if key.start is NULL. An answer
 * for each, with the server's name only. NULL: they are not known yet. */
pinyon_answers *pinyon_servers_of(const pinyon_client *client, pinyon_bytes key, const pinyon_host *host,
                                  pinyon_error **error);
/* The prefix of all keys. It lives as long as the handle. */
pinyon_bytes pinyon_namespace(const pinyon_client *client);
/* The metrics of all servers, as JSON: a list with an object for each server. Free it with pinyon_text_free. */
char *pinyon_metrics(const pinyon_client *client);
void  pinyon_text_free(char *text);

/* What came of the keys that a client keeps in the memory of this process (options near, near.fresh, near.max_bytes). All
 * views of a client share them. A forked child counts from zero. */
typedef struct pinyon_near_figures {
    size_t   size;          /* sizeof(pinyon_near_figures), set by you */
    uint64_t hits;          /* values returned without asking a server */
    uint64_t fills;         /* values that were read and kept */
    uint64_t revalidations; /* of these, values that were in memory, but no longer fresh */
    uint64_t evictions;     /* values that made room for others */
    uint64_t bytes;         /* the memory in use */
} pinyon_near_figures;

/* Contacts no server. False: the client keeps no keys in memory, and all figures are 0. A migrating client reads nothing
 * from memory; its figures are those of its new client. */
bool pinyon_near_metrics(const pinyon_client *client, pinyon_near_figures *figures);

/* What happened: a server went down or came back, a command was slow or repeated, … Events are kept where the option
 * `events` is set. Take them now and then, for instance after a call, from any thread. */
typedef struct pinyon_event {
    size_t              size;      /* that of the library's struct */
    const char         *kind;      /* down, up, retry, slow, servers, discovery, classic, crowded,
                                    * unreadable, stale, certificates, stale_certificates; of locks: see pinyon_note */
    const char         *level;     /* debug, info, warning */
    const char         *server;    /* "" if there is none */
    const char         *command;   /* "" if there is none */
    const char         *message;   /* a line for people */
    double              seconds;   /* how long it took, or how long the server was down; below 0: unknown */
    const pinyon_error *error;     /* NULL if there is none */
    const char         *previous;  /* of "switched": the former primary; NULL if there is none */
} pinyon_event;

pinyon_event *pinyon_next_event(const pinyon_client *client); /* NULL: none */
void          pinyon_event_free(pinyon_event *event);

/* ---- Batches: many commands whose replies are not awaited one by one --------------------------------------------- */

/* A batch keeps a connection to each server that it uses, until it is finished or freed. */
typedef struct pinyon_batch pinyon_batch;

pinyon_batch *pinyon_batch_new(const pinyon_client *client, pinyon_error **error);
/* Submits a command that changes something. Waits only to connect, and for room. Commands to the same server are carried
 * out in order. Fails for what cannot be sent at all; whether the others succeed, pinyon_batch_finish says. */
pinyon_status pinyon_batch_add(pinyon_batch *batch, const pinyon_request *request, const pinyon_host *host,
                               pinyon_error **error);
/* Sends what the connections take, without waiting. Otherwise commands leave when enough has gathered. */
pinyon_status pinyon_batch_send(pinyon_batch *batch, pinyon_error **error);
/* Waits for the outcome of every command. PINYON_FAILED without *error: some failed, see the next function. The batch is
 * empty then, and may be used again. */
pinyon_status pinyon_batch_finish(pinyon_batch *batch, const pinyon_host *host, pinyon_error **error);
/* A command that was not carried out: its status, error, context, and `number`, counted from 0 since the batch was made.
 * False after the last. */
bool pinyon_batch_next_failure(pinyon_batch *batch, pinyon_reply *reply);
void pinyon_batch_free(pinyon_batch *batch);

/* ---- Migrating: an old and a new pool as one cache --------------------------------------------------------------- */

/* A client may stand for two, while programs move to other servers, another ring or another dialect. It goes wherever a
 * client goes: pinyon_run, pinyon_run_many, pinyon_making_new, pinyon_loop_of_client. A reading request asks the new pool,
 * then the old one, and moves what only the old one has, with the rest of its ttl. A changing request changes the new pool,
 * and deletes in the old one. Everything else (settings, writers, flags) is as the new client has it. VERSIONS, STATS and
 * FLUSH_ALL go to all servers of both. There are no batches. In an event loop, an abandoned request goes on to its end, so
 * that both pools agree.
 *
 * A value that is moved is converted from the old client's dialect to the new one's by way of plain data. It stays as it is
 * if both have the same dialect. */

/* Converts a value of the old pool for the new one, where a host has a serializer of its own. `converted` must stay until
 * the function is called again by the same thread. PINYON_FAILED: the new client does not take it. PINYON_INTERRUPTED: the
 * request ends with this status. It is called by any thread that uses the client, and must not use an event loop of the
 * client. */
typedef pinyon_status (*pinyon_convert)(void *context, pinyon_bytes value, uint32_t client_flags,
                                        pinyon_bytes *converted, uint32_t *converted_flags);

typedef struct pinyon_migration {
    size_t         size;    /* sizeof(pinyon_migration) */
    int64_t        ttl;     /* of moved items whose server cannot tell it (memcached before 1.6.10), in seconds or
                               PINYON_FOREVER; 0: requests that would move them fail with PINYON_E_UNSUPPORTED */
    pinyon_convert convert; /* NULL: as said above */
    void          *context; /* of `convert` */
} pinyon_migration;

/* Makes a client of two, which it keeps alive. `migration` may be NULL. Fails if both would have the same keys on the same
 * server. pinyon_client_close closes both; pinyon_client_using makes views of both. */
pinyon_client *pinyon_client_migrating(const pinyon_client *old_client, const pinyon_client *new_client,
                                       const pinyon_migration *migration, pinyon_error **error);

/* Where keys were found so far, by this client and its views. When `in_old` no longer grows, or when the longest ttl has
 * passed, the old pool can go. */
typedef struct pinyon_progress {
    size_t   size;    /* sizeof(pinyon_progress), set by you */
    uint64_t in_new;  /* keys in the new pool */
    uint64_t in_old;  /* keys in the old pool only */
    uint64_t moved;   /* of those, keys that this client has moved */
    uint64_t refused; /* of those, keys that it could not move: the new client or its server does not take their values */
    uint64_t missing; /* keys in neither */
} pinyon_progress;

/* False: the client stands for no other. */
bool pinyon_client_progress(const pinyon_client *client, pinyon_progress *progress);

/* ---- Leases: one caller makes a value, the others wait for it ----------------------------------------------------- */

/* One caller's way to a value, as `get_or_set` of the other languages goes: it asks for a lease; makes the value if it
 * was won; waits, or takes the stale value, if another caller makes it. Callers of one process that are under way to the
 * same value share one lookup.
 *
 * In a thread, call pinyon_making_run until it says something other than PINYON_MAKE:
 *
 *     making = pinyon_making_new(client, &terms, &error);
 *     while ((status = pinyon_making_run(making, &reply, NULL)) == PINYON_MAKE)
 *         pinyon_making_made(making, value, client_flags);       (or pinyon_making_failed)
 *     pinyon_making_free(making);
 *
 * In a coroutine or an event loop, carry out the steps yourself: pinyon_making_step. */
typedef struct pinyon_making pinyon_making;

typedef struct pinyon_terms {
    size_t       size; /* sizeof(pinyon_terms) */
    pinyon_bytes key;
    pinyon_bytes route;    /* as in a request */
    double       ttl;      /* how long a value is fresh; 0: for ever */
    double       stale;    /* for how much longer callers get the old value while one of them makes a new one */
    double       early;    /* from how long before its end on one caller makes a new one */
    double       lease;    /* how long one caller has to make a missing value; 0: 10 seconds */
    double       wait;     /* how long to wait for another caller's value; 0: twice the lease, and 2; below 0: not at all */
    uint64_t     scope;    /* callers that can wake each other: 0 for threads; a number for each event loop */
    uint64_t     caller;   /* who must not wait for itself: 0 for the calling thread; a number for each coroutine */
    void        *context;  /* yours: comes back with the replies, and from pinyon_next_woken */
    uint32_t     with;     /* any of PINYON_TERMS_... */
    double       jitter;   /* the share of each ttl that may be taken off at random: from 0 to below 1 */
    double       retry_after; /* how long an old value is kept after a failure before the next caller tries; 0: 5 seconds */
    double       soft_timeout; /* with PINYON_TERMS_SOFT_TIMEOUT: from 0 on */
    const pinyon_tags *tags; /* of the value, or of each: as they were before it was made. Copied. NULL: none */
} pinyon_terms;

enum {
    PINYON_TERMS_STALE_ON_ERROR = 0x1, /* pinyon_making_failed while there is an old value: the old value is the reply. It is
                                          stored again for `retry_after`, and told as the event "stale". `stale` is needed */
    PINYON_TERMS_TTL_OF_VALUE   = 0x2, /* instead of `ttl`: each value comes with its own, by pinyon_making_made_with */
    PINYON_TERMS_ANEW           = 0x4, /* the value is made now, whatever is stored, and stored in its place. Others get what is
                                          stored meanwhile, and makers that have a lease already cannot store theirs after it.
                                          Not for many keys */
    /* The next two need `stale` or `early`, and a caller by pinyon_making_step: pinyon_making_run refuses them. */
    PINYON_TERMS_SOFT_TIMEOUT   = 0x8, /* while there is an old value, waits `soft_timeout` for the maker, which then goes on
                                          behind the caller: PINYON_STEP_MAKE_WITHIN */
    PINYON_TERMS_BEHIND         = 0x10 /* the same with 0 seconds: the caller has the old value at once. Not with the other */
};

pinyon_making *pinyon_making_new(const pinyon_client *client, const pinyon_terms *terms, pinyon_error **error);
/* Goes on until the value is there (PINYON_DONE, in the reply), must be made (PINYON_MAKE), or cannot be had
 * (PINYON_FAILED). Waits meanwhile. After PINYON_INTERRUPTED, call it again to go on, or pinyon_making_leave. */
pinyon_status pinyon_making_run(pinyon_making *making, pinyon_reply *reply, const pinyon_host *host);
/* After PINYON_MAKE: the value, as it is stored. It is compressed as any other. */
void pinyon_making_made(pinyon_making *making, pinyon_bytes value, uint32_t client_flags);
/* How long a value that was made is kept, where the terms do not say it. */
typedef struct pinyon_made {
    size_t   size; /* sizeof(pinyon_made) */
    uint32_t with; /* which fields count: any of PINYON_MADE_... */
    double   ttl;  /* how long this value is fresh; 0: for ever */
    double   stale; /* for how much longer it stays, at most as long as the terms say */
} pinyon_made;

enum {
    PINYON_MADE_TTL        = 0x1,
    PINYON_MADE_STALE      = 0x2,
    PINYON_MADE_NOT_STORED = 0x4 /* it is the reply, and is not stored: the next caller makes another */
};

/* The same, with more to say of the value. Returns PINYON_DONE; or PINYON_FAILED if that makes no sense: then the value was
 * not taken. */
pinyon_status pinyon_making_made_with(pinyon_making *making, pinyon_bytes value, uint32_t client_flags, const pinyon_made *how,
                                      pinyon_error **error);
/* After PINYON_MAKE: the value cannot be made. The lease is given back. This caller and those that wait for it fail with
 * PINYON_E_MAKER and this message; see also PINYON_TERMS_STALE_ON_ERROR. */
void pinyon_making_failed(pinyon_making *making, pinyon_bytes message);

typedef enum pinyon_step_kind {
    PINYON_STEP_ASK    = 0, /* carry out `request`, whose context you may set; have no `place` for its value, and pass
                               its reply to pinyon_making_replied as it is */
    PINYON_STEP_PAUSE  = 1, /* wait for `seconds` */
    PINYON_STEP_FOLLOW = 2, /* wait until pinyon_next_woken returns this caller's context, for `seconds` at most */
    PINYON_STEP_MAKE   = 3, /* make the value: pinyon_making_made, or pinyon_making_failed */
    PINYON_STEP_OVER   = 4, /* it is over: the reply is filled, with PINYON_DONE or PINYON_FAILED */
    PINYON_STEP_MAKE_WITHIN = 5, /* begin to make the value beside the caller, and wait for it for `seconds`: then as after
                               PINYON_STEP_MAKE. If it takes longer, ask for the next step without it. The reply has the old
                               value: a caller that cannot read it waits to the end */
    PINYON_STEP_RETURN_OLD = 6 /* the reply has the old value: the caller is done with it. Go on behind it as after
                               PINYON_STEP_MAKE. PINYON_STEP_OVER is for nobody then: failures are told as events "stale" */
} pinyon_step_kind;

typedef struct pinyon_step {
    size_t           size; /* sizeof(pinyon_step), set by you */
    pinyon_step_kind kind;
    double           seconds;
    pinyon_request   request; /* what it points to lives until the next step */
} pinyon_step;

/* The next step. Call it again when the step was carried out; a step that was not counts as timed out. `reply` is filled
 * where the kind says so, and may have been used for anything before. Returns PINYON_DONE, or PINYON_FAILED if it is used wrongly.
 */
pinyon_status pinyon_making_step(pinyon_making *making, pinyon_step *step, pinyon_reply *reply);
/* The reply to the request of the last step. It is yours to clear. */
void pinyon_making_replied(pinyon_making *making, const pinyon_reply *reply);
/* Returns the context of the next caller of this scope to resume from PINYON_STEP_FOLLOW; false if there is none. Call it
 * after each step that a caller of the scope made, and after pinyon_making_free. */
bool pinyon_next_woken(const pinyon_client *client, uint64_t scope, void **context);
/* After PINYON_DONE or PINYON_STEP_OVER, for a caller that cannot read the value: begins again, to have a new one made. Go on
 * with pinyon_making_run or pinyon_making_step. `reason`: a line for the event "unreadable". False: there was no value. */
bool pinyon_making_unreadable(pinyon_making *making, pinyon_bytes reason);
/* Ends a caller that was cancelled, wherever it is: its followers go on by themselves. True: it had a lease. Carry out
 * `give_back`, so that another caller can win the lease at once; what it points to lives until pinyon_making_free. */
bool pinyon_making_leave(pinyon_making *making, pinyon_request *give_back);
void pinyon_making_free(pinyon_making *making);

/* One caller's way to the values of many keys, as `get_or_set_many` of the other languages goes. What this caller won, it
 * makes in one go; each key fails by itself. Keys are numbers: their places in the array.
 *
 *     making = pinyon_making_many_new(client, &terms, keys, count, &error);
 *     while ((status = pinyon_making_many_run(making, &reply, NULL)) == PINYON_MAKE)
 *         for (index = 0; pinyon_making_many_wanted(making, index, &key); index++)
 *             pinyon_making_many_made(making, key, value, client_flags, NULL, NULL);
 *     for (key = 0; status == PINYON_DONE && key < count; key++)
 *         if (pinyon_making_many_answer(making, key, &reply) == PINYON_DONE) use(reply.value);
 *     pinyon_making_many_free(making); */
typedef struct pinyon_making_many pinyon_making_many;

/* `terms` counts for each key, and has no `key` and no `route`. Fails if a key makes no sense. */
pinyon_making_many *pinyon_making_many_new(const pinyon_client *client, const pinyon_terms *terms, const pinyon_bytes *keys,
                                           size_t count, pinyon_error **error);
/* Goes on until it is known what became of each key (PINYON_DONE: pinyon_making_many_answer), values must be made
 * (PINYON_MAKE, more than once if others fail to make theirs), or the call fails as a whole (PINYON_FAILED). Waits
 * meanwhile. After PINYON_INTERRUPTED, call it again to go on, or pinyon_making_many_leave. */
pinyon_status pinyon_making_many_run(pinyon_making_many *making, pinyon_reply *reply, const pinyon_host *host);
/* After PINYON_MAKE: a key whose value is to be made; false from `index` = their number on. */
bool pinyon_making_many_wanted(const pinyon_making_many *making, size_t index, size_t *key);
/* After PINYON_MAKE: the value of a wanted key, and how long it is kept (NULL: as the terms say). Returns PINYON_DONE; or
 * PINYON_FAILED if that makes no sense, or no key has this number: then the value was not taken. A key without a value is left
 * out: its answer is PINYON_MISS, and the next caller makes it. Keys that are not wanted are ignored. */
pinyon_status pinyon_making_many_made(pinyon_making_many *making, size_t key, pinyon_bytes value, uint32_t client_flags,
                                      const pinyon_made *how, pinyon_error **error);
/* After PINYON_MAKE: nothing can be made. All leases are given back, and the call fails with PINYON_E_MAKER and this
 * message; with PINYON_TERMS_STALE_ON_ERROR, not if there is an old value of each key. */
void pinyon_making_many_failed(pinyon_making_many *making, pinyon_bytes message);
/* What became of a key, once it is over: PINYON_DONE and its value, PINYON_MISS, or PINYON_FAILED. */
pinyon_status pinyon_making_many_answer(const pinyon_making_many *making, size_t key, pinyon_reply *reply);
/* For a caller that cannot read the value of a key, once it is over: the next pinyon_making_many_run or _step has a new one
 * made. Name all such keys before. `reason`: a line for the event "unreadable". False: there was no value. */
bool pinyon_making_many_unreadable(pinyon_making_many *making, size_t key, pinyon_bytes reason);
/* In a coroutine or an event loop: the next step, as pinyon_making_step. For PINYON_STEP_ASK, carry out all that
 * pinyon_making_many_request gives, together, and pass each reply to pinyon_making_many_replied. `request` of the step is
 * not used. At the end (PINYON_STEP_OVER), the reply says whether the call failed as a whole. */
pinyon_status pinyon_making_many_step(pinyon_making_many *making, pinyon_step *step, pinyon_reply *reply);
/* A request of the last step, whose context you may set; false from `index` = their number on. What it points to lives until
 * the next step. */
bool pinyon_making_many_request(const pinyon_making_many *making, size_t index, pinyon_request *request);
/* The reply to this request. It is yours to clear. */
void pinyon_making_many_replied(pinyon_making_many *making, size_t index, const pinyon_reply *reply);
/* Ends a caller that was cancelled. True: it had a lease; carry out `give_back`, and call it again for the next one. */
bool pinyon_making_many_leave(pinyon_making_many *making, pinyon_request *give_back);
void pinyon_making_many_free(pinyon_making_many *making);

#ifdef __cplusplus
}
#endif

#include "pinyon/values.h"
#include "pinyon/locks.h"
#include "pinyon/loops.h"
#endif
