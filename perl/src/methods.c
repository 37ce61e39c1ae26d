/* The methods on one key: what each takes and gives, and how its arguments become a request. */

#include "pinyon_perl.h"

/* The library lists the calls, and what each takes and gives. Those with arguments that are not here, Perl does not have. */
call_method_of call_methods[MOST_METHODS];
static unsigned   call_method_count;

static const struct {
    const char *takes;
    call_takes  kind;
} known_arguments[] = {
    {"key", TAKES_KEY},
    {"key default", TAKES_KEY},
    {"key ttl", TAKES_TTL},
    {"key value stored_ttl", TAKES_VALUE},
    {"key bytes", TAKES_BYTES},
    {"key value cas stored_ttl", TAKES_CAS},
    {"key stale", TAKES_STALE},
    {"key delta initial stored_ttl", TAKES_DELTA},
    {"key lease recache", TAKES_LEASE},
};

static const struct {
    const char *gives;
    call_gives  kind;
} known_results[] = {
    {"value", GIVES_VALUE},
    {"value_and_cas", GIVES_PAIR},
    {"value_and_ttl", GIVES_PAIR},
    {"done", GIVES_TRUTH},
    {"compared", GIVES_CHANGED},
    {"number", GIVES_NUMBER},
    {"metadata", GIVES_METADATA},
    {"lease", GIVES_LEASE},
};

static bool is_known(const pinyon_command *command, call_method_of *method)
{
    size_t takes, gives;
    for (takes = 0; takes < C_ARRAY_LENGTH(known_arguments); takes++) {
        if (strEQ(known_arguments[takes].takes, command->takes))
            break;
    }
    for (gives = 0; gives < C_ARRAY_LENGTH(known_results); gives++) {
        if (strEQ(known_results[gives].gives, command->gives))
            break;
    }
    if (takes == C_ARRAY_LENGTH(known_arguments) || gives == C_ARRAY_LENGTH(known_results))
        return FALSE;
    method->name  = command->name;
    method->verb  = command->verb;
    method->with  = command->with;
    method->takes = known_arguments[takes].kind;
    method->gives = known_results[gives].kind;
    return TRUE;
}

void load_methods(void)
{
    pinyon_command command;
    size_t         index;
    if (call_method_count)
        return;
    command.size = sizeof command;
    for (index = 0; call_method_count < MOST_METHODS && pinyon_command_at(index, &command); index++) {
        if (is_known(&command, &call_methods[call_method_count]))
            call_method_count++;
    }
}

static CV *install(pTHX_ const char *before, const call_method_of *method, const char *after, XSUBADDR_t code)
{
    char full[100];
    /* A lease is asked for by a method of Perl's, which makes an object of it. */
    my_snprintf(full, sizeof full, "%s%s%s%s", before, method->gives == GIVES_LEASE ? "_" : "", method->name, after);
    return newXS(full, code, __FILE__);
}

void install_methods(pTHX_ const char *before, const char *after, methods_chosen chosen, XSUBADDR_t method)
{
    unsigned number;
    for (number = 0; number < call_method_count; number++) {
        const call_gives gives   = call_methods[number].gives;
        const bool       changes = gives == GIVES_TRUTH || gives == GIVES_CHANGED || gives == GIVES_NUMBER;
        if (changes || chosen == EACH_METHOD)
            CvXSUBANY(install(aTHX_ before, &call_methods[number], after, method)).any_i32 = (I32)number;
    }
}

void install_each(pTHX_ const char *before, const XSUBADDR_t *methods)
{
    unsigned number;
    for (number = 0; number < call_method_count; number++)
        install(aTHX_ before, &call_methods[number], "", methods[number]);
}

unsigned method_number(pTHX_ const char *name)
{
    unsigned number;
    for (number = 0; number < call_method_count; number++) {
        if (strEQ(call_methods[number].name, name))
            return number;
    }
    throw_usage(aTHX_ newSVpvf("there is no method %s", name));
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
    one->request->key = kept_bytes(aTHX_ one, key, start, size);
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
    one->request->value = kept_bytes(aTHX_ one, value, start, size);
}

static void option_of(pTHX_ cache_handle *cache, call *one, SV *name, SV *value)
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
    } else if ((takes == TAKES_VALUE || takes == TAKES_CAS) && strEQ(given, "tags")) {
        request->tags = tags_of(aTHX_ cache, value);
    } else if (takes == TAKES_VALUE || takes == TAKES_CAS) {
        refuse_arguments(aTHX_ one->method);
    } else {
        throw_usage(aTHX_ newSVpvf("%s has no option \"%s\"", one->method->name, given));
    }
}

const char *const shown_arguments[] = {
    "a key", "a key and a ttl", "a key, a value and perhaps a ttl, and perhaps tags => names", "a key and a value",
    "a key, a value, a CAS token and perhaps a ttl, and perhaps tags => names", "a key and perhaps stale => seconds",
    "a key, perhaps a number, and options", "a key and options"};

void refuse_arguments(pTHX_ const call_method_of *method)
{
    throw_usage(aTHX_ newSVpvf("%s takes %s", method->name, shown_arguments[method->takes]));
}

static const struct {
    signed char least, most;
} limits[] = {{1, 1}, {2, 2}, {2, 5}, {2, 2}, {3, 6}, {1, MOST_ARGUMENTS}, {1, MOST_ARGUMENTS}, {1, MOST_ARGUMENTS}};

/* A key, a short value and numbers, and no options. */
bool is_prepared_safely(const cache_handle *cache, unsigned number, SV **given, SSize_t count)
{
    const call_takes takes  = call_methods[number].takes;
    const SSize_t    value  = takes == TAKES_VALUE || takes == TAKES_BYTES || takes == TAKES_CAS ? 1 : 0;
    SSize_t          index;
    if (count < limits[takes].least || count > limits[takes].most)
        return false;
    if (value && count > (takes == TAKES_CAS ? 4 : 3))
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

void prepare_call(pTHX_ cache_handle *cache, SV *self, call *one, unsigned number, SV **given, SSize_t count)
{
    const call_method_of *method  = &call_methods[number];
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
        index = 2;
        if (count > 3)
            break; /* with options */
        if (count > 2)
            request->ttl = ttl_of(aTHX_ given[2], PINYON_FOREVER, "ttl");
        value_to_store(aTHX_ cache, self, one, given[1]);
        return;
    case TAKES_BYTES: bytes_to_add(aTHX_ one, given[1]); return;
    case TAKES_CAS:
        request->cas = count_of(aTHX_ given[2], "a CAS token");
        index        = 3;
        break;
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
    if (method->takes == TAKES_VALUE || method->takes == TAKES_CAS) {
        if ((count - index) % 2) {
            request->ttl = ttl_of(aTHX_ given[index], PINYON_FOREVER, "ttl");
            index++;
        }
        value_to_store(aTHX_ cache, self, one, given[1]);
    }
    if ((count - index) % 2)
        refuse_arguments(aTHX_ method);
    for (; index < count; index += 2)
        option_of(aTHX_ cache, one, given[index], given[index + 1]);
}

void prepare_give_back(pTHX_ cache_handle *cache, SV *self, lone_call *alone, SV *key, SV *token, bool stays)
{
    prepare_alone(aTHX_ cache, self, alone, method_number(aTHX_ "delete"), &key, 1);
    alone->request.verb = PINYON_GIVE_BACK;
    alone->request.cas  = (uint64_t)SvUV(token);
    alone->request.with = stays ? PINYON_KEEP : 0;
}
