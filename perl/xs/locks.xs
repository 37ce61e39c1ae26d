MODULE = Pinyon    PACKAGE = Pinyon::Locks

void
_attach(self, names, values)
    SV *self
    SV *names
    SV *values
  PPCODE:
    {
        pinyon_error  *error = NULL;
        size_t         count;
        pinyon_option *options = options_of(aTHX_ names, values, &count);
        pinyon_locks  *client  = pinyon_locks_new(options, count, &error);
        if (!client)
            throw_error(aTHX_ error);
        locks_attach(aTHX_ self, client);
        XSRETURN(0);
    }

void
lock(self, ...)
    SV *self
  ALIAS:
    try_lock = 1
  PPCODE:
    {
        SV *object = lock_acquired(aTHX_ ax, items, ix != 0);
        PERL_UNUSED_VAR(self);
        if (GIMME_V == G_VOID && !ix)
            warn_of_unkept_lock(aTHX);
        if (object) {
            ST(0) = object;
            XSRETURN(1);
        }
        if (GIMME_V == G_LIST)
            XSRETURN(0);
        XSRETURN_UNDEF;
    }

void
_warn_of_void()
  PPCODE:
    warn_of_unkept_lock(aTHX);
    XSRETURN(0);

SV *
_inspect(self, names)
    SV *self
    SV *names
  CODE:
    RETVAL = inspect_names(aTHX_ locks_of(aTHX_ self), names);
  OUTPUT:
    RETVAL

SV *
_execute(self, parts)
    SV *self
    SV *parts
  CODE:
    RETVAL = execute_command(aTHX_ locks_of(aTHX_ self), parts);
  OUTPUT:
    RETVAL

SV *
_ask_rate(self, name, terms)
    SV *self
    SV *name
    AV *terms
  CODE:
    RETVAL = ask_rate(aTHX_ locks_of(aTHX_ self), name, terms);
  OUTPUT:
    RETVAL

SV *
_force_release(self, names, token)
    SV *self
    SV *names
    SV *token
  CODE:
    {
        pinyon_wish wish;
        forced_wish(aTHX_ & wish, names, token);
        RETVAL = newSVuv((UV)run_plain_wish(aTHX_ locks_of(aTHX_ self), &wish));
    }
  OUTPUT:
    RETVAL

void
_tell_permits(self, pool, count, limit)
    SV *self
    SV *pool
    SV *count
    SV *limit
  PPCODE:
    tell_permits(aTHX_ locks_of(aTHX_ self), pool, count, limit);
    XSRETURN(0);

SV *
_available(self, pool, limit)
    SV *self
    SV *pool
    SV *limit
  CODE:
    {
        pinyon_wish wish;
        available_wish(aTHX_ & wish, pool, limit);
        RETVAL = newSViv(run_plain_wish(aTHX_ locks_of(aTHX_ self), &wish));
    }
  OUTPUT:
    RETVAL

SV *
_release_all(self, timeout)
    SV *self
    SV *timeout
  CODE:
    {
        pinyon_wish wish;
        release_all_wish(aTHX_ & wish, timeout);
        RETVAL = newSVuv((UV)run_plain_wish(aTHX_ locks_of(aTHX_ self), &wish));
    }
  OUTPUT:
    RETVAL

SV *
_metrics(self)
    SV *self
  CODE:
    {
        char *text = pinyon_locks_metrics(locks_of(aTHX_ self)->locks);
        RETVAL = newSVpv(text, 0);
        pinyon_text_free(text);
    }
  OUTPUT:
    RETVAL

void
_take_notes(self)
    SV *self
  PPCODE:
    keep_object(aTHX_ self);
    take_notes(aTHX_ locks_of(aTHX_ self), SvRV(self));
    XSRETURN(0);

SV *
server(self)
    SV *self
  CODE:
    RETVAL = text_sv(aTHX_ pinyon_locks_server(locks_of(aTHX_ self)->locks));
  OUTPUT:
    RETVAL

void
_close(self)
    SV *self
  PPCODE:
    pinyon_locks_close(locks_of(aTHX_ self)->locks);
    XSRETURN(0);

MODULE = Pinyon    PACKAGE = Pinyon::Lock

SV *
token(self)
    SV *self
  CODE:
    RETVAL = newSVuv((UV)pinyon_lock_token(lock_of(aTHX_ self)));
  OUTPUT:
    RETVAL

SV *
note(self)
    SV *self
  CODE:
    RETVAL = known_text(aTHX_ pinyon_lock_note(lock_of(aTHX_ self)));
  OUTPUT:
    RETVAL

void
remaining(self)
    SV *self
  ALIAS:
    is_held = 1
  PPCODE:
    {
        lock_handle *held = held_of(aTHX_ self);
        const double left = pinyon_lock_remaining(lock_of(aTHX_ self));
        take_notes_of_lock(aTHX_ self, held);
        ST(0) = ix ? boolSV(left > 0) : sv_2mortal(newSVnv(left));
        XSRETURN(1);
    }

SV *
is_certain(self)
    SV *self
  CODE:
    RETVAL = boolSV(pinyon_lock_is_certain(lock_of(aTHX_ self)));
  OUTPUT:
    RETVAL

SV *
is_released(self)
    SV *self
  CODE:
    RETVAL = boolSV(held_of(aTHX_ self)->is_released);
  OUTPUT:
    RETVAL

void
release(self)
    SV *self
  PPCODE:
    {
        const bool was_held = lock_released(aTHX_ self);
        ST(0)               = boolSV(was_held);
        XSRETURN(1);
    }

void
DESTROY(self)
    SV *self
  PPCODE:
    lock_goes(aTHX_ self);
    handlers_after(aTHX_ self);
    XSRETURN(0);

void
names(self)
    SV *self
  PPCODE:
    {
        const lock_handle *held     = held_of(aTHX_ self);
        SV                *given[2] = {held->names, held->read};
        size_t             total    = 0;
        int                which;
        for (which = 0; which < 2 && given[which]; which++) {
            AV    *list  = several_names(given[which]);
            size_t count = list ? (size_t)(av_len(list) + 1) : 1;
            size_t index;
            total += count;
            if (GIMME_V != G_LIST)
                continue;
            EXTEND(SP, (SSize_t)count);
            for (index = 0; index < count; index++)
                mPUSHs(newSVsv(list ? name_at(aTHX_ list, index) : given[which]));
        }
        if (GIMME_V != G_LIST)
            mXPUSHu(total);
        PUTBACK;
        return;
    }

SV *
_new(class, client, names)
    SV *class
    SV *client
    SV *names
  CODE:
    RETVAL = SvREFCNT_inc_NN(lock_object(aTHX_ gv_stashsv(class, GV_ADD), client, names));
  OUTPUT:
    RETVAL

SV *
_client(self)
    SV *self
  CODE:
    RETVAL = newRV_inc(held_of(aTHX_ self)->client);
  OUTPUT:
    RETVAL

void
_listen(self)
    SV *self
  PPCODE:
    listen_for_loss(aTHX_ held_of(aTHX_ self));
    XSRETURN(0);

void
_listen_no_more(self)
    SV *self
  PPCODE:
    listen_no_more(held_of(aTHX_ self));
    XSRETURN(0);

void
_ends(self)
    SV *self
  PPCODE:
    lock_ends(aTHX_ self);
    XSRETURN(0);

bool
_is_over(self)
    SV *self
  CODE:
    RETVAL = lock_is_over(held_of(aTHX_ self));
  OUTPUT:
    RETVAL

void
_note_release(self, is_held, is_released)
    SV *self
    bool is_held
    bool is_released
  PPCODE:
    lock_note_release(held_of(aTHX_ self), is_held, is_released);
    XSRETURN(0);

bool
_goes_held(self)
    SV *self
  CODE:
    {
        lock_handle *held = (lock_handle *)attached_handle(self, &lock_table);
        if (held)
            listen_no_more(held);
        RETVAL = held && lock_is_left_held(held) && !PL_dirty;
    }
  OUTPUT:
    RETVAL

void
_check(self)
    SV *self
  PPCODE:
    {
        pinyon_error *error = NULL;
        if (pinyon_lock_check(lock_of(aTHX_ self), &error) < 0)
            throw_error(aTHX_ error);
        XSRETURN(0);
    }

void
_die_of_loss(self)
    SV *self
  PPCODE:
    die_of_loss(aTHX_ self);

unsigned
_loss(self)
    SV *self
  CODE:
    RETVAL = (unsigned)pinyon_lock_loss(lock_of(aTHX_ self));
  OUTPUT:
    RETVAL

SV *
_wish(self, locks, kind, number)
    SV *self
    SV *locks
    int kind
    SV *number
  CODE:
    {
        RETVAL = run_holders_wish(aTHX_ self, locks, kind, number);
    }
  OUTPUT:
    RETVAL
