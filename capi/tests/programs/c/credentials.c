/* Credentials that a function of the host's answers with: in a thread of the library, and by the host itself. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static int        calls;
static atomic_int released;
static pinyon_credentials_question *left;

static void in_thread(void *context, pinyon_credentials_question *question)
{
    pinyon_credentials credentials = {sizeof credentials, pinyon_text((const char *)context)};
    calls++;
    if (calls == 2)
        pinyon_credentials_fail(question, pinyon_text("the vault is sealed"));
    else
        pinyon_credentials_answer(question, &credentials);
}

static void release(void *context)
{
    CHECK(context);
    released++;
}

/* It must not wait, so it leaves the question to the thread that asks whether to go on. */
static void leave(void *context, pinyon_credentials_question *question)
{
    CHECK(!context && !left);
    left = question;
}

static int interrupted(void *host)
{
    if (left) {
        pinyon_credentials both = {sizeof both};
        both.username = pinyon_text((const char *)host);
        both.password = pinyon_text("secret");
        both.lifetime = 900;
        pinyon_credentials_answer(left, &both);
        left = NULL;
    }
    return 0;
}

static pinyon_client *client_with(const char *server, const pinyon_option *more, size_t count)
{
    pinyon_option options[5] = {{"servers", pinyon_text(server)}, PINYON_OPTION("timeout", "30"),
                                PINYON_OPTION("connect_timeout", "30")};
    pinyon_error  *error = NULL;
    memcpy(options + 3, more, count * sizeof *more);
    pinyon_client *client = pinyon_client_new(options, 3 + count, &error);
    if (error) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(client && !error);
    return client;
}

static void stores(pinyon_client *client, const pinyon_host *host)
{
    pinyon_request set = storing(PINYON_SET, "key", "value");
    pinyon_reply   reply = {sizeof reply};
    if (pinyon_run(client, &set, &reply, host) != PINYON_DONE) {
        fprintf(stderr, "%s\n", pinyon_error_message(reply.error));
        exit(1);
    }
    pinyon_reply_clear(&reply);
}

int main(int count, char **servers)
{
    CHECK(count == 3);
    char secret[] = "secret", app[] = "app";
    pinyon_credentials_source source = {sizeof source, in_thread, release, secret, 1};
    pinyon_option password[] = {PINYON_OPTION("username", "app"), PINYON_CREDENTIALS("password.function", &source)};
    pinyon_client *client = client_with(servers[2], password, 2);
    CHECK(calls == 0);
    stores(client, NULL);
    CHECK(calls == 1);
    pinyon_client *other = client_with(servers[2], password, 2);
    pinyon_request set = storing(PINYON_SET, "key", "value");
    pinyon_reply   reply = {sizeof reply};
    CHECK(pinyon_run(other, &set, &reply, NULL) == PINYON_FAILED && calls == 2);
    CHECK(pinyon_error_kind(reply.error) == PINYON_E_CONNECT);
    CHECK(strstr(pinyon_error_message(reply.error), "the function for password failed: the vault is sealed"));
    pinyon_reply_clear(&reply);
    stores(other, NULL);
    pinyon_client_free(client);
    pinyon_client_free(other);
    /* A thread of the library may still hold what it called. */
    for (int looks = 0; released < 2 && looks < 60000; looks++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK(released == 2);

    pinyon_credentials_source leaves = {sizeof leaves, leave, NULL, NULL, 0};
    pinyon_option both[] = {PINYON_CREDENTIALS("username.function", &leaves)};
    pinyon_host host = {sizeof host, NULL, interrupted, NULL, NULL, app};
    client = client_with(servers[2], both, 1);
    stores(client, &host);
    pinyon_client_free(client);

    pinyon_option wrong[] = {PINYON_OPTION("password.function", "secret")};
    pinyon_error *error = NULL;
    CHECK(!pinyon_client_new(wrong, 1, &error) && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    return 0;
}
