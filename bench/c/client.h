/* One C client as the benchmark sees it. `pinyon.c` and `libmemcached.c` implement it; the harness loads each with `loop.c`
 * as a library, and calls it by Python's ctypes. */
#ifndef PINYON_BENCH_CLIENT_H
#define PINYON_BENCH_CLIENT_H

#include <stddef.h>

typedef struct client client;

/* Bytes: a pointer and a size. */
typedef struct bytes {
    const char *start;
    size_t      size;
} bytes;

const char *client_version(void);
/* Makes a client of one server; `host` is the path of a socket if `port` is 0. NULL: it cannot be made. */
client *client_open(const char *host, int port);
/* The same with hot keys in memory, fresh for hours. Only Pinyon has it. */
client *client_open_near(const char *host, int port);
void    client_close(client *client);

/* Whether the value was stored. */
int client_set(client *client, bytes key, bytes value);
/* The value, until the next call; its start is NULL if there is none. */
bytes client_get(client *client, bytes key);
/* The most keys that are asked for at once. */
#define MOST 100

/* Asks for at most so many keys at once. Whether that succeeded; the next function gives what was found, and
 * until then the keys must live. */
int client_get_many(client *client, const bytes *keys, size_t count);
/* The next key and value that were found, until the next call of another function. 0 after the last. */
int client_next(client *client, bytes *key, bytes *value);

#endif
