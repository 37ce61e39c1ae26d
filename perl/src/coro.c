/* Coroutines of Coro's: the same methods as those that wait, but only the coroutine waits, by Coro's own C interface for
 * functions that schedule. Coro is not needed to build this: what is used of its interface is declared here, and its version
 * is compared before it is used. */

#include "pinyon_perl.h"

#define CORO_VERSION 7
#define CORO_REVISION 2 /* or later */

struct coro_transfer;

/* The state of a call that schedules. `check` is called each time the coroutine runs again, until it returns 0. */
typedef struct coro_frame {
    void (*prepare)(pTHX_ struct coro_transfer *);
    int (*check)(pTHX_ struct coro_frame *);
    void *data;
    void (*destroy)(pTHX_ struct coro_frame *);
} coro_frame;

typedef void (*coro_init)(pTHX_ coro_frame *, CV *, SV **, int);

/* Coro's table, up to what is used here. */
typedef struct {
    I32 version, revision;
    int ready_count;
    SV *current;
    SV *thrown;
    void (*ready_hook)(void);
    void (*schedule)(pTHX);
    void (*schedule_to)(pTHX_ SV *);
    int (*cede)(pTHX);
    int (*cede_notself)(pTHX);
    int (*ready)(pTHX_ SV *);
    int (*is_ready)(pTHX_ SV *);
    void (*transfer)(pTHX_ SV *, SV *);
    void *(*state_of)(pTHX_ SV *);
    void (*execute)(pTHX_ CV *, coro_init, I32);
    void (*prepare_nothing)(pTHX_ struct coro_transfer *);
    void (*prepare_schedule)(pTHX_ struct coro_transfer *);
} coro_interface;

static coro_interface *coro;

/* Lets the coroutine go on, and all others that are ready, before the next reply is handed out. Coro::Semaphore searches
 * its list of waiters for each holder that is made ready before the one before has run. */
static void coroutine_wake(pTHX_ loop_handle *loop, operation *begun)
{
    if (!begun->coroutine || begun->coroutine == SvRV(coro->current))
        return;
    coro->ready(aTHX_ begun->coroutine);
    if (!loop->is_calm)
        coro->cede(aTHX);
}

/* Has a value read in a coroutine of its own, which then lets the one that waits go on. */
static void coroutine_reads(pTHX_ operation *begun)
{
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(sv_2mortal(newSViv(PTR2IV(begun))));
    PUTBACK;
    call_pv("Pinyon::Coro::_read_apart", G_VOID | G_DISCARD);
    FREETMPS;
    LEAVE;
}

const coroutine_hooks coro_hooks = {coroutine_wake, coroutine_reads};

/* Perl code calls it in that coroutine. */
static XSPROTO(read_here)
{
    dXSARGS;
    operation *begun = INT2PTR(operation *, SvIV(ST(0)));
    PERL_UNUSED_VAR(items);
    read_answer(aTHX_ begun);
    begun->is_over = true;
    if (begun->cache->tells)
        tell_events(aTHX_ sv_2mortal(newRV_inc(begun->self)));
    if (begun->coroutine)
        coro->ready(aTHX_ begun->coroutine);
    operation_release(aTHX_ begun);
    XSRETURN_EMPTY;
}

/* ---- A call ----------------------------------------------------------------------------------------------------------- */

static void call_over(coro_frame *frame)
{
    /* Coro would call it in the next call of this coroutine that schedules. */
    frame->destroy = NULL;
    frame->data    = NULL;
}

/* The coroutine no longer waits. Nothing makes it ready any more. */
static void call_left(pTHX_ operation *begun)
{
    operation_abandon(aTHX_ begun);
    SvREFCNT_dec(begun->coroutine);
    begun->coroutine = NULL;
    operation_release(aTHX_ begun);
}

static int call_check(pTHX_ coro_frame *frame)
{
    operation *begun = (operation *)frame->data;
    if (coro->thrown) {
        call_over(frame);
        call_left(aTHX_ begun);
        return 0;
    }
    if (!begun->is_over)
        return 1;
    call_over(frame);
    if (begun->failure) {
        const COP *place = users_place(aTHX);
        place_error(aTHX_ begun->failure, CopFILE(place) ? CopFILE(place) : "-", CopLINE(place));
        coro->thrown   = begun->failure;
        begun->failure = NULL;
    } else if (begun->value || GIMME_V != G_LIST || !begun->is_miss_empty) {
        dSP;
        SV *value    = begun->value ? begun->value : &PL_sv_undef;
        begun->value = NULL;
        if (value == begun->one.target)
            SvREFCNT_dec_NN(value); /* its op has it, too */
        else if (!SvIMMORTAL(value))
            sv_2mortal(value);
        XPUSHs(value);
        PUTBACK;
    }
    operation_release(aTHX_ begun);
    return 0;
}

/* The coroutine was cancelled. */
static void call_destroy(pTHX_ coro_frame *frame)
{
    operation *begun = (operation *)frame->data;
    frame->data      = NULL;
    if (begun)
        call_left(aTHX_ begun);
}

/* Before the coroutine waits. When nobody else can run there is nothing more to gather: what was begun is sent. Replies
 * that are there at once are failures; no other coroutine runs in the middle of this one's call. */
static void send_before_waiting(pTHX_ loop_handle *loop)
{
    if (!loop->turn_is_due) /* otherwise all is done in that turn */
        carry_out(aTHX_ loop);
    if (!loop->turn_is_due || loop->depth)
        return;
    if (coro->ready_count == 0) {
        loop->turn_is_due = false;
        pinyon_turn(loop->loop);
        carry_out(aTHX_ loop);
        loop->is_calm = true;
        hand_out_replies(aTHX_ loop);
        loop->is_calm = false;
    }
    if (loop->turn_is_due)
        announce_turn(aTHX_ loop);
}

/* The frame of a coroutine that waits for an operation. It holds the operation until the call is over. */
static void wait_for_operation(pTHX_ coro_frame *frame, operation *begun)
{
    begun->holders++;
    begun->coroutine = SvREFCNT_inc_NN(SvRV(coro->current));
    if (begun->loop)
        send_before_waiting(aTHX_ begun->loop);
    frame->data    = begun;
    frame->check   = call_check;
    frame->destroy = call_destroy;
    frame->prepare = begun->is_over ? coro->prepare_nothing : coro->prepare_schedule;
}

static void call_begin(pTHX_ coro_frame *frame, unsigned number, SV **arguments, int items)
{
    SV        *given[MOST_ARGUMENTS];
    operation *begun;
    if (items < 1)
        throw_usage(aTHX_ newSVpvf("%s is a method of Pinyon::Coro::Cache", call_methods[number].name));
    copy_given(given, arguments + 1, items - 1);
    begun                = begin_call(aTHX_ arguments[0], number, given, items - 1, NULL, target_of_op(aTHX));
    begun->is_miss_empty = true;
    wait_for_operation(aTHX_ frame, begun);
}

static void call_init(pTHX_ coro_frame *frame, CV *cv, SV **arguments, int items)
{
    call_begin(aTHX_ frame, (unsigned)CvXSUBANY(cv).any_i32, arguments, items);
}

static XSPROTO(call_in_coroutine)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    coro->execute(aTHX_ cv, call_init, ax);
}

/* Waits for an operation that has no callback. */
static void wait_init(pTHX_ coro_frame *frame, CV *cv, SV **arguments, int items)
{
    operation *begun;
    PERL_UNUSED_VAR(cv);
    if (items != 1)
        croak("an operation is needed");
    begun = operation_of(aTHX_ arguments[0]);
    if (begun->coroutine)
        croak("one coroutine can wait for an operation");
    wait_for_operation(aTHX_ frame, begun);
}

static XSPROTO(wait_in_coroutine)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    coro->execute(aTHX_ cv, wait_init, ax);
}

/* ---- Loading it ------------------------------------------------------------------------------------------------------ */

void coro_load(pTHX)
{
    SV             *pointer = get_sv("Coro::API", 0);
    coro_interface *found;
    if (!pointer || !SvIOK(pointer))
        croak("Pinyon::Coro needs Coro, which has no C interface here");
    found = INT2PTR(coro_interface *, SvIV(pointer));
    if (found->version != CORO_VERSION || found->revision < CORO_REVISION)
        croak("Pinyon::Coro knows version %d.%d of Coro's C interface, and this Coro has %d.%d: install Coro 6.5 or a "
              "newer Pinyon",
              CORO_VERSION, CORO_REVISION, (int)found->version, (int)found->revision);
    coro = found;
    install_methods(aTHX_ "Pinyon::Coro::Cache::", "", EACH_METHOD, call_in_coroutine);
    CvXSUBANY(newXS("Pinyon::Coro::Cache::remove", call_in_coroutine, __FILE__)).any_i32 =
        (I32)method_number(aTHX_ "delete");
    newXS("Pinyon::Coro::_wait", wait_in_coroutine, __FILE__);
    newXS("Pinyon::Coro::_read_here", read_here, __FILE__);
}
