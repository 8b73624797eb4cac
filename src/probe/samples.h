/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response times, all of them kept, and what can be said of them.
 *
 * A call that was never answered is a sample too: longer than any that was. Left out, it would make
 * a lossy host look fast.
 */
#ifndef PROBE_SAMPLES_H
#define PROBE_SAMPLES_H

#include "base/check.h"

#include <stdbool.h>

struct samples {
    int64_t *ns;
    uint32_t count; /* answered */
    uint32_t lost;
    uint32_t capacity;
    bool sorted;
};

/* Room for `capacity` answers. -ENOMEM. */
int samples_open(struct samples *samples, uint32_t capacity) MUST_USE;
void samples_close(struct samples *samples);

/* More than there is room for are not kept. */
void samples_add(struct samples *samples, int64_t ns);
void samples_add_lost(struct samples *samples);

/* The time that `part` (0 to 1) of all calls were answered within: nearest rank. -1: that many were
 * not answered, or there were none. Sorts. */
int64_t samples_percentile(struct samples *samples, double part);

#endif
