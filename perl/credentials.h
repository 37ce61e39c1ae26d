/* Subs that return credentials. Only Perl's own thread may call them, so the library leaves its questions here, and they
 * are answered when it waits for this thread, at the end of a loop's turn, and after calls of locks. */

typedef struct left_question {
    pinyon_credentials_question *question;
    UV                           number; /* the sub's, in Pinyon::Credentials */
    struct left_question        *next;
} left_question;

/* The last one first. Any thread adds to it, and a forked child may inherit it: so no mutex guards it. */
static left_question *questions_left;

static bool credentials_are_asked(void)
{
    return __atomic_load_n(&questions_left, __ATOMIC_RELAXED) != NULL;
}

static void leave_questions(left_question *first, left_question *last)
{
    last->next = __atomic_load_n(&questions_left, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&questions_left, &last->next, first, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* Called by the library, perhaps in a thread of its own. */
static void leave_question(void *number, pinyon_credentials_question *question)
{
    left_question *left = (left_question *)malloc(sizeof *left);
    if (!left) {
        pinyon_credentials_fail(question, pinyon_text("there is no memory"));
        return;
    }
    left->question = question;
    left->number   = PTR2UV(number);
    leave_questions(left, left);
}

/* Has Perl answer all questions. What a sub dies of is the answer. */
static void answer_credentials(pTHX)
{
    dSP;
    SV *said = sv_2mortal(newSVsv(ERRSV));
    ENTER;
    SAVETMPS;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    call_pv("Pinyon::Credentials::_answer_all", G_VOID | G_DISCARD | G_NOARGS | G_EVAL);
    PERL_CODE_ENDS;
    if (SvTRUE(ERRSV))
        warn_sv(ERRSV);
    sv_setsv(ERRSV, said);
    FREETMPS;
    LEAVE;
}

static pinyon_bytes bytes_or_none(pTHX_ SV *given)
{
    pinyon_bytes bytes = {NULL, 0};
    STRLEN       size;
    if (given && SvOK(given)) {
        bytes.start = SvPVutf8(given, size);
        bytes.size  = size;
    }
    return bytes;
}
