/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock for durations that costs a few nanoseconds to read: the processor's own counter where the
 * kernel, too, keeps its time by it, or where there is but one processor, else CLOCK_MONOTONIC. Not
 * for points in time.
 *
 * Counters of several processors may be a little apart: a later reading may be the smaller one.
 */
#ifndef OS_TICKS_H
#define OS_TICKS_H

#include "base/check.h"

#include <stdbool.h>
#include <time.h>

#define TICKS_SHIFT 24U

/* Set by ticks_begin. */
extern struct ticks {
    bool counter;  /* ticks are the processor's, else nanoseconds */
    uint64_t scale; /* nanoseconds of a tick, times 2^TICKS_SHIFT */
} ticks;

/* Measures the counter, which takes some milliseconds, once for the process. Before other threads
 * use this. */
void ticks_begin(void);

static inline uint64_t ticks_now(void)
{
#ifdef __x86_64__
    if (LIKELY(ticks.counter)) {
        return __builtin_ia32_rdtsc();
    }
#endif
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Nanoseconds between two readings; 0 if they seem to run backwards. */
static inline uint64_t ticks_ns(uint64_t from, uint64_t to)
{
    uint64_t passed = to > from ? to - from : 0;
    return (uint64_t)(((unsigned __int128)passed * ticks.scale) >> TICKS_SHIFT);
}

#endif
