/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a journal has done so far, as plain numbers for status. Counts go up from the start of the
 * server; what is "now" says so.
 */
#ifndef JOURNAL_STATS_H
#define JOURNAL_STATS_H

#include <stdbool.h>
#include <stdint.h>

/* How often which value was seen. A bucket is an eighth to a quarter wide, relative to its values:
 * four for each power of two. */
#define JOURNAL_SPREAD_BUCKETS 252U
struct journal_spread {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[JOURNAL_SPREAD_BUCKETS];
};
void journal_spread_add(struct journal_spread *spread, uint64_t value);
/* The value that this share (0 to 1) of all values does not exceed, to the width of a bucket. 0
 * without values. */
uint64_t journal_spread_share(const struct journal_spread *spread, double share);
/* The least value that lands in a bucket. */
uint64_t journal_spread_bucket_min(uint32_t bucket);

struct journal_stats {
    bool has_log; /* else groups of fsync, and what is of a log is 0 */
    int error;    /* nothing can be made durable any more: -errno, or 0 */
    uint64_t changes;
    uint64_t waiting; /* changes that are not yet durable, now */
    uint64_t batches;
    struct journal_spread batch_changes;
    struct journal_spread batch_bytes; /* written to the log */
    struct journal_spread write_ns;    /* a durable write of a batch: what a flush costs */
    struct journal_spread sync_ns;     /* the syncs of a batch that has any */
    struct journal_spread wait_ns;     /* of the oldest change of a batch that somebody waited for,
                                        * until it was durable */
    uint64_t records;
    uint64_t full_waits;  /* batches that waited for room in the log, */
    uint64_t full_ns;     /* and for how long in all */
    uint64_t admit_waits; /* changes that were held back because so much was under way */
    uint64_t checkpoints;
    struct journal_spread checkpoint_ns;
    uint64_t used_bytes, ring_bytes; /* of the log, now */
};

#endif
