MODULE = Pinyon    PACKAGE = Pinyon::Loop::Cache

void
_begin_many(self, number, calls, callbacks)
    SV *self
    unsigned number
    SV *calls
    SV *callbacks
  PPCODE:
    {
        AV     *begun = begin_many(aTHX_ self, number, array_of(aTHX_ calls),
                                   SvOK(callbacks) ? array_of(aTHX_ callbacks) : NULL);
        SSize_t count = av_len(begun) + 1, index;
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        EXTEND(SP, count);
        for (index = 0; index < count; index++)
            mPUSHs(SvREFCNT_inc_NN(AvARRAY(begun)[index]));
        PUTBACK;
        return;
    }

SV *
_begin_reading(self, keys, with_cas, callback)
    SV *self
    SV *keys
    bool with_cas
    SV *callback
  CODE:
    {
        operation *begun = begin_reading(aTHX_ self, array_of(aTHX_ keys), with_cas, callback);
        if (!begun)
            XSRETURN_UNDEF;
        RETVAL = begun_object(aTHX_ begun);
    }
  OUTPUT:
    RETVAL

MODULE = Pinyon    PACKAGE = Pinyon::Loop::Batch

void
_begin(self, client)
    SV *self
    SV *client
  PPCODE:
    attach(aTHX_ self, &batch_table, loop_batch(aTHX_ client));
    XSRETURN(0);

void
_add(self, client, number, ...)
    SV *self
    SV *client
    unsigned number
  PPCODE:
    {
        SV     *given[MOST_ARGUMENTS];
        SSize_t index;
        for (index = 0; index < items - 3 && index < MOST_ARGUMENTS; index++)
            given[index] = ST(index + 3);
        loop_batch_add(aTHX_ client, batch_of(aTHX_ self), number, given, items - 3);
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
