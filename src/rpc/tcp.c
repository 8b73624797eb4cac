/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP connections: bytes to calls, replies to bytes.
 *
 * A turn runs what has arrived, up to a limit, and sends its replies with one call. A client that
 * does not read its replies is not read either: beyond CONN_QUEUE_BYTES_MAX of unsent replies its
 * calls stay where they are.
 */
#include "rpc/internal.h"

#include "base/log.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#define ACCEPT_COUNT_MAX 64
#define ACCEPT_PAUSE_MS 100
#define REAP_QUIET_MS 1000 /* a connection this quiet may go when descriptors run short */

/* ---- beginning and end ---- */

static struct loop *least_loaded(struct rpc_server *server)
{
    struct loop *best = &server->loops[0];
    for (uint32_t i = 1; i < server->loop_count; i++) {
        if (atomic_load(&server->loops[i].conn_count) < atomic_load(&best->conn_count)) {
            best = &server->loops[i];
        }
    }
    return best;
}

static void pause_listener(struct loop *loop, struct listener *listener, const char *why)
{
    static struct log_limit limit;
    struct rpc_server *server = loop->server;

    log_write_limited(&limit, LOG_WARNING,
                      "%s: new connections wait until an idle one is gone (%u are open)", why,
                      atomic_load(&server->conn_count));
    (void)loop_poll(loop, &listener->source, 0, false);
    listener->paused_until_ms = loop_clock_ms() + ACCEPT_PAUSE_MS;
    atomic_store(&server->reap, true);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_wake(&server->loops[i]);
    }
}

static void hand_over(struct loop *loop, struct listener *listener, int fd,
                      const struct sockaddr_storage *address)
{
    struct rpc_server *server = loop->server;
    struct conn *conn = calloc(1, sizeof *conn);
    int on = 1, unsent_max = SOCKET_UNSENT_BYTES_MAX;

    if (conn == NULL) {
        close(fd);
        return;
    }
    conn->source = (struct source){.kind = SOURCE_CONN, .fd = fd};
    conn->listener = listener;
    peer_set(&conn->peer, address, true);
    conn->peer.is_local = listener->is_local;
    conn->peer.local_port = listener->port;
    if (listener->is_local) {
        struct ucred cred = {.uid = UINT32_MAX};
        socklen_t cred_bytes = sizeof cred;
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_bytes);
        conn->peer.local_uid = cred.uid;
    }
    if (!listener->is_local) {
        struct sockaddr_storage local = {0};
        socklen_t local_bytes = sizeof local;
        if (getsockname(fd, (struct sockaddr *)&local, &local_bytes) == 0) {
            peer_set_local(&conn->peer, (struct sockaddr *)&local);
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof unsent_max);
    }
    share_count(server, conn);
    atomic_fetch_add(&server->conn_count, 1);
    struct loop *home = least_loaded(server);
    atomic_fetch_add(&home->conn_count, 1);
    if (home == loop) {
        conn_begin(loop, conn);
        return;
    }
    pthread_mutex_lock(&home->inbox_lock);
    conn->newer = home->accepted;
    home->accepted = conn;
    pthread_mutex_unlock(&home->inbox_lock);
    loop_wake(home);
}

/* The client has its share of the connections already. */
static void refuse(struct rpc_server *server, int fd, const struct sockaddr_storage *address)
{
    static struct log_limit limit;
    char host[NI_MAXHOST] = "?";

    (void)getnameinfo((const struct sockaddr *)address, sizeof *address, host, sizeof host, NULL, 0,
                      NI_NUMERICHOST);
    log_write_limited(&limit, LOG_WARNING,
                      "%s has %u of %u connections, %u are in use: one more is closed", host,
                      share_of(server, address), server->options.connection_count_max,
                      atomic_load(&server->conn_count));
    close(fd);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_wake(&server->loops[i]);
    }
}

void conn_accept(struct loop *loop, struct listener *listener)
{
    struct rpc_server *server = loop->server;

    for (int i = 0; i < ACCEPT_COUNT_MAX; i++) {
        if (atomic_load(&server->conn_count) >= server->options.connection_count_max) {
            pause_listener(loop, listener, "the connection limit is reached");
            return;
        }
        struct sockaddr_storage address = {0};
        socklen_t address_bytes = sizeof address;
        int fd = accept4(listener->source.fd, (struct sockaddr *)&address, &address_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && !listener->is_local && !share_has_room(server, &address)) {
            refuse(server, fd, &address);
        } else if (fd >= 0) {
            hand_over(loop, listener, fd, &address);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            pause_listener(loop, listener, strerror(errno));
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

static void list_remove(struct loop *loop, struct conn *conn)
{
    *(conn->older != NULL ? &conn->older->newer : &loop->oldest) = conn->newer;
    *(conn->newer != NULL ? &conn->newer->older : &loop->newest) = conn->older;
}

static void list_append(struct loop *loop, struct conn *conn)
{
    conn->older = loop->newest;
    conn->newer = NULL;
    *(loop->newest != NULL ? &loop->newest->newer : &loop->oldest) = conn;
    loop->newest = conn;
}

void conn_begin(struct loop *loop, struct conn *conn)
{
    tally_conn_find(loop, conn);
    conn->active_ms = loop->now_ms;
    list_append(loop, conn);
    conn->epoll_events = EPOLLIN;
    if (loop_poll(loop, &conn->source, EPOLLIN, true) != 0) {
        conn_close(loop, conn);
    }
}

static void forget_queue(struct loop *loop, struct conn *conn)
{
    atomic_fetch_sub(&loop->server->queued_bytes, (int64_t)conn->queue_bytes);
    while (conn->queue_head != NULL) {
        struct out *next = conn->queue_head->next;
        out_free(conn->queue_head);
        conn->queue_head = next;
    }
    conn->queue_tail = NULL;
    conn->queue_bytes = 0;
}

void conn_free(struct loop *loop, struct conn *conn)
{
    rxbuf_put(loop->server, loop, conn->rx);
    drc_origin_put(conn->origin);
    tally_client_put(conn->client);
    free(conn->unsent.samples);
    free(conn);
}

void conn_close(struct loop *loop, struct conn *conn)
{
    if (conn->closed) {
        return;
    }
    conn->closed = true;
    drc_origin_closed(conn->origin);
    close(conn->source.fd);
    if (loop->turn == &conn->source) {
        loop->tx_used = 0;
    }
    forget_queue(loop, conn);
    tally_conn_closed(loop, conn);
    budget_give(loop, conn);
    budget_forget(loop, conn);
    share_forget(loop, conn);
    list_remove(loop, conn);
    conn->newer = loop->dead;
    loop->dead = conn;
    atomic_fetch_sub(&loop->conn_count, 1);
    atomic_fetch_sub(&loop->server->conn_count, 1);
    atomic_fetch_sub(&loop->server->conns_by[conn->conn_slot], 1);
}

void conn_close_if_done(struct loop *loop, struct conn *conn)
{
    bool owed = conn->pending_count > 0 || conn->queue_head != NULL || conn->more;
    if (conn->eof && !conn->closed && !owed) {
        conn_close(loop, conn);
    }
}

/* Whether the unsent replies of all connections are. */
static bool are_too_much(const struct rpc_server *server)
{
    return atomic_load_explicit(&server->queued_bytes, memory_order_relaxed) >
           (int64_t)ALL_QUEUES_BYTES_MAX;
}

void conn_reap(struct loop *loop)
{
    struct rpc_server *server = loop->server;
    bool short_of = atomic_exchange(&server->reap, false);
    int64_t stuck_ms = are_too_much(server) && server->options.idle_ms > RECORD_MS_MAX
                           ? RECORD_MS_MAX
                           : (int64_t)server->options.idle_ms;

    for (struct conn *conn = loop->oldest, *newer; conn != NULL; conn = newer) {
        newer = conn->newer;
        int64_t quiet_ms = loop->now_ms - conn->active_ms;
        bool busy = conn->pending_count > 0 || conn->queue_head != NULL || conn->held;
        bool idle = !busy && quiet_ms >= (int64_t)server->options.idle_ms;
        /* A client that reads nothing holds memory: it has as long as an idle one, or less. */
        bool stuck = conn->queue_head != NULL && quiet_ms >= stuck_ms;
        bool wanted = short_of || share_wants(server, conn);
        bool half = !busy && conn->rx != NULL && quiet_ms >= RECORD_MS_MAX;
        if (!idle && !stuck && !half && !(wanted && !busy && quiet_ms >= REAP_QUIET_MS)) {
            bool may_be_more =
                quiet_ms >= REAP_QUIET_MS && atomic_load(&server->reap_slot) != 0;
            if (quiet_ms < RECORD_MS_MAX && !may_be_more) {
                break;
            }
            continue;
        }
        share_gave(server, conn);
        conn_close(loop, conn);
        short_of = false;
    }
}

/* ---- sending ---- */

/* A client that does not read its replies, or reads too few where many do so, is not read. */
static bool has_too_much(struct loop *loop, const struct conn *conn)
{
    if (conn->queue_bytes <= CONN_QUEUE_BYTES_LESS) {
        return false;
    }
    return conn->queue_bytes > CONN_QUEUE_BYTES_MAX || are_too_much(loop->server);
}

static void poll_update(struct loop *loop, struct conn *conn)
{
    bool paused =
        conn->eof || conn->held || conn->half_waits_for > 0 || has_too_much(loop, conn);
    uint32_t events =
        (paused ? 0U : (uint32_t)EPOLLIN) | (conn->queue_head != NULL ? (uint32_t)EPOLLOUT : 0U);
    if (conn->closed || events == conn->epoll_events) {
        return;
    }
    if ((events & ~conn->epoll_events & EPOLLIN) != 0) {
        loop_ready(loop, &conn->source); /* calls may lie in the buffer since it was paused */
    }
    conn->epoll_events = events;
    (void)loop_poll(loop, &conn->source, events, false);
}

static void count_sent(struct loop *loop, struct conn *conn, uint64_t bytes)
{
    conn->sent_bytes += bytes;
    loop_count(&loop->stats.bytes_out, bytes);
    if (conn->origin != NULL) {
        drc_origin_sent(conn->origin, conn->sent_bytes);
    }
}

/* Puts a reply, or what is left of it, behind the others. reply->bytes may be NULL with size 0. */
static void enqueue(struct loop *loop, struct conn *conn, struct out *out)
{
    if (out == NULL) {
        conn->eof = true; /* no memory: the stream has a hole, nothing may follow */
        return;
    }
    out->next = NULL;
    *(conn->queue_tail != NULL ? &conn->queue_tail->next : &conn->queue_head) = out;
    conn->queue_tail = out;
    uint32_t bytes = out->size + out_tail_bytes(&out->tail) - out->sent;
    conn->queue_bytes += bytes;
    atomic_fetch_add(&loop->server->queued_bytes, bytes);
}

static void drain(struct loop *loop, struct conn *conn)
{
    while (conn->queue_head != NULL) {
        struct out *out = conn->queue_head;
        uint64_t sent_bytes = 0;
        int status = out_send(out, conn->source.fd, loop->out_room, &sent_bytes);
        count_sent(loop, conn, sent_bytes);
        conn->queue_bytes -= sent_bytes;
        atomic_fetch_sub(&loop->server->queued_bytes, (int64_t)sent_bytes);
        if (sent_bytes > 0) {
            conn->active_ms = loop->now_ms;
        }
        if (status < 0) {
            conn_close(loop, conn);
            return;
        }
        if (status == 0) {
            break;
        }
        conn->queue_head = out->next;
        if (conn->queue_head == NULL) {
            conn->queue_tail = NULL;
        }
        out_free(out);
    }
    tally_conn_drained(loop, conn);
}

/* Sends the turn's collected replies; what the socket does not take goes to the queue. */
static void flush_tx(struct loop *loop, struct conn *conn, int flags)
{
    uint32_t size = loop->tx_used;
    uint32_t done = 0;

    loop->tx_used = 0;
    while (done < size && conn->queue_head == NULL && !conn->closed) {
        ssize_t n = send(conn->source.fd, loop->tx + done, size - done,
                         MSG_DONTWAIT | MSG_NOSIGNAL | flags);
        if (n >= 0) {
            count_sent(loop, conn, (uint64_t)n);
            done += (uint32_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            conn_close(loop, conn);
        }
    }
    if (done < size && !conn->closed) {
        struct reply rest = {.bytes = loop->tx + done, .size = size - done};
        enqueue(loop, conn, out_new(&rest, 0));
    }
    tally_conn_sent(loop, conn, false);
}

void conn_flush(struct loop *loop, struct conn *conn)
{
    if (loop->tx_used > 0) {
        flush_tx(loop, conn, 0);
    }
    tally_conn_sent(loop, conn, true);
    poll_update(loop, conn);
}

/* Sends the tail of a reply whose head has just been collected. */
static void send_tail(struct loop *loop, struct conn *conn, struct reply *reply)
{
    struct reply rest = {.bytes = reply->bytes,
                         .size = 0,
                         .tail = reply->tail,
                         .file = reply->file,
                         .memory = reply->memory};
    uint64_t sent_bytes = 0;

    flush_tx(loop, conn, MSG_MORE);
    if (conn->closed) {
        reply_drop(&rest);
        return;
    }
    if (conn->queue_head == NULL) {
        struct out direct = {.tail = rest.tail, .file = rest.file, .memory = rest.memory};
        int status = out_send(&direct, conn->source.fd, loop->out_room, &sent_bytes);
        count_sent(loop, conn, sent_bytes);
        tally_conn_sent(loop, conn, false);
        if (status != 0) {
            reply_drop(&rest);
            if (status < 0) {
                conn_close(loop, conn);
            }
            return;
        }
    }
    enqueue(loop, conn, out_new(&rest, (uint32_t)sent_bytes));
}

void conn_reply(struct loop *loop, struct conn *conn, struct reply *reply)
{
    if (conn->closed) {
        reply_drop(reply);
        return;
    }
    reply_mark(reply);
    conn->stream_bytes += reply->size + out_tail_bytes(&reply->tail);
    if (loop->turn != &conn->source) {
        enqueue(loop, conn, out_new(reply, 0));
        drain(loop, conn);
        poll_update(loop, conn);
        return;
    }
    if (loop->tx_used + reply->size > TX_BYTES) {
        flush_tx(loop, conn, 0);
    }
    memcpy(loop->tx + loop->tx_used, reply->bytes, reply->size);
    loop->tx_used += reply->size;
    if (reply->tail.size > 0) {
        send_tail(loop, conn, reply);
    } else {
        reply_drop(reply);
    }
}

void conn_queue(struct loop *loop, struct conn *conn, struct out *out)
{
    record_mark(out->bytes, out->size - REPLY_MARK_BYTES + out_tail_bytes(&out->tail));
    conn->stream_bytes += out->size + out_tail_bytes(&out->tail);
    enqueue(loop, conn, out);
    drain(loop, conn);
    poll_update(loop, conn);
}

/* ---- receiving ---- */

/* Moves what is in the buffer into a larger one, or one that nobody else reads. */
static bool move_to(struct loop *loop, struct conn *conn, struct rxbuf *to)
{
    if (to == NULL) {
        return false;
    }
    uint32_t left = conn->rx_end - conn->rx_start;
    if (conn->rx != NULL) {
        memcpy(to->bytes, conn->rx->bytes + conn->rx_start, left);
        rxbuf_put(loop->server, loop, conn->rx);
    }
    conn->rx = to;
    conn->rx_start = 0;
    conn->rx_end = left;
    return true;
}

void conn_orphan(struct loop *loop, struct conn *conn)
{
    bool small = conn->rx->capacity <= RX_SMALL_BYTES;
    if (!move_to(loop, conn, small ? rxbuf_small(loop) : rxbuf_large(loop->server))) {
        conn_close(loop, conn);
    }
}

enum room { ROOM_MADE, ROOM_LATER, ROOM_NONE };

static enum room move_to_large(struct loop *loop, struct conn *conn)
{
    struct rpc_server *server = loop->server;
    if (conn->half_waits_for > 0) {
        return ROOM_LATER;
    }
    if (!budget_take(loop, conn, server->large_bytes)) {
        budget_wait(loop, conn, server->large_bytes);
        return ROOM_LATER;
    }
    return move_to(loop, conn, rxbuf_large(server)) ? ROOM_MADE : ROOM_NONE;
}

void conn_resume(struct loop *loop, struct conn *conn)
{
    poll_update(loop, conn);
    loop_ready(loop, &conn->source);
}

static enum room first_buffer(struct loop *loop, struct conn *conn)
{
    bool large = conn->large && budget_take(loop, conn, loop->server->large_bytes);
    struct rxbuf *rx = large ? rxbuf_large(loop->server) : rxbuf_small(loop);
    return move_to(loop, conn, rx) ? ROOM_MADE : ROOM_NONE;
}

/* Makes room to receive at least one byte, and the whole record when its size is known. */
static enum room make_room(struct loop *loop, struct conn *conn)
{
    uint32_t needed = conn->record.needed;

    if (conn->rx == NULL) {
        return first_buffer(loop, conn);
    }
    if (conn->rx_start == conn->rx_end) {
        conn->rx_start = conn->rx_end = 0;
    }
    uint32_t capacity = conn->rx->capacity;
    if (conn->rx_end < capacity && conn->rx_start + needed <= capacity) {
        return ROOM_MADE;
    }
    uint8_t *first = conn->rx->bytes + conn->rx_start;
    uint32_t old_mark = conn->record.next_mark;
    uint32_t left = (uint32_t)record_compact(&conn->record, first, conn->rx_end - conn->rx_start);
    needed -= needed > 0 ? old_mark - conn->record.next_mark : 0;
    conn->rx_end = conn->rx_start + left;
    if (needed > capacity || left == capacity) {
        if (capacity > RX_SMALL_BYTES) {
            return ROOM_NONE; /* cannot be: a large buffer holds any record */
        }
        return move_to_large(loop, conn);
    }
    memmove(conn->rx->bytes, first, left);
    conn->rx_start = 0;
    conn->rx_end = left;
    return ROOM_MADE;
}

/* False: nothing more comes, for now or for ever. */
static bool receive(struct loop *loop, struct conn *conn)
{
    enum room made = make_room(loop, conn);
    if (made == ROOM_NONE) {
        conn_close(loop, conn);
    }
    if (made != ROOM_MADE) {
        return false;
    }
    uint32_t room = conn->rx->capacity - conn->rx_end;
    ssize_t n = recv(conn->source.fd, conn->rx->bytes + conn->rx_end, room, MSG_DONTWAIT);
    if (n > 0) {
        conn->rx_end += (uint32_t)n;
        conn->drained = (uint32_t)n < room;
        conn->arrived = loop_stamp(loop);
        if (conn->event != 0) {
            conn->arrived = conn->event;
            conn->event = 0;
        }
        conn->batch = atomic_fetch_add_explicit(&loop->server->batch, 1, memory_order_relaxed) + 1;
        loop_count(&loop->stats.bytes_in, (uint64_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        conn->drained = true;
        return true;
    }
    if (n == 0 && (conn->pending_count > 0 || conn->queue_head != NULL || loop->tx_used > 0)) {
        conn->eof = true; /* it may still read its replies */
        conn->drained = true;
        return true;
    }
    conn_close(loop, conn);
    return false;
}

/* Gives the buffer back while nothing is in it, and charges for it while a call has begun. */
static void rest(struct loop *loop, struct conn *conn)
{
    if (conn->rx == NULL) {
        return;
    }
    if (conn->rx_start == conn->rx_end) {
        rxbuf_put(loop->server, loop, conn->rx);
        conn->rx = NULL;
        conn->rx_start = conn->rx_end = 0;
        budget_give(loop, conn);
    } else if (!conn->closed && !budget_take(loop, conn, conn->rx->capacity)) {
        /* It would not be worth a small buffer to wait for: there is no room at all. */
        conn_close(loop, conn);
    }
}

static void refuse_stream(struct loop *loop, struct conn *conn)
{
    static struct log_limit limit;
    char peer[64];
    log_write_limited(&limit, LOG_WARNING,
                      "%s: closed: a record over the limit of %u bytes, or no RPC at all",
                      peer_text(&conn->peer, peer), loop->server->options.record_bytes_max);
    loop_count(&loop->stats.garbage, 1);
    conn_close(loop, conn);
}

struct turn {
    uint64_t began; /* ticks */
    uint64_t stream_bytes;
    uint32_t calls;
};

enum step { STEP_CALL, STEP_MORE, STEP_LOST, STEP_CLOSED };

/* Runs the next call that is whole. */
static enum step next_call(struct loop *loop, struct worker *worker, struct conn *conn)
{
    if (conn->rx == NULL) {
        return STEP_MORE;
    }
    uint8_t *first = conn->rx->bytes + conn->rx_start;
    enum record_status status = record_next(&conn->record, first, conn->rx_end - conn->rx_start,
                                            loop->server->options.record_bytes_max);
    if (status == RECORD_MORE) {
        return STEP_MORE;
    }
    if (status == RECORD_TOO_LONG) {
        refuse_stream(loop, conn);
        return STEP_CLOSED;
    }
    uint32_t payload_bytes = conn->record.payload_bytes;
    conn->rx_start += conn->record.consumed;
    conn->large = conn->record.consumed > RX_SMALL_BYTES;
    conn->record = (struct record){0};
    conn->spoke = true;
    struct dest dest = {.conn = conn};
    if (!dispatch(loop, worker, &conn->listener->service, &dest, &conn->peer, conn->rx,
                  first + RPC_RECORD_MARK_BYTES, payload_bytes, conn->batch)) {
        return STEP_LOST;
    }
    return conn->closed ? STEP_CLOSED : STEP_CALL;
}

/* Whether a connection that had so many calls in this turn must let others have theirs. */
static bool turn_is_over(const struct loop *loop, const struct conn *conn, const struct turn *turn)
{
    if (turn->calls == TURN_CALL_COUNT_MAX ||
        conn->stream_bytes - turn->stream_bytes > TURN_REPLY_BYTES_MAX) {
        return true;
    }
    return turn->calls > 0 && ticks_ns(turn->began, loop->stamp) > TURN_NS_MAX;
}

bool conn_turn(struct loop *loop, struct worker *worker, struct conn *conn)
{
    struct turn turn = {.began = loop->stamp, .stream_bytes = conn->stream_bytes};
    uint32_t receives = 0;

    tally_conn_find(loop, conn);
    conn->more = true;
    while (!conn->closed && !has_too_much(loop, conn) && !share_hold(loop, conn)) {
        if (turn_is_over(loop, conn, &turn)) {
            loop_ready(loop, &conn->source);
            break;
        }
        enum step step = next_call(loop, worker, conn);
        if (step == STEP_LOST) {
            return false;
        }
        if (step == STEP_CALL) {
            turn.calls++;
            continue;
        }
        if (step == STEP_CLOSED || conn->drained) {
            conn->more = false;
            break;
        }
        if (receives == TURN_RECEIVE_COUNT_MAX) {
            loop_ready(loop, &conn->source);
            break;
        }
        receives++;
        if (!receive(loop, conn)) {
            break;
        }
    }
    conn_flush(loop, conn);
    rest(loop, conn);
    conn_close_if_done(loop, conn);
    return true;
}

void conn_event(struct loop *loop, struct conn *conn, uint32_t events)
{
    if (conn->closed) {
        return;
    }
    conn->active_ms = loop->now_ms;
    if (loop->newest != conn) {
        list_remove(loop, conn);
        list_append(loop, conn);
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        conn_close(loop, conn);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        drain(loop, conn);
        poll_update(loop, conn);
    }
    if ((events & EPOLLIN) != 0) {
        conn->drained = false;
        conn->event = loop->woke;
    }
    conn_close_if_done(loop, conn);
    loop_ready(loop, &conn->source);
}
