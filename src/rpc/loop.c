/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: polls its sources and gives each its turn.
 *
 * Built on epoll, not io_uring, because a loop must be able to change hands: a receive armed in a
 * ring completes on the thread that armed it, and a thread that is blocked in a procedure completes
 * nothing. ARCHITECTURE.md has the whole argument.
 *
 * A worker that takes a loop from a blocked one begins with loop_resume: the turn that was going on
 * is cut short, the rest is as if nothing had happened.
 */
#include "rpc/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STOP_MS_MAX 5000
#define SPIN_NS 40000
#define CLOCK_AGE_NS_MAX 10000000
#define PROMISED_CALL_COUNT_MAX 64U /* of one client, before what they changed is made durable */

int64_t loop_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t loop_stamp(struct loop *loop)
{
    return loop->stamp = ticks_now();
}

int loop_poll(struct loop *loop, struct source *source, uint32_t events, bool add)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    int op = add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(loop->epoll_fd, op, source->fd, &event) == 0 ? 0 : -errno;
}

int loop_open(struct rpc_server *server, uint32_t index, struct loop *loop)
{
    loop->server = server;
    loop->index = index;
    loop->now_ms = loop_clock_ms();
    loop->timed = ticks_now();
    tally_open(&loop->tally, &server->tally_room);
    pthread_mutex_init(&loop->inbox_lock, NULL);
    pthread_mutex_init(&loop->park_lock, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = (struct source){.kind = SOURCE_WAKE, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    loop->tx = malloc(TX_BYTES);
    loop->out_room = malloc(OUT_ROOM_BYTES);
    if (loop->epoll_fd < 0 || loop->wake.fd < 0 || loop->tx == NULL || loop->out_room == NULL) {
        return errno != 0 ? -errno : -ENOMEM;
    }
    return loop_poll(loop, &loop->wake, EPOLLIN, true);
}

static void free_pendings(struct rpc_server *server, struct pending *pending)
{
    while (pending != NULL) {
        struct pending *next = pending->next;
        out_free(pending->out);
        drc_forget(server->drc, pending->entry);
        free(pending);
        pending = next;
    }
}

void loop_close(struct loop *loop)
{
    while (loop->oldest != NULL) {
        conn_close(loop, loop->oldest);
    }
    while (loop->accepted != NULL) {
        struct conn *next = loop->accepted->newer;
        close(loop->accepted->source.fd);
        free(loop->accepted);
        loop->accepted = next;
    }
    free_pendings(loop->server, loop->done_head);
    for (uint32_t lane = 0; lane < RPC_LANE_COUNT; lane++) {
        free_pendings(loop->server, loop->parked[lane].head);
    }
    while (loop->dead != NULL) {
        struct conn *next = loop->dead->newer;
        conn_free(loop, loop->dead);
        loop->dead = next;
    }
    if (loop->wake.fd >= 0) {
        close(loop->wake.fd);
    }
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    free(loop->tx);
    free(loop->out_room);
    tally_close(&loop->tally);
    pthread_mutex_destroy(&loop->inbox_lock);
    pthread_mutex_destroy(&loop->park_lock);
}

void loop_ready(struct loop *loop, struct source *source)
{
    if (source->queued) {
        return;
    }
    source->queued = true;
    source->ready_next = NULL;
    *(loop->ready_tail != NULL ? &loop->ready_tail->ready_next : &loop->ready_head) = source;
    loop->ready_tail = source;
}

static struct source *take_ready(struct loop *loop)
{
    struct source *source = loop->ready_head;
    if (source != NULL) {
        loop->ready_head = source->ready_next;
        if (loop->ready_head == NULL) {
            loop->ready_tail = NULL;
        }
        source->queued = false;
    }
    return source;
}

/* The inbox lock is held. */
static void wake_locked(struct loop *loop)
{
    if (!loop->woken) {
        uint64_t one = 1;
        loop->woken = true;
        if (write(loop->wake.fd, &one, sizeof one) < 0) {
            return; /* the counter is at its limit: the loop is awake */
        }
    }
}

void loop_wake(struct loop *loop)
{
    pthread_mutex_lock(&loop->inbox_lock);
    wake_locked(loop);
    pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_post(struct loop *loop, struct pending *pending)
{
    pending->next = NULL;
    pthread_mutex_lock(&loop->inbox_lock);
    *(loop->done_tail != NULL ? &loop->done_tail->next : &loop->done_head) = pending;
    loop->done_tail = pending;
    wake_locked(loop);
    pthread_mutex_unlock(&loop->inbox_lock);
}

static void tally_pending(struct loop *loop, struct pending *pending, bool has_reply)
{
    if (pending->was_parked) {
        pending->sample.durable = loop->stamp;
    }
    pending->sample.failed = pending->sample.failed || pending->error != 0 || !has_reply;
    if (pending->dest.conn != NULL) {
        tally_conn_add(loop, pending->dest.conn, &pending->sample, has_reply);
    } else {
        udp_tally(loop, &pending->from.peer, &pending->sample, has_reply);
    }
}

/* False: there was nothing to send. */
static bool send_pending(struct loop *loop, struct worker *worker, struct pending *pending)
{
    struct rpc_server *server = loop->server;
    struct conn *conn = pending->dest.conn;

    if (pending->error != 0) {
        struct reply reply;
        drc_forget(server->drc, pending->entry);
        dispatch_failure(worker, pending, &reply);
        if (reply.size > 0 && conn != NULL) {
            conn_reply(loop, conn, &reply);
        } else if (reply.size > 0) {
            udp_reply(pending->dest.udp, pending->dest.from, &reply, worker);
        }
        out_free(pending->out);
        return reply.size > 0;
    }
    struct out *out = pending->out;
    if (out == NULL) {
        drc_forget(server->drc, pending->entry);
        return false;
    }
    bool gone = conn != NULL && conn->closed;
    uint64_t sent_end = conn == NULL ? 0
                        : gone       ? UINT64_MAX
                                     : conn->stream_bytes + out->size + out_tail_bytes(&out->tail);
    drc_done(server->drc, pending->entry, out->bytes + REPLY_MARK_BYTES,
             out->size - REPLY_MARK_BYTES, sent_end);
    loop_count(&loop->stats.replies, 1);
    if (conn != NULL && !gone) {
        conn_queue(loop, conn, out);
        return true;
    }
    if (conn == NULL) {
        udp_send(pending->dest.udp, pending->dest.from, out);
    }
    out_free(out);
    return !gone;
}

void loop_deliver(struct loop *loop, struct worker *worker, struct pending *pending)
{
    struct conn *conn = pending->dest.conn;

    bool has_reply = send_pending(loop, worker, pending);
    tally_pending(loop, pending, has_reply);
    free(pending);
    if (conn != NULL) {
        CHECK_OP(conn->pending_count, >, 0);
        conn->pending_count--;
        conn_close_if_done(loop, conn);
    }
}

static void take_inbox(struct loop *loop, struct worker *worker)
{
    pthread_mutex_lock(&loop->inbox_lock);
    struct pending *pending = loop->done_head;
    struct conn *accepted = loop->accepted;
    loop->done_head = loop->done_tail = NULL;
    loop->accepted = NULL;
    loop->woken = false;
    pthread_mutex_unlock(&loop->inbox_lock);

    while (accepted != NULL) {
        struct conn *next = accepted->newer;
        conn_begin(loop, accepted);
        accepted = next;
    }
    (void)loop_stamp(loop);
    while (pending != NULL) {
        struct pending *next = pending->next;
        if (pending->lost) {
            struct conn *conn = pending->dest.conn;
            pending->lost = false;
            if (counter_of(&loop->stats.calls) != loop->taken_calls) {
                atomic_fetch_add(&loop->server->takeovers_of_use, 1);
            }
            loop->lost_count--;
            share_give(loop->server, conn != NULL ? &conn->peer : &pending->from.peer);
        }
        bool waits = pending->lsn > 0 && park(loop, pending, &pending->error);
        if (!waits) {
            loop_deliver(loop, worker, pending);
        }
        pending = next;
    }
}

static void read_inbox(struct loop *loop, struct worker *worker)
{
    uint64_t count;
    if (read(loop->wake.fd, &count, sizeof count) < 0 && errno != EAGAIN) {
        return;
    }
    take_inbox(loop, worker);
}

static void event(struct loop *loop, struct worker *worker, const struct epoll_event *event)
{
    struct source *source = event->data.ptr;
    bool stopping = atomic_load_explicit(&loop->server->stopping, memory_order_relaxed);

    switch (source->kind) {
    case SOURCE_WAKE:
        read_inbox(loop, worker);
        break;
    case SOURCE_LISTENER:
        if (!stopping) {
            conn_accept(loop, CONTAINER_OF(source, struct listener, source));
        }
        break;
    case SOURCE_CONN:
        conn_event(loop, CONTAINER_OF(source, struct conn, source), event->events);
        break;
    case SOURCE_UDP:
        udp_event(loop, CONTAINER_OF(source, struct udp, source));
        break;
    }
}

/* One turn each for those that were ready when it began. False: the loop is lost. */
static bool turns(struct loop *loop, struct worker *worker)
{
    struct source *last = loop->ready_tail;
    for (struct source *source = NULL; source != last || source == NULL;) {
        source = take_ready(loop);
        if (source == NULL) {
            break;
        }
        loop->turn = source;
        bool kept = true;
        if (source->kind == SOURCE_CONN) {
            kept = conn_turn(loop, worker, CONTAINER_OF(source, struct conn, source));
        } else {
            kept = udp_turn(loop, worker, CONTAINER_OF(source, struct udp, source));
        }
        if (!kept) {
            return false;
        }
        loop->turn = NULL;
    }
    return true;
}

uint64_t loop_enter(struct loop *loop)
{
    struct rpc_server *server = loop->server;
    uint64_t run = atomic_load_explicit(&loop->run, memory_order_relaxed) + 1;

    atomic_store(&loop->run, run);
    if (UNLIKELY(atomic_load(&server->monitor_asleep))) {
        worker_monitor_wake(server);
    }
    return run;
}

bool loop_leave(struct loop *loop, uint64_t run)
{
    return atomic_compare_exchange_strong(&loop->run, &run, run + 1);
}

/* What alone has calls, if that is a connection, or NULL. False: nothing has. */
static bool find_only(struct loop *loop, const void **only)
{
    int count = 0;
    *only = NULL;
    for (int i = 0; i < loop->event_count; i++) {
        const struct source *source = loop->events[i].data.ptr;
        if (source->kind != SOURCE_WAKE) {
            count++;
            *only = count == 1 && source->kind == SOURCE_CONN ? source : NULL;
        }
    }
    return count > 0;
}

/* The same connection as last time, and no other, has calls: it will wait for their replies. */
static void promise(struct loop *loop)
{
    const struct rpc_server_options *options = &loop->server->options;
    const void *only;
    loop->promised = false;
    if (options->promise == NULL || !find_only(loop, &only)) {
        return;
    }
    loop->promised = only != NULL && only == loop->only;
    loop->only = only;
    loop->promised_from = counter_of(&loop->stats.calls);
    if (loop->promised) {
        options->promise(options->arg);
    }
}

/* Whether the one client has sent more meanwhile, and nobody else has: then that can share a
 * durable write. What is not for this is told again by the next epoll_wait. */
static bool has_more(struct loop *loop)
{
    const void *only = NULL;
    loop->event_index = 0;
    loop->event_count = 0;
    if (counter_of(&loop->stats.calls) - loop->promised_from >= PROMISED_CALL_COUNT_MAX) {
        return false;
    }
    int count = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENT_COUNT, 0);
    loop->event_count = count > 0 ? count : 0;
    bool any = find_only(loop, &only);
    bool more = any ? only == loop->only : loop->ready_head != NULL;
    loop->event_count = more ? loop->event_count : 0;
    return more;
}

/* False: the loop is lost. */
static bool keep_promise(struct loop *loop, struct worker *worker, bool waits)
{
    const struct rpc_server_options *options = &loop->server->options;
    if (!loop->promised) {
        return true;
    }
    bool told = true;
    if (waits) {
        pthread_mutex_lock(&loop->inbox_lock);
        told = loop->woken; /* if not, nobody need tell: it will be looked at */
        loop->woken = true;
        pthread_mutex_unlock(&loop->inbox_lock);
    }
    uint64_t run = loop_enter(loop);
    options->keep_promise(options->arg);
    if (!loop_leave(loop, run)) {
        return false;
    }
    loop->promised = false;
    if (!told) {
        take_inbox(loop, worker);
    }
    return true;
}

/* Whose worker has lost it, in a procedure or in keep_promise. */
static void break_promise(struct loop *loop, struct worker *worker)
{
    const struct rpc_server_options *options = &loop->server->options;
    if (loop->promised) {
        loop->promised = false;
        options->break_promises(options->arg);
        take_inbox(loop, worker);
    }
}

/* What the blocked worker was about is set aside: its reply will come through the inbox. */
static void resume(struct loop *loop)
{
    struct source *source = loop->turn;
    loop->turn = NULL;
    if (loop->lost_count > 0) {
        /* The one that took it before has begun another call. */
        atomic_fetch_add(&loop->server->takeovers_of_use, 1);
    }
    loop->lost_count++;
    loop->taken_calls = counter_of(&loop->stats.calls);
    if (source->kind == SOURCE_UDP) {
        struct udp *udp = CONTAINER_OF(source, struct udp, source);
        share_take(loop->server, &udp->from[udp->index - 1].peer);
        rxbuf_put(loop->server, loop, udp->buffers[udp->index - 1]);
        udp->buffers[udp->index - 1] = NULL;
    } else {
        struct conn *conn = CONTAINER_OF(source, struct conn, source);
        share_take(loop->server, &conn->peer);
        conn->pending_count++;
        conn_orphan(loop, conn);
        loop->turn = source;
        conn_flush(loop, conn);
        loop->turn = NULL;
    }
    loop_ready(loop, source);
}

static void free_dead(struct loop *loop)
{
    for (struct conn **link = &loop->dead; *link != NULL;) {
        struct conn *conn = *link;
        if (conn->pending_count > 0 || conn->source.queued) {
            link = &conn->newer;
            continue;
        }
        *link = conn->newer;
        conn_free(loop, conn);
    }
}

static int reap_interval_ms(const struct rpc_server *server)
{
    uint32_t interval_ms = server->options.idle_ms / 4 + 1;
    return interval_ms < REAP_MS_MAX ? (int)interval_ms : REAP_MS_MAX;
}

/* A system call on some machines, so not for each call: nothing here is as precise. */
static void look_at_clock(struct loop *loop)
{
    if (loop->woke < loop->timed || ticks_ns(loop->timed, loop->woke) >= CLOCK_AGE_NS_MAX) {
        loop->timed = loop->woke;
        loop->now_ms = loop_clock_ms();
    }
}

static void timers(struct loop *loop)
{
    struct rpc_server *server = loop->server;

    look_at_clock(loop);
    int64_t now = loop->now_ms;
    if (loop->index == 0) {
        for (struct listener *listener = server->listeners; listener != NULL;
             listener = listener->next) {
            if (listener->paused_until_ms > 0 && now >= listener->paused_until_ms) {
                listener->paused_until_ms = 0;
                (void)loop_poll(loop, &listener->source, EPOLLIN, false);
            }
        }
    }
    if (now >= loop->reap_ms || atomic_load_explicit(&server->reap, memory_order_relaxed) ||
        share_looks(loop)) {
        loop->reap_ms = now + reap_interval_ms(server);
        conn_reap(loop);
    }
    if (loop->waiting_head != NULL ||
        atomic_load_explicit(&server->half_wanted, memory_order_relaxed) != 0) {
        budget_retry(loop);
    }
    if (loop->held_count > 0) {
        share_retry(loop);
    }
}

static int wait_ms(struct loop *loop)
{
    struct rpc_server *server = loop->server;
    if (loop->ready_head != NULL) {
        return 0;
    }
    if (loop->index == 0) {
        for (struct listener *l = server->listeners; l != NULL; l = l->next) {
            if (l->paused_until_ms > 0) {
                return 20;
            }
        }
    }
    if (loop->waiting_head != NULL || loop->held_count > 0 ||
        atomic_load_explicit(&server->stopping, memory_order_relaxed)) {
        return 20;
    }
    return loop->oldest != NULL ? reap_interval_ms(server) : -1;
}

/* When stopping: whether nothing is owed to anybody any more. */
static bool finished(struct loop *loop, int64_t *since_ms)
{
    if (!atomic_load_explicit(&loop->server->stopping, memory_order_relaxed)) {
        return false;
    }
    if (*since_ms == 0) {
        *since_ms = loop->now_ms;
    }
    bool owed =
        atomic_load(&loop->parked_count) > 0 || loop->lost_count > 0 || loop->ready_head != NULL;
    return !owed || loop->now_ms - *since_ms > STOP_MS_MAX;
}

/* Looks for events without sleeping, unless half of the processors do so already. */
static int spin(struct loop *loop)
{
    struct rpc_server *server = loop->server;
    uint64_t began = loop->stamp;
    int count = 0;

    if (atomic_fetch_add(&server->spinning, 1) < server->spin_count_max) {
        do {
            count = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENT_COUNT, 0);
        } while (count == 0 && ticks_ns(began, ticks_now()) < SPIN_NS);
    }
    atomic_fetch_sub(&server->spinning, 1);
    return count;
}

/*
 * Waits for events. To sleep and be woken takes longer than most calls. So when one client calls
 * again soon after each reply, and nobody else does, its loop looks for as long as that took before
 * it sleeps. Where that is in vain, because the client thinks for longer or needs this very
 * processor, the wait was a long one and the next one sleeps at once.
 */
static int wait_events(struct loop *loop)
{
    uint64_t calls = counter_of(&loop->stats.calls);
    const void *lone =
        loop->event_count == 1 && calls == loop->wait_calls + 1 ? loop->events[0].data.ptr : NULL;
    bool again = lone != NULL && lone == loop->lone;
    uint64_t began = loop->stamp;
    int timeout_ms = wait_ms(loop);
    int count = 0;

    if (again && loop->wait_short && timeout_ms != 0) {
        count = spin(loop);
    }
    if (count == 0) {
        count = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENT_COUNT, timeout_ms);
    }
    loop->woke = loop_stamp(loop);
    loop->wait_calls = calls;
    loop->lone = lone;
    loop->wait_short = ticks_ns(began, loop->woke) < SPIN_NS;
    return count;
}

bool loop_run(struct loop *loop, struct worker *worker)
{
    int64_t stopping_since_ms = 0;
    bool more = false;

    if (loop->turn != NULL) {
        resume(loop);
    }
    break_promise(loop, worker);
    for (;;) {
        if (!more) {
            promise(loop);
        }
        while (loop->event_index < loop->event_count) {
            event(loop, worker, &loop->events[loop->event_index++]);
        }
        if (!turns(loop, worker)) {
            return false;
        }
        bool waits = loop->promised && atomic_load(&loop->parked_count) > 0;
        more = waits && has_more(loop);
        if (more) {
            continue;
        }
        if (!keep_promise(loop, worker, waits)) {
            return false;
        }
        free_dead(loop);
        if (finished(loop, &stopping_since_ms)) {
            return true;
        }
        int n = wait_events(loop);
        loop->event_index = 0;
        loop->event_count = n > 0 ? n : 0;
        timers(loop);
    }
}
