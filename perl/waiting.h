/* Calls that wait. Signals are let in during a wait; a handler that dies, or ends the program, never jumps over the
 * library's frames: what it wanted is kept, the library returns, and then it happens. */

typedef struct {
    pinyon_host host;
    SV         *died;  /* what a handler died of */
    bool        exits; /* a handler ended the program */
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
} waiting;

static XSPROTO(deliver_signals)
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

static int interrupted(void *host)
{
    waiting *wait = (waiting *)host;
    dTHXa(wait->my_perl);
    if (!PL_sig_pending && !credentials_are_asked())
        return 0;
    return handlers_interrupt(aTHX_ wait);
}

static void begin_wait(pTHX_ waiting *wait)
{
    wait->died             = NULL;
    wait->exits            = false;
    wait->host.size        = sizeof wait->host;
    wait->host.place       = place;
    wait->host.interrupted = interrupted;
    wait->host.before_wait = NULL;
    wait->host.after_wait  = NULL;
    wait->host.host        = wait;
#ifdef MULTIPLICITY
    wait->my_perl = my_perl;
#endif
}

/* Perl code that converts a value has ended the program: it ends when the library returns. */
static bool exit_is_due;

/* After PINYON_INTERRUPTED: does what the handler wanted. Does not return. */
static void end_interrupted(pTHX_ waiting *wait)
{
    if (wait->exits || exit_is_due)
        JMPENV_JUMP(2);
    if (wait->died)
        throw_object(aTHX_ wait->died);
    croak("interrupted");
}

/* Reports events to the client's on_event, where it has one. */
static void tell(pTHX_ SV *self)
{
    dSP;
    ENTER;
    SAVETMPS;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    XPUSHs(self);
    PUTBACK;
    call_method("_tell", G_VOID | G_DISCARD);
    PERL_CODE_ENDS;
    FREETMPS;
    LEAVE;
}

/* Leaves of a reply what is needed, so that nothing of it leaks if Perl dies: its value becomes a string of Perl's. Returns
 * its error. */
static pinyon_error *settle(pTHX_ call *one, pinyon_reply *reply)
{
    pinyon_error *error = reply->error;
    reply->error        = NULL;
    if (reply->value.start) {
        SvREFCNT_dec(one->value);
        one->value         = newSVpvn(reply->value.start, reply->value.size);
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

/* The same for a reply that stays as it is. */
static pinyon_reply settled(pTHX_ call *one, pinyon_reply *reply)
{
    pinyon_reply plain = *reply;
    if (reply->value.start) {
        SvREFCNT_dec(one->value);
        one->value = newSVpvn(reply->value.start, reply->value.size);
    }
    plain.value.start = NULL;
    plain.error       = NULL;
    reply->error      = NULL;
    if (reply->memory || reply->answers)
        pinyon_reply_clear(reply);
    return plain;
}

static void fail(pTHX_ cache_handle *cache, SV *self, pinyon_error *error)
{
    SV *object = sv_2mortal(error_object_taken(aTHX_ error));
    if (cache->tells)
        tell(aTHX_ self);
    throw_mortal(aTHX_ object);
}

/* The library fills all else, and looks at these before. */
static void begin_reply(pinyon_reply *reply)
{
    reply->size        = sizeof *reply;
    reply->value.start = NULL;
    reply->error       = NULL;
    reply->answers     = NULL;
    reply->lock        = NULL;
    reply->memory      = NULL;
}

/* Carries out a prepared call: returns a new reference, or NULL for a miss; dies of a failure. */
static SV *run_call(pTHX_ cache_handle *cache, SV *self, call *one)
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
    error        = settle(aTHX_ one, &reply);
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
        fail(aTHX_ cache, self, error);
    }
    result = answer(aTHX_ cache, self, one, &reply);
    if (UNLIKELY(cache->tells)) {
        if (result)
            sv_2mortal(SvREFCNT_inc_simple_NN(result));
        tell(aTHX_ self);
    }
    SvREFCNT_dec(one->value);
    return result;
}
