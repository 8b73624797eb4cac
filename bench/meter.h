/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is measured: how long answers take, and what the server spends.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include <stdint.h>
#include <sys/types.h>

/* Durations in buckets 1.6 % wide, up to 34 s. */
#define HISTOGRAM_SUB 64
#define HISTOGRAM_BUCKETS (30 * HISTOGRAM_SUB)

struct histogram {
    uint64_t count;
    uint64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t duration_ns);

/* The duration that `share` (0..1) of all do not exceed; 0 when there are none. */
uint64_t histogram_share_ns(const struct histogram *histogram, double share);

/* A process at one moment. cpu_ns is utime + stime of all its threads, those that have ended too,
 * in nanoseconds (the process' CPU clock; /proc/PID/stat rounds the same to 10 ms). */
struct usage {
    uint64_t cpu_ns;
    uint64_t rss_bytes; /* anonymous and shared memory, without mapped files */
};

/* All zero when pid is 0 or there is no such process. */
struct usage usage_of(pid_t pid);

#endif
