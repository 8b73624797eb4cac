/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of its own that looks things up for a server which sees nothing of the machine: where
 * paths lead (for MNT), names and addresses of hosts, netgroups. It opens nothing for the server,
 * has no privilege but to look into all directories, and ends with the server. What is asked there
 * may take long, so FINDER_THREAD_COUNT questions are answered at a time.
 */
#ifndef DAEMON_FINDER_H
#define DAEMON_FINDER_H

#include "base/err.h"
#include "vfs/outside.h"

#include <pthread.h>
#include <sys/types.h>

#define FINDER_THREAD_COUNT 16U

struct finder {
    bool is_running;
    pid_t pid;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    int fds[FINDER_THREAD_COUNT]; /* one for each thread there */
    bool is_busy[FINDER_THREAD_COUNT];
};

/* Before there are threads. */
int finder_start(struct finder *finder, struct err *err) MUST_USE;
void finder_stop(struct finder *finder);

/* For struct outside_ops; any thread. -EPIPE, or EAI_SYSTEM: the process is gone. */
int finder_look(struct finder *finder, const char *path, struct outside_look *look) MUST_USE;
int finder_addresses(struct finder *finder, const char *host,
                     struct outside_addresses *addresses) MUST_USE;
int finder_names(struct finder *finder, const uint8_t address[16],
                 struct outside_names *names) MUST_USE;
int finder_groups(struct finder *finder, uint32_t uid, struct outside_groups *groups) MUST_USE;
bool finder_netgroup(struct finder *finder, const char *group, const char *name);

#endif
