/* Blocking calls. Signals are let in during a wait; a handler that dies, or ends the program, never jumps over the library's
 * frames: what it wanted is kept, the library returns, and then it happens. */

#include "pinyon_perl.h"

XSPROTO(deliver_signals)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    PERL_ASYNC_CHECK();
    XSRETURN_EMPTY;
}

static void call_handlers(pTHX_ waiting *wait)
{
    dSP;
    SV *said = sv_2mortal(newSVsv(ERRSV));
    ENTER;
    if (credentials_are_asked())
        answer_credentials(aTHX);
    SPAGAIN;
    PUSHMARK(SP);
    call_pv("Pinyon::_deliver_signals", G_VOID | G_DISCARD | G_NOARGS | G_EVAL);
    if (SvTRUE(ERRSV))
        wait->died = newSVsv(ERRSV);
    sv_setsv(ERRSV, said);
    LEAVE;
}

static int handlers_interrupt(pTHX_ waiting *wait)
{
    int ended;
    dJMPENV;
    JMPENV_PUSH(ended);
    if (ended == 0)
        call_handlers(aTHX_ wait);
    JMPENV_POP;
    wait->exits = ended != 0;
    return wait->exits || wait->died;
}

static int interrupted_by_signals(void *host)
{
    waiting *wait = (waiting *)host;
    dTHXa(wait->my_perl);
    if (!PL_sig_pending && !credentials_are_asked())
        return 0;
    return handlers_interrupt(aTHX_ wait);
}

void begin_wait(pTHX_ waiting *wait)
{
    wait->died             = NULL;
    wait->exits            = false;
    wait->host.size        = sizeof wait->host;
    wait->host.place       = place_value;
    wait->host.interrupted = interrupted_by_signals;
    wait->host.before_wait = NULL;
    wait->host.after_wait  = NULL;
    wait->host.host        = wait;
#ifdef MULTIPLICITY
    wait->my_perl = my_perl;
#endif
}

bool exit_is_due;

void end_interrupted(pTHX_ waiting *wait)
{
    if (wait->exits || exit_is_due)
        JMPENV_JUMP(2);
    if (wait->died)
        throw_object(aTHX_ wait->died);
    croak("interrupted");
}

/* ---- While an object ends --------------------------------------------------------------------------------------------- */

static int handlers_may_run(pTHX_ SV *object, MAGIC *magic)
{
    PERL_UNUSED_VAR(object);
    PERL_UNUSED_VAR(magic);
    PL_sig_pending = 1;
    return 0;
}

static const MGVTBL handlers_wait = {NULL, NULL, NULL, NULL, handlers_may_run, NULL, NULL, NULL};

/* An object's magic goes when DESTROY is over, if nothing has taken the object up again. */
void handlers_after(pTHX_ SV *object)
{
    const bool ends = PL_curstackinfo->si_type == PERLSI_DESTROY && SvREFCNT(SvRV(object)) == 1;
    if (!PL_sig_pending || !ends)
        return;
    sv_magicext(SvRV(object), NULL, PERL_MAGIC_ext, &handlers_wait, NULL, 0);
    PL_sig_pending = 0;
}

/* ---- Calls of a cache ------------------------------------------------------------------------------------------------- */

void throw_failed(pTHX_ cache_handle *cache, SV *self, pinyon_error *error)
{
    SV *object = sv_2mortal(error_object_taken(aTHX_ error));
    if (cache->tells)
        tell_events(aTHX_ self);
    throw_mortal(aTHX_ object);
}

/* Leaves of a reply what is needed, so that nothing of it leaks if Perl dies. Returns its error. */
static pinyon_error *settle_reply(pTHX_ call *one, pinyon_reply *reply)
{
    pinyon_error *error = reply->error;
    reply->error        = NULL;
    if (reply->value.start) {
        own_value(aTHX_ one, reply);
        reply->value.start = NULL;
    }
    if (reply->memory || reply->answers) {
        pinyon_reply plain = *reply;
        pinyon_reply_clear(reply);
        plain.answers     = NULL;
        plain.memory      = NULL;
        plain.memory_size = 0;
        *reply            = plain;
    }
    return error;
}

SV *run_call(pTHX_ cache_handle *cache, SV *self, call *one)
{
    waiting       wait;
    pinyon_reply  reply;
    pinyon_error *error;
    SV           *result;
    bool          is_gone;

    begin_reply(&reply);
    begin_wait(aTHX_ & wait);
    cache_enter(cache);
    reply.status = pinyon_run(cache->client, one->request, &reply, &wait.host);
    error        = settle_reply(aTHX_ one, &reply);
    is_gone      = cache->is_gone;
    cache_leave(cache);
    if (UNLIKELY(reply.status < 0 || is_gone)) {
        SvREFCNT_dec(one->value);
        if (reply.status == PINYON_INTERRUPTED) {
            pinyon_error_free(error);
            end_interrupted(aTHX_ & wait);
        }
        if (is_gone) {
            pinyon_error_free(error);
            throw_kind(aTHX_ PINYON_E_CLOSED, newSVpvs("the client was destroyed during the call"));
        }
        throw_failed(aTHX_ cache, self, error);
    }
    result = result_of(aTHX_ cache, self, one, &reply);
    if (UNLIKELY(cache->tells)) {
        if (result)
            sv_2mortal(SvREFCNT_inc_simple_NN(result));
        tell_events(aTHX_ self);
    }
    SvREFCNT_dec(one->value);
    return result;
}

void check_after_wait(pTHX_ cache_handle *cache, SV *self, waiting *wait, pinyon_status status)
{
    if (status == PINYON_INTERRUPTED)
        end_interrupted(aTHX_ wait);
    if (cache->is_gone)
        throw_kind(aTHX_ PINYON_E_CLOSED, newSVpvs("the client was destroyed during the call"));
    if (cache->tells)
        tell_events(aTHX_ self);
}
