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
