/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for the admin, one line each, on stderr, with the level as a <N> prefix when stderr is
 * the systemd journal. Thread-safe; a line is written with one write(2).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/check.h"

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_NOTICE = 5, LOG_INFO = 6, LOG_DEBUG = 7 };

/* Messages above this level are not written. Starts at LOG_NOTICE. */
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * A place in the code that a peer can make speak: at most one line a second, and the next line says
 * how many were left out. One static struct per place, zero-initialised.
 */
struct log_limit {
    int64_t next_ms;
    uint32_t left_out;
};
void log_write_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
