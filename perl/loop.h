/* What the host's loop must do for operations, and the replies that callers get.
 *
 * The calls of programs that wait become operations here. Replies go to one coroutine at a time; the requests that the
 * coroutines submit meanwhile leave after the last reply. Composed methods are written once, over callbacks
 * (lib/Pinyon/Loop/Cache.pm). A model of waiting, such as lib/Pinyon/AnyEvent.pm, is four closures and what its methods
 * return. */

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
    if (!loop->turn_is_due) /* otherwise all is done in that turn */
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
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, 2);
    PUSHs(begun->value ? begun->value : &PL_sv_undef);
    PUSHs(begun->failure ? begun->failure : &PL_sv_undef);
    PUTBACK;
    call_sv(begun->callback, G_VOID | G_DISCARD | G_EVAL);
    PERL_CODE_ENDS;
    if (UNLIKELY(SvTRUE(ERRSV))) {
        if (loop->died)
            warn_sv(loop->died);
        SvREFCNT_dec(loop->died);
        loop->died = newSVsv(ERRSV);
    }
}

/* Whether reading its value runs Perl code, which may wait: in a coroutine it can, in a callback of the loop it cannot. */
static bool is_read_apart(loop_handle *loop, operation *begun)
{
    return loop->has_coroutines && !begun->callback && !begun->failure && begun->reply.status >= 0
           && (begun->read == read_call || begun->wanted) && loads_by_perl(begun->cache);
}

/* The operation is held as what was under way; nobody else lets go of that once it is over. */
static void hand_out_one(pTHX_ loop_handle *loop, operation *begun)
{
    SV *object;
    operation_unlink(begun);
    if (UNLIKELY(is_read_apart(loop, begun))) {
        read_apart(aTHX_ begun);
        return;
    }
    begun->is_over = true;
    if (!begun->failure)
        read_answer(aTHX_ begun);
    /* Nothing is held while a coroutine runs that may go on for long: a lock is released when its caller lets it go. */
    object        = begun->object;
    begun->object = NULL;
    SvREFCNT_dec(object);
    if (begun->cache && begun->cache->tells)
        tell(aTHX_ sv_2mortal(newRV_inc(begun->self)));
    if (begun->callback)
        call_back(aTHX_ loop, begun);
    else
        wake(aTHX_ loop, begun);
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
static void take_notes_of_loop(pTHX_ loop_handle *loop)
{
    dSP;
    locks_handle *locks;
    if (!loop->locks || PL_dirty)
        return;
    locks = (locks_handle *)attached(loop->owner, &locks_table);
    if (!locks || !notes_are_due(aTHX_ locks))
        return;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    XPUSHs(sv_2mortal(newSVsv(loop->owner)));
    PUTBACK;
    call_method("_take_notes", G_VOID | G_DISCARD | G_EVAL);
    PERL_CODE_ENDS;
    if (SvTRUE(ERRSV))
        warn_sv(ERRSV);
}

/* Hands out all replies, and sends what was begun meanwhile. Dies of what a callback died of, when all is done. */
static void hand_out(pTHX_ loop_handle *loop)
{
    SV *died;
    if (exit_is_due)
        JMPENV_JUMP(2);
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
    take_notes_of_loop(aTHX_ loop);
    if (credentials_are_asked())
        answer_credentials(aTHX);
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
    while (loop->spare) {
        operation *spare = loop->spare;
        loop->spare      = spare->after;
        Safefree(spare);
    }
    loop->is_dropped = true;
    if (!loop->used)
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

/* Has the host's loop told of a fork, once in each child, before anything is watched or forgotten there. */
static void tell_of_forks(pTHX)
{
    static unsigned forks_told;
    dSP;
    if (forks_told == forks_so_far)
        return;
    forks_told = forks_so_far;
    PUSHMARK(SP);
    call_pv("Pinyon::Loop::_forked", G_VOID | G_DISCARD | G_NOARGS);
}

/* A forked child begins anew. What its parent began fails here: nobody reads those replies. */
static void loop_renew(pTHX_ loop_handle *loop)
{
    loop->forks = forks_so_far;
    tell_of_forks(aTHX);
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

/* ---- When a descriptor is ready ----------------------------------------------------------------------------------- */

/* Only tells its subs from others. */
static const MGVTBL lane_table = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

/* A sub of code_for_lane: its magic has the object of the loop, weakly, and the lane. */
static XSPROTO(lane_is_ready)
{
    dXSARGS;
    MAGIC       *magic = mg_findext((SV *)cv, PERL_MAGIC_ext, &lane_table);
    loop_handle *loop  = magic ? (loop_handle *)attached(magic->mg_obj, &loop_table) : NULL;
    PERL_UNUSED_VAR(items);
    if (loop) {
        if (loop->forks != forks_so_far)
            loop_renew(aTHX_ loop);
        if (loop->loop)
            pinyon_ready(loop->loop, PTR2UV(magic->mg_ptr));
        hand_out(aTHX_ loop);
    }
    XSRETURN(0);
}

/* A sub for the host's loop to call when a lane's descriptor is ready. It is no Perl code, whose frames Coro would have to
 * put aside for each coroutine that it runs. */
static SV *code_for_lane(pTHX_ SV *self, UV lane)
{
    CV *code = newXS(NULL, lane_is_ready, __FILE__);
    SV *loop = newRV_inc(SvRV(self));
    sv_rvweaken(loop);
    sv_magicext((SV *)code, loop, PERL_MAGIC_ext, &lane_table, INT2PTR(const char *, lane), 0);
    SvREFCNT_dec_NN(loop);
    return newRV_noinc((SV *)code);
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
