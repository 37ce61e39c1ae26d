/* The handle of a Pinyon::Cache: its client, and what is kept from one call for the next. */

#include "pinyon_perl.h"

/* An allocator that is asked for a large piece tidies up first, at a higher cost than all else that a call about many keys
 * does. So a client keeps one. */
#define LARGEST_SPARE 65536

void *spare_taken(cache_handle *cache, size_t *size)
{
    void *spare = cache->spare;
    if (!spare || cache->spare_size < *size)
        return safemalloc(*size);
    *size        = cache->spare_size;
    cache->spare = NULL;
    return spare;
}

void spare_given(cache_handle *cache, void *memory, size_t size)
{
    if (size > LARGEST_SPARE || (cache->spare && cache->spare_size >= size)) {
        Safefree(memory);
        return;
    }
    Safefree(cache->spare);
    cache->spare      = memory;
    cache->spare_size = size;
}

void cache_drop(cache_handle *cache)
{
    if (cache->users) {
        cache->is_gone = true;
        return;
    }
    if (cache->old)
        cache_drop(cache->old);
    pinyon_writer_free(cache->writer);
    pinyon_reader_free(cache->reader);
    pinyon_client_free(cache->client);
    Safefree(cache->spare);
    Safefree(cache);
}

cache_handle *cache_copy(pTHX_ const cache_handle *cache)
{
    cache_handle *copy;
    PERL_UNUSED_CONTEXT;
    Newx(copy, 1, cache_handle);
    *copy         = *cache;
    copy->client  = pinyon_client_clone(cache->client);
    copy->writer  = NULL;
    copy->reader  = NULL;
    copy->loop    = NULL;
    copy->users   = 0;
    copy->is_gone = false;
    copy->spare   = NULL;
    copy->old     = cache->old ? cache_copy(aTHX_ cache->old) : NULL;
    return copy;
}

/* A new thread of Perl's has an object of its own, with the same client. */
static int cache_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters)
{
    cache_handle *cache = (cache_handle *)magic->mg_ptr;
    PERL_UNUSED_VAR(parameters);
    if (cache)
        magic->mg_ptr = (char *)cache_copy(aTHX_ cache);
    return 0;
}

HANDLE_TABLE(cache_table, cache_handle, cache_drop(handle), cache_dup);

void cache_attach(pTHX_ SV *self, pinyon_client *client, unsigned form, bool tells)
{
    cache_handle    *cache;
    pinyon_part_kind kind;
    pinyon_bytes     nothing = {NULL, 0};
    Newxz(cache, 1, cache_handle);
    cache->client        = client;
    cache->serialization = (serialization)form;
    cache->tells         = tells;
    cache->passes_over   = pinyon_passes_over(client, nothing);
    /* Pinyon's own dialect leaves this flag to Storable; those of Perl's clients have one of their own. */
    cache->storable_flags = 1u << 11;
    if (pinyon_kind_of(client, 1, &kind) && kind == PINYON_MAP)
        cache->storable_flags = 1;
    for (kind = PINYON_NULL; kind < PLAIN_KINDS; kind++)
        cache->has_plain[kind] = pinyon_flags_of(client, kind, &cache->plain_flags[kind]);
    attach_handle(aTHX_ self, &cache_table, cache);
}
