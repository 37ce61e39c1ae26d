/* Locks, for those who wait. */

#define NO_TIME 1e-300
#define A_LOCK  "a lock that this thread has acquired"

static lock_handle *held_of(pTHX_ SV *object)
{
    return (lock_handle *)handle_of(aTHX_ object, &lock_table, A_LOCK);
}

static pinyon_lock *lock_of(pTHX_ SV *object)
{
    lock_handle *held = held_of(aTHX_ object);
    if (!held->lock)
        throw_not(aTHX_ A_LOCK);
    return held->lock;
}

/* A name as it stays, whatever happens to the caller's variables. */
static SV *name_kept(pTHX_ SV *name)
{
    SvGETMAGIC(name);
    if (!SvOK(name) || (SvROK(name) && !SvAMAGIC(name)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("the name of a lock is a string, not %s", SvOK(name) ? "a reference" : "undef"));
    return newSVsv_nomg(name);
}

/* The array, if these are several names. */
static AV *several_names(SV *names)
{
    return SvROK(names) && SvTYPE(SvRV(names)) == SVt_PVAV && !SvOBJECT(SvRV(names)) ? (AV *)SvRV(names) : NULL;
}

static SV *name_at(pTHX_ AV *list, size_t index)
{
    SV **at = av_fetch(list, (SSize_t)index, 0);
    return at ? *at : &PL_sv_undef;
}

/* Room for so many names, for as long as a mortal. */
static pinyon_bytes *names_room(pTHX_ size_t count)
{
    return (pinyon_bytes *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof(pinyon_bytes))));
}

/* The names, copied, as one name or an array of them. */
static void wish_names(pTHX_ pinyon_wish *wish, SV *names)
{
    AV           *list;
    size_t        count = 1, index;
    pinyon_bytes *bytes;

    SvGETMAGIC(names);
    list  = several_names(names);
    count = list ? (size_t)(av_len(list) + 1) : 1;
    bytes = names_room(aTHX_ count);
    for (index = 0; index < count; index++) {
        SV *name           = sv_2mortal(name_kept(aTHX_ list ? name_at(aTHX_ list, index) : names));
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

/* Options of lock and try_lock. */
typedef enum {
    LOCK_TIMEOUT, LOCK_TTL, LOCK_RENEW, LOCK_REENTRANT, LOCK_MAX_HOLD, LOCK_OWNER, LOCK_ON_LOST, LOCK_OPTIONS
} lock_option;

static const struct {
    const char *name;
    STRLEN      size;
} lock_options[LOCK_OPTIONS] = {{"timeout", 7},  {"ttl", 3},   {"renew", 5},  {"reentrant", 9},
                                {"max_hold", 8}, {"owner", 5}, {"on_lost", 7}};

/* Takes an option that says how a lock is acquired. Which one it was. */
static lock_option wish_option(pTHX_ pinyon_wish *wish, const char *name, STRLEN size, SV *value)
{
    int option = 0;
    while (option < LOCK_OPTIONS && (size != lock_options[option].size || memNE(name, lock_options[option].name, size)))
        option++;
    if (option == LOCK_OPTIONS)
        throw_usage(aTHX_ newSVpvf("lock has no option \"%s\"", name));
    if (SvGMAGICAL(value))
        value = sv_2mortal(newSVsv(value));
    switch ((lock_option)option) {
    case LOCK_TIMEOUT: wish->wait = wait_of(aTHX_ value); break;
    case LOCK_TTL: wish->ttl = SvOK(value) ? above_zero(aTHX_ value, "ttl") : 0; break;
    case LOCK_MAX_HOLD: wish->max_hold = SvOK(value) ? above_zero(aTHX_ value, "max_hold") : 0; break;
    case LOCK_OWNER: wish->owner = (uint64_t)SvUV(value); break;
    case LOCK_RENEW:
        wish->with &= ~(uint32_t)PINYON_NO_RENEWAL;
        if (SvOK(value) && !SvTRUE(value))
            wish->with |= PINYON_NO_RENEWAL;
        break;
    case LOCK_REENTRANT:
        wish->with &= ~(uint32_t)(PINYON_REENTRANT | PINYON_NOT_REENTRANT);
        if (SvOK(value))
            wish->with |= SvTRUE(value) ? PINYON_REENTRANT : PINYON_NOT_REENTRANT;
        break;
    default: break;
    }
    return (lock_option)option;
}

static void begin_wish(pinyon_wish *wish, pinyon_wish_kind kind)
{
    Zero(wish, 1, pinyon_wish);
    wish->size = sizeof *wish;
    wish->kind = kind;
}

/* Carries out a wish, in a wait that has begun. If it fails, nothing but the error is left of the reply. */
static pinyon_status carry_out_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply, waiting *wait)
{
    Zero(reply, 1, pinyon_reply);
    reply->size = sizeof *reply;
    wait->host.place = NULL;
    locks_enter(locks);
    reply->status = pinyon_lock_run(locks->locks, wish, reply, &wait->host);
    locks_leave(aTHX_ locks);
    if (reply->status < 0) {
        const pinyon_status status = reply->status;
        pinyon_error       *error  = reply->error;
        reply->error               = NULL;
        pinyon_reply_clear(reply);
        reply->status = status;
        reply->error  = error;
    }
    return reply->status;
}

/* The same, and dies of a failure. The reply is to be cleared. */
static void run_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply)
{
    waiting       wait;
    pinyon_status status;
    begin_wait(aTHX_ & wait);
    status = carry_out_wish(aTHX_ locks, wish, reply, &wait);
    if (status >= 0)
        return;
    if (status == PINYON_INTERRUPTED) {
        pinyon_error_free(reply->error);
        end_interrupted(aTHX_ & wait);
    }
    throw_error(aTHX_ reply->error);
}

/* Gives the lock of a reply to `object`. False: it is taken. */
static bool acquired(pTHX_ SV *object, pinyon_reply *reply, bool at_once)
{
    if (reply->status == PINYON_DONE) {
        lock_handle *held = held_of(aTHX_ object);
        held->lock        = reply->lock;
        held->is_held     = true;
        reply->lock       = NULL;
        return true;
    }
    if (!at_once)
        throw_kind(aTHX_ PINYON_E_LOCK_TIMEOUT, newSVpvs("others hold the lock, and timeout => 0 does not wait for it"));
    return false;
}

/* What the holder of a lock wishes: to release, extend, park or notify. */
static void holders_wish(pTHX_ pinyon_wish *wish, SV *lock, int kind, SV *number)
{
    begin_wish(wish, (pinyon_wish_kind)kind);
    wish->lock = lock_of(aTHX_ lock);
    if (kind == PINYON_EXTEND)
        wish->ttl = above_zero(aTHX_ number, "ttl");
    else if (kind == PINYON_PARK)
        wish->wait = wait_of(aTHX_ number);
    else if (kind == PINYON_NOTIFY)
        wish->most = (uint32_t)SvUV(number);
}

static void forced_wish(pTHX_ pinyon_wish *wish, SV *names, SV *token)
{
    begin_wish(wish, PINYON_FORCE_RELEASE);
    wish_names(aTHX_ wish, names);
    if (!SvOK(token))
        return;
    wish->with |= PINYON_WITH_TOKEN;
    wish->token = count_of(aTHX_ token, "token");
}

/* What such wishes return: a count, or whether it was so. */
static IV plain_result(int kind, const pinyon_reply *reply)
{
    switch (kind) {
    case PINYON_NOTIFY:
    case PINYON_FORCE_RELEASE: return (IV)reply->number;
    case PINYON_PARK: return (reply->marks & PINYON_WAS_NOTIFIED) != 0;
    default: return reply->status == PINYON_DONE;
    }
}

static IV run_plain_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish)
{
    pinyon_reply reply;
    IV           result;
    run_wish(aTHX_ locks, wish, &reply);
    result = plain_result(wish->kind, &reply);
    pinyon_reply_clear(&reply);
    return result;
}

static SV *known_seconds(pTHX_ double seconds)
{
    return seconds < 0 ? newSV(0) : newSVnv(seconds);
}

/* What is known of names: [{ name, holder, token, left, age, waiting => [] }, …]. */
static SV *inspected(pTHX_ pinyon_reply *reply)
{
    pinyon_answer given;
    AV           *results = newAV();
    AV           *waiting = NULL;

    Zero(&given, 1, pinyon_answer);
    given.size = sizeof given;
    while (reply->answers && pinyon_next_answer(reply->answers, &given)) {
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
    return newRV_noinc((SV *)results);
}

static SV *inspect(pTHX_ locks_handle *locks, SV *names)
{
    pinyon_wish  wish;
    pinyon_reply reply;
    SV          *result;

    begin_wish(&wish, PINYON_INSPECT);
    wish_names(aTHX_ & wish, names);
    run_wish(aTHX_ locks, &wish, &reply);
    result = inspected(aTHX_ & reply);
    pinyon_reply_clear(&reply);
    return result;
}

static void answers_over(pTHX_ void *pointer)
{
    PERL_UNUSED_CONTEXT;
    pinyon_answers_free((pinyon_answers *)pointer);
}

/* The answer to a command of the server's. Clears the reply. */
static SV *executed(pTHX_ pinyon_reply *reply)
{
    pinyon_reader *reader  = pinyon_reader_new(NULL);
    pinyon_error  *error   = NULL;
    pinyon_answers *answers = reply->answers;
    SV            *value;

    reply->answers = NULL;
    pinyon_reply_clear(reply);
    if (pinyon_read_answers(reader, answers, &error) < 0) {
        pinyon_reader_free(reader);
        pinyon_answers_free(answers);
        throw_error(aTHX_ error);
    }
    ENTER;
    SAVEDESTRUCTOR_X(answers_over, answers);
    value = read_all(aTHX_ reader, NULL);
    LEAVE;
    return value;
}

static SV *execute(pTHX_ locks_handle *locks, SV *parts)
{
    pinyon_wish  wish;
    pinyon_reply reply;

    begin_wish(&wish, PINYON_COMMAND);
    wish_names(aTHX_ & wish, parts);
    run_wish(aTHX_ locks, &wish, &reply);
    return executed(aTHX_ & reply);
}

/* An event of the servers as a hash; NULL: none. Losses are seen by the locks themselves, in the thread that has them. */
static SV *next_event_of_locks(pTHX_ locks_handle *locks)
{
    pinyon_note *note;
    while ((note = pinyon_next_note(locks->locks))) {
        SV *event = note->event ? event_fields(aTHX_ note->event) : NULL;
        pinyon_note_free(note);
        if (event)
            return event;
    }
    return NULL;
}
