/* Many commands in an event loop: batches, whose outcome is one reply, and calls that are all prepared before one is begun. */

static pinyon_batch *loop_batch(pTHX_ SV *client)
{
    cache_handle *cache = cache_of(aTHX_ client);
    pinyon_error *error = NULL;
    pinyon_batch *batch = pinyon_batch_of_loop(loop_ready(aTHX_ cache->loop)->loop, cache->client, &error);
    if (!batch)
        throw_error(aTHX_ error);
    return batch;
}

/* Begins a command of a batch, of which no reply comes. */
static void loop_batch_add(pTHX_ SV *client, pinyon_batch *batch, unsigned number, SV **given, SSize_t count)
{
    cache_handle  *cache = cache_of(aTHX_ client);
    loop_handle   *loop  = loop_ready(aTHX_ cache->loop);
    pinyon_error  *error = NULL;
    call           one;
    pinyon_request request;
    char           room[LOOP_ROOM];

    one.request = &request;
    one.room    = room;
    one.left    = sizeof room;
    prepare(aTHX_ cache, client, &one, number, given, count);
    if (pinyon_batch_begin(loop->loop, batch, &request, &error) < 0)
        throw_error(aTHX_ error);
    carry_out_begun(aTHX_ loop);
}

static SV *read_batch(pTHX_ operation *begun)
{
    return batch_failures(aTHX_ batch_of(aTHX_ begun->object));
}

/* `tells`: the answer is what was not carried out. Otherwise a later one has it. */
static operation *begin_batch_finish(pTHX_ SV *client, SV *object, SV *callback, bool tells)
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

/* ---- Many calls --------------------------------------------------------------------------------------------------- */

#define ROOM_FOR_EACH 128

static SV *item_of(pTHX_ AV *list, SSize_t index)
{
    SV **item = list ? av_fetch(list, index, 0) : NULL;
    return item ? *item : &PL_sv_undef;
}

/* Begins a method for each list of arguments, once all of them are known to make sense. Returns the operations, or the
 * error of one that cannot be sent. */
static AV *begin_many(pTHX_ SV *self, unsigned number, AV *calls, AV *callbacks)
{
    cache_handle   *cache   = cache_of(aTHX_ self);
    const SSize_t   count   = av_len(calls) + 1;
    AV             *results = (AV *)sv_2mortal((SV *)newAV());
    call           *ones;
    pinyon_request *requests;
    char           *room;
    STRLEN          left = (count + 1) * ROOM_FOR_EACH;
    SSize_t         index;

    ENTER;
    SAVETMPS;
    ones     = (call *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof *ones)));
    requests = (pinyon_request *)(void *)SvPVX(sv_2mortal(newSV((count + 1) * sizeof *requests)));
    room     = SvPVX(sv_2mortal(newSV(left)));
    for (index = 0; index < count; index++) {
        SV     *given[MOST_ARGUMENTS];
        AV     *list    = array_of(aTHX_ item_of(aTHX_ calls, index));
        SSize_t present = av_len(list) + 1, argument;
        for (argument = 0; argument < present && argument < MOST_ARGUMENTS; argument++)
            given[argument] = item_of(aTHX_ list, argument);
        ones[index].request = &requests[index];
        ones[index].room    = room;
        ones[index].left    = left;
        prepare(aTHX_ cache, self, &ones[index], number, given, present);
        room = ones[index].room;
        left = ones[index].left;
    }
    for (index = 0; index < count; index++) {
        pinyon_error *error = NULL;
        operation    *begun
            = begin_unless_refused(aTHX_ cache, self, &ones[index], item_of(aTHX_ callbacks, index), NULL, &error);
        av_push(results, begun ? operation_object(aTHX_ begun) : error_object_taken(aTHX_ error));
    }
    FREETMPS;
    LEAVE;
    carry_out_begun(aTHX_ loop_ready(aTHX_ cache->loop));
    return results;
}
