/* What is asked of locks in an event loop. */

#include "pinyon_perl.h"

static SV *read_lock(pTHX_ operation *begun)
{
    return acquire_by_reply(aTHX_ begun->object, &begun->reply, begun->at_once) ? &PL_sv_yes : &PL_sv_no;
}

static SV *read_inspected(pTHX_ operation *begun) { return inspected_names(aTHX_ & begun->reply); }
static SV *read_executed(pTHX_ operation *begun) { return executed_answer(aTHX_ & begun->reply); }

static SV *read_rated(pTHX_ operation *begun) { return rated_answer(aTHX_ & begun->reply); }

static SV *read_plain(pTHX_ operation *begun)
{
    return newSViv(plain_result(begun->wish, &begun->reply));
}

static SV *read_ticket(pTHX_ operation *begun)
{
    PERL_UNUSED_CONTEXT;
    return SvREFCNT_inc(begun->one.value);
}

/* Begins a wish. `prepared` is its operation, between ENTER and LEAVE. */
static void begin_prepared_wish(pTHX_ operation *prepared, pinyon_wish *wish)
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

operation *begin_lock(pTHX_ SV *self, SV *object, HV *options, bool at_once, SV *callback)
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
        const char *name  = hv_iterkey(entry, &size);
        SV         *value = hv_iterval(options, entry);
        if (wish_option(aTHX_ & wish, name, (STRLEN)size, value) == LOCK_READS)
            lock_reads(aTHX_ object, value);
    }
    wish_kept_names(aTHX_ & wish, held_of(aTHX_ object), &one);
    begun->is_plain = at_once || !(wish.with & PINYON_AT_ONCE);
    begin_prepared_wish(aTHX_ begun, &wish);
    FREETMPS;
    LEAVE;
    return begun;
}

/* Begins another wish, and lets go of what it was made of. Between ENTER, SAVETMPS and the return. */
static operation *begin_other_wish(pTHX_ SV *self, pinyon_wish *wish, SV *(*read)(pTHX_ operation *), SV *callback)
{
    operation *begun = operation_prepared(aTHX_ self, callback);
    begun->read      = read;
    begun->is_plain  = read != read_executed;
    begin_prepared_wish(aTHX_ begun, wish);
    FREETMPS;
    LEAVE;
    return begun;
}

operation *begin_names_wish(pTHX_ SV *self, pinyon_wish_kind kind, SV *names, SV *callback)
{
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    begin_wish(&wish, kind);
    wish_names(aTHX_ & wish, names);
    return begin_other_wish(aTHX_ self, &wish, kind == PINYON_INSPECT ? read_inspected : read_executed, callback);
}

operation *begin_force_release(pTHX_ SV *self, SV *names, SV *token, SV *callback)
{
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    forced_wish(aTHX_ & wish, names, token);
    return begin_other_wish(aTHX_ self, &wish, read_plain, callback);
}

operation *begin_rate(pTHX_ SV *self, SV *name, AV *terms, SV *callback)
{
    pinyon_wish wish;
    pinyon_rate rate;
    ENTER;
    SAVETMPS;
    rate_wish(aTHX_ & wish, &rate, name, terms);
    return begin_other_wish(aTHX_ self, &wish, read_rated, callback);
}

operation *begin_available(pTHX_ SV *self, SV *pool, SV *limit, SV *callback)
{
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    available_wish(aTHX_ & wish, pool, limit);
    return begin_other_wish(aTHX_ self, &wish, read_plain, callback);
}

operation *begin_holders(pTHX_ SV *self, SV *lock, int kind, SV *number, SV *callback)
{
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    holders_wish(aTHX_ & wish, lock, kind, number);
    return begin_other_wish(aTHX_ self, &wish, kind == PINYON_HAND_OVER ? read_ticket : read_plain, callback);
}

operation *begin_release_all(pTHX_ SV *self, SV *timeout, SV *callback)
{
    pinyon_wish wish;
    ENTER;
    SAVETMPS;
    release_all_wish(aTHX_ & wish, timeout);
    return begin_other_wish(aTHX_ self, &wish, read_plain, callback);
}

/* The operation has the lock until it is released. */
operation *begin_last_release(pTHX_ SV *self, SV *lock, SV *callback)
{
    operation   *begun = begin_holders(aTHX_ self, lock, PINYON_RELEASE, NULL, callback);
    lock_handle *held  = held_of(aTHX_ lock);
    begun->lock        = held->lock;
    held->lock         = NULL;
    return begun;
}
