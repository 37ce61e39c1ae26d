/* pinyon/values.h - kinds of values: a chapter of pinyon.h, which includes it. */
#ifndef PINYON_H
#include "../pinyon.h"
#elif !defined PINYON_VALUES_H
#define PINYON_VALUES_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values: plain data that every language reads, part by part -------------------------------------------------- */

typedef enum pinyon_part_kind {
    PINYON_NULL      = 0,
    PINYON_BOOL      = 1,  /* truth */
    PINYON_INTEGER   = 2,  /* integer */
    PINYON_UNSIGNED  = 3,  /* number: an integer too large for the former */
    PINYON_BIG       = 4,  /* bytes: the absolute value of a larger one, lowest byte first; truth: it is negative */
    PINYON_FLOAT     = 5,  /* real */
    PINYON_BYTES     = 6,  /* bytes */
    PINYON_TEXT      = 7,  /* bytes: in UTF-8, which the reader may not have checked */
    PINYON_ENCODED   = 8,  /* bytes: text in the encoding that `encoding` names. Read only */
    PINYON_DATE_TIME = 9,  /* year to nanosecond: without a time zone */
    PINYON_INSTANT   = 10, /* integer: seconds since 1970; nanosecond */
    PINYON_LIST      = 11, /* number: how many items follow. Some readers say 0; PINYON_CLOSE ends it */
    PINYON_TUPLE     = 12, /* the same, immutable in languages that have it */
    PINYON_MAP       = 13, /* number: how many pairs of a key and a value follow */
    PINYON_CLOSE     = 14, /* the end of the innermost list, tuple or map */
    PINYON_FAULT     = 15  /* bytes: an error inside the answer to a PINYON_COMMAND. Read only */
} pinyon_part_kind;

typedef struct pinyon_part {
    size_t           size; /* sizeof(pinyon_part), set by you */
    pinyon_part_kind kind;
    bool             truth;
    pinyon_bytes     bytes; /* from a reader: valid until its next call */
    pinyon_bytes     encoding;
    int64_t          integer;
    uint64_t         number;
    double           real;
    uint16_t         year;
    uint8_t          month, day, hour, minute, second;
    uint32_t         nanosecond;
} pinyon_part;

/* Writes values in the client's dialect. The first part, if it is no list or map, decides how the value is stored. A
 * writer may be used for many values, one after the other. */
typedef struct pinyon_writer pinyon_writer;

pinyon_writer *pinyon_writer_new(const pinyon_client *client);
/* Fails if the dialect does not take such a value; the writer then begins anew. */
pinyon_status pinyon_write(pinyon_writer *writer, const pinyon_part *part, pinyon_error **error);
/* The value and its flags, for a request. They are the writer's until its next use. */
pinyon_status pinyon_written(pinyon_writer *writer, pinyon_bytes *value, uint32_t *client_flags, pinyon_error **error);
void          pinyon_writer_free(pinyon_writer *writer);

/* Reads values in the client's dialect. A reader may be used for many values, one after the other. */
typedef struct pinyon_reader pinyon_reader;

/* `client` may be NULL for a reader of answers only. */
pinyon_reader *pinyon_reader_new(const pinyon_client *client);
/* Begins to read a value with these flags, as a reply has them. The bytes must stay as they are while it is read. */
pinyon_status pinyon_read_value(pinyon_reader *reader, pinyon_bytes value, uint32_t client_flags, pinyon_error **error);
/* Begins to read the answer to a PINYON_COMMAND of locks. The answers must stay while it is read. */
pinyon_status pinyon_read_answers(pinyon_reader *reader, const pinyon_answers *answers, pinyon_error **error);
/* PINYON_DONE: the next part. PINYON_END: there is none, and nothing follows the value. */
pinyon_status pinyon_read(pinyon_reader *reader, pinyon_part *part, pinyon_error **error);
void          pinyon_reader_free(pinyon_reader *reader);

/* The flags that mark a value of this kind in the client's dialect (PINYON_BYTES, _TEXT, _INTEGER, _FLOAT, _BOOL, or _MAP
 * for all lists and maps). False: the dialect does not take it. */
bool pinyon_flags_of(const pinyon_client *client, pinyon_part_kind kind, uint32_t *client_flags);
/* How a value with these flags is to be read: as one of the kinds above, where PINYON_MAP stands for lists, maps and all
 * else that needs a reader. False: the dialect does not know them. Bytes and text need no reader then. */
bool pinyon_kind_of(const pinyon_client *client, uint32_t client_flags, pinyon_part_kind *kind);

#ifdef __cplusplus
}
#endif
#endif
