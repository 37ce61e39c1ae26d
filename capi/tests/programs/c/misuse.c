/* Wrong options, wrong arguments and wrong handles: each has an error that says what was wrong. */
#include "check.h"

static void refused(pinyon_option option, pinyon_kind kind, const char *message)
{
    pinyon_error *error = NULL;
    pinyon_client *client = pinyon_client_new(&option, 1, &error);
    CHECK(!client && error);
    if (!strstr(pinyon_error_message(error), message)) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(strstr(pinyon_error_message(error), message) && pinyon_error_kind(error) == kind);
    CHECK(pinyon_error_sent(error) == PINYON_SENT_NO && !*pinyon_error_server(error));
    pinyon_error *copy = pinyon_error_clone(error);
    pinyon_error_free(error);
    CHECK(pinyon_error_kind(copy) == kind && !pinyon_error_holder(copy, 0));
    pinyon_error_free(copy);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    refused((pinyon_option)PINYON_OPTION("time_out", "1"), PINYON_E_USAGE, "did you mean \"timeout\"?");
    refused((pinyon_option)PINYON_OPTION("timeout", "soon"), PINYON_E_UNSUPPORTED_TYPE, "timeout must be a number, not a string");
    refused((pinyon_option)PINYON_OPTION("timeout", "-1"), PINYON_E_USAGE, "timeout");
    refused((pinyon_option)PINYON_OPTION("servers", "a:b:c:d"), PINYON_E_INVALID_SERVERS, "a:b:c:d");
    refused((pinyon_option)PINYON_OPTION("events", "perhaps"), PINYON_E_USAGE, "events must be true or false");
    refused((pinyon_option)PINYON_OPTION("serializer", "pickle"), PINYON_E_USAGE, "\"portable\" or \"json\"");
    refused((pinyon_option)PINYON_OPTION("tls.ca", "/no/such/file"), PINYON_E_USAGE, "/no/such/file");
    refused((pinyon_option)PINYON_OPTION("tls.cb", "x"), PINYON_E_USAGE, "no setting \"cb\"");
    refused((pinyon_option)PINYON_OPTION("compression.threshold", "-5"), PINYON_E_USAGE, "threshold is 0 or more");
    refused((pinyon_option)PINYON_OPTION("near.fresh", "0"), PINYON_E_USAGE, "fresh must be a positive number");
    refused((pinyon_option)PINYON_OPTION("near", "hot"), PINYON_E_UNSUPPORTED_TYPE, "near must be true or false");
    CHECK(strstr(pinyon_settings(), "\"timeout\": 1") && strstr(pinyon_settings(), "\"choices\""));

    CHECK(!strcmp(pinyon_kind_name(PINYON_E_LOCK_TIMEOUT), "LockTimeout") && !pinyon_kind_name((pinyon_kind)99));
    CHECK(pinyon_kind_is_a(PINYON_E_LOCK_TIMEOUT, PINYON_E_TIMEOUT) && pinyon_kind_is_a(PINYON_E_LOCK_TIMEOUT, PINYON_E_LOCK));
    CHECK(pinyon_kind_is_a(PINYON_E_INTERNAL, PINYON_E_ERROR) && !pinyon_kind_is_a(PINYON_E_LOCK, PINYON_E_TIMEOUT));
    CHECK(pinyon_kind_parent(PINYON_E_LOCK_TIMEOUT, 1) == PINYON_E_TIMEOUT && !pinyon_kind_parent(PINYON_E_ERROR, 0));

    pinyon_client *client = client_of(arguments[1], "max_value_size", "1000"), *other = pinyon_client_clone(client);
    pinyon_reply reply = {sizeof reply};
    pinyon_request get = about(PINYON_GET, "x"), wrong = {0}, many = about((pinyon_verb)99, "x");
    CHECK(pinyon_run(NULL, &get, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "pinyon_client is missing"));
    CHECK(pinyon_run(client, NULL, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "pinyon_request is missing"));
    CHECK(pinyon_run(client, &wrong, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "set the field size"));
    CHECK(pinyon_run(client, &many, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "no verb 99"));
    CHECK(pinyon_run(client, &get, NULL, NULL) == PINYON_FAILED);
    get.with = 0x80000001u;
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "does not know: 0x80000000"));
    get.with = 0;
    struct { pinyon_request known; uint64_t newer; } longer = {get, 0};
    longer.known.size = sizeof longer;
    CHECK(pinyon_run(client, &longer.known, &reply, NULL) == PINYON_MISS);
    longer.newer = 1;
    CHECK(pinyon_run(client, &longer.known, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "fields that this library does not know"));
    longer.known.size = SIZE_MAX - 7;
    CHECK(pinyon_run(client, &longer.known, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "set the field size"));
    pinyon_request lost = about(PINYON_SET, "x");
    lost.value = (pinyon_bytes){NULL, 5};
    CHECK(pinyon_run(client, &lost, &reply, NULL) == PINYON_FAILED && strstr(pinyon_error_message(reply.error), "value has a size of 5"));
    get.key = pinyon_text("with a space");
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_KEY);
    CHECK(strstr(pinyon_error_message(reply.error), "with a space"));
    get.key = pinyon_text("");
    CHECK(pinyon_run(client, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_INVALID_KEY);
    static char large[1001];
    pinyon_request set = about(PINYON_SET, "large");
    set.value = (pinyon_bytes){large, sizeof large};
    CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_VALUE_TOO_LARGE);
    set.value.size = 1000;
    set.ttl = INT64_MAX - 1;
    CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_DONE); /* until 2038, for as long as the server can keep it */

    /* Other views: what fails is a miss there. */
    pinyon_option nowhere[] = {PINYON_OPTION("servers", "127.0.0.1:1"), PINYON_OPTION("events", "yes")};
    pinyon_option forgiving[] = {PINYON_OPTION("on_failure", "miss"), PINYON_OPTION("namespace", "view:")};
    pinyon_client *down = pinyon_client_new(nowhere, 2, NULL);
    pinyon_client *view = pinyon_client_using(down, forgiving, 2, NULL);
    get.key = pinyon_text("x");
    CHECK(pinyon_run(down, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_is_outage(reply.error));
    CHECK(!strcmp(pinyon_error_server(reply.error), "127.0.0.1:1") && pinyon_run(view, &get, &reply, NULL) == PINYON_MISS);
    CHECK(is(pinyon_namespace(view), "view:") && is(pinyon_namespace(down), ""));
    CHECK(!pinyon_client_using(down, nowhere, 1, NULL));
    pinyon_event *event = pinyon_next_event(down);
    CHECK(event && event->size >= sizeof *event && !strcmp(event->server, "127.0.0.1:1") && *event->message && event->error);
    while (event) {
        pinyon_event_free(event);
        event = pinyon_next_event(view);
    }
    pinyon_client_free(view);
    pinyon_client_free(down);

    pinyon_client_close(client);
    CHECK(pinyon_run(other, &get, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_CLOSED);
    pinyon_client_free(client);
    pinyon_client_free(other);
    pinyon_client_free(NULL);
    pinyon_error_free(NULL);
    pinyon_reply_clear(&reply);
    return 0;
}
