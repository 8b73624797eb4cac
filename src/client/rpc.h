/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RPC client (RFC 5531): one program and version of one server, over UDP or TCP.
 *
 * 1. A call is answered exactly once, through its callback: with results, or with an error. Never
 *    from within client_rpc_call, always from within client_loop_turn or client_rpc_close.
 * 2. A call keeps its xid for life, over retransmissions and reconnections, so that the server's
 *    reply cache can do its work.
 * 3. UDP: a call without a reply is sent again, with exponential backoff. The first timeout is
 *    estimated per class of procedures from replies to calls that were sent once (Jacobson, Karn);
 *    for procedures that are rare it is `timeo`. As many calls as the congestion window allows are
 *    on the way; the others wait, and their timers stand still meanwhile. TCP: backoff is linear;
 *    when the connection is lost, it is made again, and all calls without a reply are sent again.
 * 4. hard: calls are tried for ever. soft: a call fails with -ETIMEDOUT after `retrans`
 *    retransmissions without a reply. Words and defaults are those of nfs(5).
 * 5. Bytes from the server are never trusted: a broken reply fails its call with -EBADMSG, a broken
 *    stream is closed and opened again, and after CLIENT_BROKEN_STREAMS_MAX in a row the calls fail
 *    with -EPROTO, hard or not. Memory for replies is bounded by reply_bytes_max.
 */
#ifndef CLIENT_RPC_H
#define CLIENT_RPC_H

#include "base/err.h"
#include "client/loop.h"
#include "proto/codec.h"

#include <sys/socket.h>

struct client_rpc;
struct client_reply;
typedef void client_reply_fn(void *owner, const struct client_reply *reply);

#define CLIENT_CALL_COUNT_MAX 65536U /* calls of one client without a reply; more: -EAGAIN */
#define CLIENT_BROKEN_STREAMS_MAX 3U
#define CLIENT_GIDS_MAX 16U /* RFC 5531 Appendix A */
/* An opaque argument of at least this many bytes is not copied (WRITE data): its memory must not
 * change until the call's callback. All other arguments are free when client_rpc_call returns. */
#define CLIENT_BORROWED_BYTES_MIN 2048U

/* AUTH_SYS. */
struct client_cred {
    bool none; /* AUTH_NONE instead */
    uint32_t uid;
    uint32_t gid;
    uint32_t gid_count;
    uint32_t gids[CLIENT_GIDS_MAX];
};

/* Everything that can be seen happening. */
enum client_event_kind {
    CLIENT_SENT,           /* a call, for the first time */
    CLIENT_RETRANSMITTED,  /* a call, again */
    CLIENT_REFUSED,        /* the kernel did not take a datagram: error; counted as sent and lost */
    CLIENT_REPLIED,        /* the first reply of a call */
    CLIENT_LATE_DUPLICATE, /* one more reply of a call that has its reply */
    CLIENT_STRAY,          /* bytes that answer nothing we asked */
    CLIENT_TIMED_OUT,      /* a timer ran out; what follows is a retransmission or the end */
    CLIENT_NOT_RESPONDING, /* hard: `retrans` retransmissions without a reply, or ten seconds
                            * without one while calls wait; said once, until */
    CLIENT_RESPONDING,     /* it answers again */
    CLIENT_CONNECTED,      /* TCP; transmission counts connections, from 1 */
    CLIENT_DISCONNECTED,   /* TCP; error says why, 0: the server closed */
    CLIENT_BROKEN          /* TCP; the stream made no sense and was closed */
};

struct client_event {
    enum client_event_kind kind;
    int error; /* -errno */
    uint32_t xid;
    uint32_t proc;
    uint32_t transmission; /* of this call, from 1 */
    uint32_t bytes;        /* of the RPC message */
    int64_t now_ns;        /* CLOCK_MONOTONIC */
    int64_t wait_ns;       /* REPLIED: since the last transmission; TIMED_OUT: how long it was */
};

struct client_rpc_options {
    struct client_loop *loop;
    const struct sockaddr *address;
    socklen_t address_bytes;
    uint32_t prog;
    uint32_t vers;
    bool tcp;
    struct client_cred cred;
    bool insecure; /* do not ask for a source port below 1024 (only root can have one) */
    const struct sockaddr *source; /* the address to call from, without a port; NULL: any */
    bool soft;
    /* Until the server has answered once: a connection that cannot be made, or a datagram that
     * nobody takes, fails the calls at once, also when hard. */
    bool fail_before_contact;
    bool once;               /* UDP: never sent again, for those who measure loss; implies soft */
    uint32_t timeo_ms;       /* 0: 1,100 over UDP, 60,000 over TCP */
    uint32_t retrans;        /* 0: 3 over UDP, 2 over TCP */
    uint32_t timeout_ms_max; /* where backoff ends; 0: 60,000 over UDP, 600,000 over TCP */
    uint32_t rto_ms_min;     /* no estimated UDP timeout is shorter; 0: 100 */
    uint32_t udp_window;     /* calls on the way over UDP; 0: adaptive, as congestion allows */
    uint32_t receive_buffer_bytes; /* SO_RCVBUF; 0: large over UDP, the system's over TCP */
    uint32_t reply_bytes_max;      /* 0: 1 MiB + 64 KiB */
    void (*on_event)(void *owner, const struct client_event *event); /* may be NULL */
    void *owner;
    /* What client_rpc_call does, for callers that speak another version than the server's (nfs2.h);
     * it uses client_rpc_call_as. NULL: they speak the same. */
    int (*speak)(struct client_rpc *rpc, uint32_t proc, const void *args, client_reply_fn *replied,
                 void *owner);
};

/* Does not wait for anything; a TCP connection is made when the first call is. */
int client_rpc_open(const struct client_rpc_options *options, struct client_rpc **rpc,
                    struct err *err) MUST_USE;

/* Outstanding calls fail with -ECANCELED. Not from within a callback of the same client. NULL is
 * allowed. */
void client_rpc_close(struct client_rpc *rpc);

/* Where in RFC 5531 §9 a call came to its end. */
enum client_rpc_fault {
    CLIENT_NO_FAULT,
    CLIENT_FAULT_PROG_UNAVAIL,  /* -EPROTONOSUPPORT */
    CLIENT_FAULT_PROG_MISMATCH, /* -EPROTONOSUPPORT; low, high */
    CLIENT_FAULT_PROC_UNAVAIL,  /* -EOPNOTSUPP */
    CLIENT_FAULT_GARBAGE_ARGS,  /* -EINVAL */
    CLIENT_FAULT_SYSTEM_ERR,    /* -EREMOTEIO */
    CLIENT_FAULT_RPC_MISMATCH,  /* -EPROTONOSUPPORT; low, high */
    CLIENT_FAULT_AUTH,          /* -EACCES; auth_stat */
    CLIENT_FAULT_REPLY,         /* -EBADMSG: the reply does not decode */
    CLIENT_FAULT_TRANSPORT      /* no reply: -ETIMEDOUT, -ECONNREFUSED, -EPROTO, -ECANCELED, ... */
};

/* What a callback gets; all of it is valid until the callback returns. */
struct client_reply {
    int error; /* 0: res holds the results */
    enum client_rpc_fault fault;
    uint32_t low, high, auth_stat;
    uint32_t xid;
    uint32_t proc;
    const void *res; /* the generated struct; NULL if the procedure has no results */
    const struct proto_codec *codec; /* of res */
    struct xdr_bytes results;        /* the same as bytes */
    uint32_t transmissions;
    int64_t queued_ns, first_sent_ns, sent_ns, received_ns; /* 0: did not happen */
};

/* Starts a call. args is the procedure's generated struct, NULL if it has none. Returns 0, -EAGAIN
 * (too many calls), -ENOMEM, -EOPNOTSUPP (no such procedure is described, except 0), or -EINVAL
 * (args do not encode). */
int client_rpc_call(struct client_rpc *rpc, uint32_t proc, const void *args,
                    client_reply_fn *replied, void *owner) MUST_USE;

/* The same for a procedure that this describes, whatever the program is. It has no results, or is
 * one of the client's program and version. */
int client_rpc_call_as(struct client_rpc *rpc, const struct proto_procedure *procedure,
                       uint32_t proc, const void *args, client_reply_fn *replied,
                       void *owner) MUST_USE;

/* What a reply that is an error means: "the server has versions 2 to 3 of it". */
#define CLIENT_TEXT_BYTES_MAX 160U
const char *client_reply_text(const struct client_reply *reply, char text[CLIENT_TEXT_BYTES_MAX]);

struct client_rpc_stats {
    uint64_t sent, retransmitted, refused, replied, late_duplicates, strays, timeouts;
    uint64_t connections, broken;
    uint64_t bytes_sent, bytes_received;
    uint32_t outstanding; /* calls without a reply */
    uint32_t window;      /* UDP: calls that may be on the way; 0 over TCP */
};
void client_rpc_stats(const struct client_rpc *rpc, struct client_rpc_stats *stats);

/* The first timeout a call of this procedure would get now. */
uint32_t client_rpc_timeout_ms(const struct client_rpc *rpc, uint32_t proc);

#endif
