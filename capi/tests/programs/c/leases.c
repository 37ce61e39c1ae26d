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

int main(int count, char **arguments)
{
    CHECK(count == 3);
    client = client_of(arguments[1], "namespace", "leases:");
    one_by_one();
    by_threads();
    unreadable();
    failing();
    by_steps();
    pinyon_client_free(client);
    return 0;
}
