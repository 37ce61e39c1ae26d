/* pinyon/loops.h - event loops: a chapter of pinyon.h, which includes it. */
#ifndef PINYON_H
#include "../pinyon.h"
#elif !defined PINYON_LOOPS_H
#define PINYON_LOOPS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Event loops: of a client or of locks, driven alike ---------------------------------------------------------- */

/* Nothing here waits. After every call, take all actions and carry them out, then take all replies. A loop calls nothing
 * of yours but `place`. Names are resolved inside.
 *
 *     pinyon_begin(loop, &request, &ticket, &error);
 *     carry out:  while (pinyon_next_action(loop, &action)) …
 *     hand out:   while (pinyon_next_reply(loop, &reply)) …        replies to what was begun come only after a
 *                                                                  pinyon_turn, _ready or _expire
 * With poll(2): a set of descriptors; before each poll, pinyon_turn if PINYON_END_TURN came; as the timeout,
 * pinyon_due_in. All that was begun in one turn leaves in one system call for each server. */
typedef struct pinyon_loop pinyon_loop;

/* `place`: as in pinyon_host, or NULL. The loop keeps the client alive. */
pinyon_loop *pinyon_loop_of_client(const pinyon_client *client, pinyon_place place, pinyon_error **error);
pinyon_loop *pinyon_loop_of_locks(const pinyon_locks *locks, pinyon_error **error);
/* Fails everything under way (PINYON_E_CONNECTION_LOST), and closes the connections. Then come actions and replies as
 * ever. Nothing more can be begun (PINYON_E_CLOSED). */
void pinyon_loop_close(pinyon_loop *loop);
/* Closes the connections at once. Callers that wait still have no reply. Stop watching its descriptors before. */
void pinyon_loop_free(pinyon_loop *loop);

/* Begins a request. Key and value are copied. `ticket` may be NULL; it comes back with the reply, as does the context. */
pinyon_status pinyon_begin(pinyon_loop *loop, const pinyon_request *request, uint64_t *ticket, pinyon_error **error);
/* The same for a view of the loop's client (pinyon_client_using). */
pinyon_status pinyon_begin_using(pinyon_loop *loop, const pinyon_client *view, const pinyon_request *request,
                                 uint64_t *ticket, pinyon_error **error);
/* Many keys to read at the same time. */
typedef struct pinyon_reading {
    size_t        size; /* sizeof(pinyon_reading) */
    pinyon_found *keys; /* structs that follow each other, all as large as the first says. Their bytes are copied, but they must
                           stay where they are, untouched, until the reply comes or pinyon_abandon was called */
    size_t        count;
    uint32_t      with;  /* for all: PINYON_WITH_CAS, PINYON_NO_FAILOVER, PINYON_RAW */
    pinyon_place  place; /* is told the key's struct, and must not return NULL */
    void         *context;
} pinyon_reading;

/* Begins what pinyon_get_many does. The reply has the context and the ticket, and its status is PINYON_DONE, or PINYON_FAILED
 * without an error if any key failed: the structs say which. `view` may be NULL for the loop's client. A loop of a client
 * that migrates refuses it. */
pinyon_status pinyon_begin_reading(pinyon_loop *loop, const pinyon_client *view, const pinyon_reading *reading,
                                   uint64_t *ticket, pinyon_error **error);
pinyon_status pinyon_lock_begin(pinyon_loop *loop, const pinyon_wish *wish, uint64_t *ticket, pinyon_error **error);
/* Batches in a loop: nothing of them waits, and what was begun in one turn leaves together. `view` may be NULL for the loop's
 * client. The functions that wait refuse such a batch; pinyon_batch_next_failure and pinyon_batch_free are for both kinds. A
 * batch may outlive its loop. */
pinyon_batch *pinyon_batch_of_loop(pinyon_loop *loop, const pinyon_client *view, pinyon_error **error);
/* Begins a command. The library gives no reply to it, and keeps its value until the value is stored. */
pinyon_status pinyon_batch_begin(pinyon_loop *loop, pinyon_batch *batch, const pinyon_request *request,
                                 pinyon_error **error);
/* Whether so many commands are under way that a host which can wait should: finish the batch before it begins more. */
bool pinyon_batch_is_full(const pinyon_batch *batch);
/* Begins to wait for the outcome of every command. It is the status of a reply with this context and ticket: PINYON_DONE,
 * or PINYON_FAILED without an error if some failed, which pinyon_batch_next_failure tells. The batch may be used again. */
pinyon_status pinyon_batch_begin_finish(pinyon_loop *loop, pinyon_batch *batch, void *context, uint64_t *ticket,
                                        pinyon_error **error);
/* Nobody waits any more: no reply comes, and `place` is not called. A lease or a lock that is won all the same is given
 * back. */
void pinyon_abandon(pinyon_loop *loop, uint64_t ticket);

typedef enum pinyon_action_kind {
    PINYON_WATCH    = 0, /* call pinyon_ready when `fd` is readable, and also when it is writable if `write`. This
                            replaces what was asked for this lane before */
    PINYON_FORGET   = 1, /* stop watching `fd`. The next call to the library closes it */
    PINYON_END_TURN = 2, /* call pinyon_turn before the loop waits again */
    PINYON_ALARM    = 3  /* call pinyon_expire after `seconds`. This replaces the alarm before. A host that asks
                            pinyon_due_in before each wait ignores it */
} pinyon_action_kind;

typedef struct pinyon_action {
    size_t             size; /* sizeof(pinyon_action), set by you */
    pinyon_action_kind kind;
    int                fd;
    size_t             lane; /* a number for each descriptor, counted from 0 and used again */
    bool               write;
    double             seconds;
} pinyon_action;

bool pinyon_next_action(pinyon_loop *loop, pinyon_action *action);
bool pinyon_next_reply(pinyon_loop *loop, pinyon_reply *reply);
void pinyon_ready(pinyon_loop *loop, size_t lane);
void pinyon_turn(pinyon_loop *loop);
void pinyon_expire(pinyon_loop *loop);
/* Seconds until pinyon_expire is due; below 0: never. */
double pinyon_due_in(const pinyon_loop *loop);
/* Whether nobody waits for a reply. Held locks may need pinyon_expire all the same. */
bool pinyon_loop_is_idle(const pinyon_loop *loop);

#ifdef __cplusplus
}
#endif
#endif
