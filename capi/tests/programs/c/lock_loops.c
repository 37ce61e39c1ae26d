/* Event loops of locks: attempts, callers that leave, conditions, losses, renewal, hash tags, faults, forks, threads. */
#include "polling.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char    *url;
static pinyon_locks  *locks, *other;
static struct polling polling;
static pinyon_reply   reply = {.size = sizeof reply};

static pinyon_locks *locks_of(const char *of, const char *name, const char *value)
{
    return locks_within(of, "60", name, value);
}

static void start(const pinyon_locks *of)
{
    polling_init(&polling, pinyon_loop_of_locks(of, NULL));
}

static uint64_t begin(const pinyon_wish *wish)
{
    uint64_t      ticket = 0;
    pinyon_error *error  = NULL;
    if (pinyon_lock_begin(polling.loop, wish, &ticket, &error) < 0) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(ticket && !error);
    return ticket;
}

static pinyon_status run(const pinyon_wish *wish)
{
    uint64_t      ticket = begin(wish);
    pinyon_status status = next_reply(&polling, &reply);
    CHECK(reply.ticket == ticket && reply.context == wish->context);
    return status;
}

static pinyon_wish wish_for(const pinyon_bytes *name)
{
    return (pinyon_wish){.size = sizeof(pinyon_wish), .names = name, .count = 1, .owner = pinyon_new_owner()};
}

static pinyon_wish wish_about(pinyon_wish_kind kind, pinyon_lock *lock)
{
    return (pinyon_wish){.size = sizeof(pinyon_wish), .kind = kind, .lock = lock};
}

static pinyon_lock *take(void)
{
    pinyon_lock *lock = reply.lock;
    reply.lock = NULL;
    CHECK(lock);
    return lock;
}

static pinyon_lock *lock_named(const char *text)
{
    pinyon_bytes name = pinyon_text(text);
    pinyon_wish  wish = wish_for(&name);
    CHECK(run(&wish) == PINYON_DONE);
    return take();
}

static void release(pinyon_lock *lock, pinyon_status expected)
{
    pinyon_wish wish = wish_about(PINYON_RELEASE, lock);
    CHECK(run(&wish) == expected);
    pinyon_lock_free(lock);
}

/* Releases a lock for which the caller with this ticket waits. Returns the lock that it gets, perhaps before the reply to the
 * release. */
static pinyon_lock *hand_on(pinyon_lock *lock, uint64_t to)
{
    pinyon_lock *taken    = NULL;
    pinyon_wish  wish     = wish_about(PINYON_RELEASE, lock);
    uint64_t     released = begin(&wish);
    for (size_t replies = 0; replies < 2; replies++) {
        CHECK(next_reply(&polling, &reply) == PINYON_DONE);
        if (reply.ticket == released) continue;
        CHECK(reply.ticket == to && !taken);
        taken = take();
    }
    pinyon_lock_free(lock);
    return taken;
}

/* How many wait for a name, and who holds it: by another client, which waits. */
static size_t waiting_for(const char *text, bool *is_held)
{
    pinyon_bytes  name   = pinyon_text(text);
    pinyon_wish   wish   = {.size = sizeof wish, .kind = PINYON_INSPECT, .names = &name, .count = 1};
    pinyon_reply  seen   = {.size = sizeof seen};
    pinyon_answer answer = {.size = sizeof answer};
    size_t        count  = 0;
    CHECK(pinyon_lock_run(other, &wish, &seen, NULL) == PINYON_DONE && pinyon_next_answer(seen.answers, &answer));
    *is_held = answer.value.size > 0;
    while (pinyon_next_answer(seen.answers, &answer)) count += answer.waits;
    pinyon_reply_clear(&seen);
    return count;
}

static void until(const char *name, size_t waiting, bool is_held)
{
    bool is = false;
    for (double late = now() + 60; waiting_for(name, &is) != waiting || is != is_held; go_on(&polling, 5)) CHECK(now() < late);
}

static void attempts(void)
{
    start(locks);
    pinyon_bytes names[] = {pinyon_text("a"), pinyon_text("b")};
    pinyon_wish  wish    = wish_for(names);
    wish.count   = 2;
    wish.context = &wish;
    CHECK(run(&wish) == PINYON_DONE);
    pinyon_lock *lock = take();
    CHECK(reply.number == pinyon_lock_token(lock) && pinyon_lock_remaining(lock) > 0);
    CHECK(pinyon_lock_check(lock, NULL) == PINYON_DONE && pinyon_loop_is_idle(polling.loop));
    CHECK(pinyon_due_in(polling.loop) >= 0);

    pinyon_wish second = wish_for(names + 1), third = wish_for(names + 1);
    second.with = PINYON_AT_ONCE;
    CHECK(run(&second) == PINYON_TAKEN);
    second.with = 0;
    uint64_t waits = begin(&second), next = begin(&third);
    for (size_t turn = 0; turn < 5; turn++) go_on(&polling, 5);
    CHECK(!pinyon_next_reply(polling.loop, &reply) && !pinyon_loop_is_idle(polling.loop));
    pinyon_wish extend = wish_about(PINYON_EXTEND, lock);
    extend.ttl = 1000;
    CHECK(run(&extend) == PINYON_DONE && pinyon_lock_remaining(lock) > 900);
    lock = hand_on(lock, waits);
    lock = hand_on(lock, next);
    release(lock, PINYON_DONE);

    pinyon_error *error = NULL;
    second.names = NULL;
    CHECK(pinyon_lock_begin(polling.loop, &second, NULL, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    error = NULL;
    pinyon_request get = about(PINYON_GET, "k");
    CHECK(pinyon_begin(polling.loop, &get, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "pinyon_lock_begin"));
    pinyon_error_free(error);
    polling_end(&polling);
}

static void abandoned(void)
{
    start(locks);
    pinyon_bytes name = pinyon_text("given-up");
    pinyon_wish  wish = wish_for(&name), next = wish_for(&name);
    pinyon_wish  theirs = wish_for(&name);
    pinyon_reply held   = {.size = sizeof held};
    CHECK(pinyon_lock_run(other, &theirs, &held, NULL) == PINYON_DONE);
    /* Those of one client stand in line here. The first of them waits at the server. */
    uint64_t gone = begin(&wish), stays = begin(&next);
    until("given-up", 1, true);
    pinyon_abandon(polling.loop, gone);
    pinyon_abandon(polling.loop, gone);
    for (size_t turn = 0; turn < 5; turn++) go_on(&polling, 5);
    until("given-up", 1, true);
    pinyon_wish let_go = wish_about(PINYON_RELEASE, held.lock);
    held.lock = NULL;
    CHECK(pinyon_lock_run(other, &let_go, &held, NULL) == PINYON_DONE);
    pinyon_lock_free(let_go.lock);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.ticket == stays);
    release(take(), PINYON_DONE);

    /* The last that waits leaves, and nobody waits any more. */
    CHECK(pinyon_lock_run(other, &theirs, &held, NULL) == PINYON_DONE);
    gone = begin(&wish);
    until("given-up", 1, true);
    pinyon_abandon(polling.loop, gone);
    until("given-up", 0, true);
    let_go.lock = held.lock;
    held.lock   = NULL;
    CHECK(pinyon_lock_run(other, &let_go, &held, NULL) == PINYON_DONE);
    pinyon_lock_free(let_go.lock);
    pinyon_reply_clear(&held);
    until("given-up", 0, false);

    /* Before anything was sent; after it was; once it is held, and the reply is not taken. */
    for (size_t turns = 0; turns < 8; turns++) {
        gone = begin(&wish);
        for (size_t turn = 0; turn < turns; turn++) go_on(&polling, 50);
        pinyon_abandon(polling.loop, gone);
        CHECK(!pinyon_next_reply(polling.loop, &reply) && pinyon_loop_is_idle(polling.loop));
        until("given-up", 0, false);
    }
    /* A lock that nobody takes out of its reply is given up with it: it is not renewed. */
    wish.ttl = 0.2;
    CHECK(run(&wish) == PINYON_DONE && reply.lock);
    pinyon_reply_clear(&reply);
    until("given-up", 0, false);
    polling_end(&polling);
}

static void conditions(void)
{
    start(locks);
    pinyon_lock *parked = lock_named("condition");
    pinyon_wish  park   = wish_about(PINYON_PARK, parked);
    park.wait = 0.001;
    CHECK(run(&park) == PINYON_DONE && !(reply.marks & PINYON_WAS_NOTIFIED));
    park.wait = 0;
    uint64_t     ticket = begin(&park);
    pinyon_bytes name   = pinyon_text("condition");
    pinyon_wish  wish   = wish_for(&name);
    CHECK(run(&wish) == PINYON_DONE);
    pinyon_lock *notifier = take();
    pinyon_wish  notify   = wish_about(PINYON_NOTIFY, notifier);
    CHECK(run(&notify) == PINYON_DONE && reply.number == 1);
    /* The one that is parked may have its reply first. */
    pinyon_wish let_go   = wish_about(PINYON_RELEASE, notifier);
    uint64_t    released = begin(&let_go);
    for (size_t replies = 0; replies < 2; replies++) {
        CHECK(next_reply(&polling, &reply) == PINYON_DONE);
        if (reply.ticket == released) continue;
        CHECK(reply.ticket == ticket && (reply.marks & PINYON_WAS_NOTIFIED));
        CHECK(reply.number == pinyon_lock_token(parked));
    }
    pinyon_lock_free(notifier);

    /* Whoever leaves while it is parked holds nothing. */
    ticket = begin(&park);
    until("condition", 0, false);
    pinyon_abandon(polling.loop, ticket);
    until("condition", 0, false);
    release(parked, PINYON_NOT_HELD);
    polling_end(&polling);
}

static void lost(void)
{
    int context;
    start(locks);
    pinyon_bytes name = pinyon_text("lost");
    pinyon_wish  wish = wish_for(&name), force = {.size = sizeof force, .kind = PINYON_FORCE_RELEASE};
    wish.context = &context;
    CHECK(run(&wish) == PINYON_DONE);
    pinyon_lock *lock = take();
    force.names = &name;
    force.count = 1;
    pinyon_reply forced = {.size = sizeof forced};
    CHECK(pinyon_lock_run(other, &force, &forced, NULL) == PINYON_DONE && forced.number == 1);
    pinyon_reply_clear(&forced);
    pinyon_note *note = NULL;
    for (double late = now() + 60; !note; note = pinyon_next_note(locks)) {
        CHECK(now() < late && !pinyon_next_reply(polling.loop, &reply));
        go_on(&polling, 50);
    }
    CHECK(note->context == &context && note->loss == PINYON_LOSS_FORCED && !note->warning);
    pinyon_note_free(note);
    CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_FORCED && pinyon_lock_remaining(lock) == 0);
    release(lock, PINYON_NOT_HELD);

    lock = lock_named("lost");
    pinyon_loop_close(polling.loop);
    CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_CLOSED && pinyon_lock_check(lock, NULL) == PINYON_FAILED);
    polling_end(&polling);
    pinyon_lock_free(lock);

    start(locks);
    lock = lock_named("freed");
    for (size_t lane = 0; lane < MOST_LANES; lane++) polling.watched[lane].fd = -1;
    pinyon_loop_free(polling.loop);
    CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_CLOSED);
    pinyon_lock_free(lock);
}

/* The alarm renews. The lock is held for longer than its ttl. */
static void renewed(void)
{
    pinyon_locks *brief = locks_of(url, "ttl", "6");
    start(brief);
    pinyon_lock *lock = lock_named("renewed");
    for (double end = now() + 7; now() < end; go_on(&polling, 1000)) CHECK(pinyon_lock_check(lock, NULL) == PINYON_DONE);
    bool is_held;
    CHECK(waiting_for("renewed", &is_held) == 0 && is_held);
    release(lock, PINYON_DONE);
    polling_end(&polling);
    pinyon_locks_free(brief);
}

/* Each hash tag has a connection. Those that nobody needs are closed when there are many. */
static void hash_tags(void)
{
    enum { TAGS = 100 };
    pinyon_locks *tagged = locks_of(url, "hash_tags", "names");
    start(tagged);
    pinyon_lock *first = lock_named("{first}:x");
    for (size_t tag = 0; tag < TAGS; tag++) {
        char name[32];
        snprintf(name, sizeof name, "{%zu}:x", tag);
        release(lock_named(name), PINYON_DONE);
    }
    CHECK(watched_lanes(&polling) < 70);
    CHECK(pinyon_lock_check(first, NULL) == PINYON_DONE);
    release(first, PINYON_DONE);
    pinyon_bytes   command[] = {pinyon_text("PING")};
    pinyon_wish    ping      = {.size = sizeof ping, .kind = PINYON_COMMAND, .names = command, .count = 1};
    pinyon_reader *reader    = pinyon_reader_new(NULL);
    pinyon_part    part      = {.size = sizeof part};
    CHECK(run(&ping) == PINYON_DONE && pinyon_read_answers(reader, reply.answers, NULL) == PINYON_DONE);
    CHECK(pinyon_read(reader, &part, NULL) == PINYON_DONE && is(part.bytes, "PONG"));
    pinyon_reader_free(reader);
    polling_end(&polling);
    pinyon_locks_free(tagged);
}

static void in_the_wrong_place(void)
{
    start(locks);
    pinyon_reply  got   = {.size = sizeof got};
    pinyon_error *error = NULL;
    pinyon_lock  *lock  = lock_named("place");
    pinyon_wish   wish  = wish_about(PINYON_RELEASE, lock);
    CHECK(pinyon_lock_run(locks, &wish, &got, NULL) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(got.error), "pinyon_lock_begin"));
    CHECK(pinyon_lock_run(other, &wish, &got, NULL) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(got.error), "another client"));
    pinyon_bytes name    = pinyon_text("thread");
    pinyon_wish  acquire = wish_for(&name);
    CHECK(pinyon_lock_run(locks, &acquire, &got, NULL) == PINYON_DONE);
    wish.lock = got.lock;
    CHECK(pinyon_lock_begin(polling.loop, &wish, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "pinyon_lock_run"));
    pinyon_error_free(error);
    wish.lock = NULL;
    error     = NULL;
    CHECK(pinyon_lock_begin(polling.loop, &wish, NULL, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    pinyon_reply_clear(&got);
    release(lock, PINYON_DONE);
    polling_end(&polling);
}

static void no_server(void)
{
    pinyon_locks *nobody = locks_of("redis://127.0.0.1:1", "command_timeout", "0.2");
    pinyon_bytes  name   = pinyon_text("a");
    pinyon_wish   wish   = wish_for(&name);
    start(nobody);
    CHECK(run(&wish) == PINYON_FAILED && pinyon_error_kind(reply.error) != PINYON_E_INTERNAL);
    CHECK(pinyon_error_message(reply.error)[0] && !reply.lock && pinyon_loop_is_idle(polling.loop));
    polling_end(&polling);
    pinyon_locks_free(nobody);
}

static void forks(void)
{
    start(locks);
    pinyon_lock *lock  = lock_named("forked");
    pid_t        child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pinyon_error *error  = NULL;
        pinyon_action action = {.size = sizeof action};
        pinyon_wish   wish   = wish_about(PINYON_RELEASE, lock);
        CHECK(pinyon_lock_loss(lock) == PINYON_LOSS_FORKED && pinyon_lock_remaining(lock) == 0);
        CHECK(pinyon_lock_begin(polling.loop, &wish, NULL, &error) == PINYON_FAILED);
        CHECK(strstr(pinyon_error_message(error), "parent"));
        pinyon_error_free(error);
        pinyon_turn(polling.loop);
        pinyon_loop_close(polling.loop);
        CHECK(!pinyon_next_action(polling.loop, &action) && pinyon_due_in(polling.loop) < 0);
        pinyon_lock_free(lock);
        pinyon_loop_free(polling.loop);
        start(locks);
        pinyon_bytes name = pinyon_text("forked");
        wish      = wish_for(&name);
        wish.with = PINYON_AT_ONCE;
        CHECK(run(&wish) == PINYON_TAKEN);
        polling_end(&polling);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(pinyon_lock_check(lock, NULL) == PINYON_DONE);
    release(lock, PINYON_DONE);
    polling_end(&polling);
}

static void *look_at(void *argument)
{
    for (size_t look = 0; look < 2000; look++) CHECK(pinyon_lock_remaining(argument) > 0);
    pinyon_lock_free(argument);
    return NULL;
}

/* Any thread may ask a lock how long it is held, and free it, while its loop goes on. */
static void threads(void)
{
    start(locks);
    pthread_t    thread;
    pinyon_bytes name = pinyon_text("looked-at");
    pinyon_wish  wish = wish_for(&name);
    wish.ttl = 1000;
    CHECK(run(&wish) == PINYON_DONE);
    CHECK(!pthread_create(&thread, NULL, look_at, take()));
    for (size_t round = 0; round < 200; round++) release(lock_named("busy"), PINYON_DONE);
    CHECK(!pthread_join(thread, NULL));
    polling_end(&polling);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    url   = arguments[1];
    locks = locks_of(url, NULL, NULL);
    other = locks_of(url, NULL, NULL);
    attempts();
    abandoned();
    conditions();
    lost();
    renewed();
    hash_tags();
    in_the_wrong_place();
    no_server();
    forks();
    threads();
    pinyon_reply_clear(&reply);
    pinyon_locks_free(locks);
    pinyon_locks_free(other);
    return 0;
}
