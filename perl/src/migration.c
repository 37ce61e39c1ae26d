/* A client that stands for an old and a new pool. The library moves values; those that Perl code reads or stores are
 * converted by Perl code, which is found by a number: another thread of Perl's has objects of its own. */

#include "pinyon_perl.h"

static bool converted_in_perl(pTHX_ UV number, SV *value, uint32_t flags, pinyon_bytes *converted, uint32_t *new_flags)
{
    dSP;
    SV   *said = sv_2mortal(newSVsv(ERRSV));
    I32   count;
    bool  is_done = false;
    ENTER;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    mPUSHu(number);
    PUSHs(value);
    mPUSHu(flags);
    PUTBACK;
    count = call_pv("Pinyon::MigratingCache::_convert", G_LIST | G_EVAL);
    SPAGAIN;
    if (!SvTRUE(ERRSV) && count == 2) {
        /* A mortal of the statement that migrates. */
        SV *bytes        = sv_2mortal(newSVsv(SP[-1]));
        *new_flags       = (uint32_t)SvUV(SP[0]);
        converted->start = SvPVX(bytes);
        converted->size  = SvCUR(bytes);
        is_done          = true;
    }
    SP -= count;
    PUTBACK;
    PERL_CODE_ENDS;
    sv_setsv(ERRSV, said);
    LEAVE;
    return is_done;
}

/* What the library calls. Nothing jumps over its frames: a program that ends in here does so when the library returns. */
static pinyon_status convert(void *context, pinyon_bytes value, uint32_t flags, pinyon_bytes *converted, uint32_t *new_flags)
{
    dTHX;
    int           ended;
    volatile bool is_done = false;
    dJMPENV;
    JMPENV_PUSH(ended);
    if (ended == 0)
        is_done = converted_in_perl(aTHX_ PTR2UV(context), newSVpvn_flags(value.start, value.size, SVs_TEMP), flags,
                                    converted, new_flags);
    JMPENV_POP;
    if (ended) {
        exit_is_due = true;
        return PINYON_INTERRUPTED;
    }
    return is_done ? PINYON_DONE : PINYON_FAILED;
}

void migrating_attach_old(pTHX_ cache_handle *cache, const cache_handle *old)
{
    if (cache->old)
        cache_drop(cache->old);
    cache->old = cache_copy(aTHX_ old);
}

void migrating_attach(pTHX_ SV *self, const cache_handle *old, const cache_handle *new_one, SV *ttl, UV number)
{
    pinyon_migration migration = {sizeof migration};
    pinyon_error    *error = NULL;
    pinyon_client   *client;

    migration.ttl  = ttl_of(aTHX_ ttl, PINYON_FOREVER, "ttl");
    if (old->serialization != new_one->serialization || new_one->serialization >= SERIALIZE_STORABLE) {
        migration.convert = convert;
        migration.context = NUM2PTR(void *, number);
    }
    client = pinyon_client_migrating(old->client, new_one->client, &migration, &error);
    if (!client)
        throw_error(aTHX_ error);
    cache_attach(aTHX_ self, client, (unsigned)new_one->serialization, old->tells || new_one->tells);
    migrating_attach_old(aTHX_ cache_of(aTHX_ self), old);
}

SV *progress_of(pTHX_ const cache_handle *cache)
{
    pinyon_progress progress = {sizeof progress};
    HV             *counts   = newHV();
    pinyon_client_progress(cache->client, &progress);
    hv_stores(counts, "new", newSVuv((UV)progress.in_new));
    hv_stores(counts, "old", newSVuv((UV)progress.in_old));
    hv_stores(counts, "moved", newSVuv((UV)progress.moved));
    hv_stores(counts, "refused", newSVuv((UV)progress.refused));
    hv_stores(counts, "missing", newSVuv((UV)progress.missing));
    return newRV_noinc((SV *)counts);
}
