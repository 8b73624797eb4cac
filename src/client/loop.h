/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of a client: descriptors and timers, one thread, turned by its owner.
 *
 * 1. Nothing happens outside client_loop_turn: all callbacks of all clients run in there.
 * 2. One thread at a time. A callback may start calls, set timers and add watches; it may not turn
 *    the loop and not close it.
 * 3. What was queued during a turn leaves together, before the loop sleeps (client_flush).
 */
#ifndef CLIENT_LOOP_H
#define CLIENT_LOOP_H

#include "base/check.h"

#include <stdbool.h>

struct client_loop;

int client_loop_open(struct client_loop **loop) MUST_USE;

/* Everything that used the loop was closed before. NULL is allowed. */
void client_loop_close(struct client_loop *loop);

/* Sends what is queued, waits at most timeout_ms for something to happen (0: not at all; negative:
 * as long as it takes), and handles it. Returns 0 or -errno. */
int client_loop_turn(struct client_loop *loop, int timeout_ms) MUST_USE;

/* For those who have an event loop of their own: a descriptor that is readable when there is
 * something to do, and how many milliseconds it may be until there is without that (0: at once,
 * negative: as long as it takes). Ask before each wait, and turn with a timeout of 0 behind it. */
int client_loop_fd(const struct client_loop *loop);
int client_loop_wait_ms(const struct client_loop *loop);

/* True while a callback runs; then the loop may not be turned. */
bool client_loop_is_turning(const struct client_loop *loop);

/* CLOCK_MONOTONIC. The time is read once per turn; `fresh` reads it anew. */
int64_t client_loop_now_ns(const struct client_loop *loop);
int64_t client_loop_fresh_ns(struct client_loop *loop);

/* A descriptor. The memory is the owner's. */
struct client_watch {
    int fd;
    void (*ready)(struct client_watch *watch, uint32_t events); /* EPOLLIN, EPOLLOUT, ... */
    uint32_t events;
    bool added;
};
int client_watch_set(struct client_loop *loop, struct client_watch *watch,
                     uint32_t events) MUST_USE;
void client_watch_clear(struct client_loop *loop, struct client_watch *watch);

/* A timer fires once, not before its time. The memory is the owner's. */
struct client_timer {
    void (*expired)(struct client_timer *timer);
    int64_t deadline_ns;
    uint32_t place; /* in the heap, from 1; 0: not set */
    bool open;
};
/* Takes room in the loop, so that setting the timer cannot fail. -ENOMEM. */
int client_timer_open(struct client_loop *loop, struct client_timer *timer,
                      void (*expired)(struct client_timer *timer)) MUST_USE;
void client_timer_close(struct client_loop *loop, struct client_timer *timer);
/* Replaces an earlier deadline. */
void client_timer_set(struct client_loop *loop, struct client_timer *timer, int64_t deadline_ns);
void client_timer_clear(struct client_loop *loop, struct client_timer *timer);

/* Called once, before the loop sleeps; may be asked for again from within. The memory is the
 * owner's. */
struct client_flush {
    void (*run)(struct client_flush *flush);
    struct client_flush *next;
    bool queued;
};
void client_flush_queue(struct client_loop *loop, struct client_flush *flush);
void client_flush_clear(struct client_loop *loop, struct client_flush *flush);

#endif
