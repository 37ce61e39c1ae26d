/* What a host does during a call: values go where it says, and it may end a wait. */
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int waits, asked;

struct place { char memory[40000]; size_t size; uint32_t flags; };

static void *place(void *context, size_t size, uint32_t flags)
{
    struct place *to = (struct place *)context;
    if (!to || size > sizeof to->memory) return NULL;
    to->size = size;
    to->flags = flags;
    return to->memory;
}

struct found { pinyon_found found; struct place place; };

static void *place_found(void *context, size_t size, uint32_t flags)
{
    return place(&((struct found *)context)->place, size, flags);
}

/* Keys without requests: a struct of the host's has each, and its value. */
static void get_many(pinyon_client *client, size_t large)
{
    pinyon_host has_place = {sizeof has_place, place_found, NULL, NULL, NULL, NULL}, *host = &has_place;
    static struct found found[5];
    const char *const keys[] = {"small", "nothing", "large", "with a space", "small"};
    for (int number = 0; number < 5; number++) {
        found[number].found.size = sizeof found[number];
        found[number].found.key = pinyon_text(keys[number]);
    }
    for (int time = 0; time < 2; time++) {
        pinyon_found *first = &found[0].found;
        CHECK(pinyon_get_many(client, first, 5, time ? PINYON_WITH_CAS : 0, host) == PINYON_FAILED);
        for (int number = 0; number < 5; number += 2) {
            CHECK(found[number].found.status == PINYON_DONE && !found[number].found.error);
            CHECK(found[number].found.client_flags == (number == 2 ? 0 : 5) && !found[number].found.cas == !time);
        }
        CHECK(found[0].place.size == 11 && !memcmp(found[0].place.memory, "small value", 11));
        CHECK(found[4].place.size == 11 && !memcmp(found[4].place.memory, "small value", 11));
        CHECK(found[2].place.size == large && found[2].place.memory[large - 1] == 'l');
        CHECK(found[1].found.status == PINYON_MISS && found[3].found.status == PINYON_FAILED);
        CHECK(pinyon_error_kind(found[3].found.error) == PINYON_E_INVALID_KEY);
        pinyon_error_free(found[3].found.error);
        CHECK(pinyon_get_many(client, first, 3, 0, host) == PINYON_DONE);
    }
    found[1].found.key = pinyon_text("huge");
    CHECK(pinyon_get_many(client, &found[0].found, 2, 0, host) == PINYON_FAILED && found[0].found.status == PINYON_DONE);
    CHECK(pinyon_error_kind(found[1].found.error) == PINYON_E_USAGE); /* it has no place */
    pinyon_error_free(found[1].found.error);
    CHECK(pinyon_get_many(client, &found[0].found, 1, 0, NULL) == PINYON_FAILED);
    CHECK(pinyon_error_kind(found[0].found.error) == PINYON_E_USAGE);
    pinyon_error_free(found[0].found.error);
    CHECK(pinyon_get_many(client, NULL, 0, 0, NULL) == PINYON_DONE);
}

static void before(void *host) { *(int *)host += 1; }
static void after(void *host) { *(int *)host += 100; }
static int interrupted(void *host)
{
    (void)host;
    return ++asked > 3;
}

/* A server that accepts and never answers. */
static int silent(char *address)
{
    struct sockaddr_in at = {0};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 5));
    CHECK(!getsockname(listener, (struct sockaddr *)&at, &size));
    sprintf(address, "127.0.0.1:%d", ntohs(at.sin_port));
    return listener;
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    pinyon_client *client = client_of(arguments[1], NULL, NULL);
    pinyon_reply reply = {sizeof reply};
    pinyon_host host = {sizeof host, place, NULL, before, after, &waits};
    static struct place places[3];
    static char large[30000], huge[50000];
    memset(large, 'l', sizeof large);
    pinyon_request sets[3] = {storing(PINYON_SET, "small", "small value"), about(PINYON_SET, "large"), about(PINYON_SET, "huge")};
    pinyon_request gets[3] = {about(PINYON_GET, "small"), about(PINYON_GET, "large"), about(PINYON_GET, "huge")};
    pinyon_reply replies[3] = {{sizeof reply}, {sizeof reply}, {sizeof reply}};
    sets[1].value = (pinyon_bytes){large, sizeof large};
    sets[2].value = (pinyon_bytes){huge, sizeof huge};
    sets[0].client_flags = 5;
    for (int number = 0; number < 3; number++) {
        CHECK(pinyon_run(client, &sets[number], &reply, &host) == PINYON_DONE);
        gets[number].context = &places[number];
    }
    CHECK(waits >= 3 * 101 && waits % 100 == waits / 100);
    for (int many = 0; many < 2; many++) {
        memset(places, 0, sizeof places);
        if (many) CHECK(pinyon_run_many(client, gets, replies, 3, &host) == PINYON_DONE);
        for (int number = 0; number < 3 && !many; number++) CHECK(pinyon_run(client, &gets[number], &replies[number], &host) == PINYON_DONE);
        CHECK(!replies[0].value.start && places[0].size == 11 && places[0].flags == 5 && !memcmp(places[0].memory, "small value", 11));
        CHECK(!replies[1].value.start && places[1].size == sizeof large && !memcmp(places[1].memory, large, sizeof large));
        CHECK(replies[2].value.size == sizeof huge && !memcmp(replies[2].value.start, huge, sizeof huge));
        for (int number = 0; number < 3; number++) CHECK(replies[number].marks & PINYON_HAS_VALUE && replies[number].context == &places[number]);
    }
    for (int number = 0; number < 3; number++) pinyon_reply_clear(&replies[number]);
    get_many(client, sizeof large);
    pinyon_client_free(client);

    char address[32];
    int listener = silent(address);
    pinyon_option options[] = {{"servers", pinyon_text(address)}, PINYON_OPTION("timeout", "600"), PINYON_OPTION("connect_timeout", "600")};
    client = pinyon_client_new(options, 3, NULL);
    host.interrupted = interrupted;
    CHECK(pinyon_run(client, &gets[0], &reply, &host) == PINYON_INTERRUPTED && asked == 4 && !reply.error);
    CHECK(pinyon_run_many(client, gets, replies, 3, &host) == PINYON_INTERRUPTED && replies[2].status == PINYON_INTERRUPTED);
    static struct found found[2] = {{.found = {sizeof found[0], .key = {"a", 1}}}, {.found = {sizeof found[0], .key = {"b", 1}}}};
    CHECK(pinyon_get_many(client, &found[0].found, 2, 0, &host) == PINYON_INTERRUPTED);
    CHECK(found[1].found.status == PINYON_INTERRUPTED && !found[1].found.error);
    pinyon_terms terms = {sizeof terms};
    terms.key = pinyon_text("made");
    pinyon_making *making = pinyon_making_new(client, &terms, NULL);
    CHECK(pinyon_making_run(making, &reply, &host) == PINYON_INTERRUPTED);
    pinyon_making_free(making);
    pinyon_batch *batch = pinyon_batch_new(client, NULL);
    CHECK(pinyon_batch_add(batch, &sets[0], &host, NULL) == PINYON_INTERRUPTED);
    pinyon_batch_free(batch);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    close(listener);
    return 0;
}
