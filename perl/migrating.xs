MODULE = Pinyon    PACKAGE = Pinyon::MigratingCache

void
_attach_migrating(self, old, new_one, ttl, number)
    SV *self
    SV *old
    SV *new_one
    SV *ttl
    UV number
  PPCODE:
    migrating_attach(aTHX_ self, cache_of(aTHX_ old), cache_of(aTHX_ new_one), ttl, number);
    XSRETURN(0);

void
_attach_old(self, old)
    SV *self
    SV *old
  PPCODE:
    migrating_attach_old(aTHX_ cache_of(aTHX_ self), cache_of(aTHX_ old));
    XSRETURN(0);

SV *
progress(self)
    SV *self
  CODE:
    RETVAL = progress_of(aTHX_ cache_of(aTHX_ self));
  OUTPUT:
    RETVAL

MODULE = Pinyon    PACKAGE = Pinyon::Cache

bool
_passes_over(self, reason)
    SV *self
    SV *reason
  CODE:
    {
        STRLEN       size;
        pinyon_bytes bytes;
        bytes.start = SvPVutf8(reason, size);
        bytes.size  = size;
        RETVAL      = pinyon_passes_over(cache_of(aTHX_ self)->client, bytes);
    }
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
        cache_handle  *cache = cache_of(aTHX_ self);
        call           one;
        pinyon_request request;
        char           room[ROOM];

        Zero(&request, 1, pinyon_request);
        Zero(&one, 1, call);
        one.request = &request;
        one.method  = &methods[METHOD_SET];
        one.room    = room;
        one.left    = sizeof room;
        value_to_store(aTHX_ cache, self, &one, value);
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        EXTEND(SP, 2);
        mPUSHp(request.value.start, request.value.size);
        mPUSHu(request.client_flags);
        PUTBACK;
        return;
    }
