/* Readers, writers and permits, in threads and in an event loop. The scenarios have who waits for whom. */
#include "polling.h"
#include <pthread.h>
#include <stdatomic.h>

#define LIMIT 3

static const char   *url;
static pinyon_locks *locks, *other;
static pinyon_reply  reply = {.size = sizeof reply};

static pinyon_wish reading(const pinyon_bytes *name)
{
    return (pinyon_wish){.size = sizeof(pinyon_wish), .with = PINYON_AT_ONCE, .read = name, .read_count = 1};
}

static pinyon_wish writing(const pinyon_bytes *name)
{
    return (pinyon_wish){.size = sizeof(pinyon_wish), .with = PINYON_AT_ONCE, .names = name, .count = 1};
}

static pinyon_wish permitting(const pinyon_permits *permits)
{
    return (pinyon_wish){.size = sizeof(pinyon_wish), .permits = permits, .permits_count = 1};
}

static pinyon_permits of_pool(uint32_t count, uint32_t limit)
{
    return (pinyon_permits){.pool = pinyon_text("stripe"), .count = count, .limit = limit};
}

static pinyon_status run(const pinyon_locks *client, const pinyon_wish *wish)
{
    return pinyon_lock_run(client, wish, &reply, NULL);
}

static pinyon_lock *acquire(const pinyon_locks *client, const pinyon_wish *wish)
{
    CHECK(run(client, wish) == PINYON_DONE);
    pinyon_lock *lock = reply.lock;
    reply.lock = NULL;
    CHECK(lock && pinyon_lock_check(lock, NULL) == PINYON_DONE);
    return lock;
}

static void release(const pinyon_locks *client, pinyon_lock *lock)
{
    pinyon_wish wish = {.size = sizeof wish, .kind = PINYON_RELEASE, .lock = lock};
    CHECK(run(client, &wish) == PINYON_DONE);
    pinyon_lock_free(lock);
}

static uint64_t available(const pinyon_locks *client, uint32_t limit)
{
    pinyon_permits permits = of_pool(0, limit);
    pinyon_wish    wish    = permitting(&permits);
    wish.kind = PINYON_AVAILABLE;
    CHECK(run(client, &wish) == PINYON_DONE);
    return reply.number;
}

static void readers(void)
{
    pinyon_bytes  name   = pinyon_text("catalog");
    pinyon_wish   read   = reading(&name), write = writing(&name);
    pinyon_wish   state  = {.size = sizeof state, .kind = PINYON_INSPECT, .names = &name, .count = 1};
    pinyon_answer answer = {.size = sizeof answer};
    pinyon_lock  *mine   = acquire(locks, &read), *others = acquire(other, &read);
    write.with = 0;
    CHECK(run(other, &write) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_ALREADY_HELD);
    write.with  = PINYON_AT_ONCE;
    write.owner = read.owner = pinyon_new_owner();
    CHECK(run(other, &write) == PINYON_TAKEN);

    size_t count = 0, holders = 0;
    CHECK(run(locks, &state) == PINYON_DONE && pinyon_next_answer(reply.answers, &answer));
    CHECK(is(answer.name, "catalog") && answer.value.size && !answer.reads && !answer.waits);
    pinyon_bytes holder = answer.value;
    for (; pinyon_next_answer(reply.answers, &answer); count++) {
        CHECK(answer.reads && !answer.waits && is(answer.name, "catalog"));
        holders += answer.value.size == holder.size && !memcmp(answer.value.start, holder.start, holder.size);
    }
    CHECK(count == 2 && holders == 1);

    release(locks, mine);
    CHECK(run(locks, &write) == PINYON_TAKEN);
    release(other, others);
    mine = acquire(locks, &write);
    CHECK(run(other, &read) == PINYON_TAKEN);
    CHECK(run(other, &state) == PINYON_DONE && pinyon_next_answer(reply.answers, &answer) && answer.value.size);
    CHECK(!pinyon_next_answer(reply.answers, &answer));
    release(locks, mine);
}

static void one_request(void)
{
    pinyon_bytes   order = pinyon_text("order:7"), catalog = pinyon_text("catalog");
    pinyon_permits two   = of_pool(2, LIMIT);
    pinyon_wish    all   = writing(&order), read = reading(&catalog), write = writing(&order);
    all.read          = &catalog;
    all.read_count    = 1;
    all.permits       = &two;
    all.permits_count = 1;
    read.owner = write.owner = pinyon_new_owner();
    CHECK(available(locks, LIMIT) == LIMIT);
    pinyon_lock *lock = acquire(locks, &all);
    CHECK(available(other, LIMIT) == 1 && available(locks, 0) == 1);
    CHECK(run(other, &write) == PINYON_TAKEN);
    release(other, acquire(other, &read));
    pinyon_wish more = permitting(&two);
    more.with  = PINYON_AT_ONCE;
    more.owner = pinyon_new_owner();
    CHECK(run(other, &more) == PINYON_TAKEN);
    release(locks, lock);
    CHECK(available(other, LIMIT) == LIMIT);
}

static void refused(void)
{
    pinyon_locks  *fresh   = locks_within(url, "30", NULL, NULL);
    pinyon_permits permits = of_pool(1, 0);
    pinyon_wish    wish    = permitting(&permits), ask = wish;
    pinyon_error  *error   = NULL;
    ask.kind = PINYON_AVAILABLE;
    CHECK(run(fresh, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    CHECK(strstr(pinyon_error_message(reply.error), "the limit of the permits \"stripe\" is not known here"));
    CHECK(run(fresh, &ask) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    CHECK(pinyon_locks_tell_permits(fresh, &permits, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    permits.limit = LIMIT;
    CHECK(pinyon_locks_tell_permits(fresh, &permits, &error) == PINYON_DONE);
    permits.limit = 0;
    release(fresh, acquire(fresh, &wish));

    permits = of_pool(LIMIT + 1, LIMIT);
    CHECK(run(fresh, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "give 1 to 3"));
    wish.permits = NULL;
    CHECK(run(fresh, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "list of permits"));
    CHECK(pinyon_locks_tell_permits(fresh, NULL, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    ask.permits_count = 0;
    CHECK(run(fresh, &ask) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "one pool"));
    permits           = (pinyon_permits){.pool = {NULL, 6}, .count = 1, .limit = 1};
    ask.permits_count = 1;
    CHECK(run(fresh, &ask) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "the name of a pool"));
    pinyon_locks_free(fresh);
}

static void hash_tags(void)
{
    pinyon_locks  *tagged  = locks_within(url, "30", "hash_tags", "names");
    pinyon_bytes   order   = pinyon_text("{7}order"), far_off = pinyon_text("{8}catalog");
    pinyon_permits permits = {.pool = pinyon_text("{7}stripe"), .count = 1, .limit = 2};
    pinyon_wish    wish    = writing(&order), ask = permitting(&permits);
    wish.permits       = &permits;
    wish.permits_count = 1;
    ask.kind           = PINYON_AVAILABLE;
    pinyon_lock *lock  = acquire(tagged, &wish);
    CHECK(run(tagged, &ask) == PINYON_DONE && reply.number == 1);
    release(tagged, lock);
    wish.read       = &far_off;
    wish.read_count = 1;
    CHECK(run(tagged, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    pinyon_locks_free(tagged);
}

static atomic_uint inside;

static void *use_permits(void *count)
{
    pinyon_reply   got     = {.size = sizeof got};
    pinyon_permits permits = of_pool(*(const uint32_t *)count, LIMIT);
    pinyon_wish    wish    = permitting(&permits), release = {.size = sizeof release, .kind = PINYON_RELEASE};
    for (int round = 0; round < 20; round++) {
        CHECK(pinyon_lock_run(locks, &wish, &got, NULL) == PINYON_DONE);
        release.lock = got.lock;
        got.lock     = NULL;
        CHECK(atomic_fetch_add(&inside, permits.count) + permits.count <= LIMIT);
        atomic_fetch_sub(&inside, permits.count);
        CHECK(pinyon_lock_run(locks, &release, &got, NULL) == PINYON_DONE);
        pinyon_lock_free(release.lock);
    }
    pinyon_reply_clear(&got);
    return NULL;
}

static void threads(void)
{
    const uint32_t counts[] = {1, 2};
    pthread_t      all[8];
    for (size_t each = 0; each < 8; each++) CHECK(!pthread_create(&all[each], NULL, use_permits, (void *)&counts[each % 2]));
    for (size_t each = 0; each < 8; each++) CHECK(!pthread_join(all[each], NULL));
    CHECK(available(other, LIMIT) == LIMIT);
}

/* Two readers and a pool in an event loop. */
static void loop(void)
{
    struct polling polling;
    pinyon_bytes   name    = pinyon_text("catalog");
    pinyon_permits permits = of_pool(2, LIMIT);
    pinyon_wish    wish    = reading(&name), ask = permitting(&permits);
    pinyon_lock   *held[2];
    polling_init(&polling, pinyon_loop_of_locks(locks, NULL));
    wish.permits       = &permits;
    wish.permits_count = 1;
    ask.kind           = PINYON_AVAILABLE;
    for (size_t each = 0; each < 2; each++) {
        wish.owner = pinyon_new_owner();
        CHECK(pinyon_lock_begin(polling.loop, &wish, NULL, NULL) == PINYON_DONE);
        CHECK(next_reply(&polling, &reply) == PINYON_DONE);
        held[each]         = reply.lock;
        reply.lock         = NULL;
        wish.permits_count = 0;
    }
    CHECK(pinyon_lock_begin(polling.loop, &ask, NULL, NULL) == PINYON_DONE);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.number == LIMIT - 2);
    for (size_t each = 0; each < 2; each++) {
        pinyon_wish release = {.size = sizeof release, .kind = PINYON_RELEASE, .lock = held[each]};
        CHECK(pinyon_lock_begin(polling.loop, &release, NULL, NULL) == PINYON_DONE);
        CHECK(next_reply(&polling, &reply) == PINYON_DONE);
        pinyon_lock_free(held[each]);
    }
    polling_end(&polling);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    url   = arguments[1];
    locks = locks_within(url, "30", NULL, NULL);
    other = locks_within(url, "30", NULL, NULL);
    readers();
    one_request();
    refused();
    hash_tags();
    threads();
    loop();
    pinyon_reply_clear(&reply);
    pinyon_locks_free(locks);
    pinyon_locks_free(other);
    return 0;
}
