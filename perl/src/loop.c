/* Event loops: what the host's loop must do for operations. Nothing here waits.
 *
 * The host's loop gives four closures: watch(lane, fd, write), forget(lane), turn() and alarm(seconds). It calls back
 * _ready(lane), _turn() and _expire(). */

#include "pinyon_perl.h"

static void call_closure(pTHX_ loop_handle *loop, pinyon_action_kind kind, const pinyon_action *action)
{
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    if (kind == PINYON_WATCH || kind == PINYON_FORGET)
        mPUSHu(action->lane);
    if (kind == PINYON_WATCH) {
        mPUSHi(action->fd);
        PUSHs(boolSV(action->write));
    }
    if (kind == PINYON_ALARM)
        mPUSHn(action->seconds);
    PUTBACK;
    call_sv(loop->closures[kind], G_VOID | G_DISCARD);
    FREETMPS;
    LEAVE;
}

void announce_turn(pTHX_ loop_handle *loop)
{
    if (loop->turn_is_announced)
        return;
    loop->turn_is_announced = true;
    call_closure(aTHX_ loop, PINYON_END_TURN, NULL);
}

void carry_out(pTHX_ loop_handle *loop)
{
    pinyon_action action = {sizeof action};
    if (!loop->loop)
        return;
    while (pinyon_next_action(loop->loop, &action)) {
        if (action.kind == PINYON_END_TURN) {
            loop->turn_is_due = true;
            continue;
        }
        if (action.kind == PINYON_WATCH && action.lane >= loop->lanes)
            loop->lanes = action.lane + 1;
        call_closure(aTHX_ loop, action.kind, &action);
    }
}

/* After something was begun. A callback may wait in a loop inside the host's loop, so its turn is announced; coroutines
 * say so themselves when they wait. */
void carry_out_begun(pTHX_ loop_handle *loop)
{
    if (!loop->turn_is_due) /* otherwise all is done in that turn */
        carry_out(aTHX_ loop);
    if (loop->turn_is_due && !(loop->depth && loop->coroutines))
        announce_turn(aTHX_ loop);
}

static void stop_watching(pTHX_ loop_handle *loop)
{
    pinyon_action action = {sizeof action};
    for (action.lane = 0; action.lane < loop->lanes; action.lane++)
        call_closure(aTHX_ loop, PINYON_FORGET, &action);
    loop->lanes = 0;
}

/* ---- The handle ------------------------------------------------------------------------------------------------------- */

static void forget_all(pTHX_ operation **list)
{
    while (*list) {
        operation *begun = *list;
        operation_unlink(begun);
        operation_release(aTHX_ begun);
    }
}

static void loop_drop(pTHX_ loop_handle *loop)
{
    int index;
    if (loop->users) {
        loop->is_gone = true;
        return;
    }
    if (!PL_dirty)
        stop_watching(aTHX_ loop);
    forget_all(aTHX_ & loop->begun);
    forget_all(aTHX_ & loop->orphans);
    for (index = 0; index < CLOSURES; index++)
        SvREFCNT_dec(loop->closures[index]);
    SvREFCNT_dec(loop->died);
    SvREFCNT_dec(loop->owner);
    pinyon_loop_free(loop->loop);
    pinyon_client_free(loop->client);
    pinyon_locks_free(loop->locks);
    while (loop->spare) {
        operation *spare = loop->spare;
        loop->spare      = spare->after;
        Safefree(spare);
    }
    loop->is_dropped = true;
    if (!loop->used)
        Safefree(loop);
}

void loop_leave(pTHX_ void *pointer)
{
    loop_handle *loop = (loop_handle *)pointer;
    if (loop->depth)
        loop->depth--;
    if (!--loop->users && loop->is_gone)
        loop_drop(aTHX_ loop);
}

HANDLE_TABLE(loop_table, loop_handle, loop_drop(aTHX_ handle), not_cloned);

static void *place_of_loop(void *context, size_t size, uint32_t flags)
{
    operation *begun = (operation *)context;
    return begun->has_no_place ? NULL : place_value(&begun->one, size, flags);
}

/* Has the host's loop told of a fork, once in each child, before anything is watched or forgotten there. */
static void tell_of_forks(pTHX)
{
    static unsigned forks_told;
    dSP;
    if (forks_told == forks_so_far)
        return;
    forks_told = forks_so_far;
    PUSHMARK(SP);
    call_pv("Pinyon::Loop::_forked", G_VOID | G_DISCARD | G_NOARGS);
}

/* A forked child begins anew. What its parent began fails here: nobody reads those replies. */
void loop_renew(pTHX_ loop_handle *loop)
{
    loop->forks = forks_so_far;
    tell_of_forks(aTHX);
    stop_watching(aTHX_ loop);
    while (loop->begun) {
        operation *begun = loop->begun;
        operation_unlink(begun);
        begun->loop = loop;
        operation_link(&loop->orphans, begun);
        begun->failure = error_sv(aTHX_ PINYON_E_CLOSED,
                                  newSVpvs("the process was forked during the call: only the parent has the reply"),
                                  PINYON_SENT_MAYBE, NULL, NULL);
        if (begun->file)
            place_error(aTHX_ begun->failure, begun->file, begun->line);
    }
    pinyon_loop_free(loop->loop);
    loop->loop              = NULL;
    loop->turn_is_due       = false;
    loop->turn_is_announced = false;
    if (loop->orphans)
        announce_turn(aTHX_ loop);
}

loop_handle *loop_ready(pTHX_ loop_handle *loop)
{
    pinyon_error *error = NULL;
    if (!loop)
        throw_usage(aTHX_ newSVpvs("this client belongs to another thread, whose event loop it uses"));
    if (loop->forks != forks_so_far)
        loop_renew(aTHX_ loop);
    if (loop->loop)
        return loop;
    loop->loop = loop->client ? pinyon_loop_of_client(loop->client, place_of_loop, &error)
                              : pinyon_loop_of_locks(loop->locks, &error);
    if (!loop->loop)
        throw_error(aTHX_ error);
    return loop;
}

loop_handle *loop_of(pTHX_ SV *object)
{
    loop_handle *loop = (loop_handle *)handle_of(aTHX_ object, &loop_table, "a Pinyon::Loop");
    if (loop->forks != forks_so_far)
        loop_renew(aTHX_ loop);
    return loop;
}

void loop_attach(pTHX_ SV *self, SV *client, SV *const *closures, const coroutine_hooks *coroutines)
{
    cache_handle *cache = (cache_handle *)attached_handle(client, &cache_table);
    locks_handle *locks = cache ? NULL : locks_of(aTHX_ client);
    loop_handle  *loop;
    int           kind;
    tell_of_forks(aTHX);
    Newxz(loop, 1, loop_handle);
    loop->coroutines = coroutines;
    loop->forks      = forks_so_far;
    loop->owner      = newSVsv(client);
    sv_rvweaken(loop->owner);
    for (kind = 0; kind < CLOSURES; kind++)
        loop->closures[kind] = newSVsv(closures[kind]);
    if (cache) {
        loop->client = pinyon_client_clone(cache->client);
        cache->loop  = loop;
    } else {
        loop->locks = pinyon_locks_clone(locks->locks);
        locks->loop = loop;
    }
    attach_handle(aTHX_ self, &loop_table, loop);
}

/* ---- Perl's hold on an operation -------------------------------------------------------------------------------------- */

void operation_abandon(pTHX_ operation *begun)
{
    loop_handle *loop = begun->loop;
    if (!loop || begun->is_over)
        return;
    operation_unlink(begun);
    begun->is_over = true;
    if (loop->loop && loop->forks == forks_so_far && begun->ticket) {
        pinyon_abandon(loop->loop, begun->ticket);
        carry_out_begun(aTHX_ loop);
    }
    operation_release(aTHX_ begun);
}

/* An operation that is waited for is abandoned with its object; one with a callback goes on. */
static void operation_drop(pTHX_ operation *begun)
{
    if (!begun->callback && !PL_dirty)
        operation_abandon(aTHX_ begun);
    operation_release(aTHX_ begun);
}

HANDLE_TABLE(operation_table, operation, operation_drop(aTHX_ handle), not_cloned);

SV *operation_object(pTHX_ operation *begun)
{
    SV *object = newRV_noinc((SV *)newHV());
    begun->holders++;
    attach_handle(aTHX_ object, &operation_table, begun);
    return sv_bless(object, gv_stashpvs("Pinyon::Operation", GV_ADD));
}

SV *begun_object(pTHX_ operation *begun)
{
    SV *object = operation_object(aTHX_ begun);
    carry_out_begun(aTHX_ begun->loop);
    return object;
}

operation *operation_if_any(SV *object) { return (operation *)attached_handle(object, &operation_table); }

operation *operation_of(pTHX_ SV *object)
{
    return (operation *)handle_of(aTHX_ object, &operation_table, "an operation that is under way");
}
