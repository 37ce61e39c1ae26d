/* libmemcached, with tcp_nodelay and otherwise its defaults. */
#include "client.h"

#include <libmemcached/memcached.h>
#include <stdlib.h>

struct client {
    memcached_st         memcached;
    memcached_result_st  result; /* the last one of many keys */
    char                *value;  /* the last one of a single key */
    const char          *keys[MOST];
    size_t               sizes[MOST];
};

const char *client_version(void)
{
    return memcached_lib_version();
}

client *client_open(const char *host, int port)
{
    client *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    memcached_create(&made->memcached);
    memcached_result_create(&made->memcached, &made->result);
    memcached_behavior_set(&made->memcached, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    if (memcached_success(memcached_server_add(&made->memcached, host, (in_port_t)port))) return made;
    client_close(made);
    return NULL;
}

void client_close(client *client)
{
    memcached_result_free(&client->result);
    memcached_free(&client->memcached);
    free(client->value);
    free(client);
}

int client_set(client *client, bytes key, bytes value)
{
    return memcached_success(
        memcached_set(&client->memcached, key.start, key.size, value.start, value.size, 0, 0));
}

bytes client_get(client *client, bytes key)
{
    memcached_return_t outcome;
    uint32_t           flags;
    bytes              value = {NULL, 0};
    free(client->value);
    client->value = memcached_get(&client->memcached, key.start, key.size, &value.size, &flags, &outcome);
    /* An empty value has no memory. */
    if (memcached_success(outcome)) value.start = client->value ? client->value : "";
    return value;
}

int client_get_many(client *client, const bytes *keys, size_t count)
{
    if (count > MOST) return 0;
    for (size_t at = 0; at < count; at++) {
        client->keys[at]  = keys[at].start;
        client->sizes[at] = keys[at].size;
    }
    return memcached_success(memcached_mget(&client->memcached, client->keys, client->sizes, count));
}

int client_next(client *client, bytes *key, bytes *value)
{
    memcached_return_t outcome;
    if (!memcached_fetch_result(&client->memcached, &client->result, &outcome)) return 0;
    *key   = (bytes){memcached_result_key_value(&client->result), memcached_result_key_length(&client->result)};
    *value = (bytes){memcached_result_value(&client->result), memcached_result_length(&client->result)};
    return 1;
}
