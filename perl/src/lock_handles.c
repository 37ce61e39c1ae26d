/* The handles of a Pinyon::Locks and of its locks. A client knows all locks of its thread. */

#include "pinyon_perl.h"

#define A_LOCK "a lock that this thread has acquired"

void lock_link(lock_handle *held, locks_handle *locks)
{
    held->of    = locks;
    held->after = locks->acquired;
    if (held->after)
        held->after->before = held;
    locks->acquired = held;
}

static void lock_unlink(lock_handle *held)
{
    locks_handle *locks = held->of;
    if (!locks)
        return;
    if (held->before)
        held->before->after = held->after;
    else
        locks->acquired = held->after;
    if (held->after)
        held->after->before = held->before;
    if (held->listens)
        locks->listeners--;
    held->listens = false;
    held->of      = NULL;
}

static void locks_drop(pTHX_ locks_handle *locks)
{
    if (locks->users) {
        locks->is_gone = true;
        return;
    }
    while (locks->acquired)
        lock_unlink(locks->acquired);
    pinyon_locks_free(locks->locks);
    SvREFCNT_dec((SV *)locks->lock_class);
    SvREFCNT_dec(locks->event);
    Safefree(locks);
}

void locks_leave(pTHX_ locks_handle *locks)
{
    if (!--locks->users && locks->is_gone)
        locks_drop(aTHX_ locks);
}

static int locks_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    locks_handle *locks = (locks_handle *)magic->mg_ptr;
    locks_handle *copy;
    PERL_UNUSED_VAR(parameters);
    if (!locks)
        return 0;
    Newxz(copy, 1, locks_handle);
    copy->locks   = pinyon_locks_clone(locks->locks);
    magic->mg_ptr = (char *)copy;
    return 0;
}

HANDLE_TABLE(locks_table, locks_handle, locks_drop(aTHX_ handle), locks_dup);

void locks_attach(pTHX_ SV *self, pinyon_locks *client)
{
    locks_handle *locks;
    Newxz(locks, 1, locks_handle);
    locks->locks = client;
    attach_handle(aTHX_ self, &locks_table, locks);
}

static void lock_drop(pTHX_ lock_handle *held)
{
    lock_unlink(held);
    pinyon_lock_free(held->lock);
    SvREFCNT_dec(held->client);
    SvREFCNT_dec(held->names);
    SvREFCNT_dec(held->read);
    Safefree(held);
}

HANDLE_TABLE(lock_table, lock_handle, lock_drop(aTHX_ handle), not_cloned);

locks_handle *locks_of(pTHX_ SV *object)
{
    return (locks_handle *)handle_of(aTHX_ object, &locks_table, "a Pinyon::Locks that was made by new");
}

lock_handle *held_of(pTHX_ SV *object)
{
    return (lock_handle *)handle_of(aTHX_ object, &lock_table, A_LOCK);
}

pinyon_lock *lock_of(pTHX_ SV *object)
{
    lock_handle *held = held_of(aTHX_ object);
    if (!held->lock)
        throw_not(aTHX_ A_LOCK);
    return held->lock;
}

locks_handle *locks_of_lock(pTHX_ const lock_handle *held)
{
    if (!held->of)
        throw_not(aTHX_ A_LOCK);
    return held->of;
}

bool lock_is_left_held(const lock_handle *held)
{
    return held->is_held && held->of && held->forks == forks_so_far;
}
