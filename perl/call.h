/* A call of one of the methods on one key: its arguments as a request, and the reply as what the method returns. Those
 * who wait, event loops and many calls at once use the same. */

typedef enum {
    TAKES_KEY,    /* key */
    TAKES_TTL,    /* key, ttl */
    TAKES_VALUE,  /* key, value, ttl */
    TAKES_BYTES,  /* key, value */
    TAKES_CAS,    /* key, value, cas, ttl */
    TAKES_STALE,  /* key, stale => seconds */
    TAKES_DELTA,  /* key, delta, initial => number, ttl => seconds */
    TAKES_LEASE   /* key, lease => seconds, recache => seconds */
} call_takes;

typedef enum {
    GIVES_VALUE,
    GIVES_VALUE_AND_CAS,
    GIVES_VALUE_AND_TTL,
    GIVES_TRUTH,
    GIVES_CHANGED, /* true, '' if the item has changed, undef if there is none */
    GIVES_NUMBER,
    GIVES_METADATA,
    GIVES_LEASE
} call_gives;

typedef struct {
    const char *name;
    pinyon_verb verb;
    uint32_t    with;
    call_takes  takes;
    call_gives  gives;
} call_method_of;

/* The order is that of the ALIASes in Pinyon.xs. */
enum {
    METHOD_GET, METHOD_GETS, METHOD_GAT, METHOD_GATS, METHOD_GET_WITH_TTL, METHOD_SET, METHOD_ADD, METHOD_REPLACE,
    METHOD_APPEND, METHOD_PREPEND, METHOD_CAS, METHOD_DELETE, METHOD_TOUCH, METHOD_INCR, METHOD_DECR, METHOD_META,
    METHOD_LEASE
};

static const call_method_of methods[] = {
    {"get", PINYON_GET, 0, TAKES_KEY, GIVES_VALUE},
    {"gets", PINYON_GET, PINYON_WITH_CAS, TAKES_KEY, GIVES_VALUE_AND_CAS},
    {"gat", PINYON_GAT, 0, TAKES_TTL, GIVES_VALUE},
    {"gats", PINYON_GAT, PINYON_WITH_CAS, TAKES_TTL, GIVES_VALUE_AND_CAS},
    {"get_with_ttl", PINYON_GET, PINYON_WITH_TTL, TAKES_KEY, GIVES_VALUE_AND_TTL},
    {"set", PINYON_SET, 0, TAKES_VALUE, GIVES_TRUTH},
    {"add", PINYON_ADD, 0, TAKES_VALUE, GIVES_TRUTH},
    {"replace", PINYON_REPLACE, 0, TAKES_VALUE, GIVES_TRUTH},
    {"append", PINYON_APPEND, PINYON_RAW, TAKES_BYTES, GIVES_TRUTH},
    {"prepend", PINYON_PREPEND, PINYON_RAW, TAKES_BYTES, GIVES_TRUTH},
    {"cas", PINYON_SET, PINYON_WITH_CAS, TAKES_CAS, GIVES_CHANGED},
    {"delete", PINYON_DELETE, 0, TAKES_STALE, GIVES_TRUTH},
    {"touch", PINYON_TOUCH, 0, TAKES_TTL, GIVES_TRUTH},
    {"incr", PINYON_INCR, 0, TAKES_DELTA, GIVES_NUMBER},
    {"decr", PINYON_DECR, 0, TAKES_DELTA, GIVES_NUMBER},
    {"meta", PINYON_METADATA, 0, TAKES_KEY, GIVES_METADATA},
    {"lease", PINYON_LEASE, 0, TAKES_LEASE, GIVES_LEASE},
};

#define MOST_ARGUMENTS 8

typedef struct {
    pinyon_request       *request;
    const call_method_of *method;
    SV                   *value;  /* what was received, as bytes */
    SV                   *target; /* the caller's op has this for a short result; NULL: it has none */
    uint32_t              flags;
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl;
#endif
    /* Copies of what the request refers to: a handler of signals may change the caller's variables during the call. */
    char  *room;
    STRLEN left;
} call;

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

/* Bytes that stay as they are, and where they are, during the call. */
static pinyon_bytes kept(pTHX_ call *one, SV *sv, const char *start, STRLEN size)
{
    pinyon_bytes bytes;
    bytes.size = size;
    if (size <= one->left) {
        Copy(start, one->room, size, char);
        bytes.start = one->room;
        one->room += size;
        one->left -= size;
        return bytes;
    }
    if (sv && SvPOK(sv) && !SvGMAGICAL(sv)) {
        SV *copy    = sv_2mortal(newSVsv_nomg(sv)); /* shares the bytes of a large one */
        bytes.start = SvPVX_const(copy);
        return bytes;
    }
    bytes.start = SvPVX_const(sv_2mortal(newSVpvn(start, size)));
    return bytes;
}

static void key_of(pTHX_ call *one, SV *key)
{
    STRLEN      size;
    const char *start;
    SvGETMAGIC(key);
    if (!SvOK(key))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("a key is a string, not undef"));
    if (SvROK(key) && !SvAMAGIC(key))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("a key is a string, not a reference to %s", sv_reftype(SvRV(key), 0)));
    start            = SvPV_nomg_const(key, size);
    one->request->key = kept(aTHX_ one, key, start, size);
}

static int64_t ttl_of(pTHX_ SV *ttl, int64_t none, const char *name)
{
    NV seconds;
    SvGETMAGIC(ttl);
    if (!SvOK(ttl))
        return 0;
    if (SvIOK(ttl) && !SvIsUV(ttl))
        return SvIVX(ttl) == 0 ? none : SvIVX(ttl);
    if (SvROK(ttl) ? !SvAMAGIC(ttl) : !looks_like_number(ttl))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(ttl)));
    seconds = SvNV_nomg(ttl);
    /* The library stores an item for as long as the server can keep it. */
    if (seconds >= 9e18 && strEQ(name, "ttl"))
        return PINYON_FOREVER - 1;
    if (!(seconds < 9e18))
        throw_usage(aTHX_ newSVpvf("%s is a number of seconds, not %" SVf, name, SVfARG(ttl)));
    if (seconds < 0)
        return -1;
    return seconds == 0 ? none : (int64_t)Perl_ceil(seconds);
}

static uint64_t count_of(pTHX_ SV *number, const char *name)
{
    SvGETMAGIC(number);
    if (SvIOK(number) && (SvIsUV(number) || SvIVX(number) >= 0))
        return (uint64_t)SvUVX(number);
    if (SvOK(number) && !SvROK(number) && looks_like_number(number)) {
        UV given = SvUV_nomg(number);
        if (SvNV_nomg(number) == (NV)given)
            return (uint64_t)given;
    }
    throw_usage(aTHX_ newSVpvf("%s is a whole number from 0 to 2**64-1, not %" SVf, name,
                               SVfARG(SvOK(number) ? number : sv_2mortal(newSVpvs("undef")))));
    return 0;
}

static void value_to_store(pTHX_ cache_handle *cache, SV *self, call *one, SV *value)
{
    pinyon_request *request = one->request;
    STRLEN          size;
    const char     *start;

    SvGETMAGIC(value);
    if (cache->serialization == SERIALIZE_OBJECT
        || (cache->serialization == SERIALIZE_STORABLE && SvROK(value))) {
        SV *bytes      = dumped(aTHX_ self, value, &request->client_flags);
        start          = SvPVbyte(bytes, size);
        request->value = kept(aTHX_ one, bytes, start, size);
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
        request->value = kept(aTHX_ one, value, start, size);
        return;
    }
    if (cache->serialization == SERIALIZE_RAW) {
        if (SvROK(value) && !SvAMAGIC(value))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                       newSVpvf("the serializer 'raw' takes strings, not a reference to %s", sv_reftype(SvRV(value), 0)));
        if (!SvOK(value))
            throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("the serializer 'raw' takes strings, not undef"));
        start          = SvPV_nomg_const(value, size);
        request->value = kept(aTHX_ one, NULL, start, size);
        return;
    }
    if ((SvIOK(value) || (SvNOK(value) && !SvROK(value) && is_whole(value))) && cache->has_plain[PINYON_INTEGER]) {
        request->client_flags = cache->plain_flags[PINYON_INTEGER];
        start = SvPV_const(sv_2mortal(SvIOK(value) ? newSVsv_nomg(value) : newSViv((IV)SvNVX(value))), size);
        request->value = kept(aTHX_ one, NULL, start, size);
        return;
    }
written:
    {
        SV *bytes            = written(aTHX_ cache, value, &request->client_flags);
        request->value.start = SvPVX_const(bytes);
        request->value.size  = SvCUR(bytes);
    }
}

static void bytes_to_add(pTHX_ call *one, SV *value)
{
    STRLEN      size;
    const char *start;
    SvGETMAGIC(value);
    if (!SvOK(value) || (SvROK(value) && !SvAMAGIC(value)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE,
                   newSVpvf("%s takes a string, not %s", one->method->name, SvOK(value) ? "a reference" : "undef"));
    start              = SvPV_nomg_const(value, size);
    one->request->value = kept(aTHX_ one, value, start, size);
}

static void option_of(pTHX_ call *one, SV *name, SV *value)
{
    const char     *given   = SvPV_nolen_const(name);
    const call_takes takes  = one->method->takes;
    pinyon_request *request = one->request;

    if (takes == TAKES_DELTA && strEQ(given, "initial")) {
        if (SvOK(value)) {
            request->with |= PINYON_WITH_INITIAL;
            request->initial = count_of(aTHX_ value, "initial");
        }
    } else if (takes == TAKES_DELTA && strEQ(given, "ttl")) {
        request->ttl = ttl_of(aTHX_ value, PINYON_FOREVER, "ttl");
    } else if (takes == TAKES_STALE && strEQ(given, "stale")) {
        if (SvOK(value)) {
            request->verb = PINYON_MARK_STALE;
            request->with |= PINYON_WITH_TTL;
            request->ttl = ttl_of(aTHX_ value, 0, "stale");
        }
    } else if (takes == TAKES_LEASE && strEQ(given, "lease")) {
        request->lease = (uint32_t)ttl_of(aTHX_ value, 0, "lease");
    } else if (takes == TAKES_LEASE && strEQ(given, "unreadable")) {
        request->with |= PINYON_WITH_CAS;
        request->cas = count_of(aTHX_ value, "unreadable");
    } else if (takes == TAKES_LEASE && strEQ(given, "recache")) {
        request->recache = ttl_of(aTHX_ value, 0, "recache");
    } else {
        throw_usage(aTHX_ newSVpvf("%s has no option \"%s\"", one->method->name, given));
    }
}

static const char *const shown_arguments[] = {
    "a key", "a key and a ttl", "a key, a value and perhaps a ttl", "a key and a value",
    "a key, a value, a CAS token and perhaps a ttl", "a key and perhaps stale => seconds",
    "a key, perhaps a number, and options", "a key and options"};

static void refuse_arguments(pTHX_ const call_method_of *method)
{
    throw_usage(aTHX_ newSVpvf("%s takes %s", method->name, shown_arguments[method->takes]));
}

static const struct {
    signed char least, most;
} limits[] = {{1, 1}, {2, 2}, {2, 3}, {2, 2}, {3, 4}, {1, MOST_ARGUMENTS}, {1, MOST_ARGUMENTS}, {1, MOST_ARGUMENTS}};

/* Whether preparing a call cannot die: a key, a short value and numbers, and no options. */
static bool is_prepared_safely(const cache_handle *cache, unsigned number, SV **given, SSize_t count)
{
    const call_takes takes  = methods[number].takes;
    const SSize_t    value  = takes == TAKES_VALUE || takes == TAKES_BYTES || takes == TAKES_CAS ? 1 : 0;
    SSize_t          index;
    if (count < limits[takes].least || count > limits[takes].most)
        return false;
    if (takes >= TAKES_STALE && count > (takes == TAKES_DELTA ? 2 : 1))
        return false;
    for (index = 0; index < count; index++) {
        SV *sv = given[index];
        if (SvROK(sv) || SvGMAGICAL(sv) || !(SvIOK(sv) || (SvPOK(sv) && index <= value)))
            return false;
        if (index > value && (SvIsUV(sv) || SvIVX(sv) < 0))
            return false;
    }
    if (!value)
        return true;
    if (cache->serialization == SERIALIZE_OBJECT || (SvPOK(given[1]) && SvUTF8(given[1])))
        return false;
    return cache->has_plain[PINYON_BYTES] && cache->has_plain[PINYON_INTEGER];
}

/* Fills the request of a call, whose `request`, `room` and `left` are set. `given` are its arguments without the object; `self` is for serializers in Perl. */
static void prepare(pTHX_ cache_handle *cache, SV *self, call *one, unsigned number, SV **given, SSize_t count)
{
    const call_method_of *method  = &methods[number];
    pinyon_request       *request = one->request;
    SSize_t               index   = 1;

    Zero(request, 1, pinyon_request);
    request->size    = sizeof *request;
    request->verb    = method->verb;
    request->with    = method->with;
    request->context = one;
    one->method      = method;
    one->value       = NULL;
    one->target      = NULL;
#ifdef MULTIPLICITY
    one->my_perl = my_perl;
#endif
    if (count < limits[method->takes].least || count > limits[method->takes].most)
        refuse_arguments(aTHX_ method);
    key_of(aTHX_ one, given[0]);
    switch (method->takes) {
    case TAKES_KEY: return;
    case TAKES_TTL: request->ttl = ttl_of(aTHX_ given[1], 0, "ttl"); return;
    case TAKES_VALUE:
        if (count > 2)
            request->ttl = ttl_of(aTHX_ given[2], PINYON_FOREVER, "ttl");
        value_to_store(aTHX_ cache, self, one, given[1]);
        return;
    case TAKES_BYTES: bytes_to_add(aTHX_ one, given[1]); return;
    case TAKES_CAS:
        request->cas = count_of(aTHX_ given[2], "a CAS token");
        if (count > 3)
            request->ttl = ttl_of(aTHX_ given[3], PINYON_FOREVER, "ttl");
        value_to_store(aTHX_ cache, self, one, given[1]);
        return;
    case TAKES_DELTA:
        request->delta = 1;
        if (count > 1 && count % 2 == 0) {
            request->delta = count_of(aTHX_ given[1], method->name);
            index          = 2;
        }
        request->client_flags = cache->plain_flags[PINYON_INTEGER];
        break;
    case TAKES_STALE:
    case TAKES_LEASE: break;
    }
    if ((count - index) % 2)
        refuse_arguments(aTHX_ method);
    for (; index < count; index += 2)
        option_of(aTHX_ one, given[index], given[index + 1]);
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

/* Short values go into the target of the caller's op, as those of Perl's own functions do, instead of a new scalar. It
 * keeps its memory, so long values do not. */
#define LONGEST_IN_TARGET 1000

/* What the op that calls has for its result, if it has something. */
static SV *target_of_op(pTHX)
{
    return PL_op->op_type == OP_ENTERSUB && PL_op->op_private & OPpENTERSUB_HASTARG ? PAD_SV(PL_op->op_targ) : NULL;
}

static SV *target_of_size(pTHX_ SV *target, size_t size)
{
    if (SvTHINKFIRST(target))
        sv_force_normal_flags(target, SV_COW_DROP_PV);
    SvUPGRADE(target, SVt_PV);
    SvGROW(target, size + 1);
    /* A string without room is copied by an assignment; one with room would be shared, and be a new one here each time. */
    SvLEN_set(target, size + 1);
    return SvREFCNT_inc_simple_NN(target);
}

/* Where the library puts a value: a string of Perl's. */
static void *place(void *context, size_t size, uint32_t flags)
{
    call *one = (call *)context;
    SV   *value;
    dTHXa(one->my_perl);

    value = one->target && size <= LONGEST_IN_TARGET ? target_of_size(aTHX_ one->target, size) : newSV(size ? size : 1);
    SvPOK_only(value);
    SvCUR_set(value, size);
    *SvEND(value) = '\0';
    SvREFCNT_dec(one->value);
    one->value = value;
    one->flags = flags;
    return SvPVX(value);
}

#ifdef __GNUC__
#define COLD __attribute__((cold, noinline))
#define HOT __attribute__((always_inline)) inline
#else
#define COLD
#define HOT
#endif

/* A value that the old client of a migrating one reads. */
static COLD SV *value_of_old(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags)
{
    SV **old = self ? hv_fetchs((HV *)SvRV(self), "old", 0) : NULL;
    return value_of(aTHX_ cache->old, old ? *old : NULL, stored, flags);
}

static HOT SV *taken_value(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *stored = one->value ? one->value : newSVpvs("");
    one->value = NULL;
    if (UNLIKELY(reply->marks & PINYON_OF_OLD))
        return value_of_old(aTHX_ cache, self, stored, reply->client_flags);
    return value_of(aTHX_ cache, self, stored, reply->client_flags);
}

static SV *pair(pTHX_ SV *value, SV *other)
{
    AV *both = newAV();
    av_extend(both, 1);
    av_push(both, value);
    av_push(both, other);
    return newRV_noinc((SV *)both);
}

static SV *metadata(pTHX_ const pinyon_reply *reply)
{
    HV *fields = newHV();
    hv_stores(fields, "size", newSVuv(reply->item_size));
    hv_stores(fields, "flags", newSVuv(reply->client_flags));
    hv_stores(fields, "cas", newSVuv(reply->cas));
    hv_stores(fields, "ttl", reply->ttl < 0 ? newSV(0) : newSViv((IV)reply->ttl));
    hv_stores(fields, "last_access", newSVuv(reply->idle));
    hv_stores(fields, "fetched", boolSV(reply->marks & PINYON_HIT_BEFORE));
    return newRV_noinc((SV *)fields);
}

/* [state, token, whether a stale value stays, value]; the value is left out if there is none. "unreadable": there is one that
 * cannot be read. A stale one that cannot be read is as good as none: another caller makes a new one. */
static SV *leased(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    AV         *fields = newAV();
    SV         *result = sv_2mortal(newRV_noinc((SV *)fields));
    const char *state  = reply->status == PINYON_WON       ? "won"
                         : reply->status == PINYON_STALE   ? "stale"
                         : reply->status == PINYON_FILLING ? "filling"
                         : reply->status == PINYON_MISS    ? "filling"
                                                           : "hit";
    SV         *value = NULL;
    /* Reading the value, and what makes an object of this, runs Perl code, out of which a handler of signals may die. */
    if (reply->status == PINYON_WON && reply->marks & PINYON_HAS_CAS && self && !cache->loop) {
        lease_handle *won = lease_attach(aTHX_ result, self);
        won->key          = newSVpvn(one->request->key.start, one->request->key.size);
        won->token        = reply->cas;
        won->stays        = (reply->marks & PINYON_HAS_STALE) != 0;
        sv_bless(result, gv_stashpvs("Pinyon::Lease::Won", GV_ADD));
    }
    if (reply->marks & PINYON_HAS_VALUE) {
        SV *stored = one->value ? one->value : newSVpvs("");
        one->value = NULL;
        value      = self ? value_or_miss(aTHX_ self, stored, reply->client_flags, true)
                          : value_read(aTHX_ cache, self, stored, reply->client_flags);
        if (!value && reply->status == PINYON_DONE)
            state = "unreadable";
        if (!value && reply->status == PINYON_STALE)
            state = "filling";
    }
    av_push(fields, newSVpv(state, 0));
    av_push(fields, reply->marks & PINYON_HAS_CAS ? newSVuv(reply->cas) : newSV(0));
    av_push(fields, newSViv(reply->marks & PINYON_HAS_STALE ? 1 : 0));
    if (value)
        av_push(fields, value);
    return SvREFCNT_inc_NN(result);
}

/* What a method returns, for a status of 0 or above: a new reference; NULL for a miss. It may die: for a value that
 * cannot be read. */
static SV *answer(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply)
{
    SV *value;
    switch (one->method->gives) {
    case GIVES_TRUTH: return reply->status == PINYON_DONE ? &PL_sv_yes : &PL_sv_no;
    case GIVES_CHANGED:
        if (reply->status == PINYON_MISS)
            return NULL;
        return reply->status == PINYON_DONE ? &PL_sv_yes : &PL_sv_no;
    case GIVES_LEASE: return leased(aTHX_ cache, self, one, reply);
    default: break;
    }
    if (reply->status != PINYON_DONE)
        return NULL;
    switch (one->method->gives) {
    case GIVES_NUMBER: return newSVuv((UV)reply->number);
    case GIVES_METADATA: return metadata(aTHX_ reply);
    case GIVES_VALUE_AND_CAS:
        value = taken_value(aTHX_ cache, self, one, reply);
        if (!value)
            return NULL;
        return pair(aTHX_ value, newSVuv((UV)reply->cas));
    case GIVES_VALUE_AND_TTL:
        value = taken_value(aTHX_ cache, self, one, reply);
        if (!value)
            return NULL;
        return pair(aTHX_ value, reply->ttl < 0 ? newSV(0) : newSViv((IV)reply->ttl));
    default: return taken_value(aTHX_ cache, self, one, reply);
    }
}

/* Whether its value is one that is there already: no reader is needed, which might die. */
static bool is_plain_value(pTHX_ cache_handle *cache, call *one, const pinyon_reply *reply)
{
    if (reply->marks & PINYON_OF_OLD)
        cache = cache->old;
    return !one->value || is_plain_stored(aTHX_ cache, one->value, reply->client_flags);
}
