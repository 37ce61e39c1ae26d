/* Leases, one by one and as a caller's way to a value. */
#include "check.h"
#include <pthread.h>

static pinyon_client *client;

static void one_by_one(void)
{
    pinyon_reply reply = {sizeof reply};
    pinyon_request lease = about(PINYON_LEASE, "leased"), stale = about(PINYON_MARK_STALE, "leased"), back = about(PINYON_GIVE_BACK, "leased");
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_WON && reply.marks & PINYON_HAS_CAS && !reply.value.start);
    pinyon_request fulfil = storing(PINYON_SET, "leased", "made");
    fulfil.with = PINYON_WITH_CAS;
    fulfil.cas = reply.cas;
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_FILLING);
    CHECK(pinyon_run(client, &fulfil, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_DONE && is(reply.value, "made"));
    stale.with = PINYON_WITH_TTL;
    stale.ttl = 100;
    CHECK(pinyon_run(client, &stale, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_WON && is(reply.value, "made") && reply.marks & PINYON_HAS_STALE);
    back.cas = reply.cas;
    back.with = PINYON_KEEP;
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_STALE && is(reply.value, "made"));
    CHECK(pinyon_run(client, &back, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_WON);
    pinyon_reply_clear(&reply);
}

enum { THREADS = 8 };
static pthread_barrier_t all_there;
static int makers;

static void *get_or_set(void *nothing)
{
    (void)nothing;
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    terms.key = pinyon_text("once");
    terms.ttl = 100;
    pthread_barrier_wait(&all_there);
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    while (pinyon_making_run(making, &reply, NULL) == PINYON_MAKE) {
        __atomic_add_fetch(&makers, 1, __ATOMIC_RELAXED);
        pinyon_making_made(making, pinyon_text("the value"), 16);
    }
    CHECK(reply.status == PINYON_DONE && is(reply.value, "the value") && reply.client_flags == 16);
    pinyon_making_free(making);
    pinyon_reply_clear(&reply);
    return NULL;
}

static void by_threads(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int number = 0; number < THREADS; number++) pthread_create(&threads[number], NULL, get_or_set, NULL);
    for (int number = 0; number < THREADS; number++) pthread_join(threads[number], NULL);
    CHECK(makers == 1);
}

/* Callers that cannot read the value: one of them makes a new one. */
static void unreadable(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    pinyon_request old = storing(PINYON_SET, "old", "old"), lease = about(PINYON_LEASE, "old");
    CHECK(pinyon_run(client, &old, &reply, NULL) == PINYON_DONE);
    terms.key = pinyon_text("old");
    terms.ttl = 100;
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    CHECK(!pinyon_making_unreadable(making, pinyon_text("no class Old")));
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    CHECK(pinyon_making_unreadable(making, pinyon_text("no class Old")));
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_STALE && is(reply.value, "old"));
    pinyon_making_made(making, pinyon_text("new"), 0);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, "new"));
    pinyon_making_free(making);
    /* By hand. */
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_DONE && reply.marks & PINYON_HAS_CAS);
    lease.with = PINYON_WITH_CAS;
    lease.cas = reply.cas;
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_WON && is(reply.value, "new") && reply.marks & PINYON_HAS_STALE);
    pinyon_option misses[] = {PINYON_OPTION("on_unreadable", "miss")};
    pinyon_client *view = pinyon_client_using(client, misses, 1, &error);
    CHECK(view && pinyon_passes_over(view, pinyon_text("")) && !pinyon_passes_over(client, pinyon_text("")));
    pinyon_client_free(view);
    pinyon_reply_clear(&reply);
}

/* A value that is made whatever is stored: a maker that has the lease cannot store its value after it. */
static void anew(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    pinyon_bytes key = pinyon_text("anew");
    terms.key = key;
    terms.ttl = 100;
    pinyon_making *older = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(older, &reply, NULL) == PINYON_MAKE);
    terms.with = PINYON_TERMS_ANEW;
    for (int time = 0; time < 2; time++) {
        pinyon_making *making = pinyon_making_new(client, &terms, NULL);
        CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
        pinyon_making_made(making, time ? pinyon_text("newer") : pinyon_text("new"), 0);
        CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, time ? "newer" : "new"));
        pinyon_making_free(making);
    }
    pinyon_making_made(older, pinyon_text("old"), 0);
    CHECK(pinyon_making_run(older, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    pinyon_making_free(older);
    pinyon_request get = about(PINYON_GET, "anew");
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "newer"));
    terms.key = (pinyon_bytes){NULL, 0};
    CHECK(!pinyon_making_many_new(client, &terms, &key, 1, &error) && strstr(pinyon_error_message(error), "for one key"));
    pinyon_error_free(error);
    pinyon_reply_clear(&reply);
}

static void failing(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    terms.key = pinyon_text("unmakeable");
    terms.ttl = 100;
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    pinyon_making_failed(making, pinyon_text("no paper"));
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_MAKER);
    CHECK(!strcmp(pinyon_error_message(reply.error), "no paper"));
    pinyon_making_free(making);
    /* The lease was given back. */
    pinyon_request lease = about(PINYON_LEASE, "unmakeable");
    CHECK(pinyon_run(client, &lease, &reply, NULL) == PINYON_WON);
    terms.early = 100;
    CHECK(!pinyon_making_new(client, &terms, &error) && strstr(pinyon_error_message(error), "early must be less than ttl"));
    pinyon_error_free(error);
    pinyon_reply_clear(&reply);
}

/* What becomes of a value whose maker fails, and what a maker says of its value. */
static void bad_days(const char *server)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_made how = {sizeof how};
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    pinyon_client *client = client_of(server, "events", "1");
    pinyon_request meta = about(PINYON_METADATA, "bad"), stale = about(PINYON_MARK_STALE, "bad");
    terms.key = pinyon_text("bad");
    terms.ttl = 100;
    terms.stale = 50;
    terms.retry_after = 20;
    terms.with = PINYON_TERMS_STALE_ON_ERROR;
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    how.with = PINYON_MADE_TTL | PINYON_MADE_STALE;
    how.ttl = 200;
    how.stale = 51;
    CHECK(pinyon_making_made_with(making, pinyon_text("old"), 0, &how, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "51 seconds, must be at most that of the call, 50"));
    pinyon_error_free(error);
    how.stale = 40;
    CHECK(pinyon_making_made_with(making, pinyon_text("old"), 0, &how, NULL) == PINYON_DONE);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    pinyon_making_free(making);
    CHECK(pinyon_run(client, &meta, &reply, NULL) == PINYON_DONE && reply.ttl > 230 && reply.ttl <= 240);
    stale.with = PINYON_WITH_TTL;
    stale.ttl = 300;
    CHECK(pinyon_run(client, &stale, &reply, NULL) == PINYON_DONE);
    making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    pinyon_making_failed(making, pinyon_text("no paper"));
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    pinyon_making_free(making);
    CHECK(pinyon_run(client, &meta, &reply, NULL) == PINYON_DONE && reply.ttl > 60 && reply.ttl <= 70);
    int told = 0;
    for (pinyon_event *event; (event = pinyon_next_event(client)); pinyon_event_free(event))
        told += !strcmp(event->kind, "stale") && strstr(event->message, "no paper") != NULL;
    CHECK(told == 1);
    /* A ttl for each value, and a value that is not stored. */
    terms.key = pinyon_text("each");
    terms.with = PINYON_TERMS_TTL_OF_VALUE;
    making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    how.with = PINYON_MADE_NOT_STORED;
    CHECK(pinyon_making_made_with(making, pinyon_text("passing"), 0, &how, NULL) == PINYON_DONE);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_DONE && is(reply.value, "passing"));
    pinyon_making_free(making);
    making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_MAKE);
    pinyon_making_made(making, pinyon_text("without a ttl"), 0);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    pinyon_making_free(making);
    terms.jitter = 1;
    CHECK(!pinyon_making_new(client, &terms, &error) && strstr(pinyon_error_message(error), "jitter must be a share"));
    pinyon_error_free(error);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
}

/* Two coroutines of one loop, by steps: the first makes the value, the second waits for it. */
static void by_steps(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_step step = {sizeof step};
    int first, second;
    void *woken = NULL;
    terms.key = pinyon_text("stepped");
    terms.ttl = 100;
    terms.scope = 7;
    terms.caller = 1;
    terms.context = &first;
    pinyon_making *leader = pinyon_making_new(client, &terms, NULL);
    terms.caller = 2;
    terms.context = &second;
    pinyon_making *follower = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_ASK);
    pinyon_run(client, &step.request, &reply, NULL);
    pinyon_making_replied(leader, &reply);
    CHECK(pinyon_making_step(follower, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_FOLLOW && step.seconds > 10);
    CHECK(pinyon_making_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_MAKE);
    pinyon_making_made(leader, pinyon_text("made"), 0);
    CHECK(pinyon_making_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_ASK);
    CHECK(step.request.verb == PINYON_SET && is(step.request.value, "made"));
    CHECK(!pinyon_next_woken(client, 7, &woken));
    pinyon_run(client, &step.request, &reply, NULL);
    pinyon_making_replied(leader, &reply);
    CHECK(pinyon_making_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_OVER);
    CHECK(reply.status == PINYON_DONE && is(reply.value, "made") && reply.context == &first);
    CHECK(pinyon_next_woken(client, 7, &woken) && woken == &second && !pinyon_next_woken(client, 7, &woken));
    CHECK(pinyon_making_step(follower, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_OVER && is(reply.value, "made"));
    CHECK(pinyon_making_step(follower, &step, &reply) == PINYON_FAILED);
    pinyon_making_free(leader);
    pinyon_making_free(follower);
    /* One that is cancelled gives its lease back. */
    terms.key = pinyon_text("cancelled");
    leader = pinyon_making_new(client, &terms, NULL);
    pinyon_making_step(leader, &step, &reply);
    pinyon_run(client, &step.request, &reply, NULL);
    pinyon_making_replied(leader, &reply);
    CHECK(pinyon_making_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_MAKE);
    pinyon_request back = {sizeof back};
    CHECK(pinyon_making_leave(leader, &back) && back.verb == PINYON_GIVE_BACK);
    CHECK(pinyon_run(client, &back, &reply, NULL) == PINYON_DONE && !pinyon_making_leave(leader, &back));
    pinyon_making_free(leader);
    pinyon_reply_clear(&reply);
}

/* A step that is a request, carried out. */
static void answered(pinyon_making *making, pinyon_step *step, pinyon_reply *reply)
{
    CHECK(pinyon_making_step(making, step, reply) == PINYON_DONE && step->kind == PINYON_STEP_ASK);
    pinyon_run(client, &step->request, reply, NULL);
    pinyon_making_replied(making, reply);
}

/* A maker that takes too long goes on behind its caller. */
static void behind(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_step step = {sizeof step};
    pinyon_request set = storing(PINYON_SET, "behind", "old"), stale = about(PINYON_MARK_STALE, "behind"), get = about(PINYON_GET, "behind");
    terms.key = pinyon_text("behind");
    terms.ttl = terms.stale = 100;
    terms.with = PINYON_TERMS_SOFT_TIMEOUT;
    terms.soft_timeout = 0.5;
    CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_DONE);
    stale.with = PINYON_WITH_TTL;
    stale.ttl = 100;
    CHECK(pinyon_run(client, &stale, &reply, NULL) == PINYON_DONE);
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    CHECK(strstr(pinyon_error_message(reply.error), "soft_timeout cannot be used here"));
    answered(making, &step, &reply);
    CHECK(pinyon_making_step(making, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_MAKE_WITHIN);
    CHECK(step.seconds == 0.5 && is(reply.value, "old"));
    CHECK(pinyon_making_step(making, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_RETURN_OLD);
    CHECK(reply.status == PINYON_DONE && is(reply.value, "old"));
    CHECK(pinyon_making_step(making, &step, &reply) == PINYON_FAILED);
    pinyon_making_made(making, pinyon_text("new"), 0);
    answered(making, &step, &reply);
    CHECK(pinyon_making_step(making, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_OVER);
    pinyon_making_free(making);
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "new"));
    terms.with = PINYON_TERMS_BEHIND;
    pinyon_bytes key = terms.key;
    terms.key.start = NULL;
    terms.key.size = 0;
    CHECK(!pinyon_making_many_new(client, &terms, &key, 1, NULL));
    pinyon_reply_clear(&reply);
}

/* Makes each wanted value of its number; returns how many were wanted. */
static size_t make_wanted(pinyon_making_many *making)
{
    size_t index, key;
    for (index = 0; pinyon_making_many_wanted(making, index, &key); index++) {
        const char *names[] = {"zero", "one", "two", "three"};
        CHECK(pinyon_making_many_made(making, key, pinyon_text(names[key]), 16, NULL, NULL) == PINYON_DONE);
    }
    return index;
}

/* Many keys: what is there, what is made, what is left out, and what fails. */
static void many_keys(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_made how = {sizeof how};
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    pinyon_request there = storing(PINYON_SET, "m:1", "there"), leased = about(PINYON_LEASE, "m:2"), taken = about(PINYON_LEASE, "m:3");
    pinyon_bytes keys[] = {pinyon_text("m:0"), pinyon_text("m:1"), pinyon_text("m:2"), pinyon_text("m:0")};
    size_t key;
    CHECK(pinyon_run(client, &there, &reply, NULL) == PINYON_DONE);
    terms.ttl = 100;
    pinyon_making_many *making = pinyon_making_many_new(client, &terms, keys, 4, NULL);
    CHECK(pinyon_making_many_answer(making, 0, &reply) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_MAKE);
    CHECK(pinyon_making_many_wanted(making, 0, &key) && key == 0 && pinyon_making_many_wanted(making, 1, &key) && key == 2);
    CHECK(!pinyon_making_many_wanted(making, 2, &key));
    how.with = PINYON_MADE_TTL;
    how.ttl = -1;
    CHECK(pinyon_making_many_made(making, 0, pinyon_text("zero"), 16, &how, &error) == PINYON_FAILED);
    pinyon_error_free(error);
    CHECK(pinyon_making_many_made(making, 0, pinyon_text("zero"), 16, NULL, NULL) == PINYON_DONE);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    CHECK(pinyon_making_many_answer(making, 0, &reply) == PINYON_DONE && is(reply.value, "zero") && reply.client_flags == 16);
    CHECK(pinyon_making_many_answer(making, 1, &reply) == PINYON_DONE && is(reply.value, "there"));
    CHECK(pinyon_making_many_answer(making, 2, &reply) == PINYON_MISS);
    CHECK(pinyon_making_many_answer(making, 3, &reply) == PINYON_DONE && is(reply.value, "zero"));
    CHECK(pinyon_making_many_answer(making, 4, &reply) == PINYON_FAILED);
    /* One that it cannot read. */
    CHECK(!pinyon_making_many_unreadable(making, 2, pinyon_text("no class Old")));
    CHECK(pinyon_making_many_unreadable(making, 1, pinyon_text("no class Old")));
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_MAKE && make_wanted(making) == 1);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_making_many_answer(making, 1, &reply) == PINYON_DONE && is(reply.value, "one"));
    CHECK(pinyon_making_many_answer(making, 0, &reply) == PINYON_DONE && is(reply.value, "zero"));
    pinyon_making_many_free(making);
    /* The one that was left out was given back. Another caller makes one of them for too long. */
    CHECK(pinyon_run(client, &leased, &reply, NULL) == PINYON_WON);
    terms.wait = -1;
    making = pinyon_making_many_new(client, &terms, keys, 3, NULL);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_making_many_answer(making, 2, &reply) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_LEASE_TIMEOUT);
    CHECK(pinyon_making_many_answer(making, 0, &reply) == PINYON_DONE);
    pinyon_making_many_free(making);
    /* A maker that fails, and a caller that leaves. */
    keys[0] = pinyon_text("m:3");
    keys[1] = pinyon_text("m:4");
    making = pinyon_making_many_new(client, &terms, keys, 2, NULL);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_MAKE);
    pinyon_making_many_failed(making, pinyon_text("no paper"));
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_MAKER);
    pinyon_making_many_free(making);
    making = pinyon_making_many_new(client, &terms, keys, 2, NULL);
    CHECK(pinyon_making_many_run(making, &reply, NULL) == PINYON_MAKE);
    pinyon_request back = {sizeof back};
    int left = 0;
    for (; pinyon_making_many_leave(making, &back); left++) CHECK(pinyon_run(client, &back, &reply, NULL) == PINYON_DONE);
    CHECK(left == 2);
    pinyon_making_many_free(making);
    CHECK(pinyon_run(client, &taken, &reply, NULL) == PINYON_WON);
    terms.key = keys[0];
    CHECK(!pinyon_making_many_new(client, &terms, keys, 2, &error) && strstr(pinyon_error_message(error), "have no key"));
    pinyon_error_free(error);
    pinyon_reply_clear(&reply);
}

/* Two coroutines of one loop, by steps: the first makes both values, the second waits for one of them. */
static void many_by_steps(void)
{
    pinyon_terms terms = {sizeof terms};
    pinyon_reply reply = {sizeof reply};
    pinyon_step step = {sizeof step};
    pinyon_request request = {sizeof request};
    pinyon_bytes keys[] = {pinyon_text("s:0"), pinyon_text("s:1")};
    int first, second;
    size_t index;
    void *woken = NULL;
    terms.ttl = 100;
    terms.scope = 8;
    terms.caller = 1;
    terms.context = &first;
    pinyon_making_many *leader = pinyon_making_many_new(client, &terms, keys, 2, NULL);
    terms.caller = 2;
    terms.context = &second;
    pinyon_making_many *follower = pinyon_making_many_new(client, &terms, keys + 1, 1, NULL);
    CHECK(pinyon_making_many_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_ASK);
    for (index = 0; pinyon_making_many_request(leader, index, &request); index++) {
        CHECK(pinyon_making_many_step(leader, &step, &reply) == PINYON_FAILED);
        pinyon_run(client, &request, &reply, NULL);
        pinyon_making_many_replied(leader, index, &reply);
    }
    CHECK(index == 2);
    CHECK(pinyon_making_many_step(follower, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_FOLLOW && step.seconds > 10);
    CHECK(pinyon_making_many_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_MAKE);
    CHECK(make_wanted(leader) == 2 && !pinyon_next_woken(client, 8, &woken));
    CHECK(pinyon_making_many_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_ASK);
    for (index = 0; pinyon_making_many_request(leader, index, &request); index++) {
        pinyon_run(client, &request, &reply, NULL);
        pinyon_making_many_replied(leader, index, &reply);
    }
    CHECK(pinyon_making_many_step(leader, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_OVER && reply.status == PINYON_DONE);
    CHECK(pinyon_next_woken(client, 8, &woken) && woken == &second);
    CHECK(pinyon_making_many_step(follower, &step, &reply) == PINYON_DONE && step.kind == PINYON_STEP_OVER);
    CHECK(pinyon_making_many_answer(follower, 0, &reply) == PINYON_DONE && is(reply.value, "one"));
    pinyon_making_many_free(leader);
    pinyon_making_many_free(follower);
    pinyon_reply_clear(&reply);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    client = client_of(arguments[1], "namespace", "leases:");
    one_by_one();
    by_threads();
    unreadable();
    anew();
    failing();
    bad_days(arguments[1]);
    by_steps();
    behind();
    many_keys();
    many_by_steps();
    pinyon_client_free(client);
    return 0;
}
