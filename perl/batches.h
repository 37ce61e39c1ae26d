/* Commands whose replies are not awaited one by one. */

static pinyon_batch *batch_of(pTHX_ SV *object)
{
    return (pinyon_batch *)handle_of(aTHX_ object, &batch_table, "a Pinyon::Batch that is under way");
}

/* Adds a prepared call. */
static void batch_add(pTHX_ pinyon_batch *batch, call *one)
{
    waiting       wait;
    pinyon_error *error = NULL;
    pinyon_status status;
    begin_wait(aTHX_ & wait);
    status = pinyon_batch_add(batch, one->request, &wait.host, &error);
    if (status == PINYON_INTERRUPTED)
        end_interrupted(aTHX_ & wait);
    if (status < 0)
        throw_error(aTHX_ error);
}

/* What was not carried out: a list of [number, reason, error]. */
static SV *batch_failures(pTHX_ pinyon_batch *batch)
{
    static const char *const reasons[] = {"", "there is no such item", "not stored", "the item has changed"};
    pinyon_reply             reply;
    AV                      *failures = newAV();
    SV                      *result   = newRV_noinc((SV *)failures);

    Zero(&reply, 1, pinyon_reply);
    reply.size = sizeof reply;
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

/* Waits for all outcomes. */
static SV *batch_finish(pTHX_ pinyon_batch *batch)
{
    waiting       wait;
    pinyon_error *error = NULL;
    pinyon_status status;

    begin_wait(aTHX_ & wait);
    status = pinyon_batch_finish(batch, &wait.host, &error);
    if (status == PINYON_INTERRUPTED)
        end_interrupted(aTHX_ & wait);
    if (status < 0 && error)
        throw_error(aTHX_ error);
    return batch_failures(aTHX_ batch);
}
