/* Perl code that C calls runs on a stack of its own. A `last` or `next` in it then fails there, and does not leave the frames
 * of C. What it returns is taken from that stack before the code is over.
 *
 * The scope restores which op Perl is at, and must be over when a method of Coro's client returns: Coro lets it go on from
 * there. */

#define PERL_CODE_BEGINS   \
    STMT_START             \
    {                      \
        ENTER;             \
        PUSHSTACKi(PERLSI_MAGIC); \
    }                      \
    STMT_END
#define PERL_CODE_ENDS \
    STMT_START         \
    {                  \
        POPSTACK;      \
        LEAVE;         \
    }                  \
    STMT_END

/* A function of ours that Perl calls: what it dies of is caught. */
typedef struct {
    SV *(*make)(pTHX_ void *about);
    void *about;
} apart_call;

static XSPROTO(make_apart)
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

/* What `make` makes of `about`: a new reference, or NULL. `failure` becomes what it dies of, or NULL. */
static SV *made_apart(pTHX_ SV *(*make)(pTHX_ void *about), void *about, SV **failure)
{
    dSP;
    apart_call what;
    SV        *made = NULL;
    SSize_t    count;
    what.make  = make;
    what.about = about;
    *failure   = NULL;
    ENTER;
    SAVETMPS;
    save_scalar(PL_errgv);
    die_unheard(aTHX);
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    mXPUSHi(PTR2IV(&what));
    PUTBACK;
    count = call_pv("Pinyon::_make_apart", G_LIST | G_EVAL);
    SPAGAIN;
    if (count > 0) {
        made = POPs;
        made = SvIMMORTAL(made) ? newSVsv(made) : SvREFCNT_inc(made);
    }
    PUTBACK;
    if (SvTRUE(ERRSV)) {
        SvREFCNT_dec(made);
        made     = NULL;
        *failure = newSVsv(ERRSV);
    }
    PERL_CODE_ENDS;
    FREETMPS;
    LEAVE;
    return made;
}
