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
        attach_handle(aTHX_ self, &batch_table, batch);
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
        lone_call alone;
        GIVEN(given, count, 3)

        prepare_alone(aTHX_ cache_of(aTHX_ client), client, &alone, number, given, count);
        if (ix) {
            pinyon_error *error = batch_push(aTHX_ batch_magic(aTHX_ self), &alone.one);
            if (error)
                throw_error(aTHX_ error);
        } else {
            batch_add(aTHX_ self, &alone.one);
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
_push_any(self, ...)
    SV *self
  ALIAS:
    _push_each = 1
  CODE:
    {
        GIVEN(given, count, 1)
        RETVAL = count >= 1 && count <= MOST_ARGUMENTS && push_quick(aTHX_ self, (unsigned)ix, given, count);
    }
  OUTPUT:
    RETVAL
