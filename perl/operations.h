/* Event loops: what was begun, what the host's loop must do, and what callers get. Nothing here waits.
 *
 * The host's loop gives four closures: watch(lane, fd, write), forget(lane), turn() and alarm(seconds). It calls back
 * _ready(lane), _turn() and _expire(). */

#define CLOSURES 4 /* by pinyon_action_kind */
#define MOST_SPARES 256
#define SHORT_FILE 80

typedef struct operation operation;

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
    bool           has_coroutines;
    bool           is_calm; /* coroutines are made ready, but run later */
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
};

/* What a caller began. */
struct operation {
    call          one;  /* the first field: what `place` is told */
    loop_handle  *loop; /* while it is under way */
    loop_handle  *home; /* of a call: where its memory is used again */
    operation    *before, *after;
    cache_handle *cache; /* that of `self`, unless it has locks */
    pinyon_verb   verb;  /* of a question to all servers */
    pinyon_lock  *lock;  /* what is released for an object that is gone */
    wanted_keys  *wanted; /* what is read at once */
    int           wish;  /* the kind of a wish */
    bool          at_once;
    SV *(*read)(pTHX_ operation *); /* the answer: a new reference, or NULL for undef. It may die */
    uint64_t     ticket;
    pinyon_reply reply;
    SV          *self;      /* the client */
    SV          *object;    /* what the reply is for: a lock, a caller of get_or_set */
    SV          *callback;  /* called with value and error */
    SV          *coroutine; /* that waits */
    SV          *value;
    SV          *failure;
    char        *file; /* where a callback's operation was begun */
    line_t       line;
    unsigned     holders;
    bool         is_over;
    bool         is_miss_empty; /* a miss is the empty list, where a list is wanted */
    bool         is_plain; /* reading the answer cannot die */
    bool         has_no_place;
    char         short_file[SHORT_FILE]; /* the last field: it is not cleared */
};

static void wake(pTHX_ loop_handle *loop, operation *begun);
static void read_apart(pTHX_ operation *begun);

static void operation_link(operation **list, operation *begun)
{
    begun->before = NULL;
    begun->after  = *list;
    if (*list)
        (*list)->before = begun;
    *list = begun;
}

static void operation_unlink(operation *begun)
{
    loop_handle *loop = begun->loop;
    if (!loop)
        return;
    if (begun->before)
        begun->before->after = begun->after;
    else if (loop->begun == begun)
        loop->begun = begun->after;
    else if (loop->orphans == begun)
        loop->orphans = begun->after;
    if (begun->after)
        begun->after->before = begun->before;
    begun->before = begun->after = NULL;
    begun->loop                  = NULL;
}

static void operation_clear(pTHX_ operation *begun)
{
    memset(begun, 0, offsetof(operation, short_file));
    begun->reply.size = sizeof begun->reply;
#ifdef MULTIPLICITY
    begun->one.my_perl = my_perl;
#endif
}

static operation *operation_new(pTHX_ SV *self)
{
    operation *begun;
    Newx(begun, 1, operation);
    operation_clear(aTHX_ begun);
    begun->self = SvREFCNT_inc_NN(SvRV(self));
    return begun;
}

/* For a call: in memory of one that is over. */
static operation *operation_of_loop(pTHX_ loop_handle *loop, SV *self)
{
    operation *begun = loop->spare;
    if (begun) {
        loop->spare = begun->after;
        loop->spares--;
    } else {
        Newx(begun, 1, operation);
    }
    operation_clear(aTHX_ begun);
    begun->self = SvREFCNT_inc_simple_NN(SvRV(self));
    begun->home = loop;
    loop->used++;
    return begun;
}

static void operation_over(operation *begun)
{
    loop_handle *home = begun->home;
    if (home && !home->is_dropped && home->spares < MOST_SPARES) {
        begun->after = home->spare;
        home->spare  = begun;
        home->spares++;
    } else {
        Safefree(begun);
    }
    if (home && !--home->used && home->is_dropped)
        Safefree(home);
}

static void operation_release(pTHX_ operation *begun)
{
    if (--begun->holders)
        return;
    if (begun->reply.memory || begun->reply.answers || begun->reply.error || begun->reply.lock)
        pinyon_reply_clear(&begun->reply);
    pinyon_lock_free(begun->lock);
    if (begun->wanted)
        wanted_over(aTHX_ begun->wanted);
    SvREFCNT_dec(begun->one.value);
    SvREFCNT_dec(begun->one.target);
    SvREFCNT_dec(begun->value);
    SvREFCNT_dec(begun->failure);
    SvREFCNT_dec(begun->callback);
    SvREFCNT_dec(begun->coroutine);
    SvREFCNT_dec(begun->object);
    SvREFCNT_dec(begun->self);
    if (begun->file != begun->short_file)
        Safefree(begun->file);
    operation_over(begun);
}

/* Where the caller is, for the error that a callback may get later. */
static void remember_place(pTHX_ operation *begun)
{
    const COP  *place = users_place(aTHX);
    const char *file  = CopFILE(place) ? CopFILE(place) : "-";
    const size_t size = strlen(file) + 1;
    begun->file       = size <= SHORT_FILE ? begun->short_file : (char *)safemalloc(size);
    begun->line       = CopLINE(place);
    Copy(file, begun->file, size, char);
}

static bool is_our_error(SV *error) { return SvROK(error) && SvOBJECT(SvRV(error)) && SvTYPE(SvRV(error)) == SVt_PVHV; }

static void place_error(pTHX_ SV *error, const char *file, line_t line)
{
    if (!is_our_error(error) || !hv_exists((HV *)SvRV(error), "line", 4))
        return;
    hv_stores((HV *)SvRV(error), "file", newSVpv(file, 0));
    hv_stores((HV *)SvRV(error), "line", newSVuv(line));
}

static SV *read_call(pTHX_ operation *begun)
{
    SV *self = begun->is_plain ? NULL : sv_2mortal(newRV_inc(begun->self));
    return answer(aTHX_ begun->cache, self, &begun->one, &begun->reply);
}

static SV *read_servers(pTHX_ operation *begun)
{
    return server_answers(aTHX_ & begun->reply, begun->verb);
}

static operation *operation_at(pTHX_ SV *pointer) { return INT2PTR(operation *, SvIV(pointer)); }

static SV *read_of(pTHX_ void *begun) { return ((operation *)begun)->read(aTHX_ (operation *)begun); }

/* The answer as the caller gets it: `value`, which may stay NULL, or `failure`. */
static void read_answer(pTHX_ operation *begun)
{
    if (begun->reply.status < 0 && begun->reply.error) {
        pinyon_error *error = begun->reply.error;
        begun->reply.error  = NULL;
        begun->failure      = begun->read == read_servers
                                  ? partial_error(aTHX_ error, read_servers(aTHX_ begun))
                                  : error_object_taken(aTHX_ error);
    } else if (begun->is_plain) {
        SV *value    = begun->read(aTHX_ begun);
        begun->value = value;
    } else {
        begun->value = made_apart(aTHX_ read_of, begun, &begun->failure);
    }
    if (begun->failure && begun->file)
        place_error(aTHX_ begun->failure, begun->file, begun->line);
}

static SV *read_nothing(pTHX_ operation *begun)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_VAR(begun);
    return NULL;
}

/* Takes over what the reply has. The memory of its value stays with it, to be used again. */
static void take_over(pTHX_ operation *begun, pinyon_reply *reply)
{
    call *one = &begun->one;
    begun->reply             = *reply;
    begun->reply.memory      = NULL;
    begun->reply.memory_size = 0;
    if (reply->value.start) {
        SvREFCNT_dec(one->value);
        one->value = newSVpvn(reply->value.start, reply->value.size);
    }
    begun->reply.value.start = NULL;
    reply->error             = NULL;
    reply->answers           = NULL;
    reply->lock              = NULL;
}
