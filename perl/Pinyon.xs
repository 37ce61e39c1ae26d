#include "src/pinyon_perl.h"

/* Perl must find boot_Pinyon. */
#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#include <pthread.h>

/* What a client in Perl needs of its own object: one that stays when a handler of signals changes the caller's variable. */
#define SELF_THAT_STAYS(cache) \
    ((cache)->tells || (cache)->serialization > SERIALIZE_RAW ? sv_2mortal(newRV_inc(SvRV(ST(0)))) : ST(0))

/* The arguments from the `first` on, copied off Perl's stack, which may move. */
#define GIVEN(given, count, first)          \
    SV     *given[MOST_ARGUMENTS];          \
    SSize_t count = items - (first);        \
    copy_given(given, &ST(first), count);

/* Returns all items of an array, which are its own. */
#define RETURN_ITEMS(array)                                       \
    STMT_START                                                    \
    {                                                             \
        const SSize_t returned_ = av_len(array) + 1;              \
        SSize_t       item_;                                      \
        SPAGAIN;                                                  \
        SP = PL_stack_base + ax - 1;                              \
        EXTEND(SP, returned_);                                    \
        for (item_ = 0; item_ < returned_; item_++)               \
            PUSHs(sv_2mortal(SvREFCNT_inc_NN(AvARRAY(array)[item_]))); \
        PUTBACK;                                                  \
        return;                                                   \
    }                                                             \
    STMT_END

MODULE = Pinyon    PACKAGE = Pinyon

PROTOTYPES: DISABLE

void
_throw(error)
    SV *error
  PPCODE:
    throw_object(aTHX_ newSVsv(error));

SV *
_new_owner()
  CODE:
    RETVAL = newSVuv((UV)pinyon_new_owner());
  OUTPUT:
    RETVAL

unsigned
_number_of(method)
    const char *method
  CODE:
    RETVAL = method_number(aTHX_ method);
  OUTPUT:
    RETVAL

void
_kinds()
  PPCODE:
    {
        /* [name, parents …] of every kind of error. */
        int kind;
        for (kind = 1; pinyon_kind_name((pinyon_kind)kind); kind++) {
            AV         *fields = newAV();
            pinyon_kind parent;
            size_t      index;
            av_push(fields, class_of_kind(aTHX_ (pinyon_kind)kind));
            for (index = 0; (parent = pinyon_kind_parent((pinyon_kind)kind, index)); index++)
                av_push(fields, class_of_kind(aTHX_ parent));
            XPUSHs(sv_2mortal(newRV_noinc((SV *)fields)));
        }
    }

INCLUDE: xs/cache.xs

INCLUDE: xs/migration.xs

INCLUDE: xs/batches.xs

INCLUDE: xs/get_or_set.xs

INCLUDE: xs/locks.xs

INCLUDE: xs/leaders.xs

INCLUDE: xs/loop.xs

INCLUDE: xs/loop_calls.xs

INCLUDE: xs/loop_locks.xs

INCLUDE: xs/credentials.xs

BOOT:
    pthread_atfork(NULL, NULL, count_fork);
    load_methods();
    install_numbers(aTHX);
    install_methods(aTHX_ "Pinyon::Cache::", "", EACH_METHOD, XS_Pinyon__Cache__call);
    install_methods(aTHX_ "Pinyon::Cache::", "_multi", EACH_THAT_CHANGES, XS_Pinyon__Cache__call_many);
    install_methods(aTHX_ "Pinyon::Loop::Cache::", "", EACH_METHOD, XS_Pinyon__Loop__Cache__call);
    install_methods(aTHX_ "Pinyon::Compat::Client::_push_", "", EACH_THAT_CHANGES, XS_Pinyon__Compat__Client__push_any);
    newXS("Pinyon::_make_apart", make_apart, __FILE__);
    newXS("Pinyon::_deliver_signals", deliver_signals, __FILE__);
