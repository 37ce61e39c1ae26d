/* Beginning operations: calls, questions and wishes. Their replies are handed out by the loop. */

static void operation_unless_begun(pTHX_ void *pointer)
{
    operation *begun = (operation *)pointer;
    if (!begun->loop)
        operation_release(aTHX_ begun);
}

/* A callback, as it is called later: a sub itself, or an object that acts as one. */
static SV *callback_kept(pTHX_ SV *callback)
{
    SV *code;
    if (!callback || !SvOK(callback))
        return NULL;
    code = SvROK(callback) ? SvRV(callback) : NULL;
    if (code && SvTYPE(code) == SVt_PVCV && !SvOBJECT(code))
        return SvREFCNT_inc_simple_NN(code);
    if (!code || (SvTYPE(code) != SVt_PVCV && !SvAMAGIC(callback)))
        throw_usage(aTHX_ newSVpvs("cb is a reference to a sub that is called with value and error"));
    return newSVsv(callback);
}

/* An operation that is let go at LEAVE unless it is begun: preparing it may die. */
static operation *operation_prepared(pTHX_ SV *self, SV *callback)
{
    operation *begun = operation_new(aTHX_ self);
    begun->holders   = 1;
    SAVEDESTRUCTOR_X(operation_unless_begun, begun);
    begun->callback = callback_kept(aTHX_ callback);
    if (begun->callback)
        remember_place(aTHX_ begun);
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

/* Whether reading what the method returns cannot die. */
static bool gives_plainly(const call *one)
{
    switch (one->method->gives) {
    case GIVES_TRUTH:
    case GIVES_CHANGED:
    case GIVES_NUMBER:
    case GIVES_METADATA: return true;
    default: return false;
    }
}

/* Begins a call that is prepared. Returns NULL, with the error, if it is refused. Nothing dies once the operation is there.
 * `target`: of the op that calls and gets the value, or NULL. */
static operation *begin_unless_refused(pTHX_ cache_handle *cache, SV *self, call *one, SV *callback, SV *target,
                                       pinyon_error **error)
{
    loop_handle *loop  = loop_ready(aTHX_ cache->loop);
    SV          *kept  = callback_kept(aTHX_ callback);
    operation   *begun = operation_of_loop(aTHX_ loop, self);

    begun->holders  = 1;
    begun->cache    = cache;
    begun->read     = read_call;
    begun->callback = kept;
    begun->one      = *one;
    if (kept)
        remember_place(aTHX_ begun);
    if (target && one->method->gives == GIVES_VALUE && cache->serialization <= SERIALIZE_RAW)
        begun->one.target = SvREFCNT_inc_simple_NN(target);
    begun->is_plain       = gives_plainly(one);
    one->request->context = begun;
    if (pinyon_begin_using(loop->loop, cache->client, one->request, &begun->ticket, error) < 0) {
        operation_release(aTHX_ begun);
        return NULL;
    }
    operation_is_begun(loop, begun);
    return begun;
}

static operation *begin_prepared(pTHX_ cache_handle *cache, SV *self, call *one, SV *callback, SV *target)
{
    pinyon_error *error = NULL;
    operation    *begun = begin_unless_refused(aTHX_ cache, self, one, callback, target, &error);
    if (!begun)
        throw_error(aTHX_ error);
    return begun;
}

/* Begins a call of one of the methods. */
static operation *begin_call(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback, SV *target)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    call           one;
    operation     *begun;
    const bool     writes = count > 1 && SvROK(given[1]); /* what is written may be large, and is not needed afterwards */

    one.request = &request;
    one.room    = room;
    one.left    = sizeof room;
    if (writes) {
        ENTER;
        SAVETMPS;
    }
    prepare(aTHX_ cache, self, &one, number, given, count);
    begun = begin_prepared(aTHX_ cache, self, &one, callback, target);
    if (writes) {
        FREETMPS;
        LEAVE;
    }
    return begun;
}

static operation *begin_give_back(pTHX_ SV *self, SV *key, SV *token, bool stays, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_request request;
    char           room[LOOP_ROOM];
    call           one;

    one.request = &request;
    one.room    = room;
    one.left    = sizeof room;
    prepare(aTHX_ cache, self, &one, METHOD_DELETE, &key, 1);
    request.verb = PINYON_GIVE_BACK;
    request.cas  = (uint64_t)SvUV(token);
    request.with = stays ? PINYON_KEEP : 0;
    return begin_prepared(aTHX_ cache, self, &one, callback, NULL);
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

static operation *begin_lock(pTHX_ SV *self, SV *object, HV *options, bool at_once, SV *callback)
{
    operation   *begun;
    pinyon_wish  wish;
    pinyon_bytes one;
    HE          *entry;
    ENTER;
    SAVETMPS;
    begun          = operation_prepared(aTHX_ self, callback);
    begun->object  = newSVsv(object);
    begun->read    = read_lock;
    begun->at_once = at_once;
    begin_wish(&wish, PINYON_LOCK);
    if (at_once)
        wish.with = PINYON_AT_ONCE;
    hv_iterinit(options);
    while ((entry = hv_iternext(options))) {
        I32         size;
        const char *name = hv_iterkey(entry, &size);
        wish_option(aTHX_ & wish, name, (STRLEN)size, hv_iterval(options, entry));
    }
    wish_kept_names(aTHX_ & wish, held_of(aTHX_ object), &one);
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

/* The lock of an object that goes now: the operation has it until it is released. */
static operation *begin_last_release(pTHX_ SV *self, SV *lock, SV *callback)
{
    operation   *begun = begin_holders(aTHX_ self, lock, PINYON_RELEASE, NULL, callback);
    lock_handle *held  = held_of(aTHX_ lock);
    begun->lock        = held->lock;
    held->lock         = NULL;
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

/* ---- Calls that call back whatever happens -------------------------------------------------------------------------- */

/* An operation that has failed before it was sent: its callback is called in the loop's next turn. Takes over the failure. */
static operation *begin_failed(pTHX_ SV *self, SV *callback, SV *failure)
{
    cache_handle *cache = cache_of(aTHX_ self);
    loop_handle  *loop  = cache->loop;
    operation    *begun;
    if (!loop)
        throw_object(aTHX_ failure);
    begun           = operation_of_loop(aTHX_ loop, self);
    begun->holders  = 1;
    begun->cache    = cache;
    begun->read     = read_nothing;
    begun->is_plain = true;
    begun->callback = callback_kept(aTHX_ callback);
    begun->failure  = failure;
    begun->loop     = loop;
    operation_link(&loop->orphans, begun);
    announce_turn(aTHX_ loop);
    return begun;
}

/* Begins a call whose arguments may be wrong. */
static SV *begin_carefully(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback)
{
    dSP;
    SV     *object  = NULL;
    SV     *failure = NULL;
    SSize_t index;

    ENTER;
    SAVETMPS;
    save_scalar(PL_errgv);
    die_unheard(aTHX);
    PUSHMARK(SP);
    EXTEND(SP, count + 3);
    PUSHs(self);
    mPUSHu(number);
    PUSHs(callback);
    for (index = 0; index < count; index++)
        PUSHs(given[index]);
    PUTBACK;
    call_pv("Pinyon::Loop::Cache::_begin", G_SCALAR | G_EVAL);
    SPAGAIN;
    if (SvTRUE(ERRSV)) {
        (void)POPs;
        failure = newSVsv(ERRSV);
    } else {
        object = newSVsv(POPs);
    }
    PUTBACK;
    FREETMPS;
    LEAVE;
    return failure ? operation_object(aTHX_ begin_failed(aTHX_ self, callback, failure)) : object;
}

/* Begins a call with a callback. NULL in a void context, where nobody wants the operation. */
static SV *begin_called_back(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    pinyon_error  *error = NULL;
    pinyon_request request;
    char           room[LOOP_ROOM];
    call           one;
    operation     *begun;

    if (count > MOST_ARGUMENTS || !cache->loop || !is_prepared_safely(cache, number, given, count))
        return sv_2mortal(begin_carefully(aTHX_ self, number, given, count, callback));
    one.request = &request;
    one.room    = room;
    one.left    = sizeof room;
    prepare(aTHX_ cache, self, &one, number, given, count);
    begun = begin_unless_refused(aTHX_ cache, self, &one, callback, NULL, &error);
    if (!begun)
        begun = begin_failed(aTHX_ self, callback, error_object_taken(aTHX_ error));
    if (GIMME_V == G_VOID) {
        carry_out_begun(aTHX_ begun->loop);
        return NULL;
    }
    return sv_2mortal(begun_object(aTHX_ begun));
}

/* ---- From Perl ---------------------------------------------------------------------------------------------------- */

static void loop_attach(pTHX_ SV *self, SV *client, SV *watch, SV *forget, SV *turn, SV *alarm, bool has_coroutines)
{
    cache_handle *cache = (cache_handle *)attached(client, &cache_table);
    locks_handle *locks = cache ? NULL : locks_of(aTHX_ client);
    loop_handle  *loop;
    tell_of_forks(aTHX);
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
