/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes written out by hand from a specification, decoded and encoded again.
 *
 *     GOLDEN(GETATTR3args, args, "00000004 01020304");
 *     ... assertions on the members of args ...
 *     GOLDEN_END(args);
 */
#ifndef PROTO_GOLDEN_H
#define PROTO_GOLDEN_H

#include "lib/unit.h"
#include "xdr/stream.h"

#define GOLDEN(TYPE, value, hex)                                                                   \
    struct TYPE value;                                                                             \
    memset(&(value), 0xa5, sizeof(value));                                                         \
    size_t value##_bytes;                                                                          \
    uint8_t *value##_wire = unit_hex(hex, &value##_bytes);                                         \
    struct xdr value##_xdr = xdr_reader(value##_wire, value##_bytes);                              \
    if (!TYPE##_get(&value##_xdr, &(value))) {                                                     \
        fail_msg("%s at %u", xdr_error_name(value##_xdr.error), value##_xdr.error_offset);         \
    }                                                                                              \
    assert_int_equal(xdr_left(&value##_xdr), 0);                                                   \
    assert_int_equal(value##_xdr.notes, 0);                                                        \
    uint8_t *value##_out = malloc(value##_bytes + 1);                                              \
    struct xdr value##_to = xdr_writer(value##_out, value##_bytes);                                \
    assert_true(TYPE##_put(&value##_to, &(value)));                                                \
    unit_same_bytes(value##_out, xdr_offset(&value##_to), value##_wire, value##_bytes)

#define GOLDEN_END(value)                                                                          \
    do {                                                                                           \
        free(value##_out);                                                                         \
        free(value##_wire);                                                                        \
    } while (0)

#define assert_text(bytes, text)                                                                   \
    unit_same_bytes((bytes).data, (bytes).size, (const uint8_t *)(text), strlen(text))

#endif
