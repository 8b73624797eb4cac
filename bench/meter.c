/* SPDX-License-Identifier: Apache-2.0 */
#include "meter.h"

#include <stdio.h>
#include <time.h>

/* Below HISTOGRAM_SUB one bucket a nanosecond; above, HISTOGRAM_SUB buckets for each power of two,
 * of which the lower half would repeat the power below. */
static uint32_t bucket_of(uint64_t duration_ns)
{
    uint32_t shift = 0;
    while ((duration_ns >> shift) >= 2 * HISTOGRAM_SUB) {
        shift++;
    }
    uint64_t bucket = shift * HISTOGRAM_SUB + (duration_ns >> shift);
    return bucket < HISTOGRAM_BUCKETS ? (uint32_t)bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bucket_top_ns(uint32_t bucket)
{
    if (bucket < 2 * HISTOGRAM_SUB) {
        return bucket;
    }
    uint32_t shift = bucket / HISTOGRAM_SUB - 1;
    uint64_t step = bucket - shift * HISTOGRAM_SUB;
    return ((step + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t duration_ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(duration_ns)]++;
    if (duration_ns > histogram->max_ns) {
        histogram->max_ns = duration_ns;
    }
}

uint64_t histogram_share_ns(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * share);
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen > wanted) {
            uint64_t top_ns = bucket_top_ns(bucket);
            return top_ns < histogram->max_ns ? top_ns : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}

static uint64_t rss_bytes_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    uint64_t total_kib = 0;
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long kib;
        if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "RssShmem: %llu", &kib) == 1) {
            total_kib += kib;
        }
    }
    fclose(file);
    return total_kib * 1024;
}

struct usage usage_of(pid_t pid)
{
    struct usage usage = {0};
    clockid_t clock;
    struct timespec cpu;
    if (pid != 0 && clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &cpu) == 0) {
        usage.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000U + (uint64_t)cpu.tv_nsec;
        usage.rss_bytes = rss_bytes_of(pid);
    }
    return usage;
}
