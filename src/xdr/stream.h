/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded cursor over XDR bytes (RFC 4506), and the only code that touches wire bytes.
 *
 * 1. The cursor never leaves [start, end). Every length is checked here, against the cap the caller
 *    passes and against the bytes that exist, before anything is read, written or pointed to.
 * 2. Errors are sticky: after the first one every get gives zero and every put writes nothing.
 *    Callers may check once, at the end. `error_offset` is where it happened.
 * 3. Nothing is allocated. Variable-length data decodes to a pointer into the buffer, so the buffer
 *    must outlive what was decoded from it.
 * 4. Padding that is not zero and booleans other than 0 and 1 are noted, not refused: Linux accepts
 *    them, and for the analyzer they are findings.
 *
 * Not thread-safe; a cursor belongs to one thread at a time.
 */
#ifndef XDR_STREAM_H
#define XDR_STREAM_H

#include "base/check.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

enum xdr_error {
    XDR_OK = 0,
    XDR_SHORT,    /* the bytes end before the value does; on encoding: the buffer is full */
    XDR_TOO_LONG, /* a length over its cap */
    XDR_BAD_ENUM  /* an enum or union discriminant that the specification does not list */
};

enum xdr_note { XDR_NOTE_PADDING = 1, XDR_NOTE_BOOL = 2 };

/* Bytes that belong to somebody else: a decode buffer, or the caller of an encoder. */
struct xdr_bytes {
    const uint8_t *data;
    uint32_t size;
};

struct xdr {
    uint8_t *start;
    uint8_t *next;
    uint8_t *end;
    enum xdr_error error;
    uint32_t error_offset;
    uint32_t notes; /* enum xdr_note, or-ed */
    /*
     * Encoding only. An opaque of at least defer_bytes_min bytes (0: never) is not copied: its
     * length is written, and `tail` tells the sender to put those bytes, then XDR padding, behind
     * what was encoded. tail.data may be NULL when the bytes come from elsewhere, a file perhaps.
     * An opaque whose data is NULL and whose size is not 0 is always deferred.
     */
    uint32_t defer_bytes_min;
    struct xdr_bytes tail;
};

/* No bytes may be NULL, and C knows no NULL + 0. */
static inline struct xdr xdr_writer(void *bytes, size_t size_bytes)
{
    uint8_t *start = bytes;
    uint8_t *end = size_bytes > 0 ? start + size_bytes : start;
    return (struct xdr){.start = start, .next = start, .end = end};
}

/* The decoder promises not to write through the buffer. */
static inline struct xdr xdr_reader(const void *bytes, size_t size_bytes)
{
    return xdr_writer((void *)(uintptr_t)bytes, size_bytes);
}

static inline size_t xdr_offset(const struct xdr *xdr)
{
    return (size_t)(xdr->next - xdr->start);
}

static inline size_t xdr_left(const struct xdr *xdr)
{
    return (size_t)(xdr->end - xdr->next);
}

static inline bool xdr_ok(const struct xdr *xdr)
{
    return xdr->error == XDR_OK;
}

static inline uint32_t xdr_padding(uint32_t size_bytes)
{
    return -size_bytes & 3U;
}

/* Records the first error and returns false. */
bool xdr_fail(struct xdr *xdr, enum xdr_error error);

/* A word for the error, for messages. */
const char *xdr_error_name(enum xdr_error error);

/* ---- decoding: false, and zero in *value, after an error ---- */

static inline bool xdr_get_u32(struct xdr *xdr, uint32_t *value)
{
    if (UNLIKELY(xdr->error != XDR_OK || xdr_left(xdr) < 4)) {
        *value = 0;
        return xdr_fail(xdr, XDR_SHORT);
    }
    memcpy(value, xdr->next, 4);
    *value = be32toh(*value);
    xdr->next += 4;
    return true;
}

static inline bool xdr_get_u64(struct xdr *xdr, uint64_t *value)
{
    if (UNLIKELY(xdr->error != XDR_OK || xdr_left(xdr) < 8)) {
        *value = 0;
        return xdr_fail(xdr, XDR_SHORT);
    }
    memcpy(value, xdr->next, 8);
    *value = be64toh(*value);
    xdr->next += 8;
    return true;
}

static inline bool xdr_get_i32(struct xdr *xdr, int32_t *value)
{
    uint32_t word;
    bool ok = xdr_get_u32(xdr, &word);
    *value = (int32_t)word;
    return ok;
}

static inline bool xdr_get_i64(struct xdr *xdr, int64_t *value)
{
    uint64_t word;
    bool ok = xdr_get_u64(xdr, &word);
    *value = (int64_t)word;
    return ok;
}

/* Any word but 0 is true; words other than 0 and 1 are noted. */
bool xdr_get_bool(struct xdr *xdr, bool *value);

/* opaque[size_bytes]: copied out, padding checked. */
bool xdr_get_fixed(struct xdr *xdr, uint8_t *bytes, uint32_t size_bytes);

/* opaque<max> and string<max>: points into the buffer. */
bool xdr_get_bytes(struct xdr *xdr, struct xdr_bytes *bytes, uint32_t size_max);

/* ---- encoding ---- */

static inline bool xdr_put_u32(struct xdr *xdr, uint32_t value)
{
    if (UNLIKELY(xdr->error != XDR_OK || xdr_left(xdr) < 4)) {
        return xdr_fail(xdr, XDR_SHORT);
    }
    value = htobe32(value);
    memcpy(xdr->next, &value, 4);
    xdr->next += 4;
    return true;
}

static inline bool xdr_put_u64(struct xdr *xdr, uint64_t value)
{
    if (UNLIKELY(xdr->error != XDR_OK || xdr_left(xdr) < 8)) {
        return xdr_fail(xdr, XDR_SHORT);
    }
    value = htobe64(value);
    memcpy(xdr->next, &value, 8);
    xdr->next += 8;
    return true;
}

static inline bool xdr_put_i32(struct xdr *xdr, int32_t value)
{
    return xdr_put_u32(xdr, (uint32_t)value);
}

static inline bool xdr_put_i64(struct xdr *xdr, int64_t value)
{
    return xdr_put_u64(xdr, (uint64_t)value);
}

static inline bool xdr_put_bool(struct xdr *xdr, bool value)
{
    return xdr_put_u32(xdr, value ? 1 : 0);
}

/* opaque[size_bytes], padded with zeros. */
bool xdr_put_fixed(struct xdr *xdr, const uint8_t *bytes, uint32_t size_bytes);

/* opaque<max> and string<max>, padded with zeros; may be deferred, see struct xdr. */
bool xdr_put_bytes(struct xdr *xdr, struct xdr_bytes bytes, uint32_t size_max);

/* Bytes that are XDR already (whole units), copied as they are. */
bool xdr_put_raw(struct xdr *xdr, const uint8_t *bytes, size_t size_bytes);

/* ---- linked lists, kept as their own bytes: TRUE and an element each, FALSE at the end ---- */

/* The end of a list, and all of an empty one. */
static inline bool xdr_list_end(struct xdr *xdr)
{
    return xdr_put_bool(xdr, false);
}

/* A list that was built before; one of no bytes is empty. */
static inline bool xdr_put_list(struct xdr *xdr, struct xdr_bytes list)
{
    return list.size == 0 ? xdr_list_end(xdr) : xdr_put_raw(xdr, list.data, list.size);
}

/* What was read since `from`, or put; nothing after an error. */
static inline struct xdr_bytes xdr_since(const struct xdr *xdr, const uint8_t *from)
{
    if (xdr->error != XDR_OK) {
        return (struct xdr_bytes){0};
    }
    return (struct xdr_bytes){.data = from, .size = (uint32_t)(xdr->next - from)};
}

#endif
