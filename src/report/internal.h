/* SPDX-License-Identifier: Apache-2.0 */
/* The tree itself: for tree.c, which fills it, and for the writers. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

#include "report/tree.h"

enum report_kind {
    REPORT_OBJECT,
    REPORT_ARRAY,
    REPORT_TEXT,
    REPORT_U64,
    REPORT_I64,
    REPORT_REAL,
    REPORT_BOOL,
    REPORT_NULL
};

struct report {
    enum report_kind kind;
    char *key;
    struct report *next;         /* in its parent */
    struct report *first, *last; /* its children */
    struct report *root;
    bool no_memory; /* of the root: something is missing */
    char *bytes;
    size_t size;
    union {
        uint64_t u64;
        int64_t i64;
        double real;
    };
};

#endif
