/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/record.h"

#include "xdr/stream.h"

static uint32_t mark_at(const uint8_t *bytes)
{
    struct xdr xdr = xdr_reader(bytes, RPC_RECORD_MARK_BYTES);
    uint32_t mark;
    (void)xdr_get_u32(&xdr, &mark);
    return mark;
}

void record_mark(uint8_t mark[RPC_RECORD_MARK_BYTES], uint32_t payload_bytes)
{
    struct xdr xdr = xdr_writer(mark, RPC_RECORD_MARK_BYTES);
    (void)xdr_put_u32(&xdr, payload_bytes | RPC_RECORD_LAST);
}

enum record_status record_next(struct record *record, uint8_t *bytes, size_t size_bytes,
                               uint32_t payload_bytes_max)
{
    if (record->joined_end == 0) {
        record->joined_end = RPC_RECORD_MARK_BYTES;
    }
    for (;;) {
        size_t body = (size_t)record->next_mark + RPC_RECORD_MARK_BYTES;
        if (size_bytes < body) {
            record->needed = (uint32_t)body;
            return RECORD_MORE;
        }
        uint32_t mark = mark_at(bytes + record->next_mark);
        uint32_t fragment_bytes = mark & ~RPC_RECORD_LAST;
        uint32_t joined_bytes = record->joined_end - RPC_RECORD_MARK_BYTES;
        if (fragment_bytes > payload_bytes_max - joined_bytes) {
            return RECORD_TOO_LONG;
        }
        if (fragment_bytes == 0 && (mark & RPC_RECORD_LAST) == 0 &&
            ++record->empty_count > RPC_RECORD_EMPTY_FRAGMENTS_MAX) {
            return RECORD_TOO_LONG;
        }
        if (size_bytes - body < fragment_bytes) {
            record->needed = (uint32_t)body + fragment_bytes;
            return RECORD_MORE;
        }
        if (record->joined_end != body) {
            memmove(bytes + record->joined_end, bytes + body, fragment_bytes);
        }
        record->joined_end += fragment_bytes;
        record->next_mark = (uint32_t)body + fragment_bytes;
        if ((mark & RPC_RECORD_LAST) != 0) {
            record->payload_bytes = record->joined_end - RPC_RECORD_MARK_BYTES;
            record->consumed = record->next_mark;
            return RECORD_READY;
        }
    }
}

size_t record_compact(struct record *record, uint8_t *bytes, size_t size_bytes)
{
    uint32_t hole = record->next_mark > record->joined_end && record->joined_end > 0
                        ? record->next_mark - record->joined_end
                        : 0;
    if (hole == 0) {
        return size_bytes;
    }
    memmove(bytes + record->joined_end, bytes + record->next_mark, size_bytes - record->next_mark);
    record->next_mark = record->joined_end;
    return size_bytes - hole;
}
