/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared inside client/: what rpc.c, udp.c and tcp.c know of each other.
 *
 * A call is in exactly one list: `queue` (waits to be sent, for the first time or again) or `sent`
 * (its bytes are with the kernel). The timer stands at or before the earliest deadline of both; it
 * is not moved when a reply arrives.
 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include "client/rpc.h"
#include "client/rto.h"
#include "rpc/record.h"

#include <netinet/in.h>

#define BUCKET_COUNT 4096U
#define FREE_CALL_COUNT_MAX 1024U
#define INLINE_BYTES 640U
#define AUTH_BYTES_MAX 420U /* credential and verifier, encoded */
#define UDP_BATCH 32U
#define UDP_BYTES_MAX 65536U

struct call {
    struct call *next, *prev;
    struct call_list *list;
    struct call *chain; /* in its bucket */
    uint32_t xid;
    uint32_t proc;
    const struct proto_procedure *procedure;
    client_reply_fn *replied;
    void *owner;
    uint32_t transmissions;
    uint32_t timeouts;
    int64_t queued_ns, first_sent_ns, sent_ns;
    int64_t timeout_ns; /* what deadline_ns was made of */
    int64_t deadline_ns;
    /* The message: room for a record mark, head and arguments; then the tail and its padding. */
    uint8_t *bytes;
    uint32_t size_bytes; /* with the mark, without the tail */
    struct xdr_bytes tail;
    uint8_t inline_bytes[INLINE_BYTES];
};

struct call_list {
    struct call *first, *last;
    uint32_t count;
};

enum tcp_state { TCP_CLOSED, TCP_PAUSING, TCP_CONNECTING, TCP_CONNECTED };

struct udp_batch; /* receive buffers */

struct client_rpc {
    struct client_rpc_options options; /* defaults filled in */
    struct client_loop *loop;
    union {
        struct sockaddr sa;
        struct sockaddr_storage storage;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address, source;                   /* source: all zero, or of the same family */
    const struct proto_version *version; /* NULL: not described, only procedure 0 */
    int64_t timeo_ns, timeout_ns_max, rto_ns_min;
    struct rto rto[RTO_CLASS_COUNT];
    uint32_t xid_first, xid_next;
    struct call *buckets[BUCKET_COUNT];
    struct call_list queue, sent, unused;
    uint8_t auth[AUTH_BYTES_MAX];
    uint32_t auth_bytes;
    void *res; /* room for any results of the version */
    bool not_responding;
    bool contact; /* the server has answered */
    int64_t replied_ns; /* when it last did */
    bool closing;
    struct client_watch watch;
    struct client_timer timer; /* of calls */
    struct client_flush flush;
    struct client_rpc_stats stats;
    /* UDP */
    struct udp_batch *batch;
    uint32_t window_256ths; /* calls that may be on the way, times 256 */
    int64_t window_cut_ns;  /* when it was last made smaller */
    /* TCP */
    enum tcp_state state;
    struct client_timer pause; /* before the next connection */
    int64_t pause_ns;
    uint16_t source_port; /* of the last connection: reply caches know us by it */
    uint32_t offset;      /* how much of the first call in the queue was sent */
    uint32_t broken_streams;
    uint8_t *rx;
    uint32_t rx_start, rx_end, rx_capacity;
    struct record record;
};

void client_call_list_append(struct call_list *list, struct call *call);
void client_call_list_remove(struct call *call);
/* All of `from` in front of `to`, in their order. */
void client_call_list_prepend_all(struct call_list *to, struct call_list *from);

static inline uint32_t call_tail_bytes(const struct call *call)
{
    return call->tail.size + xdr_padding(call->tail.size);
}

/* Fills two or three iovecs with a call's message from its byte `skip` on; returns how many. */
unsigned client_call_iovecs(const struct call *call, uint32_t skip, struct iovec iovecs[3]);

/* The call's bytes are with the kernel: from `queue` to `sent`, with a deadline. */
void client_call_sent(struct client_rpc *rpc, struct call *call, int64_t now_ns);

/* Ends a call without a reply. */
void client_call_fail(struct client_rpc *rpc, struct call *call, int error);
void client_fail_all(struct client_rpc *rpc, int error);

/* A message arrived. Returns false if it makes no sense on a stream. */
bool client_message(struct client_rpc *rpc, const uint8_t *bytes, size_t size_bytes,
                    int64_t now_ns);

void client_tell(struct client_rpc *rpc, enum client_event_kind kind, const struct call *call,
                 int error, uint32_t bytes);

/* A socket of the right kind, bound to a reserved port if that is asked for and allowed, or to
 * `port` if that is not 0 and free. Returns the descriptor or -errno. */
int client_socket(const struct client_rpc *rpc, int type, uint16_t port);

int client_udp_open(struct client_rpc *rpc) MUST_USE;
void client_udp_close(struct client_rpc *rpc);
void client_udp_flush(struct client_rpc *rpc);

void client_tcp_close(struct client_rpc *rpc);
void client_tcp_flush(struct client_rpc *rpc);
void client_tcp_pause_expired(struct client_timer *timer);
/* The connection, if there is one, is no good: all calls wait for the next. */
void client_tcp_lost(struct client_rpc *rpc, int error);

#endif
