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
    SV            *died;    /* what a callback died of, until all replies are handed out */
    size_t         lanes;   /* a number that all lanes are below */
    unsigned       forks;
    unsigned       users;
    unsigned       depth; /* while replies are handed out: what is begun then leaves after the last */
    bool           turn_is_due;
    bool           turn_is_announced;
    bool           is_gone;
    bool           has_coroutines;
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
};

/* What a caller began. */
struct operation {
    call         one; /* the first field: what `place` is told */
    loop_handle *loop;
    operation   *before, *after;
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
    bool         is_plain; /* reading the answer cannot die */
    bool         has_no_place;
};

static unsigned forks_so_far;

static void count_fork(void) { forks_so_far++; }

static void wake(pTHX_ operation *begun);

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
    SV           *self  = sv_2mortal(newRV_inc(begun->self));
    cache_handle *cache = cache_of(aTHX_ self);
    return answer(aTHX_ cache, self, &begun->one, &begun->reply);
}

static operation *operation_at(SV *pointer) { return INT2PTR(operation *, SvIV(pointer)); }

static XSPROTO(read_operation)
{
    dXSARGS;
    operation *begun = operation_at(ST(0));
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
        begun->failure     = error_object_taken(aTHX_ begun->reply.error);
        begun->reply.error = NULL;
    } else if (begun->is_plain) {
        SV *value    = begun->read(aTHX_ begun);
        begun->value = value;
    } else {
        read_carefully(aTHX_ begun);
    }
    if (begun->failure && begun->file)
        place_error(aTHX_ begun->failure, begun->file, begun->line);
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

/* Reports events of a cache that has on_event. */
static void tell_of(pTHX_ SV *client)
{
    SV           *self  = sv_2mortal(newRV_inc(client));
    cache_handle *cache = (cache_handle *)attached(self, &cache_table);
    if (cache && cache->tells)
        tell(aTHX_ self);
}

static void hand_out_one(pTHX_ loop_handle *loop, operation *begun)
{
    begun->holders++;
    operation_unlink(begun);
    begun->is_over = true;
    if (!begun->failure)
        read_answer(aTHX_ begun);
    tell_of(aTHX_ begun->self);
    if (begun->callback)
        call_back(aTHX_ loop, begun);
    else
        wake(aTHX_ begun);
    operation_release(aTHX_ begun); /* what was under way */
    operation_release(aTHX_ begun);
}

static void making_replied(operation *begun, pinyon_reply *reply);

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
        begun->is_plain = begun->is_plain || (begun->read == read_call && begun->one.method->gives != GIVES_LEASE
            && is_plain_value(aTHX_ (cache_handle *)begun->one.room, &begun->one, &begun->reply));
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

static void take_notes(pTHX_ SV *locks)
{
    dSP;
    PUSHMARK(SP);
    XPUSHs(locks);
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

/* What was made for a begin that failed. */
static void operation_failed(pTHX_ void *pointer)
{
    operation *begun = *(operation **)pointer;
    if (begun)
        operation_release(aTHX_ begun);
    Safefree(pointer);
}

/* Holds an operation until it is begun: preparing it may die. Between ENTER and LEAVE. */
static operation **operation_guarded(pTHX_ SV *self, SV *callback)
{
    operation **guard;
    Newxz(guard, 1, operation *);
    SAVEDESTRUCTOR_X(operation_failed, guard);
    *guard            = operation_new(aTHX_ self);
    (*guard)->holders = 1;
    if (callback && SvOK(callback)) {
        if (!SvROK(callback) || (SvTYPE(SvRV(callback)) != SVt_PVCV && !SvAMAGIC(callback)))
            throw_usage(aTHX_ newSVpvs("cb is a reference to a sub that is called with value and error"));
        (*guard)->callback = newSVsv(callback);
        remember_place(aTHX_ * guard);
    }
    return guard;
}

/* Notes that it is under way. */
static operation *operation_begun(pTHX_ loop_handle *loop, operation **guard)
{
    operation *begun = *guard;
    *guard           = NULL;
    begun->loop      = loop;
    operation_link(&loop->begun, begun);
    return begun;
}

static operation *begin_request(pTHX_ cache_handle *cache, operation **guard, const pinyon_request *request)
{
    loop_handle  *loop  = loop_ready(aTHX_ cache->loop);
    pinyon_error *error = NULL;
    (*guard)->one.room  = (char *)cache;
    if (pinyon_begin_using(loop->loop, cache->client, request, &(*guard)->ticket, &error) < 0)
        throw_error(aTHX_ error);
    return operation_begun(aTHX_ loop, guard);
}

#define LOOP_ROOM 1024

/* Begins a call of one of the methods. */
static operation *begin_call(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    operation    **guard, *begun;

    ENTER;
    SAVETMPS;
    guard                = operation_guarded(aTHX_ self, callback);
    begun                = *guard;
    begun->one.request   = &request;
    begun->one.room      = room;
    begun->one.left      = sizeof room;
    begun->read          = read_call;
    prepare(aTHX_ cache, self, &begun->one, number, given, count);
    begun->is_plain = begun->one.method->gives == GIVES_TRUTH || begun->one.method->gives == GIVES_CHANGED
                      || begun->one.method->gives == GIVES_NUMBER || begun->one.method->gives == GIVES_METADATA;
    request.context = begun;
    begin_request(aTHX_ cache, guard, &request);
    FREETMPS;
    LEAVE;
    return begun;
}

static operation *begin_give_back(pTHX_ SV *self, SV *key, SV *token, bool stays, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    operation    **guard, *begun;

    ENTER;
    SAVETMPS;
    guard              = operation_guarded(aTHX_ self, callback);
    begun              = *guard;
    begun->one.request = &request;
    begun->one.room    = room;
    begun->one.left    = sizeof room;
    begun->read        = read_call;
    begun->is_plain    = true;
    prepare(aTHX_ cache, self, &begun->one, METHOD_DELETE, &key, 1);
    request.verb    = PINYON_GIVE_BACK;
    request.cas     = (uint64_t)SvUV(token);
    request.with    = stays ? PINYON_KEEP : 0;
    request.context = begun;
    begin_request(aTHX_ cache, guard, &request);
    FREETMPS;
    LEAVE;
    return begun;
}

static SV *read_servers(pTHX_ operation *begun)
{
    SV *failure = NULL;
    SV *result  = server_answers(aTHX_ & begun->reply, (pinyon_verb)begun->line, &failure);
    PERL_UNUSED_VAR(failure);
    return result;
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

static operation *operation_of(pTHX_ SV *object)
{
    return (operation *)handle_of(aTHX_ object, &operation_table, "an operation that is under way");
}
