/* Serializers that are written in Perl. */

#include "pinyon_perl.h"

SV *dumped_by_perl(pTHX_ SV *self, SV *value, uint32_t *flags)
{
    dSP;
    int count;
    SV *bytes, *given;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, 2);
    PUSHs(self);
    PUSHs(value);
    PUTBACK;
    count = call_method("_dumped", G_LIST);
    SPAGAIN;
    if (count != 2)
        croak("a serializer's dump returns bytes and flags");
    given = POPs;
    bytes = POPs;
    PUTBACK;
    PERL_CODE_ENDS;
    *flags = (uint32_t)SvUV(given);
    return bytes;
}

SV *loaded_by_perl(pTHX_ SV *self, SV *stored, uint32_t flags)
{
    SV *arguments[3];
    arguments[0] = self;
    arguments[1] = stored;
    arguments[2] = sv_2mortal(newSVuv(flags));
    return perl_result(aTHX_ "_loaded", G_METHOD | G_SCALAR, arguments, 3);
}

/* Perl code catches what reading it dies of. */
SV *value_or_miss(pTHX_ SV *self, SV *stored, uint32_t flags, bool is_lease)
{
    SV *arguments[4];
    arguments[0] = self;
    arguments[1] = sv_2mortal(stored);
    arguments[2] = sv_2mortal(newSVuv(flags));
    arguments[3] = boolSV(is_lease);
    return perl_result(aTHX_ "_read_or_pass_over", G_METHOD | G_LIST, arguments, 4);
}

bool loads_by_perl(const cache_handle *cache)
{
    return cache && (cache->serialization >= SERIALIZE_STORABLE || loads_by_perl(cache->old));
}
