/* Events of clients, as hashes for on_event. */

#include "pinyon_perl.h"

SV *event_fields(pTHX_ const pinyon_event *event)
{
    HV *fields = newHV();
    hv_stores(fields, "kind", newSVpv(event->kind, 0));
    hv_stores(fields, "level", newSVpv(event->level, 0));
    hv_stores(fields, "message", text_sv(aTHX_ event->message));
    hv_stores(fields, "server", *event->server ? text_sv(aTHX_ event->server) : newSV(0));
    hv_stores(fields, "command", *event->command ? newSVpv(event->command, 0) : newSV(0));
    hv_stores(fields, "seconds", event->seconds < 0 ? newSV(0) : newSVnv(event->seconds));
    hv_stores(fields, "error", event->error ? error_object(aTHX_ event->error) : newSV(0));
    if (event->previous)
        hv_stores(fields, "previous", text_sv(aTHX_ event->previous));
    return newRV_noinc((SV *)fields);
}

SV *next_event(pTHX_ cache_handle *cache)
{
    pinyon_event *event = pinyon_next_event(cache->client);
    SV           *fields;
    if (!event)
        return NULL;
    fields = event_fields(aTHX_ event);
    pinyon_event_free(event);
    return fields;
}

void tell_events(pTHX_ SV *self) { tell_perl(aTHX_ "_tell", self, NULL); }
