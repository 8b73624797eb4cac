/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC server (RFC 5531): takes calls from TCP and UDP, runs procedures, sends replies.
 *
 * A procedure is a straight-line function. It never waits for stable storage: it leaves in
 * call->lsn the journal sequence number its reply depends on, and the server parks the encoded
 * reply until rpc_server_release() says that everything up to there is durable.
 *
 * A procedure may block (a cold disk block, a busy file system): the thread that runs it loses its
 * event loop to another thread then, so that its neighbours are served (see loop.c).
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include "base/err.h"
#include "xdr/stream.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct rpc_server;
struct rpc_call;

#define RPC_GIDS_MAX 16

/* RFC 5531 §8.2. Valid while the procedure runs. */
struct rpc_cred {
    uint32_t flavor; /* AUTH_NONE (0) or AUTH_SYS (1); others never reach a procedure */
    uint32_t uid;    /* AUTH_SYS only, 0 otherwise, and so for the rest */
    uint32_t gid;
    uint32_t gid_count;
    uint32_t gids[RPC_GIDS_MAX];
    struct xdr_bytes machinename;
};

/* Who sent the call. IPv4 over a dual-stack socket is given as plain IPv4 (AF_INET). */
struct rpc_peer {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_storage storage;
    } address;
    bool is_tcp;
    bool is_local;             /* came over the AF_UNIX socket; address is then loopback */
    uint32_t local_uid;        /* is_local: whose process connected; UINT32_MAX: not known */
    uint16_t local_port;       /* the port the call was sent to, host order */
    uint8_t local_address[16]; /* and the address, IPv4 mapped; all zero: not known */
};

/* Part of a file that follows the encoded reply, sent without a copy (struct xdr, `tail`). */
struct rpc_file {
    int fd;
    uint64_t offset;
    uint32_t size;                /* 0: there is none */
    void (*release)(void *owner); /* called once, from any thread, when the bytes are sent */
    void *owner;
};

/* Memory that follows the encoded reply; release as above. NULL release: it is call memory. */
struct rpc_memory {
    void (*release)(void *owner);
    void *owner;
};

struct rpc_procedure {
    const char *name; /* RFC spelling, "NFSPROC3_GETATTR"; NULL: a hole, answered PROC_UNAVAIL */
    bool (*decode)(struct xdr *xdr, void *args);
    void (*run)(struct rpc_call *call, const void *args, void *res);
    bool (*encode)(struct xdr *xdr, const void *res);
    /* Makes *res (zeroed) say that the change could not be made durable: -errno in error. NULL: the
     * reply is dropped. Must be set wherever run may leave an lsn. */
    void (*fail)(void *res, int error);
    uint32_t args_bytes; /* sizeof; both are zeroed before use */
    uint32_t res_bytes;
    uint32_t reply_bytes_max;  /* encoded results but a deferred tail, no more are sent; 0: 1 KiB */
    bool cached;               /* not idempotent: the reply is kept for retransmissions */
    bool cached_over_udp_only; /* with cached: harmless to run again, unless a copy is late */
};

struct rpc_version {
    uint32_t vers;
    uint32_t procedure_count;
    const struct rpc_procedure *procedures; /* indexed by procedure number */
};

struct rpc_program {
    uint32_t prog;
    const char *name;
    uint32_t version_count;
    const struct rpc_version *versions; /* ascending */
    void *service;                      /* call->service */
};

struct rpc_call {
    uint32_t xid;
    uint32_t prog;
    uint32_t vers;
    uint32_t proc;
    const struct rpc_procedure *procedure;
    struct rpc_cred cred;
    const struct rpc_peer *peer;
    struct rpc_server *server;
    void *service;
    /* Calls that arrived together share a batch number, and no later call has it: what was read
     * from the file system for one of them is fresh enough for all of them. */
    uint64_t batch;
    /* Set by the procedure. */
    uint64_t lsn;             /* the reply waits until this is durable; 0: for nothing */
    struct rpc_file file;     /* bytes for the deferred tail, if its data is NULL */
    struct rpc_memory memory; /* owner of the deferred tail's data */
    bool drop;                /* send nothing (the procedure wants the client to ask again) */
    uint64_t group;           /* what it is counted under, beside its client; see rpc/stats.h */
    bool failed;              /* counted as an error: the reply says no */
};

/* Memory that lives until the reply of this call is encoded; never NULL for size_bytes up to
 * RPC_CALL_MEMORY_MAX, aligned to 16. For the thread that runs the procedure. */
#define RPC_CALL_MEMORY_MAX (160U * 1024)
void *rpc_call_memory(struct rpc_call *call, size_t size_bytes);

/* Whether the call came over UDP from an address that no export names (options.is_known): it may be
 * of somebody who wrote another's address on it, to whom a long reply would go. */
bool rpc_call_may_be_forged(const struct rpc_call *call);

/*
 * Table rows. The thunk gives a typed procedure the table's signature:
 *
 *     RPC_THUNK(nfs3_getattr)
 *     [NFSPROC3_GETATTR] = RPC_ROW(nfs3_getattr, GETATTR3args, GETATTR3res, ...designated extras)
 *
 * ARGS and RES name generated types with ARGS_get(struct xdr *, struct ARGS *) and
 * RES_put(struct xdr *, const struct RES *). For void arguments or results use rpc_void.
 */
struct rpc_void {
    char nothing;
};
static inline bool rpc_void_get(struct xdr *xdr, struct rpc_void *nothing)
{
    (void)nothing;
    return xdr_ok(xdr);
}
static inline bool rpc_void_put(struct xdr *xdr, const struct rpc_void *nothing)
{
    (void)nothing;
    return xdr_ok(xdr);
}
#define RPC_THUNK(function, ARGS, RES)                                                             \
    static bool function##_decode(struct xdr *xdr, void *args)                                     \
    {                                                                                              \
        return ARGS##_get(xdr, (struct ARGS *)args);                                               \
    }                                                                                              \
    static void function##_run(struct rpc_call *call, const void *args, void *res)                 \
    {                                                                                              \
        function(call, (const struct ARGS *)args, (struct RES *)res);                              \
    }                                                                                              \
    static bool function##_encode(struct xdr *xdr, const void *res)                                \
    {                                                                                              \
        return RES##_put(xdr, (const struct RES *)res);                                            \
    }
#define RPC_ROW(NAME, function, ARGS, RES, ...)                                                    \
    {                                                                                              \
        .name = NAME, .decode = function##_decode, .run = function##_run,                          \
        .encode = function##_encode, .args_bytes = sizeof(struct ARGS),                            \
        .res_bytes = sizeof(struct RES), __VA_ARGS__                                               \
    }

/* A reply of the cache (rpc/drc.h), with what identifies its call. */
struct rpc_kept_reply {
    uint8_t address[16]; /* of the client; IPv4 in the last four bytes */
    uint16_t port;       /* network order */
    bool is_tcp;
    uint32_t xid, prog, vers, proc;
    uint32_t call_bytes;
    uint64_t call_checksum;
    const uint8_t *bytes; /* without a record mark */
    uint32_t size;
};

struct rpc_server_options {
    uint32_t loop_count;           /* 0: one per CPU */
    uint32_t thread_count_max;     /* threads that may be blocked in procedures; 0: 128 */
    uint32_t connection_count_max; /* 0: what the descriptor limit allows */
    uint32_t idle_ms;              /* a connection silent for longer is closed; 0: 360,000 */
    uint32_t
        record_bytes_max; /* larger calls are refused before memory is taken; 0: 1 MiB + 64 KiB */
    uint32_t half_bytes_max; /* memory for calls that have not arrived whole; 0: 128 MiB */
    /* Whether some export names this host: when memory is short, others are let go first. On any
     * thread that runs procedures; must not block. NULL: every host is. */
    bool (*is_known)(void *arg, const struct sockaddr *peer);
    /* Called once on each thread that will run procedures, before the first one. May be NULL. */
    void (*thread_begin)(void *arg);
    /* Called after each procedure, on its thread, when its reply is encoded: so that a reply that
     * goes into the cache can be kept together with what the procedure has changed. NULL: it goes
     * into no cache. May be NULL. */
    void (*replied)(void *arg, const struct rpc_kept_reply *reply);
    /*
     * While the calls of one client alone keep a loop busy, its thread has nothing to do but wait
     * for what they have changed to be durable, so it may as well do that itself. All three or
     * none. `promise` is called before the calls are run, and on the same thread `keep_promise`
     * when they have run: it may block, and calls rpc_server_release. `break_promises`, on any
     * thread: one that has promised is blocked.
     */
    void (*promise)(void *arg);
    void (*keep_promise)(void *arg);
    void (*break_promises)(void *arg);
    void *arg;
};

int rpc_server_open(const struct rpc_server_options *options, struct rpc_server **server,
                    struct err *err) MUST_USE;

/* Serves programs (which must outlive the server) at an address, on a port of 0 at any free one.
 * type is SOCK_STREAM or SOCK_DGRAM; for AF_UNIX the path is unlinked first and on close.
 * Before rpc_server_run only. Returns 0 or -errno; *port (may be NULL) is the bound port. */
int rpc_server_listen(struct rpc_server *server, const struct sockaddr *address,
                      socklen_t address_bytes, int type, const struct rpc_program *const *programs,
                      size_t program_count, uint16_t *port, struct err *err) MUST_USE;

/* Serves a socket that somebody else has bound (and put to listen). Owns fd on success. */
int rpc_server_adopt(struct rpc_server *server, int fd, const struct rpc_program *const *programs,
                     size_t program_count, uint16_t *port, struct err *err) MUST_USE;

/* Puts a reply that was kept back into the cache. Before rpc_server_run only. */
void rpc_server_restore(struct rpc_server *server, const struct rpc_kept_reply *reply);

/* Starts the threads and returns. */
int rpc_server_run(struct rpc_server *server, struct err *err) MUST_USE;

/* Numbers of different lanes have nothing to do with each other: each journal has one. */
#define RPC_LANE_COUNT 64U
#define RPC_LANE_SHIFT 56 /* the lane of an lsn is what is above */

/* Everything of its lane up to lsn has met its end: error 0, it is durable; otherwise (-errno) the
 * replies that waited for it and for nothing newer are turned into failures. lsn never goes back
 * within its lane. Any thread. */
void rpc_server_release(struct rpc_server *server, uint64_t lsn, int error);

/* Stops taking calls, finishes the ones that run, waits a moment for parked replies to be released,
 * sends what can be sent at once, and joins the threads. rpc_server_release is allowed during it
 * and after it, until rpc_server_close begins. */
void rpc_server_stop(struct rpc_server *server);

/* Stops if that was not done, and frees. */
void rpc_server_close(struct rpc_server *server);

/* Numbers for status, a snapshot. Any thread. */
struct rpc_server_stats {
    uint64_t calls, replies, bytes_in, bytes_out;
    uint64_t garbage, refused_auth, cache_hits, cache_dropped, parked, held_back, takeovers;
    uint32_t connections;
};
void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *stats);

#endif
