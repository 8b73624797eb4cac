/* SPDX-License-Identifier: Apache-2.0 */
#include "xdr/print.h"

#include <inttypes.h>

void xdr_print_head(FILE *out, int indent, const char *name)
{
    fprintf(out, "%*s%s:\n", indent, "", name);
}

void xdr_print_u64(FILE *out, int indent, const char *name, uint64_t value)
{
    fprintf(out, "%*s%s: %" PRIu64 "\n", indent, "", name, value);
}

void xdr_print_i64(FILE *out, int indent, const char *name, int64_t value)
{
    fprintf(out, "%*s%s: %" PRId64 "\n", indent, "", name, value);
}

void xdr_print_bool(FILE *out, int indent, const char *name, bool value)
{
    fprintf(out, "%*s%s: %s\n", indent, "", name, value ? "true" : "false");
}

void xdr_print_enum(FILE *out, int indent, const char *name, const char *text, int32_t value)
{
    fprintf(out, "%*s%s: %s (%" PRId32 ")\n", indent, "", name, text, value);
}

void xdr_print_text(FILE *out, int indent, const char *name, struct xdr_bytes text)
{
    fprintf(out, "%*s%s: \"", indent, "", name);
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == '"' || byte == '\\') {
            fprintf(out, "\\%c", byte);
        } else if (byte >= 0x20 && byte < 0x7f) {
            fputc(byte, out);
        } else {
            fprintf(out, "\\x%02x", byte);
        }
    }
    fputs("\"\n", out);
}

void xdr_print_hex(FILE *out, int indent, const char *name, const uint8_t *bytes,
                   uint32_t size_bytes)
{
    fprintf(out, "%*s%s: ", indent, "", name);
    for (uint32_t i = 0; i < size_bytes && i < XDR_PRINT_HEX_MAX; i++) {
        fprintf(out, "%02x", bytes[i]);
    }
    if (size_bytes > XDR_PRINT_HEX_MAX) {
        fprintf(out, "... %" PRIu32 " bytes", size_bytes);
    }
    fputc('\n', out);
}
