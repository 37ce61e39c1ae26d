/* Locks, for those who wait. */

#define NO_TIME 1e-300

static pinyon_lock *lock_of(pTHX_ SV *object)
{
    return (pinyon_lock *)handle_of(aTHX_ object, &lock_table, "a lock that this thread has acquired");
}

/* The names, copied, as one name or an array of them. */
static void wish_names(pTHX_ pinyon_wish *wish, SV *names)
{
    AV            *list  = NULL;
    size_t         count = 1, index;
    pinyon_bytes  *bytes;
    SV            *room;

    SvGETMAGIC(names);
    if (SvROK(names) && SvTYPE(SvRV(names)) == SVt_PVAV && !SvOBJECT(SvRV(names))) {
        list  = (AV *)SvRV(names);
        count = (size_t)(av_len(list) + 1);
    }
    room  = sv_2mortal(newSV((count + 1) * sizeof(pinyon_bytes)));
    bytes = (pinyon_bytes *)(void *)SvPVX(room);
    for (index = 0; index < count; index++) {
        SV  *name = names;
        SV **at;
        if (list) {
            at   = av_fetch(list, (SSize_t)index, 0);
            name = at ? *at : &PL_sv_undef;
        }
        SvGETMAGIC(name);
        if (!SvOK(name) || (SvROK(name) && !SvAMAGIC(name)))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                       newSVpvf("the name of a lock is a string, not %s",
                                SvOK(name) ? "a reference" : "undef"));
        name               = sv_2mortal(newSVsv_nomg(name));
        bytes[index].start = SvPV(name, bytes[index].size);
    }
    wish->names = bytes;
    wish->count = count;
}

static double above_zero(pTHX_ SV *given, const char *name)
{
    const double seconds = seconds_of(aTHX_ given, 0, name);
    if (!(seconds > 0))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds above 0, not %" SVf, name,
                                   SVfARG(SvOK(given) ? given : sv_2mortal(newSVpvs("undef")))));
    return seconds;
}

/* A time to wait. For the library 0 is the usual time, and this is no time at all. */
static double wait_of(pTHX_ SV *given)
{
    const double seconds = seconds_of(aTHX_ given, 0, "timeout");
    if (!(seconds >= 0))
        throw_usage(aTHX_ newSVpvf("timeout is a number of seconds from 0 on, not %" SVf, SVfARG(given)));
    return SvOK(given) && seconds == 0 ? NO_TIME : seconds;
}

/* Options of lock and try_lock. The names are checked, and on_lost is taken, in Perl. */
static void wish_options(pTHX_ pinyon_wish *wish, HV *options)
{
    HE *entry;
    hv_iterinit(options);
    while ((entry = hv_iternext(options))) {
        I32   size;
        char *name  = hv_iterkey(entry, &size);
        SV   *value = hv_iterval(options, entry);
        if (strEQ(name, "renew")) {
            if (SvOK(value) && !SvTRUE(value))
                wish->with |= PINYON_NO_RENEWAL;
        } else if (strEQ(name, "reentrant")) {
            if (SvOK(value))
                wish->with |= SvTRUE(value) ? PINYON_REENTRANT : PINYON_NOT_REENTRANT;
        } else if (strEQ(name, "ttl")) {
            wish->ttl = SvOK(value) ? above_zero(aTHX_ value, "ttl") : 0;
        } else if (strEQ(name, "max_hold")) {
            wish->max_hold = SvOK(value) ? above_zero(aTHX_ value, "max_hold") : 0;
        } else if (strEQ(name, "timeout")) {
            wish->wait = wait_of(aTHX_ value);
        } else if (strEQ(name, "owner")) {
            wish->owner = (uint64_t)SvUV(value);
        } else {
            throw_usage(aTHX_ newSVpvf("lock has no option \"%s\"", name));
        }
    }
}

static void begin_wish(pinyon_wish *wish, pinyon_wish_kind kind)
{
    Zero(wish, 1, pinyon_wish);
    wish->size = sizeof *wish;
    wish->kind = kind;
}

/* Carries out a wish; dies of a failure. The reply is to be cleared. */
static void run_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply)
{
    waiting       wait;
    pinyon_error *error;
    pinyon_status status;

    Zero(reply, 1, pinyon_reply);
    reply->size = sizeof *reply;
    begin_wait(aTHX_ & wait);
    wait.host.place = NULL;
    locks_enter(locks);
    reply->status = pinyon_lock_run(locks->locks, wish, reply, &wait.host);
    locks_leave(locks);
    status = reply->status;
    if (status >= 0)
        return;
    error        = reply->error;
    reply->error = NULL;
    pinyon_reply_clear(reply);
    if (status == PINYON_INTERRUPTED) {
        pinyon_error_free(error);
        end_interrupted(aTHX_ & wait);
    }
    throw_error(aTHX_ error);
}

/* A wish whose answer is a status and perhaps a number. That of PARK is whether it was notified. */
static pinyon_status run_plain_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, uint64_t *number)
{
    pinyon_reply  reply;
    pinyon_status status;
    run_wish(aTHX_ locks, wish, &reply);
    status = reply.status;
    if (number)
        *number = wish->kind == PINYON_PARK ? (reply.marks & PINYON_WAS_NOTIFIED) != 0 : reply.number;
    pinyon_reply_clear(&reply);
    return status;
}

/* Acquires; the lock is attached to `object`. False: it is taken. */
static bool acquire(pTHX_ locks_handle *locks, SV *object, SV *names, HV *options, bool at_once)
{
    pinyon_wish  wish;
    pinyon_reply reply;
    bool         held;

    begin_wish(&wish, PINYON_LOCK);
    wish_names(aTHX_ & wish, names);
    wish_options(aTHX_ & wish, options);
    if (at_once)
        wish.with |= PINYON_AT_ONCE;
    run_wish(aTHX_ locks, &wish, &reply);
    held = reply.status == PINYON_DONE;
    if (held) {
        attach(aTHX_ object, &lock_table, reply.lock);
        reply.lock = NULL;
    }
    pinyon_reply_clear(&reply);
    if (!held && !at_once)
        throw_kind(aTHX_ PINYON_E_LOCK_TIMEOUT, newSVpvs("others hold the lock, and timeout => 0 does not wait for it"));
    return held;
}

static SV *known_seconds(pTHX_ double seconds)
{
    return seconds < 0 ? newSV(0) : newSVnv(seconds);
}

/* What is known of names: [{ name, holder, token, left, age, waiting => [] }, …]. */
static SV *inspect(pTHX_ locks_handle *locks, SV *names)
{
    pinyon_wish   wish;
    pinyon_reply  reply;
    pinyon_answer given;
    AV           *results = newAV();
    SV           *result  = sv_2mortal(newRV_noinc((SV *)results));
    AV           *waiting = NULL;

    begin_wish(&wish, PINYON_INSPECT);
    wish_names(aTHX_ & wish, names);
    run_wish(aTHX_ locks, &wish, &reply);
    Zero(&given, 1, pinyon_answer);
    given.size = sizeof given;
    while (reply.answers && pinyon_next_answer(reply.answers, &given)) {
        HV *fields;
        if (given.waits) {
            if (waiting)
                av_push(waiting, newSVpvn(given.value.start, given.value.size));
            continue;
        }
        fields  = newHV();
        waiting = newAV();
        hv_stores(fields, "name", newSVpvn(given.name.start, given.name.size));
        hv_stores(fields, "holder",
                  given.value.start && given.value.size ? newSVpvn(given.value.start, given.value.size) : newSV(0));
        hv_stores(fields, "token", given.token ? newSVuv((UV)given.token) : newSV(0));
        hv_stores(fields, "left", known_seconds(aTHX_ given.left));
        hv_stores(fields, "age", known_seconds(aTHX_ given.age));
        hv_stores(fields, "waiting", newRV_noinc((SV *)waiting));
        av_push(results, newRV_noinc((SV *)fields));
    }
    pinyon_reply_clear(&reply);
    return SvREFCNT_inc_NN(result);
}

static void answers_over(pTHX_ void *pointer)
{
    PERL_UNUSED_CONTEXT;
    pinyon_answers_free((pinyon_answers *)pointer);
}

/* Sends a command of the server's, and reads its answer. */
static SV *execute(pTHX_ locks_handle *locks, SV *parts)
{
    pinyon_wish    wish;
    pinyon_reply   reply;
    pinyon_reader *reader;
    pinyon_error  *error = NULL;
    pinyon_bytes   tag   = {NULL, 0};
    SV            *value;

    begin_wish(&wish, PINYON_COMMAND);
    wish_names(aTHX_ & wish, parts);
    wish.tag = tag;
    run_wish(aTHX_ locks, &wish, &reply);
    reader = pinyon_reader_new(NULL);
    if (pinyon_read_answers(reader, reply.answers, &error) < 0) {
        pinyon_reader_free(reader);
        pinyon_reply_clear(&reply);
        throw_error(aTHX_ error);
    }
    ENTER;
    SAVEDESTRUCTOR_X(answers_over, reply.answers);
    reply.answers = NULL;
    pinyon_reply_clear(&reply);
    value = read_all(aTHX_ reader, NULL);
    LEAVE;
    return value;
}

/* A warning for operators; NULL: none. Losses are seen by the locks themselves, in the thread that has them. */
static SV *next_warning(pTHX_ locks_handle *locks)
{
    pinyon_note *note;
    while ((note = pinyon_next_note(locks->locks))) {
        SV *warning = note->warning ? text_sv(aTHX_ note->warning) : NULL;
        pinyon_note_free(note);
        if (warning)
            return warning;
    }
    return NULL;
}
