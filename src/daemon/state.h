/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory, made and locked: one server to one directory. What is in it: vfs. */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include "base/err.h"

/* Makes the directory (0700) and those above it (0755) where they are missing, and takes its lock,
 * which *lock_fd holds until it is closed. -EBUSY: another server has it. */
int state_take(const char *dir, int *lock_fd, struct err *err) MUST_USE;

#endif
