/* Beginning calls of caches. */

#include "pinyon_perl.h"

static void operation_unless_begun(pTHX_ void *pointer)
{
    operation *begun = (operation *)pointer;
    if (!begun->loop)
        operation_release(aTHX_ begun);
}

SV *callback_kept(pTHX_ SV *callback)
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

operation *operation_prepared(pTHX_ SV *self, SV *callback)
{
    operation *begun = operation_new(aTHX_ self);
    begun->holders   = 1;
    SAVEDESTRUCTOR_X(operation_unless_begun, begun);
    begun->callback = callback_kept(aTHX_ callback);
    if (begun->callback)
        remember_place(aTHX_ begun);
    return begun;
}

void operation_is_begun(loop_handle *loop, operation *begun)
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

/* Nothing dies once the operation is there. */
operation *begin_unless_refused(pTHX_ cache_handle *cache, SV *self, call *one, SV *callback, SV *target,
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

operation *begin_call(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback, SV *target)
{
    cache_handle *cache = cache_of(aTHX_ self);
    lone_call     alone;
    operation    *begun;
    const bool    writes = count > 1 && SvROK(given[1]); /* what is written may be large, and is not needed afterwards */

    if (writes) {
        ENTER;
        SAVETMPS;
    }
    prepare_alone(aTHX_ cache, self, &alone, number, given, count);
    begun = begin_prepared(aTHX_ cache, self, &alone.one, callback, target);
    if (writes) {
        FREETMPS;
        LEAVE;
    }
    return begun;
}

operation *begin_give_back(pTHX_ SV *self, SV *key, SV *token, bool stays, SV *callback)
{
    cache_handle *cache = cache_of(aTHX_ self);
    lone_call     alone;
    prepare_give_back(aTHX_ cache, self, &alone, key, token, stays);
    return begin_prepared(aTHX_ cache, self, &alone.one, callback, NULL);
}

/* Begins what is no call of a method. `making`: what the reply is for, or NULL. */
static operation *begin_other(pTHX_ SV *self, pinyon_request *request, SV *making, SV *(*read)(pTHX_ operation *),
                              SV *callback)
{
    operation *begun;
    ENTER;
    begun               = operation_prepared(aTHX_ self, callback);
    begun->cache        = cache_of(aTHX_ self);
    begun->verb         = request->verb;
    begun->object       = making ? newSVsv(making) : NULL;
    begun->has_no_place = making != NULL;
    begun->read         = read;
    begun->is_plain     = true;
    begin_request(aTHX_ begun, request);
    LEAVE;
    return begun;
}

operation *begin_question(pTHX_ SV *self, int number, SV *value, SV *delay, SV *callback)
{
    pinyon_request request;
    operation     *begun;
    ENTER;
    SAVETMPS;
    server_question(aTHX_ cache_of(aTHX_ self), &request, number, value, delay);
    begun = begin_other(aTHX_ self, &request, NULL, read_servers, callback);
    FREETMPS;
    LEAVE;
    return begun;
}

operation *begin_step(pTHX_ SV *self, SV *making, size_t part, pinyon_request *request, SV *callback)
{
    operation *begun = begin_other(aTHX_ self, request, making, read_nothing, callback);
    begun->part      = part;
    return begun;
}

operation *begin_unawaited(pTHX_ SV *self, pinyon_request *request)
{
    return begin_other(aTHX_ self, request, NULL, read_nothing, NULL);
}

/* ---- Many calls ------------------------------------------------------------------------------------------------------- */

#define ROOM_FOR_EACH 128

static SV *item_of(pTHX_ AV *list, SSize_t index)
{
    SV **item = list ? av_fetch(list, index, 0) : NULL;
    return item ? *item : &PL_sv_undef;
}

AV *begin_many(pTHX_ SV *self, unsigned number, AV *calls, AV *callbacks)
{
    cache_handle   *cache   = cache_of(aTHX_ self);
    const SSize_t   count   = av_len(calls) + 1;
    AV             *results = (AV *)sv_2mortal((SV *)newAV());
    call           *ones;
    pinyon_request *requests;
    char           *room;
    STRLEN          left = (count + 1) * ROOM_FOR_EACH;
    SSize_t         index;

    ENTER;
    SAVETMPS;
    ones     = (call *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof *ones)));
    requests = (pinyon_request *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof *requests)));
    room     = SvPVX(sv_2mortal(newSV(left)));
    for (index = 0; index < count; index++) {
        SV     *given[MOST_ARGUMENTS];
        AV     *list    = array_of(aTHX_ item_of(aTHX_ calls, index));
        SSize_t present = av_len(list) + 1, argument;
        for (argument = 0; argument < present && argument < MOST_ARGUMENTS; argument++)
            given[argument] = item_of(aTHX_ list, argument);
        ones[index].request = &requests[index];
        ones[index].room    = room;
        ones[index].left    = left;
        prepare_call(aTHX_ cache, self, &ones[index], number, given, present);
        room = ones[index].room;
        left = ones[index].left;
    }
    for (index = 0; index < count; index++) {
        pinyon_error *error = NULL;
        operation    *begun
            = begin_unless_refused(aTHX_ cache, self, &ones[index], item_of(aTHX_ callbacks, index), NULL, &error);
        av_push(results, begun ? operation_object(aTHX_ begun) : error_object_taken(aTHX_ error));
    }
    FREETMPS;
    LEAVE;
    carry_out_begun(aTHX_ loop_ready(aTHX_ cache->loop));
    return results;
}
