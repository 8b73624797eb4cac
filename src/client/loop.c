/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll, a binary heap of timers, and a list of those who have something to send.
 *
 * A watch that is cleared while its turn's events are being handled must not be called any more:
 * its place in the events still to come is emptied.
 */
#include "client/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENT_COUNT 64
#define NS_PER_SECOND 1000000000LL
#define NS_PER_MS 1000000LL

struct client_loop {
    int epoll_fd;
    int64_t now_ns;
    bool turning;
    struct client_timer **timers; /* a heap, from index 1 */
    uint32_t timer_count;         /* set */
    uint32_t timer_open_count;    /* may be set: there is room for all */
    uint32_t timer_capacity;
    struct client_flush *flush_first;
    struct client_flush **flush_end;
    struct epoll_event events[EVENT_COUNT];
    int event_index;
    int event_count;
};

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

int client_loop_open(struct client_loop **loop)
{
    struct client_loop *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return -ENOMEM;
    }
    made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (made->epoll_fd < 0) {
        int error = -errno;
        free(made);
        return error;
    }
    made->flush_end = &made->flush_first;
    made->now_ns = clock_ns();
    *loop = made;
    return 0;
}

void client_loop_close(struct client_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    CHECK(!loop->turning);
    close(loop->epoll_fd);
    free(loop->timers);
    free(loop);
}

bool client_loop_is_turning(const struct client_loop *loop)
{
    return loop->turning;
}

int64_t client_loop_now_ns(const struct client_loop *loop)
{
    return loop->now_ns;
}

int64_t client_loop_fresh_ns(struct client_loop *loop)
{
    loop->now_ns = clock_ns();
    return loop->now_ns;
}

/* ---- watches ---- */

int client_watch_set(struct client_loop *loop, struct client_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (watch->added && watch->events == events) {
        return 0;
    }
    int op = watch->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(loop->epoll_fd, op, watch->fd, &event) != 0) {
        return -errno;
    }
    watch->added = true;
    watch->events = events;
    return 0;
}

void client_watch_clear(struct client_loop *loop, struct client_watch *watch)
{
    if (!watch->added) {
        return;
    }
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->added = false;
    watch->events = 0;
    for (int i = loop->event_index; i < loop->event_count; i++) {
        if (loop->events[i].data.ptr == watch) {
            loop->events[i].data.ptr = NULL;
        }
    }
}

/* ---- timers ---- */

static void timer_place(struct client_loop *loop, uint32_t place, struct client_timer *timer)
{
    loop->timers[place] = timer;
    timer->place = place;
}

static void timer_up(struct client_loop *loop, struct client_timer *timer)
{
    uint32_t place = timer->place;
    while (place > 1 && loop->timers[place / 2]->deadline_ns > timer->deadline_ns) {
        timer_place(loop, place, loop->timers[place / 2]);
        place /= 2;
    }
    timer_place(loop, place, timer);
}

static void timer_down(struct client_loop *loop, struct client_timer *timer)
{
    uint32_t place = timer->place;
    for (;;) {
        uint32_t child = place * 2;
        if (child > loop->timer_count) {
            break;
        }
        if (child < loop->timer_count &&
            loop->timers[child + 1]->deadline_ns < loop->timers[child]->deadline_ns) {
            child++;
        }
        if (loop->timers[child]->deadline_ns >= timer->deadline_ns) {
            break;
        }
        timer_place(loop, place, loop->timers[child]);
        place = child;
    }
    timer_place(loop, place, timer);
}

int client_timer_open(struct client_loop *loop, struct client_timer *timer,
                      void (*expired)(struct client_timer *timer))
{
    if (loop->timer_open_count + 1 >= loop->timer_capacity) {
        uint32_t capacity = loop->timer_capacity == 0 ? 16 : loop->timer_capacity * 2;
        struct client_timer **timers =
            reallocarray(loop->timers, capacity, sizeof(struct client_timer *));
        if (timers == NULL) {
            return -ENOMEM;
        }
        loop->timers = timers;
        loop->timer_capacity = capacity;
    }
    loop->timer_open_count++;
    *timer = (struct client_timer){.expired = expired, .open = true};
    return 0;
}

void client_timer_close(struct client_loop *loop, struct client_timer *timer)
{
    if (timer->open) {
        client_timer_clear(loop, timer);
        loop->timer_open_count--;
        timer->open = false;
    }
}

void client_timer_set(struct client_loop *loop, struct client_timer *timer, int64_t deadline_ns)
{
    CHECK(timer->open);
    bool later = timer->place != 0 && deadline_ns > timer->deadline_ns;
    timer->deadline_ns = deadline_ns;
    if (timer->place == 0) {
        timer_place(loop, ++loop->timer_count, timer);
    }
    if (later) {
        timer_down(loop, timer);
    } else {
        timer_up(loop, timer);
    }
}

void client_timer_clear(struct client_loop *loop, struct client_timer *timer)
{
    uint32_t place = timer->place;
    if (place == 0) {
        return;
    }
    struct client_timer *last = loop->timers[loop->timer_count--];
    timer->place = 0;
    if (last != timer) {
        timer_place(loop, place, last);
        timer_up(loop, last);
        timer_down(loop, last);
    }
}

/* Those that are set meanwhile wait for the next turn. */
static void run_timers(struct client_loop *loop)
{
    for (uint32_t left = loop->timer_count;
         left > 0 && loop->timer_count > 0 && loop->timers[1]->deadline_ns <= loop->now_ns;
         left--) {
        struct client_timer *timer = loop->timers[1];
        client_timer_clear(loop, timer);
        timer->expired(timer);
    }
}

/* ---- sending ---- */

void client_flush_queue(struct client_loop *loop, struct client_flush *flush)
{
    if (flush->queued) {
        return;
    }
    flush->queued = true;
    flush->next = NULL;
    *loop->flush_end = flush;
    loop->flush_end = &flush->next;
}

void client_flush_clear(struct client_loop *loop, struct client_flush *flush)
{
    if (!flush->queued) {
        return;
    }
    struct client_flush **at = &loop->flush_first;
    while (*at != flush) {
        at = &(*at)->next;
    }
    *at = flush->next;
    if (loop->flush_end == &flush->next) {
        loop->flush_end = at;
    }
    flush->queued = false;
}

/* Once for each that is queued now; what is queued meanwhile waits for the next turn. */
static void run_flushes(struct client_loop *loop)
{
    uint32_t count = 0;
    for (struct client_flush *flush = loop->flush_first; flush != NULL; flush = flush->next) {
        count++;
    }
    for (; count > 0 && loop->flush_first != NULL; count--) {
        struct client_flush *flush = loop->flush_first;
        client_flush_clear(loop, flush);
        flush->run(flush);
    }
}

/* ---- the turn ---- */

/* Until a timer is due or something is to be sent; negative: neither. */
static int64_t idle_ns(const struct client_loop *loop)
{
    if (loop->flush_first != NULL) {
        return 0;
    }
    if (loop->timer_count == 0) {
        return -1;
    }
    int64_t due_ns = loop->timers[1]->deadline_ns - clock_ns();
    return due_ns < 0 ? 0 : due_ns;
}

static int ms_of_ns(int64_t wait_ns)
{
    int64_t wait_ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS; /* so that no timer is early */
    return wait_ns < 0 ? -1 : wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

int client_loop_fd(const struct client_loop *loop)
{
    return loop->epoll_fd;
}

int client_loop_wait_ms(const struct client_loop *loop)
{
    return ms_of_ns(idle_ns(loop));
}

static int wait_events(struct client_loop *loop, int timeout_ms)
{
    int64_t wait_ns = timeout_ms < 0 ? -1 : timeout_ms * NS_PER_MS;
    if (wait_ns != 0) {
        int64_t due_ns = idle_ns(loop);
        wait_ns = wait_ns < 0 || (due_ns >= 0 && due_ns < wait_ns) ? due_ns : wait_ns;
    }
    struct timespec wait = {wait_ns / NS_PER_SECOND, wait_ns % NS_PER_SECOND};
    int count =
        epoll_pwait2(loop->epoll_fd, loop->events, EVENT_COUNT, wait_ns < 0 ? NULL : &wait, NULL);
    if (count < 0 && errno == ENOSYS) {
        /* Linux before 5.11: whole milliseconds. */
        count = epoll_wait(loop->epoll_fd, loop->events, EVENT_COUNT, ms_of_ns(wait_ns));
    }
    return count < 0 ? -errno : count;
}

int client_loop_turn(struct client_loop *loop, int timeout_ms)
{
    CHECK(!loop->turning);
    loop->turning = true;
    run_flushes(loop);
    int count = wait_events(loop, timeout_ms);
    loop->now_ns = clock_ns();
    loop->event_count = count < 0 ? 0 : count;
    for (loop->event_index = 0; loop->event_index < loop->event_count;) {
        struct epoll_event *event = &loop->events[loop->event_index++];
        struct client_watch *watch = event->data.ptr;
        if (watch != NULL) {
            watch->ready(watch, event->events);
        }
    }
    loop->event_count = 0;
    run_timers(loop);
    run_flushes(loop);
    loop->turning = false;
    return count == -EINTR || count >= 0 ? 0 : count;
}
