/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server has counted: for each client, each group (whatever the service calls so with
 * rpc_call.group: NFS has exports there) and each procedure, how many calls there were, and how
 * long they took, in which phase.
 *
 *     arrived --QUEUE--> procedure begins --RUN--> encoded --STABLE--> durable --SEND--> sent
 *
 * QUEUE begins when the event loop was told of the bytes that made the call whole: what it waited
 * in the kernel before that is not seen. RUN is decoding, procedure and encoding. STABLE is for
 * replies that were parked (rpc/park.c), and only those are in its histogram. SEND ends when the
 * socket has taken the last byte; calls whose client went away before are not in it.
 *
 * Memory is bounded: clients beyond STATS_CLIENT_COUNT_MAX are counted together, as others. Who has
 * been quiet for STATS_QUIET_MS makes room for who comes.
 */
#ifndef RPC_STATS_H
#define RPC_STATS_H

#include "base/histogram.h"
#include "rpc/server.h"

/* A client that calls over several event loops counts in each. */
#define STATS_CLIENT_COUNT_MAX 1024U
#define STATS_ROW_COUNT_MAX 8192U /* of a client, a group and a procedure */
#define STATS_QUIET_MS 60000

enum rpc_phase {
    RPC_PHASE_ALL, /* from arrived to sent */
    RPC_PHASE_QUEUE,
    RPC_PHASE_RUN,
    RPC_PHASE_STABLE,
    RPC_PHASE_SEND,
    RPC_PHASE_COUNT
};

struct rpc_client_stats {
    bool is_others;
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d; all zero for others */
    uint32_t connections;
    uint64_t idle_ms;
    uint64_t copies;  /* calls that had come before: answered from the cache, or dropped */
    uint64_t refused; /* no procedure to run: unknown program, bad credentials, broken arguments */
};

struct rpc_row_stats {
    const struct rpc_client_stats *client;
    uint64_t group; /* 0: none */
    const char *program; /* "nfs" */
    uint32_t vers, proc;
    const char *name;  /* "NFSPROC3_GETATTR" */
    uint64_t calls;    /* whose replies were sent, or came to nothing */
    uint64_t errors;   /* the procedure said no (rpc_call.failed), or nothing at all */
    uint64_t bytes_in; /* of messages, without record marks */
    uint64_t bytes_out;
    uint64_t ns[RPC_PHASE_COUNT];
    struct histogram_sum latency[RPC_PHASE_COUNT]; /* in nanoseconds */
};

#define RPC_LIMIT_NOT_COUNTED UINT64_MAX
struct rpc_limit {
    const char *name; /* "connections" */
    uint64_t used;    /* now; RPC_LIMIT_NOT_COUNTED: it is for each of something */
    uint64_t value;
};

struct rpc_snapshot {
    uint32_t client_count; /* by address; others come last */
    struct rpc_client_stats *clients;
    uint32_t row_count; /* by client, in the order of the above */
    struct rpc_row_stats *rows;
};

/* What was counted since the start, all loops together. NULL: no memory. Any thread, while the
 * server is open; takes no lock for longer than some microseconds. While clients come and go that
 * are too many, some of them may be missing in it, or counted among the others as well. */
struct rpc_snapshot *rpc_snapshot_take(struct rpc_server *server);
void rpc_snapshot_free(struct rpc_snapshot *snapshot);

/* The limits of this layer. Returns how many were written. */
#define RPC_LIMIT_COUNT_MAX 16U
uint32_t rpc_server_limits(struct rpc_server *server, struct rpc_limit limits[RPC_LIMIT_COUNT_MAX]);

#endif
