/* Many keys that are read by one operation of an event loop. */

/* One of them, whose value needs Perl's care. */
static XSPROTO(read_wanted_value)
{
    dXSARGS;
    operation    *begun = operation_at(aTHX_ ST(0));
    wanted_key   *one   = &begun->wanted->keys[SvUV(ST(1))];
    SV           *value = one->value;
    PERL_UNUSED_VAR(items);
    one->value = NULL;
    value      = value_of(aTHX_ begun->cache, sv_2mortal(newRV_inc(begun->self)), value, one->found.client_flags);
    if (!value)
        XSRETURN_EMPTY;
    ST(0) = sv_2mortal(value);
    XSRETURN(1);
}

/* Its value; NULL if it cannot be read, and an error for the list unless it counts as missing. */
static SV *value_carefully(pTHX_ operation *begun, size_t index, AV *errors)
{
    dSP;
    SV     *value = NULL;
    SSize_t count;
    ENTER;
    SAVETMPS;
    die_unheard(aTHX);
    PUSHMARK(SP);
    EXTEND(SP, 2);
    mPUSHi(PTR2IV(begun));
    mPUSHu(index);
    PUTBACK;
    count = call_pv("Pinyon::Loop::_read_wanted", G_LIST | G_EVAL);
    SPAGAIN;
    if (count > 0)
        value = SvREFCNT_inc(POPs);
    PUTBACK;
    if (SvTRUE(ERRSV)) {
        SvREFCNT_dec(value);
        value = NULL;
        av_push(errors, newSVsv(ERRSV));
        place_error(aTHX_ AvARRAY(errors)[av_len(errors)], begun->file, begun->line);
    }
    FREETMPS;
    LEAVE;
    return value;
}

static SV *wanted_value(pTHX_ operation *begun, size_t index, AV *errors)
{
    wanted_key *one = &begun->wanted->keys[index];
    SV         *value;
    if (!is_plain_stored(aTHX_ begun->cache, one->value, one->found.client_flags))
        return value_carefully(aTHX_ begun, index, errors);
    value      = one->value;
    one->value = NULL;
    return value_of(aTHX_ begun->cache, NULL, value, one->found.client_flags);
}

/* [hash of values by key, errors …]: of each server one error. */
static SV *read_wanted(pTHX_ operation *begun)
{
    wanted_keys *many    = begun->wanted;
    HV          *results = newHV();
    AV          *all     = newAV();
    SV          *answer  = newRV_noinc((SV *)all);
    HV          *servers = NULL;
    size_t       index;

    av_push(all, newRV_noinc((SV *)results));
    make_room(aTHX_ results, many->count);
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
            value = pair(aTHX_ value, newSVuv((UV)one->found.cas));
        if (!hv_store_ent(results, one->key, value, 0))
            SvREFCNT_dec(value);
    }
    return answer;
}

/* Begins to read keys. NULL: they need Perl's care, or are of two pools. */
static operation *begin_reading(pTHX_ SV *self, AV *keys, bool with_cas, SV *callback)
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
