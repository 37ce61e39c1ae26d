/* Serializers that are written in Perl. */

/* The bytes of a value, a mortal. */
static SV *dumped(pTHX_ SV *self, SV *value, uint32_t *flags)
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

/* The value of stored bytes: a new reference. */
static SV *loaded(pTHX_ SV *self, SV *stored, uint32_t flags)
{
    dSP;
    SV *value;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    PUSHs(self);
    PUSHs(stored);
    mPUSHu(flags);
    PUTBACK;
    call_method("_loaded", G_SCALAR);
    SPAGAIN;
    value = SvREFCNT_inc(POPs);
    PUTBACK;
    PERL_CODE_ENDS;
    return value;
}
