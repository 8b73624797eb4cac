/* SPDX-License-Identifier: Apache-2.0 */
/* Decoded values as text, one member a line: "  name: value". For the generated printers. */
#ifndef XDR_PRINT_H
#define XDR_PRINT_H

#include "xdr/stream.h"

#include <stdio.h>

/* "name:", for what follows further in. */
void xdr_print_head(FILE *out, int indent, const char *name);

void xdr_print_u64(FILE *out, int indent, const char *name, uint64_t value);
void xdr_print_i64(FILE *out, int indent, const char *name, int64_t value);
void xdr_print_bool(FILE *out, int indent, const char *name, bool value);

/* The enumerator's name and its number. */
void xdr_print_enum(FILE *out, int indent, const char *name, const char *text, int32_t value);

/* Quoted, with what is not printable ASCII as \xHH. */
void xdr_print_text(FILE *out, int indent, const char *name, struct xdr_bytes text);

/* Up to XDR_PRINT_HEX_MAX bytes in hex, and how many there are if more. */
#define XDR_PRINT_HEX_MAX 64U
void xdr_print_hex(FILE *out, int indent, const char *name, const uint8_t *bytes,
                   uint32_t size_bytes);

#endif
