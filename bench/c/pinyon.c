/* Pinyon by its C interface. */
#include "client.h"

#include <pinyon.h>
#include <stdio.h>
#include <stdlib.h>

struct client {
    pinyon_client  *pinyon;
    pinyon_request  requests[MOST]; /* of the last call for many keys */
    pinyon_reply    replies[MOST];
    size_t          count, next;
    pinyon_reply    reply; /* of the last call for one key */
};

const char *client_version(void)
{
    return pinyon_version();
}

static client *opened(const char *host, int port, int is_near)
{
    char server[256];
    int  size = port ? snprintf(server, sizeof server, "%s:%d", host, port) : snprintf(server, sizeof server, "%s", host);
    if (size < 0 || (size_t)size >= sizeof server) return NULL;
    pinyon_option options[] = {
        {"servers", {server, (size_t)size}},
        /* Counted instruction by instruction, all takes far longer. */
        PINYON_OPTION("timeout", "30"),
        PINYON_OPTION("connect_timeout", "30"),
        /* The last one. */
        PINYON_OPTION("near.fresh", "10000"),
    };
    size_t count = sizeof options / sizeof *options - !is_near;
    client *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->reply.size = sizeof made->reply;
    for (size_t at = 0; at < MOST; at++) {
        made->requests[at] = (pinyon_request){.size = sizeof *made->requests, .verb = PINYON_GET};
        made->replies[at]  = (pinyon_reply){.size = sizeof *made->replies};
    }
    made->pinyon = pinyon_client_new(options, count, NULL);
    if (made->pinyon) return made;
    free(made);
    return NULL;
}

client *client_open(const char *host, int port)
{
    return opened(host, port, 0);
}

client *client_open_near(const char *host, int port)
{
    return opened(host, port, 1);
}

void client_close(client *client)
{
    pinyon_reply_clear(&client->reply);
    for (size_t at = 0; at < MOST; at++) pinyon_reply_clear(&client->replies[at]);
    pinyon_client_free(client->pinyon);
    free(client);
}

static pinyon_bytes given(bytes from)
{
    pinyon_bytes to = {from.start, from.size};
    return to;
}

static bytes taken(pinyon_bytes from)
{
    bytes to = {from.start, from.size};
    return to;
}

int client_set(client *client, bytes key, bytes value)
{
    pinyon_request request = {.size = sizeof request, .verb = PINYON_SET, .key = given(key), .value = given(value)};
    return pinyon_run(client->pinyon, &request, &client->reply, NULL) == PINYON_DONE;
}

bytes client_get(client *client, bytes key)
{
    pinyon_request request = {.size = sizeof request, .verb = PINYON_GET, .key = given(key)};
    if (pinyon_run(client->pinyon, &request, &client->reply, NULL) == PINYON_DONE) return taken(client->reply.value);
    return (bytes){NULL, 0};
}

int client_get_many(client *client, const bytes *keys, size_t count)
{
    client->count = client->next = 0;
    if (count > MOST) return 0;
    for (size_t at = 0; at < count; at++) client->requests[at].key = given(keys[at]);
    client->count = count;
    return pinyon_run_many(client->pinyon, client->requests, client->replies, count, NULL) == PINYON_DONE;
}

int client_next(client *client, bytes *key, bytes *value)
{
    while (client->next < client->count) {
        size_t at = client->next++;
        if (client->replies[at].status != PINYON_DONE) continue;
        *key   = (bytes){client->requests[at].key.start, client->requests[at].key.size};
        *value = taken(client->replies[at].value);
        return 1;
    }
    return 0;
}
