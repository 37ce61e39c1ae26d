/* What a Perl object holds of the library: a struct behind `ext` magic, which threads clone and which dies with the
 * object. */

#include "pinyon_perl.h"

unsigned forks_so_far;

void count_fork(void) { forks_so_far++; }

void attach_handle(pTHX_ SV *object, const MGVTBL *table, void *handle)
{
    MAGIC *magic = sv_magicext(SvRV(object), NULL, PERL_MAGIC_ext, table, (const char *)handle, 0);
    magic->mg_flags |= MGf_DUP;
}

void throw_not(pTHX_ const char *what)
{
    throw_usage(aTHX_ newSVpvf("this is not %s, or one that belongs to another thread", what));
}

void *handle_of(pTHX_ SV *object, const MGVTBL *table, const char *what)
{
    void *handle = attached_handle(object, table);
    if (!handle)
        throw_not(aTHX_ what);
    return handle;
}

/* What only one thread of Perl's may use stays with that thread: in another one its object has no handle. No class has
 * CLONE_SKIP, because Perl panics at a weak reference to an object that a new thread does not get. */
int not_cloned(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    PERL_UNUSED_VAR(parameters);
    magic->mg_ptr = NULL;
    return 0;
}

void keep_object(pTHX_ SV *object) { sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(object))); }
