/* What a user does first, with the library that is installed: ./smoke MEMCACHED [REDIS] */

#include <pinyon.h>
#include <stdio.h>
#include <string.h>

static int cache(const char *server)
{
    pinyon_option options[] = {{"servers", pinyon_text(server)}, PINYON_OPTION("timeout", "30"),
                               PINYON_OPTION("connect_timeout", "30")};
    pinyon_error *error = NULL;
    pinyon_client *client = pinyon_client_new(options, 3, &error);
    if (!client) {
        fprintf(stderr, "smoke: %s\n", pinyon_error_message(error));
        return 1;
    }
    pinyon_request set = {.size = sizeof set, .verb = PINYON_SET}, get = {.size = sizeof get, .verb = PINYON_GET};
    pinyon_reply reply = {.size = sizeof reply};
    set.key = get.key = pinyon_text("user:1");
    set.value = pinyon_text("Ada");
    set.ttl = 60;
    int failed = pinyon_run(client, &set, &reply, NULL) != PINYON_DONE;
    failed = failed || pinyon_run(client, &get, &reply, NULL) != PINYON_DONE;
    if (failed && reply.error)
        fprintf(stderr, "smoke: %s\n", pinyon_error_message(reply.error));
    failed = failed || reply.value.size != 3 || memcmp(reply.value.start, "Ada", 3) != 0;
    /* A refusal of the core is an error here, and no crash. */
    get.key = pinyon_text("a key");
    failed = failed || pinyon_run(client, &get, &reply, NULL) == PINYON_DONE;
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
    return failed;
}

static int locks(const char *url)
{
    pinyon_option options[] = {{"url", pinyon_text(url)}, PINYON_OPTION("command_timeout", "30")};
    pinyon_error *error = NULL;
    pinyon_locks *client = pinyon_locks_new(options, 2, &error);
    if (!client) {
        fprintf(stderr, "smoke: %s\n", pinyon_error_message(error));
        return 1;
    }
    pinyon_bytes names[] = {pinyon_text("account:1"), pinyon_text("account:2")};
    pinyon_wish ask = {.size = sizeof ask, .kind = PINYON_LOCK, .names = names, .count = 2, .wait = 30};
    pinyon_wish release = {.size = sizeof release, .kind = PINYON_RELEASE};
    pinyon_reply reply = {.size = sizeof reply};
    int failed = pinyon_lock_run(client, &ask, &reply, NULL) != PINYON_DONE;
    if (failed) {
        if (reply.error)
            fprintf(stderr, "smoke: %s\n", pinyon_error_message(reply.error));
    } else {
        release.lock = reply.lock;
        reply.lock = NULL;
        failed = pinyon_lock_token(release.lock) == 0;
        failed = pinyon_lock_run(client, &release, &reply, NULL) != PINYON_DONE || failed;
        pinyon_lock_free(release.lock);
    }
    pinyon_reply_clear(&reply);
    pinyon_locks_free(client);
    return failed;
}

int main(int count, char **words)
{
    if (count != 2 && count != 3)
        return 2;
    if (cache(words[1])) {
        fputs("smoke: the cache does not work\n", stderr);
        return 1;
    }
    if (count == 3 && locks(words[2])) {
        fputs("smoke: the locks do not work\n", stderr);
        return 1;
    }
    puts("smoke: the C library works");
    return 0;
}
