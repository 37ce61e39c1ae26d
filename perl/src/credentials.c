/* Subs that return credentials. Only Perl's own thread may call them, so the library leaves its questions here, and they are
 * answered when it waits for this thread, at the end of a loop's turn, and after calls of locks. */

#include "pinyon_perl.h"

typedef struct left_question {
    pinyon_credentials_question *question;
    UV                           number; /* the sub's, in Pinyon::Credentials */
    struct left_question        *next;
} left_question;

/* The last one first. Any thread adds to it, and a forked child may inherit it: so no mutex guards it. */
static left_question *questions_left;

bool credentials_are_asked(void)
{
    return __atomic_load_n(&questions_left, __ATOMIC_RELAXED) != NULL;
}

static void leave_questions(left_question *first, left_question *last)
{
    last->next = __atomic_load_n(&questions_left, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&questions_left, &last->next, first, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void leave_question(void *number, pinyon_credentials_question *question)
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

void answer_credentials(pTHX)
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

AV *questions_taken(pTHX)
{
    AV            *taken = (AV *)sv_2mortal((SV *)newAV());
    left_question *left  = __atomic_exchange_n(&questions_left, NULL, __ATOMIC_ACQUIRE);
    while (left) {
        left_question *next = left->next;
        av_push(taken, newSVuv(PTR2UV(left->question)));
        av_push(taken, newSVuv(left->number));
        free(left);
        left = next;
    }
    return taken;
}
