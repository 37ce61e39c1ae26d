/* Replies on their way from an event loop to the callers of its operations. Replies go to one coroutine at a time; the
 * requests that the coroutines submit meanwhile leave after the last reply. */

#include "pinyon_perl.h"

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
    return loop->coroutines && !begun->callback && !begun->failure && begun->reply.status >= 0
           && (begun->read == read_call || begun->wanted) && loads_by_perl(begun->cache);
}

/* The operation is held as what was under way; nobody else lets go of that once it is over. */
static void hand_out_one(pTHX_ loop_handle *loop, operation *begun)
{
    SV *object;
    operation_unlink(begun);
    if (UNLIKELY(is_read_apart(loop, begun))) {
        loop->coroutines->read_apart(aTHX_ begun);
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
        tell_events(aTHX_ sv_2mortal(newRV_inc(begun->self)));
    if (begun->callback)
        call_back(aTHX_ loop, begun);
    else if (loop->coroutines)
        loop->coroutines->wake(aTHX_ loop, begun);
    operation_release(aTHX_ begun);
}

void hand_out_replies(pTHX_ loop_handle *loop)
{
    pinyon_reply reply = {sizeof reply};
    while (loop->loop && !loop->is_gone && pinyon_next_reply(loop->loop, &reply)) {
        operation *begun = (operation *)reply.context;
        if (!begun)
            continue;
        if (begun->has_no_place)
            making_replied(begun->object, begun->part, &reply);
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

/* Warnings, and locks that were lost. */
static void take_notes_of_loop(pTHX_ loop_handle *loop)
{
    locks_handle *locks;
    SV           *owner;
    if (!loop->locks || PL_dirty)
        return;
    locks = (locks_handle *)attached_handle(loop->owner, &locks_table);
    if (!locks || !notes_are_due(aTHX_ locks))
        return;
    owner = sv_2mortal(newSVsv(loop->owner));
    perl_result(aTHX_ "_take_notes", G_METHOD | G_VOID | G_DISCARD | G_EVAL, &owner, 1);
    if (SvTRUE(ERRSV))
        warn_sv(ERRSV);
}

void hand_out(pTHX_ loop_handle *loop)
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

/* ---- When a descriptor is ready --------------------------------------------------------------------------------------- */

/* Only tells its subs from others. */
static const MGVTBL lane_table = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

/* A sub of code_for_lane: its magic has the object of the loop, weakly, and the lane. */
static XSPROTO(lane_is_ready)
{
    dXSARGS;
    MAGIC       *magic = mg_findext((SV *)cv, PERL_MAGIC_ext, &lane_table);
    loop_handle *loop  = magic ? (loop_handle *)attached_handle(magic->mg_obj, &loop_table) : NULL;
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

/* It is no Perl code, whose frames Coro would have to put aside for each coroutine that it runs. */
SV *code_for_lane(pTHX_ SV *self, UV lane)
{
    CV *code = newXS(NULL, lane_is_ready, __FILE__);
    SV *loop = newRV_inc(SvRV(self));
    sv_rvweaken(loop);
    sv_magicext((SV *)code, loop, PERL_MAGIC_ext, &lane_table, INT2PTR(const char *, lane), 0);
    SvREFCNT_dec_NN(loop);
    return newRV_noinc((SV *)code);
}
