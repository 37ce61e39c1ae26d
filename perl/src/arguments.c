/* Arguments in Perl as the library takes them. */

#include "pinyon_perl.h"

pinyon_bytes kept_bytes(pTHX_ call *one, SV *sv, const char *start, STRLEN size)
{
    pinyon_bytes bytes;
    bytes.size = size;
    if (size <= one->left) {
        Copy(start, one->room, size, char);
        bytes.start = one->room;
        one->room += size;
        one->left -= size;
        return bytes;
    }
    if (sv && SvPOK(sv) && !SvGMAGICAL(sv)) {
        SV *copy    = sv_2mortal(newSVsv_nomg(sv)); /* shares the bytes of a large one */
        bytes.start = SvPVX_const(copy);
        return bytes;
    }
    bytes.start = SvPVX_const(sv_2mortal(newSVpvn(start, size)));
    return bytes;
}

int64_t ttl_of(pTHX_ SV *ttl, int64_t none, const char *name)
{
    NV seconds;
    SvGETMAGIC(ttl);
    if (!SvOK(ttl))
        return 0;
    if (SvIOK(ttl) && !SvIsUV(ttl))
        return SvIVX(ttl) == 0 ? none : SvIVX(ttl);
    if (SvROK(ttl) ? !SvAMAGIC(ttl) : !looks_like_number(ttl))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(ttl)));
    seconds = SvNV_nomg(ttl);
    /* The library stores an item for as long as the server can keep it. */
    if (seconds >= 9e18 && strEQ(name, "ttl"))
        return PINYON_FOREVER - 1;
    if (!(seconds < 9e18))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(ttl)));
    if (seconds < 0)
        return -1;
    return seconds == 0 ? none : (int64_t)Perl_ceil(seconds);
}

uint64_t count_of(pTHX_ SV *number, const char *name)
{
    SvGETMAGIC(number);
    if (SvIOK(number) && (SvIsUV(number) || SvIVX(number) >= 0))
        return (uint64_t)SvUVX(number);
    if (SvOK(number) && !SvROK(number) && looks_like_number(number)) {
        UV given = SvUV_nomg(number);
        if (SvNV_nomg(number) == (NV)given)
            return (uint64_t)given;
    }
    throw_usage(aTHX_ newSVpvf("%s is a whole number from 0 to 2**64-1, not %" SVf, name,
                               SVfARG(SvOK(number) ? number : sv_2mortal(newSVpvs("undef")))));
    return 0;
}

double seconds_of(pTHX_ SV *given, double none, const char *name)
{
    SvGETMAGIC(given);
    if (!SvOK(given))
        return none;
    if (SvROK(given) ? !SvAMAGIC(given) : !looks_like_number(given))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(given)));
    return SvNV_nomg(given);
}

double above_zero(pTHX_ SV *given, const char *name)
{
    const double seconds = seconds_of(aTHX_ given, 0, name);
    if (!(seconds > 0))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds above 0, not %" SVf, name,
                                   SVfARG(SvOK(given) ? given : sv_2mortal(newSVpvs("undef")))));
    return seconds;
}

pinyon_bytes utf8_or_none(pTHX_ SV *given)
{
    pinyon_bytes bytes = {NULL, 0};
    STRLEN       size;
    if (given && SvOK(given)) {
        bytes.start = SvPVutf8(given, size);
        bytes.size  = size;
    }
    return bytes;
}

AV *array_of(pTHX_ SV *reference)
{
    if (!SvROK(reference) || SvTYPE(SvRV(reference)) != SVt_PVAV)
        croak("an array reference is needed");
    return (AV *)SvRV(reference);
}

pinyon_option *options_of(pTHX_ SV *names, SV *values, size_t *count)
{
    AV            *list    = array_of(aTHX_ names);
    AV            *given   = array_of(aTHX_ values);
    const SSize_t  last    = av_len(list);
    pinyon_option *options = (pinyon_option *)(void *)SvPVX(sv_2mortal(newSV((size_t)(last + 2) * sizeof *options)));
    SSize_t        index;

    *count = (size_t)(last + 1);
    for (index = 0; index <= last; index++) {
        SV   **value = av_fetch(given, index, 0);
        STRLEN size  = 0;
        options[index].name        = SvPV_nolen(*av_fetch(list, index, 0));
        options[index].value.start = value && SvOK(*value) ? SvPV(*value, size) : NULL;
        options[index].value.size  = size;
    }
    return options;
}
