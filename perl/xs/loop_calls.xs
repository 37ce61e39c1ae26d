MODULE = Pinyon    PACKAGE = Pinyon::Loop::Cache

void
_call(self, ...)
    SV *self
  ALIAS:
    _called = 1
  PPCODE:
    {
        SV *object;
        GIVEN(given, count, 1)

        if (!ends_with_callback(aTHX_ given, count)) {
            promise_call(aTHX_ ax, items, (unsigned)ix);
            return;
        }
        object = begin_called_back(aTHX_ self, (unsigned)ix, given, count - 2, given[count - 1]);
        if (!object)
            XSRETURN(0);
        ST(0) = object;
        XSRETURN(1);
    }

SV *
_begin(self, number, callback, ...)
    SV *self
    unsigned number
    SV *callback
  CODE:
    {
        GIVEN(given, count, 3)
        RETVAL = begun_object(aTHX_ begin_call(aTHX_ self, number, given, count, callback, NULL));
    }
  OUTPUT:
    RETVAL

SV *
_begin_give_back(self, callback, key, token, stays)
    SV *self
    SV *callback
    SV *key
    SV *token
    bool stays
  CODE:
    RETVAL = begun_object(aTHX_ begin_give_back(aTHX_ self, key, token, stays, callback));
  OUTPUT:
    RETVAL

SV *
_begin_question(self, callback, number, value, delay)
    SV *self
    SV *callback
    int number
    SV *value
    SV *delay
  CODE:
    RETVAL = begun_object(aTHX_ begin_question(aTHX_ self, number, value, delay, callback));
  OUTPUT:
    RETVAL

void
_begin_many(self, number, calls, callbacks)
    SV *self
    unsigned number
    SV *calls
    SV *callbacks
  PPCODE:
    {
        AV *begun = begin_many(aTHX_ self, number, array_of(aTHX_ calls), SvOK(callbacks) ? array_of(aTHX_ callbacks) : NULL);
        RETURN_ITEMS(begun);
    }

SV *
_begin_reading(self, keys, with_cas, callback)
    SV *self
    SV *keys
    bool with_cas
    SV *callback
  CODE:
    {
        operation *begun = begin_many_gets(aTHX_ self, array_of(aTHX_ keys), with_cas, callback);
        if (!begun)
            XSRETURN_UNDEF;
        RETVAL = begun_object(aTHX_ begun);
    }
  OUTPUT:
    RETVAL

MODULE = Pinyon    PACKAGE = Pinyon::Loop::Making

void
_step(self, client, callback)
    SV *self
    SV *client
    SV *callback
  PPCODE:
    {
        cache_handle  *cache  = cache_of(aTHX_ client);
        pinyon_making *making = making_of(aTHX_ self);
        pinyon_step    step   = {sizeof step};
        pinyon_reply   reply  = {sizeof reply};
        SV            *what   = NULL;

        if (pinyon_making_step(making, &step, &reply) < 0 && step.kind != PINYON_STEP_OVER)
            throw_error(aTHX_ reply.error);
        if (step.kind == PINYON_STEP_OVER) {
            what = making_over(aTHX_ cache, client, &reply);
        } else if (step.kind == PINYON_STEP_ASK) {
            what = begun_object(aTHX_ begin_step(aTHX_ client, self, &step.request, callback));
        } else {
            what = newSVnv(step.seconds);
        }
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        EXTEND(SP, 2);
        mPUSHi(step.kind);
        mPUSHs(what);
        PUTBACK;
        return;
    }

void
_woken(client, scope)
    SV *client
    UV scope
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ client);
        void         *woken;
        while (pinyon_next_woken(cache->client, (uint64_t)scope, &woken))
            XPUSHs(sv_2mortal(newRV_inc((SV *)woken)));
    }

bool
_leave(self, client)
    SV *self
    SV *client
  CODE:
    {
        pinyon_making *making = (pinyon_making *)attached_handle(self, &making_table);
        pinyon_request request = {sizeof request};
        if (making && pinyon_making_leave(making, &request) && cache_of(aTHX_ client)->loop)
            carry_out_begun(aTHX_ begin_unawaited(aTHX_ client, &request)->loop);
        RETVAL = making != NULL; /* otherwise it is another thread's */
    }
  OUTPUT:
    RETVAL

MODULE = Pinyon    PACKAGE = Pinyon::Loop::Batch

void
_begin(self, client)
    SV *self
    SV *client
  PPCODE:
    attach_handle(aTHX_ self, &batch_table, loop_batch(aTHX_ client));
    XSRETURN(0);

void
_add(self, client, number, ...)
    SV *self
    SV *client
    unsigned number
  PPCODE:
    {
        GIVEN(given, count, 3)
        loop_batch_add(aTHX_ client, batch_of(aTHX_ self), number, given, count);
        XSRETURN(0);
    }

bool
_is_full(self)
    SV *self
  CODE:
    RETVAL = pinyon_batch_is_full(batch_of(aTHX_ self));
  OUTPUT:
    RETVAL

SV *
_begin_finish(self, client, callback, tells = true)
    SV *self
    SV *client
    SV *callback
    bool tells
  CODE:
    RETVAL = begun_object(aTHX_ begin_batch_finish(aTHX_ client, self, callback, tells));
  OUTPUT:
    RETVAL
