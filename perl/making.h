/* One caller's way to a value that may have to be made: get_or_set. Perl code makes it between two runs. */

static pinyon_making *making_of(pTHX_ SV *object)
{
    return (pinyon_making *)handle_of(aTHX_ object, &making_table, "a Pinyon::Making that is under way");
}

static double seconds_of(pTHX_ SV *given, double none, const char *name)
{
    SvGETMAGIC(given);
    if (!SvOK(given))
        return none;
    if (SvROK(given) ? !SvAMAGIC(given) : !looks_like_number(given))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(given)));
    return SvNV_nomg(given);
}

/* The value at the end. Dies if it cannot be read: then a new one is made. */
static SV *made_value(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *stored = one->value ? one->value : newSVpvs("");
    one->value = NULL;
    return value_read(aTHX_ cache, self, stored, reply->client_flags);
}

/* Goes on to the value, or until it must be made, which is NULL. */
static SV *making_run(pTHX_ cache_handle *cache, SV *self, pinyon_making *making)
{
    waiting       wait;
    pinyon_reply  reply, plain;
    call          one;
    pinyon_error *error;

    Zero(&one, 1, call);
    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
    one.method = &methods[METHOD_GET];
    begin_wait(aTHX_ & wait);
    wait.host.place = NULL;
    cache_enter(cache);
    reply.status = pinyon_making_run(making, &reply, &wait.host);
    error        = reply.error;
    plain        = settled(aTHX_ & one, &reply);
    cache_leave(cache);
    if (plain.status == PINYON_INTERRUPTED) {
        pinyon_error_free(error);
        end_interrupted(aTHX_ & wait);
    }
    if (plain.status < 0)
        fail(aTHX_ cache, self, error);
    if (plain.status == PINYON_MAKE) {
        SvREFCNT_dec(one.value);
        return NULL;
    }
    return made_value(aTHX_ cache, self, &one, &plain);
}

/* The value at the end of the steps. Dies if it cannot be had. */
static SV *making_over(pTHX_ cache_handle *cache, SV *self, pinyon_reply *reply)
{
    call          one;
    pinyon_error *error = reply->error;
    pinyon_reply  plain;
    Zero(&one, 1, call);
    one.method = &methods[METHOD_GET];
    plain      = settled(aTHX_ & one, reply);
    if (plain.status < 0)
        fail(aTHX_ cache, self, error);
    return made_value(aTHX_ cache, self, &one, &plain);
}

/* Ends a caller wherever it is, and gives back a lease that it has. */
static void making_leave(pTHX_ cache_handle *cache, pinyon_making *making)
{
    pinyon_request request;
    pinyon_reply   reply;
    Zero(&request, 1, pinyon_request);
    request.size = sizeof request;
    if (!pinyon_making_leave(making, &request))
        return;
    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
    /* A server that fails ends the lease itself. */
    cache_enter(cache);
    pinyon_run(cache->client, &request, &reply, NULL);
    cache_leave(cache);
    pinyon_reply_clear(&reply);
}

static SV *field_of(pTHX_ HV *object, const char *name)
{
    SV **field = hv_fetch(object, name, (I32)strlen(name), 0);
    return field ? *field : &PL_sv_undef;
}

/* The lease of an object that goes, if it is this process's and thread's. */
static lease_handle *lease_left_here(SV *object)
{
    lease_handle *held = (lease_handle *)attached(object, &lease_table);
    return held && held->forks == forks_so_far ? held : NULL;
}

static bool is_lease_left_open(pTHX_ SV *lease)
{
    return lease_left_here(lease) && SvTRUE(field_of(aTHX_(HV *) SvRV(lease), "is_open"));
}

/* Gives back a win that nobody used, so that the next caller makes the value at once. Perl would not let a handler of signals
 * die out of the end of an object, so handlers run after it. */
static void give_lease_back(pTHX_ const lease_handle *held, SV *key, uint64_t token, bool stays)
{
    MAGIC         *magic = mg_findext(held->client, PERL_MAGIC_ext, &cache_table);
    cache_handle  *cache = magic ? (cache_handle *)magic->mg_ptr : NULL;
    pinyon_request request;
    pinyon_reply   reply;
    STRLEN         size;
    dSAVE_ERRNO;

    if (!cache)
        return;
    Zero(&request, 1, pinyon_request);
    request.size      = sizeof request;
    request.verb      = PINYON_GIVE_BACK;
    request.with      = stays ? PINYON_KEEP : 0;
    request.cas       = token;
    request.key.start = SvPV(key, size);
    request.key.size  = size;
    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
    /* A server that fails ends the lease itself. */
    pinyon_run(cache->client, &request, &reply, NULL);
    pinyon_reply_clear(&reply);
    RESTORE_ERRNO;
}

static void lease_left(pTHX_ SV *lease)
{
    HV *fields;
    if (!is_lease_left_open(aTHX_ lease))
        return;
    fields = (HV *)SvRV(lease);
    give_lease_back(aTHX_ lease_left_here(lease), field_of(aTHX_ fields, "key"),
                    (uint64_t)SvUV(field_of(aTHX_ fields, "token")), SvTRUE(field_of(aTHX_ fields, "stays")));
}

/* The same for a win that has not become an object. */
static void win_left(pTHX_ SV *win)
{
    const lease_handle *held = lease_left_here(win);
    if (held && held->key)
        give_lease_back(aTHX_ held, held->key, held->token, held->stays);
}

/* An object has the win now. */
static void lease_own(pTHX_ SV *lease, SV *client, SV *win)
{
    lease_handle *held;
    (void)cache_of(aTHX_ client);
    lease_attach(aTHX_ lease, client);
    held = lease_left_here(win);
    if (held) {
        SvREFCNT_dec(held->key);
        held->key = NULL;
    }
}
