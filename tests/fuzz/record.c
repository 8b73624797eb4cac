/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP record marking (rpc/record.c), fed in pieces as a socket would, against a slow decoder of the
 * whole stream at once. First byte: the cap on messages; second: sizes of the pieces, and whether
 * holes are closed between them; the rest is the stream.
 *
 * 1. The same messages come out, and the stream ends or fails at the same message.
 * 2. Nothing outside the bytes that have arrived is touched (they are in a block of their size).
 */
#include "rpc/record.h"
#include "fuzz.h"

#include <string.h>

struct message {
    enum record_status status;
    uint8_t *payload;
    size_t payload_bytes;
    size_t consumed;
};

/* RFC 5531 §11, word by word. */
static struct message slow_next(const uint8_t *stream, size_t stream_bytes, size_t cap)
{
    struct message message = {.status = RECORD_MORE, .payload = malloc(cap + 1)};
    uint32_t empty_count = 0;
    for (size_t at = 0; stream_bytes - at >= 4;) {
        bool last = (stream[at] & 0x80) != 0;
        size_t fragment_bytes = (size_t)(stream[at] & 0x7f) << 24 | (size_t)stream[at + 1] << 16 |
                                (size_t)stream[at + 2] << 8 | (size_t)stream[at + 3];
        at += 4;
        empty_count += fragment_bytes == 0 && !last;
        if (message.payload_bytes + fragment_bytes > cap ||
            empty_count > RPC_RECORD_EMPTY_FRAGMENTS_MAX) {
            message.status = RECORD_TOO_LONG;
            return message;
        }
        if (stream_bytes - at < fragment_bytes) {
            return message;
        }
        memcpy(message.payload + message.payload_bytes, stream + at, fragment_bytes);
        message.payload_bytes += fragment_bytes;
        at += fragment_bytes;
        message.consumed = at;
        if (last) {
            message.status = RECORD_READY;
            return message;
        }
    }
    return message;
}

/* What has arrived of the current message and those behind it. */
struct arrived {
    uint8_t *bytes;
    size_t size_bytes;
    struct record record;
};

static void arrive(struct arrived *arrived, const uint8_t *piece, size_t piece_bytes)
{
    uint8_t *more = malloc(arrived->size_bytes + piece_bytes);
    if (arrived->size_bytes > 0) {
        memcpy(more, arrived->bytes, arrived->size_bytes);
    }
    memcpy(more + arrived->size_bytes, piece, piece_bytes);
    free(arrived->bytes);
    arrived->bytes = more;
    arrived->size_bytes += piece_bytes;
}

static void leave(struct arrived *arrived)
{
    FUZZ_CHECK(arrived->record.consumed <= arrived->size_bytes);
    arrived->size_bytes -= arrived->record.consumed;
    memmove(arrived->bytes, arrived->bytes + arrived->record.consumed, arrived->size_bytes);
    arrived->record = (struct record){0};
}

/* Takes the messages that have become whole, and compares each with what the slow decoder has next
 * at *stream. Returns false when the stream is of no more use. */
static bool take(struct arrived *arrived, const uint8_t **stream, const uint8_t *end, uint32_t cap)
{
    for (;;) {
        enum record_status status =
            record_next(&arrived->record, arrived->bytes, arrived->size_bytes, cap);
        if (status == RECORD_MORE) {
            FUZZ_CHECK(arrived->record.needed > arrived->size_bytes);
            return true;
        }
        struct message want = slow_next(*stream, (size_t)(end - *stream), cap);
        FUZZ_CHECK(status == want.status);
        if (status == RECORD_READY) {
            FUZZ_CHECK(arrived->record.payload_bytes == want.payload_bytes);
            FUZZ_CHECK(memcmp(arrived->bytes + RPC_RECORD_MARK_BYTES, want.payload,
                              want.payload_bytes) == 0);
            leave(arrived);
            *stream += want.consumed;
        }
        free(want.payload);
        if (status != RECORD_READY) {
            return false;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 2) {
        return 0;
    }
    uint32_t cap = data[0] * 4U;
    bool compact = (data[1] & 1) != 0;
    size_t piece_bytes = 1 + (data[1] >> 1);
    const uint8_t *stream = data + 2, *end = data + size_bytes;
    struct arrived arrived = {0};
    bool useful = true;
    for (const uint8_t *at = stream; useful && at < end;) {
        size_t left = (size_t)(end - at);
        size_t piece = left < piece_bytes ? left : piece_bytes;
        arrive(&arrived, at, piece);
        at += piece;
        useful = take(&arrived, &stream, end, cap);
        if (useful && compact) {
            arrived.size_bytes = record_compact(&arrived.record, arrived.bytes, arrived.size_bytes);
        }
    }
    if (useful) {
        struct message rest = slow_next(stream, (size_t)(end - stream), cap);
        FUZZ_CHECK(rest.status == RECORD_MORE);
        free(rest.payload);
    }
    free(arrived.bytes);
    return 0;
}
