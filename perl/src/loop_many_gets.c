/* Many keys that are read by one operation of an event loop. */

#include "pinyon_perl.h"

static SV *wanted_value(pTHX_ operation *begun, size_t index, AV *errors)
{
    wanted_key *one = &begun->wanted->keys[index];
    SV         *value = plain_value(aTHX_ begun->cache, one->value, one->found.client_flags);
    SV         *self, *failure;
    if (value) {
        one->value = NULL;
        return value;
    }
    self  = newRV_inc(begun->self);
    value = wanted_apart(aTHX_ begun->cache, self, one, &failure);
    SvREFCNT_dec_NN(self);
    if (failure) {
        AV *pair = newAV();
        place_error(aTHX_ failure, begun->file, begun->line);
        av_push(pair, newSVsv(one->key));
        av_push(pair, failure);
        av_push(errors, newRV_noinc((SV *)pair));
    }
    return value;
}

/* [hash of values by key, errors …]: of each server one error, and of each value that cannot be read [key, error]. */
static SV *read_wanted(pTHX_ operation *begun)
{
    wanted_keys *many    = begun->wanted;
    HV          *results = newHV();
    AV          *all     = newAV();
    SV          *answer  = newRV_noinc((SV *)all);
    HV          *servers = NULL;
    size_t       index;

    av_push(all, newRV_noinc((SV *)results));
    make_room_in(aTHX_ results, many->count);
    for (index = 0; index < many->count; index++) {
        wanted_key *one   = &many->keys[index];
        SV         *value = NULL;
        if (one->found.error) {
            const char *server = pinyon_error_server(one->found.error);
            const I32   size   = (I32)strlen(server);
            SV         *error;
            if (!servers)
                servers = (HV *)sv_2mortal((SV *)newHV());
            if (size && hv_exists(servers, server, size))
                continue;
            error = error_object(aTHX_ one->found.error);
            place_error(aTHX_ error, begun->file, begun->line);
            av_push(all, error);
            if (size)
                (void)hv_store(servers, server, size, newSV(0), 0);
            continue;
        }
        if (one->found.status == PINYON_DONE)
            value = wanted_value(aTHX_ begun, index, all);
        if (!value)
            continue;
        if (many->with_cas)
            value = pair_sv(aTHX_ value, newSVuv((UV)one->found.cas));
        if (!hv_store_ent(results, one->key, value, 0))
            SvREFCNT_dec(value);
    }
    return answer;
}

operation *begin_many_gets(pTHX_ SV *self, AV *keys, bool with_cas, SV *callback)
{
    cache_handle  *cache = cache_of(aTHX_ self);
    const size_t   count = (size_t)(av_len(keys) + 1);
    pinyon_error  *error = NULL;
    pinyon_reading reading;
    loop_handle   *loop;
    operation     *begun;

    if (cache->old || SvRMAGICAL((SV *)keys) || !are_plain_keys(aTHX_ AvARRAY(keys), count))
        return NULL;
    ENTER;
    loop            = loop_ready(aTHX_ cache->loop);
    begun           = operation_prepared(aTHX_ self, callback);
    begun->cache    = cache;
    begun->read     = read_wanted;
    begun->is_plain = true;
    begun->wanted   = wanted_new(aTHX_ cache, AvARRAY(keys), count);
    begun->wanted->with_cas = with_cas;
    if (!begun->file)
        remember_place(aTHX_ begun);
    reading.size    = sizeof reading;
    reading.keys    = &begun->wanted->keys[0].found;
    reading.count   = count;
    reading.with    = with_cas ? PINYON_WITH_CAS : 0;
    reading.place   = place_wanted;
    reading.context = begun;
    if (pinyon_begin_reading(loop->loop, cache->client, &reading, &begun->ticket, &error) < 0)
        throw_error(aTHX_ error);
    operation_is_begun(loop, begun);
    LEAVE;
    return begun;
}
