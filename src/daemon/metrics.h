/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP port of `serve --metrics ADDR:PORT`: GET /metrics, and nothing else. One thread, which
 * answers one request after another, so whoever asks too often waits.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "daemon/status.h"

#define METRICS_CONNECTION_COUNT_MAX 32U
#define METRICS_ADDRESS_CONNECTION_COUNT_MAX 8U
#define METRICS_CONNECTION_SECONDS_MAX 3U

struct MHD_Daemon;

struct metrics {
    int fd; /* bound; -1: nobody wants metrics */
    struct MHD_Daemon *http;
    const struct status *status;
    char url[96]; /* "" without */
};

/* Binds ADDR:PORT ("127.0.0.1:9100", "[::1]:9100", ":9100" for every address, port 0: any free
 * one). NULL: nothing. Or takes over a socket that is bound, unless fd is -1. */
int metrics_bind(struct metrics *metrics, const char *address, int fd, struct err *err) MUST_USE;
/* Starts the thread. */
int metrics_start(struct metrics *metrics, const struct status *status, struct err *err) MUST_USE;
void metrics_stop(struct metrics *metrics);

#endif
