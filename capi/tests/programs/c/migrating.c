/* A client that stands for an old and a new pool: waiting, about many keys, and in an event loop. */
#include "polling.h"

static pinyon_client *old_pool, *new_pool, *both;
static pinyon_reply   reply = {.size = sizeof reply};

static pinyon_client *pool(const char *server, size_t size, const char *dialect)
{
    pinyon_option  options[] = {{"servers", {server, size}}, PINYON_OPTION("timeout", "30"),
                                PINYON_OPTION("connect_timeout", "30"), {"dialect", pinyon_text(dialect)}};
    pinyon_client *client    = pinyon_client_new(options, 4, NULL);
    CHECK(client);
    return client;
}

/* Stores the integer 7 as each client stores integers, in one pool, and deletes the key in the other. */
static void only_in(pinyon_client *client, const char *key)
{
    pinyon_request set = storing(PINYON_SET, key, "7"), delete = about(PINYON_DELETE, key);
    set.ttl = 3600;
    CHECK(pinyon_flags_of(client, PINYON_INTEGER, &set.client_flags));
    CHECK(pinyon_run(old_pool, &delete, &reply, NULL) >= 0 && pinyon_run(new_pool, &delete, &reply, NULL) >= 0);
    CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_DONE);
}

/* Whether a pool has the key with this text; NULL: not at all. */
static bool has(pinyon_client *client, const char *key, const char *text)
{
    pinyon_request get = about(PINYON_GET, key);
    pinyon_status  status = pinyon_run(client, &get, &reply, NULL);
    return text ? status == PINYON_DONE && is(reply.value, text) : status == PINYON_MISS;
}

typedef pinyon_status (*running)(const pinyon_request *request);

static pinyon_status run(const pinyon_request *request) { return pinyon_run(both, request, &reply, NULL); }
static pinyon_status run_many(const pinyon_request *request)
{
    pinyon_status status = pinyon_run_many(both, request, &reply, 1, NULL);
    CHECK((status == PINYON_FAILED) == (reply.status == PINYON_FAILED));
    return reply.status;
}

static bool is_leased(const char *key)
{
    pinyon_request metadata = about(PINYON_METADATA, key);
    return pinyon_run(new_pool, &metadata, &reply, NULL) == PINYON_DONE;
}

static struct polling polling;
static pinyon_status run_in_loop(const pinyon_request *request)
{
    uint64_t ticket = 0;
    CHECK(pinyon_begin(polling.loop, request, &ticket, NULL) == PINYON_DONE);
    pinyon_status status = next_reply(&polling, &reply);
    CHECK(reply.ticket == ticket && reply.context == request->context && pinyon_loop_is_idle(polling.loop));
    return status;
}

static pinyon_request with(pinyon_request request, uint32_t with)
{
    request.with = with;
    request.delta = 1;
    request.initial = 1;
    return request;
}

/* What each request comes to, and what the pools have then: if only the old one had 7, and if neither had anything. */
static void requests(running run)
{
    pinyon_request set = storing(PINYON_SET, "k", "8"), cas;
    struct {
        pinyon_request request;
        pinyon_status  found, missing;
        const char    *old_after, *new_after, *new_of_nothing;
    } cases[] = {
        {about(PINYON_GET, "k"), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {with(about(PINYON_GET, "k"), PINYON_WITH_CAS), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {with(about(PINYON_GET, "k"), PINYON_WITH_TTL), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {about(PINYON_GAT, "k"), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {about(PINYON_TOUCH, "k"), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {about(PINYON_METADATA, "k"), PINYON_DONE, PINYON_MISS, "7", "7", NULL},
        {set, PINYON_DONE, PINYON_DONE, NULL, "8", "8"},
        {storing(PINYON_ADD, "k", "8"), PINYON_NOT_STORED, PINYON_DONE, "7", "7", "8"},
        {storing(PINYON_REPLACE, "k", "8"), PINYON_DONE, PINYON_NOT_STORED, NULL, "8", NULL},
        {storing(PINYON_APPEND, "k", "1"), PINYON_DONE, PINYON_NOT_STORED, NULL, "71", NULL},
        {storing(PINYON_PREPEND, "k", "1"), PINYON_DONE, PINYON_NOT_STORED, NULL, "17", NULL},
        {with(about(PINYON_INCR, "k"), 0), PINYON_DONE, PINYON_MISS, NULL, "8", NULL},
        {with(about(PINYON_INCR, "k"), PINYON_WITH_INITIAL), PINYON_DONE, PINYON_DONE, NULL, "8", "1"},
        {with(about(PINYON_DECR, "k"), 0), PINYON_DONE, PINYON_MISS, NULL, "6", NULL},
        {about(PINYON_DELETE, "k"), PINYON_DONE, PINYON_MISS, NULL, NULL, NULL},
        {about(PINYON_MARK_STALE, "k"), PINYON_DONE, PINYON_MISS, NULL, "7", NULL},
        {about(PINYON_LEASE, "k"), PINYON_DONE, PINYON_WON, "7", "7", NULL},
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        cases[index].request.context = &cases[index];
        only_in(old_pool, "k");
        pinyon_status found = run(&cases[index].request);
        if (found != cases[index].found) fprintf(stderr, "case %zu: %d\n", index, (int)found);
        CHECK(found == cases[index].found);
        if (index < 4) CHECK((reply.marks & PINYON_HAS_VALUE) && is(reply.value, "7"));
        bool is_so = has(old_pool, "k", cases[index].old_after) && has(new_pool, "k", cases[index].new_after);
        if (!is_so) fprintf(stderr, "case %zu: %.*s\n", index, (int)reply.value.size, reply.value.start);
        CHECK(is_so);
        pinyon_request delete = about(PINYON_DELETE, "k");
        CHECK(pinyon_run(old_pool, &delete, &reply, NULL) >= 0 && pinyon_run(new_pool, &delete, &reply, NULL) >= 0);
        CHECK(run(&cases[index].request) == cases[index].missing);
        CHECK(has(old_pool, "k", NULL) && has(new_pool, "k", cases[index].new_of_nothing));
    }
    /* A token of the new pool's. */
    only_in(old_pool, "k");
    pinyon_request gets = with(about(PINYON_GET, "k"), PINYON_WITH_CAS);
    CHECK(run(&gets) == PINYON_DONE && (reply.marks & PINYON_HAS_CAS));
    cas = with(set, PINYON_WITH_CAS);
    cas.cas = reply.cas;
    CHECK(run(&cas) == PINYON_DONE && has(old_pool, "k", NULL) && has(new_pool, "k", "8"));
    CHECK(run(&cas) == PINYON_CHANGED);
    /* A value from the old pool is as it was there; later it is the new client's. */
    only_in(old_pool, "k");
    uint32_t old_flags, new_flags;
    CHECK(pinyon_flags_of(old_pool, PINYON_INTEGER, &old_flags) && pinyon_flags_of(both, PINYON_INTEGER, &new_flags));
    CHECK(old_flags != new_flags);
    pinyon_request get = about(PINYON_GET, "k");
    CHECK(run(&get) == PINYON_DONE && reply.client_flags == old_flags && (reply.marks & PINYON_OF_OLD));
    CHECK(run(&get) == PINYON_DONE && reply.client_flags == new_flags && !(reply.marks & PINYON_OF_OLD));
    get.with = PINYON_WITH_TTL;
    CHECK(run(&get) == PINYON_DONE && reply.ttl > 3000 && reply.ttl <= 3600);
    /* A lease that is given back. */
    pinyon_request delete = about(PINYON_DELETE, "k"), lease = about(PINYON_LEASE, "k"), back = about(PINYON_GIVE_BACK, "k");
    CHECK(run(&delete) == PINYON_DONE && run(&lease) == PINYON_WON);
    back.cas = reply.cas;
    CHECK(run(&back) == PINYON_DONE && run(&lease) == PINYON_WON && run(&delete) == PINYON_DONE);
}

static void questions(running run)
{
    pinyon_request versions = {sizeof versions, PINYON_VERSIONS};
    pinyon_answer  answer = {.size = sizeof answer};
    CHECK(run(&versions) == PINYON_DONE && pinyon_next_answer(reply.answers, &answer) && answer.value.size);
    CHECK(pinyon_next_answer(reply.answers, &answer) && answer.value.size && !pinyon_next_answer(reply.answers, &answer));
}

#define MANY 40

static void many(void)
{
    static char          keys[MANY][8];
    pinyon_request       requests[MANY];
    static pinyon_reply  replies[MANY];
    for (int index = 0; index < MANY; index++) {
        sprintf(keys[index], "m%d", index);
        if (index % 4) only_in(index % 4 == 1 ? new_pool : old_pool, keys[index]);
        replies[index].size = sizeof *replies;
        requests[index]     = about(PINYON_GET, keys[index]);
    }
    pinyon_progress before = {.size = sizeof before}, after = before;
    CHECK(pinyon_client_progress(both, &before) && !pinyon_client_progress(new_pool, &after));
    CHECK(pinyon_run_many(both, requests, replies, MANY, NULL) == PINYON_DONE);
    for (int index = 0; index < MANY; index++) {
        CHECK(replies[index].status == (index % 4 ? PINYON_DONE : PINYON_MISS));
        CHECK(!(replies[index].marks & PINYON_OF_OLD) == (index % 4 < 2));
        if (index % 4) CHECK(is(replies[index].value, "7"));
    }
    CHECK(pinyon_client_progress(both, &after));
    CHECK(after.in_new - before.in_new == MANY / 4 && after.missing - before.missing == MANY / 4);
    CHECK(after.in_old - before.in_old == MANY / 2 && after.moved - before.moved == 16);
    /* With tokens, all of them are moved. */
    for (int index = 0; index < MANY; index++) requests[index].with = PINYON_WITH_CAS;
    CHECK(pinyon_run_many(both, requests, replies, MANY, NULL) == PINYON_DONE);
    for (int index = 0; index < MANY; index++)
        CHECK(!(replies[index].marks & PINYON_HAS_CAS) == !(index % 4) && has(new_pool, keys[index], index % 4 ? "7" : NULL));
    /* Different requests, in order. */
    pinyon_request mixed[] = {storing(PINYON_SET, "m0", "1"), storing(PINYON_SET, "m2", "2"), storing(PINYON_APPEND, "m0", "0"),
                              about(PINYON_GET, "m0"), about(PINYON_DELETE, "m2"), about(PINYON_DELETE, "no"), about(PINYON_GET, "a b")};
    CHECK(pinyon_run_many(both, mixed, replies, 7, NULL) == PINYON_FAILED && replies[0].status == PINYON_DONE);
    CHECK(has(old_pool, "m2", NULL) && has(new_pool, "m2", NULL) && is(replies[3].value, "10"));
    CHECK(replies[4].status == PINYON_DONE && replies[5].status == PINYON_MISS && replies[6].status == PINYON_FAILED);
    CHECK(pinyon_error_kind(replies[6].error) == PINYON_E_INVALID_KEY);
    for (int index = 0; index < MANY; index++) pinyon_reply_clear(&replies[index]);
}

/* ---- Values of the host's own ------------------------------------------------------------------------------------- */

static pinyon_loop *used_inside;
static unsigned     refused_inside;

static pinyon_status convert(void *context, pinyon_bytes value, uint32_t flags, pinyon_bytes *converted, uint32_t *converted_flags)
{
    static char text[64];
    if (used_inside) {
        pinyon_error  *error = NULL;
        pinyon_request get   = about(PINYON_GET, "k");
        refused_inside += pinyon_begin(used_inside, &get, NULL, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_USAGE;
        pinyon_error_free(error);
        pinyon_turn(used_inside);
    }
    if (value.size > 20) return PINYON_FAILED;
    if (is(value, "stop")) return PINYON_INTERRUPTED;
    sprintf(text, "%s%.*s of %u", (char *)context, (int)value.size, value.start, (unsigned)flags);
    *converted       = pinyon_text(text);
    *converted_flags = 0;
    return PINYON_DONE;
}

static void converting(void)
{
    pinyon_migration migration = {.size = sizeof migration, .convert = convert, .context = "<"};
    pinyon_client   *own = pinyon_client_migrating(old_pool, new_pool, &migration, NULL);
    pinyon_request   get = about(PINYON_GET, "k"), set = storing(PINYON_SET, "k", "a value that is not taken"),
                     delete = about(PINYON_DELETE, "k");
    pinyon_progress  progress = {.size = sizeof progress};
    only_in(old_pool, "k");
    CHECK(pinyon_run(own, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "7"));
    CHECK(pinyon_run(own, &get, &reply, NULL) == PINYON_DONE && !strncmp(reply.value.start, "<7 of ", 6));
    only_in(old_pool, "k");
    CHECK(pinyon_run(old_pool, &set, &reply, NULL) == PINYON_DONE);
    for (int time = 0; time < 2; time++)
        CHECK(pinyon_run(own, &get, &reply, NULL) == PINYON_DONE && (reply.marks & PINYON_OF_OLD) && reply.value.size == 25);
    CHECK(pinyon_client_progress(own, &progress) && progress.refused == 2 && progress.in_old == 3 && progress.moved == 1);
    CHECK(has(new_pool, "k", NULL));
    set.value = pinyon_text("stop");
    CHECK(pinyon_run(old_pool, &set, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(own, &get, &reply, NULL) == PINYON_INTERRUPTED && !reply.error);
    pinyon_reply many = {.size = sizeof many};
    CHECK(pinyon_run(new_pool, &delete, &reply, NULL) >= 0); /* the lease, which else would end by itself */
    CHECK(pinyon_run_many(own, &get, &many, 1, NULL) == PINYON_INTERRUPTED && many.status == PINYON_INTERRUPTED);
    pinyon_reply_clear(&many);
    struct polling looping;
    polling_init(&looping, pinyon_loop_of_client(own, NULL, NULL));
    only_in(old_pool, "k");
    used_inside = looping.loop;
    CHECK(pinyon_begin(looping.loop, &get, NULL, NULL) == PINYON_DONE && next_reply(&looping, &reply) == PINYON_DONE);
    CHECK(refused_inside == 1);
    used_inside = NULL;
    polling_end(&looping);
    pinyon_client_free(own);
}

/* ---- Event loops -------------------------------------------------------------------------------------------------- */

static char memory[64];
static void *place(void *context, size_t size, uint32_t flags)
{
    (void)flags;
    return context == memory && size <= sizeof memory ? memory : NULL;
}

static void loops(const char *servers)
{
    polling_init(&polling, pinyon_loop_of_client(both, place, NULL));
    requests(run_in_loop);
    questions(run_in_loop);
    pinyon_request get = about(PINYON_GET, "k"), lease = about(PINYON_LEASE, "k"), set = storing(PINYON_SET, "k", "9");
    get.context = memory;
    only_in(old_pool, "k");
    CHECK(run_in_loop(&get) == PINYON_DONE && !reply.value.start && (reply.marks & PINYON_HAS_VALUE) && memory[0] == '7');

    /* Callers that leave: a change is made in both pools all the same, and a lease is given back. */
    uint64_t ticket;
    only_in(old_pool, "k");
    CHECK(pinyon_begin(polling.loop, &set, &ticket, NULL) == PINYON_DONE);
    pinyon_abandon(polling.loop, ticket);
    CHECK(pinyon_loop_is_idle(polling.loop));
    double late = now() + 60;
    while (!has(old_pool, "k", NULL)) {
        CHECK(now() < late);
        go_on(&polling, 100);
    }
    CHECK(has(new_pool, "k", "9"));
    pinyon_request lost = about(PINYON_LEASE, "lost");
    lost.lease          = 3600;
    for (int turns = 0; turns < 3; turns++) {
        CHECK(pinyon_begin(polling.loop, &lost, &ticket, NULL) == PINYON_DONE);
        while (!is_leased("lost")) go_on(&polling, 100); /* the reply is under way … */
        for (int turn = 0; turn < 2 * turns; turn++) go_on(&polling, 100); /* … or there */
        pinyon_abandon(polling.loop, ticket);
        while (is_leased("lost")) {
            CHECK(now() < late);
            go_on(&polling, 100);
        }
        CHECK(!pinyon_next_reply(polling.loop, &reply));
    }

    /* Many at once; views; what is refused. */
    char key[16];
    for (int index = 0; index < 200; index++) {
        sprintf(key, "l%d", index);
        pinyon_request one = storing(PINYON_SET, key, key);
        CHECK(pinyon_run(old_pool, &one, &reply, NULL) == PINYON_DONE);
        one = about(PINYON_GET, key);
        CHECK(pinyon_begin(polling.loop, &one, NULL, NULL) == PINYON_DONE);
    }
    for (int index = 0; index < 200; index++) CHECK(next_reply(&polling, &reply) == PINYON_DONE);
    CHECK(has(new_pool, "l199", "l199"));
    pinyon_error  *error  = NULL;
    pinyon_option  option = PINYON_OPTION("on_failure", "miss");
    pinyon_client *view   = pinyon_client_using(both, &option, 1, NULL);
    only_in(old_pool, "k");
    CHECK(pinyon_begin_using(polling.loop, view, &get, NULL, NULL) == PINYON_DONE && next_reply(&polling, &reply) == PINYON_DONE);
    CHECK(pinyon_begin_using(polling.loop, new_pool, &get, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "not a view"));
    pinyon_error_free(error);
    pinyon_loop *plain = pinyon_loop_of_client(new_pool, NULL, NULL);
    CHECK(pinyon_begin_using(plain, both, &get, NULL, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    pinyon_loop_free(plain);
    get.key = pinyon_text("a b");
    CHECK(pinyon_begin(polling.loop, &get, NULL, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_INVALID_KEY);
    pinyon_error_free(error);
    CHECK(!pinyon_batch_of_loop(polling.loop, NULL, &error) && strstr(pinyon_error_message(error), "no batches"));
    pinyon_error_free(error);
    CHECK(!pinyon_batch_new(both, &error) && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    pinyon_client_free(view);

    /* The loop ends in the middle. */
    only_in(old_pool, "k");
    CHECK(pinyon_begin(polling.loop, &lease, &ticket, NULL) == PINYON_DONE);
    go_on(&polling, 0);
    polling_end(&polling);
    CHECK(servers);
}

static void making(void)
{
    pinyon_terms   terms = {.size = sizeof terms, .ttl = 60};
    pinyon_status  status;
    for (int time = 0; time < 2; time++) {
        terms.key = pinyon_text(time ? "nowhere" : "k");
        if (!time) only_in(old_pool, "k");
        pinyon_making *one = pinyon_making_new(both, &terms, NULL);
        while ((status = pinyon_making_run(one, &reply, NULL)) == PINYON_MAKE) {
            CHECK(time);
            pinyon_making_made(one, pinyon_text("made"), 0);
        }
        CHECK(status == PINYON_DONE && is(reply.value, time ? "made" : "7"));
        CHECK(has(new_pool, time ? "nowhere" : "k", time ? "made" : "7"));
        pinyon_making_free(one);
    }
}

static void misuse(void)
{
    pinyon_error *error = NULL;
    CHECK(!pinyon_client_migrating(new_pool, new_pool, NULL, &error) && strstr(pinyon_error_message(error), "the same"));
    pinyon_error_free(error);
    CHECK(!pinyon_client_migrating(both, new_pool, NULL, &error) && strstr(pinyon_error_message(error), "already"));
    pinyon_error_free(error);
    pinyon_found  wanted = {.size = sizeof wanted, .key = pinyon_text("k")};
    CHECK(pinyon_get_many(both, &wanted, 1, 0, NULL) == PINYON_FAILED && pinyon_error_kind(wanted.error) == PINYON_E_USAGE);
    pinyon_error_free(wanted.error);
    pinyon_option  option = PINYON_OPTION("namespace", "v2:");
    pinyon_client *view   = pinyon_client_using(new_pool, &option, 1, NULL);
    pinyon_client *moving = pinyon_client_migrating(new_pool, view, NULL, NULL);
    CHECK(moving && pinyon_namespace(moving).size == 3);
    /* Then both would have one namespace. */
    CHECK(!pinyon_client_using(moving, &option, 1, &error) && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    pinyon_client_free(moving);
    pinyon_client_free(view);
    pinyon_client_close(both);
    pinyon_request get = about(PINYON_GET, "k");
    CHECK(pinyon_run(both, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CLOSED);
    CHECK(pinyon_run(old_pool, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CLOSED);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    const char *comma = strchr(arguments[1], ',');
    CHECK(comma);
    old_pool = pool(comma + 1, strlen(comma + 1), "pylibmc");
    new_pool = pool(arguments[1], (size_t)(comma - arguments[1]), "pinyon");
    both     = pinyon_client_migrating(old_pool, new_pool, NULL, NULL);
    CHECK(both);
    requests(run);
    requests(run_many);
    questions(run);
    many();
    converting();
    making();
    loops(arguments[1]);
    misuse();
    pinyon_reply_clear(&reply);
    pinyon_client_free(both);
    pinyon_client_free(old_pool);
    pinyon_client_free(new_pool);
    return 0;
}
