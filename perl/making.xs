MODULE = Pinyon    PACKAGE = Pinyon::Batch

void
_begin(self, client)
    SV *self
    SV *client
  PPCODE:
    {
        pinyon_error *error = NULL;
        pinyon_batch *batch = pinyon_batch_new(cache_of(aTHX_ client)->client, &error);
        if (!batch)
            throw_error(aTHX_ error);
        attach(aTHX_ self, &batch_table, batch);
        XSRETURN(0);
    }

void
_add(self, client, number, ...)
    SV *self
    SV *client
    unsigned number
  ALIAS:
    _push = 1
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ client);
        call           one;
        pinyon_request request;
        char           room[ROOM];
        SV            *given[MOST_ARGUMENTS];
        SSize_t        index;

        for (index = 0; index < items - 3 && index < MOST_ARGUMENTS; index++)
            given[index] = ST(index + 3);
        one.request = &request;
        one.room    = room;
        one.left    = sizeof room;
        prepare(aTHX_ cache, client, &one, number, given, items - 3);
        if (ix) {
            pinyon_error *error = batch_push(aTHX_ batch_magic(aTHX_ self), &one);
            if (error)
                throw_error(aTHX_ error);
        } else {
            batch_add(aTHX_ self, &one);
        }
        XSRETURN(0);
    }

bool
_is_full(self)
    SV *self
  CODE:
    RETVAL = !usable_batch(self);
  OUTPUT:
    RETVAL

void
_send(self)
    SV *self
  PPCODE:
    {
        pinyon_error *error = NULL;
        if (pinyon_batch_send((pinyon_batch *)batch_magic(aTHX_ self)->mg_ptr, &error) < 0)
            throw_error(aTHX_ error);
        XSRETURN(0);
    }

SV *
_finish(self)
    SV *self
  CODE:
    RETVAL = batch_finish(aTHX_ self);
  OUTPUT:
    RETVAL

MODULE = Pinyon    PACKAGE = Pinyon::Compat::Client

bool
_push_set(self, ...)
    SV *self
  ALIAS:
    _push_set     = METHOD_SET
    _push_add     = METHOD_ADD
    _push_replace = METHOD_REPLACE
    _push_append  = METHOD_APPEND
    _push_prepend = METHOD_PREPEND
    _push_delete  = METHOD_DELETE
    _push_touch   = METHOD_TOUCH
    _push_incr    = METHOD_INCR
    _push_decr    = METHOD_DECR
  CODE:
    {
        GIVEN(given, count)
        RETVAL = count >= 1 && count <= MOST_ARGUMENTS && push_quick(aTHX_ self, (unsigned)ix, given, count);
    }
  OUTPUT:
    RETVAL

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
        pinyon_terms   terms;
        STRLEN         size;

        Zero(&terms, 1, pinyon_terms);
        terms.size      = sizeof terms;
        if (!SvOK(key))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("a key is a string, not undef"));
        terms.key.start = SvPV(key, size);
        terms.key.size  = size;
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
        attach(aTHX_ self, &making_table, making);
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
        cache_handle  *cache = cache_of(aTHX_ client);
        pinyon_making *making = making_of(aTHX_ self);
        call           one;
        pinyon_request request;
        char           room[ROOM];

        Zero(&request, 1, pinyon_request);
        Zero(&one, 1, call);
        one.request = &request;
        one.method  = &methods[METHOD_SET];
        one.room    = room;
        one.left    = sizeof room;
        value_to_store(aTHX_ cache, client, &one, value);
        pinyon_making_made(making, request.value, request.client_flags);
        XSRETURN(0);
    }

void
_failed(self, message)
    SV *self
    SV *message
  PPCODE:
    {
        STRLEN       size;
        pinyon_bytes bytes;
        bytes.start = SvPVutf8(message, size);
        bytes.size  = size;
        pinyon_making_failed(making_of(aTHX_ self), bytes);
        XSRETURN(0);
    }

bool
_unreadable(self, reason)
    SV *self
    SV *reason
  CODE:
    {
        STRLEN       size;
        pinyon_bytes bytes;
        bytes.start = SvPVutf8(reason, size);
        bytes.size  = size;
        RETVAL      = pinyon_making_unreadable(making_of(aTHX_ self), bytes);
    }
  OUTPUT:
    RETVAL

void
_leave(self, client)
    SV *self
    SV *client
  PPCODE:
    {
        pinyon_making *making = (pinyon_making *)attached(self, &making_table);
        cache_handle  *cache  = (cache_handle *)attached(client, &cache_table);
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
