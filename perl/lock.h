/* Objects of Pinyon::Lock, and how programs that wait acquire and release. The handle has everything that is known of a
 * lock, so acquiring and releasing it runs no Perl code. */

/* The client of a lock; its object lives as long as the lock's. */
static locks_handle *locks_of_lock(pTHX_ const lock_handle *held)
{
    if (!held->of)
        throw_not(aTHX_ A_LOCK);
    return held->of;
}

/* Keeps an object for the rest of the call: Perl code that runs in it may let go of the caller's. */
static void stays(pTHX_ SV *object) { sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(object))); }

/* ---- What happened by itself -------------------------------------------------------------------------------------- */

static bool notes_are_due(pTHX_ locks_handle *locks)
{
    if (!locks->event)
        locks->event = next_event_of_locks(aTHX_ locks);
    return locks->event || locks->listeners || credentials_are_asked();
}

/* Tells the locks that are lost and are to tell of it, whoever took the note. Each may let go of others. */
static void tell_losses(pTHX_ const locks_handle *locks)
{
    AV          *lost;
    lock_handle *held;
    SSize_t      index;
    ENTER;
    SAVETMPS;
    lost = (AV *)sv_2mortal((SV *)newAV());
    for (held = locks->acquired; held; held = held->after) {
        if (held->listens && held->lock && pinyon_lock_loss(held->lock))
            av_push(lost, newRV_inc(held->object));
    }
    for (index = 0; index <= av_len(lost); index++) {
        dSP;
        PERL_CODE_BEGINS;
        PUSHMARK(SP);
        XPUSHs(AvARRAY(lost)[index]);
        PUTBACK;
        call_method("_lost", G_VOID | G_DISCARD);
        PERL_CODE_ENDS;
    }
    FREETMPS;
    LEAVE;
}

/* Reports events and losses. Runs Perl code. */
static void tell_notes(pTHX_ locks_handle *locks, SV *client)
{
    if (credentials_are_asked())
        answer_credentials(aTHX);
    while (locks->event) {
        dSP;
        SV *event    = sv_2mortal(locks->event);
        locks->event = NULL;
        PERL_CODE_BEGINS;
        PUSHMARK(SP);
        mXPUSHs(newRV_inc(client));
        XPUSHs(event);
        PUTBACK;
        call_method("_tell_event", G_VOID | G_DISCARD);
        PERL_CODE_ENDS;
        locks->event = next_event_of_locks(aTHX_ locks);
    }
    if (locks->listeners)
        tell_losses(aTHX_ locks);
}

static void take_notes(pTHX_ locks_handle *locks, SV *client)
{
    if (UNLIKELY(notes_are_due(aTHX_ locks)))
        tell_notes(aTHX_ locks, client);
}

static void take_notes_of_lock(pTHX_ SV *object, const lock_handle *held)
{
    stays(aTHX_ object);
    take_notes(aTHX_ locks_of_lock(aTHX_ held), held->client);
}

static void listen_for_loss(pTHX_ lock_handle *held)
{
    if (held->listens)
        return;
    locks_of_lock(aTHX_ held)->listeners++;
    held->listens = true;
}

static void listen_no_more(lock_handle *held)
{
    if (held->listens && held->of)
        held->of->listeners--;
    held->listens = false;
}

/* ---- Acquiring ---------------------------------------------------------------------------------------------------- */

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

/* A new object in a mortal, of a lock that is not acquired yet. */
static SV *lock_object(pTHX_ HV *class, SV *client, SV *names)
{
    SV           *object = sv_2mortal(newRV_noinc((SV *)newHV()));
    locks_handle *locks  = locks_of(aTHX_ client);
    lock_handle  *held;
    Newxz(held, 1, lock_handle);
    held->object = SvRV(object);
    held->client = SvREFCNT_inc_simple_NN(SvRV(client));
    held->forks  = forks_so_far;
    lock_link(held, locks);
    attach(aTHX_ object, &lock_table, held);
    held->names = names_kept(aTHX_ names);
    return sv_bless(object, class);
}

/* Wishes for the names of a lock's object. `one` has room for one. */
static void wish_kept_names(pTHX_ pinyon_wish *wish, const lock_handle *held, pinyon_bytes *one)
{
    AV    *list = several_names(held->names);
    size_t index;
    if (!list) {
        one->start  = SvPV(held->names, one->size);
        wish->names = one;
        wish->count = 1;
        return;
    }
    wish->count = (size_t)(av_len(list) + 1);
    one         = names_room(aTHX_ wish->count);
    wish->names = one;
    for (index = 0; index < wish->count; index++)
        one[index].start = SvPV(AvARRAY(list)[index], one[index].size);
}

static HV *lock_class(pTHX_ locks_handle *locks)
{
    if (!locks->lock_class)
        locks->lock_class = (HV *)SvREFCNT_inc_NN((SV *)gv_stashpvs("Pinyon::Lock", GV_ADD));
    return locks->lock_class;
}

/* A lock that nobody keeps. Where the user has called Pinyon decides whether warnings are wanted. */
static void warn_of_void(pTHX)
{
    COP *here = PL_curcop;
    PL_curcop = (COP *)users_place(aTHX);
    Perl_ck_warner(aTHX_ packWARN(WARN_VOID),
                   "This lock is released at once, because nothing keeps it: write my $lock = $locks->lock(...)");
    PL_curcop = here;
}

/* lock and try_lock for those who wait: names and options are on Perl's stack from `ax` on, after the client. NULL: it is
 * taken. */
static SV *lock_acquired(pTHX_ I32 ax, I32 items, bool at_once)
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
    }
    wish_kept_names(aTHX_ & wish, held, &one);
    take_notes(aTHX_ locks, held->client);
    run_wish(aTHX_ locks, &wish, &reply);
    if (!acquired(aTHX_ object, &reply, at_once))
        return NULL;
    if (on_lost) {
        dSP;
        PUSHMARK(SP);
        XPUSHs(object);
        XPUSHs(on_lost);
        PUTBACK;
        call_method("on_lost", G_VOID | G_DISCARD);
    }
    return object;
}

/* ---- Releasing ---------------------------------------------------------------------------------------------------- */

static bool is_over(const lock_handle *held) { return held->is_released && !held->is_held; }

static void note_release(lock_handle *held, bool is_held, bool is_released)
{
    held->is_held = is_held;
    if (is_released)
        held->is_released = true;
}

/* Whether it was held until then. */
static bool lock_released(pTHX_ SV *object)
{
    lock_handle *held = held_of(aTHX_ object);
    pinyon_wish  wish;
    bool         was_held;
    if (is_over(held))
        return false;
    take_notes_of_lock(aTHX_ object, held);
    holders_wish(aTHX_ & wish, object, PINYON_RELEASE, NULL);
    was_held = run_plain_wish(aTHX_ locks_of_lock(aTHX_ held), &wish) != 0;
    note_release(held, false, was_held);
    return was_held;
}

/* The end of a block of code with a lock. */
static void lock_ends(pTHX_ SV *object)
{
    if (!held_of(aTHX_ object)->is_released && !lock_released(aTHX_ object))
        throw_error(aTHX_ pinyon_lock_lost_early(lock_of(aTHX_ object)));
}

/* Whether an object that goes leaves a lock behind that is this process's. */
static bool is_left_held(const lock_handle *held)
{
    return held->is_held && held->of && held->forks == forks_so_far;
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

static void lock_goes(pTHX_ SV *object)
{
    lock_handle  *held = (lock_handle *)attached(object, &lock_table);
    locks_handle *locks;
    SV           *why;
    const I32     status = PL_statusvalue;
    dSAVE_ERRNO;

    if (!held)
        return;
    listen_no_more(held);
    if (!is_left_held(held))
        return;
    locks = held->of;
    why   = last_released(aTHX_ locks, object, held);
    /* While Perl ends, what the program would be told of is gone already. */
    if (why || (!PL_dirty && notes_are_due(aTHX_ locks))) {
        dSP;
        ENTER;
        save_scalar(PL_errgv);
        if (why) {
            PUSHMARK(SP);
            XPUSHs(object);
            XPUSHs(why);
            PUTBACK;
            call_method("_not_released", G_VOID | G_DISCARD);
        }
        if (!PL_dirty)
            take_notes(aTHX_ locks, held->client);
        LEAVE;
    }
    PL_statusvalue = status;
    RESTORE_ERRNO;
}
