/* An event loop of poll(2), for the programs here. */
#ifndef POLLING_H
#define POLLING_H
#include "check.h"
#include <poll.h>
#include <time.h>

#define MOST_LANES 128

struct polling {
    pinyon_loop  *loop;
    struct pollfd watched[MOST_LANES];
    bool          turn_is_due;
};

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static inline void polling_init(struct polling *polling, pinyon_loop *loop)
{
    CHECK(loop);
    polling->loop        = loop;
    polling->turn_is_due = false;
    for (size_t lane = 0; lane < MOST_LANES; lane++) polling->watched[lane] = (struct pollfd){.fd = -1};
}

static inline void carry_out(struct polling *polling)
{
    pinyon_action action = {.size = sizeof action};
    while (pinyon_next_action(polling->loop, &action)) {
        struct pollfd *watched = &polling->watched[action.lane];
        switch (action.kind) {
        case PINYON_WATCH:
            CHECK(action.lane < MOST_LANES && action.fd >= 0 && (watched->fd < 0 || watched->fd == action.fd));
            *watched = (struct pollfd){.fd = action.fd, .events = action.write ? POLLIN | POLLOUT : POLLIN};
            break;
        case PINYON_FORGET:
            CHECK(action.lane < MOST_LANES && watched->fd == action.fd);
            watched->fd = -1;
            break;
        case PINYON_END_TURN: polling->turn_is_due = true; break;
        case PINYON_ALARM: CHECK(action.seconds >= 0); break;
        }
    }
}

static inline size_t watched_lanes(const struct polling *polling)
{
    size_t count = 0;
    for (size_t lane = 0; lane < MOST_LANES; lane++) count += polling->watched[lane].fd >= 0;
    return count;
}

/* One turn, in which it waits for so many milliseconds at most. Replies are left for the caller to take. */
static inline void go_on(struct polling *polling, int most)
{
    carry_out(polling);
    if (polling->turn_is_due) {
        polling->turn_is_due = false;
        pinyon_turn(polling->loop);
        carry_out(polling);
        return;
    }
    double due  = pinyon_due_in(polling->loop);
    int    wait = due < 0 || due * 1000 > most ? most : (int)(due * 1000) + 1;
    if (poll(polling->watched, MOST_LANES, wait) > 0)
        for (size_t lane = 0; lane < MOST_LANES; lane++)
            if (polling->watched[lane].fd >= 0 && polling->watched[lane].revents) {
                pinyon_ready(polling->loop, lane);
                carry_out(polling);
            }
    if (pinyon_due_in(polling->loop) == 0) {
        pinyon_expire(polling->loop);
        carry_out(polling);
    }
}

/* Waits for the next reply, for a minute at most. Returns its status. */
static inline pinyon_status next_reply(struct polling *polling, pinyon_reply *reply)
{
    double late = now() + 60;
    while (!pinyon_next_reply(polling->loop, reply)) {
        CHECK(now() < late);
        go_on(polling, 100);
    }
    return reply->status;
}

/* Ends a loop as a tidy host does: everything is closed, and nothing is watched any more. */
static inline void polling_end(struct polling *polling)
{
    pinyon_reply reply = {.size = sizeof reply};
    pinyon_loop_close(polling->loop);
    carry_out(polling);
    while (pinyon_next_reply(polling->loop, &reply)) CHECK(reply.status == PINYON_FAILED);
    CHECK(watched_lanes(polling) == 0 && pinyon_loop_is_idle(polling->loop));
    pinyon_reply_clear(&reply);
    pinyon_loop_free(polling->loop);
}
#endif
