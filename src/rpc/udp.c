/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP sockets: a datagram is a call, its reply leaves from the address the call was sent to.
 */
#include "rpc/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void udp_event(struct loop *loop, struct udp *udp)
{
    udp->event = loop->woke;
    loop_ready(loop, &udp->source);
}

/* Turns the packet info of a call into that of its reply: same address, any interface. */
static void keep_control(struct udp_from *from, struct msghdr *msg)
{
    from->control_bytes = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        bool v4 = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO;
        bool v6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO;
        if (!v4 && !v6) {
            continue;
        }
        size_t size = v4 ? sizeof(struct in_pktinfo) : sizeof(struct in6_pktinfo);
        struct cmsghdr *to = (struct cmsghdr *)(void *)from->control;
        memset(from->control, 0, sizeof from->control);
        to->cmsg_level = c->cmsg_level;
        to->cmsg_type = c->cmsg_type;
        to->cmsg_len = CMSG_LEN(size);
        if (v4) {
            struct in_pktinfo asked;
            struct in_pktinfo reply = {0};
            memcpy(&asked, CMSG_DATA(c), sizeof asked);
            reply.ipi_spec_dst = asked.ipi_spec_dst;
            struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr = asked.ipi_spec_dst};
            peer_set_local(&from->peer, (struct sockaddr *)&local);
            memcpy(CMSG_DATA(to), &reply, sizeof reply);
        } else {
            struct in6_pktinfo asked;
            memcpy(&asked, CMSG_DATA(c), sizeof asked);
            struct sockaddr_in6 local = {.sin6_family = AF_INET6, .sin6_addr = asked.ipi6_addr};
            peer_set_local(&from->peer, (struct sockaddr *)&local);
            if (!IN6_IS_ADDR_LINKLOCAL(&asked.ipi6_addr)) {
                asked.ipi6_ifindex = 0;
            }
            memcpy(CMSG_DATA(to), &asked, sizeof asked);
        }
        from->control_bytes = CMSG_SPACE(size);
        return;
    }
}

static bool fill_buffers(struct loop *loop, struct udp *udp)
{
    for (uint32_t i = 0; i < UDP_BATCH_COUNT; i++) {
        if (udp->buffers[i] == NULL && (udp->buffers[i] = rxbuf_small(loop)) == NULL) {
            return i > 0;
        }
    }
    return true;
}

static void receive(struct loop *loop, struct udp *udp)
{
    struct mmsghdr messages[UDP_BATCH_COUNT] = {0};
    struct iovec iovs[UDP_BATCH_COUNT];
    _Alignas(struct cmsghdr) uint8_t controls[UDP_BATCH_COUNT][128];
    unsigned count = 0;

    udp->index = udp->count = 0;
    if (!fill_buffers(loop, udp)) {
        return;
    }
    while (count < UDP_BATCH_COUNT && udp->buffers[count] != NULL) {
        iovs[count] = (struct iovec){udp->buffers[count]->bytes, UDP_BYTES_MAX};
        messages[count].msg_hdr = (struct msghdr){
            .msg_name = &udp->from[count].address,
            .msg_namelen = sizeof udp->from[count].address,
            .msg_iov = &iovs[count],
            .msg_iovlen = 1,
            .msg_control = controls[count],
            .msg_controllen = sizeof controls[count],
        };
        count++;
    }
    int n = recvmmsg(udp->source.fd, messages, count, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        struct udp_from *from = &udp->from[i];
        from->address_bytes = messages[i].msg_hdr.msg_namelen;
        peer_set(&from->peer, &from->address, false);
        from->peer.local_port = udp->port;
        keep_control(from, &messages[i].msg_hdr);
        udp->sizes[i] = messages[i].msg_len;
        loop_count(&loop->stats.bytes_in, messages[i].msg_len);
    }
    udp->count = n > 0 ? (uint32_t)n : 0;
    udp->arrived = loop_stamp(loop);
    if (udp->event != 0) {
        udp->arrived = udp->event;
        udp->event = 0;
    }
    udp->batch = atomic_fetch_add_explicit(&loop->server->batch, 1, memory_order_relaxed) + 1;
}

void udp_tally(struct loop *loop, const struct rpc_peer *peer, const struct sample *sample,
               bool has_reply)
{
    struct tally_client *client = tally_client_get(&loop->tally, peer, loop->now_ms);
    tally_add(&loop->tally, client, sample, 1, has_reply ? loop_stamp(loop) : 0, loop->now_ms);
    tally_client_put(client);
}

bool udp_turn(struct loop *loop, struct worker *worker, struct udp *udp)
{
    if (udp->index == udp->count) {
        receive(loop, udp);
    }
    while (udp->index < udp->count) {
        uint32_t i = udp->index++;
        struct dest dest = {.udp = udp, .from = &udp->from[i]};
        if (share_is_used_up(loop->server, &udp->from[i].peer)) {
            loop_count(&loop->stats.held_back, 1);
            continue;
        }
        if (!dispatch(loop, worker, &udp->service, &dest, &udp->from[i].peer, udp->buffers[i],
                      udp->buffers[i]->bytes, udp->sizes[i], udp->batch)) {
            return false;
        }
    }
    if (udp->count == UDP_BATCH_COUNT) {
        loop_ready(loop, &udp->source);
    }
    return true;
}

static void send_datagram(struct udp *udp, const struct udp_from *from, struct iovec *iov,
                          size_t iov_count)
{
    struct msghdr msg = {
        .msg_name = (void *)(uintptr_t)&from->address,
        .msg_namelen = from->address_bytes,
        .msg_iov = iov,
        .msg_iovlen = iov_count,
        .msg_control = from->control_bytes > 0 ? (void *)(uintptr_t)from->control : NULL,
        .msg_controllen = from->control_bytes,
    };
    if (sendmsg(udp->source.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        /* A datagram that cannot be sent now is a datagram lost: the client will ask again. */
        static struct log_limit limit;
        char peer[64];
        log_write_limited(&limit, LOG_INFO, "%s: a reply over UDP could not be sent: %s",
                          peer_text(&from->peer, peer), strerror(errno));
    }
}

void udp_reply(struct udp *udp, const struct udp_from *from, struct reply *reply,
               struct worker *worker)
{
    static const uint8_t zeros[4];
    uint8_t *room = reply->bytes + reply->size;
    uint32_t room_bytes = REPLY_BUFFER_BYTES - reply->size;

    CHECK(reply->bytes == worker->reply_buffer);
    if (reply_load_file(reply, room, room_bytes)) {
        struct iovec iov[3] = {
            {reply->bytes + REPLY_MARK_BYTES, reply->size - REPLY_MARK_BYTES},
            {(void *)(uintptr_t)reply->tail.data, reply->tail.size},
            {(void *)(uintptr_t)zeros, xdr_padding(reply->tail.size)},
        };
        send_datagram(udp, from, iov, COUNT_OF(iov));
    }
    reply_drop(reply);
}

void udp_send(struct udp *udp, const struct udp_from *from, const struct out *out)
{
    static const uint8_t zeros[4];
    struct iovec iov[3] = {
        {(void *)(uintptr_t)(out->bytes + REPLY_MARK_BYTES), out->size - REPLY_MARK_BYTES},
        {(void *)(uintptr_t)out->tail.data, out->tail.size},
        {(void *)(uintptr_t)zeros, xdr_padding(out->tail.size)},
    };
    send_datagram(udp, from, iov, COUNT_OF(iov));
}

void udp_close(struct udp *udp)
{
    for (uint32_t i = 0; i < UDP_BATCH_COUNT; i++) {
        free(udp->buffers[i]);
    }
    close(udp->source.fd);
    free(udp->service.programs);
    free(udp);
}
