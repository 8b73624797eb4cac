/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found, as a tree of named values: filled by probes and commands, printed by writers.
 *
 * Keys are English words with their unit last (rtt_us, bytes_per_second). Nodes belong to their
 * parent. Every function takes a NULL node and does nothing then, so that no memory shows once, at
 * the end: report_write_json returns false.
 */
#ifndef REPORT_TREE_H
#define REPORT_TREE_H

#include "base/check.h"

#include <stdbool.h>
#include <stdio.h>

struct report;

struct report *report_new(void); /* an object; report_free frees all below */
void report_free(struct report *report);

/* key is NULL within an array. */
struct report *report_add_object(struct report *parent, const char *key);
struct report *report_add_array(struct report *parent, const char *key);
void report_add_text(struct report *parent, const char *key, const char *text);
/* Bytes of a file name: any, also such that are no UTF-8. */
void report_add_bytes(struct report *parent, const char *key, const char *bytes, size_t size);
void report_add_u64(struct report *parent, const char *key, uint64_t value);
void report_add_i64(struct report *parent, const char *key, int64_t value);
void report_add_real(struct report *parent, const char *key, double value); /* NaN, inf: null */
void report_add_bool(struct report *parent, const char *key, bool value);
void report_add_null(struct report *parent, const char *key);

/* RFC 8259, indented. A byte that is not part of UTF-8 becomes \udcXX, as Python's surrogateescape
 * has it. False: no memory while the tree was filled, or the file cannot be written. */
bool report_write_json(const struct report *report, FILE *file);

#endif
