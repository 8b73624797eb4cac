/* SPDX-License-Identifier: Apache-2.0 */
/* A baseline beside one that was saved before. */
#ifndef CLI_BASELINE_AGAINST_H
#define CLI_BASELINE_AGAINST_H

#include "probe/baseline.h"

#include <stdio.h>

/* From here on a point is slower, or faster, than it was; less is what runs differ by anyway. */
#define BASELINE_SLOWER_FACTOR 0.75
#define BASELINE_FASTER_FACTOR 1.33

enum baseline_unit { BASELINE_BYTES_PER_SECOND, BASELINE_FILES_PER_SECOND, BASELINE_MS };

struct baseline_change {
    char what[96];
    double before, now;
    double factor; /* how many times faster it is now; under 1: slower */
    enum baseline_unit unit;
};

struct baseline_changes {
    struct baseline_change *changes; /* what was measured both times */
    uint32_t count, capacity;
    uint32_t slower, faster;
    char url[512]; /* what was measured then */
};

/* Reads what `holdfast baseline --save` has written. -errno, -EINVAL: it is something else. */
int baseline_compare(const char *path, struct baseline *baseline, struct baseline_changes *changes,
                     struct err *err) MUST_USE;
void baseline_changes_free(struct baseline_changes *changes);

void baseline_changes_print(FILE *file, const struct baseline_changes *changes);
void baseline_changes_report(struct report *report, const struct baseline_changes *changes);

#endif
