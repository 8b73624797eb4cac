/* SPDX-License-Identifier: Apache-2.0 */
#include "report/tree.h"

#include "report/internal.h"
#include "report/utf8.h"

#include <inttypes.h>
#include <math.h>

static void write_text(const char *text, size_t size, FILE *file)
{
    const unsigned char *bytes = (const unsigned char *)text;

    fputc('"', file);
    while (size > 0) {
        size_t step = utf8_bytes(bytes, size);
        if (step == 0) {
            fprintf(file, "\\udc%02x", bytes[0]);
            step = 1;
        } else if (bytes[0] == '"' || bytes[0] == '\\') {
            fprintf(file, "\\%c", bytes[0]);
        } else if (bytes[0] < 0x20) {
            fprintf(file, "\\u%04x", bytes[0]);
        } else {
            fwrite(bytes, 1, step, file);
        }
        bytes += step;
        size -= step;
    }
    fputc('"', file);
}

static void write_node(const struct report *node, int indent, FILE *file)
{
    bool object = node->kind == REPORT_OBJECT;

    switch (node->kind) {
    case REPORT_OBJECT:
    case REPORT_ARRAY:
        fputc(object ? '{' : '[', file);
        for (const struct report *child = node->first; child != NULL; child = child->next) {
            fprintf(file, "\n%*s", indent + 2, "");
            if (child->key != NULL) {
                fprintf(file, "\"%s\": ", child->key);
            }
            write_node(child, indent + 2, file);
            fputs(child->next != NULL ? "," : "", file);
        }
        if (node->first != NULL) {
            fprintf(file, "\n%*s", indent, "");
        }
        fputc(object ? '}' : ']', file);
        break;
    case REPORT_TEXT:
        write_text(node->bytes, node->size, file);
        break;
    case REPORT_U64:
        fprintf(file, "%" PRIu64, node->u64);
        break;
    case REPORT_I64:
        fprintf(file, "%" PRId64, node->i64);
        break;
    case REPORT_REAL:
        if (isfinite(node->real)) {
            fprintf(file, "%.9g", node->real);
        } else {
            fputs("null", file);
        }
        break;
    case REPORT_BOOL:
        fputs(node->u64 != 0 ? "true" : "false", file);
        break;
    case REPORT_NULL:
        fputs("null", file);
        break;
    }
}

bool report_write_json(const struct report *report, FILE *file)
{
    if (report == NULL || report->root->no_memory) {
        return false;
    }
    write_node(report, 0, file);
    fputc('\n', file);
    return fflush(file) == 0 && !ferror(file);
}
