/* Blocking calls of a method for many keys at once, on all servers. */

#include "pinyon_perl.h"

/* Calls of one method. */
typedef struct {
    cache_handle   *cache;
    size_t          size; /* of this memory, with what follows */
    size_t          count;
    SV            **items; /* a key each, or an array of arguments */
    call           *calls;
    pinyon_request *requests;
    pinyon_reply   *replies;
    char           *room;
    STRLEN          room_size;
} many_calls;

static void many_over(pTHX_ void *pointer)
{
    many_calls   *many  = (many_calls *)pointer;
    cache_handle *cache = many->cache;
    size_t        index;
    for (index = 0; index < many->count; index++) {
        SvREFCNT_dec_NN(many->items[index]);
        SvREFCNT_dec(many->calls[index].value);
        if (many->replies[index].memory || many->replies[index].error || many->replies[index].answers)
            pinyon_reply_clear(&many->replies[index]);
    }
    spare_given(cache, many, many->size);
    cache_leave(cache);
}

static STRLEN room_for(SV *sv)
{
    return sv && SvPOK(sv) && SvCUR(sv) < 1024 ? SvCUR(sv) : 0;
}

/* The arguments of one of the calls: an array of them, or a key alone. */
static SSize_t unpacked(pTHX_ const call_method_of *method, SV *item, SV **given, bool is_complete)
{
    AV     *list;
    SSize_t count, index;
    SvGETMAGIC(item);
    if (!SvROK(item) || SvTYPE(SvRV(item)) != SVt_PVAV || SvOBJECT(SvRV(item))) {
        if (!is_complete && method->takes != TAKES_KEY && method->takes != TAKES_STALE && method->takes != TAKES_DELTA)
            throw_usage(aTHX_ newSVpvf("%s_multi takes array references with %s each", method->name,
                                       shown_arguments[method->takes]));
        given[0] = item;
        return 1;
    }
    list  = (AV *)SvRV(item);
    count = av_len(list) + 1;
    if (count > MOST_ARGUMENTS || count < 1)
        refuse_arguments(aTHX_ method);
    if (!SvRMAGICAL((SV *)list)) {
        for (index = 0; index < count; index++)
            given[index] = AvARRAY(list)[index] ? AvARRAY(list)[index] : &PL_sv_undef;
        return count;
    }
    for (index = 0; index < count; index++) {
        SV **at      = av_fetch(list, index, 0);
        given[index] = at ? *at : &PL_sv_undef;
    }
    return count;
}

/* How much room the short strings of some items take. */
static STRLEN room_of_items(pTHX_ SV **items, size_t count)
{
    STRLEN room = 0;
    size_t index;
    PERL_UNUSED_CONTEXT;
    for (index = 0; index < count; index++) {
        SV *item = items[index];
        if (!item || !SvROK(item)) {
            room += room_for(item);
        } else if (SvTYPE(SvRV(item)) == SVt_PVAV && !SvRMAGICAL(SvRV(item))) {
            SV          **given = AvARRAY((AV *)SvRV(item));
            const SSize_t last  = AvFILLp((AV *)SvRV(item));
            if (last >= 0)
                room += room_for(given[0]);
            if (last >= 1)
                room += room_for(given[1]);
        }
    }
    return room;
}

/* Holds the items, which a handler of signals might let go. */
static many_calls *many_new(pTHX_ cache_handle *cache, SV **items, size_t count)
{
    const STRLEN room = room_of_items(aTHX_ items, count);
    many_calls  *many;
    size_t       index, size = sizeof *many + room
                               + count * (sizeof(SV *) + sizeof(call) + sizeof(pinyon_request) + sizeof(pinyon_reply));
    many            = (many_calls *)spare_taken(cache, &size);
    many->cache     = cache;
    many->size      = size;
    many->count     = count;
    many->replies   = (pinyon_reply *)(many + 1);
    many->requests  = (pinyon_request *)(many->replies + count);
    many->calls     = (call *)(many->requests + count);
    many->items     = (SV **)(many->calls + count);
    many->room      = (char *)(many->items + count);
    many->room_size = room;
    cache_enter(cache);
    for (index = 0; index < count; index++) {
        /* An array may have gaps. */
        many->items[index]         = SvREFCNT_inc_simple_NN(items[index] ? items[index] : &PL_sv_undef);
        many->calls[index].request = &many->requests[index];
        many->calls[index].value   = NULL;
        begin_reply(&many->replies[index]);
    }
    SAVEDESTRUCTOR_X(many_over, many);
    return many;
}

/* Prepares the calls. `common` is a last argument for all of them, or NULL. */
static void many_prepare(pTHX_ many_calls *many, SV *self, unsigned number, SV *common, SV *tags)
{
    const pinyon_tags *of_all = tags ? tags_of(aTHX_ many->cache, tags) : NULL;
    SV        **item  = many->items;
    size_t      count = many->count;
    char       *at    = many->room;
    SV         *given[MOST_ARGUMENTS + 1];
    size_t      index;

    for (index = 0; index < count; index++) {
        call   *one     = &many->calls[index];
        SSize_t present = 1;
        given[0]        = item[index];
        if (SvROK(item[index]) || call_methods[number].takes != TAKES_KEY)
            present = unpacked(aTHX_ & call_methods[number], item[index], given, common != NULL);
        if (common)
            given[present++] = common;
        one->room = at;
        one->left = many->room_size - (STRLEN)(at - many->room);
        prepare_call(aTHX_ many->cache, self, one, number, given, present);
        if (of_all && !one->request->tags)
            one->request->tags = of_all;
        at = one->room;
    }
}

static SV *key_of_item(pTHX_ SV *item)
{
    SV **first;
    if (!SvROK(item) || SvTYPE(SvRV(item)) != SVt_PVAV || SvOBJECT(SvRV(item)))
        return item;
    if (!SvRMAGICAL(SvRV(item)) && av_len((AV *)SvRV(item)) >= 0 && AvARRAY((AV *)SvRV(item))[0])
        return AvARRAY((AV *)SvRV(item))[0];
    first = av_fetch((AV *)SvRV(item), 0, 0);
    return first ? *first : &PL_sv_undef;
}

static void many_run(pTHX_ cache_handle *cache, SV *self, many_calls *many)
{
    waiting       wait;
    pinyon_status status;
    begin_wait(aTHX_ & wait);
    status = pinyon_run_many(cache->client, many->requests, many->replies, many->count, &wait.host);
    check_after_wait(aTHX_ cache, self, &wait, status);
}

typedef struct {
    cache_handle *cache;
    SV           *self;
    call         *one;
    pinyon_reply *reply;
} answer_of_one;

static SV *answer_one(pTHX_ void *about)
{
    const answer_of_one *of = (const answer_of_one *)about;
    return result_of(aTHX_ of->cache, of->self, of->one, of->reply);
}

/* The result of one of many; a new reference, or NULL for a miss. `failure`: why its value cannot be read, or NULL. */
static SV *many_answer(pTHX_ cache_handle *cache, SV *self, many_calls *many, size_t index, SV **failure)
{
    call         *one   = &many->calls[index];
    pinyon_reply *reply = &many->replies[index];
    pinyon_reply  plain = *reply;
    answer_of_one of;
    if (reply->value.start || reply->memory)
        plain = settled_reply(aTHX_ one, reply);
    *failure = NULL;
    if (is_plain_value(aTHX_ cache, one, &plain))
        return result_of(aTHX_ cache, self, one, &plain);
    of.cache = cache;
    of.self  = self;
    of.one   = one;
    of.reply = &plain;
    return made_apart(aTHX_ answer_one, &of, failure);
}

SV *tags_of_many(pTHX_ unsigned number, SV **items, size_t *count)
{
    const call_takes takes = call_methods[number].takes;
    SV              *name  = *count > 1 ? items[*count - 2] : NULL;
    PERL_UNUSED_CONTEXT;
    if (!name || (takes != TAKES_VALUE && takes != TAKES_CAS) || SvROK(name) || !SvPOK(name) || strNE(SvPVX(name), "tags"))
        return NULL;
    *count -= 2;
    return items[*count + 1];
}

HV *run_many(pTHX_ SV *self, unsigned number, SV **items, size_t count, SV *common, SV *tags, HV *failed, AV *order)
{
    HV              *results  = (HV *)sv_2mortal((SV *)newHV());
    cache_handle    *cache    = cache_of(aTHX_ self);
    const call_gives gives    = call_methods[number].gives;
    const bool       reads    = gives != GIVES_TRUTH && gives != GIVES_CHANGED && gives != GIVES_NUMBER;
    failures         failures = {results, failed, NULL};
    many_calls      *many;
    size_t           index;

    ENTER;
    many = many_new(aTHX_ cache, items, count);
    many_prepare(aTHX_ many, self, number, common, tags);
    many_run(aTHX_ cache, self, many);
    make_room_in(aTHX_ results, many->count);
    for (index = 0; index < many->count; index++) {
        SV *value;
        SV *failure = NULL;
        if (many->replies[index].status < 0) {
            if (many->replies[index].error)
                note_failure(aTHX_ & failures, many->replies[index].error);
            if (order)
                av_push(order, newSV(0));
            continue;
        }
        if (gives == GIVES_TRUTH)
            value = many->replies[index].status == PINYON_DONE ? &PL_sv_yes : &PL_sv_no;
        else
            value = many_answer(aTHX_ cache, self, many, index, &failure);
        if (failure)
            note_unreadable(aTHX_ & failures, key_of_item(aTHX_ many->items[index]), failure);
        if (!value && reads)
            continue;
        if (order)
            av_push(order, value ? (SvIMMORTAL(value) ? value : newSVsv(value)) : newSV(0));
        value = value ? own_copy(aTHX_ value) : newSV(0);
        if (!hv_store_ent(results, key_of_item(aTHX_ many->items[index]), value, 0))
            SvREFCNT_dec(value);
    }
    throw_failures(aTHX_ & failures);
    SvREFCNT_inc_simple_void_NN(results);
    LEAVE;
    return results;
}
