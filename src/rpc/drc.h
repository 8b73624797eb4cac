/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duplicate request cache: what a procedure that is not idempotent answered, kept for a client
 * that did not get the answer and asks again.
 *
 * 1. A call is the same call when xid, program, version, procedure, the client's address and a
 *    checksum over the whole message are the same. Other content under the same xid is a new call.
 * 2. A copy of a call that still runs, or whose reply still waits for stable storage, is dropped.
 * 3. The client's port belongs to its address, with one exception: a TCP client that lost its
 *    connection may ask again from another port, and gets its answer if the reply was not
 *    acknowledged by its TCP. A reply that has arrived is not given to another port, so a new
 *    program that happens to start with the same xid is served.
 * 4. A reply that was restored after a restart belongs to a client that has lost its connection: it
 *    is given to any port over TCP.
 * 5. Replies are kept for DRC_AGE_MS and at most DRC_ENTRY_COUNT_MAX of them; running calls are
 *    never pushed out.
 *
 * Thread-safe. No entry outlives drc_close, which must come after the last call has ended.
 */
#ifndef RPC_DRC_H
#define RPC_DRC_H

#include "rpc/server.h"

#define DRC_ENTRY_COUNT_MAX 32768U
#define DRC_AGE_MS 120000
#define DRC_REPLY_BYTES_MAX 4096U /* larger replies are not kept; none of ours is */

struct drc;
struct drc_entry;

/* A TCP connection, as far as entries must remember it. Counted; made with one reference. */
struct drc_origin;
struct drc_origin *drc_origin_new(int fd);
void drc_origin_put(struct drc_origin *origin);
/* How many bytes have been handed to the socket. The connection's thread. */
void drc_origin_sent(struct drc_origin *origin, uint64_t total_bytes);
/* Before the fd is closed. */
void drc_origin_closed(struct drc_origin *origin);

struct drc *drc_open(void);
void drc_close(struct drc *drc);

enum drc_verdict {
    DRC_NEW,  /* run it; then drc_done or drc_forget with the entry */
    DRC_DROP, /* a copy of a running call */
    DRC_REPLY /* the old reply was written to reply[], *reply_bytes long */
};

struct drc_key {
    const struct rpc_peer *peer;
    struct drc_origin *origin; /* NULL over UDP */
    uint32_t xid, prog, vers, proc;
    const uint8_t *message; /* the whole call */
    uint32_t message_bytes;
    int64_t now_ms; /* by CLOCK_MONOTONIC, or lately */
};

/* *entry is NULL with DRC_NEW when the cache has no memory or room: the call runs all the same. */
enum drc_verdict drc_begin(struct drc *drc, const struct drc_key *key, struct drc_entry **entry,
                           uint8_t *reply, uint32_t *reply_bytes);
/* The call has its reply (without a record mark), and the reply ends at sent_end of its
 * connection's stream. */
void drc_done(struct drc *drc, struct drc_entry *entry, const uint8_t *reply, uint32_t reply_bytes,
              uint64_t sent_end);
/* What identifies the entry's call. */
void drc_identify(const struct drc_entry *entry, struct rpc_kept_reply *reply);
/* Puts a reply of an earlier run into the cache. */
void drc_restore(struct drc *drc, const struct rpc_kept_reply *reply);
/* How many entries there are. */
uint32_t drc_entry_count(struct drc *drc);
/* The call has no reply that may be given again. */
void drc_forget(struct drc *drc, struct drc_entry *entry);

#endif
