/* One caller's way to a value that may have to be made, or to many: get_or_set and get_or_set_multi. Perl code makes them
 * between two runs. */

#include "pinyon_perl.h"

HANDLE_TABLE(making_table, pinyon_making, pinyon_making_free(handle), not_cloned);
HANDLE_TABLE(making_many_table, pinyon_making_many, pinyon_making_many_free(handle), not_cloned);

#define TERMS 15

void fill_terms(pTHX_ cache_handle *cache, pinyon_terms *terms, SV *self, SV **on_stack, SSize_t count)
{
    SV     *given[TERMS]; /* a number may be an object, whose code moves the stack */
    SSize_t index;
    for (index = 0; index < TERMS; index++)
        given[index] = index < count ? on_stack[index] : &PL_sv_undef;
    terms->with = (SvTRUE(given[1]) ? PINYON_TERMS_TTL_OF_VALUE : 0) | (SvTRUE(given[7]) ? PINYON_TERMS_STALE_ON_ERROR : 0) |
                  (SvOK(given[9]) ? PINYON_TERMS_SOFT_TIMEOUT : 0) | (SvTRUE(given[10]) ? PINYON_TERMS_BEHIND : 0) |
                  (SvTRUE(given[11]) ? PINYON_TERMS_ANEW : 0);
    terms->ttl  = SvTRUE(given[1]) ? 0 : seconds_of(aTHX_ given[0], 0, "ttl");
    terms->stale = seconds_of(aTHX_ given[2], 0, "stale");
    terms->early = seconds_of(aTHX_ given[3], 0, "early");
    terms->lease = seconds_of(aTHX_ given[4], 0, "lease");
    terms->wait  = seconds_of(aTHX_ given[5], 0, "wait");
    if (SvOK(given[5]) && terms->wait == 0)
        terms->wait = -1;
    terms->jitter       = seconds_of(aTHX_ given[6], 0, "jitter");
    terms->retry_after  = seconds_of(aTHX_ given[8], 0, "retry_after");
    terms->soft_timeout = seconds_of(aTHX_ given[9], 0, "soft_timeout");
    terms->tags         = tags_of(aTHX_ cache, given[12]);
    terms->scope        = SvOK(given[13]) ? (uint64_t)SvUV(given[13]) : 0;
    terms->caller       = SvOK(given[14]) ? (uint64_t)SvUV(given[14]) : 0;
    terms->context      = SvRV(self);
}

void fill_made(pTHX_ pinyon_made *how, SV **on_stack)
{
    SV *ttl = on_stack[0], *stale = on_stack[1], *is_stored = on_stack[2];
    how->with = (SvOK(ttl) ? PINYON_MADE_TTL : 0) | (SvOK(stale) ? PINYON_MADE_STALE : 0) |
                (SvTRUE(is_stored) ? 0 : PINYON_MADE_NOT_STORED);
    how->ttl   = seconds_of(aTHX_ ttl, 0, "ttl");
    how->stale = seconds_of(aTHX_ stale, 0, "stale");
}

pinyon_making *making_of(pTHX_ SV *object)
{
    return (pinyon_making *)handle_of(aTHX_ object, &making_table, "a Pinyon::Making that is under way");
}

/* The value at the end. Dies if it cannot be read: then a new one is made. */
static SV *made_value(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *stored = one->value ? one->value : newSVpvs("");
    one->value = NULL;
    return value_read(aTHX_ cache, self, stored, reply->client_flags);
}

SV *making_run(pTHX_ cache_handle *cache, SV *self, pinyon_making *making)
{
    waiting       wait;
    pinyon_reply  reply = {sizeof reply};
    pinyon_reply  plain;
    call          one = {NULL};
    pinyon_error *error;

    begin_wait(aTHX_ & wait);
    wait.host.place = NULL;
    cache_enter(cache);
    reply.status = pinyon_making_run(making, &reply, &wait.host);
    error        = reply.error;
    plain        = settled_reply(aTHX_ & one, &reply);
    cache_leave(cache);
    if (plain.status == PINYON_INTERRUPTED) {
        pinyon_error_free(error);
        end_interrupted(aTHX_ & wait);
    }
    if (plain.status < 0)
        throw_failed(aTHX_ cache, self, error);
    if (one.value)
        sv_2mortal(SvREFCNT_inc_simple_NN(one.value));
    if (cache->tells)
        tell_events(aTHX_ self);
    if (plain.status == PINYON_MAKE) {
        SvREFCNT_dec(one.value);
        return NULL;
    }
    return made_value(aTHX_ cache, self, &one, &plain);
}

SV *making_over(pTHX_ cache_handle *cache, SV *self, pinyon_reply *reply)
{
    call          one   = {NULL};
    pinyon_error *error = reply->error;
    pinyon_reply  plain = settled_reply(aTHX_ & one, reply);
    if (plain.status < 0)
        throw_failed(aTHX_ cache, self, error);
    return made_value(aTHX_ cache, self, &one, &plain);
}

SV *making_old(pTHX_ pinyon_reply *reply, uint32_t *flags)
{
    call one = {NULL};
    *flags   = settled_reply(aTHX_ & one, reply).client_flags;
    return one.value ? one.value : newSVpvs("");
}

void making_leave(pTHX_ cache_handle *cache, pinyon_making *making)
{
    pinyon_request request = {sizeof request};
    pinyon_reply   reply   = {sizeof reply};
    if (!pinyon_making_leave(making, &request))
        return;
    /* A server that fails ends the lease itself. */
    cache_enter(cache);
    pinyon_run(cache->client, &request, &reply, NULL);
    cache_leave(cache);
    pinyon_reply_clear(&reply);
}

void making_replied(SV *object, size_t part, pinyon_reply *reply)
{
    pinyon_making      *making = (pinyon_making *)attached_handle(object, &making_table);
    pinyon_making_many *many   = (pinyon_making_many *)attached_handle(object, &making_many_table);
    if (making)
        pinyon_making_replied(making, reply);
    if (many)
        pinyon_making_many_replied(many, part, reply);
}

pinyon_making_many *making_many_of(pTHX_ SV *object)
{
    return (pinyon_making_many *)handle_of(aTHX_ object, &making_many_table, "a Pinyon::MakingMany that is under way");
}

bool making_many_run(pTHX_ cache_handle *cache, SV *self, pinyon_making_many *making)
{
    waiting       wait;
    pinyon_reply  reply = {sizeof reply};
    pinyon_status status;

    begin_wait(aTHX_ & wait);
    wait.host.place = NULL;
    cache_enter(cache);
    status = pinyon_making_many_run(making, &reply, &wait.host);
    cache_leave(cache);
    if (status == PINYON_INTERRUPTED) {
        pinyon_reply_clear(&reply);
        end_interrupted(aTHX_ & wait);
    }
    making_many_over(aTHX_ cache, self, &reply);
    if (cache->tells)
        tell_events(aTHX_ self);
    return status == PINYON_MAKE;
}

void making_many_over(pTHX_ cache_handle *cache, SV *self, pinyon_reply *reply)
{
    pinyon_error *error = reply->error;
    reply->error        = NULL;
    pinyon_reply_clear(reply);
    if (error)
        throw_failed(aTHX_ cache, self, error);
}

SV *making_many_answer(pTHX_ cache_handle *cache, SV *self, pinyon_making_many *making, size_t key)
{
    call          one   = {NULL};
    pinyon_reply  reply = {sizeof reply};
    pinyon_status status;
    pinyon_error *error;

    status = pinyon_making_many_answer(making, key, &reply);
    error  = reply.error;
    reply  = settled_reply(aTHX_ & one, &reply);
    if (status < 0)
        throw_failed(aTHX_ cache, self, error);
    return status == PINYON_MISS ? NULL : made_value(aTHX_ cache, self, &one, &reply);
}

void making_many_leave(pTHX_ cache_handle *cache, pinyon_making_many *making)
{
    pinyon_request request = {sizeof request};
    pinyon_reply   reply   = {sizeof reply};
    /* A server that fails ends the leases itself. */
    cache_enter(cache);
    while (pinyon_making_many_leave(making, &request))
        pinyon_run(cache->client, &request, &reply, NULL);
    cache_leave(cache);
    pinyon_reply_clear(&reply);
}
