/* SPDX-License-Identifier: Apache-2.0 */
#include "xdr/stream.h"

bool xdr_fail(struct xdr *xdr, enum xdr_error error)
{
    if (xdr->error == XDR_OK) {
        xdr->error = error;
        xdr->error_offset = (uint32_t)xdr_offset(xdr);
    }
    return false;
}

const char *xdr_error_name(enum xdr_error error)
{
    switch (error) {
    case XDR_OK:
        return "no error";
    case XDR_SHORT:
        return "the bytes end too early";
    case XDR_TOO_LONG:
        return "a length is over its limit";
    case XDR_BAD_ENUM:
        return "a value that is not in the specification";
    }
    return "unknown error";
}

bool xdr_get_bool(struct xdr *xdr, bool *value)
{
    uint32_t word;
    bool ok = xdr_get_u32(xdr, &word);
    if (word > 1) {
        xdr->notes |= XDR_NOTE_BOOL;
    }
    *value = word != 0;
    return ok;
}

/* Steps over size_bytes and their padding; the caller has not read them yet. */
static bool take(struct xdr *xdr, uint32_t size_bytes, const uint8_t **bytes)
{
    uint32_t padding = xdr_padding(size_bytes);
    if (xdr->error != XDR_OK || xdr_left(xdr) < (size_t)size_bytes + padding) {
        return xdr_fail(xdr, XDR_SHORT);
    }
    *bytes = xdr->next;
    for (uint32_t i = 0; i < padding; i++) {
        if (xdr->next[size_bytes + i] != 0) {
            xdr->notes |= XDR_NOTE_PADDING;
        }
    }
    xdr->next += (size_t)size_bytes + padding;
    return true;
}

bool xdr_get_fixed(struct xdr *xdr, uint8_t *bytes, uint32_t size_bytes)
{
    const uint8_t *from = NULL;
    if (!take(xdr, size_bytes, &from)) {
        memset(bytes, 0, size_bytes);
        return false;
    }
    memcpy(bytes, from, size_bytes);
    return true;
}

bool xdr_get_bytes(struct xdr *xdr, struct xdr_bytes *bytes, uint32_t size_max)
{
    uint32_t size_bytes;
    *bytes = (struct xdr_bytes){0};
    if (!xdr_get_u32(xdr, &size_bytes)) {
        return false;
    }
    if (size_bytes > size_max) {
        return xdr_fail(xdr, XDR_TOO_LONG);
    }
    if (!take(xdr, size_bytes, &bytes->data)) {
        bytes->data = NULL;
        return false;
    }
    bytes->size = size_bytes;
    return true;
}

bool xdr_put_raw(struct xdr *xdr, const uint8_t *bytes, size_t size_bytes)
{
    if (xdr->error != XDR_OK || xdr_left(xdr) < size_bytes) {
        return xdr_fail(xdr, XDR_SHORT);
    }
    if (size_bytes > 0) {
        memcpy(xdr->next, bytes, size_bytes);
        xdr->next += size_bytes;
    }
    return true;
}

bool xdr_put_fixed(struct xdr *xdr, const uint8_t *bytes, uint32_t size_bytes)
{
    static const uint8_t zeros[4];
    uint32_t padding = xdr_padding(size_bytes);
    if (xdr->error == XDR_OK && xdr_left(xdr) < (size_t)size_bytes + padding) {
        return xdr_fail(xdr, XDR_SHORT);
    }
    return xdr_put_raw(xdr, bytes, size_bytes) && xdr_put_raw(xdr, zeros, padding);
}

bool xdr_put_bytes(struct xdr *xdr, struct xdr_bytes bytes, uint32_t size_max)
{
    if (bytes.size > size_max) {
        return xdr_fail(xdr, XDR_TOO_LONG);
    }
    bool outside = bytes.data == NULL && bytes.size > 0;
    bool defer = outside || (xdr->defer_bytes_min > 0 && bytes.size >= xdr->defer_bytes_min);
    if (!defer) {
        return xdr_put_u32(xdr, bytes.size) && xdr_put_fixed(xdr, bytes.data, bytes.size);
    }
    if (!xdr_put_u32(xdr, bytes.size)) {
        return false;
    }
    xdr->tail = bytes;
    xdr->end = xdr->next; /* whatever is put after this finds no room */
    return true;
}
