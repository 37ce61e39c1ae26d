MODULE = Pinyon    PACKAGE = Pinyon::Making

void
_begin(self, client, key, ...)
    SV *self
    SV *client
    SV *key
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ client);
        pinyon_error  *error = NULL;
        pinyon_making *making;
        pinyon_terms   terms = {sizeof terms};

        if (!SvOK(key))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("a key is a string, not undef"));
        terms.key.start = SvPV(key, terms.key.size);
        fill_terms(aTHX_ cache, &terms, self, &ST(3), items - 3);
        making = pinyon_making_new(cache->client, &terms, &error);
        if (!making)
            throw_error(aTHX_ error);
        attach_handle(aTHX_ self, &making_table, making);
        XSRETURN(0);
    }

void
_run(self, client)
    SV *self
    SV *client
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ client);
        SV           *value = making_run(aTHX_ cache, client, making_of(aTHX_ self));
        if (!value)
            XSRETURN(0);
        ST(0) = sv_2mortal(value);
        XSRETURN(1);
    }

void
_take(self, client, value, ...)
    SV *self
    SV *client
    SV *value
  PPCODE:
    {
        lone_call     alone;
        pinyon_made   how   = {sizeof how};
        pinyon_error *error = NULL;

        fill_made(aTHX_ & how, &ST(3));
        value_alone(aTHX_ cache_of(aTHX_ client), client, &alone, value);
        if (pinyon_making_made_with(making_of(aTHX_ self), alone.request.value, alone.request.client_flags, &how, &error) < 0)
            throw_error(aTHX_ error);
        XSRETURN(0);
    }

void
_failed(self, message)
    SV *self
    SV *message
  PPCODE:
    pinyon_making_failed(making_of(aTHX_ self), utf8_or_none(aTHX_ message));
    XSRETURN(0);

bool
_unreadable(self, reason)
    SV *self
    SV *reason
  CODE:
    RETVAL = pinyon_making_unreadable(making_of(aTHX_ self), utf8_or_none(aTHX_ reason));
  OUTPUT:
    RETVAL

void
_leave(self, client)
    SV *self
    SV *client
  PPCODE:
    {
        pinyon_making *making = (pinyon_making *)attached_handle(self, &making_table);
        cache_handle  *cache  = (cache_handle *)attached_handle(client, &cache_table);
        if (making && cache)
            making_leave(aTHX_ cache, making);
        handlers_after(aTHX_ self);
        XSRETURN(0);
    }

MODULE = Pinyon    PACKAGE = Pinyon::MakingMany

void
_begin(self, client, keys, ...)
    SV *self
    SV *client
    SV *keys
  PPCODE:
    {
        cache_handle       *cache = cache_of(aTHX_ client);
        pinyon_error       *error = NULL;
        AV                 *list  = array_of(aTHX_ keys);
        const size_t        count = (size_t)(av_len(list) + 1);
        pinyon_bytes       *given = (pinyon_bytes *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof *given)));
        pinyon_making_many *making;
        pinyon_terms        terms = {sizeof terms};
        size_t              index;

        for (index = 0; index < count; index++) {
            SV **key = av_fetch(list, (SSize_t)index, 0);
            if (!key || !SvOK(*key))
                throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("a key is a string, not undef"));
            given[index].start = SvPV(*key, given[index].size);
        }
        fill_terms(aTHX_ cache, &terms, self, &ST(3), items - 3);
        making = pinyon_making_many_new(cache->client, &terms, given, count, &error);
        if (!making)
            throw_error(aTHX_ error);
        attach_handle(aTHX_ self, &making_many_table, making);
        XSRETURN(0);
    }

bool
_goes_to_make(self, client)
    SV *self
    SV *client
  CODE:
    RETVAL = making_many_run(aTHX_ cache_of(aTHX_ client), client, making_many_of(aTHX_ self));
  OUTPUT:
    RETVAL

void
_wanted(self)
    SV *self
  PPCODE:
    {
        pinyon_making_many *making = making_many_of(aTHX_ self);
        size_t              index, key;
        for (index = 0; pinyon_making_many_wanted(making, index, &key); index++)
            mXPUSHu(key);
    }

void
_take(self, client, key, value, ...)
    SV *self
    SV *client
    UV key
    SV *value
  PPCODE:
    {
        lone_call     alone;
        pinyon_made   how   = {sizeof how};
        pinyon_error *error = NULL;

        fill_made(aTHX_ & how, &ST(4));
        value_alone(aTHX_ cache_of(aTHX_ client), client, &alone, value);
        if (pinyon_making_many_made(making_many_of(aTHX_ self), (size_t)key, alone.request.value, alone.request.client_flags,
                                    &how, &error) < 0)
            throw_error(aTHX_ error);
        XSRETURN(0);
    }

void
_failed(self, message)
    SV *self
    SV *message
  PPCODE:
    pinyon_making_many_failed(making_many_of(aTHX_ self), utf8_or_none(aTHX_ message));
    XSRETURN(0);

void
_answer(self, client, key)
    SV *self
    SV *client
    UV key
  PPCODE:
    {
        SV *value = making_many_answer(aTHX_ cache_of(aTHX_ client), client, making_many_of(aTHX_ self), (size_t)key);
        if (!value)
            XSRETURN(0);
        ST(0) = sv_2mortal(value);
        XSRETURN(1);
    }

bool
_unreadable(self, key, reason)
    SV *self
    UV key
    SV *reason
  CODE:
    RETVAL = pinyon_making_many_unreadable(making_many_of(aTHX_ self), (size_t)key, utf8_or_none(aTHX_ reason));
  OUTPUT:
    RETVAL

void
_leave(self, client)
    SV *self
    SV *client
  PPCODE:
    {
        pinyon_making_many *making = (pinyon_making_many *)attached_handle(self, &making_many_table);
        cache_handle       *cache  = (cache_handle *)attached_handle(client, &cache_table);
        if (making && cache)
            making_many_leave(aTHX_ cache, making);
        handlers_after(aTHX_ self);
        XSRETURN(0);
    }

MODULE = Pinyon    PACKAGE = Pinyon::Lease

void
_own(self, client, win)
    SV *self
    SV *client
    SV *win
  PPCODE:
    lease_own(aTHX_ self, client, win);
    XSRETURN(0);

bool
_goes_open(self)
    SV *self
  CODE:
    RETVAL = is_lease_left_open(aTHX_ self) && !PL_dirty;
  OUTPUT:
    RETVAL

void
DESTROY(self)
    SV *self
  PPCODE:
    lease_left(aTHX_ self);
    handlers_after(aTHX_ self);
    XSRETURN(0);

MODULE = Pinyon    PACKAGE = Pinyon::Lease::Won

void
DESTROY(self)
    SV *self
  PPCODE:
    win_left(aTHX_ self);
    handlers_after(aTHX_ self);
    XSRETURN(0);
