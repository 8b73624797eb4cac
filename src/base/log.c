/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES_MAX 1024

static atomic_int log_level = LOG_NOTICE;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

void log_set_level(enum log_level level)
{
    atomic_store(&log_level, (int)level);
}

static bool stderr_is_systemd(void)
{
    /* systemd sets this for services whose stderr it reads (sd-daemon(3)). */
    return getenv("JOURNAL_STREAM") != NULL;
}

static void write_line(enum log_level level, uint32_t left_out, const char *format, va_list args)
{
    char line[LOG_LINE_BYTES_MAX];
    size_t used = 0;

    if (stderr_is_systemd()) {
        used = (size_t)snprintf(line, sizeof line, "<%d>", (int)level);
    } else {
        used = (size_t)snprintf(line, sizeof line, "holdfast: ");
    }
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    if (n > 0) {
        used += (size_t)n;
    }
    if (used > sizeof line - 2) {
        used = sizeof line - 2;
    }
    if (left_out > 0) {
        n = snprintf(line + used, sizeof line - used - 1, " (%u more like this left out)",
                     left_out);
        used += n > 0 ? (size_t)n : 0;
        if (used > sizeof line - 2) {
            used = sizeof line - 2;
        }
    }
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0) {
        return; /* nowhere left to say it */
    }
}

void log_write(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) {
        return;
    }
    va_list args;
    va_start(args, format);
    write_line(level, 0, format, args);
    va_end(args);
}

void log_write_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) {
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;

    pthread_mutex_lock(&limit_lock);
    bool quiet = now_ms < limit->next_ms;
    uint32_t left_out = limit->left_out;
    if (quiet) {
        limit->left_out++;
    } else {
        limit->next_ms = now_ms + 1000;
        limit->left_out = 0;
    }
    pthread_mutex_unlock(&limit_lock);
    if (quiet) {
        return;
    }
    va_list args;
    va_start(args, format);
    write_line(level, left_out, format, args);
    va_end(args);
}
