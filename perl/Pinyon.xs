/* The front end of Perl, linked with the C interface (capi/).
 *
 * call.h prepares and answers a call on one key the same way for all callers; waiting.h runs it for a blocking program.
 * The library receives a value straight into a string of Perl's, and a short one into the scalar that the calling op has
 * for its result. Key and value of a call are copied, because a signal handler may change the caller's variables during
 * the call. With many plain keys, only the library copies them.
 *
 * Perl exits by longjmp. So the callback catches a handler that dies or ends the program, lets the library return, and
 * then re-raises. */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include <pthread.h>

#include "pinyon.h"

#ifndef G_LIST
#define G_LIST G_ARRAY
#endif
#ifndef is_utf8_invariant_string
#define is_utf8_invariant_string is_ascii_string
#endif
#ifndef newSVsv_nomg
#define newSVsv_nomg newSVsv
#endif
#ifndef dTHXa
#define dTHXa(context) dNOOP
#endif

#include "errors.h"
#include "apart.h"
#include "handle.h"
#include "serializers.h"
#include "values.h"
#include "call.h"
#include "credentials.h"
#include "waiting.h"
#include "many.h"
#include "reading.h"
#include "batches.h"
#include "settings.h"
#include "making.h"
#include "servers.h"
#include "locks.h"
#include "lock.h"
#include "operations.h"
#include "loop.h"
#include "beginning.h"
#include "loop_batches.h"
#include "loop_reading.h"
#include "migrating.h"
#include "coro.h"

/* What a client in Perl needs of its own object: one that stays when a handler of signals changes the caller's variable. */
#define SELF_THAT_STAYS(cache) \
    ((cache)->tells || (cache)->serialization > SERIALIZE_RAW ? sv_2mortal(newRV_inc(SvRV(ST(0)))) : ST(0))

#define ROOM 1024

/* The arguments from the second on, copied off Perl's stack, which may move. */
#define GIVEN(given, count)                                                                                            \
    SV     *given[MOST_ARGUMENTS];                                                                                     \
    SSize_t count = items - 1;                                                                                         \
    {                                                                                                                  \
        SSize_t index;                                                                                                 \
        for (index = 0; index < count && index < MOST_ARGUMENTS; index++)                                              \
            given[index] = ST(index + 1);                                                                              \
    }

MODULE = Pinyon    PACKAGE = Pinyon::Cache

PROTOTYPES: DISABLE

void
get(self, ...)
    SV *self
  ALIAS:
    gets         = METHOD_GETS
    gat          = METHOD_GAT
    gats         = METHOD_GATS
    get_with_ttl = METHOD_GET_WITH_TTL
    set          = METHOD_SET
    add          = METHOD_ADD
    replace      = METHOD_REPLACE
    append       = METHOD_APPEND
    prepend      = METHOD_PREPEND
    cas          = METHOD_CAS
    delete       = METHOD_DELETE
    touch        = METHOD_TOUCH
    incr         = METHOD_INCR
    decr         = METHOD_DECR
    meta         = METHOD_META
    _lease       = METHOD_LEASE
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ self);
        call           one;
        pinyon_request request;
        char           room[ROOM];
        SV            *result;
        GIVEN(given, count)

        one.request = &request;
        one.room    = room;
        one.left    = sizeof room;
        self        = SELF_THAT_STAYS(cache);
        prepare(aTHX_ cache, self, &one, (unsigned)ix, given, count);
        if (one.method->gives == GIVES_VALUE && cache->serialization <= SERIALIZE_RAW)
            one.target = target_of_op(aTHX);
        result = run_call(aTHX_ cache, self, &one);
        if (result) {
            ST(0) = result;
            if (result == one.target)
                SvREFCNT_dec_NN(result);
            else if (!SvIMMORTAL(result))
                sv_2mortal(result);
            XSRETURN(1);
        }
        if (GIMME_V == G_LIST)
            XSRETURN(0);
        XSRETURN_UNDEF;
    }


void
get_multi(self, ...)
    SV *self
  ALIAS:
    gets_multi = METHOD_GETS
  PPCODE:
    {
        cache_handle *cache  = cache_of(aTHX_ self);
        HV           *failed = NULL;
        SV          **items_given = &ST(1);
        SSize_t       count  = items - 1;
        HV           *results;

        self = SELF_THAT_STAYS(cache);
        if (count && SvROK(ST(1)) && SvTYPE(SvRV(ST(1))) == SVt_PVAV) {
            if (count == 3 && strEQ(SvPV_nolen(ST(2)), "failed") && SvROK(ST(3)) && SvTYPE(SvRV(ST(3))) == SVt_PVHV)
                failed = (HV *)SvRV(ST(3));
            else if (count != 1)
                throw_usage(aTHX_ newSVpvf("%s_multi takes keys, or a reference to an array of them and failed => "
                                           "\\%%errors", methods[ix].name));
            items_given = AvARRAY((AV *)SvRV(ST(1)));
            count       = av_len((AV *)SvRV(ST(1))) + 1;
        }
        ENTER;
        if (!cache->old && are_plain_keys(aTHX_ items_given, (size_t)count))
            results = read_many(aTHX_ self, cache, ix == METHOD_GETS, items_given, (size_t)count, failed);
        else
            results = run_many(aTHX_ self, (unsigned)ix, many_new(aTHX_ cache, items_given, (size_t)count), NULL, failed,
                               NULL);
        SvREFCNT_inc_simple_void_NN(results);
        LEAVE;
        ST(0) = sv_2mortal(newRV_noinc((SV *)results));
        XSRETURN(1);
    }

void
gat_multi(self, ttl, ...)
    SV *self
    SV *ttl
  ALIAS:
    gat_multi  = METHOD_GAT
    gats_multi = METHOD_GATS
  PPCODE:
    {
        cache_handle *cache = cache_of(aTHX_ self);
        HV           *results;
        self = SELF_THAT_STAYS(cache);
        ttl  = sv_2mortal(newSVsv(ttl));
        ENTER;
        results = run_many(aTHX_ self, (unsigned)ix, many_new(aTHX_ cache, &ST(2), (size_t)(items - 2)), ttl, NULL, NULL);
        SvREFCNT_inc_simple_void_NN(results);
        LEAVE;
        ST(0) = sv_2mortal(newRV_noinc((SV *)results));
        XSRETURN(1);
    }

void
set_multi(self, ...)
    SV *self
  ALIAS:
    set_multi     = METHOD_SET
    add_multi     = METHOD_ADD
    replace_multi = METHOD_REPLACE
    append_multi  = METHOD_APPEND
    prepend_multi = METHOD_PREPEND
    cas_multi     = METHOD_CAS
    delete_multi  = METHOD_DELETE
    touch_multi   = METHOD_TOUCH
    incr_multi    = METHOD_INCR
    decr_multi    = METHOD_DECR
  PPCODE:
    {
        cache_handle *cache    = cache_of(aTHX_ self);
        const bool    is_list  = GIMME_V == G_LIST;
        AV           *order    = is_list ? (AV *)sv_2mortal((SV *)newAV()) : NULL;
        HV           *results;
        SSize_t       index, count;

        self = SELF_THAT_STAYS(cache);
        ENTER;
        results = run_many(aTHX_ self, (unsigned)ix, many_new(aTHX_ cache, &ST(1), (size_t)(items - 1)), NULL, NULL, order);
        SvREFCNT_inc_simple_void_NN(results);
        LEAVE;
        sv_2mortal((SV *)results);
        if (!is_list) {
            ST(0) = sv_2mortal(newRV_inc((SV *)results));
            XSRETURN(1);
        }
        SPAGAIN;
        SP    = PL_stack_base + ax - 1;
        count = av_len(order) + 1;
        EXTEND(SP, count);
        for (index = 0; index < count; index++)
            PUSHs(sv_2mortal(SvREFCNT_inc_NN(AvARRAY(order)[index])));
        PUTBACK;
        return;
    }

void
_attach(self, names, values, form, tells)
    SV *self
    SV *names
    SV *values
    unsigned form
    bool tells
  PPCODE:
    {
        pinyon_error  *error = NULL;
        size_t         count;
        pinyon_option *options = options_of(aTHX_ array_of(aTHX_ names), array_of(aTHX_ values), &count);
        pinyon_client *client  = pinyon_client_new(options, count, &error);
        if (!client)
            throw_error(aTHX_ error);
        cache_attach(aTHX_ self, client, form, tells);
        XSRETURN(0);
    }

void
_attach_view(self, of, names, values)
    SV *self
    SV *of
    SV *names
    SV *values
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ of);
        pinyon_error  *error = NULL;
        size_t         count;
        pinyon_option *options = options_of(aTHX_ array_of(aTHX_ names), array_of(aTHX_ values), &count);
        pinyon_client *client  = pinyon_client_using(cache->client, options, count, &error);
        if (!client)
            throw_error(aTHX_ error);
        cache_attach(aTHX_ self, client, (unsigned)cache->serialization, cache->tells);
        XSRETURN(0);
    }

SV *
_storable_flags(self)
    SV *self
  CODE:
    RETVAL = newSVuv(cache_of(aTHX_ self)->storable_flags);
  OUTPUT:
    RETVAL

void
_give_back(self, key, token, stays)
    SV *self
    SV *key
    SV *token
    bool stays
  PPCODE:
    {
        cache_handle  *cache = cache_of(aTHX_ self);
        call           one;
        pinyon_request request;
        char           room[ROOM];
        SV            *given[1];
        SV            *result;

        given[0]    = key;
        one.request = &request;
        one.room    = room;
        one.left    = sizeof room;
        self        = SELF_THAT_STAYS(cache);
        prepare(aTHX_ cache, self, &one, METHOD_DELETE, given, 1);
        request.verb = PINYON_GIVE_BACK;
        request.cas  = (uint64_t)SvUV(token);
        request.with = stays ? PINYON_KEEP : 0;
        result       = run_call(aTHX_ cache, self, &one);
        ST(0)        = result;
        XSRETURN(1);
    }

SV *
_ask_servers(self, verb, value, delay)
    SV *self
    int verb
    SV *value
    SV *delay
  CODE:
    {
        cache_handle  *cache = cache_of(aTHX_ self);
        pinyon_request request;
        server_question(aTHX_ & request, verb, value, delay);
        self   = SELF_THAT_STAYS(cache);
        RETVAL = ask_servers(aTHX_ cache, self, &request);
    }
  OUTPUT:
    RETVAL

SV *
_next_event(self)
    SV *self
  CODE:
    RETVAL = next_event(aTHX_ cache_of(aTHX_ self));
    if (!RETVAL)
        XSRETURN_UNDEF;
  OUTPUT:
    RETVAL

SV *
_metrics(self)
    SV *self
  CODE:
    {
        char *text = pinyon_metrics(cache_of(aTHX_ self)->client);
        RETVAL     = newSVpv(text, 0);
        pinyon_text_free(text);
    }
  OUTPUT:
    RETVAL

void
_servers_of(self, key)
    SV *self
    SV *key
  PPCODE:
    {
        cache_handle   *cache = cache_of(aTHX_ self);
        pinyon_error   *error = NULL;
        pinyon_bytes    bytes = {NULL, 0};
        pinyon_answers *answers;
        pinyon_answer   given;
        waiting         wait;

        if (SvOK(key)) {
            STRLEN size;
            bytes.start = SvPV(sv_2mortal(newSVsv(key)), size);
            bytes.size  = size;
        }
        begin_wait(aTHX_ & wait);
        cache_enter(cache);
        answers = pinyon_servers_of(cache->client, bytes, &wait.host, &error);
        cache_leave(cache);
        SPAGAIN;
        SP = PL_stack_base + ax - 1;
        if (!answers) {
            if (wait.died || wait.exits) {
                pinyon_error_free(error);
                end_interrupted(aTHX_ & wait);
            }
            throw_error(aTHX_ error);
        }
        Zero(&given, 1, pinyon_answer);
        given.size = sizeof given;
        while (pinyon_next_answer(answers, &given))
            XPUSHs(sv_2mortal(text_sv(aTHX_ given.server)));
        pinyon_answers_free(answers);
        PUTBACK;
        return;
    }

SV *
namespace(self)
    SV *self
  CODE:
    {
        pinyon_bytes bytes = pinyon_namespace(cache_of(aTHX_ self)->client);
        RETVAL             = newSVpvn(bytes.start ? bytes.start : "", bytes.size);
    }
  OUTPUT:
    RETVAL

void
close(self)
    SV *self
  PPCODE:
    pinyon_client_close(cache_of(aTHX_ self)->client);
    XSRETURN(0);

MODULE = Pinyon    PACKAGE = Pinyon

void
_throw(error)
    SV *error
  PPCODE:
    throw_object(aTHX_ newSVsv(error));

const char *
_settings()
  CODE:
    RETVAL = pinyon_settings();
  OUTPUT:
    RETVAL

SV *
_new_owner()
  CODE:
    RETVAL = newSVuv((UV)pinyon_new_owner());
  OUTPUT:
    RETVAL

void
_kinds()
  PPCODE:
    {
        /* [name, parents …] of every kind of error. */
        int kind;
        for (kind = 1; pinyon_kind_name((pinyon_kind)kind); kind++) {
            AV         *fields = newAV();
            pinyon_kind parent;
            size_t      index;
            av_push(fields, class_of_kind(aTHX_ (pinyon_kind)kind));
            for (index = 0; (parent = pinyon_kind_parent((pinyon_kind)kind, index)); index++)
                av_push(fields, class_of_kind(aTHX_ parent));
            XPUSHs(sv_2mortal(newRV_noinc((SV *)fields)));
        }
    }

INCLUDE: making.xs

INCLUDE: locks.xs

INCLUDE: loop.xs

INCLUDE: loop_batches.xs

INCLUDE: credentials.xs

INCLUDE: migrating.xs

BOOT:
    pthread_atfork(NULL, NULL, count_fork);
    newXS("Pinyon::_make_apart", make_apart, __FILE__);
    newXS("Pinyon::_deliver_signals", deliver_signals, __FILE__);
