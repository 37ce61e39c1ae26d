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
    loop_attach(aTHX_ self, client, watch, forget, turn, alarm, has_coroutines);
    XSRETURN(0);

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
        loop_handle *loop = (loop_handle *)attached(self, &loop_table);
        if (loop && loop->loop && loop->turn_is_due && loop->forks == forks_so_far)
            pinyon_turn(loop->loop);
        XSRETURN(0);
    }

SV *
_scope(self)
    SV *self
  CODE:
    {
        loop_handle *loop = loop_ready(aTHX_(loop_handle *) attached(self, &loop_table));
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
        loop_handle  *loop  = (loop_handle *)attached(self, &loop_table);
        locks_handle *locks = loop ? (locks_handle *)attached(loop->owner, &locks_table) : NULL;
        lock_handle  *held  = locks ? locks->acquired : NULL;
        for (; held; held = held->after) {
            if (is_left_held(held))
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

MODULE = Pinyon    PACKAGE = Pinyon::Loop::Cache

void
get(self, ...)
    SV *self
  ALIAS:
    gets         = METHOD_GETS
    gat          = METHOD_GAT
    gats         = METHOD_GATS
    get_with_ttl = METHOD_GET_WITH_TTL
    set          = METHOD_SET
    add          = METHOD_ADD
    replace      = METHOD_REPLACE
    append       = METHOD_APPEND
    prepend      = METHOD_PREPEND
    cas          = METHOD_CAS
    delete       = METHOD_DELETE
    touch        = METHOD_TOUCH
    incr         = METHOD_INCR
    decr         = METHOD_DECR
    meta         = METHOD_META
  PPCODE:
    {
        SV *object;
        GIVEN(given, count)

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
        SV        *given[MOST_ARGUMENTS];
        SSize_t    index;
        for (index = 0; index < items - 3 && index < MOST_ARGUMENTS; index++)
            given[index] = ST(index + 3);
        RETVAL = begun_object(aTHX_ begin_call(aTHX_ self, number, given, items - 3, callback, NULL));
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
        pinyon_step    step;
        pinyon_reply   reply;
        SV            *what = NULL;

        Zero(&step, 1, pinyon_step);
        Zero(&reply, 1, pinyon_reply);
        step.size  = sizeof step;
        reply.size = sizeof reply;
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
        pinyon_making *making = (pinyon_making *)attached(self, &making_table);
        pinyon_request request;
        Zero(&request, 1, pinyon_request);
        request.size = sizeof request;
        if (making && pinyon_making_leave(making, &request) && cache_of(aTHX_ client)->loop)
            carry_out_begun(aTHX_ begin_unawaited(aTHX_ client, &request)->loop);
        RETVAL = making != NULL; /* otherwise it is another thread's */
    }
  OUTPUT:
    RETVAL

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
    RETVAL = begun_object(aTHX_ begin_about(aTHX_ self, PINYON_INSPECT, names, callback));
  OUTPUT:
    RETVAL

SV *
_begin_execute(self, callback, parts)
    SV *self
    SV *callback
    SV *parts
  CODE:
    RETVAL = begun_object(aTHX_ begin_about(aTHX_ self, PINYON_COMMAND, parts, callback));
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

MODULE = Pinyon    PACKAGE = Pinyon::Operation

void
cancel(self)
    SV *self
  PPCODE:
    {
        operation *begun = (operation *)attached(self, &operation_table);
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
    CORO_METHODS(CORO_INSTALL)
    newXS("Pinyon::Coro::_wait", wait_in_coroutine, __FILE__);
    newXS("Pinyon::Coro::_read_here", read_here, __FILE__);
    XSRETURN(0);
