/* Event loops: what was begun, what the host's loop must do, and what callers get. Nothing here waits.
 *
 * The host's loop gives four closures: watch(lane, fd, write), forget(lane), turn() and alarm(seconds). It calls back
 * _ready(lane), _turn() and _expire(). */

#define CLOSURES 4 /* by pinyon_action_kind */

typedef struct operation operation;

struct loop_handle {
    pinyon_loop   *loop; /* NULL until it is needed, and after a fork */
    pinyon_client *client;
    pinyon_locks  *locks; /* one of the two */
    SV            *closures[CLOSURES];
    operation     *begun;   /* all that is under way */
    operation     *orphans; /* what was under way when the process forked */
    SV            *owner;   /* the object of the client, weakly */
    SV            *died;    /* what a callback died of, until all replies are handed out */
    size_t         lanes;   /* a number that all lanes are below */
    unsigned       forks;
    unsigned       users;
    unsigned       depth; /* while replies are handed out: what is begun then leaves after the last */
    bool           turn_is_due;
    bool           turn_is_announced;
    bool           is_gone;
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
    operation    *before, *after;
    cache_handle *cache; /* that of `self`, unless it has locks */
    pinyon_verb   verb;  /* of a question to all servers */
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
};

static unsigned forks_so_far;

static void count_fork(void) { forks_so_far++; }

static void wake(pTHX_ loop_handle *loop, operation *begun);

/* ---- Operations ------------------------------------------------------------------------------------------------- */

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

static operation *operation_new(pTHX_ SV *self)
{
    operation *begun;
    Newxz(begun, 1, operation);
    begun->self       = SvREFCNT_inc_NN(SvRV(self));
    begun->reply.size = sizeof begun->reply;
#ifdef MULTIPLICITY
    begun->one.my_perl = my_perl;
#endif
    return begun;
}

static void operation_release(pTHX_ operation *begun)
{
    if (--begun->holders)
        return;
    pinyon_reply_clear(&begun->reply);
    SvREFCNT_dec(begun->one.value);
    SvREFCNT_dec(begun->value);
    SvREFCNT_dec(begun->failure);
    SvREFCNT_dec(begun->callback);
    SvREFCNT_dec(begun->coroutine);
    SvREFCNT_dec(begun->object);
    SvREFCNT_dec(begun->self);
    Safefree(begun->file);
    Safefree(begun);
}

/* Where the caller is, for the error that a callback may get later. */
static void remember_place(pTHX_ operation *begun)
{
    const COP *place = users_place(aTHX);
    begun->file      = savepv(CopFILE(place) ? CopFILE(place) : "-");
    begun->line      = CopLINE(place);
}

static bool is_our_error(SV *error) { return SvROK(error) && SvOBJECT(SvRV(error)) && SvTYPE(SvRV(error)) == SVt_PVHV; }

static void place_error(pTHX_ SV *error, const char *file, line_t line)
{
    if (!is_our_error(error) || !hv_exists((HV *)SvRV(error), "line", 4))
        return;
    hv_stores((HV *)SvRV(error), "file", newSVpv(file, 0));
    hv_stores((HV *)SvRV(error), "line", newSVuv(line));
}

/* Whether the value is one that is there already: no reader is needed, which might die. */
static bool is_plain_value(pTHX_ cache_handle *cache, call *one, const pinyon_reply *reply)
{
    pinyon_part_kind kind;
    PERL_UNUSED_CONTEXT;
    if (cache->serialization == SERIALIZE_RAW || !one->value)
        return true;
    if (cache->serialization == SERIALIZE_OBJECT || !pinyon_kind_of(cache->client, reply->client_flags, &kind))
        return false;
    return kind == PINYON_BYTES
           || (kind == PINYON_TEXT && is_utf8_string((const U8 *)SvPVX(one->value), SvCUR(one->value)));
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

static XSPROTO(read_operation)
{
    dXSARGS;
    operation *begun = operation_at(aTHX_ ST(0));
    SV        *value = begun->read(aTHX_ begun);
    PERL_UNUSED_VAR(items);
    ST(0) = value ? sv_2mortal(value) : &PL_sv_undef;
    XSRETURN(1);
}

static void read_carefully(pTHX_ operation *begun)
{
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(sv_2mortal(newSViv(PTR2IV(begun))));
    PUTBACK;
    call_pv("Pinyon::Loop::_read", G_SCALAR | G_EVAL);
    SPAGAIN;
    begun->value = newSVsv(POPs);
    PUTBACK;
    if (SvTRUE(ERRSV)) {
        SvREFCNT_dec(begun->value);
        begun->value   = NULL;
        begun->failure = newSVsv(ERRSV);
    }
    FREETMPS;
    LEAVE;
}

/* The answer as the caller gets it: `value`, which may stay NULL, or `failure`. */
static void read_answer(pTHX_ operation *begun)
{
    if (begun->reply.status < 0) {
        pinyon_error *error = begun->reply.error;
        begun->reply.error  = NULL;
        begun->failure      = begun->read == read_servers
                                  ? partial_error(aTHX_ error, read_servers(aTHX_ begun))
                                  : error_object_taken(aTHX_ error);
    } else if (begun->is_plain) {
        SV *value    = begun->read(aTHX_ begun);
        begun->value = value;
    } else {
        read_carefully(aTHX_ begun);
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

/* ---- What the host's loop does ----------------------------------------------------------------------------------- */

static void call_closure(pTHX_ loop_handle *loop, pinyon_action_kind kind, const pinyon_action *action)
{
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    if (kind == PINYON_WATCH || kind == PINYON_FORGET)
        mPUSHu(action->lane);
    if (kind == PINYON_WATCH) {
        mPUSHi(action->fd);
        PUSHs(boolSV(action->write));
    }
    if (kind == PINYON_ALARM)
        mPUSHn(action->seconds);
    PUTBACK;
    call_sv(loop->closures[kind], G_VOID | G_DISCARD);
    FREETMPS;
    LEAVE;
}

static void announce_turn(pTHX_ loop_handle *loop)
{
    if (loop->turn_is_announced)
        return;
    loop->turn_is_announced = true;
    call_closure(aTHX_ loop, PINYON_END_TURN, NULL);
}

static void carry_out(pTHX_ loop_handle *loop)
{
    pinyon_action action;
    if (!loop->loop)
        return;
    Zero(&action, 1, pinyon_action);
    action.size = sizeof action;
    while (pinyon_next_action(loop->loop, &action)) {
        if (action.kind == PINYON_END_TURN) {
            loop->turn_is_due = true;
            continue;
        }
        if (action.kind == PINYON_WATCH && action.lane >= loop->lanes)
            loop->lanes = action.lane + 1;
        call_closure(aTHX_ loop, action.kind, &action);
    }
}

/* After something was begun. A callback may wait in a loop inside the host's loop, so its turn is announced; coroutines
 * say so themselves when they wait. */
static void carry_out_begun(pTHX_ loop_handle *loop)
{
    carry_out(aTHX_ loop);
    if (loop->turn_is_due && !(loop->depth && loop->has_coroutines))
        announce_turn(aTHX_ loop);
}

static void stop_watching(pTHX_ loop_handle *loop)
{
    pinyon_action action;
    Zero(&action, 1, pinyon_action);
    for (action.lane = 0; action.lane < loop->lanes; action.lane++)
        call_closure(aTHX_ loop, PINYON_FORGET, &action);
    loop->lanes = 0;
}

/* ---- Replies ----------------------------------------------------------------------------------------------------- */

static void call_back(pTHX_ loop_handle *loop, operation *begun)
{
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    EXTEND(SP, 2);
    PUSHs(begun->value ? begun->value : &PL_sv_undef);
    PUSHs(begun->failure ? begun->failure : &PL_sv_undef);
    PUTBACK;
    call_sv(begun->callback, G_VOID | G_DISCARD | G_EVAL);
    if (SvTRUE(ERRSV)) {
        if (loop->died)
            warn_sv(loop->died);
        SvREFCNT_dec(loop->died);
        loop->died = newSVsv(ERRSV);
    }
    FREETMPS;
    LEAVE;
}

static void hand_out_one(pTHX_ loop_handle *loop, operation *begun)
{
    begun->holders++;
    operation_unlink(begun);
    begun->is_over = true;
    if (!begun->failure)
        read_answer(aTHX_ begun);
    if (begun->cache && begun->cache->tells)
        tell(aTHX_ sv_2mortal(newRV_inc(begun->self)));
    if (begun->callback)
        call_back(aTHX_ loop, begun);
    else
        wake(aTHX_ loop, begun);
    operation_release(aTHX_ begun); /* what was under way */
    operation_release(aTHX_ begun);
}

/* The reply to a step of get_or_set: its caller there says what went wrong. */
static void making_replied(operation *begun, pinyon_reply *reply)
{
    pinyon_making *making = (pinyon_making *)attached(begun->object, &making_table);
    if (making)
        pinyon_making_replied(making, reply);
}

static void hand_out_replies(pTHX_ loop_handle *loop)
{
    pinyon_reply reply;
    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
    while (loop->loop && !loop->is_gone && pinyon_next_reply(loop->loop, &reply)) {
        operation *begun = (operation *)reply.context;
        if (!begun)
            continue;
        if (begun->has_no_place)
            making_replied(begun, &reply);
        else
            take_over(aTHX_ begun, &reply);
        if (!begun->is_plain && begun->read == read_call)
            begun->is_plain = is_plain_value(aTHX_ begun->cache, &begun->one, &begun->reply);
        hand_out_one(aTHX_ loop, begun);
    }
    pinyon_reply_clear(&reply);
    while (loop->orphans && !loop->is_gone)
        hand_out_one(aTHX_ loop, loop->orphans);
}

static void loop_drop(pTHX_ loop_handle *loop);

static void loop_leave(pTHX_ void *pointer)
{
    loop_handle *loop = (loop_handle *)pointer;
    if (loop->depth)
        loop->depth--;
    if (!--loop->users && loop->is_gone)
        loop_drop(aTHX_ loop);
}

/* Warnings, and locks that were lost. */
static void take_notes(pTHX_ loop_handle *loop)
{
    dSP;
    if (!loop->locks || !SvROK(loop->owner) || PL_dirty)
        return;
    PUSHMARK(SP);
    XPUSHs(sv_2mortal(newSVsv(loop->owner)));
    PUTBACK;
    call_method("_take_notes", G_VOID | G_DISCARD | G_EVAL);
    if (SvTRUE(ERRSV))
        warn_sv(ERRSV);
}

/* Hands out all replies, and sends what was begun meanwhile. Dies of what a callback died of, when all is done. */
static void hand_out(pTHX_ loop_handle *loop)
{
    SV *died;
    ENTER;
    loop->users++;
    loop->depth++;
    SAVEDESTRUCTOR_X(loop_leave, loop);
    carry_out(aTHX_ loop);
    hand_out_replies(aTHX_ loop);
    carry_out(aTHX_ loop);
    if (loop->turn_is_due && loop->loop && !loop->is_gone && loop->depth == 1) {
        loop->turn_is_due = false;
        pinyon_turn(loop->loop);
        carry_out(aTHX_ loop);
        hand_out_replies(aTHX_ loop);
        carry_out(aTHX_ loop);
    }
    if (loop->turn_is_due && !loop->is_gone)
        announce_turn(aTHX_ loop);
    take_notes(aTHX_ loop);
    died = loop->depth == 1 ? loop->died : NULL;
    if (died)
        loop->died = NULL;
    LEAVE;
    if (died)
        croak_sv(sv_2mortal(died));
}

/* ---- The handle -------------------------------------------------------------------------------------------------- */

static void forget_all(pTHX_ operation **list)
{
    while (*list) {
        operation *begun = *list;
        operation_unlink(begun);
        operation_release(aTHX_ begun);
    }
}

static void loop_drop(pTHX_ loop_handle *loop)
{
    int index;
    if (loop->users) {
        loop->is_gone = true;
        return;
    }
    if (!PL_dirty)
        stop_watching(aTHX_ loop);
    forget_all(aTHX_ & loop->begun);
    forget_all(aTHX_ & loop->orphans);
    for (index = 0; index < CLOSURES; index++)
        SvREFCNT_dec(loop->closures[index]);
    SvREFCNT_dec(loop->died);
    SvREFCNT_dec(loop->owner);
    pinyon_loop_free(loop->loop);
    pinyon_client_free(loop->client);
    pinyon_locks_free(loop->locks);
    Safefree(loop);
}

static int loop_free(pTHX_ SV *sv, MAGIC *magic)
{
    PERL_UNUSED_VAR(sv);
    if (magic->mg_ptr)
        loop_drop(aTHX_ (loop_handle *)magic->mg_ptr);
    magic->mg_ptr = NULL;
    return 0;
}

static const MGVTBL loop_table = {NULL, NULL, NULL, NULL, loop_free, NULL, not_cloned, NULL};

static void *place_of_loop(void *context, size_t size, uint32_t flags)
{
    operation *begun = (operation *)context;
    return begun->has_no_place ? NULL : place(&begun->one, size, flags);
}

/* A forked child begins anew. What its parent began fails here: nobody reads those replies. */
static void loop_renew(pTHX_ loop_handle *loop)
{
    loop->forks = forks_so_far;
    stop_watching(aTHX_ loop);
    while (loop->begun) {
        operation *begun = loop->begun;
        operation_unlink(begun);
        begun->loop = loop;
        operation_link(&loop->orphans, begun);
        begun->failure = error_sv(aTHX_ PINYON_E_CLOSED, newSVpvs("the process was forked during the call: only the parent has the reply"),
                                  PINYON_SENT_MAYBE, NULL, NULL);
        if (begun->file)
            place_error(aTHX_ begun->failure, begun->file, begun->line);
    }
    pinyon_loop_free(loop->loop);
    loop->loop              = NULL;
    loop->turn_is_due       = false;
    loop->turn_is_announced = false;
    if (loop->orphans)
        announce_turn(aTHX_ loop);
}

/* The handle, ready to begin something; dies if the client is closed. */
static loop_handle *loop_ready(pTHX_ loop_handle *loop)
{
    pinyon_error *error = NULL;
    if (!loop)
        throw_usage(aTHX_ newSVpvs("this client belongs to another thread, whose event loop it uses"));
    if (loop->forks != forks_so_far)
        loop_renew(aTHX_ loop);
    if (loop->loop)
        return loop;
    loop->loop = loop->client ? pinyon_loop_of_client(loop->client, place_of_loop, &error)
                              : pinyon_loop_of_locks(loop->locks, &error);
    if (!loop->loop)
        throw_error(aTHX_ error);
    return loop;
}

static loop_handle *loop_of(pTHX_ SV *object)
{
    loop_handle *loop = (loop_handle *)handle_of(aTHX_ object, &loop_table, "a Pinyon::Loop");
    if (loop->forks != forks_so_far)
        loop_renew(aTHX_ loop);
    return loop;
}

/* The reply is not awaited any more. */
static void operation_abandon(pTHX_ operation *begun)
{
    loop_handle *loop = begun->loop;
    if (!loop || begun->is_over)
        return;
    operation_unlink(begun);
    begun->is_over = true;
    if (loop->loop && loop->forks == forks_so_far && begun->ticket) {
        pinyon_abandon(loop->loop, begun->ticket);
        carry_out_begun(aTHX_ loop);
    }
    operation_release(aTHX_ begun);
}

/* ---- Beginning --------------------------------------------------------------------------------------------------- */

static void operation_unless_begun(pTHX_ void *pointer)
{
    operation *begun = (operation *)pointer;
    if (!begun->loop)
        operation_release(aTHX_ begun);
}

/* An operation that is let go at LEAVE unless it is begun: preparing it may die. */
static operation *operation_prepared(pTHX_ SV *self, SV *callback)
{
    operation *begun = operation_new(aTHX_ self);
    begun->holders   = 1;
    SAVEDESTRUCTOR_X(operation_unless_begun, begun);
    if (callback && SvOK(callback)) {
        if (!SvROK(callback) || (SvTYPE(SvRV(callback)) != SVt_PVCV && !SvAMAGIC(callback)))
            throw_usage(aTHX_ newSVpvs("cb is a reference to a sub that is called with value and error"));
        begun->callback = newSVsv(callback);
        remember_place(aTHX_ begun);
    }
    return begun;
}

static void operation_is_begun(loop_handle *loop, operation *begun)
{
    begun->loop = loop;
    operation_link(&loop->begun, begun);
}

static void begin_request(pTHX_ operation *begun, pinyon_request *request)
{
    loop_handle  *loop  = loop_ready(aTHX_ begun->cache->loop);
    pinyon_error *error = NULL;
    request->context    = begun;
    if (pinyon_begin_using(loop->loop, begun->cache->client, request, &begun->ticket, &error) < 0)
        throw_error(aTHX_ error);
    operation_is_begun(loop, begun);
}

#define LOOP_ROOM 1024

static operation *call_prepared(pTHX_ cache_handle *cache, SV *self, pinyon_request *request, char *room, SV *callback)
{
    operation *begun   = operation_prepared(aTHX_ self, callback);
    begun->cache       = cache;
    begun->one.request = request;
    begun->one.room    = room;
    begun->one.left    = LOOP_ROOM;
    begun->read        = read_call;
    return begun;
}

/* Begins a call of one of the methods. */
static operation *begin_call(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    operation     *begun;

    ENTER;
    SAVETMPS;
    begun = call_prepared(aTHX_ cache, self, &request, room, callback);
    prepare(aTHX_ cache, self, &begun->one, number, given, count);
    switch (begun->one.method->gives) {
    case GIVES_TRUTH:
    case GIVES_CHANGED:
    case GIVES_NUMBER:
    case GIVES_METADATA: begun->is_plain = true; break;
    default: break;
    }
    begin_request(aTHX_ begun, &request);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_give_back(pTHX_ SV *self, SV *key, SV *token, bool stays, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    operation     *begun;

    ENTER;
    SAVETMPS;
    begun           = call_prepared(aTHX_ cache, self, &request, room, callback);
    begun->is_plain = true;
    prepare(aTHX_ cache, self, &begun->one, METHOD_DELETE, &key, 1);
    request.verb = PINYON_GIVE_BACK;
    request.cas  = (uint64_t)SvUV(token);
    request.with = stays ? PINYON_KEEP : 0;
    begin_request(aTHX_ begun, &request);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_question(pTHX_ SV *self, int number, SV *value, SV *delay, SV *callback)
{
    pinyon_request request;
    operation     *begun;

    ENTER;
    SAVETMPS;
    begun        = operation_prepared(aTHX_ self, callback);
    begun->cache = cache_of(aTHX_ self);
    begun->read  = read_servers;
    server_question(aTHX_ & request, number, value, delay);
    begun->verb     = request.verb;
    begun->is_plain = true;
    begin_request(aTHX_ begun, &request);
    FREETMPS;
    LEAVE;
    return begun;
}

/* Asks what a caller of get_or_set wants to know. The reply goes to that caller. */
static operation *begin_step(pTHX_ SV *self, SV *making, pinyon_request *request, SV *callback)
{
    operation *begun;
    ENTER;
    begun               = operation_prepared(aTHX_ self, callback);
    begun->cache        = cache_of(aTHX_ self);
    begun->object       = newSVsv(making);
    begun->has_no_place = true;
    begun->is_plain     = true;
    begun->read         = read_nothing;
    begin_request(aTHX_ begun, request);
    LEAVE;
    return begun;
}

/* ---- Wishes ------------------------------------------------------------------------------------------------------- */

static SV *read_lock(pTHX_ operation *begun)
{
    return acquired(aTHX_ begun->object, &begun->reply, begun->at_once) ? &PL_sv_yes : &PL_sv_no;
}

static SV *read_inspected(pTHX_ operation *begun) { return inspected(aTHX_ & begun->reply); }
static SV *read_executed(pTHX_ operation *begun) { return executed(aTHX_ & begun->reply); }

static SV *read_plain(pTHX_ operation *begun)
{
    return newSViv(plain_result(begun->wish, &begun->reply));
}

/* Begins a wish. `prepared` is its operation, between ENTER and LEAVE. */
static void begin_wished(pTHX_ operation *prepared, pinyon_wish *wish)
{
    locks_handle *locks = locks_of(aTHX_ sv_2mortal(newRV_inc(prepared->self)));
    loop_handle  *loop  = loop_ready(aTHX_ locks->loop);
    pinyon_error *error = NULL;
    wish->context       = prepared;
    prepared->wish      = wish->kind;
    if (pinyon_lock_begin(loop->loop, wish, &prepared->ticket, &error) < 0)
        throw_error(aTHX_ error);
    operation_is_begun(loop, prepared);
}

static operation *begin_lock(pTHX_ SV *self, SV *object, SV *names, HV *options, bool at_once, SV *callback)
{
    operation  *begun;
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    begun          = operation_prepared(aTHX_ self, callback);
    begun->object  = newSVsv(object);
    begun->read    = read_lock;
    begun->at_once = at_once;
    lock_wish(aTHX_ & wish, names, options, at_once);
    begun->is_plain = at_once || !(wish.with & PINYON_AT_ONCE);
    begin_wished(aTHX_ begun, &wish);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_about(pTHX_ SV *self, pinyon_wish_kind kind, SV *names, SV *callback)
{
    operation  *begun;
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    begun           = operation_prepared(aTHX_ self, callback);
    begun->read     = kind == PINYON_INSPECT ? read_inspected : read_executed;
    begun->is_plain = kind == PINYON_INSPECT;
    begin_wish(&wish, kind);
    wish_names(aTHX_ & wish, names);
    begin_wished(aTHX_ begun, &wish);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_force_release(pTHX_ SV *self, SV *names, SV *token, SV *callback)
{
    operation  *begun;
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    begun           = operation_prepared(aTHX_ self, callback);
    begun->read     = read_plain;
    begun->is_plain = true;
    forced_wish(aTHX_ & wish, names, token);
    begin_wished(aTHX_ begun, &wish);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_holders(pTHX_ SV *self, SV *lock, int kind, SV *number, SV *callback)
{
    operation  *begun;
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    begun           = operation_prepared(aTHX_ self, callback);
    begun->read     = read_plain;
    begun->is_plain = true;
    holders_wish(aTHX_ & wish, lock, kind, number);
    begin_wished(aTHX_ begun, &wish);
    FREETMPS;
    LEAVE;
    return begun;
}

/* Begins what nobody waits for. */
static operation *begin_unawaited(pTHX_ SV *self, pinyon_request *request)
{
    operation *begun;
    ENTER;
    begun           = operation_prepared(aTHX_ self, NULL);
    begun->cache    = cache_of(aTHX_ self);
    begun->is_plain = true;
    begun->read     = read_nothing;
    begin_request(aTHX_ begun, request);
    LEAVE;
    return begun;
}

/* ---- Perl's hold on an operation ---------------------------------------------------------------------------------- */

/* An operation that is waited for is abandoned with its object; one with a callback goes on. */
static int operation_free(pTHX_ SV *sv, MAGIC *magic)
{
    operation *begun = (operation *)magic->mg_ptr;
    PERL_UNUSED_VAR(sv);
    magic->mg_ptr = NULL;
    if (!begun)
        return 0;
    if (!begun->callback && !PL_dirty)
        operation_abandon(aTHX_ begun);
    operation_release(aTHX_ begun);
    return 0;
}

static const MGVTBL operation_table = {NULL, NULL, NULL, NULL, operation_free, NULL, not_cloned, NULL};

static SV *operation_object(pTHX_ operation *begun)
{
    SV *object = newRV_noinc((SV *)newHV());
    begun->holders++;
    attach(aTHX_ object, &operation_table, begun);
    return sv_bless(object, gv_stashpvs("Pinyon::Operation", GV_ADD));
}

/* What was begun just now, as an object, after the loop was told what to do for it. */
static SV *begun_object(pTHX_ operation *begun)
{
    SV *object = operation_object(aTHX_ begun);
    carry_out_begun(aTHX_ begun->loop);
    return object;
}

static operation *operation_of(pTHX_ SV *object)
{
    return (operation *)handle_of(aTHX_ object, &operation_table, "an operation that is under way");
}

/* ---- From Perl ---------------------------------------------------------------------------------------------------- */

static void loop_attach(pTHX_ SV *self, SV *client, SV *watch, SV *forget, SV *turn, SV *alarm, bool has_coroutines)
{
    cache_handle *cache = (cache_handle *)attached(client, &cache_table);
    locks_handle *locks = cache ? NULL : locks_of(aTHX_ client);
    loop_handle  *loop;
    Newxz(loop, 1, loop_handle);
    loop->has_coroutines            = has_coroutines;
    loop->forks                     = forks_so_far;
    loop->closures[PINYON_WATCH]    = newSVsv(watch);
    loop->closures[PINYON_FORGET]   = newSVsv(forget);
    loop->closures[PINYON_END_TURN] = newSVsv(turn);
    loop->closures[PINYON_ALARM]    = newSVsv(alarm);
    loop->owner                     = newSVsv(client);
    sv_rvweaken(loop->owner);
    if (cache) {
        loop->client = pinyon_client_clone(cache->client);
        cache->loop  = loop;
    } else {
        loop->locks = pinyon_locks_clone(locks->locks);
        locks->loop = loop;
    }
    attach(aTHX_ self, &loop_table, loop);
}

/* Whether the last arguments are cb => sub. */
static bool ends_with_callback(pTHX_ SV **given, SSize_t count)
{
    SV *name;
    PERL_UNUSED_CONTEXT;
    if (count < 2 || count > MOST_ARGUMENTS || !SvROK(given[count - 1]))
        return false;
    name = given[count - 2];
    return SvPOK(name) && SvCUR(name) == 2 && memEQ(SvPVX(name), "cb", 2) && SvTYPE(SvRV(given[count - 1])) == SVt_PVCV;
}

/* The same call without a callback: what it returns is the model's, such as a promise. Leaves it on Perl's stack. */
static void promise_call(pTHX_ I32 ax, I32 items, unsigned number)
{
    dSP;
    I32 index, count;
    SP = PL_stack_base + ax + items - 1;
    PUSHMARK(SP);
    EXTEND(SP, items + 1);
    PUSHs(PL_stack_base[ax]);
    mPUSHu(number);
    for (index = 1; index < items; index++)
        PUSHs(PL_stack_base[ax + index]);
    PUTBACK;
    count = call_method("_promise_call", G_SCALAR);
    SPAGAIN;
    PL_stack_base[ax] = count ? POPs : &PL_sv_undef;
    PL_stack_sp       = PL_stack_base + ax;
}
