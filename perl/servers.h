/* Questions to every server, events and metrics. */

/* A question to all servers: versions, statistics, or to forget everything. */
static void server_question(pTHX_ pinyon_request *request, int number, SV *value, SV *delay)
{
    Zero(request, 1, pinyon_request);
    request->size = sizeof *request;
    request->verb = number == 0 ? PINYON_VERSIONS : number == 1 ? PINYON_STATS : PINYON_FLUSH_ALL;
    request->ttl  = ttl_of(aTHX_ delay, 0, "delay");
    if (SvOK(value))
        request->value.start = SvPV(sv_2mortal(newSVsv(value)), request->value.size);
}

/* What each server answered: { server => value }, or { server => { name => value } } where answers have names. */
static SV *server_answers(pTHX_ pinyon_reply *reply, pinyon_verb verb)
{
    pinyon_answer given;
    HV           *results = newHV();

    Zero(&given, 1, pinyon_answer);
    given.size = sizeof given;
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

/* The error of a question that some servers did not answer, with what the others answered. Takes over both. */
static SV *partial_error(pTHX_ pinyon_error *error, SV *results)
{
    SV *object = error_object_taken(aTHX_ error);
    hv_stores((HV *)SvRV(object), "partial", results);
    return object;
}

static SV *ask_servers(pTHX_ cache_handle *cache, SV *self, const pinyon_request *request)
{
    waiting       wait;
    pinyon_reply  reply;
    pinyon_error *error;
    SV           *results;
    pinyon_status status;

    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
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
        tell(aTHX_ self);
    if (status < 0)
        throw_mortal(aTHX_ results);
    return SvREFCNT_inc_NN(results);
}

/* An event as a hash. */
static SV *event_fields(pTHX_ const pinyon_event *event)
{
    HV *fields = newHV();
    hv_stores(fields, "kind", newSVpv(event->kind, 0));
    hv_stores(fields, "level", newSVpv(event->level, 0));
    hv_stores(fields, "message", text_sv(aTHX_ event->message));
    hv_stores(fields, "server", *event->server ? text_sv(aTHX_ event->server) : newSV(0));
    hv_stores(fields, "command", *event->command ? newSVpv(event->command, 0) : newSV(0));
    hv_stores(fields, "seconds", event->seconds < 0 ? newSV(0) : newSVnv(event->seconds));
    hv_stores(fields, "error", event->error ? error_object(aTHX_ event->error) : newSV(0));
    if (event->previous)
        hv_stores(fields, "previous", text_sv(aTHX_ event->previous));
    return newRV_noinc((SV *)fields);
}

/* The next event of a client; NULL: there is none. */
static SV *next_event(pTHX_ cache_handle *cache)
{
    pinyon_event *event = pinyon_next_event(cache->client);
    SV           *fields;
    if (!event)
        return NULL;
    fields = event_fields(aTHX_ event);
    pinyon_event_free(event);
    return fields;
}
