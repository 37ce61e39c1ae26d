/* Perl's values as what is stored, and back. Plain scalars are decided here; references go part by part through the
 * library's writer and reader. */

/* As deep as the library writes; deeper is most likely a cycle. */
#define DEEPEST 200

/* ---- Storing ---------------------------------------------------------------------------------------------------- */

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
    dSP;
    pinyon_part part = {sizeof part, PINYON_NULL};
    int         count;
    AV         *fields;
    SV        **at;

    if (sv_derived_from(value, "JSON::PP::Boolean") || sv_derived_from(value, "Types::Serialiser::Boolean")) {
        part.kind  = PINYON_BOOL;
        part.truth = SvTRUE(value);
        write_part(aTHX_ writer, &part);
        return true;
    }
    /* Perl code says what it is: a list of the kind's name and its fields. */
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    XPUSHs(value);
    PUTBACK;
    count = call_pv("Pinyon::Values::described", G_SCALAR);
    SPAGAIN;
    fields = count == 1 && SvROK(*SP) ? (AV *)SvRV(*SP) : NULL;
    SP -= count;
    PUTBACK;
    PERL_CODE_ENDS;
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

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

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

static SV *call_values(pTHX_ const char *function, SV **arguments, int count)
{
    dSP;
    int index;
    SV *result;
    ENTER;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, count);
    for (index = 0; index < count; index++)
        PUSHs(sv_2mortal(arguments[index]));
    PUTBACK;
    call_pv(function, G_SCALAR);
    SPAGAIN;
    result = SvREFCNT_inc(POPs);
    PUTBACK;
    PERL_CODE_ENDS;
    LEAVE;
    return result;
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

/* What a reader that has begun reads. It belongs to `cache` afterwards, or nobody. */
static SV *read_all(pTHX_ pinyon_reader *reader, cache_handle *cache)
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

/* Whether Perl code may load values. */
static bool loads_by_perl(const cache_handle *cache)
{
    return cache && (cache->serialization >= SERIALIZE_STORABLE || loads_by_perl(cache->old));
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

/* The value of stored bytes that need no reader, which might die. Takes over `stored`, and may be the same. NULL: it needs
 * one, and stays with the caller. */
static SV *plain_value(pTHX_ cache_handle *cache, SV *stored, uint32_t flags)
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

/* The value of stored bytes. Takes over `stored`, and may be the same. */
static SV *value_read(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    SV *value = plain_value(aTHX_ cache, stored, flags);
    if (value)
        return value;
    sv_2mortal(stored);
    if (cache->serialization == SERIALIZE_OBJECT
        || (cache->serialization == SERIALIZE_STORABLE && flags == cache->storable_flags))
        return loaded(aTHX_ self, stored, flags);
    return read_value(aTHX_ cache, stored, flags);
}

/* The same; NULL for a value that cannot be read, and counts as missing. Perl code catches what reading it dies of. */
static SV *value_or_miss(pTHX_ SV *self, SV *stored, uint32_t flags, bool is_lease)
{
    dSP;
    SV     *value = NULL;
    SSize_t count;
    ENTER;
    SAVETMPS;
    PERL_CODE_BEGINS;
    PUSHMARK(SP);
    EXTEND(SP, 4);
    PUSHs(self);
    PUSHs(sv_2mortal(stored));
    mPUSHu(flags);
    PUSHs(boolSV(is_lease));
    PUTBACK;
    count = call_method("_read_or_pass_over", G_LIST);
    SPAGAIN;
    if (count > 0)
        value = SvREFCNT_inc(POPs);
    PUTBACK;
    PERL_CODE_ENDS;
    FREETMPS;
    LEAVE;
    return value;
}

/* A value; NULL if it counts as missing. */
static SV *value_of(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    if (UNLIKELY(cache->passes_over) && self)
        return value_or_miss(aTHX_ self, stored, flags, false);
    return value_read(aTHX_ cache, self, stored, flags);
}

/* Whether reading it cannot die. */
static bool is_plain_stored(pTHX_ cache_handle *cache, SV *stored, uint32_t flags)
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
