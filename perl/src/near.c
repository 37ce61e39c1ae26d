/* Figures of the keys that a client keeps in memory. */

#include "pinyon_perl.h"

SV *near_metrics(pTHX_ const cache_handle *cache)
{
    pinyon_near_figures figures = {sizeof figures};
    HV                 *counts  = newHV();
    pinyon_near_metrics(cache->client, &figures);
    hv_stores(counts, "hits", newSVuv((UV)figures.hits));
    hv_stores(counts, "fills", newSVuv((UV)figures.fills));
    hv_stores(counts, "revalidations", newSVuv((UV)figures.revalidations));
    hv_stores(counts, "evictions", newSVuv((UV)figures.evictions));
    hv_stores(counts, "bytes", newSVuv((UV)figures.bytes));
    return newRV_noinc((SV *)counts);
}
