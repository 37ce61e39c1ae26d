/* Commands whose replies are not awaited one by one. */

static pinyon_batch *batch_of(pTHX_ SV *object)
{
    return (pinyon_batch *)handle_of(aTHX_ object, &batch_table, "a Pinyon::Batch that is under way");
}

/* Where an object has its batch. A call that may wait takes it from there, as a handler of signals may use the object or
 * let it go meanwhile, and puts it back. */
static MAGIC *batch_magic(pTHX_ SV *object)
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

static void batch_add(pTHX_ SV *object, call *one)
{
    pinyon_error *error = batch_added(aTHX_ batch_magic(aTHX_ object), one);
    if (error)
        throw_error(aTHX_ error);
}

/* After so many commands that nobody waited for, their replies are to be read. */
#define MOST_UNREAD 1000

/* Adds a prepared call and sends it at once, without waiting for its reply. */
static pinyon_error *batch_push(pTHX_ MAGIC *magic, call *one)
{
    pinyon_error *error = batch_added(aTHX_ magic, one);
    magic->mg_private++;
    if (!error)
        (void)pinyon_batch_send((pinyon_batch *)magic->mg_ptr, &error);
    return error;
}

/* The magic of a batch that this thread can use now; NULL: it cannot. */
static MAGIC *usable_batch(SV *object)
{
    MAGIC *magic = attached(object, &batch_table) ? mg_findext(SvRV(object), PERL_MAGIC_ext, &batch_table) : NULL;
    return magic && magic->mg_private < MOST_UNREAD ? magic : NULL;
}

static bool is_plain_string(SV *sv) { return SvPOK(sv) && !SvROK(sv) && !SvGMAGICAL(sv); }

/* A ttl as memcached has it, of a kind that needs no care. */
static bool short_ttl(pTHX_ SV *ttl, int64_t *seconds)
{
    PERL_UNUSED_CONTEXT;
    *seconds = PINYON_FOREVER;
    if (SvGMAGICAL(ttl))
        return false;
    if (!SvOK(ttl))
        return true;
    if (!SvIOK(ttl) || SvROK(ttl) || SvIVX(ttl) < 0 || SvIVX(ttl) > 30 * 24 * 60 * 60)
        return false;
    if (SvIVX(ttl))
        *seconds = SvIVX(ttl);
    return true;
}

/* Bytes that are stored as they are. */
static bool is_quick_value(SV *value, UV plain_below)
{
    return is_plain_string(value) && !SvUTF8(value) && SvCUR(value) < plain_below;
}

/* Whether all arguments of a call of a client of Pinyon::Compat are of kinds that need no care. Sets what its ttl is, if it has
 * one. */
static bool is_quick(pTHX_ const call_method_of *method, SV **given, SSize_t count, UV plain_below, int64_t *ttl)
{
    if (!is_plain_string(given[0]))
        return false;
    switch (method->takes) {
    case TAKES_VALUE:
        return count >= 2 && is_quick_value(given[1], plain_below) && (count == 2 || short_ttl(aTHX_ given[2], ttl));
    case TAKES_BYTES: return count == 2 && is_quick_value(given[1], plain_below);
    case TAKES_TTL:
        if (count != 2 || !SvOK(given[1]) || !short_ttl(aTHX_ given[1], ttl))
            return false;
        if (*ttl == PINYON_FOREVER)
            *ttl = 0;
        return true;
    case TAKES_STALE: return count == 1;
    case TAKES_DELTA:
        return count == 1 || (count == 2 && SvIOK(given[1]) && !SvROK(given[1]) && !SvGMAGICAL(given[1]) && SvIVX(given[1]) >= 0);
    default: return false;
    }
}

/* Pushes a command of a client of Pinyon::Compat, whose `quick` are a batch, its Pinyon::Cache, and its Pinyon::Compat::Stored.
 * False, with nothing done, if that takes more than is done here. */
static bool push_quick(pTHX_ SV *self, unsigned number, SV **given, SSize_t count)
{
    SV           **quick = SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVHV ? hv_fetchs((HV *)SvRV(self), "quick", 0) : NULL;
    SV           **parts, **plain_below;
    MAGIC         *magic;
    cache_handle  *cache;
    pinyon_request request;
    pinyon_error  *error;
    call           one;
    char           room[1024];
    int64_t        ttl = PINYON_FOREVER;

    if (!quick || !SvROK(*quick))
        return false;
    parts       = AvARRAY((AV *)SvRV(*quick));
    magic       = usable_batch(parts[0]);
    cache       = (cache_handle *)attached(parts[1], &cache_table);
    plain_below = hv_fetchs((HV *)SvRV(parts[2]), "plain_below", 0);
    if (!cache || !plain_below || !magic)
        return false;
    if (!is_quick(aTHX_ & methods[number], given, count, SvUV(*plain_below), &ttl))
        return false;
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(parts[0])));
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(parts[1])));
    one.request = &request;
    one.room    = room;
    one.left    = sizeof room;
    prepare(aTHX_ cache, parts[1], &one, number, given, count > 2 ? 2 : count);
    if (methods[number].takes == TAKES_VALUE || methods[number].takes == TAKES_TTL)
        request.ttl = ttl;
    error       = batch_push(aTHX_ magic, &one);
    if (error)
        pinyon_error_free(error);
    return !error;
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
static SV *batch_finish(pTHX_ SV *object)
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
