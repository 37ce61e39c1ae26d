/* Names of locks and permits of pools, as Perl gives them. */

#include "pinyon_perl.h"

#define PERMITS "permits are a hash such as {stripe => 2}, or {stripe => [2, 10]} with the limit"

SV *name_kept(pTHX_ SV *name)
{
    SvGETMAGIC(name);
    if (!SvOK(name) || (SvROK(name) && !SvAMAGIC(name)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("the name of a lock is a string, not %s", SvOK(name) ? "a reference" : "undef"));
    return newSVsv_nomg(name);
}

AV *several_names(SV *names)
{
    return SvROK(names) && SvTYPE(SvRV(names)) == SVt_PVAV && !SvOBJECT(SvRV(names)) ? (AV *)SvRV(names) : NULL;
}

SV *name_at(pTHX_ AV *list, size_t index)
{
    SV **at = av_fetch(list, (SSize_t)index, 0);
    return at ? *at : &PL_sv_undef;
}

void *mortal_room(pTHX_ size_t size)
{
    return SvPVX(sv_2mortal(newSV(size + 1)));
}

pinyon_bytes *names_given(pTHX_ SV *names, size_t *count)
{
    AV           *list;
    size_t        index;
    pinyon_bytes *bytes;

    SvGETMAGIC(names);
    list   = several_names(names);
    *count = list ? (size_t)(av_len(list) + 1) : 1;
    bytes  = (pinyon_bytes *)mortal_room(aTHX_ *count * sizeof *bytes);
    for (index = 0; index < *count; index++) {
        SV *name           = sv_2mortal(name_kept(aTHX_ list ? name_at(aTHX_ list, index) : names));
        bytes[index].start = SvPV(name, bytes[index].size);
    }
    return bytes;
}

/* ---- Permits ---------------------------------------------------------------------------------------------------------- */

/* What no pool can have becomes 0 or the largest number, which the library refuses by name. */
static uint32_t number_of_permits(pTHX_ SV *given, const char *what)
{
    SvGETMAGIC(given);
    if (!SvOK(given) || SvROK(given) || !looks_like_number(given))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("%s is a whole number, not %" SVf, what,
                            SVfARG(SvOK(given) ? given : sv_2mortal(newSVpvs("undef")))));
    if (SvNV_nomg(given) < 1)
        return 0;
    return SvNV_nomg(given) < (NV)UINT32_MAX ? (uint32_t)SvUV_nomg(given) : UINT32_MAX;
}

/* For the library, 0 is the limit that was told before. */
static uint32_t limit_of_permits(pTHX_ SV *given)
{
    const uint32_t limit = number_of_permits(aTHX_ given, "a limit of permits");
    if (!limit)
        throw_kind(aTHX_ PINYON_E_INVALID_NAME,
                   newSVpvf("the limit of permits is %" SVf ": give 1 to 1000000", SVfARG(given)));
    return limit;
}

static void fill_permits(pTHX_ pinyon_permits *permits, SV *pool, SV *count, SV *limit)
{
    SV *name            = sv_2mortal(name_kept(aTHX_ pool));
    permits->pool.start = SvPV(name, permits->pool.size);
    permits->count      = count ? number_of_permits(aTHX_ count, "a number of permits") : 1;
    permits->limit      = limit ? limit_of_permits(aTHX_ limit) : 0;
}

pinyon_permits *permits_of_pool(pTHX_ SV *pool, SV *count, SV *limit)
{
    pinyon_permits *permits = (pinyon_permits *)mortal_room(aTHX_ sizeof *permits);
    fill_permits(aTHX_ permits, pool, count, limit);
    return permits;
}

pinyon_permits *permits_given(pTHX_ SV *given, size_t *count)
{
    HV             *pools;
    HE             *entry;
    pinyon_permits *permits;

    if (!SvROK(given) || SvTYPE(SvRV(given)) != SVt_PVHV || SvOBJECT(SvRV(given)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs(PERMITS));
    pools   = (HV *)sv_2mortal((SV *)newHVhv((HV *)SvRV(given)));
    permits = (pinyon_permits *)mortal_room(aTHX_ HvUSEDKEYS(pools) * sizeof *permits);
    *count  = 0;
    hv_iterinit(pools);
    while ((entry = hv_iternext(pools))) {
        SV *wanted = hv_iterval(pools, entry);
        AV *pair   = several_names(wanted);
        if (pair && av_len(pair) != 1)
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs(PERMITS));
        fill_permits(aTHX_ & permits[(*count)++], hv_iterkeysv(entry), pair ? name_at(aTHX_ pair, 0) : wanted,
                     pair ? name_at(aTHX_ pair, 1) : NULL);
    }
    return permits;
}
