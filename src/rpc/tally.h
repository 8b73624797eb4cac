/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counting of calls, one tally for each event loop. rpc/stats.h says what is counted.
 *
 * Always on, so cheap: only the loop's owner writes, without locked instructions, and a call costs
 * one reading of the processor's counter. A turn's calls are kept as samples and counted when their
 * replies have gone out.
 *
 * 1. Rows and clients are added and freed under the tally's lock, which a reader holds; their
 *    numbers are atomic, and the owner looks rows up without the lock.
 * 2. A client that something refers to (a connection, a reply that waits) is never freed.
 */
#ifndef RPC_TALLY_H
#define RPC_TALLY_H

#include "os/ticks.h"
#include "rpc/stats.h"

#include <pthread.h>
#include <stdatomic.h>

#define TALLY_BUCKET_COUNT 256U
#define TALLY_ROW_BUCKET_COUNT 1024U
#define TALLY_UNSENT_COUNT_MAX 4096U /* of a connection; the send of more is not measured */

struct tally_client;

/* One call. Times are ticks (os/ticks.h). */
struct sample {
    const struct rpc_procedure *procedure; /* each has one version of one program */
    uint64_t group;
    uint64_t arrived, started, ended;
    uint64_t durable;    /* when its lsn was; 0: it was not parked */
    uint64_t stream_end; /* of its reply, in bytes of the connection */
    uint32_t bytes_in, bytes_out;
    bool failed;
};

struct tally_row {
    struct tally_row *next; /* of the client */
    struct tally_row *bucket_next;
    struct tally_client *client;
    uint32_t index; /* in tally.rows */
    const struct rpc_procedure *procedure;
    uint64_t group;
    _Atomic uint64_t errors, bytes_in, bytes_out;
    _Atomic uint64_t ns[RPC_PHASE_COUNT];
    struct histogram latency[RPC_PHASE_COUNT]; /* of RPC_PHASE_RUN: every call */
};

struct tally_client {
    struct tally_client *bucket_next;
    struct tally_row *rows;
    struct tally_row *last; /* of its last call */
    uint32_t row_count;
    uint32_t index; /* in tally.clients */
    uint32_t uses;
    uint8_t address[16];
    bool is_others;
    _Atomic int64_t used_ms;
    _Atomic uint64_t connections, copies, refused;
};

/* What all loops share. */
struct tally_room {
    atomic_uint client_count, row_count;
};

struct tally {
    struct tally_room *room;
    pthread_mutex_t lock;
    struct tally_client **clients;
    struct tally_row **rows;
    uint32_t client_count, client_capacity;
    uint32_t row_count, row_capacity;
    struct tally_client *buckets[TALLY_BUCKET_COUNT];
    struct tally_row *row_buckets[TALLY_ROW_BUCKET_COUNT];
    struct tally_client others;
    int64_t full_until_ms; /* nobody is old enough to make room */
};

void tally_open(struct tally *tally, struct tally_room *room);
void tally_close(struct tally *tally);

/* Everything below is the owner's. */

/* The client at an address, with a use of it. */
struct tally_client *tally_client_get(struct tally *tally, const struct rpc_peer *peer,
                                      int64_t now_ms);
void tally_client_put(struct tally_client *client);

/* Calls of a client whose replies have left together. sent: when; 0: they have not. */
void tally_add(struct tally *tally, struct tally_client *client, const struct sample *samples,
               uint32_t count, uint64_t sent, int64_t now_ms);

/* Samples of replies that a connection could not send yet, in order. Starts as {0}. */
struct tally_unsent {
    struct sample *samples;
    uint32_t first, count, capacity;
};
/* False: no room. */
bool tally_unsent_add(struct tally_unsent *unsent, const struct sample *sample);
/* The next whose reply has gone out, or NULL. Good until the next call. */
const struct sample *tally_unsent_take(struct tally_unsent *unsent, uint64_t sent_bytes);

#endif
