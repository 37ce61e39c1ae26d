/* Settings: names and values that Perl gives become named texts. */

/* Fills options from two arrays of the same length. Their bytes belong to Perl's values. */
static pinyon_option *options_of(pTHX_ AV *names, AV *values, size_t *count)
{
    pinyon_option *options;
    SSize_t        index, last = av_len(names);
    SV            *room;

    *count = (size_t)(last + 1);
    room   = sv_2mortal(newSV((*count + 1) * sizeof(pinyon_option)));
    options = (pinyon_option *)(void *)SvPVX(room);
    for (index = 0; index <= last; index++) {
        SV   **value = av_fetch(values, index, 0);
        STRLEN size  = 0;
        options[index].name        = SvPV_nolen(*av_fetch(names, index, 0));
        options[index].value.start = value && SvOK(*value) ? SvPV(*value, size) : NULL;
        options[index].value.size  = size;
    }
    return options;
}

static AV *array_of(pTHX_ SV *reference)
{
    if (!SvROK(reference) || SvTYPE(SvRV(reference)) != SVt_PVAV)
        croak("an array reference is needed");
    return (AV *)SvRV(reference);
}

static void cache_attach(pTHX_ SV *self, pinyon_client *client, unsigned form, bool tells)
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
    attach(aTHX_ self, &cache_table, cache);
}
