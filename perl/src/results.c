/* The reply to a call as what its method returns. */

#include "pinyon_perl.h"

/* Short values go into the target of the caller's op, as those of Perl's own functions do, instead of a new scalar. It
 * keeps its memory, so long values do not. */
#define LONGEST_IN_TARGET 1000

SV *target_of_op(pTHX)
{
    return PL_op->op_type == OP_ENTERSUB && PL_op->op_private & OPpENTERSUB_HASTARG ? PAD_SV(PL_op->op_targ) : NULL;
}

static SV *target_of_size(pTHX_ SV *target, size_t size)
{
    if (SvTHINKFIRST(target))
        sv_force_normal_flags(target, SV_COW_DROP_PV);
    SvUPGRADE(target, SVt_PV);
    SvGROW(target, size + 1);
    /* A string without room is copied by an assignment; one with room would be shared, and be a new one here each time. */
    SvLEN_set(target, size + 1);
    return SvREFCNT_inc_simple_NN(target);
}

void *place_value(void *context, size_t size, uint32_t flags)
{
    call *one = (call *)context;
    SV   *value;
    dTHXa(one->my_perl);

    value = one->target && size <= LONGEST_IN_TARGET ? target_of_size(aTHX_ one->target, size) : newSV(size ? size : 1);
    SvPOK_only(value);
    SvCUR_set(value, size);
    *SvEND(value) = '\0';
    SvREFCNT_dec(one->value);
    one->value = value;
    one->flags = flags;
    return SvPVX(value);
}

/* A value that the old client of a migrating one reads. */
static COLD SV *value_of_old(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    SV **old = self ? hv_fetchs((HV *)SvRV(self), "old", 0) : NULL;
    return value_of(aTHX_ cache->old, old ? *old : NULL, stored, flags);
}

static HOT SV *taken_value(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *stored = one->value ? one->value : newSVpvs("");
    one->value = NULL;
    if (UNLIKELY(reply->marks & PINYON_OF_OLD))
        return value_of_old(aTHX_ cache, self, stored, reply->client_flags);
    return value_of(aTHX_ cache, self, stored, reply->client_flags);
}

SV *pair_sv(pTHX_ SV *value, SV *other)
{
    AV *both = newAV();
    av_extend(both, 1);
    av_push(both, value);
    av_push(both, other);
    return newRV_noinc((SV *)both);
}

/* A CAS token; or the seconds that an item has left, undef if it never expires. */
static SV *number_beside(pTHX_ const pinyon_reply *reply)
{
    if (reply->marks & PINYON_HAS_CAS)
        return newSVuv((UV)reply->cas);
    return reply->ttl < 0 ? newSV(0) : newSViv((IV)reply->ttl);
}

static SV *metadata(pTHX_ const pinyon_reply *reply)
{
    HV *fields = newHV();
    hv_stores(fields, "size", newSVuv(reply->item_size));
    hv_stores(fields, "flags", newSVuv(reply->client_flags));
    hv_stores(fields, "cas", newSVuv(reply->cas));
    hv_stores(fields, "ttl", reply->ttl < 0 ? newSV(0) : newSViv((IV)reply->ttl));
    hv_stores(fields, "last_access", newSVuv(reply->last_access));
    hv_stores(fields, "fetched", boolSV(reply->marks & PINYON_FETCHED));
    return newRV_noinc((SV *)fields);
}

/* [state, token, whether a stale value stays, value]; the value is left out if there is none. "unreadable": there is one that
 * cannot be read. A stale one that cannot be read is as good as none: another caller makes a new one. */
static SV *leased(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    AV         *fields = newAV();
    SV         *result = sv_2mortal(newRV_noinc((SV *)fields));
    const char *state  = reply->status == PINYON_WON       ? "won"
                         : reply->status == PINYON_STALE   ? "stale"
                         : reply->status == PINYON_FILLING ? "filling"
                         : reply->status == PINYON_MISS    ? "filling"
                                                           : "hit";
    SV         *value = NULL;
    /* Reading the value, and what makes an object of this, runs Perl code, out of which a handler of signals may die. */
    if (reply->status == PINYON_WON && reply->marks & PINYON_HAS_CAS && self && !cache->loop)
        win_attach(aTHX_ result, self, one, reply);
    if (reply->marks & PINYON_HAS_VALUE) {
        SV *stored = one->value ? one->value : newSVpvs("");
        one->value = NULL;
        value      = self ? value_or_miss(aTHX_ self, stored, reply->client_flags, true)
                          : value_read(aTHX_ cache, self, stored, reply->client_flags);
        if (!value && reply->status == PINYON_DONE)
            state = "unreadable";
        if (!value && reply->status == PINYON_STALE)
            state = "filling";
    }
    av_push(fields, newSVpv(state, 0));
    av_push(fields, reply->marks & PINYON_HAS_CAS ? newSVuv(reply->cas) : newSV(0));
    av_push(fields, newSViv(reply->marks & PINYON_HAS_STALE ? 1 : 0));
    if (value)
        av_push(fields, value);
    return SvREFCNT_inc_NN(result);
}

SV *result_of(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *value;
    switch (one->method->gives) {
    case GIVES_TRUTH: return reply->status == PINYON_DONE ? &PL_sv_yes : &PL_sv_no;
    case GIVES_CHANGED:
        if (reply->status == PINYON_MISS)
            return NULL;
        return reply->status == PINYON_DONE ? &PL_sv_yes : &PL_sv_no;
    case GIVES_LEASE: return leased(aTHX_ cache, self, one, reply);
    default: break;
    }
    if (reply->status != PINYON_DONE)
        return NULL;
    switch (one->method->gives) {
    case GIVES_NUMBER: return newSVuv((UV)reply->number);
    case GIVES_METADATA: return metadata(aTHX_ reply);
    case GIVES_PAIR:
        value = taken_value(aTHX_ cache, self, one, reply);
        if (!value)
            return NULL;
        return pair_sv(aTHX_ value, number_beside(aTHX_ reply));
    default: return taken_value(aTHX_ cache, self, one, reply);
    }
}

bool is_plain_value(pTHX_ cache_handle *cache, call *one, const pinyon_reply *reply)
{
    if (reply->marks & PINYON_OF_OLD)
        cache = cache->old;
    return !one->value || is_plain_stored(aTHX_ cache, one->value, reply->client_flags);
}

void own_value(pTHX_ call *one, const pinyon_reply *reply)
{
    SvREFCNT_dec(one->value);
    one->value = newSVpvn(reply->value.start, reply->value.size);
}

pinyon_reply settled_reply(pTHX_ call *one, pinyon_reply *reply)
{
    pinyon_reply plain = *reply;
    if (reply->value.start)
        own_value(aTHX_ one, reply);
    plain.value.start = NULL;
    plain.error       = NULL;
    reply->error      = NULL;
    if (reply->memory || reply->answers)
        pinyon_reply_clear(reply);
    return plain;
}
