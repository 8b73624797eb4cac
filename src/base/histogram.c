/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

uint64_t histogram_floor(unsigned bucket)
{
    if (bucket == 0) {
        return 0;
    }
    unsigned doubling = (bucket - 1) >> HISTOGRAM_PARTS_BITS;
    uint64_t part = (bucket - 1) & ((1U << HISTOGRAM_PARTS_BITS) - 1);
    uint64_t parts = UINT64_C(1) << HISTOGRAM_PARTS_BITS;
    return (parts + part) << (HISTOGRAM_LEAST_BITS + doubling - HISTOGRAM_PARTS_BITS);
}

void histogram_read(const struct histogram *histogram, struct histogram_sum *sum)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        sum->counts[i] = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    }
}

void histogram_merge(struct histogram_sum *sum, const struct histogram_sum *more)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        sum->counts[i] += more->counts[i];
    }
}

uint64_t histogram_count(const struct histogram_sum *sum)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        count += sum->counts[i];
    }
    return count;
}

uint64_t histogram_quantile(const struct histogram_sum *sum, double share)
{
    double wanted = share * (double)histogram_count(sum);
    double below = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        double here = (double)sum->counts[i];
        if (here > 0 && below + here >= wanted) {
            double from = (double)histogram_floor(i);
            double width = (double)histogram_floor(i + 1) - from;
            return (uint64_t)(from + width * (wanted - below) / here);
        }
        below += here;
    }
    return 0;
}
