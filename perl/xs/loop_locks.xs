MODULE = Pinyon    PACKAGE = Pinyon::Loop::Locks

SV *
_begin_lock(self, callback, object, options, at_once)
    SV *self
    SV *callback
    SV *object
    SV *options
    bool at_once
  CODE:
    RETVAL = begun_object(aTHX_ begin_lock(aTHX_ self, object, (HV *)SvRV(options), at_once, callback));
  OUTPUT:
    RETVAL

SV *
_begin_inspect(self, callback, names)
    SV *self
    SV *callback
    SV *names
  CODE:
    RETVAL = begun_object(aTHX_ begin_names_wish(aTHX_ self, PINYON_INSPECT, names, callback));
  OUTPUT:
    RETVAL

SV *
_begin_execute(self, callback, parts)
    SV *self
    SV *callback
    SV *parts
  CODE:
    RETVAL = begun_object(aTHX_ begin_names_wish(aTHX_ self, PINYON_COMMAND, parts, callback));
  OUTPUT:
    RETVAL

SV *
_begin_rate(self, callback, name, terms)
    SV *self
    SV *callback
    SV *name
    AV *terms
  CODE:
    RETVAL = begun_object(aTHX_ begin_rate(aTHX_ self, name, terms, callback));
  OUTPUT:
    RETVAL

SV *
_begin_force_release(self, callback, names, token)
    SV *self
    SV *callback
    SV *names
    SV *token
  CODE:
    RETVAL = begun_object(aTHX_ begin_force_release(aTHX_ self, names, token, callback));
  OUTPUT:
    RETVAL

SV *
_begin_release_all(self, callback, timeout)
    SV *self
    SV *callback
    SV *timeout
  CODE:
    RETVAL = begun_object(aTHX_ begin_release_all(aTHX_ self, timeout, callback));
  OUTPUT:
    RETVAL

SV *
_begin_available(self, callback, pool, limit)
    SV *self
    SV *callback
    SV *pool
    SV *limit
  CODE:
    RETVAL = begun_object(aTHX_ begin_available(aTHX_ self, pool, limit, callback));
  OUTPUT:
    RETVAL

SV *
_begin_wish(self, callback, lock, kind, number)
    SV *self
    SV *callback
    SV *lock
    int kind
    SV *number
  CODE:
    RETVAL = begun_object(aTHX_ begin_holders(aTHX_ self, lock, kind, number, callback));
  OUTPUT:
    RETVAL

SV *
_begin_last_release(self, callback, lock)
    SV *self
    SV *callback
    SV *lock
  CODE:
    RETVAL = begun_object(aTHX_ begin_last_release(aTHX_ self, lock, callback));
  OUTPUT:
    RETVAL
