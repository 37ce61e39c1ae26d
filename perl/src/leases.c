/* Leases: who makes a value, and how one that is left goes back. */

#include "pinyon_perl.h"

/* A right to make a value: of a Pinyon::Lease, or of a win that is no object yet. */
typedef struct {
    SV      *client; /* the object of the cache */
    SV      *key;    /* of a win */
    uint64_t token;  /* of a win */
    bool     stays;  /* of a win */
    unsigned forks;
} lease_handle;

static void lease_drop(pTHX_ lease_handle *lease)
{
    SvREFCNT_dec(lease->client);
    SvREFCNT_dec(lease->key);
    Safefree(lease);
}

HANDLE_TABLE(lease_table, lease_handle, lease_drop(aTHX_ handle), not_cloned);

static lease_handle *lease_attach(pTHX_ SV *object, SV *client)
{
    lease_handle *lease;
    Newxz(lease, 1, lease_handle);
    lease->client = SvREFCNT_inc_simple_NN(SvRV(client));
    lease->forks  = forks_so_far;
    attach_handle(aTHX_ object, &lease_table, lease);
    return lease;
}

void win_attach(pTHX_ SV *result, SV *client, const call *one, const pinyon_reply *reply)
{
    lease_handle *won = lease_attach(aTHX_ result, client);
    won->key          = newSVpvn(one->request->key.start, one->request->key.size);
    won->token        = reply->cas;
    won->stays        = (reply->marks & PINYON_HAS_STALE) != 0;
    sv_bless(result, gv_stashpvs("Pinyon::Lease::Won", GV_ADD));
}

static SV *field_of(pTHX_ HV *object, const char *name)
{
    SV **field = hv_fetch(object, name, (I32)strlen(name), 0);
    return field ? *field : &PL_sv_undef;
}

/* The lease of an object that goes, if it is this process's and thread's. */
static lease_handle *lease_left_here(SV *object)
{
    lease_handle *held = (lease_handle *)attached_handle(object, &lease_table);
    return held && held->forks == forks_so_far ? held : NULL;
}

bool is_lease_left_open(pTHX_ SV *lease)
{
    return lease_left_here(lease) && SvTRUE(field_of(aTHX_(HV *) SvRV(lease), "is_open"));
}

/* Gives back a win that nobody used, so that the next caller makes the value at once. Perl would not let a handler of signals
 * die out of the end of an object, so handlers run after it. */
static void give_lease_back(pTHX_ const lease_handle *held, SV *key, uint64_t token, bool stays)
{
    MAGIC         *magic = mg_findext(held->client, PERL_MAGIC_ext, &cache_table);
    cache_handle  *cache = magic ? (cache_handle *)magic->mg_ptr : NULL;
    pinyon_request request = {sizeof request};
    pinyon_reply   reply   = {sizeof reply};
    STRLEN         size;
    dSAVE_ERRNO;

    if (!cache)
        return;
    request.verb      = PINYON_GIVE_BACK;
    request.with      = stays ? PINYON_KEEP : 0;
    request.cas       = token;
    request.key.start = SvPV(key, size);
    request.key.size  = size;
    /* A server that fails ends the lease itself. */
    pinyon_run(cache->client, &request, &reply, NULL);
    pinyon_reply_clear(&reply);
    RESTORE_ERRNO;
}

void lease_left(pTHX_ SV *lease)
{
    HV *fields;
    if (!is_lease_left_open(aTHX_ lease))
        return;
    fields = (HV *)SvRV(lease);
    give_lease_back(aTHX_ lease_left_here(lease), field_of(aTHX_ fields, "key"),
                    (uint64_t)SvUV(field_of(aTHX_ fields, "token")), SvTRUE(field_of(aTHX_ fields, "stays")));
}

void win_left(pTHX_ SV *win)
{
    const lease_handle *held = lease_left_here(win);
    if (held && held->key)
        give_lease_back(aTHX_ held, held->key, held->token, held->stays);
}

void lease_own(pTHX_ SV *lease, SV *client, SV *win)
{
    lease_handle *held;
    (void)cache_of(aTHX_ client);
    lease_attach(aTHX_ lease, client);
    held = lease_left_here(win);
    if (held) {
        SvREFCNT_dec(held->key);
        held->key = NULL;
    }
}
