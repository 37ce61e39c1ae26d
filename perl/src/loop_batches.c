/* Batches in an event loop, whose outcome is one reply. */

#include "pinyon_perl.h"

pinyon_batch *loop_batch(pTHX_ SV *client)
{
    cache_handle *cache = cache_of(aTHX_ client);
    pinyon_error *error = NULL;
    pinyon_batch *batch = pinyon_batch_of_loop(loop_ready(aTHX_ cache->loop)->loop, cache->client, &error);
    if (!batch)
        throw_error(aTHX_ error);
    return batch;
}

void loop_batch_add(pTHX_ SV *client, pinyon_batch *batch, unsigned number, SV **given, SSize_t count)
{
    cache_handle *cache = cache_of(aTHX_ client);
    loop_handle  *loop  = loop_ready(aTHX_ cache->loop);
    pinyon_error *error = NULL;
    lone_call     alone;
    prepare_alone(aTHX_ cache, client, &alone, number, given, count);
    if (pinyon_batch_begin(loop->loop, batch, &alone.request, &error) < 0)
        throw_error(aTHX_ error);
    carry_out_begun(aTHX_ loop);
}

static SV *read_batch(pTHX_ operation *begun)
{
    return batch_failures(aTHX_ batch_of(aTHX_ begun->object));
}

operation *begin_batch_finish(pTHX_ SV *client, SV *object, SV *callback, bool tells)
{
    operation    *begun;
    loop_handle  *loop;
    pinyon_error *error = NULL;
    pinyon_batch *batch = batch_of(aTHX_ object);

    ENTER;
    begun           = operation_prepared(aTHX_ client, callback);
    begun->cache    = cache_of(aTHX_ client);
    begun->object   = newSVsv(object);
    begun->is_plain = true;
    begun->read     = tells ? read_batch : read_nothing;
    loop            = loop_ready(aTHX_ begun->cache->loop);
    if (pinyon_batch_begin_finish(loop->loop, batch, begun, &begun->ticket, &error) < 0)
        throw_error(aTHX_ error);
    operation_is_begun(loop, begun);
    LEAVE;
    return begun;
}
