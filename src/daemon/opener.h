/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of its own that opens what is exported, so that the server can give up the right to
 * clone mounts (CAP_SYS_ADMIN), and the sight of everything else. The server names a directory;
 * whether it gets it is decided here, by daemon/grants.h. The process also keeps the server's
 * jail, daemon/jail.h, and ends with the server.
 */
#ifndef DAEMON_OPENER_H
#define DAEMON_OPENER_H

#include "daemon/config.h"
#include "vfs/outside.h"

#include <pthread.h>

struct opener {
    int fd; /* -1: none */
    pid_t pid;
    pthread_mutex_t lock;
};

/* Before there are threads. state_dir: absolute, without symbolic links. */
int opener_start(struct opener *opener, const struct config *config, const char *state_dir,
                 struct err *err) MUST_USE;
void opener_stop(struct opener *opener);

/* For struct outside_ops; any thread. */
int opener_open(struct opener *opener, const char *path, struct outside_tree *tree) MUST_USE;
void opener_release(struct opener *opener, uint32_t place);
int opener_journal(struct opener *opener, const char *path) MUST_USE;
/* Those of the configuration, whatever the server may ask. What they say is granted from now on;
 * opener_publish takes back what was granted before. */
int opener_files(struct opener *opener, struct outside_files *files) MUST_USE;
void opener_publish(struct opener *opener);

/* Takes the process, which has one thread and CAP_SYS_ADMIN and CAP_SYS_CHROOT, into the jail.
 * -errno: there is none, and all is as before. */
int opener_enter(struct opener *opener) MUST_USE;
/* Removes the portmapper's local socket, which this server made and cannot see any more. */
void opener_unlink_portmap(struct opener *opener);

#endif
