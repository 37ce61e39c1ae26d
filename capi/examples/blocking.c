/* A program that waits: stores, reads, counts, and makes a value once for all that ask for it.
 *
 *     cc blocking.c $(pkg-config --cflags --libs pinyon) -o blocking
 *     ./blocking 127.0.0.1:11211
 */
#include <pinyon.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what, pinyon_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error ? pinyon_error_message(error) : "no reason given");
    exit(1);
}

/* Where failures and misses are the same to you, set the option on_failure to "miss". */
static pinyon_status run(const pinyon_client *client, const pinyon_request *request, pinyon_reply *reply)
{
    pinyon_status status = pinyon_run(client, request, reply, NULL);
    if (status == PINYON_FAILED) fail("the request failed", reply->error);
    return status;
}

static void print(const char *what, const pinyon_reply *reply)
{
    printf("%s: %.*s\n", what, (int)reply->value.size, reply->value.start);
}

static void store_and_read(const pinyon_client *client, pinyon_reply *reply)
{
    pinyon_request set = {.size = sizeof set, .verb = PINYON_SET}, get = {.size = sizeof get, .verb = PINYON_GET};
    set.key = get.key = pinyon_text("user:1");
    set.value = pinyon_text("Ada");
    set.ttl = 60;
    run(client, &set, reply);
    if (run(client, &get, reply) == PINYON_DONE) print("user:1", reply);
    get.key = pinyon_text("user:2");
    if (run(client, &get, reply) == PINYON_MISS) puts("user:2: no such user");
}

static void count(const pinyon_client *client, pinyon_reply *reply)
{
    pinyon_request incr = {.size = sizeof incr, .verb = PINYON_INCR};
    incr.with = PINYON_WITH_INITIAL;
    incr.key = pinyon_text("visits");
    incr.initial = 1;
    incr.delta = 1;
    run(client, &incr, reply);
    run(client, &incr, reply);
    printf("visits: %llu\n", (unsigned long long)reply->number);
}

static void read_many(const pinyon_client *client)
{
    const char *keys[] = {"user:1", "user:2", "visits"};
    pinyon_request gets[3] = {{0}};
    pinyon_reply replies[3] = {{0}};
    for (int number = 0; number < 3; number++) {
        gets[number].size = sizeof gets[number];
        gets[number].key = pinyon_text(keys[number]);
        replies[number].size = sizeof replies[number];
    }
    pinyon_run_many(client, gets, replies, 3, NULL);
    for (int number = 0; number < 3; number++) {
        if (replies[number].status == PINYON_FAILED) fail(keys[number], replies[number].error);
        if (replies[number].status == PINYON_DONE) print(keys[number], &replies[number]);
        pinyon_reply_clear(&replies[number]);
    }
}

static void make_once(const pinyon_client *client, pinyon_reply *reply)
{
    pinyon_terms terms = {.size = sizeof terms};
    pinyon_error *error = NULL;
    pinyon_status status;
    terms.key = pinyon_text("page");
    terms.ttl = 60;
    terms.stale = 30;
    pinyon_making *making = pinyon_making_new(client, &terms, &error);
    if (!making) fail("the page", error);
    while ((status = pinyon_making_run(making, reply, NULL)) == PINYON_MAKE)
        pinyon_making_made(making, pinyon_text("<p>Hello"), 0);
    if (status == PINYON_FAILED) fail("the page", reply->error);
    print("page", reply);
    pinyon_making_free(making);
}

int main(int count_of_arguments, char **arguments)
{
    pinyon_option options[] = {
        {"servers", {NULL, 0}}, /* NULL: the environment variable MEMCACHE_SERVERS, or this machine */
        PINYON_OPTION("namespace", "blocking:"),
        PINYON_OPTION("timeout", "30"), /* generous: this also runs on busy machines */
        PINYON_OPTION("connect_timeout", "30"),
    };
    pinyon_reply reply = {.size = sizeof reply};
    pinyon_error *error = NULL;
    if (count_of_arguments > 1) options[0].value = pinyon_text(arguments[1]);
    pinyon_client *client = pinyon_client_new(options, sizeof options / sizeof *options, &error);
    if (!client) fail("the client", error);
    store_and_read(client, &reply);
    count(client, &reply);
    read_many(client);
    make_once(client, &reply);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return 0;
}
