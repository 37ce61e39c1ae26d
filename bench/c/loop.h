/* Calls repeated within C, so that nothing but the client is timed. */
#ifndef PINYON_BENCH_LOOP_H
#define PINYON_BENCH_LOOP_H

#include "client.h"

/* Each returns how many of the calls, or of the keys that were asked for, had the right outcome: a stored value, or a value
 * of this size. */
size_t repeat_set(client *client, bytes key, bytes value, size_t times);
size_t repeat_get(client *client, bytes key, size_t size, size_t times);
size_t repeat_get_many(client *client, const bytes *keys, size_t count, size_t size, size_t times);

#endif
