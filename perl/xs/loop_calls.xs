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
_step(self, client, callback, is_for_nobody)
    SV *self
    SV *client
    SV *callback
    bool is_for_nobody
  PPCODE:
    {
        /* The kind of a step, and what it needs: an operation, a value, or seconds. Also the old value as it is stored. */
        cache_handle  *cache  = cache_of(aTHX_ client);
        pinyon_making *making = making_of(aTHX_ self);
        SV            *old    = NULL;
        uint32_t       flags  = 0;
        pinyon_step    step   = {sizeof step};
        pinyon_reply   reply  = {sizeof reply};
        SV            *what   = NULL;

        if (pinyon_making_step(making, &step, &reply) < 0 && step.kind != PINYON_STEP_OVER)
            throw_error(aTHX_ reply.error);
        if (step.kind == PINYON_STEP_RETURN_OLD || (step.kind == PINYON_STEP_OVER && is_for_nobody)) {
            pinyon_reply_clear(&reply);
            what = newSV(0);
        } else if (step.kind == PINYON_STEP_OVER) {
            what = making_over(aTHX_ cache, client, &reply);
        } else if (step.kind == PINYON_STEP_ASK) {
            what = begun_object(aTHX_ begin_step(aTHX_ client, self, 0, &step.request, callback));
        } else {
            what = newSVnv(step.seconds);
        }
        if (step.kind == PINYON_STEP_MAKE_WITHIN)
            old = making_old(aTHX_ & reply, &flags);
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        EXTEND(SP, 4);
        mPUSHi(step.kind);
        mPUSHs(what);
        if (old) {
            mPUSHs(old);
            mPUSHu(flags);
        }
        PUTBACK;
        return;
    }

SV *
_read(self, client, stored, flags)
    SV *self
    SV *client
    SV *stored
    U32 flags
  CODE:
    PERL_UNUSED_VAR(self);
    RETVAL = value_read(aTHX_ cache_of(aTHX_ client), client, newSVsv(stored), flags);
  OUTPUT:
    RETVAL

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

MODULE = Pinyon    PACKAGE = Pinyon::Loop::MakingMany

void
_begin_step(self, client, callback)
    SV *self
    SV *client
    SV *callback
  PPCODE:
    {
        /* The kind of a step, and what it needs: the operations that were begun, or seconds. */
        cache_handle       *cache   = cache_of(aTHX_ client);
        pinyon_making_many *making  = making_many_of(aTHX_ self);
        pinyon_step         step    = {sizeof step};
        pinyon_reply        reply   = {sizeof reply};
        pinyon_request      request = {sizeof request};
        SV                 *what;
        size_t              part;

        if (pinyon_making_many_step(making, &step, &reply) < 0 && step.kind != PINYON_STEP_OVER)
            throw_error(aTHX_ reply.error);
        if (step.kind == PINYON_STEP_OVER)
            making_many_over(aTHX_ cache, client, &reply);
        if (step.kind == PINYON_STEP_ASK) {
            AV *operations = (AV *)sv_2mortal((SV *)newAV());
            for (part = 0; pinyon_making_many_request(making, part, &request); part++)
                av_push(operations, begun_object(aTHX_ begin_step(aTHX_ client, self, part, &request, callback)));
            what = newRV_inc((SV *)operations);
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

bool
_leave(self, client)
    SV *self
    SV *client
  CODE:
    {
        pinyon_making_many *making  = (pinyon_making_many *)attached_handle(self, &making_many_table);
        pinyon_request      request = {sizeof request};
        while (making && pinyon_making_many_leave(making, &request) && cache_of(aTHX_ client)->loop)
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
