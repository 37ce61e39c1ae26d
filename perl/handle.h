/* What a Perl object holds of the library: a struct behind `ext` magic, which threads clone and which dies with the
 * object. */

typedef struct loop_handle loop_handle;

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
    bool             is_gone; /* the object died during a call */
    bool             tells;   /* of events */
    bool             passes_over; /* values that cannot be read count as missing */

    struct cache_handle *old; /* of a migrating client: how values of the old pool are read */

    void  *spare; /* memory that a call about many keys has left for the next */
    size_t spare_size;
} cache_handle;

/* An allocator that is asked for a large piece tidies up first, at a higher cost than all else that a call about many keys
 * does. So a client keeps one. */
#define LARGEST_SPARE 65536

static void *spare_taken(cache_handle *cache, size_t *size)
{
    void *spare = cache->spare;
    if (!spare || cache->spare_size < *size)
        return safemalloc(*size);
    *size        = cache->spare_size;
    cache->spare = NULL;
    return spare;
}

static void spare_given(cache_handle *cache, void *memory, size_t size)
{
    if (size > LARGEST_SPARE || (cache->spare && cache->spare_size >= size)) {
        Safefree(memory);
        return;
    }
    Safefree(cache->spare);
    cache->spare      = memory;
    cache->spare_size = size;
}

static void cache_drop(cache_handle *cache)
{
    if (cache->users) {
        cache->is_gone = true;
        return;
    }
    if (cache->old)
        cache_drop(cache->old);
    pinyon_writer_free(cache->writer);
    pinyon_reader_free(cache->reader);
    pinyon_client_free(cache->client);
    Safefree(cache->spare);
    Safefree(cache);
}

/* Another handle to the same client. */
static cache_handle *cache_copy(pTHX_ const cache_handle *cache)
{
    cache_handle *copy;
    PERL_UNUSED_CONTEXT;
    Newx(copy, 1, cache_handle);
    *copy         = *cache;
    copy->client  = pinyon_client_clone(cache->client);
    copy->writer  = NULL;
    copy->reader  = NULL;
    copy->loop    = NULL;
    copy->users   = 0;
    copy->is_gone = false;
    copy->spare   = NULL;
    copy->old     = cache->old ? cache_copy(aTHX_ cache->old) : NULL;
    return copy;
}

/* A handler of signals may end the object whose call it interrupts. */
static void cache_enter(cache_handle *cache) { cache->users++; }

static void cache_leave(cache_handle *cache)
{
    if (!--cache->users && cache->is_gone)
        cache_drop(cache);
}

static int cache_free(pTHX_ SV *sv, MAGIC *magic)
{
    PERL_UNUSED_VAR(sv);
    if (magic->mg_ptr)
        cache_drop((cache_handle *)magic->mg_ptr);
    magic->mg_ptr = NULL;
    return 0;
}

/* A new thread of Perl's has an object of its own, with the same client. */
static int cache_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    cache_handle *cache = (cache_handle *)magic->mg_ptr;
    PERL_UNUSED_VAR(parameters);
    if (cache)
        magic->mg_ptr = (char *)cache_copy(aTHX_ cache);
    return 0;
}

/* Forks of this process, and of those that it comes from. */
static unsigned forks_so_far;

static void count_fork(void) { forks_so_far++; }

typedef struct lock_handle lock_handle;

typedef struct {
    pinyon_locks *locks;
    loop_handle  *loop; /* as above */
    HV           *lock_class;
    lock_handle  *acquired;  /* all locks of this thread, the newest first */
    SV           *event;     /* taken from the library, and not told yet */
    unsigned      listeners; /* locks that are to tell of their loss */
    unsigned      users;
    bool          is_gone;
} locks_handle;

/* A lock: from when it is wished for until its object dies. */
struct lock_handle {
    pinyon_lock  *lock;   /* NULL until it is acquired */
    SV           *object; /* the lock's own, which has this */
    SV           *client; /* the object of the locks */
    SV           *names;  /* as they were given: one, or an array of them */
    locks_handle *of;     /* those of the client; NULL: they are gone, as happens while Perl ends */
    lock_handle  *before, *after;
    unsigned      forks;
    bool          is_held;
    bool          is_released;
    bool          listens;
};

static void lock_link(lock_handle *held, locks_handle *locks)
{
    held->of    = locks;
    held->after = locks->acquired;
    if (held->after)
        held->after->before = held;
    locks->acquired = held;
}

static void lock_unlink(lock_handle *held)
{
    locks_handle *locks = held->of;
    if (!locks)
        return;
    if (held->before)
        held->before->after = held->after;
    else
        locks->acquired = held->after;
    if (held->after)
        held->after->before = held->before;
    if (held->listens)
        locks->listeners--;
    held->listens = false;
    held->of      = NULL;
}

static void locks_drop(pTHX_ locks_handle *locks)
{
    if (locks->users) {
        locks->is_gone = true;
        return;
    }
    while (locks->acquired)
        lock_unlink(locks->acquired);
    pinyon_locks_free(locks->locks);
    SvREFCNT_dec((SV *)locks->lock_class);
    SvREFCNT_dec(locks->event);
    Safefree(locks);
}

static void locks_enter(locks_handle *locks) { locks->users++; }

static void locks_leave(pTHX_ locks_handle *locks)
{
    if (!--locks->users && locks->is_gone)
        locks_drop(aTHX_ locks);
}

static int locks_free(pTHX_ SV *sv, MAGIC *magic)
{
    PERL_UNUSED_VAR(sv);
    if (magic->mg_ptr)
        locks_drop(aTHX_ (locks_handle *)magic->mg_ptr);
    magic->mg_ptr = NULL;
    return 0;
}

static int locks_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    locks_handle *locks = (locks_handle *)magic->mg_ptr;
    locks_handle *copy;
    PERL_UNUSED_VAR(parameters);
    if (!locks)
        return 0;
    Newxz(copy, 1, locks_handle);
    copy->locks   = pinyon_locks_clone(locks->locks);
    magic->mg_ptr = (char *)copy;
    return 0;
}

static int lock_free(pTHX_ SV *sv, MAGIC *magic)
{
    lock_handle *held = (lock_handle *)magic->mg_ptr;
    PERL_UNUSED_VAR(sv);
    magic->mg_ptr = NULL;
    if (!held)
        return 0;
    lock_unlink(held);
    pinyon_lock_free(held->lock);
    SvREFCNT_dec(held->client);
    SvREFCNT_dec(held->names);
    Safefree(held);
    return 0;
}

/* A right to make a value: of a Pinyon::Lease, or of a win that is no object yet. */
typedef struct {
    SV      *client; /* the object of the cache */
    SV      *key;    /* of a win */
    uint64_t token;  /* of a win */
    bool     stays;  /* of a win */
    unsigned forks;
} lease_handle;

static int lease_free(pTHX_ SV *sv, MAGIC *magic)
{
    lease_handle *lease = (lease_handle *)magic->mg_ptr;
    PERL_UNUSED_VAR(sv);
    magic->mg_ptr = NULL;
    if (!lease)
        return 0;
    SvREFCNT_dec(lease->client);
    SvREFCNT_dec(lease->key);
    Safefree(lease);
    return 0;
}

static int batch_free(pTHX_ SV *sv, MAGIC *magic)
{
    PERL_UNUSED_VAR(sv);
    pinyon_batch_free((pinyon_batch *)magic->mg_ptr);
    magic->mg_ptr = NULL;
    return 0;
}

static int making_free(pTHX_ SV *sv, MAGIC *magic)
{
    PERL_UNUSED_VAR(sv);
    pinyon_making_free((pinyon_making *)magic->mg_ptr);
    magic->mg_ptr = NULL;
    return 0;
}

/* What only one thread of Perl's may use stays with that thread: in another one its object has no handle. No class has
 * CLONE_SKIP, because Perl panics at a weak reference to an object that a new thread does not get. */
static int not_cloned(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    PERL_UNUSED_VAR(parameters);
    magic->mg_ptr = NULL;
    return 0;
}

static const MGVTBL cache_table  = {NULL, NULL, NULL, NULL, cache_free, NULL, cache_dup, NULL};
static const MGVTBL locks_table  = {NULL, NULL, NULL, NULL, locks_free, NULL, locks_dup, NULL};
static const MGVTBL batch_table  = {NULL, NULL, NULL, NULL, batch_free, NULL, not_cloned, NULL};
static const MGVTBL making_table = {NULL, NULL, NULL, NULL, making_free, NULL, not_cloned, NULL};
static const MGVTBL lease_table  = {NULL, NULL, NULL, NULL, lease_free, NULL, not_cloned, NULL};
static const MGVTBL lock_table   = {NULL, NULL, NULL, NULL, lock_free, NULL, not_cloned, NULL};

static void attach(pTHX_ SV *object, const MGVTBL *table, void *handle)
{
    MAGIC *magic = sv_magicext(SvRV(object), NULL, PERL_MAGIC_ext, table, (const char *)handle, 0);
    magic->mg_flags |= MGf_DUP;
}

static lease_handle *lease_attach(pTHX_ SV *object, SV *client)
{
    lease_handle *lease;
    Newxz(lease, 1, lease_handle);
    lease->client = SvREFCNT_inc_simple_NN(SvRV(client));
    lease->forks  = forks_so_far;
    attach(aTHX_ object, &lease_table, lease);
    return lease;
}

/* The handle of an object; NULL if it has none (any more). */
static void *attached(SV *object, const MGVTBL *table)
{
    SV    *inner;
    MAGIC *magic;
    if (!SvROK(object))
        return NULL;
    inner = SvRV(object);
    magic = SvTYPE(inner) >= SVt_PVMG ? SvMAGIC(inner) : NULL;
    while (magic && magic->mg_virtual != table)
        magic = magic->mg_moremagic;
    return magic ? magic->mg_ptr : NULL;
}

static void throw_not(pTHX_ const char *what) __attribute__noreturn__;
static void throw_not(pTHX_ const char *what)
{
    throw_usage(aTHX_ newSVpvf("this is not %s, or one that belongs to another thread", what));
}

static void *handle_of(pTHX_ SV *object, const MGVTBL *table, const char *what)
{
    void *handle = attached(object, table);
    if (!handle)
        throw_not(aTHX_ what);
    return handle;
}

static cache_handle *cache_of(pTHX_ SV *object)
{
    return (cache_handle *)handle_of(aTHX_ object, &cache_table, "a Pinyon::Cache that was made by new");
}

static locks_handle *locks_of(pTHX_ SV *object)
{
    return (locks_handle *)handle_of(aTHX_ object, &locks_table, "a Pinyon::Locks that was made by new");
}
