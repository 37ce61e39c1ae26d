/* The results of a call for many keys: a hash by key, and what failed. */

#include "pinyon_perl.h"

SV *own_copy(pTHX_ SV *value)
{
    if (value == &PL_sv_yes)
        return newSViv(1); /* costs a third of a copy */
    return SvIMMORTAL(value) ? newSVsv(value) : value;
}

/* As hv_ksplit does; but that takes cleared memory, of which allocators of C keep none ready: they tidy up first. */
void make_room_in(pTHX_ HV *results, size_t count)
{
    size_t size = 8;
    char  *room;
    while (size < count)
        size *= 2;
    if (size > 128) {
        hv_ksplit(results, (IV)count);
        return;
    }
    Newx(room, PERL_HV_ARRAY_ALLOC_BYTES(size), char);
    Zero(room, PERL_HV_ARRAY_ALLOC_BYTES(size), char);
    HvARRAY(results) = (HE **)(void *)room;
    HvMAX(results)   = size - 1;
}

static void note_thrown(pTHX_ failures *failures, SV *error)
{
    if (failures->thrown) {
        SvREFCNT_dec(error);
        return;
    }
    failures->thrown = sv_2mortal(error);
    if (sv_isobject(error) && sv_derived_from(error, "Pinyon::Error"))
        hv_stores((HV *)SvRV(error), "partial", newRV_inc((SV *)failures->results));
}

void note_failure(pTHX_ failures *failures, const pinyon_error *error)
{
    const char *server = pinyon_error_server(error);
    const I32   size   = (I32)strlen(server);
    if (!failures->failed || !size)
        note_thrown(aTHX_ failures, error_object(aTHX_ error));
    else if (!hv_exists(failures->failed, server, size))
        (void)hv_store(failures->failed, server, size, error_object(aTHX_ error), 0);
}

/* Whether a failure says that a stored value cannot be read. */
static bool is_unreadable(pTHX_ SV *error)
{
    SV  *reason;
    bool is;
    ENTER;
    SAVETMPS;
    save_scalar(PL_errgv);
    reason = perl_result(aTHX_ "Pinyon::Error::_unreadable", G_SCALAR, &error, 1);
    is     = SvOK(reason);
    SvREFCNT_dec(reason);
    FREETMPS;
    LEAVE;
    return is;
}

void note_unreadable(pTHX_ failures *failures, SV *key, SV *error)
{
    if (!failures->failed || !is_unreadable(aTHX_ error))
        note_thrown(aTHX_ failures, error);
    else if (!hv_store_ent(failures->failed, key, error, 0))
        SvREFCNT_dec(error);
}

void throw_failures(pTHX_ const failures *failures)
{
    if (failures->thrown)
        throw_mortal(aTHX_ failures->thrown);
}
