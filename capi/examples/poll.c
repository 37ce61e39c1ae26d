/* An event loop of poll(2): chains of sets and gets that share one connection to each server.
 *
 *     cc poll.c -lpinyon && ./a.out cache1:11211,cache2:11211 100 1000
 *
 * Each of 100 chains sets a value and gets it, 1000 times. All that the chains begin in one turn leaves in one system
 * call for each server, and all replies that have arrived come in with another. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <pinyon.h>

struct chain {
    char   name[32];
    char   value[64];
    size_t rounds; /* still to go */
};

static pinyon_loop   *loop;
static struct pollfd *watched; /* by lane; an fd below 0 is not watched */
static size_t         lanes;
static bool           turn_is_due;
static size_t         open_chains, operations;

static void fail(const char *what, pinyon_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error ? pinyon_error_message(error) : "");
    exit(1);
}

static void begin(struct chain *chain, pinyon_verb verb)
{
    pinyon_request request = {.size = sizeof request, .verb = verb};
    pinyon_error  *error   = NULL;
    request.key            = pinyon_text(chain->name);
    request.context        = chain;
    if (verb == PINYON_SET) {
        snprintf(chain->value, sizeof chain->value, "%s in round %zu", chain->name, chain->rounds);
        request.value = pinyon_text(chain->value);
    }
    if (pinyon_begin(loop, &request, NULL, &error) < 0) fail("begin", error);
    operations++;
}

/* What a chain does with its reply: after a set a get, after a get the next round. */
static void go_on(struct chain *chain, const pinyon_reply *reply)
{
    if (reply->status != PINYON_DONE) fail(chain->name, reply->error);
    if (!(reply->marks & PINYON_HAS_VALUE)) {
        begin(chain, PINYON_GET);
        return;
    }
    if (reply->value.size != strlen(chain->value) || memcmp(reply->value.start, chain->value, reply->value.size) != 0)
        fail("another value than was set", NULL);
    if (--chain->rounds == 0)
        open_chains--;
    else
        begin(chain, PINYON_SET);
}

static void watch(size_t lane, int fd, bool write)
{
    if (lane >= lanes) {
        watched = realloc(watched, (lane + 1) * sizeof *watched);
        if (!watched) abort();
        for (; lanes <= lane; lanes++) watched[lanes] = (struct pollfd){.fd = -1};
    }
    watched[lane] = (struct pollfd){.fd = fd, .events = write ? POLLIN | POLLOUT : POLLIN};
}

static void carry_out(void)
{
    pinyon_action action = {.size = sizeof action};
    while (pinyon_next_action(loop, &action)) switch (action.kind) {
        case PINYON_WATCH: watch(action.lane, action.fd, action.write); break;
        case PINYON_FORGET: watched[action.lane].fd = -1; break;
        case PINYON_END_TURN: turn_is_due = true; break;
        case PINYON_ALARM: break; /* poll's timeout is the alarm */
        }
}

static void hand_out(pinyon_reply *reply)
{
    carry_out();
    while (pinyon_next_reply(loop, reply)) go_on(reply->context, reply);
    carry_out();
}

static int timeout(void)
{
    double due = pinyon_due_in(loop);
    if (due < 0 || due > 3600) return due < 0 ? -1 : 3600 * 1000;
    return (int)(due * 1000) + 1;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: %s SERVERS CHAINS ROUNDS\n", arguments[0]);
        return 2;
    }
    pinyon_option  options[] = {{"servers", pinyon_text(arguments[1])}, PINYON_OPTION("timeout", "60"),
                                PINYON_OPTION("connect_timeout", "60")}; /* generous: this also runs on busy machines */
    pinyon_error  *error     = NULL;
    pinyon_reply   reply     = {.size = sizeof reply};
    pinyon_client *client    = pinyon_client_new(options, 3, &error);
    if (!client) fail("client", error);
    loop = pinyon_loop_of_client(client, NULL, &error);
    if (!loop) fail("loop", error);

    open_chains          = strtoul(arguments[2], NULL, 10);
    struct chain *chains = calloc(open_chains + 1, sizeof *chains);
    if (!chains) abort();
    for (size_t number = 0, last = open_chains; number < last; number++) {
        snprintf(chains[number].name, sizeof chains[number].name, "chain:%zu", number);
        chains[number].rounds = strtoul(arguments[3], NULL, 10);
        begin(&chains[number], PINYON_SET);
    }
    hand_out(&reply);
    while (open_chains > 0) {
        if (turn_is_due) {
            turn_is_due = false;
            pinyon_turn(loop);
            hand_out(&reply);
            continue;
        }
        int ready = poll(watched, lanes, timeout());
        for (size_t lane = 0; ready > 0 && lane < lanes; lane++) {
            if (watched[lane].fd < 0 || !watched[lane].revents) continue;
            watched[lane].revents = 0;
            pinyon_ready(loop, lane);
            hand_out(&reply);
        }
        if (pinyon_due_in(loop) == 0) {
            pinyon_expire(loop);
            hand_out(&reply);
        }
    }
    printf("%zu operations\n", operations);

    pinyon_loop_close(loop);
    hand_out(&reply);
    pinyon_reply_clear(&reply);
    pinyon_loop_free(loop);
    pinyon_client_free(client);
    free(watched);
    free(chains);
    return 0;
}
