/* Calls of an event loop with a callback, which is called whatever happens: also when the arguments are wrong. */

#include "pinyon_perl.h"

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

SV *begin_called_back(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback)
{
    cache_handle *cache = cache_of(aTHX_ self);
    pinyon_error *error = NULL;
    lone_call     alone;
    operation    *begun;

    if (count > MOST_ARGUMENTS || !cache->loop || !is_prepared_safely(cache, number, given, count))
        return sv_2mortal(begin_carefully(aTHX_ self, number, given, count, callback));
    prepare_alone(aTHX_ cache, self, &alone, number, given, count);
    begun = begin_unless_refused(aTHX_ cache, self, &alone.one, callback, NULL, &error);
    if (!begun)
        begun = begin_failed(aTHX_ self, callback, error_object_taken(aTHX_ error));
    if (GIMME_V == G_VOID) {
        carry_out_begun(aTHX_ begun->loop);
        return NULL;
    }
    return sv_2mortal(begun_object(aTHX_ begun));
}

bool ends_with_callback(pTHX_ SV **given, SSize_t count)
{
    SV *name;
    PERL_UNUSED_CONTEXT;
    if (count < 2 || count > MOST_ARGUMENTS || !SvROK(given[count - 1]))
        return false;
    name = given[count - 2];
    return SvPOK(name) && SvCUR(name) == 2 && memEQ(SvPVX(name), "cb", 2) && SvTYPE(SvRV(given[count - 1])) == SVt_PVCV;
}

void promise_call(pTHX_ I32 ax, I32 items, unsigned number)
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
