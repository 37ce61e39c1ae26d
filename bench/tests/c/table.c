/* A client for tests of the harness of C: its cache is a table that all clients of the process share. TABLE_WRONG names what
 * it does wrongly. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS 256

typedef struct item {
    char   key[64];
    char   value[128];
    size_t size;
} item;

struct client {
    const bytes *keys;
    size_t       count, next;
};

static item   items[ITEMS];
static size_t known;

static int is_wrong(const char *what)
{
    const char *wrong = getenv("TABLE_WRONG");
    return wrong && !strcmp(wrong, what);
}

static item *find(bytes key)
{
    for (size_t at = 0; at < known; at++) {
        if (strlen(items[at].key) == key.size && !memcmp(items[at].key, key.start, key.size)) return &items[at];
    }
    return NULL;
}

const char *client_version(void)
{
    return "1";
}

client *client_open(const char *host, int port)
{
    return host && port ? calloc(1, sizeof(client)) : NULL;
}

void client_close(client *client)
{
    free(client);
}

int client_set(client *client, bytes key, bytes value)
{
    (void)client;
    item *found = find(key);
    if (!found && known < ITEMS) {
        found = &items[known++];
        memcpy(found->key, key.start, key.size);
    }
    if (!found || value.size > sizeof found->value) return 0;
    memcpy(found->value, value.start, value.size);
    found->size = value.size;
    return !is_wrong("set");
}

bytes client_get(client *client, bytes key)
{
    (void)client;
    item *found = find(key);
    if (!found) return (bytes){NULL, 0};
    return (bytes){found->value, is_wrong("get") ? found->size - 1 : found->size};
}

int client_get_many(client *client, const bytes *keys, size_t count)
{
    client->keys  = keys;
    client->count = count;
    client->next  = is_wrong("get_many") ? 1 : 0;
    return 1;
}

int client_next(client *client, bytes *key, bytes *value)
{
    if (client->next == client->count) return 0;
    *key   = client->keys[client->next++];
    *value = client_get(client, *key);
    return 1;
}
