/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often values came, by their logarithm: four buckets for each doubling, so that a quantile is
 * off by less than a quarter, mostly much less, in fixed memory. For durations in nanoseconds.
 *
 * Bucket 0 is for what is below HISTOGRAM_LEAST, the last one for all that is too large for the
 * others (68 s). One thread adds; any thread may read at the same time.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/check.h"

#include <stdatomic.h>

#define HISTOGRAM_PARTS_BITS 2U /* of a doubling */
#define HISTOGRAM_LEAST_BITS 8U
#define HISTOGRAM_DOUBLINGS 28U
#define HISTOGRAM_LEAST (UINT64_C(1) << HISTOGRAM_LEAST_BITS)
#define HISTOGRAM_BUCKET_COUNT (1U + (HISTOGRAM_DOUBLINGS << HISTOGRAM_PARTS_BITS))

struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_BUCKET_COUNT];
};

/* The same when nobody else looks at it, and sums of several. */
struct histogram_sum {
    uint64_t counts[HISTOGRAM_BUCKET_COUNT];
};

static inline unsigned histogram_bucket(uint64_t value)
{
    if (value < HISTOGRAM_LEAST) {
        return 0;
    }
    unsigned bits = 63U - (unsigned)__builtin_clzll(value);
    unsigned part = (unsigned)(value >> (bits - HISTOGRAM_PARTS_BITS)) &
                    ((1U << HISTOGRAM_PARTS_BITS) - 1);
    unsigned bucket = 1U + ((bits - HISTOGRAM_LEAST_BITS) << HISTOGRAM_PARTS_BITS) + part;
    return bucket < HISTOGRAM_BUCKET_COUNT ? bucket : HISTOGRAM_BUCKET_COUNT - 1;
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
    _Atomic uint64_t *count = &histogram->counts[histogram_bucket(value)];
    uint64_t now = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, now + 1, memory_order_relaxed);
}

/* The least value of a bucket; of the one behind the last: the end of the last. */
uint64_t histogram_floor(unsigned bucket);

void histogram_read(const struct histogram *histogram, struct histogram_sum *sum);
void histogram_merge(struct histogram_sum *sum, const struct histogram_sum *more);
uint64_t histogram_count(const struct histogram_sum *sum);

/* The value that `share` (0 to 1) of all are not above, estimated within its bucket. 0: none came.
 */
uint64_t histogram_quantile(const struct histogram_sum *sum, double share);

#endif
