MODULE = Pinyon    PACKAGE = Pinyon::Cache

void
_call(self, ...)
    SV *self
  ALIAS:
    _called = 1
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ self);
        lone_call     alone;
        SV           *result;
        GIVEN(given, count, 1)

        self = SELF_THAT_STAYS(cache);
        prepare_alone(aTHX_ cache, self, &alone, (unsigned)ix, given, count);
        if (alone.one.method->gives == GIVES_VALUE && cache->serialization <= SERIALIZE_RAW)
            alone.one.target = target_of_op(aTHX);
        result = run_call(aTHX_ cache, self, &alone.one);
        if (result) {
            ST(0) = result;
            if (result == alone.one.target)
                SvREFCNT_dec_NN(result);
            else if (!SvIMMORTAL(result))
                sv_2mortal(result);
            XSRETURN(1);
        }
        if (GIMME_V == G_LIST)
            XSRETURN(0);
        XSRETURN_UNDEF;
    }

void
get_multi(self, ...)
    SV *self
  ALIAS:
    gets_multi = 1
  PPCODE:
    {
        cache_handle *cache  = cache_of(aTHX_ self);
        HV           *failed = NULL;
        SV          **items_given = &ST(1);
        SSize_t       count  = items - 1;
        HV           *results;

        self = SELF_THAT_STAYS(cache);
        if (count && SvROK(ST(1)) && SvTYPE(SvRV(ST(1))) == SVt_PVAV) {
            if (count == 3 && strEQ(SvPV_nolen(ST(2)), "failed") && SvROK(ST(3)) && SvTYPE(SvRV(ST(3))) == SVt_PVHV)
                failed = (HV *)SvRV(ST(3));
            else if (count != 1)
                throw_usage(aTHX_ newSVpvf("%s_multi takes keys, or a reference to an array of them and failed => "
                                           "\\%%errors", ix ? "gets" : "get"));
            items_given = AvARRAY((AV *)SvRV(ST(1)));
            count       = av_len((AV *)SvRV(ST(1))) + 1;
        }
        if (!cache->old && are_plain_keys(aTHX_ items_given, (size_t)count))
            results = get_plain_keys(aTHX_ self, (bool)ix, items_given, (size_t)count, failed);
        else
            results = run_many(aTHX_ self, method_number(aTHX_ ix ? "gets" : "get"), items_given, (size_t)count, NULL, NULL, failed, NULL);
        ST(0) = sv_2mortal(newRV_noinc((SV *)results));
        XSRETURN(1);
    }

void
gat_multi(self, ttl, ...)
    SV *self
    SV *ttl
  ALIAS:
    gats_multi = 1
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ self);
        HV           *results;
        self    = SELF_THAT_STAYS(cache);
        ttl     = sv_2mortal(newSVsv(ttl));
        results = run_many(aTHX_ self, method_number(aTHX_ ix ? "gats" : "gat"), &ST(2), (size_t)(items - 2), ttl, NULL, NULL, NULL);
        ST(0) = sv_2mortal(newRV_noinc((SV *)results));
        XSRETURN(1);
    }

void
_call_many(self, ...)
    SV *self
  ALIAS:
    _called_many = 1
  PPCODE:
    {
        cache_handle *cache    = cache_of(aTHX_ self);
        const bool    is_list  = GIMME_V == G_LIST;
        AV           *order    = is_list ? (AV *)sv_2mortal((SV *)newAV()) : NULL;
        size_t        count    = (size_t)(items - 1);
        SV           *tags     = tags_of_many(aTHX_ (unsigned)ix, &ST(1), &count);
        SV           *results;

        self    = SELF_THAT_STAYS(cache);
        results = (SV *)run_many(aTHX_ self, (unsigned)ix, &ST(1), count, NULL, tags, NULL, order);
        results = sv_2mortal(newRV_noinc(results));
        if (is_list)
            RETURN_ITEMS(order);
        ST(0) = results;
        XSRETURN(1);
    }

void
_attach(self, names, values, form, tells)
    SV *self
    SV *names
    SV *values
    unsigned form
    bool tells
  PPCODE:
    {
        pinyon_error  *error = NULL;
        size_t         count;
        pinyon_option *options = options_of(aTHX_ names, values, &count);
        pinyon_client *client  = pinyon_client_new(options, count, &error);
        if (!client)
            throw_error(aTHX_ error);
        cache_attach(aTHX_ self, client, form, tells);
        XSRETURN(0);
    }

void
_attach_view(self, of, names, values)
    SV *self
    SV *of
    SV *names
    SV *values
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ of);
        pinyon_error  *error = NULL;
        size_t         count;
        pinyon_option *options = options_of(aTHX_ names, values, &count);
        pinyon_client *client  = pinyon_client_using(cache->client, options, count, &error);
        if (!client)
            throw_error(aTHX_ error);
        cache_attach(aTHX_ self, client, (unsigned)cache->serialization, cache->tells);
        XSRETURN(0);
    }

SV *
_storable_flags(self)
    SV *self
  CODE:
    RETVAL = newSVuv(cache_of(aTHX_ self)->storable_flags);
  OUTPUT:
    RETVAL

void
_give_back(self, key, token, stays)
    SV *self
    SV *key
    SV *token
    bool stays
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ self);
        lone_call     alone;
        self = SELF_THAT_STAYS(cache);
        prepare_give_back(aTHX_ cache, self, &alone, key, token, stays);
        ST(0) = run_call(aTHX_ cache, self, &alone.one);
        XSRETURN(1);
    }

SV *
_ask_servers(self, verb, value, delay)
    SV *self
    int verb
    SV *value
    SV *delay
  CODE:
    {
        cache_handle  *cache = cache_of(aTHX_ self);
        pinyon_request request;
        server_question(aTHX_ cache, &request, verb, value, delay);
        self   = SELF_THAT_STAYS(cache);
        RETVAL = ask_servers(aTHX_ cache, self, &request);
    }
  OUTPUT:
    RETVAL

SV *
_next_event(self)
    SV *self
  CODE:
    RETVAL = next_event(aTHX_ cache_of(aTHX_ self));
    if (!RETVAL)
        XSRETURN_UNDEF;
  OUTPUT:
    RETVAL

SV *
_metrics(self)
    SV *self
  CODE:
    {
        char *text = pinyon_metrics(cache_of(aTHX_ self)->client);
        RETVAL     = newSVpv(text, 0);
        pinyon_text_free(text);
    }
  OUTPUT:
    RETVAL

SV *
near_metrics(self)
    SV *self
  CODE:
    RETVAL = near_metrics(aTHX_ cache_of(aTHX_ self));
  OUTPUT:
    RETVAL

void
_servers_of(self, key)
    SV *self
    SV *key
  PPCODE:
    {
        AV *servers = servers_of(aTHX_ cache_of(aTHX_ self), key);
        RETURN_ITEMS(servers);
    }

SV *
namespace(self)
    SV *self
  CODE:
    {
        pinyon_bytes bytes = pinyon_namespace(cache_of(aTHX_ self)->client);
        RETVAL             = newSVpvn(bytes.start ? bytes.start : "", bytes.size);
    }
  OUTPUT:
    RETVAL

void
close(self)
    SV *self
  PPCODE:
    pinyon_client_close(cache_of(aTHX_ self)->client);
    XSRETURN(0);

bool
_passes_over(self, reason)
    SV *self
    SV *reason
  CODE:
    RETVAL = pinyon_passes_over(cache_of(aTHX_ self)->client, utf8_or_none(aTHX_ reason));
  OUTPUT:
    RETVAL

SV *
_value_of(self, stored, flags)
    SV *self
    SV *stored
    U32 flags
  CODE:
    RETVAL = value_read(aTHX_ cache_of(aTHX_ self), self, newSVsv(stored), flags);
  OUTPUT:
    RETVAL

void
_to_store(self, value)
    SV *self
    SV *value
  PPCODE:
    {
        lone_call alone;
        value_alone(aTHX_ cache_of(aTHX_ self), self, &alone, value);
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        EXTEND(SP, 2);
        mPUSHp(alone.request.value.start, alone.request.value.size);
        mPUSHu(alone.request.client_flags);
        PUTBACK;
        return;
    }
