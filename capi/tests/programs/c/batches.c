/* Batches: outcomes are known at the end, and commands may leave before. */
#include "check.h"

int main(int count, char **arguments)
{
    CHECK(count == 3);
    pinyon_client *client = client_of(arguments[1], NULL, NULL), *other = client_of(arguments[1], NULL, NULL);
    pinyon_batch *batch = pinyon_batch_new(client, NULL);
    pinyon_reply reply = {sizeof reply};
    pinyon_error *error = NULL;
    pinyon_request add = storing(PINYON_ADD, "b", "x"), get = about(PINYON_GET, "b"), missing = about(PINYON_DELETE, "no");
    CHECK(batch && pinyon_batch_add(batch, &add, NULL, &error) == PINYON_DONE && !error);
    CHECK(pinyon_batch_send(batch, &error) == PINYON_DONE);
    while (pinyon_run(other, &get, &reply, NULL) == PINYON_MISS) {} /* it has left, although nobody waits for it */
    CHECK(reply.status == PINYON_DONE && is(reply.value, "x"));
    add.context = arguments;
    missing.context = client;
    CHECK(pinyon_batch_add(batch, &add, NULL, NULL) == PINYON_DONE && pinyon_batch_add(batch, &missing, NULL, NULL) == PINYON_DONE);
    CHECK(pinyon_batch_finish(batch, NULL, &error) == PINYON_FAILED && !error);
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.status == PINYON_NOT_STORED && reply.number == 1 && reply.context == arguments);
    CHECK(pinyon_batch_next_failure(batch, &reply) && reply.status == PINYON_MISS && reply.number == 2 && reply.context == client);
    CHECK(!pinyon_batch_next_failure(batch, &reply));
    CHECK(pinyon_batch_add(batch, &get, NULL, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    char key[16];
    for (int number = 0; number < 20000; number++) {
        sprintf(key, "n%d", number);
        pinyon_request set = storing(PINYON_SET, key, key);
        CHECK(pinyon_batch_add(batch, &set, NULL, NULL) == PINYON_DONE);
    }
    CHECK(pinyon_batch_finish(batch, NULL, NULL) == PINYON_DONE);
    get.key = pinyon_text("n19999");
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "n19999"));
    pinyon_batch_free(batch);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    pinyon_client_free(other);
    return 0;
}
