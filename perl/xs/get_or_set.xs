MODULE = Pinyon    PACKAGE = Pinyon::Making

void
_begin(self, client, key, ttl, stale, early, lease, wait, scope = 0, caller = 0)
    SV *self
    SV *client
    SV *key
    SV *ttl
    SV *stale
    SV *early
    SV *lease
    SV *wait
    UV scope
    UV caller
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ client);
        pinyon_error  *error = NULL;
        pinyon_making *making;
        pinyon_terms   terms = {sizeof terms};

        if (!SvOK(key))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("a key is a string, not undef"));
        terms.key.start = SvPV(key, terms.key.size);
        terms.ttl       = seconds_of(aTHX_ ttl, 0, "ttl");
        terms.stale     = seconds_of(aTHX_ stale, 0, "stale");
        terms.early     = seconds_of(aTHX_ early, 0, "early");
        terms.lease     = seconds_of(aTHX_ lease, 0, "lease");
        terms.wait      = seconds_of(aTHX_ wait, 0, "wait");
        if (SvOK(wait) && terms.wait == 0)
            terms.wait = -1;
        terms.scope   = (uint64_t)scope;
        terms.caller  = (uint64_t)caller;
        terms.context = SvRV(self);
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
_made(self, client, value)
    SV *self
    SV *client
    SV *value
  PPCODE:
    {
        lone_call alone;
        value_alone(aTHX_ cache_of(aTHX_ client), client, &alone, value);
        pinyon_making_made(making_of(aTHX_ self), alone.request.value, alone.request.client_flags);
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
    XSRETURN(0);

MODULE = Pinyon    PACKAGE = Pinyon::Lease::Won

void
DESTROY(self)
    SV *self
  PPCODE:
    win_left(aTHX_ self);
    XSRETURN(0);
