/* SPDX-License-Identifier: Apache-2.0 */
#include "report/tree.h"

#include "report/internal.h"

#include <stdlib.h>
#include <string.h>

static struct report *node_new(struct report *parent, const char *key, enum report_kind kind)
{
    if (parent == NULL) {
        return NULL;
    }
    struct report *node = calloc(1, sizeof *node);
    char *key_copy = key != NULL ? strdup(key) : NULL;
    if (node == NULL || (key != NULL && key_copy == NULL)) {
        free(node);
        free(key_copy);
        parent->root->no_memory = true;
        return NULL;
    }
    node->kind = kind;
    node->key = key_copy;
    node->root = parent->root;
    if (parent->last != NULL) {
        parent->last->next = node;
    } else {
        parent->first = node;
    }
    parent->last = node;
    return node;
}

struct report *report_new(void)
{
    struct report *report = calloc(1, sizeof *report);
    if (report != NULL) {
        report->kind = REPORT_OBJECT;
        report->root = report;
    }
    return report;
}

void report_free(struct report *report)
{
    if (report == NULL) {
        return;
    }
    while (report->first != NULL) {
        struct report *child = report->first;
        report->first = child->next;
        report_free(child);
    }
    free(report->key);
    free(report->bytes);
    free(report);
}

struct report *report_add_object(struct report *parent, const char *key)
{
    return node_new(parent, key, REPORT_OBJECT);
}

struct report *report_add_array(struct report *parent, const char *key)
{
    return node_new(parent, key, REPORT_ARRAY);
}

void report_add_bytes(struct report *parent, const char *key, const char *bytes, size_t size)
{
    struct report *node = node_new(parent, key, REPORT_TEXT);
    if (node == NULL) {
        return;
    }
    node->bytes = malloc(size > 0 ? size : 1);
    if (node->bytes == NULL) {
        parent->root->no_memory = true;
        return;
    }
    memcpy(node->bytes, bytes, size);
    node->size = size;
}

void report_add_text(struct report *parent, const char *key, const char *text)
{
    report_add_bytes(parent, key, text, strlen(text));
}

void report_add_u64(struct report *parent, const char *key, uint64_t value)
{
    struct report *node = node_new(parent, key, REPORT_U64);
    if (node != NULL) {
        node->u64 = value;
    }
}

void report_add_i64(struct report *parent, const char *key, int64_t value)
{
    struct report *node = node_new(parent, key, REPORT_I64);
    if (node != NULL) {
        node->i64 = value;
    }
}

void report_add_real(struct report *parent, const char *key, double value)
{
    struct report *node = node_new(parent, key, REPORT_REAL);
    if (node != NULL) {
        node->real = value;
    }
}

void report_add_bool(struct report *parent, const char *key, bool value)
{
    struct report *node = node_new(parent, key, REPORT_BOOL);
    if (node != NULL) {
        node->u64 = value ? 1 : 0;
    }
}

void report_add_null(struct report *parent, const char *key)
{
    (void)node_new(parent, key, REPORT_NULL);
}
