/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place where the server lives: a mount namespace of its own with an empty tmpfs, and in it
 * what the server needs and nothing else. The opener makes it, and puts directories into it.
 *
 *     /.exports/N           clones of the mounts that are exported
 *     the state directory   at the path that it has outside
 *     /proc/self/fd         of the server's process
 *     /proc/net             of its network namespace, to be read
 *
 * 1. Nothing that is mounted or unmounted outside later shows in it, or is kept busy by it, but for
 *    what is exported.
 * 2. No device node in it can be opened: clients may make any.
 */
#ifndef DAEMON_JAIL_H
#define DAEMON_JAIL_H

#include "base/check.h"

#include <stdbool.h>
#include <sys/types.h>

#define JAIL_PLACE_COUNT_MAX 16384U

struct jail {
    bool exists;
    int error;       /* why it does not, -errno */
    int ns_fd;       /* its namespace */
    int root_fd;     /* its root */
    int host_ns_fd;  /* where this process belongs, */
    int host_root_fd; /* with its root */
    int host_cwd_fd; /* and its directory */
    uint32_t next_place;
    uint8_t used[JAIL_PLACE_COUNT_MAX / 8];
};

/* In the opener, which has one thread. state_dir: absolute, without symbolic links. */
void jail_make(struct jail *jail, const char *state_dir, pid_t server);
/* Puts a clone of a mount into it. *place is for jail_remove. 0 or -errno. */
int jail_add(struct jail *jail, int tree_fd, uint32_t *place) MUST_USE;
void jail_remove(struct jail *jail, uint32_t place);

#endif
