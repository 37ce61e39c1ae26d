/* One caller's way to a value that may have to be made: get_or_set. Perl code makes it between two runs. */

#include "pinyon_perl.h"

HANDLE_TABLE(making_table, pinyon_making, pinyon_making_free(handle), not_cloned);

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

void making_replied(SV *object, pinyon_reply *reply)
{
    pinyon_making *making = (pinyon_making *)attached_handle(object, &making_table);
    if (making)
        pinyon_making_replied(making, reply);
}
