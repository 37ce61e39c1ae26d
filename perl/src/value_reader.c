/* What is stored as Perl's values. Plain scalars are decided here; all else goes part by part through the library's reader. */

#include "pinyon_perl.h"

typedef struct {
    pinyon_reader *reader;
    cache_handle  *cache;
} reading;

static void reading_over(pTHX_ void *pointer)
{
    reading *state = (reading *)pointer;
    if (!state->cache || state->cache->reader)
        pinyon_reader_free(state->reader);
    else
        state->cache->reader = state->reader;
    if (state->cache)
        cache_leave(state->cache);
    Safefree(state);
}

/* What a function of Perl makes of arguments, which it takes over. */
static SV *call_values(pTHX_ const char *function, SV **arguments, int count)
{
    int index;
    for (index = 0; index < count; index++)
        sv_2mortal(arguments[index]);
    return perl_result(aTHX_ function, G_SCALAR, arguments, count);
}

static SV *part_text(pTHX_ const pinyon_part *part)
{
    SV *text = newSVpvn(part->bytes.start ? part->bytes.start : "", part->bytes.size);
    if (!is_utf8_string((const U8 *)SvPVX(text), SvCUR(text))) {
        SvREFCNT_dec(text);
        throw_kind(aTHX_ PINYON_E_UNDECODABLE_VALUE, newSVpvs("the stored value has a text that is not UTF-8"));
    }
    SvUTF8_on(text);
    return text;
}

static SV *encoded_text(pTHX_ const pinyon_part *part)
{
    SV *arguments[2];
    arguments[0] = newSVpvn(part->encoding.start, part->encoding.size);
    arguments[1] = newSVpvn(part->bytes.start, part->bytes.size);
    return call_values(aTHX_ "Pinyon::Values::decoded", arguments, 2);
}

static SV *moment(pTHX_ const pinyon_part *part)
{
    SV *arguments[8];
    if (part->kind == PINYON_INSTANT) {
        arguments[0] = newSViv((IV)part->integer);
        arguments[1] = newSVuv(part->nanosecond);
        return call_values(aTHX_ "Pinyon::Values::instant", arguments, 2);
    }
    arguments[0] = newSVuv(part->year);
    arguments[1] = newSVuv(part->month);
    arguments[2] = newSVuv(part->day);
    arguments[3] = newSVuv(part->hour);
    arguments[4] = newSVuv(part->minute);
    arguments[5] = newSVuv(part->second);
    arguments[6] = newSVuv(part->nanosecond);
    return call_values(aTHX_ "Pinyon::Values::date_time", arguments, 7);
}

static SV *big_integer(pTHX_ const pinyon_part *part)
{
    SV *arguments[2];
    arguments[0] = newSViv(part->truth);
    arguments[1] = newSVpvn(part->bytes.start, part->bytes.size);
    return call_values(aTHX_ "Pinyon::Values::big", arguments, 2);
}

static SV *boolean(pTHX_ bool truth)
{
    SV *argument = newSViv(truth);
    return call_values(aTHX_ "Pinyon::Values::boolean", &argument, 1);
}

static bool next_part(pTHX_ pinyon_reader *reader, pinyon_part *part)
{
    pinyon_error *error = NULL;
    pinyon_status status;
    part->size = sizeof *part;
    status     = pinyon_read(reader, part, &error);
    if (status < 0)
        throw_error(aTHX_ error);
    return status == PINYON_DONE;
}

static SV *read_part(pTHX_ pinyon_reader *reader, const pinyon_part *part, unsigned depth);

static SV *read_list(pTHX_ pinyon_reader *reader, unsigned depth)
{
    AV         *list  = newAV();
    SV         *value = sv_2mortal(newRV_noinc((SV *)list));
    pinyon_part part;
    while (next_part(aTHX_ reader, &part) && part.kind != PINYON_CLOSE)
        av_push(list, read_part(aTHX_ reader, &part, depth + 1));
    return SvREFCNT_inc_NN(value);
}

static SV *read_map(pTHX_ pinyon_reader *reader, unsigned depth)
{
    HV         *map   = newHV();
    SV         *value = sv_2mortal(newRV_noinc((SV *)map));
    pinyon_part part;
    while (next_part(aTHX_ reader, &part) && part.kind != PINYON_CLOSE) {
        SV *key = sv_2mortal(read_part(aTHX_ reader, &part, depth + 1));
        if (!SvOK(key))
            sv_setpvs(key, ""); /* a null */
        if (!next_part(aTHX_ reader, &part))
            break;
        (void)hv_store_ent(map, key, read_part(aTHX_ reader, &part, depth + 1), 0);
    }
    return SvREFCNT_inc_NN(value);
}

static SV *read_part(pTHX_ pinyon_reader *reader, const pinyon_part *part, unsigned depth)
{
    switch (part->kind) {
    case PINYON_NULL: return newSV(0);
    case PINYON_BOOL: return boolean(aTHX_ part->truth);
    case PINYON_INTEGER: return newSViv((IV)part->integer);
    case PINYON_UNSIGNED: return newSVuv((UV)part->number);
    case PINYON_BIG: return big_integer(aTHX_ part);
    case PINYON_FLOAT: return newSVnv(part->real);
    case PINYON_BYTES: return newSVpvn(part->bytes.start ? part->bytes.start : "", part->bytes.size);
    case PINYON_TEXT: return part_text(aTHX_ part);
    case PINYON_ENCODED: return encoded_text(aTHX_ part);
    case PINYON_DATE_TIME:
    case PINYON_INSTANT: return moment(aTHX_ part);
    case PINYON_LIST:
    case PINYON_TUPLE: return read_list(aTHX_ reader, depth);
    case PINYON_MAP: return read_map(aTHX_ reader, depth);
    case PINYON_CLOSE: break;
    case PINYON_FAULT:
        return error_sv(aTHX_ PINYON_E_SERVER, newSVpvn_utf8(part->bytes.start, part->bytes.size, 1), PINYON_SENT_YES,
                        NULL, NULL);
    }
    throw_kind(aTHX_ PINYON_E_UNDECODABLE_VALUE, newSVpvs("the stored value ends too early"));
    return NULL;
}

SV *read_all(pTHX_ pinyon_reader *reader, cache_handle *cache)
{
    reading    *state;
    pinyon_part part;
    SV         *value;
    Newx(state, 1, reading);
    state->reader = reader;
    state->cache  = cache;
    if (cache)
        cache_enter(cache);
    SAVEDESTRUCTOR_X(reading_over, state);
    value = next_part(aTHX_ reader, &part) ? sv_2mortal(read_part(aTHX_ reader, &part, 0)) : sv_newmortal();
    if (next_part(aTHX_ reader, &part))
        throw_kind(aTHX_ PINYON_E_UNDECODABLE_VALUE, newSVpvs("the stored value goes on after its end"));
    return SvREFCNT_inc_NN(value);
}

static SV *read_value(pTHX_ cache_handle *cache, SV *stored, uint32_t flags)
{
    pinyon_reader *reader = cache->reader ? cache->reader : pinyon_reader_new(cache->client);
    pinyon_error  *error  = NULL;
    pinyon_bytes   bytes;
    SV            *value;

    cache->reader = NULL;
    bytes.start   = SvPVX(stored);
    bytes.size    = SvCUR(stored);
    if (pinyon_read_value(reader, bytes, flags, &error) < 0) {
        pinyon_reader_free(reader);
        throw_error(aTHX_ error);
    }
    ENTER;
    value = read_all(aTHX_ reader, cache);
    LEAVE;
    return value;
}

/* An integer that needs no care: digits that fit, and nothing else. */
static bool short_integer(const char *start, STRLEN size, IV *number)
{
    STRLEN index  = size && start[0] == '-';
    IV     result = 0;
    if (size == index || size > 18)
        return false;
    for (; index < size; index++) {
        if (!isDIGIT(start[index]))
            return false;
        result = result * 10 + (start[index] - '0');
    }
    *number = start[0] == '-' ? -result : result;
    return true;
}

/* What flags say. Most values are of the kind of the one before. */
static bool kind_of_flags(cache_handle *cache, uint32_t flags, pinyon_part_kind *kind)
{
    if (cache->knows_kind && cache->flags_of_kind == flags) {
        *kind = cache->kind;
        return true;
    }
    if (!pinyon_kind_of(cache->client, flags, kind))
        return false;
    cache->knows_kind    = true;
    cache->flags_of_kind = flags;
    cache->kind          = *kind;
    return true;
}

SV *plain_value(pTHX_ cache_handle *cache, SV *stored, uint32_t flags)
{
    pinyon_part_kind kind;
    IV               number;

    if (cache->serialization == SERIALIZE_RAW)
        return stored;
    if (cache->serialization == SERIALIZE_OBJECT
        || (cache->serialization == SERIALIZE_STORABLE && flags == cache->storable_flags)
        || !kind_of_flags(cache, flags, &kind))
        return NULL;
    if (kind == PINYON_BYTES)
        return stored;
    if (kind == PINYON_TEXT && is_utf8_string((const U8 *)SvPVX(stored), SvCUR(stored))) {
        SvUTF8_on(stored);
        return stored;
    }
    if (kind == PINYON_INTEGER && short_integer(SvPVX(stored), SvCUR(stored), &number)) {
        SvREFCNT_dec_NN(stored);
        return newSViv(number);
    }
    return NULL;
}

SV *value_read(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    SV *value = plain_value(aTHX_ cache, stored, flags);
    if (value)
        return value;
    sv_2mortal(stored);
    if (cache->serialization == SERIALIZE_OBJECT
        || (cache->serialization == SERIALIZE_STORABLE && flags == cache->storable_flags))
        return loaded_by_perl(aTHX_ self, stored, flags);
    return read_value(aTHX_ cache, stored, flags);
}

SV *value_of(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    if (UNLIKELY(cache->passes_over) && self)
        return value_or_miss(aTHX_ self, stored, flags, false);
    return value_read(aTHX_ cache, self, stored, flags);
}

bool is_plain_stored(pTHX_ cache_handle *cache, SV *stored, uint32_t flags)
{
    pinyon_part_kind kind;
    IV               number;
    PERL_UNUSED_CONTEXT;
    if (cache->serialization == SERIALIZE_RAW)
        return true;
    if (cache->serialization == SERIALIZE_OBJECT || !kind_of_flags(cache, flags, &kind))
        return false;
    return kind == PINYON_BYTES
           || (kind == PINYON_INTEGER && short_integer(SvPVX(stored), SvCUR(stored), &number))
           || (kind == PINYON_TEXT && is_utf8_string((const U8 *)SvPVX(stored), SvCUR(stored)));
}
