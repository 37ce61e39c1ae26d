/* Commands whose replies are not awaited one by one. */

#include "pinyon_perl.h"

HANDLE_TABLE(batch_table, pinyon_batch, pinyon_batch_free(handle), not_cloned);

pinyon_batch *batch_of(pTHX_ SV *object)
{
    return (pinyon_batch *)handle_of(aTHX_ object, &batch_table, "a Pinyon::Batch that is under way");
}

/* Where an object has its batch. A call that may wait takes it from there, as a handler of signals may use the object or
 * let it go meanwhile, and puts it back. */
MAGIC *batch_magic(pTHX_ SV *object)
{
    (void)batch_of(aTHX_ object);
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(object)));
    return mg_findext(SvRV(object), PERL_MAGIC_ext, &batch_table);
}

static pinyon_batch *batch_taken(MAGIC *magic)
{
    pinyon_batch *batch = (pinyon_batch *)magic->mg_ptr;
    magic->mg_ptr       = NULL;
    return batch;
}

/* Adds a prepared call. Returns the error if it cannot be sent at all. */
static pinyon_error *batch_added(pTHX_ MAGIC *magic, call *one)
{
    pinyon_batch *batch = batch_taken(magic);
    pinyon_error *error = NULL;
    waiting       wait;
    pinyon_status status;
    begin_wait(aTHX_ & wait);
    status        = pinyon_batch_add(batch, one->request, &wait.host, &error);
    magic->mg_ptr = (char *)batch;
    if (status == PINYON_INTERRUPTED)
        end_interrupted(aTHX_ & wait);
    return error;
}

void batch_add(pTHX_ SV *object, call *one)
{
    pinyon_error *error = batch_added(aTHX_ batch_magic(aTHX_ object), one);
    if (error)
        throw_error(aTHX_ error);
}

/* After so many commands that nobody waited for, their replies are to be read. */
#define MOST_UNREAD 1000

pinyon_error *batch_push(pTHX_ MAGIC *magic, call *one)
{
    pinyon_error *error = batch_added(aTHX_ magic, one);
    magic->mg_private++;
    if (!error)
        (void)pinyon_batch_send((pinyon_batch *)magic->mg_ptr, &error);
    return error;
}

MAGIC *usable_batch(SV *object)
{
    MAGIC *magic = attached_handle(object, &batch_table) ? mg_findext(SvRV(object), PERL_MAGIC_ext, &batch_table) : NULL;
    return magic && magic->mg_private < MOST_UNREAD ? magic : NULL;
}

SV *batch_failures(pTHX_ pinyon_batch *batch)
{
    static const char *const reasons[] = {"", "there is no such item", "not stored", "the item has changed"};
    pinyon_reply             reply    = {sizeof reply};
    AV                      *failures = newAV();
    SV                      *result   = newRV_noinc((SV *)failures);

    while (pinyon_batch_next_failure(batch, &reply)) {
        AV *failure = newAV();
        av_push(failures, newRV_noinc((SV *)failure));
        av_push(failure, newSVuv((UV)reply.number));
        if (reply.error)
            av_push(failure, text_sv(aTHX_ pinyon_error_message(reply.error)));
        else
            av_push(failure, newSVpv(reasons[reply.status > 0 && reply.status < 4 ? reply.status : 2], 0));
        av_push(failure, reply.error ? error_object(aTHX_ reply.error) : newSV(0));
    }
    pinyon_reply_clear(&reply);
    return result;
}

SV *batch_finish(pTHX_ SV *object)
{
    MAGIC        *magic = batch_magic(aTHX_ object);
    pinyon_batch *batch;
    waiting       wait;
    pinyon_error *error = NULL;
    pinyon_status status;

    begin_wait(aTHX_ & wait);
    batch             = batch_taken(magic);
    status            = pinyon_batch_finish(batch, &wait.host, &error);
    magic->mg_ptr     = (char *)batch;
    magic->mg_private = 0;
    if (status == PINYON_INTERRUPTED)
        end_interrupted(aTHX_ & wait);
    if (status < 0 && error)
        throw_error(aTHX_ error);
    return batch_failures(aTHX_ batch);
}
