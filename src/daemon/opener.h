/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of its own that may clone mounts (open_tree(2), CAP_SYS_ADMIN), so that the server can
 * give that right up and still open new exports when it reads them anew. It does that one thing,
 * and ends with the server.
 */
#ifndef DAEMON_OPENER_H
#define DAEMON_OPENER_H

#include "base/err.h"

#include <pthread.h>
#include <sys/types.h>

struct opener {
    int fd; /* -1: none */
    pid_t pid;
    pthread_mutex_t lock;
};

/* Before there are threads. */
int opener_start(struct opener *opener, struct err *err) MUST_USE;
/* A descriptor that the caller owns, or -errno. Any thread. */
int opener_open_tree(struct opener *opener, const char *path) MUST_USE;
void opener_stop(struct opener *opener);

#endif
