/* Questions without a key: to every server, and about tags. */

#include "pinyon_perl.h"

void server_question(pTHX_ cache_handle *cache, pinyon_request *request, int number, SV *value, SV *delay)
{
    static const pinyon_verb verbs[] = {PINYON_VERSIONS, PINYON_STATS, PINYON_FLUSH_ALL, PINYON_CLEAR_NAMESPACE,
                                        PINYON_INVALIDATE_TAGS};

    Zero(request, 1, pinyon_request);
    request->size = sizeof *request;
    request->verb = verbs[number];
    request->ttl  = ttl_of(aTHX_ delay, 0, "delay");
    if (request->verb == PINYON_INVALIDATE_TAGS)
        request->tags = tags_of(aTHX_ cache, value);
    else if (SvOK(value))
        request->value.start = SvPV(sv_2mortal(newSVsv(value)), request->value.size);
}

SV *server_answers(pTHX_ pinyon_reply *reply, pinyon_verb verb)
{
    pinyon_answer given   = {sizeof given};
    HV           *results = newHV();

    while (reply->answers && pinyon_next_answer(reply->answers, &given)) {
        const I32 size = (I32)strlen(given.server);
        SV       *value;
        if (given.error)
            continue;
        value = newSVpvn(given.value.start ? given.value.start : "", given.value.size);
        if (verb == PINYON_STATS) {
            SV **of = hv_fetch(results, given.server, size, 1);
            if (!SvROK(*of))
                sv_setsv(*of, sv_2mortal(newRV_noinc((SV *)newHV())));
            if (given.name.start)
                (void)hv_store((HV *)SvRV(*of), given.name.start, (I32)given.name.size, value, 0);
            else
                SvREFCNT_dec(value);
        } else {
            (void)hv_store(results, given.server, size, value, 0);
        }
    }
    return newRV_noinc((SV *)results);
}

SV *partial_error(pTHX_ pinyon_error *error, SV *results)
{
    SV *object = error_object_taken(aTHX_ error);
    hv_stores((HV *)SvRV(object), "partial", results);
    return object;
}

SV *ask_servers(pTHX_ cache_handle *cache, SV *self, const pinyon_request *request)
{
    waiting       wait;
    pinyon_reply  reply = {sizeof reply};
    pinyon_error *error;
    SV           *results;
    pinyon_status status;

    begin_wait(aTHX_ & wait);
    wait.host.place = NULL;
    cache_enter(cache);
    status = pinyon_run(cache->client, request, &reply, &wait.host);
    cache_leave(cache);
    error       = reply.error;
    reply.error = NULL;
    results     = sv_2mortal(server_answers(aTHX_ & reply, request->verb));
    pinyon_reply_clear(&reply);
    if (status == PINYON_INTERRUPTED) {
        pinyon_error_free(error);
        end_interrupted(aTHX_ & wait);
    }
    if (status < 0)
        results = sv_2mortal(partial_error(aTHX_ error, SvREFCNT_inc_NN(results)));
    if (cache->tells)
        tell_events(aTHX_ self);
    if (status < 0)
        throw_mortal(aTHX_ results);
    return SvREFCNT_inc_NN(results);
}

AV *servers_of(pTHX_ cache_handle *cache, SV *key)
{
    AV             *servers = (AV *)sv_2mortal((SV *)newAV());
    pinyon_bytes    bytes   = {NULL, 0};
    pinyon_answer   given   = {sizeof given};
    pinyon_error   *error   = NULL;
    pinyon_answers *answers;
    waiting         wait;

    if (SvOK(key))
        bytes.start = SvPV(sv_2mortal(newSVsv(key)), bytes.size);
    begin_wait(aTHX_ & wait);
    cache_enter(cache);
    answers = pinyon_servers_of(cache->client, bytes, &wait.host, &error);
    cache_leave(cache);
    if (!answers) {
        if (wait.died || wait.exits) {
            pinyon_error_free(error);
            end_interrupted(aTHX_ & wait);
        }
        throw_error(aTHX_ error);
    }
    while (pinyon_next_answer(answers, &given))
        av_push(servers, text_sv(aTHX_ given.server));
    pinyon_answers_free(answers);
    return servers;
}
