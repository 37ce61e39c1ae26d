/* The clients in Pinyon::Compat: a quick way for commands whose reply nobody wants. */

#include "pinyon_perl.h"

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

/* Whether all arguments of a call are of kinds that need no care. Sets what its ttl is, if it has one. */
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
        return count == 1
               || (count == 2 && SvIOK(given[1]) && !SvROK(given[1]) && !SvGMAGICAL(given[1]) && SvIVX(given[1]) >= 0);
    default: return false;
    }
}

/* The client's `quick` are a batch, its Pinyon::Cache, and its Pinyon::Compat::Stored. */
bool push_quick(pTHX_ SV *self, unsigned number, SV **given, SSize_t count)
{
    SV           **quick = SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVHV ? hv_fetchs((HV *)SvRV(self), "quick", 0) : NULL;
    SV           **parts, **plain_below;
    MAGIC         *magic;
    cache_handle  *cache;
    pinyon_error  *error;
    lone_call      alone;
    int64_t        ttl = PINYON_FOREVER;

    if (!quick || !SvROK(*quick))
        return false;
    parts       = AvARRAY((AV *)SvRV(*quick));
    magic       = usable_batch(parts[0]);
    cache       = (cache_handle *)attached_handle(parts[1], &cache_table);
    plain_below = hv_fetchs((HV *)SvRV(parts[2]), "plain_below", 0);
    if (!cache || !plain_below || !magic)
        return false;
    if (!is_quick(aTHX_ & call_methods[number], given, count, SvUV(*plain_below), &ttl))
        return false;
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(parts[0])));
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(parts[1])));
    prepare_alone(aTHX_ cache, parts[1], &alone, number, given, count > 2 ? 2 : count);
    if (call_methods[number].takes == TAKES_VALUE || call_methods[number].takes == TAKES_TTL)
        alone.request.ttl = ttl;
    error = batch_push(aTHX_ magic, &alone.one);
    if (error)
        pinyon_error_free(error);
    return !error;
}
