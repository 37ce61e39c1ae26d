/* What the programs here share: a check that says where it failed, and short ways to make requests. */
#ifndef CHECK_H
#define CHECK_H
#include <pinyon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                           \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

static inline pinyon_request about(pinyon_verb verb, const char *key)
{
    pinyon_request request = {sizeof request, verb};
    request.key = pinyon_text(key);
    return request;
}

static inline pinyon_request storing(pinyon_verb verb, const char *key, const char *value)
{
    pinyon_request request = about(verb, key);
    request.value = pinyon_text(value);
    return request;
}

static inline bool is(pinyon_bytes bytes, const char *text)
{
    return bytes.start && bytes.size == strlen(text) && !memcmp(bytes.start, text, bytes.size);
}

/* A client of these servers, with one further option. */
static inline pinyon_client *client_of(const char *servers, const char *name, const char *value)
{
    pinyon_option options[] = {{"servers", pinyon_text(servers)}, PINYON_OPTION("timeout", "30"),
                               PINYON_OPTION("connect_timeout", "30"), {name, pinyon_text(value)}};
    pinyon_error *error = NULL;
    pinyon_client *client = pinyon_client_new(options, name ? 4 : 3, &error);
    if (error) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(client && !error);
    return client;
}

/* A client of locks that may take so many seconds for whatever it does, with one further option. */
static inline pinyon_locks *locks_within(const char *url, const char *seconds, const char *name, const char *value)
{
    pinyon_option options[] = {
        {"url", pinyon_text(url)},
        {"timeout", pinyon_text(seconds)},
        {"connect_timeout", pinyon_text(seconds)},
        {name ? name : "command_timeout", pinyon_text(name ? value : seconds)},
    };
    pinyon_error *error = NULL;
    pinyon_locks *locks = pinyon_locks_new(options, sizeof options / sizeof *options, &error);
    if (error) fprintf(stderr, "%s\n", pinyon_error_message(error));
    CHECK(locks && !error);
    return locks;
}
#endif
