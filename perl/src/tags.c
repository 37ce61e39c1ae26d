/* Tags of values, as the arguments of methods name them. */

#include "pinyon_perl.h"

HANDLE_TABLE(tags_table, pinyon_tags, pinyon_tags_free(handle), not_cloned);

static pinyon_bytes name_of(pTHX_ SV *name)
{
    pinyon_bytes bytes;
    SvGETMAGIC(name);
    if (!SvOK(name) || (SvROK(name) && !SvAMAGIC(name)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("a tag is a string, not %s", SvOK(name) ? "a reference" : "undef"));
    name        = sv_2mortal(newSVsv_nomg(name)); /* code of Perl's may run for the next one */
    bytes.start = SvPV(name, bytes.size);
    return bytes;
}

const pinyon_tags *tags_of(pTHX_ cache_handle *cache, SV *given)
{
    pinyon_error *error = NULL;
    pinyon_tags  *tags;
    pinyon_bytes *names;
    AV           *list = NULL;
    SSize_t       index, count = 1;
    SV           *holder;

    SvGETMAGIC(given);
    if (!SvOK(given))
        return NULL;
    if (SvROK(given) && SvTYPE(SvRV(given)) == SVt_PVAV && !SvOBJECT(SvRV(given))) {
        list  = (AV *)SvRV(given);
        count = av_len(list) + 1;
    }
    names = (pinyon_bytes *)(void *)SvPVX(sv_2mortal(newSV(((size_t)count + 1) * sizeof *names)));
    for (index = 0; index < count; index++) {
        SV **one     = list ? av_fetch(list, index, 0) : &given;
        names[index] = name_of(aTHX_ one ? *one : &PL_sv_undef);
    }
    tags = pinyon_tags_new(cache->client, names, (size_t)count, &error);
    if (!tags)
        throw_error(aTHX_ error);
    holder = sv_2mortal(newRV_noinc(newSV(0)));
    attach_handle(aTHX_ holder, &tags_table, tags);
    return tags;
}
