/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every generated header rests on, and what it means. spec/NAME.x becomes proto/NAME.h and
 * proto/NAME.c in the build tree (tools/xdrc.py); names are the RFC's.
 *
 * 1. T_get never reads past the buffer, T_put never writes past it, neither allocates. Both
 *    return false after an error, which stays in the cursor; what could not be read is zero then.
 * 2. They judge form: lengths against their caps, enum values, union arms. Meaning is for others.
 * 3. Variable opaque and string are struct xdr_bytes that point into the buffer they came from.
 * 4. A union is a struct with its discriminant and an anonymous union; only the arm that the
 *    discriminant names was read, the rest is as it was before.
 * 5. A linked list is a struct xdr_bytes with the list's own bytes. Reading checks every element.
 *    Walk it with a reader and T_next, which is false at the end:
 *
 *        struct xdr cursor = xdr_reader(res->reply.entries.data, res->reply.entries.size);
 *        struct entry3 entry;
 *        while (entry3_next(&cursor, &entry)) { ... }
 *
 *    Build it with T_list_put for each element and xdr_list_end, and set the field to those bytes.
 *    An empty field is put as an empty list.
 * 6. A procedure whose whole argument or result is a bool or a number has struct proto_bool,
 *    proto_u32 or proto_i32; a typedef of a pointer to list elements is a struct with `list`.
 */
#ifndef PROTO_CODEC_H
#define PROTO_CODEC_H

#include "xdr/stream.h"

#include <stdio.h>

/* One type, for those who work from tables: fuzzers, printers of traces, tests. */
struct proto_codec {
    const char *name;
    uint32_t size_bytes; /* of the C struct */
    bool (*get)(struct xdr *xdr, void *value);
    bool (*put)(struct xdr *xdr, const void *value);
    void (*print)(FILE *out, int indent, const void *value);
};

struct proto_procedure {
    uint32_t proc;
    const char *name;
    const struct proto_codec *args; /* NULL: void */
    const struct proto_codec *res;
    const char *section; /* where the procedure is specified: "RFC 1813 §3.3.1" */
};

struct proto_version {
    uint32_t prog;
    uint32_t vers;
    const char *program_name;
    const char *version_name;
    uint32_t procedure_count;
    const struct proto_procedure *procedures; /* ascending, may have holes */
};

/* All of one spec/NAME.x, as NAME_spec. */
struct proto_spec {
    const char *name;
    uint32_t codec_count;
    const struct proto_codec *codecs; /* every struct and union */
    uint32_t version_count;
    const struct proto_version *versions;
};

/* Every description. */
extern const struct proto_spec *const proto_specs[];
extern const uint32_t proto_spec_count;

/* NULL: no such procedure. */
const struct proto_procedure *proto_procedure_find(uint32_t prog, uint32_t vers, uint32_t proc);

struct proto_bool {
    bool value;
};
bool proto_bool_get(struct xdr *xdr, struct proto_bool *value);
bool proto_bool_put(struct xdr *xdr, const struct proto_bool *value);
extern const struct proto_codec proto_bool_codec;

struct proto_u32 {
    uint32_t value;
};
bool proto_u32_get(struct xdr *xdr, struct proto_u32 *value);
bool proto_u32_put(struct xdr *xdr, const struct proto_u32 *value);
extern const struct proto_codec proto_u32_codec;

struct proto_i32 {
    int32_t value;
};
bool proto_i32_get(struct xdr *xdr, struct proto_i32 *value);
bool proto_i32_put(struct xdr *xdr, const struct proto_i32 *value);
extern const struct proto_codec proto_i32_codec;

#endif
