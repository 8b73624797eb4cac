/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/stats.h"

/* Two bits behind the highest one. */
static uint32_t bucket_of(uint64_t value)
{
    if (value < 4) {
        return (uint32_t)value;
    }
    uint32_t high = 63U - (uint32_t)__builtin_clzll(value);
    return (high - 1) * 4 + (uint32_t)(value >> (high - 2) & 3);
}

uint64_t journal_spread_bucket_min(uint32_t bucket)
{
    if (bucket < 4) {
        return bucket;
    }
    return (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

void journal_spread_add(struct journal_spread *spread, uint64_t value)
{
    spread->count++;
    spread->sum += value;
    spread->max = value > spread->max ? value : spread->max;
    spread->buckets[bucket_of(value)]++;
}

uint64_t journal_spread_share(const struct journal_spread *spread, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)spread->count + 0.5);
    uint64_t seen = 0;
    wanted = wanted > 0 ? wanted : 1;
    for (uint32_t i = 0; i + 1 < JOURNAL_SPREAD_BUCKETS; i++) {
        seen += spread->buckets[i];
        if (spread->buckets[i] > 0 && seen >= wanted) {
            uint64_t last = journal_spread_bucket_min(i + 1) - 1;
            return last < spread->max ? last : spread->max;
        }
    }
    return spread->max;
}
