/* A Pinyon::Lock, and how blocking calls acquire and release it. */

#include "pinyon_perl.h"

static SV *names_kept(pTHX_ SV *names)
{
    AV    *list, *copy;
    SV    *result;
    size_t count, index;

    SvGETMAGIC(names);
    list = several_names(names);
    if (!list)
        return name_kept(aTHX_ names);
    copy   = newAV();
    result = sv_2mortal(newRV_noinc((SV *)copy));
    count  = (size_t)(av_len(list) + 1);
    for (index = 0; index < count; index++)
        av_push(copy, name_kept(aTHX_ name_at(aTHX_ list, index)));
    return SvREFCNT_inc_simple_NN(result);
}

SV *lock_object(pTHX_ HV *class, SV *client, SV *names)
{
    SV           *object = sv_2mortal(newRV_noinc((SV *)newHV()));
    locks_handle *locks  = locks_of(aTHX_ client);
    lock_handle  *held;
    Newxz(held, 1, lock_handle);
    held->object = SvRV(object);
    held->client = SvREFCNT_inc_simple_NN(SvRV(client));
    held->forks  = forks_so_far;
    lock_link(held, locks);
    attach_handle(aTHX_ object, &lock_table, held);
    held->names = names_kept(aTHX_ names);
    return sv_bless(object, class);
}

void lock_reads(pTHX_ SV *object, SV *names)
{
    lock_handle *held = held_of(aTHX_ object);
    SV          *kept = SvOK(names) ? names_kept(aTHX_ names) : NULL;
    SvREFCNT_dec(held->read);
    held->read = kept;
}

static HV *lock_class(pTHX_ locks_handle *locks)
{
    if (!locks->lock_class)
        locks->lock_class = (HV *)SvREFCNT_inc_NN((SV *)gv_stashpvs("Pinyon::Lock", GV_ADD));
    return locks->lock_class;
}

/* Where the user has called Pinyon decides whether warnings are wanted. */
void warn_of_unkept_lock(pTHX)
{
    COP *here = PL_curcop;
    PL_curcop = (COP *)users_place(aTHX);
    Perl_ck_warner(aTHX_ packWARN(WARN_VOID),
                   "This lock is released at once, because nothing keeps it: write my $lock = $locks->lock(...)");
    PL_curcop = here;
}

SV *lock_acquired(pTHX_ I32 ax, I32 items, bool at_once)
{
    locks_handle *locks   = locks_of(aTHX_ ST(0));
    SV           *object  = lock_object(aTHX_ lock_class(aTHX_ locks), ST(0), items > 1 ? ST(1) : &PL_sv_undef);
    lock_handle  *held    = held_of(aTHX_ object);
    SV           *on_lost = NULL;
    pinyon_wish   wish;
    pinyon_bytes  one;
    pinyon_reply  reply;
    I32           index;

    begin_wish(&wish, PINYON_LOCK);
    if (at_once)
        wish.with = PINYON_AT_ONCE;
    if (items > 2 && items % 2)
        Perl_ck_warner(aTHX_ packWARN(WARN_MISC), "Odd number of elements in hash assignment");
    for (index = 2; index < items; index += 2) {
        SV          *value = index + 1 < items ? ST(index + 1) : &PL_sv_undef;
        STRLEN       size;
        const char  *name   = SvPV_const(ST(index), size);
        lock_option  option = wish_option(aTHX_ & wish, name, size, value);
        if (option == LOCK_TIMEOUT && at_once)
            throw_usage(aTHX_ newSVpvs("try_lock does not wait: leave out timeout"));
        if (option == LOCK_ON_LOST)
            on_lost = SvTRUE(value) ? sv_2mortal(newSVsv(value)) : NULL;
        if (option == LOCK_READS)
            lock_reads(aTHX_ object, value);
    }
    wish_kept_names(aTHX_ & wish, held, &one);
    take_notes(aTHX_ locks, held->client);
    run_wish(aTHX_ locks, &wish, &reply);
    if (!acquire_by_reply(aTHX_ object, &reply, at_once))
        return NULL;
    if (on_lost)
        tell_perl(aTHX_ "on_lost", object, on_lost);
    return object;
}

/* ---- Releasing -------------------------------------------------------------------------------------------------------- */

bool lock_is_over(const lock_handle *held) { return held->is_released && !held->is_held; }

void lock_note_release(lock_handle *held, bool is_held, bool is_released)
{
    held->is_held = is_held;
    if (is_released)
        held->is_released = true;
}

bool lock_released(pTHX_ SV *object)
{
    lock_handle *held = held_of(aTHX_ object);
    pinyon_wish  wish;
    bool         was_held;
    if (lock_is_over(held))
        return false;
    take_notes_of_lock(aTHX_ object, held);
    holders_wish(aTHX_ & wish, object, PINYON_RELEASE, NULL);
    was_held = run_plain_wish(aTHX_ locks_of_lock(aTHX_ held), &wish) != 0;
    lock_note_release(held, false, was_held);
    return was_held;
}

void die_of_loss(pTHX_ SV *object)
{
    pinyon_error *error = pinyon_lock_lost_early(lock_of(aTHX_ object));
    if (error)
        throw_error(aTHX_ error);
}

void lock_ends(pTHX_ SV *object)
{
    if (!held_of(aTHX_ object)->is_released && !lock_released(aTHX_ object))
        die_of_loss(aTHX_ object);
}

/* Releases the lock of an object that goes; returns why it could not, or NULL. Handlers of signals run after it: Perl would
 * not let them die out of the end of an object, and the lock would stay until its ttl. */
static SV *last_released(pTHX_ locks_handle *locks, SV *object, lock_handle *held)
{
    waiting       wait;
    pinyon_wish   wish;
    pinyon_reply  reply;
    pinyon_status status;
    SV           *why = NULL;

    holders_wish(aTHX_ & wish, object, PINYON_RELEASE, NULL);
    begin_wait(aTHX_ & wait);
    wait.host.interrupted = NULL;
    status                = carry_out_wish(aTHX_ locks, &wish, &reply, &wait);
    held->is_held         = false;
    if (status < 0)
        why = sv_2mortal(text_sv(aTHX_ pinyon_error_message(reply.error)));
    pinyon_reply_clear(&reply);
    return why;
}

void lock_goes(pTHX_ SV *object)
{
    lock_handle  *held = (lock_handle *)attached_handle(object, &lock_table);
    locks_handle *locks;
    SV           *why;
    const I32     status = PL_statusvalue;
    dSAVE_ERRNO;

    if (!held)
        return;
    listen_no_more(held);
    if (!lock_is_left_held(held))
        return;
    locks = held->of;
    why   = last_released(aTHX_ locks, object, held);
    /* While Perl ends, what the program would be told of is gone already. */
    if (why || (!PL_dirty && notes_are_due(aTHX_ locks))) {
        ENTER;
        save_scalar(PL_errgv);
        if (why)
            tell_perl(aTHX_ "_not_released", object, why);
        if (!PL_dirty)
            take_notes(aTHX_ locks, held->client);
        LEAVE;
    }
    PL_statusvalue = status;
    RESTORE_ERRNO;
}
