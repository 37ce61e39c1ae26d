/* Many requests of many kinds at once: each has its own reply. */
#include "check.h"

enum { MANY = 300 };

int main(int count, char **arguments)
{
    CHECK(count == 3);
    static pinyon_request requests[MANY];
    static pinyon_reply replies[MANY];
    static char keys[MANY][16], values[MANY][16];
    for (int namespaced = 0; namespaced < 2; namespaced++) {
        pinyon_client *client = client_of(arguments[1], namespaced ? "namespace" : NULL, "many:");
        for (int number = 0; number < MANY; number++) {
            sprintf(keys[number], "key%d", number);
            sprintf(values[number], "value%d", number);
            requests[number] = storing(PINYON_SET, keys[number], values[number]);
            requests[number].client_flags = number;
            replies[number].size = sizeof replies[number];
        }
        CHECK(pinyon_run_many(client, requests, replies, MANY, NULL) == PINYON_DONE);
        for (int number = 0; number < MANY; number++) {
            CHECK(replies[number].status == PINYON_DONE);
            requests[number] = about(number % 3 ? PINYON_GET : PINYON_DELETE, keys[number]);
            requests[number].with = number % 3 == 2 ? PINYON_WITH_CAS : 0;
            requests[number].context = keys[number];
        }
        requests[1].key = pinyon_text("not stored");
        requests[4].key = pinyon_text("nothing");
        requests[5].key = pinyon_text("with a space");
        CHECK(pinyon_run_many(client, requests, replies, MANY, NULL) == PINYON_FAILED);
        for (int number = 0; number < MANY; number++) {
            CHECK(replies[number].context == keys[number]);
            if (number == 1 || number == 5) {
                CHECK(replies[number].status == PINYON_FAILED);
                CHECK(pinyon_error_kind(replies[number].error) == PINYON_E_INVALID_KEY);
            } else if (number == 4) {
                CHECK(replies[number].status == PINYON_MISS);
            } else {
                CHECK(replies[number].status == PINYON_DONE);
                if (number % 3) CHECK(is(replies[number].value, values[number]) && replies[number].client_flags == (uint32_t)number);
                if (number % 3 == 2) CHECK(replies[number].cas);
            }
        }
        /* Again: the deleted ones are gone. For one key, the order holds. */
        for (int number = 0; number < MANY; number++) requests[number] = about(PINYON_GET, keys[number]);
        requests[0] = storing(PINYON_SET, "same", "1");
        requests[1] = storing(PINYON_APPEND, "same", "2");
        requests[2] = about(PINYON_GET, "same");
        requests[6] = about(PINYON_INCR, "same");
        requests[6].delta = 3;
        requests[7] = about(PINYON_GET, "same");
        CHECK(pinyon_run_many(client, requests, replies, MANY, NULL) == PINYON_DONE);
        CHECK(is(replies[2].value, "12") && replies[6].number == 15 && is(replies[7].value, "15"));
        for (int number = 9; number < MANY; number++) CHECK(replies[number].status == (number % 3 ? PINYON_DONE : PINYON_MISS));
        requests[0].verb = PINYON_STATS;
        CHECK(pinyon_run_many(client, requests, replies, 1, NULL) == PINYON_FAILED);
        for (int number = 0; number < MANY; number++) pinyon_reply_clear(&replies[number]);
        pinyon_client_free(client);
    }
    return 0;
}
