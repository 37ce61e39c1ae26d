#include "loop.h"

size_t repeat_set(client *client, bytes key, bytes value, size_t times)
{
    size_t right = 0;
    while (times--) right += client_set(client, key, value) != 0;
    return right;
}

size_t repeat_get(client *client, bytes key, size_t size, size_t times)
{
    size_t right = 0;
    while (times--) {
        bytes value = client_get(client, key);
        right += value.start && value.size == size;
    }
    return right;
}

size_t repeat_get_many(client *client, const bytes *keys, size_t count, size_t size, size_t times)
{
    size_t right = 0;
    while (times--) {
        bytes key, value;
        if (!client_get_many(client, keys, count)) continue;
        while (client_next(client, &key, &value)) right += value.size == size;
    }
    return right;
}
