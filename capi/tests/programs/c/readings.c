/* Many keys that are read at once in an event loop. */
#include "polling.h"
#include <string.h>

enum { MANY = 300 };

struct wanted {
    pinyon_found found;
    char        *value;
};

static size_t places;

static void *place(void *context, size_t size, uint32_t client_flags)
{
    struct wanted *wanted = context;
    (void)client_flags;
    places++;
    free(wanted->value);
    wanted->value = malloc(size + 1);
    CHECK(wanted->value);
    wanted->value[size] = 0;
    return wanted->value;
}

static struct wanted *wanting(size_t count, char keys[][16])
{
    struct wanted *wanted = calloc(count, sizeof *wanted);
    CHECK(wanted);
    for (size_t number = 0; number < count; number++) {
        wanted[number].found.size = sizeof *wanted;
        wanted[number].found.key  = pinyon_text(keys[number]);
    }
    return wanted;
}

/* Before the structs serve again: what they have is the program's. */
static void free_errors(struct wanted *wanted, size_t count)
{
    for (size_t number = 0; number < count; number++) {
        pinyon_error_free(wanted[number].found.error);
        wanted[number].found.error = NULL;
    }
}

static void free_wanted(struct wanted *wanted, size_t count)
{
    for (size_t number = 0; number < count; number++) {
        free(wanted[number].value);
        pinyon_error_free(wanted[number].found.error);
    }
    free(wanted);
}

static pinyon_reading reading_of(struct wanted *wanted, size_t count)
{
    return (pinyon_reading){
        .size = sizeof(pinyon_reading), .keys = &wanted->found, .count = count, .place = place, .context = wanted};
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    static char    keys[MANY][16];
    pinyon_client *client = client_of(arguments[1], NULL, NULL);
    pinyon_error  *error  = NULL;
    pinyon_reply   reply  = {.size = sizeof reply};
    struct polling polling;
    uint64_t       ticket, other;

    for (int number = 0; number < MANY; number++) {
        sprintf(keys[number], "key%d", number);
        pinyon_request set = storing(PINYON_SET, keys[number], keys[number]);
        set.client_flags   = number;
        if (number % 3) CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_DONE);
    }
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));

    /* Two at once, on two servers: found, missing, refused. */
    strcpy(keys[9], "with a space");
    struct wanted *wanted  = wanting(MANY, keys);
    struct wanted *tokens  = wanting(MANY, keys);
    pinyon_reading reading = reading_of(wanted, MANY);
    pinyon_reading with    = reading_of(tokens, MANY);
    with.with              = PINYON_WITH_CAS;
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, &ticket, &error) == PINYON_DONE && ticket);
    CHECK(pinyon_begin_reading(polling.loop, client, &with, &other, NULL) == PINYON_DONE && other != ticket);
    for (int of = 0; of < 2; of++) {
        CHECK(next_reply(&polling, &reply) == PINYON_FAILED && !reply.error);
        CHECK(reply.context == (reply.ticket == ticket ? wanted : tokens));
    }
    for (int number = 0; number < MANY; number++) {
        const pinyon_found *found = &wanted[number].found;
        if (number == 9) {
            CHECK(found->status == PINYON_FAILED && pinyon_error_kind(found->error) == PINYON_E_INVALID_KEY);
        } else if (number % 3) {
            CHECK(found->status == PINYON_DONE && found->client_flags == (uint32_t)number && !found->cas);
            CHECK(!strcmp(wanted[number].value, keys[number]) && tokens[number].found.cas);
        } else {
            CHECK(found->status == PINYON_MISS && !found->error && !wanted[number].value);
        }
    }
    free_wanted(tokens, MANY);

    /* Whoever leaves has the structs back at once. */
    free_errors(wanted, MANY);
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, &ticket, NULL) == PINYON_DONE);
    free_errors(wanted, MANY);
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, &other, NULL) == PINYON_DONE);
    pinyon_abandon(polling.loop, ticket);
    CHECK(next_reply(&polling, &reply) == PINYON_FAILED && reply.ticket == other);
    free_errors(wanted, MANY);
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, &ticket, NULL) == PINYON_DONE);
    carry_out(&polling);
    pinyon_turn(polling.loop);
    pinyon_abandon(polling.loop, ticket);
    free_wanted(wanted, MANY);
    places         = 0;
    pinyon_request get = about(PINYON_GET, "key1");
    CHECK(pinyon_begin(polling.loop, &get, NULL, NULL) == PINYON_DONE);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && is(reply.value, "key1") && places == 0);

    /* No keys; and what is refused. */
    reading       = reading_of(wanting(1, keys), 1);
    reading.count = 0;
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, NULL, NULL) == PINYON_DONE);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && pinyon_loop_is_idle(polling.loop));
    reading.count = 1;
    reading.place = NULL;
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, NULL, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);

    /* A loop that is closed fails what is under way. */
    reading.place = place;
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, &ticket, NULL) == PINYON_DONE);
    pinyon_loop_close(polling.loop);
    carry_out(&polling);
    CHECK(pinyon_next_reply(polling.loop, &reply) && reply.ticket == ticket && reply.status == PINYON_FAILED);
    CHECK(reading.keys->status == PINYON_FAILED && reading.keys->error);
    CHECK(pinyon_begin_reading(polling.loop, NULL, &reading, NULL, NULL) == PINYON_FAILED);
    free_wanted((struct wanted *)reading.keys, 1);
    polling_end(&polling);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return 0;
}
