/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP: a datagram is a message. What the kernel does not take counts as sent and lost; the call's
 * timer sends it again.
 */
#include "client/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

/* Replies arrive in bursts, of many fragments each; what the default buffer loses costs a timeout.
 */
#define RECEIVE_BUFFER_BYTES (4U << 20)
#define RECEIVE_ROUNDS_MAX 8U /* before other descriptors have their turn */

struct udp_batch {
    uint8_t bytes[UDP_BATCH][UDP_BYTES_MAX];
};

static void refused(struct client_rpc *rpc, int error)
{
    rpc->stats.refused++;
    client_tell(rpc, CLIENT_REFUSED, NULL, error, 0);
    if (!rpc->contact && rpc->options.fail_before_contact) {
        client_fail_all(rpc, error);
    }
}

static void receive_batch(struct client_rpc *rpc, int *received)
{
    struct mmsghdr messages[UDP_BATCH];
    struct iovec iovecs[UDP_BATCH];

    for (unsigned i = 0; i < UDP_BATCH; i++) {
        iovecs[i] = (struct iovec){rpc->batch->bytes[i], UDP_BYTES_MAX};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iovecs[i], .msg_iovlen = 1}};
    }
    *received = recvmmsg(rpc->watch.fd, messages, UDP_BATCH, MSG_DONTWAIT, NULL);
    if (*received < 0) {
        *received = 0;
        if (errno != EAGAIN && errno != EINTR) {
            refused(rpc, -errno); /* an ICMP message: nobody listens there, or no way leads there */
        }
        return;
    }
    int64_t now_ns = client_loop_fresh_ns(rpc->loop);
    for (int i = 0; i < *received; i++) {
        (void)client_message(rpc, rpc->batch->bytes[i], messages[i].msg_len, now_ns);
    }
}

static void ready(struct client_watch *watch, uint32_t events)
{
    struct client_rpc *rpc = CONTAINER_OF(watch, struct client_rpc, watch);
    int received = (int)UDP_BATCH;

    for (unsigned i = 0; i < RECEIVE_ROUNDS_MAX && received == (int)UDP_BATCH; i++) {
        receive_batch(rpc, &received);
    }
    if ((events & EPOLLOUT) != 0) {
        client_flush_queue(rpc->loop, &rpc->flush);
    }
}

int client_udp_open(struct client_rpc *rpc)
{
    uint32_t wanted = rpc->options.receive_buffer_bytes;
    int buffer_bytes = (int)(wanted > 0 ? wanted : RECEIVE_BUFFER_BYTES);
    int fd = client_socket(rpc, SOCK_DGRAM, 0);

    if (fd < 0) {
        return fd;
    }
    rpc->watch = (struct client_watch){.fd = fd, .ready = ready};
    rpc->batch = malloc(sizeof *rpc->batch);
    if (rpc->batch == NULL) {
        return -ENOMEM;
    }
    if (wanted > 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    if (connect(fd, &rpc->address.sa, rpc->options.address_bytes) != 0) {
        return -errno;
    }
    return client_watch_set(rpc->loop, &rpc->watch, EPOLLIN);
}

void client_udp_close(struct client_rpc *rpc)
{
    if (rpc->watch.fd >= 0) {
        client_watch_clear(rpc->loop, &rpc->watch);
        close(rpc->watch.fd);
        rpc->watch.fd = -1;
    }
    free(rpc->batch);
    rpc->batch = NULL;
}

/* A failure shows as calls that wait for their timers. */
static void watch(struct client_rpc *rpc, uint32_t events)
{
    int error = client_watch_set(rpc->loop, &rpc->watch, events);
    if (error != 0) {
        refused(rpc, error);
    }
}

/* Sends up to `limit` calls of the queue with one system call. Returns how many left it. */
static uint32_t send_batch(struct client_rpc *rpc, uint32_t limit, int *error)
{
    struct mmsghdr messages[UDP_BATCH];
    struct iovec iovecs[UDP_BATCH][3];
    uint32_t count = 0;

    for (struct call *call = rpc->queue.first; call != NULL && count < limit && count < UDP_BATCH;
         call = call->next) {
        unsigned parts = client_call_iovecs(call, RPC_RECORD_MARK_BYTES, iovecs[count]);
        messages[count] =
            (struct mmsghdr){.msg_hdr = {.msg_iov = iovecs[count], .msg_iovlen = parts}};
        count++;
    }
    int64_t now_ns = client_loop_fresh_ns(rpc->loop); /* the answer may come before this returns */
    int sent = sendmmsg(rpc->watch.fd, messages, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    *error = sent < 0 ? -errno : 0;
    for (int i = 0; i < sent; i++) {
        client_call_sent(rpc, rpc->queue.first, now_ns);
    }
    return sent > 0 ? (uint32_t)sent : 0;
}

/* The first datagram of the queue was not taken. Returns false: the socket wants a rest. */
static bool not_taken(struct client_rpc *rpc, int error)
{
    struct call *call = rpc->queue.first;

    switch (error) {
    case -EAGAIN:
        watch(rpc, EPOLLIN | EPOLLOUT);
        return false;
    case -EINTR:
        return true;
    case -EMSGSIZE:
        client_call_fail(rpc, call, error);
        return true;
    case -ECONNREFUSED:
        /* That was about an earlier datagram; the error is cleared now, and this one was not tried.
         */
        refused(rpc, error);
        return true;
    default:
        client_call_sent(rpc, call, client_loop_now_ns(rpc->loop));
        refused(rpc, error);
        return true;
    }
}

void client_udp_flush(struct client_rpc *rpc)
{
    if ((rpc->watch.events & EPOLLOUT) != 0) {
        watch(rpc, EPOLLIN);
    }
    while (rpc->queue.count > 0 && rpc->sent.count < rpc->window_256ths / 256) {
        int error;
        uint32_t sent = send_batch(rpc, rpc->window_256ths / 256 - rpc->sent.count, &error);
        if (sent == 0 && !not_taken(rpc, error)) {
            return;
        }
    }
}
