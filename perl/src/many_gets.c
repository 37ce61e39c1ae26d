/* Reading many keys. Each value is received into a string of Perl's, which becomes the value in the hash of results. */

#include "pinyon_perl.h"

bool are_plain_keys(pTHX_ SV **keys, size_t count)
{
    size_t index;
    PERL_UNUSED_CONTEXT;
    for (index = 0; index < count; index++) {
        SV *key = keys[index];
        if (!key || SvGMAGICAL(key) || SvROK(key) || !SvOK(key) || isGV_with_GP(key))
            return false;
    }
    return true;
}

void wanted_over(pTHX_ void *pointer)
{
    wanted_keys  *many  = (wanted_keys *)pointer;
    cache_handle *cache = many->cache;
    size_t        index;
    for (index = 0; index < many->count; index++) {
        wanted_key *one = &many->keys[index];
        SvREFCNT_dec_NN(one->key);
        SvREFCNT_dec(one->value);
        if (one->found.error)
            pinyon_error_free(one->found.error);
    }
    spare_given(many->cache, many, many->size);
    cache_leave(cache);
}

void *place_wanted(void *context, size_t size, uint32_t flags)
{
    wanted_key *one = (wanted_key *)context;
    SV         *value;
    dTHXa(one->my_perl);
    PERL_UNUSED_ARG(flags);

    value = newSV(size ? size : 1);
    SvPOK_only(value);
    SvCUR_set(value, size);
    *SvEND(value) = '\0';
    SvREFCNT_dec(one->value);
    one->value = value;
    return SvPVX(value);
}

wanted_keys *wanted_new(pTHX_ cache_handle *cache, SV **keys, size_t count)
{
    wanted_keys *many;
    size_t       index, size = sizeof *many + count * sizeof(wanted_key);
    many        = (wanted_keys *)spare_taken(cache, &size);
    many->cache = cache;
    many->size  = size;
    many->count = count;
    cache_enter(cache);
    for (index = 0; index < count; index++) {
        wanted_key *one = &many->keys[index];
        STRLEN      size;
        one->found.size      = sizeof *one;
        one->found.key.start = SvPV_const(keys[index], size);
        one->found.key.size  = size;
        one->found.error     = NULL;
        one->key             = SvREFCNT_inc_simple_NN(keys[index]);
        one->value           = NULL;
#ifdef MULTIPLICITY
        one->my_perl = my_perl;
#endif
    }
    return many;
}

typedef struct {
    cache_handle *cache;
    SV           *self;
    wanted_key   *one;
} reading_of_one;

static SV *read_one(pTHX_ void *about)
{
    const reading_of_one *reading = (const reading_of_one *)about;
    wanted_key           *one     = reading->one;
    SV                   *value   = one->value;
    one->value                    = NULL;
    return value_of(aTHX_ reading->cache, reading->self, value, one->found.client_flags);
}

SV *wanted_apart(pTHX_ cache_handle *cache, SV *self, wanted_key *one, SV **failure)
{
    reading_of_one reading;
    reading.cache = cache;
    reading.self  = self;
    reading.one   = one;
    return made_apart(aTHX_ read_one, &reading, failure);
}

HV *get_plain_keys(pTHX_ SV *self, bool with_cas, SV **keys, size_t count, HV *failed)
{
    cache_handle *cache   = cache_of(aTHX_ self);
    wanted_keys  *many    = wanted_new(aTHX_ cache, keys, count);
    HV           *results = (HV *)sv_2mortal((SV *)newHV());
    failures      failures = {results, failed, NULL};
    waiting       wait;
    pinyon_status status;
    size_t        index;

    ENTER;
    SAVEDESTRUCTOR_X(wanted_over, many);
    begin_wait(aTHX_ & wait);
    wait.host.place = place_wanted;
    status = pinyon_get_many(cache->client, &many->keys[0].found, count, with_cas ? PINYON_WITH_CAS : 0, &wait.host);
    check_after_wait(aTHX_ cache, self, &wait, status);
    make_room_in(aTHX_ results, count);
    for (index = 0; index < count; index++) {
        wanted_key *one = &many->keys[index];
        SV         *value;
        SV         *failure = NULL;
        if (one->found.status != PINYON_DONE) {
            if (one->found.error)
                note_failure(aTHX_ & failures, one->found.error);
            continue;
        }
        value = plain_value(aTHX_ cache, one->value, one->found.client_flags);
        if (value)
            one->value = NULL;
        else
            value = wanted_apart(aTHX_ cache, self, one, &failure);
        if (failure)
            note_unreadable(aTHX_ & failures, one->key, failure);
        if (!value)
            continue;
        if (with_cas)
            value = pair_sv(aTHX_ value, newSVuv((UV)one->found.cas));
        if (!hv_store_ent(results, one->key, value, 0))
            SvREFCNT_dec(value);
    }
    throw_failures(aTHX_ & failures);
    SvREFCNT_inc_simple_void_NN(results);
    LEAVE;
    return results;
}
