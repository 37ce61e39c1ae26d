/* Blocking wishes of a Pinyon::Locks. */

#include "pinyon_perl.h"

pinyon_status carry_out_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply, waiting *wait)
{
    Zero(reply, 1, pinyon_reply);
    reply->size = sizeof *reply;
    wait->host.place = NULL;
    locks->users++; /* a handler of signals may end its object */
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

void run_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply)
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

SV *run_holders_wish(pTHX_ SV *lock, SV *locks, int kind, SV *number)
{
    pinyon_wish  wish;
    pinyon_reply reply;
    SV          *result;
    holders_wish(aTHX_ & wish, lock, kind, number);
    run_wish(aTHX_ locks_of(aTHX_ locks), &wish, &reply);
    result = kind == PINYON_HAND_OVER ? ticket_result(aTHX_ & reply) : newSViv(plain_result(kind, &reply));
    pinyon_reply_clear(&reply);
    return result;
}

IV run_plain_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish)
{
    pinyon_reply reply;
    IV           result;
    run_wish(aTHX_ locks, wish, &reply);
    result = plain_result(wish->kind, &reply);
    pinyon_reply_clear(&reply);
    return result;
}

SV *inspect_names(pTHX_ locks_handle *locks, SV *names)
{
    pinyon_wish  wish;
    pinyon_reply reply;
    SV          *result;

    begin_wish(&wish, PINYON_INSPECT);
    wish_names(aTHX_ & wish, names);
    run_wish(aTHX_ locks, &wish, &reply);
    result = inspected_names(aTHX_ & reply);
    pinyon_reply_clear(&reply);
    return result;
}

SV *ask_rate(pTHX_ locks_handle *locks, SV *name, AV *terms)
{
    pinyon_wish  wish;
    pinyon_rate  rate;
    pinyon_reply reply;
    SV          *result;

    rate_wish(aTHX_ & wish, &rate, name, terms);
    run_wish(aTHX_ locks, &wish, &reply);
    result = rated_answer(aTHX_ & reply);
    pinyon_reply_clear(&reply);
    return result;
}

SV *execute_command(pTHX_ locks_handle *locks, SV *parts)
{
    pinyon_wish  wish;
    pinyon_reply reply;

    begin_wish(&wish, PINYON_COMMAND);
    wish_names(aTHX_ & wish, parts);
    run_wish(aTHX_ locks, &wish, &reply);
    return executed_answer(aTHX_ & reply);
}

void tell_permits(pTHX_ locks_handle *locks, SV *pool, SV *count, SV *limit)
{
    pinyon_error *error = NULL;
    if (pinyon_locks_tell_permits(locks->locks, permits_of_pool(aTHX_ pool, count, limit), &error) < 0)
        throw_error(aTHX_ error);
}
