/* Locks, in threads: each wish, what is known of a held lock, notes, owners, and what is refused. */
#include "check.h"
#include <math.h>
#include <pthread.h>
#include <unistd.h>

static pinyon_locks *locks, *other;
static pinyon_reply  reply = {sizeof reply};

static pinyon_locks *locks_of(const char *url, const char *name, const char *value)
{
    return locks_within(url, "30", name, value);
}

static pinyon_wish wish_for(pinyon_wish_kind kind, const pinyon_bytes *names, size_t count)
{
    pinyon_wish wish = {sizeof wish, kind};
    wish.names = names;
    wish.count = count;
    return wish;
}

static pinyon_wish wish_about(pinyon_wish_kind kind, pinyon_lock *lock)
{
    pinyon_wish wish = {sizeof wish, kind};
    wish.lock = lock;
    return wish;
}

static pinyon_status run(const pinyon_locks *client, const pinyon_wish *wish)
{
    return pinyon_lock_run(client, wish, &reply, NULL);
}

static pinyon_lock *take(void)
{
    pinyon_lock *lock = reply.lock;
    reply.lock = NULL;
    CHECK(lock);
    return lock;
}

static pinyon_lock *lock_named(const pinyon_locks *client, const char *name)
{
    pinyon_bytes names = pinyon_text(name);
    pinyon_wish  wish  = wish_for(PINYON_LOCK, &names, 1);
    CHECK(run(client, &wish) == PINYON_DONE);
    return take();
}

static pinyon_status release(const pinyon_locks *client, pinyon_lock *lock)
{
    pinyon_wish   wish   = wish_about(PINYON_RELEASE, lock);
    pinyon_status status = run(client, &wish);
    CHECK(status == PINYON_DONE || status == PINYON_NOT_HELD);
    return status;
}

static void held(void)
{
    pinyon_bytes names[] = {pinyon_text("a"), pinyon_text("b")};
    pinyon_wish  wish    = wish_for(PINYON_LOCK, names, 2);
    CHECK(run(locks, &wish) == PINYON_DONE);
    pinyon_lock *lock  = take();
    uint64_t     token = pinyon_lock_token(lock);
    CHECK(token > 0 && reply.number == token);
    CHECK(pinyon_lock_remaining(lock) > 0 && pinyon_lock_check(lock, NULL) == PINYON_DONE);
    CHECK(pinyon_lock_loss(lock) == PINYON_NOT_LOST);

    pinyon_wish try = wish_for(PINYON_LOCK, names + 1, 1);
    try.with = PINYON_AT_ONCE;
    CHECK(run(other, &try) == PINYON_TAKEN && !reply.lock && !reply.error);
    try.with = 0;
    try.wait = 1;
    CHECK(run(other, &try) == PINYON_FAILED);
    CHECK(pinyon_error_kind(reply.error) == PINYON_E_LOCK_TIMEOUT);
    CHECK(pinyon_kind_is_a(pinyon_error_kind(reply.error), PINYON_E_TIMEOUT));

    pinyon_wish extend = wish_about(PINYON_EXTEND, lock);
    extend.ttl = 1000;
    CHECK(run(locks, &extend) == PINYON_DONE && pinyon_lock_remaining(lock) > 900);

    pinyon_bytes  asked[] = {names[1], names[0], pinyon_text("free")};
    pinyon_wish   inspect = wish_for(PINYON_INSPECT, asked, 3);
    pinyon_answer answer  = {sizeof answer};
    CHECK(run(other, &inspect) == PINYON_DONE);
    CHECK(pinyon_next_answer(reply.answers, &answer) && is(answer.name, "b") && answer.token == token);
    CHECK(answer.value.size > 0 && answer.left > 900 && answer.age >= 0 && !answer.waits);
    CHECK(pinyon_next_answer(reply.answers, &answer) && is(answer.name, "a"));
    CHECK(pinyon_next_answer(reply.answers, &answer) && is(answer.name, "free") && answer.value.size == 0);
    CHECK(answer.left < 0 && answer.age < 0 && !pinyon_next_answer(reply.answers, &answer));

    CHECK(release(locks, lock) == PINYON_DONE && release(locks, lock) == PINYON_NOT_HELD);
    CHECK(run(locks, &extend) == PINYON_NOT_HELD && pinyon_lock_remaining(lock) == 0);
    pinyon_error *error = NULL;
    CHECK(pinyon_lock_check(lock, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_LOCK_LOST);
    pinyon_error_free(error);
    pinyon_lock_free(lock);

    lock = lock_named(other, "b");
    CHECK(pinyon_lock_token(lock) > token);
    CHECK(release(other, lock) == PINYON_DONE);
    pinyon_lock_free(lock);
}

static void owners(void)
{
    pinyon_bytes name = pinyon_text("owned");
    pinyon_wish  wish = wish_for(PINYON_LOCK, &name, 1);
    CHECK(pinyon_this_thread() == pinyon_this_thread() && pinyon_new_owner() != pinyon_new_owner());
    CHECK(run(locks, &wish) == PINYON_DONE);
    pinyon_lock *first = take();
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_ALREADY_HELD);
    wish.with = PINYON_REENTRANT;
    CHECK(run(locks, &wish) == PINYON_DONE);
    pinyon_lock *second = take();
    CHECK(pinyon_lock_token(second) == pinyon_lock_token(first));
    wish.owner = pinyon_new_owner();
    wish.with  = PINYON_AT_ONCE;
    CHECK(run(locks, &wish) == PINYON_TAKEN);
    CHECK(release(locks, first) == PINYON_DONE);
    CHECK(run(locks, &wish) == PINYON_TAKEN);
    CHECK(release(locks, second) == PINYON_DONE);
    pinyon_lock_free(first);
    pinyon_lock_free(second);
}

static void lost(void)
{
    int          contexts[2];
    pinyon_bytes name = pinyon_text("lost");
    pinyon_wish  wish = wish_for(PINYON_LOCK, &name, 1);
    wish.context = &contexts[0];
    CHECK(run(locks, &wish) == PINYON_DONE && reply.context == &contexts[0]);
    pinyon_lock *lock = take();
    CHECK(pinyon_lock_listen(lock, &contexts[1]) && !pinyon_next_note(locks));

    pinyon_wish force = wish_for(PINYON_FORCE_RELEASE, &name, 1);
    force.with  = PINYON_WITH_TOKEN;
    force.token = pinyon_lock_token(lock) + 1;
    CHECK(run(other, &force) == PINYON_DONE && reply.number == 0);
    force.token--;
    CHECK(run(other, &force) == PINYON_DONE && reply.number == 1);
    for (size_t number = 0; number < 2; number++) {
        pinyon_note *note = pinyon_wait_note(locks, 60, NULL);
        CHECK(note && !note->warning && note->context == &contexts[number] && note->loss == PINYON_LOSS_FORCED);
        pinyon_note_free(note);
    }
    CHECK(!pinyon_wait_note(locks, 0, NULL));
    CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_FORCED && !pinyon_lock_listen(lock, NULL));
    CHECK(!strcmp(pinyon_loss_text(PINYON_LOSS_FORCED), "it was released by force"));
    pinyon_error *early = pinyon_lock_lost_early(lock);
    CHECK(pinyon_error_kind(early) == PINYON_E_LOCK_LOST && strstr(pinyon_error_message(early), "by force"));
    pinyon_error_free(early);
    CHECK(release(locks, lock) == PINYON_NOT_HELD);
    pinyon_lock_free(lock);
}

static void rates(void)
{
    pinyon_bytes name = pinyon_text("api:7");
    pinyon_rate  rate = {sizeof rate, 2, 1000, 0};
    pinyon_wish  wish = wish_for(PINYON_RATE, &name, 1);

    CHECK(run(locks, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "pinyon_rate is missing"));
    wish.rate = &rate;
    CHECK(run(locks, &wish) == PINYON_DONE && reply.number == 1 && reply.ttl > 0 && !reply.last_access);
    CHECK(run(other, &wish) == PINYON_DONE && !reply.number);
    CHECK(run(locks, &wish) == PINYON_TAKEN && reply.last_access > 400 * 1000000 && reply.ttl > 900 * 1000000LL);
    wish.most = 3;
    CHECK(run(locks, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "never gives more than 2"));
    wish.most = 1;
    wish.with = PINYON_WAITS;
    wish.wait = 5;
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_LOCK_TIMEOUT);
    name = pinyon_text("api:8");
    rate = (pinyon_rate){sizeof rate, 20, 1, 1};
    for (int index = 0; index < 3; index++)
        CHECK(run(locks, &wish) == PINYON_DONE);
}

static void commands(void)
{
    pinyon_bytes set[]   = {pinyon_text("SET"), pinyon_text("key"), {"va\0lue", 6}};
    pinyon_bytes get[]   = {pinyon_text("GET"), pinyon_text("key")};
    pinyon_wish  wish    = wish_for(PINYON_COMMAND, set, 3);
    CHECK(run(locks, &wish) == PINYON_DONE);
    wish = wish_for(PINYON_COMMAND, get, 2);
    CHECK(run(locks, &wish) == PINYON_DONE);
    pinyon_reader *reader = pinyon_reader_new(NULL);
    pinyon_part    part   = {sizeof part};
    CHECK(pinyon_read_answers(reader, reply.answers, NULL) == PINYON_DONE);
    CHECK(pinyon_read(reader, &part, NULL) == PINYON_DONE && part.kind == PINYON_BYTES);
    CHECK(part.bytes.size == 6 && !memcmp(part.bytes.start, "va\0lue", 6));
    CHECK(pinyon_read(reader, &part, NULL) == PINYON_END);
    pinyon_reader_free(reader);
    pinyon_bytes subscribe[] = {pinyon_text("SUBSCRIBE"), pinyon_text("channel")};
    wish = wish_for(PINYON_COMMAND, subscribe, 2);
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
}

/* Parks with a client of its own until it is notified. */
static void *park(void *url)
{
    pinyon_locks *mine  = locks_of(url, NULL, NULL);
    pinyon_bytes  name  = pinyon_text("parked");
    pinyon_reply  got   = {sizeof got};
    pinyon_wish   wish  = wish_for(PINYON_LOCK, &name, 1);
    CHECK(pinyon_lock_run(mine, &wish, &got, NULL) == PINYON_DONE);
    pinyon_lock *lock = got.lock;
    got.lock = NULL;
    wish = wish_about(PINYON_PARK, lock);
    CHECK(pinyon_lock_run(mine, &wish, &got, NULL) == PINYON_DONE && (got.marks & PINYON_WAS_NOTIFIED));
    CHECK(got.number == pinyon_lock_token(lock) && pinyon_lock_check(lock, NULL) == PINYON_DONE);
    wish = wish_about(PINYON_RELEASE, lock);
    CHECK(pinyon_lock_run(mine, &wish, &got, NULL) == PINYON_DONE);
    pinyon_lock_free(lock);
    pinyon_reply_clear(&got);
    pinyon_locks_free(mine);
    return NULL;
}

static void conditions(const char *url)
{
    pthread_t    thread;
    pinyon_lock *alone = lock_named(locks, "alone");
    pinyon_wish  briefly = wish_about(PINYON_PARK, alone);
    briefly.wait = 0.001;
    CHECK(run(locks, &briefly) == PINYON_DONE && !(reply.marks & PINYON_WAS_NOTIFIED));
    CHECK(release(locks, alone) == PINYON_DONE);
    pinyon_lock_free(alone);
    CHECK(!pthread_create(&thread, NULL, park, (void *)url));
    for (bool is_notified = false; !is_notified;) {
        pinyon_lock *lock   = lock_named(locks, "parked");
        pinyon_wish  notify = wish_about(PINYON_NOTIFY, lock);
        notify.most = 1;
        CHECK(run(locks, &notify) == PINYON_DONE);
        is_notified = reply.number == 1;
        CHECK(release(locks, lock) == PINYON_DONE);
        pinyon_lock_free(lock);
        usleep(1000);
    }
    CHECK(!pthread_join(thread, NULL));
}

static void hash_tags(const char *url)
{
    pinyon_bytes  names[] = {pinyon_text("{1}:a"), pinyon_text("{1}:b"), pinyon_text("{2}:a")};
    pinyon_bytes  tag;
    pinyon_error *error = NULL;
    CHECK(pinyon_common_tag(names, 2, &tag, &error) == PINYON_DONE && is(tag, "1"));
    CHECK(pinyon_common_tag(names, 3, &tag, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_INVALID_NAME);
    pinyon_error_free(error);
    pinyon_locks *tagged = locks_of(url, "hash_tags", "names");
    pinyon_lock  *one    = lock_named(tagged, "{1}:a");
    pinyon_lock  *two    = lock_named(tagged, "{2}:a");
    pinyon_wish   wish   = wish_for(PINYON_LOCK, names, 3);
    CHECK(run(tagged, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    CHECK(release(tagged, one) == PINYON_DONE && release(tagged, two) == PINYON_DONE);
    pinyon_lock_free(one);
    pinyon_lock_free(two);
    pinyon_locks_free(tagged);
}

static void misuse(void)
{
    pinyon_bytes names[] = {pinyon_text("")};
    pinyon_wish  wish    = wish_for(PINYON_LOCK, names, 1);
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    wish.count = 0;
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_NAME);
    wish.count = 1;
    wish.names = NULL;
    CHECK(run(locks, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "names"));
    names[0] = pinyon_text("n");
    wish     = wish_for(PINYON_LOCK, names, 1);
    wish.ttl = NAN;
    CHECK(run(locks, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    wish = wish_for((pinyon_wish_kind)99, names, 1);
    CHECK(run(locks, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "99"));
    wish = wish_about(PINYON_RELEASE, NULL);
    CHECK(run(locks, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "pinyon_lock"));
    pinyon_lock *lock = lock_named(locks, "n");
    wish = wish_about(PINYON_RELEASE, lock);
    CHECK(run(other, &wish) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "another client"));
    CHECK(release(locks, lock) == PINYON_DONE);
    pinyon_lock_free(lock);
    CHECK(pinyon_lock_run(NULL, &wish, &reply, NULL) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(reply.error), "pinyon_locks"));
    pinyon_lock_free(NULL);
    pinyon_locks_free(NULL);
    pinyon_note_free(NULL);
}

/* A lock keeps its client until it is freed; a lock that stays in a reply is given up with it. */
static void lifetimes(const char *url)
{
    pinyon_locks *mine  = locks_of(url, NULL, NULL);
    pinyon_locks *clone = pinyon_locks_clone(mine);
    pinyon_lock  *lock  = lock_named(clone, "life");
    pinyon_locks_free(mine);
    pinyon_locks_free(clone);
    CHECK(pinyon_lock_check(lock, NULL) == PINYON_DONE);
    pinyon_lock_free(lock);

    mine = locks_of(url, "ttl", "0.2");
    pinyon_bytes name = pinyon_text("left");
    pinyon_wish  wish = wish_for(PINYON_LOCK, &name, 1);
    CHECK(run(mine, &wish) == PINYON_DONE && reply.lock);
    pinyon_reply_clear(&reply);
    CHECK(!pinyon_next_note(mine)); /* it takes no events */
    pinyon_lock *next = lock_named(other, "left");
    CHECK(release(other, next) == PINYON_DONE);
    pinyon_lock_free(next);

    lock = lock_named(mine, "closed");
    pinyon_locks_close(mine);
    CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_CLOSED && !pinyon_wait_note(mine, 60, NULL));
    CHECK(run(mine, &wish) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CLOSED);
    pinyon_lock_free(lock);
    pinyon_locks_free(mine);
}

/* A host that takes events learns of the connection, and all count. */
static void told_and_counted(const char *url)
{
    pinyon_locks *mine = locks_of(url, "events", "1");
    pinyon_lock  *lock = lock_named(mine, "told");
    pinyon_note  *note = pinyon_wait_note(mine, 60, NULL);
    CHECK(note && !note->warning && !note->context && note->event && note->event->size == sizeof(pinyon_event));
    CHECK(!strcmp(note->event->kind, "connected") && !strcmp(note->event->level, "debug"));
    CHECK(!strcmp(note->event->server, pinyon_locks_server(mine)) && strstr(note->event->message, "is connected"));
    CHECK(!note->event->previous && !note->event->error && note->event->seconds < 0);
    pinyon_note_free(note);
    CHECK(release(mine, lock) == PINYON_DONE);
    pinyon_lock_free(lock);
    char *metrics = pinyon_locks_metrics(mine);
    CHECK(strstr(metrics, "{\"acquired\": 1, \"queued\": 0, \"busy\": 0, \"released\": 1, "));
    CHECK(strstr(metrics, "\"lost\": {}, \"errors\": {}, \"waits\": {\"count\": 1, \"mean\": "));
    pinyon_text_free(metrics);
    pinyon_locks_free(mine);
    CHECK(!pinyon_locks_metrics(NULL));
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    const char *url = arguments[1];
    locks = locks_of(url, NULL, NULL);
    other = locks_of(url, NULL, NULL);
    CHECK(pinyon_locks_server(locks)[0] && pinyon_locks_prefix(locks).size > 0);
    held();
    owners();
    lost();
    rates();
    commands();
    conditions(url);
    hash_tags(url);
    misuse();
    lifetimes(url);
    told_and_counted(url);
    pinyon_reply_clear(&reply);
    pinyon_locks_free(locks);
    pinyon_locks_free(other);
    return 0;
}
