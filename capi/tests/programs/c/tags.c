/* Values with tags: stored by requests of threads and event loops, and by makers; and what invalidates them. */
#include "polling.h"

static pinyon_client *client;
static pinyon_loop   *loop; /* NULL: the thread waits */
static struct polling polling;

static pinyon_tags *tags_of(pinyon_client *of, const char *first, const char *second)
{
    pinyon_bytes  names[] = {pinyon_text(first), pinyon_text(second)};
    pinyon_error *error   = NULL;
    pinyon_tags  *tags    = pinyon_tags_new(of, names, second ? 2 : 1, &error);
    CHECK(tags && !error);
    return tags;
}

static pinyon_status run(pinyon_client *with, const pinyon_request *request, pinyon_reply *reply)
{
    if (!loop) return pinyon_run(with, request, reply, NULL);
    uint64_t      ticket;
    pinyon_error *error = NULL;
    if (pinyon_begin_using(loop, with, request, &ticket, &error) < 0) {
        reply->error = error;
        return reply->status = PINYON_FAILED;
    }
    pinyon_status status = next_reply(&polling, reply);
    CHECK(reply->ticket == ticket);
    return status;
}

static pinyon_status done(const pinyon_request *request)
{
    pinyon_reply  reply  = {sizeof reply};
    pinyon_status status = run(client, request, &reply);
    pinyon_reply_clear(&reply);
    return status;
}

static void invalidate(const pinyon_tags *tags)
{
    pinyon_request request = {sizeof request, PINYON_INVALIDATE_TAGS};
    request.tags           = tags;
    CHECK(done(&request) == PINYON_DONE);
}

static bool has(const char *key, const char *value)
{
    pinyon_request get   = about(PINYON_GET, key);
    pinyon_reply   reply = {sizeof reply};
    pinyon_status  status = run(client, &get, &reply);
    bool           found  = status == PINYON_DONE && is(reply.value, value);
    CHECK(found || status == PINYON_MISS);
    pinyon_reply_clear(&reply);
    return found;
}

static void store_and_invalidate(void)
{
    pinyon_tags *user = tags_of(client, "user:7", NULL), *both = tags_of(client, "user:7", "orders");
    const struct {
        pinyon_verb verb;
        const char *key;
    } stores[] = {{PINYON_SET, "tagged:set"}, {PINYON_ADD, "tagged:add"}, {PINYON_REPLACE, "tagged:replace"}};
    pinyon_request before = storing(PINYON_SET, "tagged:replace", "before");
    CHECK(done(&before) == PINYON_DONE);
    pinyon_request cleared = about(PINYON_DELETE, "tagged:add");
    done(&cleared);
    for (size_t each = 0; each < sizeof stores / sizeof *stores; each++) {
        pinyon_request store = storing(stores[each].verb, stores[each].key, "v");
        store.tags           = both;
        CHECK(done(&store) == PINYON_DONE);
    }
    for (size_t each = 0; each < sizeof stores / sizeof *stores; each++) CHECK(has(stores[each].key, "v"));
    /* With a token, and the token of what was stored. */
    pinyon_request gets  = about(PINYON_GET, "tagged:set");
    pinyon_reply   reply = {sizeof reply};
    gets.with            = PINYON_WITH_CAS;
    CHECK(run(client, &gets, &reply) == PINYON_DONE && reply.marks & PINYON_HAS_CAS);
    pinyon_request cas = storing(PINYON_SET, "tagged:set", "w");
    cas.with = PINYON_WITH_CAS, cas.cas = reply.cas, cas.tags = user;
    CHECK(done(&cas) == PINYON_DONE && done(&cas) == PINYON_CHANGED);
    CHECK(has("tagged:set", "w"));
    invalidate(user);
    for (size_t each = 0; each < sizeof stores / sizeof *stores; each++) CHECK(!has(stores[each].key, "v"));
    CHECK(!has("tagged:set", "w"));
    /* One tag of several is enough. */
    pinyon_request set = storing(PINYON_SET, "tagged:set", "x");
    set.tags           = both;
    CHECK(done(&set) == PINYON_DONE && has("tagged:set", "x"));
    pinyon_tags *orders = tags_of(client, "orders", NULL);
    invalidate(orders);
    CHECK(!has("tagged:set", "x"));
    pinyon_reply_clear(&reply);
    pinyon_tags_free(orders);
    pinyon_tags_free(user);
    pinyon_tags_free(both);
}

static pinyon_making *making_of(const pinyon_tags *tags, uint32_t with, const char *key)
{
    pinyon_terms terms = {sizeof terms};
    terms.key = pinyon_text(key), terms.ttl = 60, terms.stale = 60, terms.with = with, terms.tags = tags;
    terms.scope = loop ? 1 : 0;
    pinyon_error  *error  = NULL;
    pinyon_making *making = pinyon_making_new(client, &terms, &error);
    CHECK(making && !error);
    return making;
}

/* The next time that the maker is asked for a value, or the end. */
static pinyon_status proceed(pinyon_making *making, pinyon_reply *reply)
{
    if (!loop) return pinyon_making_run(making, reply, NULL);
    for (;;) {
        pinyon_step step = {sizeof step};
        CHECK(pinyon_making_step(making, &step, reply) == PINYON_DONE);
        if (step.kind == PINYON_STEP_MAKE) return PINYON_MAKE;
        if (step.kind == PINYON_STEP_OVER) return reply->status;
        CHECK(step.kind == PINYON_STEP_ASK);
        pinyon_reply answer = {sizeof answer};
        run(client, &step.request, &answer);
        pinyon_making_replied(making, &answer);
        pinyon_reply_clear(&answer);
    }
}

static pinyon_status make(pinyon_making *making, const char *value, const pinyon_tags *meanwhile)
{
    pinyon_reply  reply  = {sizeof reply};
    pinyon_status status = proceed(making, &reply), outcome = status;
    if (status == PINYON_MAKE) {
        if (meanwhile) invalidate(meanwhile);
        pinyon_making_made(making, pinyon_text(value), 0);
        outcome = proceed(making, &reply);
    }
    CHECK(outcome == PINYON_DONE && is(reply.value, value));
    pinyon_reply_clear(&reply);
    pinyon_making_free(making);
    return status;
}

static void make_and_invalidate(void)
{
    pinyon_tags *user = tags_of(client, "user:8", NULL);
    CHECK(make(making_of(user, 0, "made"), "first", NULL) == PINYON_MAKE);
    CHECK(make(making_of(user, 0, "made"), "first", NULL) == PINYON_DONE);
    invalidate(user);
    CHECK(!has("made", "first"));
    /* Invalidated while it is made: it does not count. */
    CHECK(make(making_of(user, 0, "made"), "second", user) == PINYON_MAKE);
    CHECK(!has("made", "second"));
    CHECK(make(making_of(user, 0, "made"), "third", NULL) == PINYON_MAKE);
    CHECK(make(making_of(user, PINYON_TERMS_ANEW, "made"), "anew", NULL) == PINYON_MAKE && has("made", "anew"));
    CHECK(make(making_of(user, PINYON_TERMS_ANEW, "made"), "late", user) == PINYON_MAKE && !has("made", "late"));
    pinyon_tags_free(user);
}

/* A maker that fails leaves the old value, which keeps its tags. */
static void keep_stale(void)
{
    pinyon_tags  *user = tags_of(client, "user:9", NULL);
    pinyon_reply  reply = {sizeof reply};
    pinyon_request set  = storing(PINYON_SET, "kept", "old");
    set.ttl = 30, set.tags = user; /* less than `stale` is left, so it is made anew */
    CHECK(done(&set) == PINYON_DONE);
    pinyon_making *making = making_of(user, PINYON_TERMS_STALE_ON_ERROR, "kept");
    CHECK(proceed(making, &reply) == PINYON_MAKE);
    pinyon_making_failed(making, pinyon_text("not today"));
    CHECK(proceed(making, &reply) == PINYON_DONE && is(reply.value, "old"));
    pinyon_making_free(making);
    CHECK(has("kept", "old"));
    invalidate(user);
    CHECK(!has("kept", "old"));
    pinyon_reply_clear(&reply);
    pinyon_tags_free(user);
}

static void make_many(void)
{
    pinyon_tags *user = tags_of(client, "user:10", NULL);
    pinyon_terms terms = {sizeof terms};
    terms.ttl = 60, terms.tags = user;
    pinyon_bytes keys[] = {pinyon_text("many:1"), pinyon_text("many:2"), pinyon_text("many:3")};
    for (int round = 0; round < 3; round++) {
        pinyon_making_many *making = pinyon_making_many_new(client, &terms, keys, 3, NULL);
        pinyon_reply        reply  = {sizeof reply};
        pinyon_status       status = pinyon_making_many_run(making, &reply, NULL);
        CHECK(status == (round == 1 ? PINYON_DONE : PINYON_MAKE));
        size_t key;
        if (round == 2) invalidate(user);
        for (size_t index = 0; pinyon_making_many_wanted(making, index, &key); index++)
            pinyon_making_many_made(making, key, pinyon_text("v"), 0, NULL, NULL);
        if (status == PINYON_MAKE) CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_DONE);
        for (key = 0; key < 3; key++)
            CHECK(pinyon_making_many_answer(making, key, &reply) == PINYON_DONE && is(reply.value, "v"));
        pinyon_making_many_free(making);
        pinyon_reply_clear(&reply);
        CHECK(has("many:1", "v") == (round != 2));
        if (round == 1) {
            invalidate(user);
            CHECK(!has("many:1", "v") && !has("many:3", "v"));
        }
    }
    pinyon_tags_free(user);
}

/* The number of commands of a kind that all servers have carried out. */
static uint64_t count_of(const char *name)
{
    pinyon_request stats = {sizeof stats, PINYON_STATS};
    pinyon_reply   reply = {sizeof reply};
    CHECK(pinyon_run(client, &stats, &reply, NULL) == PINYON_DONE);
    pinyon_answer answer = {sizeof answer};
    uint64_t      count  = 0;
    while (pinyon_next_answer(reply.answers, &answer))
        if (is(answer.name, name)) count += strtoull(answer.value.start, NULL, 10);
    pinyon_reply_clear(&reply);
    return count;
}

static void store_many(void)
{
    pinyon_tags   *user = tags_of(client, "user:11", NULL);
    pinyon_request stores[10];
    pinyon_reply   replies[10];
    char           keys[10][16];
    for (int each = 0; each < 10; each++) {
        snprintf(keys[each], sizeof keys[each], "store:%d", each);
        stores[each]      = storing(PINYON_SET, keys[each], "v");
        stores[each].tags = user;
        replies[each]     = (pinyon_reply){sizeof replies[each]};
    }
    uint64_t gets = count_of("cmd_get"), sets = count_of("cmd_set");
    CHECK(pinyon_run_many(client, stores, replies, 10, NULL) == PINYON_DONE);
    CHECK(count_of("cmd_get") - gets == 1 && count_of("cmd_set") - sets == 11);
    for (int each = 0; each < 10; each++) {
        CHECK(replies[each].status == PINYON_DONE && has(keys[each], "v"));
        pinyon_reply_clear(&replies[each]);
    }
    invalidate(user);
    for (int each = 0; each < 10; each++) CHECK(!has(keys[each], "v"));
    pinyon_tags_free(user);
}

static void refused(pinyon_client *with, pinyon_request request, const char *why)
{
    pinyon_reply reply = {sizeof reply};
    CHECK(run(with, &request, &reply) == PINYON_FAILED);
    CHECK(pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    if (!strstr(pinyon_error_message(reply.error), why)) fprintf(stderr, "%s\n", pinyon_error_message(reply.error));
    CHECK(strstr(pinyon_error_message(reply.error), why));
    pinyon_reply_clear(&reply);
}

/* Reads have ways of their own: many at once, and from memory. */
static void read_with_tags(const char *servers, const pinyon_tags *tags)
{
    pinyon_request gets[] = {about(PINYON_GET, "key"), about(PINYON_GET, "missing"), about(PINYON_GET, "missing")};
    pinyon_reply   replies[3] = {{sizeof *replies}, {sizeof *replies}, {sizeof *replies}};
    gets[0].tags              = tags;
    CHECK(pinyon_run_many(client, gets, replies, 3, NULL) == PINYON_FAILED);
    CHECK(replies[0].status == PINYON_FAILED && strstr(pinyon_error_message(replies[0].error), "takes no tags"));
    CHECK(replies[1].status == PINYON_MISS && replies[2].status == PINYON_MISS);
    for (size_t each = 0; each < 3; each++) pinyon_reply_clear(&replies[each]);

    pinyon_client *near = client_of(servers, "near", "true");
    pinyon_request set  = storing(PINYON_SET, "hot", "v");
    CHECK(pinyon_run(near, &set, &replies[0], NULL) == PINYON_DONE);
    gets[0].key = gets[1].key = pinyon_text("hot");
    for (int time = 0; time < 3; time++) CHECK(pinyon_run(near, &gets[1], &replies[1], NULL) == PINYON_DONE);
    refused(near, gets[0], "takes no tags");
    for (size_t each = 0; each < 3; each++) pinyon_reply_clear(&replies[each]);
    pinyon_client_free(near);
}

static void misuse(const char *servers)
{
    pinyon_tags   *user    = tags_of(client, "user:7", NULL);
    pinyon_verb    verbs[] = {PINYON_GET, PINYON_GAT, PINYON_APPEND, PINYON_PREPEND, PINYON_INCR, PINYON_DELETE, PINYON_LEASE};
    pinyon_error  *error   = NULL;
    for (size_t each = 0; each < sizeof verbs / sizeof *verbs; each++) {
        pinyon_request request = storing(verbs[each], "key", "v");
        request.tags           = user;
        refused(client, request, "takes no tags");
    }
    if (!loop) read_with_tags(servers, user);
    pinyon_request nothing = {sizeof nothing, PINYON_INVALIDATE_TAGS};
    refused(client, nothing, "pinyon_tags in the request is missing");
    pinyon_batch  *batch = pinyon_batch_new(client, NULL);
    pinyon_request set   = storing(PINYON_SET, "key", "v");
    set.tags             = user;
    CHECK(pinyon_batch_add(batch, &set, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "batches do not store values with tags"));
    pinyon_error_free(error);
    pinyon_batch_free(batch);
    if (!loop) {
        pinyon_client *other = client_of(servers, NULL, NULL);
        refused(other, set, "tags are of another client");
        pinyon_client_free(other);
    }
    pinyon_client *of_dalli = client_of(servers, "dialect", "dalli");
    pinyon_bytes   names[2] = {pinyon_text("user:7"), pinyon_text("")};
    CHECK(!pinyon_tags_new(of_dalli, names, 1, &error) && strstr(pinyon_error_message(error), "dialect"));
    pinyon_error_free(error);
    CHECK(!pinyon_tags_new(client, names, 2, &error) && strstr(pinyon_error_message(error), "at least one byte"));
    pinyon_error_free(error);
    CHECK(!pinyon_tags_new(client, NULL, 1, &error) && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    pinyon_client_free(of_dalli);
    /* No tags at all are as none. */
    pinyon_tags *none = pinyon_tags_new(client, NULL, 0, NULL);
    set.tags          = none;
    CHECK(done(&set) == PINYON_DONE && has("key", "v"));
    invalidate(none);
    CHECK(has("key", "v"));
    pinyon_tags_free(none);
    pinyon_tags_free(user);
}

static void begin_loop(bool has_loop)
{
    loop = has_loop ? pinyon_loop_of_client(client, NULL, NULL) : NULL;
    if (has_loop) polling_init(&polling, loop);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    pinyon_command command = {sizeof command};
    CHECK(pinyon_command_named("invalidate_tags", &command) && command.verb == PINYON_INVALIDATE_TAGS);
    CHECK(!strcmp(command.takes, "tags"));
    for (int way = 0; way < 4; way++) {
        client = client_of(arguments[1], "generation_ttl", way % 2 ? "0" : "60");
        begin_loop(way >= 2);
        store_and_invalidate();
        make_and_invalidate();
        keep_stale();
        make_many();
        store_many();
        misuse(arguments[1]);
        if (loop) polling_end(&polling);
        pinyon_client_free(client);
        pinyon_request   clean   = {sizeof clean, PINYON_FLUSH_ALL};
        pinyon_reply     reply   = {sizeof reply};
        pinyon_client   *cleaner = client_of(arguments[1], NULL, NULL);
        CHECK(pinyon_run(cleaner, &clean, &reply, NULL) == PINYON_DONE);
        pinyon_reply_clear(&reply);
        pinyon_client_free(cleaner);
    }
    /* Moving to other servers: tags are those of the new client. */
    for (int way = 0; way < 2; way++) {
        pinyon_client *from = client_of(arguments[2], "namespace", "from:"), *to = client_of(arguments[1], "namespace", "to:");
        client = pinyon_client_migrating(from, to, NULL, NULL);
        begin_loop(way == 1);
        store_and_invalidate();
        make_and_invalidate();
        make_many();
        pinyon_tags   *user = tags_of(client, "user:7", NULL);
        pinyon_request get  = about(PINYON_GET, "key");
        get.tags            = user;
        refused(client, get, "takes no tags");
        if (!loop) read_with_tags(arguments[1], user);
        pinyon_tags_free(user);
        if (loop) polling_end(&polling);
        pinyon_client_free(client);
        pinyon_client_free(from);
        pinyon_client_free(to);
    }
    return 0;
}
