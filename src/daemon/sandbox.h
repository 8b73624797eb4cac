/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server may still do once it serves: the kernel's filters, on top of the jail (jail.h)
 * and of few capabilities (privs.h). holdfast-serve(8), "Privileges", says what that keeps out and
 * what it does not.
 *
 * A system call that the server never makes ends it, if it is one that only somebody else's code
 * would make: whoever runs code in here must not go on, and a service manager starts the server
 * again. Everything else that is not on the list fails, and a line in the log says so: should a
 * library call it on some other machine, one request fails, and not the service. (By SIGSYS, which
 * no thread may block.)
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include "daemon/config.h"

#include <stdbool.h>

/* Whether this build can have one: what checks memory at run time needs paths and calls that it
 * would not have. */
bool sandbox_is_possible(void);
/* Whether this server shall have one, as far as the kernel has it. */
bool sandbox_is_wanted(const struct config *config);

/* Landlock: files are reached below the root alone, and no process outside gets a signal. Called
 * in the jail, by the only thread. 0; -EOPNOTSUPP: this kernel's does not do; another -errno. */
int sandbox_begin(void) MUST_USE;
/* The same for a plain user's server, which has no jail: a ruleset with the state directory in it;
 * a directory below which it may do everything but execute; and that nothing else counts from now
 * on, for the calling thread and those that it starts, which takes the ruleset over. A descriptor
 * or 0, or as above. */
int sandbox_plan(const char *state_dir) MUST_USE;
int sandbox_permit(int ruleset_fd, int dir_fd) MUST_USE;
int sandbox_restrict(int ruleset_fd) MUST_USE;
/* seccomp, for all threads. 0 or -errno. */
int sandbox_close(void) MUST_USE;

#endif
