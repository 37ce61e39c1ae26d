/* Values part by part, in several dialects. */
#include "check.h"

static pinyon_error *error;

static void write_part(pinyon_writer *writer, pinyon_part_kind kind, const char *text, uint64_t number)
{
    pinyon_part part = {sizeof part, kind};
    part.bytes = pinyon_text(text);
    part.number = number;
    part.integer = (int64_t)number;
    part.real = (double)number / 2;
    part.truth = number != 0;
    CHECK(pinyon_write(writer, &part, &error) == PINYON_DONE);
}

/* {"name": "größer", "list": [true, null, -7, 1.5, bytes, an instant]} */
static void write_map(pinyon_writer *writer)
{
    write_part(writer, PINYON_MAP, NULL, 2);
    write_part(writer, PINYON_TEXT, "name", 0);
    write_part(writer, PINYON_TEXT, "gr\303\266\303\237er", 0);
    write_part(writer, PINYON_TEXT, "list", 0);
    write_part(writer, PINYON_LIST, NULL, 4);
    write_part(writer, PINYON_BOOL, NULL, 1);
    write_part(writer, PINYON_NULL, NULL, 0);
    write_part(writer, PINYON_INTEGER, NULL, (uint64_t)-7);
    write_part(writer, PINYON_FLOAT, NULL, 3);
    write_part(writer, PINYON_CLOSE, NULL, 0);
    write_part(writer, PINYON_CLOSE, NULL, 0);
}

static void read_map(pinyon_reader *reader)
{
    pinyon_part part = {sizeof part};
    pinyon_part_kind kinds[] = {PINYON_MAP, PINYON_TEXT, PINYON_TEXT, PINYON_TEXT, PINYON_LIST, PINYON_BOOL, PINYON_NULL,
                                PINYON_INTEGER, PINYON_FLOAT, PINYON_CLOSE, PINYON_CLOSE};
    for (size_t number = 0; number < sizeof kinds / sizeof *kinds; number++) {
        CHECK(pinyon_read(reader, &part, &error) == PINYON_DONE && part.kind == kinds[number]);
        if (number == 2) CHECK(is(part.bytes, "gr\303\266\303\237er"));
        if (part.kind == PINYON_BOOL) CHECK(part.truth);
        if (part.kind == PINYON_INTEGER) CHECK(part.integer == -7);
        if (part.kind == PINYON_FLOAT) CHECK(part.real == 1.5);
    }
    CHECK(pinyon_read(reader, &part, &error) == PINYON_END && pinyon_read(reader, &part, &error) == PINYON_END);
}

static void through_the_cache(const char *servers, const char *option, const char *value, uint32_t flags)
{
    pinyon_client *client = client_of(servers, option, value);
    pinyon_writer *writer = pinyon_writer_new(client);
    pinyon_reader *reader = pinyon_reader_new(client);
    pinyon_request set = about(PINYON_SET, "map"), get = about(PINYON_GET, "map");
    pinyon_reply reply = {sizeof reply};
    pinyon_part_kind kind;
    uint32_t known;
    for (int again = 0; again < 2; again++) {
        write_map(writer);
        CHECK(pinyon_written(writer, &set.value, &set.client_flags, &error) == PINYON_DONE && set.client_flags == flags);
        CHECK(pinyon_run(client, &set, &reply, NULL) == PINYON_DONE && pinyon_run(client, &get, &reply, NULL) == PINYON_DONE);
        CHECK(pinyon_read_value(reader, reply.value, reply.client_flags, &error) == PINYON_DONE);
        read_map(reader);
    }
    CHECK(pinyon_flags_of(client, PINYON_MAP, &known) && known == flags);
    CHECK(pinyon_kind_of(client, flags, &kind) && kind == PINYON_MAP);
    pinyon_writer_free(writer);
    pinyon_reader_free(reader);
    pinyon_reply_clear(&reply);
    pinyon_client_free(client);
}

static void single_parts(const char *servers)
{
    pinyon_client *client = client_of(servers, NULL, NULL);
    pinyon_writer *writer = pinyon_writer_new(client);
    pinyon_reader *reader = pinyon_reader_new(client);
    pinyon_part part = {sizeof part};
    pinyon_bytes value;
    uint32_t flags;
    write_part(writer, PINYON_TEXT, "text", 0);
    CHECK(pinyon_written(writer, &value, &flags, NULL) == PINYON_DONE && flags == 16 && is(value, "text"));
    write_part(writer, PINYON_INTEGER, NULL, (uint64_t)-42);
    CHECK(pinyon_written(writer, &value, &flags, NULL) == PINYON_DONE && flags == 2 && is(value, "-42"));
    CHECK(pinyon_read_value(reader, value, flags, NULL) == PINYON_DONE && pinyon_read(reader, &part, NULL) == PINYON_DONE);
    CHECK(part.kind == PINYON_INTEGER && part.integer == -42 && pinyon_read(reader, &part, NULL) == PINYON_END);
    part.kind = PINYON_BIG;
    part.bytes = (pinyon_bytes){"\0\0\0\0\0\0\0\0\1", 9};
    part.truth = true;
    CHECK(pinyon_write(writer, &part, NULL) == PINYON_DONE && pinyon_written(writer, &value, &flags, NULL) == PINYON_DONE);
    CHECK(is(value, "-18446744073709551616"));
    CHECK(pinyon_read_value(reader, value, flags, NULL) == PINYON_DONE && pinyon_read(reader, &part, NULL) == PINYON_DONE);
    CHECK(part.kind == PINYON_BIG && part.truth && part.bytes.size == 9);
    part.kind = PINYON_DATE_TIME;
    part.year = 2026;
    part.month = part.day = 3;
    part.hour = part.minute = part.second = 4;
    part.nanosecond = 5;
    CHECK(pinyon_write(writer, &part, NULL) == PINYON_DONE && pinyon_written(writer, &value, &flags, NULL) == PINYON_DONE && flags == 256);
    memset(&part, 0, sizeof part);
    part.size = sizeof part;
    CHECK(pinyon_read_value(reader, value, flags, NULL) == PINYON_DONE && pinyon_read(reader, &part, NULL) == PINYON_DONE);
    CHECK(part.kind == PINYON_DATE_TIME && part.year == 2026 && part.second == 4 && part.nanosecond == 5);
    /* What cannot be written or read says so, and both go on. */
    part.kind = PINYON_TEXT;
    part.bytes = pinyon_text("\377");
    CHECK(pinyon_write(writer, &part, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_USAGE);
    pinyon_error_free(error);
    write_part(writer, PINYON_LIST, NULL, 2);
    CHECK(pinyon_written(writer, &value, &flags, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_UNSUPPORTED_TYPE);
    pinyon_error_free(error);
    CHECK(pinyon_read_value(reader, pinyon_text("\221\315"), 256, NULL) == PINYON_DONE && pinyon_read(reader, &part, NULL) == PINYON_DONE);
    CHECK(pinyon_read(reader, &part, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_UNDECODABLE_VALUE);
    pinyon_error_free(error);
    CHECK(pinyon_read_value(reader, pinyon_text("x"), 1, &error) == PINYON_FAILED && pinyon_error_kind(error) == PINYON_E_UNKNOWN_FLAGS);
    pinyon_error_free(error);
    error = NULL;
    pinyon_writer_free(writer);
    pinyon_reader_free(reader);
    pinyon_client_free(client);
}

/* Large values are compressed and come back as they were, also for other clients that know the dialect. */
static void compressed(const char *servers)
{
    pinyon_option options[] = {{"servers", pinyon_text(servers)}, PINYON_OPTION("timeout", "30"), PINYON_OPTION("connect_timeout", "30"), PINYON_OPTION("compression", "zstd"),
                               PINYON_OPTION("compression.threshold", "100"), PINYON_OPTION("tls", "off"), PINYON_OPTION("tls.ca", "/none")};
    pinyon_client *packing = pinyon_client_new(options, 7, &error), *plain = client_of(servers, NULL, NULL);
    CHECK(packing);
    static char large[50000];
    pinyon_request set = about(PINYON_SET, "large"), get = about(PINYON_GET, "large"), append = storing(PINYON_APPEND, "large", "x");
    pinyon_reply reply = {sizeof reply};
    set.value = (pinyon_bytes){large, sizeof large};
    set.client_flags = 16;
    CHECK(pinyon_run(packing, &set, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(plain, &get, &reply, NULL) == PINYON_DONE && reply.value.size == sizeof large && reply.client_flags == 16);
    get.with = PINYON_RAW;
    CHECK(pinyon_run(plain, &get, &reply, NULL) == PINYON_DONE && reply.value.size < 1000 && reply.client_flags == (16 | 1 << 13));
    CHECK(pinyon_run(packing, &append, &reply, NULL) == PINYON_FAILED && pinyon_error_kind(reply.error) == PINYON_E_USAGE);
    set.with = PINYON_RAW;
    CHECK(pinyon_run(packing, &set, &reply, NULL) == PINYON_DONE && pinyon_run(plain, &get, &reply, NULL) == PINYON_DONE);
    CHECK(reply.value.size == sizeof large);
    pinyon_reply_clear(&reply);
    pinyon_client_free(packing);
    pinyon_client_free(plain);
}

/* A value in memory is returned until this process changes it. A view may ask the server. */
static void in_memory(const char *servers)
{
    pinyon_option options[] = {{"servers", pinyon_text(servers)}, PINYON_OPTION("timeout", "30"), PINYON_OPTION("connect_timeout", "30"),
                               PINYON_OPTION("near.fresh", "10000"), PINYON_OPTION("near.max_bytes", "1000000")};
    pinyon_option asking[] = {PINYON_OPTION("near", "off")};
    pinyon_client *near = pinyon_client_new(options, 5, &error), *other = client_of(servers, NULL, NULL);
    CHECK(near);
    pinyon_client *view = pinyon_client_using(near, asking, 1, &error);
    CHECK(view);
    pinyon_request old = storing(PINYON_SET, "hot", "old"), new = storing(PINYON_SET, "hot", "new"), get = about(PINYON_GET, "hot");
    pinyon_reply reply = {sizeof reply};
    CHECK(pinyon_run(other, &old, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(near, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    CHECK(pinyon_run(other, &new, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(near, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "old"));
    CHECK(pinyon_run(view, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "new"));
    CHECK(pinyon_run(view, &new, &reply, NULL) == PINYON_DONE);
    CHECK(pinyon_run(near, &get, &reply, NULL) == PINYON_DONE && is(reply.value, "new"));
    pinyon_near_figures figures = {sizeof figures};
    CHECK(pinyon_near_metrics(view, &figures) && figures.hits == 1 && figures.fills == 2);
    CHECK(figures.revalidations == 0 && figures.evictions == 0 && figures.bytes > 0);
    CHECK(!pinyon_near_metrics(other, &figures) && figures.hits == 0 && figures.fills == 0 && figures.bytes == 0);
    CHECK(figures.size == sizeof figures && !pinyon_near_metrics(near, NULL) && !pinyon_near_metrics(NULL, &figures));
    pinyon_reply_clear(&reply);
    pinyon_client_free(view);
    pinyon_client_free(near);
    pinyon_client_free(other);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    through_the_cache(arguments[1], NULL, NULL, 256);
    through_the_cache(arguments[1], "serializer", "json", 512);
    through_the_cache(arguments[1], "dialect", "php-memcached", 4);
    through_the_cache(arguments[1], "dialect", "dalli", 1);
    single_parts(arguments[1]);
    compressed(arguments[1]);
    in_memory(arguments[1]);
    return 0;
}
