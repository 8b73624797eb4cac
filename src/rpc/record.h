/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP record marking (RFC 5531 §11): finds whole messages in a byte stream.
 *
 * Works in place, on the buffer the bytes arrived in: a message of one fragment is used where it
 * lies, the fragments of others are moved together over their own marks. Pure: no socket, no
 * memory.
 */
#ifndef RPC_RECORD_H
#define RPC_RECORD_H

#include "base/check.h"

#include <stdbool.h>

#define RPC_RECORD_MARK_BYTES 4U
#define RPC_RECORD_LAST 0x80000000U
/* Fragments of no bytes cost the sender nothing, so a message may have only so many. */
#define RPC_RECORD_EMPTY_FRAGMENTS_MAX 65536U

enum record_status {
    RECORD_READY,   /* a whole message: payload, payload_bytes; consumed tells where the next begins
                     */
    RECORD_MORE,    /* more bytes are needed */
    RECORD_TOO_LONG /* the message breaks a limit; the stream cannot be used any more */
};

/* Progress within one message. {0} at the start of each. Offsets count from the message's first
 * mark, so the bytes may move as a whole between calls. */
struct record {
    uint32_t joined_end;    /* end of the payload joined so far; the payload begins at 4 */
    uint32_t next_mark;     /* where the next fragment's mark is, or will be */
    uint32_t empty_count;   /* fragments without bytes */
    uint32_t payload_bytes; /* RECORD_READY */
    uint32_t consumed;      /* RECORD_READY */
    uint32_t needed;        /* RECORD_MORE: bytes from the first mark that surely must exist */
};

/* bytes points at the message's first mark, of which size_bytes have arrived. */
enum record_status record_next(struct record *record, uint8_t *bytes, size_t size_bytes,
                               uint32_t payload_bytes_max);

/* Closes the holes that marks have left, so that a full buffer has room again. Returns how many
 * bytes there are now. */
size_t record_compact(struct record *record, uint8_t *bytes, size_t size_bytes);

/* The mark of a message sent as one fragment. */
void record_mark(uint8_t mark[RPC_RECORD_MARK_BYTES], uint32_t payload_bytes);

#endif
