/* Wishes: what is asked of locks, and what the reply means. Blocking calls and event loops use the same. */

#include "pinyon_perl.h"

#define NO_TIME 1e-300

/* A time to wait. For the library 0 is the usual time, and this is no time at all. */
static double wait_of(pTHX_ SV *given)
{
    const double seconds = seconds_of(aTHX_ given, 0, "timeout");
    if (!(seconds >= 0))
        throw_usage(aTHX_ newSVpvf("timeout is a number of seconds from 0 on, not %" SVf, SVfARG(given)));
    return SvOK(given) && seconds == 0 ? NO_TIME : seconds;
}

static const struct {
    const char *name;
    STRLEN      size;
} lock_options[LOCK_OPTIONS] = {{"timeout", 7},  {"ttl", 3},   {"renew", 5},  {"reentrant", 9},
                                {"max_hold", 8}, {"owner", 5}, {"on_lost", 7}, {"at_least", 8},
                                {"ticket", 6},   {"read", 4},  {"permits", 7}, {"on_failure", 10},
                                {"note", 4}};

static bool proceeds(pTHX_ SV *word)
{
    STRLEN      size;
    const char *given = SvPV(word, size);
    if (size == 7 && memEQ(given, "proceed", size))
        return true;
    if (size != 5 || memNE(given, "raise", size))
        throw_usage(aTHX_ newSVpvf("on_failure must be \"raise\" or \"proceed\", not \"%" SVf "\"", SVfARG(word)));
    return false;
}

lock_option wish_option(pTHX_ pinyon_wish *wish, const char *name, STRLEN size, SV *value)
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
    case LOCK_AT_LEAST: wish->at_least = SvOK(value) ? above_zero(aTHX_ value, "at_least") : 0; break;
    case LOCK_TICKET: wish->ticket.start = SvPV(value, wish->ticket.size); break;
    case LOCK_NOTE:
        if (SvOK(value))
            wish->note.start = SvPVutf8(value, wish->note.size);
        break;
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
    case LOCK_ON_FAILURE:
        wish->with &= ~(uint32_t)PINYON_PROCEED;
        if (SvOK(value) && proceeds(aTHX_ value))
            wish->with |= PINYON_PROCEED;
        break;
    case LOCK_READS:
        if (SvOK(value))
            wish->read = names_given(aTHX_ value, &wish->read_count);
        break;
    case LOCK_PERMITS:
        if (SvOK(value))
            wish->permits = permits_given(aTHX_ value, &wish->permits_count);
        break;
    default: break;
    }
    return (lock_option)option;
}

void begin_wish(pinyon_wish *wish, pinyon_wish_kind kind)
{
    Zero(wish, 1, pinyon_wish);
    wish->size = sizeof *wish;
    wish->kind = kind;
}

void wish_names(pTHX_ pinyon_wish *wish, SV *names)
{
    wish->names = names_given(aTHX_ names, &wish->count);
}

void available_wish(pTHX_ pinyon_wish *wish, SV *pool, SV *limit)
{
    begin_wish(wish, PINYON_AVAILABLE);
    wish->permits       = permits_of_pool(aTHX_ pool, NULL, limit);
    wish->permits_count = 1;
}

/* The names to change, and how long to wait for others that read them. */
static void change_wish(pTHX_ pinyon_wish *wish, AV *change)
{
    wish_names(aTHX_ wish, name_at(aTHX_ change, 0));
    if (SvOK(name_at(aTHX_ change, 1)))
        wish->wait = wait_of(aTHX_ name_at(aTHX_ change, 1));
}

void holders_wish(pTHX_ pinyon_wish *wish, SV *lock, int kind, SV *number)
{
    begin_wish(wish, (pinyon_wish_kind)kind);
    wish->lock = lock_of(aTHX_ lock);
    if (kind == PINYON_EXTEND)
        wish->ttl = above_zero(aTHX_ number, "ttl");
    else if (kind == PINYON_PARK)
        wish->wait = wait_of(aTHX_ number);
    else if (kind == PINYON_NOTIFY)
        wish->most = (uint32_t)SvUV(number);
    else if (kind == PINYON_HAND_OVER && SvOK(number))
        wish->ttl = above_zero(aTHX_ number, "ttl");
    else if (kind == PINYON_RELEASE && number && SvTRUE(number))
        wish->with |= PINYON_EARLY;
    else if (kind == PINYON_UPGRADE || kind == PINYON_DOWNGRADE)
        change_wish(aTHX_ wish, (AV *)SvRV(number));
}

void release_all_wish(pTHX_ pinyon_wish *wish, SV *timeout)
{
    begin_wish(wish, PINYON_RELEASE_ALL);
    wish->wait = wait_of(aTHX_ timeout);
}

void forced_wish(pTHX_ pinyon_wish *wish, SV *names, SV *token)
{
    begin_wish(wish, PINYON_FORCE_RELEASE);
    wish_names(aTHX_ wish, names);
    if (!SvOK(token))
        return;
    wish->with |= PINYON_WITH_TOKEN;
    wish->token = count_of(aTHX_ token, "token");
}

void rate_wish(pTHX_ pinyon_wish *wish, pinyon_rate *rate, SV *name, AV *terms)
{
    SV      *timeout = name_at(aTHX_ terms, 4);
    uint64_t permits = count_of(aTHX_ name_at(aTHX_ terms, 3), "n");
    if (!permits)
        throw_usage(aTHX_ newSVpvs("n must be at least 1, not 0"));
    begin_wish(wish, PINYON_RATE);
    wish_names(aTHX_ wish, name);
    rate->size  = sizeof *rate;
    rate->limit = (int64_t)count_of(aTHX_ name_at(aTHX_ terms, 0), "limit");
    rate->per   = above_zero(aTHX_ name_at(aTHX_ terms, 1), "per");
    rate->burst = (int64_t)count_of(aTHX_ name_at(aTHX_ terms, 2), "burst");
    wish->rate  = rate;
    wish->most  = permits > UINT32_MAX ? UINT32_MAX : (uint32_t)permits;
    if (!SvTRUE(name_at(aTHX_ terms, 5)))
        return;
    wish->with |= PINYON_WAITS;
    wish->wait = wait_of(aTHX_ timeout);
}

/* What a rate says: { allowed, remaining, retry_after, reset }. */
SV *rated_answer(pTHX_ const pinyon_reply *reply)
{
    const bool allowed = reply->status == PINYON_DONE;
    HV        *fields  = newHV();
    hv_stores(fields, "allowed", newSVsv(boolSV(allowed)));
    hv_stores(fields, "remaining", newSVuv((UV)reply->number));
    hv_stores(fields, "retry_after", allowed ? newSV(0) : newSVnv((NV)reply->last_access / 1e6));
    hv_stores(fields, "reset", newSVnv((NV)reply->ttl / 1e6));
    return newRV_noinc((SV *)fields);
}

bool acquire_by_reply(pTHX_ SV *object, pinyon_reply *reply, bool at_once)
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

IV plain_result(int kind, const pinyon_reply *reply)
{
    switch (kind) {
    case PINYON_NOTIFY:
    case PINYON_RELEASE_ALL:
    case PINYON_AVAILABLE:
    case PINYON_FORCE_RELEASE: return (IV)reply->number;
    case PINYON_PARK: return (reply->marks & PINYON_WAS_NOTIFIED) != 0;
    default: return reply->status == PINYON_DONE;
    }
}

SV *ticket_result(pTHX_ const pinyon_reply *reply)
{
    return newSVpvn(reply->value.start, reply->value.size);
}

static SV *known_seconds(pTHX_ double seconds)
{
    return seconds < 0 ? newSV(0) : newSVnv(seconds);
}

SV *known_text(pTHX_ pinyon_bytes text)
{
    return text.size ? newSVpvn_flags(text.start, text.size, SVf_UTF8) : newSV(0);
}

/* Who has a name or waits for it: host, pid, label and note, of which some may be undef. */
static void owner_known(pTHX_ HV *fields, const pinyon_answer *given)
{
    hv_stores(fields, "host", known_text(aTHX_ given->host));
    hv_stores(fields, "pid", given->pid ? newSVuv((UV)given->pid) : newSV(0));
    hv_stores(fields, "label", known_text(aTHX_ given->label));
    hv_stores(fields, "note", known_text(aTHX_ given->note));
}

static SV *status_of(pTHX_ HV *fields, const pinyon_answer *given, AV *readers, AV *waiting, HV *owners)
{
    hv_stores(fields, "name", newSVpvn(given->name.start, given->name.size));
    hv_stores(fields, "holder", given->value.size ? newSVpvn(given->value.start, given->value.size) : newSV(0));
    hv_stores(fields, "token", given->token ? newSVuv((UV)given->token) : newSV(0));
    hv_stores(fields, "left", known_seconds(aTHX_ given->left));
    hv_stores(fields, "age", known_seconds(aTHX_ given->age));
    hv_stores(fields, "readers", newRV_noinc((SV *)readers));
    hv_stores(fields, "waiting", newRV_noinc((SV *)waiting));
    hv_stores(fields, "owners", newRV_noinc((SV *)owners));
    owner_known(aTHX_ fields, given);
    return newRV_noinc((SV *)fields);
}

/* What is known of names: [{ name, holder, token, left, age, readers => [], waiting => [], host, pid, label, note,
 * owners => { attempt => { host, pid, label, note } } }, …]. */
SV *inspected_names(pTHX_ pinyon_reply *reply)
{
    pinyon_answer given   = {sizeof given};
    AV           *results = newAV();
    AV           *readers = NULL;
    AV           *waiting = NULL;
    HV           *owners  = NULL;

    while (reply->answers && pinyon_next_answer(reply->answers, &given)) {
        HV *fields, *owner;
        if (!given.waits && !given.reads) {
            fields  = newHV();
            readers = newAV();
            waiting = newAV();
            owners  = newHV();
            av_push(results, status_of(aTHX_ fields, &given, readers, waiting, owners));
        } else if (owners) {
            av_push(given.waits ? waiting : readers, newSVpvn(given.value.start, given.value.size));
        }
        if (!owners || !given.value.size)
            continue;
        owner = newHV();
        owner_known(aTHX_ owner, &given);
        hv_store(owners, given.value.start, (I32)given.value.size, newRV_noinc((SV *)owner), 0);
    }
    return newRV_noinc((SV *)results);
}

static void answers_over(pTHX_ void *pointer)
{
    PERL_UNUSED_CONTEXT;
    pinyon_answers_free((pinyon_answers *)pointer);
}

SV *executed_answer(pTHX_ pinyon_reply *reply)
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

void wish_kept_names(pTHX_ pinyon_wish *wish, const lock_handle *held, pinyon_bytes *one)
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
    one         = (pinyon_bytes *)mortal_room(aTHX_ wish->count * sizeof *one);
    wish->names = one;
    for (index = 0; index < wish->count; index++)
        one[index].start = SvPV(AvARRAY(list)[index], one[index].size);
}
