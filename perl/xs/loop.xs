MODULE = Pinyon    PACKAGE = Pinyon::Loop

void
_attach(self, client, watch, forget, turn, alarm, has_coroutines)
    SV *self
    SV *client
    SV *watch
    SV *forget
    SV *turn
    SV *alarm
    bool has_coroutines
  PPCODE:
    {
        SV *closures[CLOSURES];
        closures[PINYON_WATCH]    = watch;
        closures[PINYON_FORGET]   = forget;
        closures[PINYON_END_TURN] = turn;
        closures[PINYON_ALARM]    = alarm;
        loop_attach(aTHX_ self, client, closures, has_coroutines ? &coro_hooks : NULL);
        XSRETURN(0);
    }

void
_share(self, client)
    SV *self
    SV *client
  PPCODE:
    cache_of(aTHX_ client)->loop = loop_of(aTHX_ self);
    XSRETURN(0);

void
_announce(self)
    SV *self
  PPCODE:
    announce_turn(aTHX_ loop_of(aTHX_ self));
    XSRETURN(0);

SV *
_when_ready(self, lane)
    SV *self
    UV lane
  CODE:
    RETVAL = code_for_lane(aTHX_ self, lane);
  OUTPUT:
    RETVAL

void
_turn(self)
    SV *self
  PPCODE:
    {
        loop_handle *loop       = loop_of(aTHX_ self);
        loop->turn_is_announced = false;
        if (loop->turn_is_due && loop->loop) {
            loop->turn_is_due = false;
            pinyon_turn(loop->loop);
        }
        hand_out(aTHX_ loop);
        XSRETURN(0);
    }

void
_send(self)
    SV *self
  PPCODE:
    {
        loop_handle *loop = (loop_handle *)attached_handle(self, &loop_table);
        if (loop && loop->loop && loop->turn_is_due && loop->forks == forks_so_far)
            pinyon_turn(loop->loop);
        XSRETURN(0);
    }

SV *
_scope(self)
    SV *self
  CODE:
    {
        loop_handle *loop = loop_ready(aTHX_(loop_handle *) attached_handle(self, &loop_table));
        if (!loop->scope)
            loop->scope = pinyon_new_owner();
        RETVAL = newSVuv((UV)loop->scope);
    }
  OUTPUT:
    RETVAL

void
_locks_left(self)
    SV *self
  PPCODE:
    {
        loop_handle  *loop  = (loop_handle *)attached_handle(self, &loop_table);
        locks_handle *locks = loop ? (locks_handle *)attached_handle(loop->owner, &locks_table) : NULL;
        lock_handle  *held  = locks ? locks->acquired : NULL;
        for (; held; held = held->after) {
            if (lock_is_left_held(held))
                XPUSHs(sv_2mortal(newRV_inc(held->object)));
        }
        PUTBACK;
        return;
    }

void
_expire(self)
    SV *self
  PPCODE:
    {
        loop_handle *loop = loop_of(aTHX_ self);
        if (loop->loop)
            pinyon_expire(loop->loop);
        hand_out(aTHX_ loop);
        XSRETURN(0);
    }

void
_close(self)
    SV *self
  PPCODE:
    {
        loop_handle *loop = loop_of(aTHX_ self);
        if (loop->loop)
            pinyon_loop_close(loop->loop);
        hand_out(aTHX_ loop);
        XSRETURN(0);
    }

MODULE = Pinyon    PACKAGE = Pinyon::Operation

void
cancel(self)
    SV *self
  PPCODE:
    {
        operation *begun = operation_if_any(self);
        if (begun)
            operation_abandon(aTHX_ begun);
        XSRETURN(0);
    }

MODULE = Pinyon    PACKAGE = Pinyon::Coro

bool
_loads_by_perl(client)
    SV *client
  CODE:
    RETVAL = loads_by_perl(cache_of(aTHX_ client));
  OUTPUT:
    RETVAL

void
_load()
  PPCODE:
    coro_load(aTHX);
    XSRETURN(0);
