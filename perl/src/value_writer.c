/* Perl's values as what is stored. Plain scalars are decided here; references go part by part through the library's writer. */

#include "pinyon_perl.h"

/* As deep as the library writes; deeper is most likely a cycle. */
#define DEEPEST 200

typedef struct {
    pinyon_writer *writer;
    cache_handle  *cache; /* gets the writer back, unless Perl died in the middle */
    bool           is_done;
} writing;

static void writing_over(pTHX_ void *pointer)
{
    writing *state = (writing *)pointer;
    if (!state->is_done || state->cache->writer)
        pinyon_writer_free(state->writer);
    else
        state->cache->writer = state->writer;
    cache_leave(state->cache);
    Safefree(state);
}

static void refuse(pTHX_ const char *what, const char *advice)
{
    throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvf("%s cannot be stored: %s", what, advice));
}

static void write_part(pTHX_ pinyon_writer *writer, const pinyon_part *part)
{
    pinyon_error *error = NULL;
    if (pinyon_write(writer, part, &error) < 0)
        throw_error(aTHX_ error);
}

static bool is_ascii(const char *start, STRLEN size)
{
    return is_utf8_invariant_string((const U8 *)start, size);
}

/* Whether a text is UTF-8 as others read it. Perl's has surrogates and characters above U+10FFFF, too. */
static bool is_text(const char *start, STRLEN size)
{
    const U8 *at  = (const U8 *)start;
    const U8 *end = at + size;
    if (!is_utf8_string(at, size))
        return false;
    for (; at < end; at += UTF8SKIP(at)) {
        if (at[0] == 0xED ? at[1] >= 0xA0 : at[0] == 0xF4 ? at[1] >= 0x90 : at[0] > 0xF4)
            return false;
    }
    return true;
}

/* Text is what has the mark, and what would be the same with it. */
static void write_string(pTHX_ pinyon_writer *writer, const char *start, STRLEN size, bool is_marked)
{
    pinyon_part part = {sizeof part, PINYON_BYTES};
    if (is_marked || is_ascii(start, size))
        part.kind = PINYON_TEXT;
    part.bytes.start = start;
    part.bytes.size  = size;
    write_part(aTHX_ writer, &part);
}

/* Whether a number that Perl holds as a float is a whole one: it is stored as an integer, as Perl shows it. */
static bool is_whole(SV *value)
{
    const NV number = SvNOK(value) ? SvNVX(value) : 0.5;
    return number >= -9223372036854775808.0 && number < 9223372036854775808.0 && number == (NV)(IV)number;
}

static void write_scalar(pTHX_ pinyon_writer *writer, SV *value)
{
    pinyon_part part = {sizeof part, PINYON_NULL};
    STRLEN      size;
    const char *start;

#ifdef SvIsBOOL
    if (SvIsBOOL(value)) {
        part.kind  = PINYON_BOOL;
        part.truth = SvTRUE_nomg(value);
        write_part(aTHX_ writer, &part);
        return;
    }
#endif
    if (SvPOK(value)) {
        start = SvPV_nomg_const(value, size);
        write_string(aTHX_ writer, start, size, cBOOL(SvUTF8(value)));
        return;
    }
    if (SvIOK(value) && SvIsUV(value)) {
        part.kind   = PINYON_UNSIGNED;
        part.number = SvUVX(value);
    } else if (SvIOK(value)) {
        part.kind    = PINYON_INTEGER;
        part.integer = SvIVX(value);
    } else if (SvNOK(value) && is_whole(value)) {
        part.kind    = PINYON_INTEGER;
        part.integer = (IV)SvNVX(value);
    } else if (SvNOK(value)) {
        part.kind = PINYON_FLOAT;
        part.real = SvNVX(value);
    } else if (SvOK(value)) {
        start = SvPV_nomg_const(value, size);
        write_string(aTHX_ writer, start, size, cBOOL(SvUTF8(value)));
        return;
    }
    write_part(aTHX_ writer, &part);
}

static void write_value(pTHX_ pinyon_writer *writer, SV *value, unsigned depth);

static void write_list(pTHX_ pinyon_writer *writer, AV *list, unsigned depth)
{
    pinyon_part part  = {sizeof part, PINYON_LIST};
    SSize_t     count = av_len(list) + 1;
    SSize_t     index;
    part.number       = (uint64_t)count;
    write_part(aTHX_ writer, &part);
    for (index = 0; index < count; index++) {
        SV **item = av_fetch(list, index, 0);
        write_value(aTHX_ writer, item ? *item : &PL_sv_undef, depth + 1);
    }
    part.kind = PINYON_CLOSE;
    write_part(aTHX_ writer, &part);
}

static void write_map(pTHX_ pinyon_writer *writer, HV *map, unsigned depth)
{
    pinyon_part part  = {sizeof part, PINYON_MAP};
    UV          count = 0;
    HE         *entry;
    hv_iterinit(map);
    while (hv_iternext(map))
        count++;
    part.number = count;
    write_part(aTHX_ writer, &part);
    hv_iterinit(map);
    while ((entry = hv_iternext(map))) {
        STRLEN      size;
        SV         *key   = hv_iterkeysv(entry);
        const char *start = SvPV_const(key, size);
        if (!count--)
            break;
        write_string(aTHX_ writer, start, size, cBOOL(SvUTF8(key)));
        write_value(aTHX_ writer, hv_iterval(map, entry), depth + 1);
    }
    part.kind = PINYON_CLOSE;
    write_part(aTHX_ writer, &part);
}

/* What Perl has no type of its own for: booleans, large integers, times. */
static bool write_object(pTHX_ pinyon_writer *writer, SV *value)
{
    pinyon_part part = {sizeof part, PINYON_NULL};
    SV         *described;
    AV         *fields;
    SV        **at;

    if (sv_derived_from(value, "JSON::PP::Boolean") || sv_derived_from(value, "Types::Serialiser::Boolean")) {
        part.kind  = PINYON_BOOL;
        part.truth = SvTRUE(value);
        write_part(aTHX_ writer, &part);
        return true;
    }
    /* Perl code says what it is: a list of the kind's name and its fields. */
    described = perl_result(aTHX_ "Pinyon::Values::described", G_SCALAR, &value, 1);
    sv_2mortal(described);
    fields = SvROK(described) ? (AV *)SvRV(described) : NULL;
    if (!fields)
        return false;
    at = AvARRAY(fields);
    if (strEQ(SvPV_nolen(at[0]), "big")) {
        STRLEN size;
        part.kind        = PINYON_BIG;
        part.truth       = SvTRUE(at[1]);
        part.bytes.start = SvPVbyte(at[2], size);
        part.bytes.size  = size;
    } else if (strEQ(SvPV_nolen(at[0]), "instant")) {
        part.kind       = PINYON_INSTANT;
        part.integer    = SvIV(at[1]);
        part.nanosecond = (uint32_t)SvUV(at[2]);
    } else {
        part.kind       = PINYON_DATE_TIME;
        part.year       = (uint16_t)SvUV(at[1]);
        part.month      = (uint8_t)SvUV(at[2]);
        part.day        = (uint8_t)SvUV(at[3]);
        part.hour       = (uint8_t)SvUV(at[4]);
        part.minute     = (uint8_t)SvUV(at[5]);
        part.second     = (uint8_t)SvUV(at[6]);
        part.nanosecond = (uint32_t)SvUV(at[7]);
    }
    write_part(aTHX_ writer, &part);
    return true;
}

static void write_reference(pTHX_ pinyon_writer *writer, SV *value, unsigned depth)
{
    SV *inner = SvRV(value);
    if (depth > DEEPEST)
        refuse(aTHX_ "a value that is nested deeper than 200 levels", "does it refer to itself?");
    if (SvOBJECT(inner)) {
        if (!write_object(aTHX_ writer, value))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                       newSVpvf("an object of the class %s cannot be stored: make plain data of it, or let the client "
                                "write objects with serializer => 'storable'",
                                sv_reftype(inner, 1)));
        return;
    }
    if (SvTYPE(inner) == SVt_PVAV) {
        write_list(aTHX_ writer, (AV *)inner, depth);
        return;
    }
    if (SvTYPE(inner) == SVt_PVHV) {
        write_map(aTHX_ writer, (HV *)inner, depth);
        return;
    }
    /* \1 and \0 are booleans, as in Cpanel::JSON::XS. */
    if (SvTYPE(inner) < SVt_PVAV && !SvROK(inner) && SvIOK(inner) && (SvIV(inner) == 0 || SvIV(inner) == 1)) {
        pinyon_part part = {sizeof part, PINYON_BOOL};
        part.truth       = SvIV(inner) == 1;
        write_part(aTHX_ writer, &part);
        return;
    }
    throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
               newSVpvf("a reference to %s cannot be stored: store the data itself, or references to arrays and hashes",
                        sv_reftype(inner, 0)));
}

static void write_value(pTHX_ pinyon_writer *writer, SV *value, unsigned depth)
{
    SvGETMAGIC(value);
    if (SvROK(value))
        write_reference(aTHX_ writer, value, depth);
    else
        write_scalar(aTHX_ writer, value);
}

/* A value as the client's dialect has it, in a mortal. */
static SV *written(pTHX_ cache_handle *cache, SV *value, uint32_t *flags)
{
    writing      *state;
    pinyon_bytes  bytes;
    pinyon_error *error = NULL;
    SV           *result;

    ENTER;
    Newxz(state, 1, writing);
    state->cache  = cache;
    state->writer = cache->writer ? cache->writer : pinyon_writer_new(cache->client);
    cache->writer = NULL;
    cache_enter(cache);
    SAVEDESTRUCTOR_X(writing_over, state);
    write_value(aTHX_ state->writer, value, 0);
    if (pinyon_written(state->writer, &bytes, flags, &error) < 0)
        throw_error(aTHX_ error);
    result         = newSVpvn(bytes.start ? bytes.start : "", bytes.size);
    state->is_done = true;
    LEAVE;
    return sv_2mortal(result);
}

void value_to_store(pTHX_ cache_handle *cache, SV *self, call *one, SV *value)
{
    pinyon_request *request = one->request;
    STRLEN          size;
    const char     *start;

    SvGETMAGIC(value);
    if (cache->serialization == SERIALIZE_OBJECT
        || (cache->serialization == SERIALIZE_STORABLE && SvROK(value))) {
        SV *bytes      = dumped_by_perl(aTHX_ self, value, &request->client_flags);
        start          = SvPVbyte(bytes, size);
        request->value = kept_bytes(aTHX_ one, bytes, start, size);
        return;
    }
    if (SvPOK(value) && !SvROK(value)) {
        const pinyon_part_kind kind = SvUTF8(value) ? PINYON_TEXT : PINYON_BYTES;
        start                       = SvPV_nomg_const(value, size);
        if (cache->serialization != SERIALIZE_RAW) {
            if (!cache->has_plain[kind] || (kind == PINYON_TEXT && !is_text(start, size)))
                goto written; /* for the library's message */
            request->client_flags = cache->plain_flags[kind];
        }
        request->value = kept_bytes(aTHX_ one, value, start, size);
        return;
    }
    if (cache->serialization == SERIALIZE_RAW) {
        if (SvROK(value) && !SvAMAGIC(value))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                       newSVpvf("the serializer 'raw' takes strings, not a reference to %s", sv_reftype(SvRV(value), 0)));
        if (!SvOK(value))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("the serializer 'raw' takes strings, not undef"));
        start          = SvPV_nomg_const(value, size);
        request->value = kept_bytes(aTHX_ one, NULL, start, size);
        return;
    }
    if ((SvIOK(value) || (SvNOK(value) && !SvROK(value) && is_whole(value))) && cache->has_plain[PINYON_INTEGER]) {
        request->client_flags = cache->plain_flags[PINYON_INTEGER];
        start = SvPV_const(sv_2mortal(SvIOK(value) ? newSVsv_nomg(value) : newSViv((IV)SvNVX(value))), size);
        request->value = kept_bytes(aTHX_ one, NULL, start, size);
        return;
    }
written:
    {
        SV *bytes            = written(aTHX_ cache, value, &request->client_flags);
        request->value.start = SvPVX_const(bytes);
        request->value.size  = SvCUR(bytes);
    }
}

void value_alone(pTHX_ cache_handle *cache, SV *self, lone_call *alone, SV *value)
{
    Zero(&alone->request, 1, pinyon_request);
    Zero(&alone->one, 1, call);
    alone->one.request = &alone->request;
    alone->one.room    = alone->room;
    alone->one.left    = sizeof alone->room;
    value_to_store(aTHX_ cache, self, &alone->one, value);
}
