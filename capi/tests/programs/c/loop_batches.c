/* Batches in event loops: their commands leave with the turn, and one reply tells the outcome of all. */
#include "polling.h"

static struct polling polling;
static pinyon_reply   reply = {.size = sizeof reply};

static void add(pinyon_batch *batch, const pinyon_request *request)
{
    pinyon_error *error = NULL;
    CHECK(pinyon_batch_begin(polling.loop, batch, request, &error) == PINYON_DONE && !error);
}

static uint64_t finish(pinyon_batch *batch)
{
    uint64_t ticket = 0;
    CHECK(pinyon_batch_begin_finish(polling.loop, batch, batch, &ticket, NULL) == PINYON_DONE && ticket);
    return ticket;
}

static pinyon_status finished(pinyon_batch *batch)
{
    uint64_t      ticket = finish(batch);
    pinyon_status status = next_reply(&polling, &reply);
    CHECK(reply.ticket == ticket && reply.context == batch && !reply.error);
    return status;
}

static void misuse(pinyon_batch *batch, const char *servers)
{
    pinyon_client *other   = client_of(servers, NULL, NULL);
    pinyon_batch  *waiting = pinyon_batch_new(other, NULL);
    pinyon_request get = about(PINYON_GET, "a"), set = storing(PINYON_SET, "a", "1"), bad = storing(PINYON_SET, "a b", "1");
    pinyon_error  *error = NULL;
    CHECK(pinyon_batch_begin(polling.loop, batch, &get, &error) == PINYON_FAILED && strstr(pinyon_error_message(error), "change something"));
    pinyon_error_free(error);
    CHECK(pinyon_batch_begin(polling.loop, batch, &bad, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_INVALID_KEY);
    pinyon_error_free(error);
    CHECK(pinyon_batch_begin(polling.loop, waiting, &set, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "pinyon_batch_of_loop"));
    pinyon_error_free(error);
    CHECK(pinyon_batch_add(batch, &set, NULL, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "pinyon_batch_begin"));
    pinyon_error_free(error);
    CHECK(pinyon_batch_finish(batch, NULL, NULL) == PINYON_FAILED && pinyon_batch_send(batch, NULL) == PINYON_FAILED);
    CHECK(!pinyon_batch_of_loop(polling.loop, other, &error) && strstr(pinyon_error_message(error), "not a view"));
    pinyon_error_free(error);
    pinyon_loop *second = pinyon_loop_of_client(other, NULL, NULL);
    CHECK(pinyon_batch_begin(second, batch, &set, &error) == PINYON_FAILED);
    CHECK(strstr(pinyon_error_message(error), "another event loop"));
    pinyon_error_free(error);
    pinyon_loop_free(second);
    pinyon_batch_free(waiting);
    pinyon_client_free(other);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    pinyon_client *client = client_of(arguments[1], NULL, NULL);
    polling_init(&polling, pinyon_loop_of_client(client, NULL, NULL));
    pinyon_batch  *batch = pinyon_batch_of_loop(polling.loop, NULL, NULL);
    pinyon_request set = storing(PINYON_SET, "a", "1"), add_it = storing(PINYON_ADD, "a", "2"), get = about(PINYON_GET, "a"),
                   missing = about(PINYON_DELETE, "no");

    /* An empty batch has its reply after a turn, as everything. */
    uint64_t ticket = finish(batch);
    carry_out(&polling);
    CHECK(polling.turn_is_due && !pinyon_next_reply(polling.loop, &reply));
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.ticket == ticket);

    /* Outcomes in order, with numbers that go on. */
    add_it.context  = arguments;
    missing.context = client;
    add(batch, &set);
    CHECK(finished(batch) == PINYON_DONE);
    add(batch, &add_it);
    add(batch, &set);
    add(batch, &missing);
    CHECK(finished(batch) == PINYON_FAILED);
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.status == PINYON_NOT_STORED && reply.number == 1);
    CHECK(reply.context == arguments);
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.status == PINYON_MISS && reply.number == 3);
    CHECK(reply.context == client && !pinyon_batch_next_failure(batch, &reply));

    /* Who finishes may leave; the failures are kept. */
    add(batch, &missing);
    pinyon_error *error = NULL;
    ticket              = finish(batch);
    uint64_t second     = finish(batch);
    pinyon_abandon(polling.loop, ticket);
    CHECK(next_reply(&polling, &reply) == PINYON_FAILED && reply.ticket == second && pinyon_loop_is_idle(polling.loop));
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.number == 4 && !pinyon_batch_next_failure(batch, &reply));

    /* More than one run, on two servers; a batch that nobody finishes is carried out, too. */
    char          key[16];
    pinyon_batch *forgotten = pinyon_batch_of_loop(polling.loop, client, NULL);
    for (int number = 0; number < 5000; number++) {
        sprintf(key, "n%d", number);
        pinyon_request one = storing(PINYON_SET, key, key);
        add(number % 2 ? batch : forgotten, &one);
    }
    pinyon_batch_free(forgotten);
    CHECK(pinyon_batch_is_full(batch));
    ticket = finish(batch);
    second = finish(batch);
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.ticket == ticket && !pinyon_batch_is_full(batch));
    CHECK(next_reply(&polling, &reply) == PINYON_DONE && reply.ticket == second);
    CHECK(finished(batch) == PINYON_DONE);
    for (int number = 4998; number < 5000; number++) {
        sprintf(key, "n%d", number);
        get.key = pinyon_text(key);
        CHECK(pinyon_begin(polling.loop, &get, NULL, NULL) == PINYON_DONE);
        CHECK(next_reply(&polling, &reply) == PINYON_DONE && is(reply.value, key));
    }
    misuse(batch, arguments[1]);

    /* The loop ends first: what is under way has failed. */
    add(batch, &set);
    finish(batch);
    pinyon_loop_close(polling.loop);
    carry_out(&polling);
    CHECK(pinyon_next_reply(polling.loop, &reply) && reply.status == PINYON_FAILED && !reply.error);
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.status == PINYON_FAILED && reply.error);
    CHECK(pinyon_batch_begin(polling.loop, batch, &set, &error) == PINYON_FAILED);
    CHECK(pinyon_error_kind(error) == PINYON_E_CLOSED);
    pinyon_error_free(error);
    polling_end(&polling);
    pinyon_batch_free(batch);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return 0;
}
