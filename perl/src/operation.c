/* Operations: what was begun in an event loop, from the request to the answer. */

#include "pinyon_perl.h"

#define MOST_SPARES 256

void operation_link(operation **list, operation *begun)
{
    begun->before = NULL;
    begun->after  = *list;
    if (*list)
        (*list)->before = begun;
    *list = begun;
}

void operation_unlink(operation *begun)
{
    loop_handle *loop = begun->loop;
    if (!loop)
        return;
    if (begun->before)
        begun->before->after = begun->after;
    else if (loop->begun == begun)
        loop->begun = begun->after;
    else if (loop->orphans == begun)
        loop->orphans = begun->after;
    if (begun->after)
        begun->after->before = begun->before;
    begun->before = begun->after = NULL;
    begun->loop                  = NULL;
}

static void operation_clear(pTHX_ operation *begun)
{
    memset(begun, 0, offsetof(operation, short_file));
    begun->reply.size = sizeof begun->reply;
#ifdef MULTIPLICITY
    begun->one.my_perl = my_perl;
#endif
}

operation *operation_new(pTHX_ SV *self)
{
    operation *begun;
    Newx(begun, 1, operation);
    operation_clear(aTHX_ begun);
    begun->self = SvREFCNT_inc_NN(SvRV(self));
    return begun;
}

operation *operation_of_loop(pTHX_ loop_handle *loop, SV *self)
{
    operation *begun = loop->spare;
    if (begun) {
        loop->spare = begun->after;
        loop->spares--;
    } else {
        Newx(begun, 1, operation);
    }
    operation_clear(aTHX_ begun);
    begun->self = SvREFCNT_inc_simple_NN(SvRV(self));
    begun->home = loop;
    loop->used++;
    return begun;
}

static void operation_over(operation *begun)
{
    loop_handle *home = begun->home;
    if (home && !home->is_dropped && home->spares < MOST_SPARES) {
        begun->after = home->spare;
        home->spare  = begun;
        home->spares++;
    } else {
        Safefree(begun);
    }
    if (home && !--home->used && home->is_dropped)
        Safefree(home);
}

void operation_release(pTHX_ operation *begun)
{
    if (--begun->holders)
        return;
    if (begun->reply.memory || begun->reply.answers || begun->reply.error || begun->reply.lock)
        pinyon_reply_clear(&begun->reply);
    pinyon_lock_free(begun->lock);
    if (begun->wanted)
        wanted_over(aTHX_ begun->wanted);
    SvREFCNT_dec(begun->one.value);
    SvREFCNT_dec(begun->one.target);
    SvREFCNT_dec(begun->value);
    SvREFCNT_dec(begun->failure);
    SvREFCNT_dec(begun->callback);
    SvREFCNT_dec(begun->coroutine);
    SvREFCNT_dec(begun->object);
    SvREFCNT_dec(begun->self);
    if (begun->file != begun->short_file)
        Safefree(begun->file);
    operation_over(begun);
}

void remember_place(pTHX_ operation *begun)
{
    const COP  *place = users_place(aTHX);
    const char *file  = CopFILE(place) ? CopFILE(place) : "-";
    const size_t size = strlen(file) + 1;
    begun->file       = size <= SHORT_FILE ? begun->short_file : (char *)safemalloc(size);
    begun->line       = CopLINE(place);
    Copy(file, begun->file, size, char);
}

static bool is_our_error(SV *error) { return SvROK(error) && SvOBJECT(SvRV(error)) && SvTYPE(SvRV(error)) == SVt_PVHV; }

void place_error(pTHX_ SV *error, const char *file, line_t line)
{
    if (!is_our_error(error) || !hv_exists((HV *)SvRV(error), "line", 4))
        return;
    hv_stores((HV *)SvRV(error), "file", newSVpv(file, 0));
    hv_stores((HV *)SvRV(error), "line", newSVuv(line));
}

SV *read_call(pTHX_ operation *begun)
{
    SV *self = begun->is_plain ? NULL : sv_2mortal(newRV_inc(begun->self));
    return result_of(aTHX_ begun->cache, self, &begun->one, &begun->reply);
}

SV *read_servers(pTHX_ operation *begun)
{
    return server_answers(aTHX_ & begun->reply, begun->verb);
}

SV *read_nothing(pTHX_ operation *begun)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_VAR(begun);
    return NULL;
}

static SV *read_of(pTHX_ void *begun) { return ((operation *)begun)->read(aTHX_ (operation *)begun); }

void read_answer(pTHX_ operation *begun)
{
    if (begun->reply.status < 0 && begun->reply.error) {
        pinyon_error *error = begun->reply.error;
        begun->reply.error  = NULL;
        begun->failure      = begun->read == read_servers
                                  ? partial_error(aTHX_ error, read_servers(aTHX_ begun))
                                  : error_object_taken(aTHX_ error);
    } else if (begun->is_plain) {
        SV *value    = begun->read(aTHX_ begun);
        begun->value = value;
    } else {
        begun->value = made_apart(aTHX_ read_of, begun, &begun->failure);
    }
    if (begun->failure && begun->file)
        place_error(aTHX_ begun->failure, begun->file, begun->line);
}

/* The memory of its value stays with the reply, to be used again. */
void take_over(pTHX_ operation *begun, pinyon_reply *reply)
{
    call *one = &begun->one;
    begun->reply             = *reply;
    begun->reply.memory      = NULL;
    begun->reply.memory_size = 0;
    if (reply->value.start)
        own_value(aTHX_ one, reply);
    begun->reply.value.start = NULL;
    reply->error             = NULL;
    reply->answers           = NULL;
    reply->lock              = NULL;
}
