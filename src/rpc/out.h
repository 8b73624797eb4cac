/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reply on its way out.
 *
 * `struct reply` is what a worker has just encoded: its bytes lie in the worker's own memory and
 * are gone with the next call. `struct out` is the same on the heap, for replies that must wait:
 * for stable storage, for room in a socket, or for the event loop that the worker lost.
 */
#ifndef RPC_OUT_H
#define RPC_OUT_H

#include "rpc/server.h"

/* Bytes of room kept before the encoded message, for the record mark. */
#define REPLY_MARK_BYTES 4U

struct reply {
    uint8_t *bytes;        /* record mark (TCP only; room is always there), then the message */
    uint32_t size;         /* with the mark */
    struct xdr_bytes tail; /* follows, then XDR padding; data NULL: from file */
    struct rpc_file file;
    struct rpc_memory memory; /* owns tail.data; release NULL: the worker's memory */
};

struct out {
    struct out *next;
    uint32_t size; /* of bytes[] */
    uint32_t sent; /* progress over bytes[], tail and padding together */
    struct xdr_bytes tail;
    struct rpc_file file;
    struct rpc_memory memory;
    uint8_t bytes[];
};

/* Bytes behind bytes[]: the tail and its padding. */
uint32_t out_tail_bytes(const struct xdr_bytes *tail);

/* Writes the record mark into the reply. */
void reply_mark(struct reply *reply);

/* Gives up what the reply owns. */
void reply_drop(struct reply *reply);

/* Moves a reply to the heap, of which `sent` bytes are gone already. Owns what the reply owned.
 * NULL when there is no memory; the reply is dropped then. */
struct out *out_new(struct reply *reply, uint32_t sent);
void out_free(struct out *out);

/* Brings a tail that lies in a file into memory (for datagrams). False: it could not be read. */
bool reply_load_file(struct reply *reply, uint8_t *buffer, uint32_t buffer_bytes);

/* Through here go replies that lie in files: reading and sending 1 MiB costs half of what sendfile
 * does, which moves page by page (6.18, docs/bench.md). */
#define OUT_ROOM_BYTES (1U << 20)

/*
 * Sends to a TCP socket what is left of out; room is for the call. *sent_bytes is added to. Returns
 * 1 when all is gone, 0 when the socket is full, or -errno.
 */
int out_send(struct out *out, int fd, uint8_t room[OUT_ROOM_BYTES], uint64_t *sent_bytes);

#endif
