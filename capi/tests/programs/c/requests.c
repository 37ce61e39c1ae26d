/* Each verb: its statuses, and what its reply has. */
#include "check.h"

static pinyon_client *client;
static pinyon_reply reply = {sizeof reply};

static pinyon_status run(pinyon_request request) { return pinyon_run(client, &request, &reply, NULL); }

static void storing_and_reading(void)
{
    pinyon_request get = about(PINYON_GET, "a");
    CHECK(run(get) == PINYON_MISS && !(reply.marks & PINYON_HAS_VALUE) && !reply.value.start);
    pinyon_request set = storing(PINYON_SET, "a", "one");
    set.client_flags = 77;
    set.ttl = 100;
    CHECK(run(set) == PINYON_DONE);
    get.context = &client;
    CHECK(run(get) == PINYON_DONE && is(reply.value, "one") && reply.client_flags == 77 && reply.context == &client);
    CHECK(reply.marks & PINYON_HAS_VALUE);
    get.with = PINYON_WITH_TTL;
    CHECK(run(get) == PINYON_DONE && reply.ttl > 90 && reply.ttl <= 100);
    CHECK(run(storing(PINYON_ADD, "a", "two")) == PINYON_NOT_STORED && run(storing(PINYON_ADD, "b", "")) == PINYON_DONE);
    CHECK(run(about(PINYON_GET, "b")) == PINYON_DONE && is(reply.value, "") && reply.marks & PINYON_HAS_VALUE);
    CHECK(run(storing(PINYON_REPLACE, "c", "x")) == PINYON_NOT_STORED && run(storing(PINYON_REPLACE, "b", "x")) == PINYON_DONE);
    CHECK(run(storing(PINYON_APPEND, "a", "!")) == PINYON_DONE && run(storing(PINYON_PREPEND, "a", ">")) == PINYON_DONE);
    CHECK(run(about(PINYON_GET, "a")) == PINYON_DONE && is(reply.value, ">one!"));
    CHECK(run(storing(PINYON_APPEND, "nothing", "!")) == PINYON_NOT_STORED);
    CHECK(run(about(PINYON_DELETE, "a")) == PINYON_DONE && run(about(PINYON_DELETE, "a")) == PINYON_MISS);
    pinyon_request gone = storing(PINYON_SET, "a", "gone");
    gone.ttl = -1;
    CHECK(run(gone) == PINYON_DONE && run(about(PINYON_GET, "a")) == PINYON_MISS);
}

static void tokens(void)
{
    pinyon_request gets = about(PINYON_GET, "t"), set = storing(PINYON_SET, "t", "two");
    run(storing(PINYON_SET, "t", "one"));
    gets.with = PINYON_WITH_CAS;
    CHECK(run(gets) == PINYON_DONE && reply.marks & PINYON_HAS_CAS && reply.cas && is(reply.value, "one"));
    set.with = PINYON_WITH_CAS | PINYON_WITH_NEW_CAS;
    set.cas = reply.cas;
    CHECK(run(set) == PINYON_DONE && reply.marks & PINYON_HAS_CAS && reply.cas != set.cas);
    uint64_t token = reply.cas;
    CHECK(run(set) == PINYON_CHANGED);
    pinyon_request delete = about(PINYON_DELETE, "t");
    delete.with = PINYON_WITH_CAS;
    delete.cas = set.cas;
    CHECK(run(delete) == PINYON_MISS);
    delete.cas = token;
    CHECK(run(delete) == PINYON_DONE && run(set) == PINYON_MISS);
}

static void touching(void)
{
    pinyon_request touch = about(PINYON_TOUCH, "u"), gat = about(PINYON_GAT, "u"), left = about(PINYON_GET, "u");
    touch.ttl = 50;
    CHECK(run(touch) == PINYON_MISS);
    run(storing(PINYON_SET, "u", "x"));
    left.with = PINYON_WITH_TTL;
    CHECK(run(left) == PINYON_DONE && reply.marks & PINYON_HAS_TTL && reply.ttl == -1);
    CHECK(run(touch) == PINYON_DONE && run(left) == PINYON_DONE && reply.ttl > 40 && reply.ttl <= 50);
    gat.ttl = 500;
    gat.with = PINYON_WITH_CAS;
    CHECK(run(gat) == PINYON_DONE && is(reply.value, "x") && reply.cas && run(left) == PINYON_DONE && reply.ttl > 400);
    gat.ttl = 0;
    CHECK(run(gat) == PINYON_DONE && run(left) == PINYON_DONE && reply.ttl == -1);
    pinyon_request metadata = about(PINYON_METADATA, "u");
    CHECK(run(metadata) == PINYON_DONE && reply.item_size == 1 && reply.marks & PINYON_FETCHED && !reply.value.start);
    left.with = PINYON_WITH_METADATA | PINYON_WITHOUT_BUMP;
    CHECK(run(left) == PINYON_DONE && is(reply.value, "x") && reply.marks & PINYON_HAS_LAST_ACCESS && reply.cas);
}

static void commands_by_their_names(void)
{
    pinyon_command command = {.size = sizeof command};
    CHECK(pinyon_command_named("get_with_ttl", &command) && command.verb == PINYON_GET && command.with == PINYON_WITH_TTL);
    CHECK(!strcmp(command.takes, "key") && !strcmp(command.gives, "value_and_ttl"));
    CHECK(pinyon_command_named("cas", &command) && !strcmp(command.takes, "key value cas stored_ttl"));
    CHECK(!pinyon_command_named("get_many", &command) && !pinyon_command_named(NULL, &command));
    size_t count = 0;
    while (pinyon_command_at(count, &command)) {
        pinyon_command again = {.size = sizeof again};
        CHECK(pinyon_command_named(command.name, &again) && again.verb == command.verb && again.with == command.with);
        count++;
    }
    CHECK(count > 20 && !pinyon_command_at(count, NULL));
    command.size = 0;
    CHECK(!pinyon_command_at(0, &command));
}

static void counting(void)
{
    pinyon_request incr = about(PINYON_INCR, "n"), decr = about(PINYON_DECR, "n");
    incr.delta = 5;
    CHECK(run(incr) == PINYON_MISS);
    incr.with = PINYON_WITH_INITIAL;
    incr.initial = 40;
    CHECK(run(incr) == PINYON_DONE && reply.number == 40 && run(incr) == PINYON_DONE && reply.number == 45);
    decr.delta = 3;
    CHECK(run(decr) == PINYON_DONE && reply.number == 42);
    CHECK(run(about(PINYON_GET, "n")) == PINYON_DONE && is(reply.value, "42") && reply.client_flags == 2);
    run(storing(PINYON_SET, "n", "text"));
    CHECK(run(decr) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_SERVER);
    CHECK(!strcmp(pinyon_error_command(reply.error), "decr") && pinyon_error_sent(reply.error) == PINYON_SENT_YES);
}

static void all_servers(const char *one)
{
    pinyon_answer answer = {sizeof answer};
    pinyon_request versions = {sizeof versions, PINYON_VERSIONS}, stats = {sizeof stats, PINYON_STATS};
    CHECK(run(versions) == PINYON_DONE && reply.answers);
    int servers = 0;
    while (pinyon_next_answer(reply.answers, &answer)) {
        CHECK(*answer.server && answer.value.size > 2 && !answer.error);
        servers++;
    }
    CHECK(servers == 2);
    bool has_pid = false, has_settings = false;
    CHECK(run(stats) == PINYON_DONE);
    while (pinyon_next_answer(reply.answers, &answer)) has_pid |= is(answer.name, "pid");
    stats.value = pinyon_text("settings");
    CHECK(run(stats) == PINYON_DONE);
    while (pinyon_next_answer(reply.answers, &answer)) has_settings |= is(answer.name, "maxbytes");
    CHECK(has_pid && has_settings);
    stats.value = pinyon_text("no\r\n");
    CHECK(run(stats) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    run(storing(PINYON_SET, "flushed", "x"));
    pinyon_request flush = {sizeof flush, PINYON_FLUSH_ALL};
    CHECK(run(flush) == PINYON_DONE && run(about(PINYON_GET, "flushed")) == PINYON_MISS);
    pinyon_request clear = {sizeof clear, PINYON_CLEAR_NAMESPACE};
    CHECK(run(clear) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    pinyon_answers *holders = pinyon_servers_of(client, pinyon_text("some key"), NULL, NULL);
    CHECK(holders && pinyon_next_answer(holders, &answer) && strstr(answer.server, "127.0.0.1:"));
    pinyon_answers_free(holders);
    holders = pinyon_servers_of(client, (pinyon_bytes){NULL, 0}, NULL, NULL);
    CHECK(pinyon_next_answer(holders, &answer) && !strcmp(answer.server, one));
    CHECK(pinyon_next_answer(holders, &answer) && !pinyon_next_answer(holders, &answer));
    pinyon_answers_free(holders);
}

/* The items of one namespace are forgotten and no others. */
static void clearing(const char *servers)
{
    pinyon_option options[] = {{"servers", pinyon_text(servers)}, PINYON_OPTION("timeout", "30"),
                               PINYON_OPTION("namespace", "cleared:"), PINYON_OPTION("clearable", "true")};
    pinyon_error *error = NULL;
    pinyon_client *clearable = pinyon_client_new(options, 4, &error), *other = client;
    CHECK(clearable && !error);
    run(storing(PINYON_SET, "kept", "x"));
    client = clearable;
    run(storing(PINYON_SET, "gone", "x"));
    pinyon_request clear = {sizeof clear, PINYON_CLEAR_NAMESPACE};
    CHECK(run(about(PINYON_GET, "gone")) == PINYON_DONE && run(clear) == PINYON_DONE);
    CHECK(run(about(PINYON_GET, "gone")) == PINYON_MISS);
    client = other;
    CHECK(run(about(PINYON_GET, "kept")) == PINYON_DONE);
    pinyon_client_free(clearable);
}

/* With a route, keys go where it says, so that those that belong together are together. */
static void routes(void)
{
    pinyon_request set = storing(PINYON_SET, "routed", "x"), get = about(PINYON_GET, "routed");
    int found = 0;
    char route[] = "0";
    for (route[0] = '0'; route[0] <= '9'; route[0]++) {
        set.route = pinyon_text("3");
        get.route = pinyon_text(route);
        CHECK(run(set) == PINYON_DONE);
        found += run(get) == PINYON_DONE;
    }
    CHECK(found > 0 && found < 10);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    client = client_of(arguments[1], "namespace", "requests:");
    CHECK(is(pinyon_namespace(client), "requests:"));
    storing_and_reading();
    tokens();
    touching();
    commands_by_their_names();
    counting();
    routes();
    all_servers(arguments[2]);
    clearing(arguments[1]);
    char *metrics = pinyon_metrics(client);
    CHECK(strstr(metrics, "\"get\": {\"answered\": ") && strstr(metrics, arguments[2]));
    pinyon_text_free(metrics);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return 0;
}
