/* Perl code that C calls runs on a stack of its own: see PERL_CODE_BEGINS in the header. */

#include "pinyon_perl.h"

SV *perl_result(pTHX_ const char *name, I32 how, SV *const *arguments, SSize_t count)
{
    dSP;
    SV     *result = NULL;
    SSize_t index, returned;

    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, count);
    for (index = 0; index < count; index++)
        PUSHs(arguments[index]);
    PUTBACK;
    returned = how & G_METHOD ? call_method(name, how & ~G_METHOD) : call_pv(name, how);
    SPAGAIN;
    if (returned > 0)
        result = SvREFCNT_inc(POPs);
    PUTBACK;
    PERL_CODE_ENDS;
    return result;
}

void tell_perl(pTHX_ const char *method, SV *object, SV *what)
{
    SV *arguments[2];
    arguments[0] = object;
    arguments[1] = what;
    ENTER;
    SAVETMPS;
    perl_result(aTHX_ method, G_METHOD | G_VOID | G_DISCARD, arguments, what ? 2 : 1);
    FREETMPS;
    LEAVE;
}

/* A function of ours that Perl calls: what it dies of is caught. */
typedef struct {
    SV *(*make)(pTHX_ void *about);
    void *about;
} apart_call;

XSPROTO(make_apart)
{
    dXSARGS;
    const apart_call *what = INT2PTR(const apart_call *, SvIV(ST(0)));
    SV               *made = what->make(aTHX_ what->about);
    PERL_UNUSED_VAR(items);
    if (!made)
        XSRETURN_EMPTY;
    ST(0) = sv_2mortal(made);
    XSRETURN(1);
}

SV *made_apart(pTHX_ SV *(*make)(pTHX_ void *about), void *about, SV **failure)
{
    apart_call what;
    SV        *made, *argument;
    what.make  = make;
    what.about = about;
    *failure   = NULL;
    ENTER;
    SAVETMPS;
    save_scalar(PL_errgv);
    die_unheard(aTHX);
    argument = sv_2mortal(newSViv(PTR2IV(&what)));
    made     = perl_result(aTHX_ "Pinyon::_make_apart", G_LIST | G_EVAL, &argument, 1);
    if (made && SvIMMORTAL(made))
        made = newSVsv(made);
    if (SvTRUE(ERRSV)) {
        SvREFCNT_dec(made);
        made     = NULL;
        *failure = newSVsv(ERRSV);
    }
    FREETMPS;
    LEAVE;
    return made;
}
