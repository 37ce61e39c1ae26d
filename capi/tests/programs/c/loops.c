/* Event loops of caches: replies, places for values, callers that leave, faults, forks and threads. */
#include "polling.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char    *servers;
static struct polling polling;
static pinyon_reply   reply = {.size = sizeof reply};

static uint64_t begin(const pinyon_request *request)
{
    uint64_t      ticket = 0;
    pinyon_error *error  = NULL;
    if (pinyon_begin(polling.loop, request, &ticket, &error) < 0) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(ticket && !error);
    return ticket;
}

static pinyon_status run(const pinyon_request *request)
{
    uint64_t      ticket = begin(request);
    pinyon_status status = next_reply(&polling, &reply);
    CHECK(reply.ticket == ticket && reply.context == request->context);
    return status;
}

static void requests(pinyon_client *client)
{
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_request set = storing(PINYON_SET, "key", "value"), get = about(PINYON_GET, "key");
    set.context = &set;
    CHECK(run(&set) == PINYON_DONE && run(&get) == PINYON_DONE && is(reply.value, "value"));
    CHECK(pinyon_loop_is_idle(polling.loop));
    get.with = PINYON_WITH_CAS;
    CHECK(run(&get) == PINYON_DONE && (reply.marks & PINYON_HAS_CAS));
    set.with = PINYON_WITH_CAS;
    set.cas  = reply.cas;
    CHECK(run(&set) == PINYON_DONE && run(&set) == PINYON_CHANGED);
    pinyon_request missing = about(PINYON_GET, "missing"), add = storing(PINYON_ADD, "key", "x");
    CHECK(run(&missing) == PINYON_MISS && run(&add) == PINYON_NOT_STORED);
    pinyon_request incr = about(PINYON_INCR, "count");
    incr.with    = PINYON_WITH_INITIAL;
    incr.initial = 7;
    incr.delta   = 2;
    CHECK(run(&incr) == PINYON_DONE && reply.number == 7 && run(&incr) == PINYON_DONE && reply.number == 9);
    pinyon_request versions = {.size = sizeof versions, .verb = PINYON_VERSIONS};
    pinyon_answer  answer   = {.size = sizeof answer};
    CHECK(run(&versions) == PINYON_DONE);
    for (size_t server = 0; server < 2; server++) CHECK(pinyon_next_answer(reply.answers, &answer) && answer.value.size);
    CHECK(!pinyon_next_answer(reply.answers, &answer));

    /* What is refused leaves nothing, and nothing is replied to before a turn. */
    pinyon_error *error = NULL;
    pinyon_request bad  = about(PINYON_GET, "a b");
    CHECK(pinyon_begin(polling.loop, &bad, NULL, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_INVALID_KEY && pinyon_loop_is_idle(polling.loop));
    pinyon_error_free(error);
    begin(&missing);
    carry_out(&polling);
    CHECK(!pinyon_next_reply(polling.loop, &reply) && polling.turn_is_due && !pinyon_loop_is_idle(polling.loop));
    CHECK(pinyon_due_in(polling.loop) > 0 && next_reply(&polling, &reply) == PINYON_MISS);
    pinyon_wish wish = {.size = sizeof wish};
    CHECK(pinyon_lock_begin(polling.loop, &wish, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "pinyon_begin"));
    pinyon_error_free(error);

    /* Views of its client, and no others. */
    pinyon_option  option = PINYON_OPTION("namespace", "view:");
    pinyon_client *view   = pinyon_client_using(client, &option, 1, NULL);
    pinyon_client *other  = client_of(servers, NULL, NULL);
    get.with = 0;
    CHECK(pinyon_begin_using(polling.loop, view, &get, NULL, NULL) == PINYON_DONE);
    CHECK(next_reply(&polling, &reply) == PINYON_MISS);
    CHECK(pinyon_begin_using(polling.loop, other, &get, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "not a view"));
    pinyon_error_free(error);
    pinyon_client_free(view);
    pinyon_client_free(other);
    polling_end(&polling);
}

/* Memory of the host's for one value. */
struct room {
    char    *memory;
    size_t   size, asked;
    uint32_t client_flags;
};

static void *place(void *context, size_t size, uint32_t client_flags)
{
    struct room *room = context;
    if (!room) return NULL;
    free(room->memory);
    room->memory       = malloc(size + 1);
    room->size         = size;
    room->client_flags = client_flags;
    room->asked++;
    return room->memory;
}

static void check_value(const char *bytes, size_t size)
{
    for (size_t index = 0; index < size; index++) CHECK(bytes[index] == (char)(index % 251));
}

/* Large values are received where the host wants them; small and compressed ones are copied there. */
static void places(const char *compression)
{
    pinyon_client *client = client_of(servers, "compression", compression);
    polling_init(&polling, pinyon_loop_of_client(client, place, NULL));
    for (size_t size = 0; size <= 1000000; size = size * 9 + 1) {
        struct room    room  = {0};
        char          *value = malloc(size + 1);
        for (size_t index = 0; index < size; index++) value[index] = (char)(index % 251);
        pinyon_request set = about(PINYON_SET, "placed"), get = about(PINYON_GET, "placed");
        set.value        = (pinyon_bytes){value, size};
        set.client_flags = 16;
        begin(&set);
        memset(value, 0, size);
        free(value);
        CHECK(next_reply(&polling, &reply) == PINYON_DONE);
        get.context = &room;
        CHECK(run(&get) == PINYON_DONE && !reply.value.start && (reply.marks & PINYON_HAS_VALUE));
        CHECK(room.asked == 1 && room.size == size && room.client_flags == 16 && reply.client_flags == 16);
        check_value(room.memory, size);
        free(room.memory);
        get.context = NULL;
        CHECK(run(&get) == PINYON_DONE && reply.value.size == size);
        check_value(reply.value.start, size);
    }
    polling_end(&polling);
    pinyon_client_free(client);
}

static void abandoned(void)
{
    pinyon_client *client = client_of(servers, NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, place, NULL));
    struct room    rooms[2] = {{0}};
    pinyon_request set = storing(PINYON_SET, "k", "value"), get = about(PINYON_GET, "k");
    CHECK(run(&set) == PINYON_DONE);
    get.context = &rooms[0];
    uint64_t gone = begin(&get);
    get.context = &rooms[1];
    uint64_t stays = begin(&get);
    pinyon_abandon(polling.loop, gone);
    pinyon_abandon(polling.loop, gone);
    pinyon_abandon(polling.loop, 12345);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.ticket == stays && reply.context == &rooms[1]);
    CHECK(pinyon_loop_is_idle(polling.loop) && !pinyon_next_reply(polling.loop, &reply));
    CHECK(rooms[0].asked == 0 && rooms[1].asked == 1);
    pinyon_abandon(polling.loop, stays);
    CHECK(run(&get) == PINYON_DONE);
    free(rooms[1].memory);
    polling_end(&polling);
    pinyon_client_free(client);
}

/* Another caller wins the lease at once, and need not wait until it ends. */
static void check_is_free(pinyon_client *other, const char *key)
{
    pinyon_request lease = about(PINYON_LEASE, key);
    pinyon_reply   won   = {.size = sizeof won};
    double         late  = now() + 60;
    lease.lease = 1000;
    while (pinyon_run(other, &lease, &won, NULL) != PINYON_WON) {
        CHECK(won.status == PINYON_FILLING && now() < late);
        go_on(&polling, 1);
        CHECK(!pinyon_next_reply(polling.loop, &reply));
    }
    pinyon_reply_clear(&won);
}

static void abandoned_leases(pinyon_client *other)
{
    pinyon_client *client = client_of(servers, NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_request lease = about(PINYON_LEASE, "on-its-way");
    lease.lease = 1000;
    uint64_t ticket = begin(&lease);
    go_on(&polling, 0);
    pinyon_abandon(polling.loop, ticket);
    check_is_free(other, "on-its-way");

    /* The same once the reply is there, but not taken. */
    pinyon_request get = about(PINYON_GET, "arrived");
    CHECK(run(&get) == PINYON_MISS);
    lease.key = pinyon_text("arrived");
    ticket    = begin(&lease);
    go_on(&polling, 0);
    CHECK(poll(polling.watched, MOST_LANES, 60000) == 1);
    go_on(&polling, 0);
    pinyon_abandon(polling.loop, ticket);
    CHECK(!pinyon_next_reply(polling.loop, &reply));
    check_is_free(other, "arrived");
    polling_end(&polling);
    pinyon_client_free(client);
}

/* A server of the protocol's old form. Of a value named "large" it sends half, and the rest when it is told. */
struct scripted {
    int  listener, go[2];
    char address[32];
};

static void send_all(int connection, const char *bytes, size_t size)
{
    for (ssize_t sent; size > 0; bytes += sent, size -= (size_t)sent) {
        sent = send(connection, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) return;
    }
}

enum { LARGE_VALUE = 400000 };

static void *serve(void *argument)
{
    struct scripted *scripted   = argument;
    int              connection = accept(scripted->listener, NULL, NULL);
    FILE            *commands   = fdopen(dup(connection), "r");
    char             line[256];
    while (fgets(line, sizeof line, commands)) {
        if (!strncmp(line, "version", 7)) send_all(connection, "VERSION 1.5.0\r\n", 15);
        if (!strcmp(line, "mn\r\n")) send_all(connection, "ERROR\r\n", 7);
        if (!strcmp(line, "get small\r\n")) send_all(connection, "VALUE small 0 1\r\ns\r\nEND\r\n", 25);
        if (strcmp(line, "get large\r\n")) continue;
        char *value = malloc(LARGE_VALUE), go;
        memset(value, 'v', LARGE_VALUE);
        send_all(connection, "VALUE large 0 400000\r\n", 22);
        send_all(connection, value, LARGE_VALUE / 2);
        CHECK(read(scripted->go[0], &go, 1) == 1);
        send_all(connection, value, LARGE_VALUE / 2);
        send_all(connection, "\r\nEND\r\n", 7);
        free(value);
    }
    fclose(commands);
    close(connection);
    return NULL;
}

static void listen_on(struct scripted *scripted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t          size    = sizeof address;
    scripted->listener         = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!bind(scripted->listener, (void *)&address, size) && !listen(scripted->listener, 5));
    CHECK(!getsockname(scripted->listener, (void *)&address, &size) && !pipe(scripted->go));
    snprintf(scripted->address, sizeof scripted->address, "127.0.0.1:%d", ntohs(address.sin_port));
}

/* The host may free the memory of a caller that has left, although the value arrives still. */
static void abandoned_on_arrival(void)
{
    struct scripted scripted;
    pthread_t       thread;
    listen_on(&scripted);
    CHECK(!pthread_create(&thread, NULL, serve, &scripted));
    pinyon_client *client = client_of(scripted.address, NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, place, NULL));
    struct room    room = {0};
    pinyon_request get  = about(PINYON_GET, "large"), small = about(PINYON_GET, "small");
    get.context         = &room;
    uint64_t ticket     = begin(&get);
    for (double late = now() + 60; !room.asked; go_on(&polling, 100)) CHECK(now() < late);
    pinyon_abandon(polling.loop, ticket);
    memset(room.memory, 'x', room.size);
    CHECK(write(scripted.go[1], "", 1) == 1);
    CHECK(run(&small) == PINYON_DONE && is(reply.value, "s"));
    for (size_t index = 0; index < room.size; index++) CHECK(room.memory[index] == 'x');
    CHECK(room.asked == 1);
    free(room.memory);
    polling_end(&polling);
    pinyon_client_free(client);
    CHECK(!pthread_join(thread, NULL));
    close(scripted.listener);
}

static void faults(void)
{
    pinyon_client *client = client_of("127.0.0.1:1", NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_request get = about(PINYON_GET, "k");
    CHECK(run(&get) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CONNECT);
    CHECK(pinyon_error_sent(reply.error) == PINYON_SENT_NO && is(pinyon_text(pinyon_error_server(reply.error)), "127.0.0.1:1"));
    polling_end(&polling);
    pinyon_client_free(client);

    /* A server that accepts and says nothing. */
    struct scripted silent;
    listen_on(&silent);
    pinyon_option options[] = {{"servers", pinyon_text(silent.address)}, PINYON_OPTION("timeout", "0.05")};
    client = pinyon_client_new(options, 2, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    CHECK(run(&get) == PINYON_FAILED && pinyon_kind_is_a(pinyon_error_kind(reply.error), PINYON_E_ERROR));
    CHECK(pinyon_error_is_outage(reply.error));
    polling_end(&polling);
    pinyon_client_free(client);
    close(silent.listener);
}

/* A name is resolved inside. The end of that is a descriptor to watch, too. */
static void names(void)
{
    pinyon_client *client = client_of("no-such-name.invalid:11211", NULL, NULL);
    pinyon_request get    = about(PINYON_GET, "k");
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    CHECK(run(&get) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CONNECT);
    CHECK(strstr(pinyon_error_message(reply.error), "no-such-name.invalid") && watched_lanes(&polling) == 1);
    polling_end(&polling);
    pinyon_client_free(client);
}

static void closing(void)
{
    pinyon_client *client = client_of(servers, NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_request get = about(PINYON_GET, "missing");
    CHECK(run(&get) == PINYON_MISS);
    begin(&get);
    pinyon_loop_close(polling.loop);
    carry_out(&polling);
    CHECK(pinyon_next_reply(polling.loop, &reply) && pinyon_error_kind(reply.error) == PINYON_E_CONNECTION_LOST);
    pinyon_error *error = NULL;
    CHECK(pinyon_begin(polling.loop, &get, NULL, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_CLOSED);
    pinyon_error_free(error);
    polling_end(&polling);

    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_client_close(client);
    error = NULL;
    CHECK(pinyon_begin(polling.loop, &get, NULL, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_CLOSED);
    pinyon_error_free(error);
    polling_end(&polling);
    CHECK(!pinyon_loop_of_client(client, NULL, NULL));
    pinyon_client_free(client);
}

static void forks(pinyon_client *client)
{
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_request set = storing(PINYON_SET, "forked", "parent"), get = about(PINYON_GET, "forked");
    CHECK(run(&set) == PINYON_DONE);
    begin(&get);
    carry_out(&polling);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pinyon_error  *error  = NULL;
        pinyon_action  action = {.size = sizeof action};
        CHECK(pinyon_begin(polling.loop, &get, NULL, &error) == PINYON_FAILED);
        CHECK(strstr(pinyon_error_message(error), "parent"));
        pinyon_error_free(error);
        pinyon_turn(polling.loop);
        pinyon_expire(polling.loop);
        pinyon_loop_close(polling.loop);
        CHECK(!pinyon_next_action(polling.loop, &action) && !pinyon_next_reply(polling.loop, &reply));
        CHECK(pinyon_due_in(polling.loop) < 0);
        pinyon_loop_free(polling.loop);
        polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
        CHECK(run(&get) == PINYON_DONE && is(reply.value, "parent"));
        polling_end(&polling);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && is(reply.value, "parent"));
    CHECK(run(&get) == PINYON_DONE);
    polling_end(&polling);
}

/* Each thread has a loop of its own, of the one client. */
static void *in_thread(void *argument)
{
    pinyon_client *client = argument;
    struct polling mine;
    pinyon_reply   got = {.size = sizeof got};
    char           key[32], value[32];
    polling_init(&mine, pinyon_loop_of_client(client, NULL, NULL));
    snprintf(key, sizeof key, "thread:%p", (void *)&mine);
    for (int round = 0; round < 200; round++) {
        snprintf(value, sizeof value, "%d", round);
        pinyon_request set = storing(PINYON_SET, key, value), get = about(PINYON_GET, key);
        CHECK(pinyon_begin(mine.loop, &set, NULL, NULL) == PINYON_DONE);
        CHECK(pinyon_begin(mine.loop, &get, NULL, NULL) == PINYON_DONE);
        CHECK(next_reply(&mine, &got) == PINYON_DONE && next_reply(&mine, &got) == PINYON_DONE && is(got.value, value));
    }
    pinyon_reply_clear(&got);
    polling_end(&mine);
    return NULL;
}

static void threads(pinyon_client *client)
{
    pthread_t others[3];
    for (size_t number = 0; number < 3; number++) CHECK(!pthread_create(&others[number], NULL, in_thread, client));
    for (size_t number = 0; number < 3; number++) CHECK(!pthread_join(others[number], NULL));
}

static void misuse(pinyon_client *client)
{
    pinyon_error  *error  = NULL;
    pinyon_action  action = {.size = 3};
    pinyon_request get    = about(PINYON_GET, "k");
    CHECK(!pinyon_loop_of_client(NULL, NULL, &error) && strstr(pinyon_error_message(error), "pinyon_client"));
    pinyon_error_free(error);
    CHECK(pinyon_begin(NULL, &get, NULL, NULL) == PINYON_FAILED && !pinyon_next_action(NULL, &action));
    CHECK(!pinyon_next_reply(NULL, &reply) && pinyon_due_in(NULL) < 0 && pinyon_loop_is_idle(NULL));
    pinyon_turn(NULL);
    pinyon_ready(NULL, 0);
    pinyon_expire(NULL);
    pinyon_abandon(NULL, 1);
    pinyon_loop_close(NULL);
    pinyon_loop_free(NULL);
    pinyon_loop *loop = pinyon_loop_of_client(client, NULL, NULL);
    get.size = 3;
    CHECK(pinyon_begin(loop, &get, NULL, &error) == PINYON_FAILED && strstr(pinyon_error_message(error), "sizeof"));
    pinyon_error_free(error);
    CHECK(!pinyon_next_action(loop, &action) && !pinyon_next_action(loop, NULL));
    pinyon_ready(loop, 99);
    /* Requests that nobody waits for any more need nothing but this. */
    get.size = sizeof get;
    CHECK(pinyon_begin(loop, &get, NULL, NULL) == PINYON_DONE);
    pinyon_loop_free(loop);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    servers = arguments[1];
    pinyon_client *client = client_of(servers, NULL, NULL);
    requests(client);
    places("off");
    places("zstd");
    abandoned();
    abandoned_leases(client);
    abandoned_on_arrival();
    faults();
    names();
    closing();
    forks(client);
    threads(client);
    misuse(client);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return 0;
}
