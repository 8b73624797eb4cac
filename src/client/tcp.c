/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP: one connection, made when there is something to send and made again when it is lost.
 *
 *     CLOSED --a call--> CONNECTING --> CONNECTED
 *       ^                    |              |
 *       |                    v              v
 *       +---------------- PAUSING <---- client_tcp_lost
 *
 * 1. Bytes of two connections never mix: what was received of a message, and what was sent of a
 *    call, is forgotten with the connection.
 * 2. A new connection tries the source port of the old one: reply caches know us by it.
 * 3. The pause before a connection doubles until a reply arrives; the first time there is none.
 */
#include "client/internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define NS_PER_MS 1000000LL
#define PAUSE_NS_MIN (100 * NS_PER_MS)
#define PAUSE_NS_MAX (5000 * NS_PER_MS)
#define RX_BYTES (256U << 10)
#define RX_EXACT_BYTES_MIN (16U << 10)
#define SEND_IOVECS 96U
#define SMALL_BYTES (16U << 10)
#define SMALL_PART_BYTES_MAX 1024U
#define RECEIVE_ROUNDS_MAX 16U /* before other descriptors have their turn */

static void connect_now(struct client_rpc *rpc);

/* ---- losing it ---- */

static void socket_close(struct client_rpc *rpc)
{
    if (rpc->watch.fd >= 0) {
        client_watch_clear(rpc->loop, &rpc->watch);
        close(rpc->watch.fd);
        rpc->watch.fd = -1;
    }
    rpc->state = TCP_CLOSED;
    rpc->offset = 0;
    rpc->rx_start = rpc->rx_end = 0;
    rpc->record = (struct record){0};
}

void client_tcp_close(struct client_rpc *rpc)
{
    socket_close(rpc);
    client_timer_clear(rpc->loop, &rpc->pause);
}

static void pause_then_connect(struct client_rpc *rpc)
{
    rpc->state = TCP_PAUSING;
    client_timer_set(rpc->loop, &rpc->pause, client_loop_fresh_ns(rpc->loop) + rpc->pause_ns);
    rpc->pause_ns = rpc->pause_ns == 0                 ? PAUSE_NS_MIN
                    : rpc->pause_ns * 2 > PAUSE_NS_MAX ? PAUSE_NS_MAX
                                                       : rpc->pause_ns * 2;
}

void client_tcp_pause_expired(struct client_timer *timer)
{
    struct client_rpc *rpc = CONTAINER_OF(timer, struct client_rpc, pause);
    rpc->state = TCP_CLOSED;
    if (rpc->queue.count > 0) {
        connect_now(rpc);
    }
}

void client_tcp_lost(struct client_rpc *rpc, int error)
{
    enum tcp_state state = rpc->state;
    bool broken = error == -EPROTO;

    socket_close(rpc);
    client_call_list_prepend_all(&rpc->queue, &rpc->sent);
    if (broken) {
        rpc->stats.broken++;
        rpc->broken_streams++;
        client_tell(rpc, CLIENT_BROKEN, NULL, error, 0);
    } else {
        client_tell(rpc, CLIENT_DISCONNECTED, NULL, error, 0);
    }
    bool never = !rpc->contact && rpc->options.fail_before_contact && state == TCP_CONNECTING;
    if (never) {
        client_fail_all(rpc, error);
    } else if (rpc->broken_streams >= CLIENT_BROKEN_STREAMS_MAX) {
        rpc->broken_streams = 0;
        client_fail_all(rpc, -EPROTO);
    }
    if (rpc->queue.count > 0) {
        pause_then_connect(rpc);
    }
}

/* ---- sending ---- */

/* Takes account of sent bytes; whole calls leave the queue. now_ns: before they were given to the
 * socket, since the answer may be there before it returns. */
static void sent_bytes(struct client_rpc *rpc, size_t bytes, int64_t now_ns)
{
    while (bytes > 0) {
        struct call *call = rpc->queue.first;
        size_t left = call->size_bytes + call_tail_bytes(call) - rpc->offset;
        if (bytes < left) {
            rpc->offset += (uint32_t)bytes;
            return;
        }
        bytes -= left;
        rpc->offset = 0;
        client_call_sent(rpc, call, now_ns);
    }
}

/* What one sendmsg takes: small messages copied together, which costs less than an iovec each. */
struct batch {
    struct iovec iovecs[SEND_IOVECS];
    size_t count;
    size_t bytes;
    uint8_t small[SMALL_BYTES];
    size_t small_bytes;
};

static void batch_put(struct batch *batch, struct iovec part)
{
    struct iovec *last = batch->count > 0 ? &batch->iovecs[batch->count - 1] : NULL;

    batch->bytes += part.iov_len;
    if (part.iov_len <= SMALL_PART_BYTES_MAX &&
        batch->small_bytes + part.iov_len <= sizeof batch->small) {
        uint8_t *to = batch->small + batch->small_bytes;
        memcpy(to, part.iov_base, part.iov_len);
        batch->small_bytes += part.iov_len;
        if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == to) {
            last->iov_len += part.iov_len;
            return;
        }
        part.iov_base = to;
    }
    batch->iovecs[batch->count++] = part;
}

static ssize_t send_batch(struct client_rpc *rpc, size_t *wanted)
{
    struct batch batch;
    uint32_t skip = rpc->offset;

    batch.count = batch.bytes = batch.small_bytes = 0;
    for (struct call *call = rpc->queue.first; call != NULL && batch.count + 3 <= SEND_IOVECS;
         call = call->next) {
        struct iovec parts[3];
        unsigned count = client_call_iovecs(call, skip, parts);
        for (unsigned i = 0; i < count; i++) {
            batch_put(&batch, parts[i]);
        }
        skip = 0;
    }
    *wanted = batch.bytes;
    struct msghdr message = {.msg_iov = batch.iovecs, .msg_iovlen = batch.count};
    return sendmsg(rpc->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_queue(struct client_rpc *rpc)
{
    while (rpc->queue.count > 0) {
        size_t wanted;
        int64_t now_ns = client_loop_fresh_ns(rpc->loop);
        ssize_t sent = send_batch(rpc, &wanted);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            client_tcp_lost(rpc, -errno);
            return;
        }
        sent_bytes(rpc, sent > 0 ? (size_t)sent : 0, now_ns);
        if (sent < (ssize_t)wanted) {
            break;
        }
    }
    uint32_t events = rpc->queue.count > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    int error = client_watch_set(rpc->loop, &rpc->watch, events);
    if (error != 0) {
        client_tcp_lost(rpc, error);
    }
}

void client_tcp_flush(struct client_rpc *rpc)
{
    if (rpc->state == TCP_CLOSED && rpc->queue.count > 0) {
        connect_now(rpc);
    } else if (rpc->state == TCP_CONNECTED) {
        send_queue(rpc);
    }
}

/* ---- receiving ---- */

/* Uses all whole messages. Returns 0 or -EPROTO. */
static int take_messages(struct client_rpc *rpc, int64_t now_ns)
{
    while (rpc->rx_start < rpc->rx_end) {
        uint8_t *bytes = rpc->rx + rpc->rx_start;
        enum record_status status = record_next(&rpc->record, bytes, rpc->rx_end - rpc->rx_start,
                                                rpc->options.reply_bytes_max);
        if (status == RECORD_TOO_LONG) {
            return -EPROTO;
        }
        if (status == RECORD_MORE) {
            return 0;
        }
        uint32_t payload_bytes = rpc->record.payload_bytes;
        rpc->rx_start += rpc->record.consumed;
        rpc->record = (struct record){0};
        if (!client_message(rpc, bytes + RPC_RECORD_MARK_BYTES, payload_bytes, now_ns)) {
            return -EPROTO;
        }
    }
    return 0;
}

/* Makes room for what the message that is arriving needs. Returns how much to receive, 0: no
 * memory. */
static uint32_t make_room(struct client_rpc *rpc)
{
    uint32_t have = rpc->rx_end - rpc->rx_start;
    uint32_t needed = have == 0 ? RPC_RECORD_MARK_BYTES : rpc->record.needed;

    if (have == 0) {
        rpc->rx_start = rpc->rx_end = 0;
    }
    if (rpc->rx_start + needed > rpc->rx_capacity) {
        uint8_t *bytes = rpc->rx + rpc->rx_start;
        if (have > 0) {
            uint32_t dense = (uint32_t)record_compact(&rpc->record, bytes, have);
            needed -= have - dense;
            have = dense;
            memmove(rpc->rx, bytes, have);
        }
        rpc->rx_start = 0;
        rpc->rx_end = have;
        /* Bounded: record_next lets no message be longer than reply_bytes_max. */
        if (needed > rpc->rx_capacity) {
            uint32_t capacity = needed > RX_BYTES ? needed + RPC_RECORD_MARK_BYTES : RX_BYTES;
            uint8_t *rx = realloc(rpc->rx, capacity);
            if (rx == NULL) {
                return 0;
            }
            rpc->rx = rx;
            rpc->rx_capacity = capacity;
        }
    }
    /* A long message ends where the buffer's use ends, so that nothing has to be moved. */
    uint32_t missing = needed > have ? needed - have : 0;
    return missing >= RX_EXACT_BYTES_MIN ? missing : rpc->rx_capacity - rpc->rx_end;
}

static void receive(struct client_rpc *rpc)
{
    for (unsigned i = 0; i < RECEIVE_ROUNDS_MAX && rpc->state == TCP_CONNECTED; i++) {
        uint32_t room = make_room(rpc);
        if (room == 0) {
            client_tcp_lost(rpc, -ENOMEM);
            return;
        }
        ssize_t got = recv(rpc->watch.fd, rpc->rx + rpc->rx_end, room, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got <= 0) {
            client_tcp_lost(rpc, got == 0 ? 0 : -errno);
            return;
        }
        rpc->rx_end += (uint32_t)got;
        int error = take_messages(rpc, client_loop_fresh_ns(rpc->loop));
        if (error != 0) {
            client_tcp_lost(rpc, error);
            return;
        }
        if ((size_t)got < room) {
            return;
        }
    }
}

/* ---- connecting ---- */

static void connected(struct client_rpc *rpc)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } local;
    socklen_t size = sizeof local;

    if (getsockname(rpc->watch.fd, &local.sa, &size) == 0) {
        rpc->source_port =
            ntohs(local.sa.sa_family == AF_INET6 ? local.in6.sin6_port : local.in.sin_port);
    }
    rpc->state = TCP_CONNECTED;
    rpc->stats.connections++;
    client_tell(rpc, CLIENT_CONNECTED, NULL, 0, 0);
    send_queue(rpc);
}

static void ready(struct client_watch *watch, uint32_t events)
{
    struct client_rpc *rpc = CONTAINER_OF(watch, struct client_rpc, watch);

    if (rpc->state == TCP_CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        (void)getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
            client_tcp_lost(rpc, -error);
        } else {
            connected(rpc);
        }
        return;
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        receive(rpc);
    }
    if ((events & EPOLLOUT) != 0 && rpc->state == TCP_CONNECTED) {
        client_flush_queue(rpc->loop, &rpc->flush);
    }
}

/* A peer that is gone without a word is noticed after about timeo. */
static void set_options(const struct client_rpc *rpc, int fd)
{
    int on = 1;
    int idle_s = (int)(rpc->options.timeo_ms / 1000) + 1;
    int interval_s = idle_s / 3 + 1;
    unsigned gone_ms = rpc->options.timeo_ms;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof gone_ms);
    if (rpc->options.receive_buffer_bytes > 0) {
        int bytes = (int)rpc->options.receive_buffer_bytes;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
}

static int try_connect(struct client_rpc *rpc, uint16_t port)
{
    int fd = client_socket(rpc, SOCK_STREAM, port);
    if (fd < 0) {
        return fd;
    }
    set_options(rpc, fd);
    if (connect(fd, &rpc->address.sa, rpc->options.address_bytes) != 0 && errno != EINPROGRESS) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static void connect_now(struct client_rpc *rpc)
{
    rpc->state = TCP_CONNECTING;
    int fd = try_connect(rpc, rpc->source_port);
    if ((fd == -EADDRNOTAVAIL || fd == -EADDRINUSE) && rpc->source_port != 0) {
        fd = try_connect(rpc, 0); /* the old connection still holds the port */
    }
    int error = fd < 0 ? fd : 0;
    if (error == 0) {
        rpc->watch = (struct client_watch){.fd = fd, .ready = ready};
        error = client_watch_set(rpc->loop, &rpc->watch, EPOLLOUT);
    }
    if (error != 0) {
        client_tcp_lost(rpc, error);
    }
}
