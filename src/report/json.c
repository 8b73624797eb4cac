/* SPDX-License-Identifier: Apache-2.0 */
#include "report/tree.h"

#include "report/internal.h"

#include <inttypes.h>
#include <math.h>

/* How many bytes the UTF-8 character at the start has; 0: it is none (RFC 3629 §4). */
static size_t utf8_bytes(const unsigned char *bytes, size_t size)
{
    static const struct {
        unsigned char first_min, first_max, second_min, second_max;
        size_t bytes;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (bytes[0] < 0x80) {
        return 1;
    }
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (bytes[0] < forms[i].first_min || bytes[0] > forms[i].first_max ||
            size < forms[i].bytes || bytes[1] < forms[i].second_min ||
            bytes[1] > forms[i].second_max) {
            continue;
        }
        for (size_t j = 2; j < forms[i].bytes; j++) {
            if ((bytes[j] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return forms[i].bytes;
    }
    return 0;
}

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
