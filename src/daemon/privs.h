/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that gives privilege away. Called by the main thread while it is the only one:
 * capabilities belong to threads, and those made later inherit what is left.
 *
 *     privs_begin    for good: no new privileges by exec, no core image that holds keys and
 *                    other people's data, every capability that neither starting nor serving needs
 *     privs_bound    after the sockets are bound: what only binding needed
 *     privs_opened   after the exports are opened: what only opening them needed
 */
#ifndef DAEMON_PRIVS_H
#define DAEMON_PRIVS_H

#include "base/err.h"

/* The opener's process (daemon/opener.h): what cloning mounts needs. 0 or -errno. */
int privs_opener(void) MUST_USE;
int privs_begin(struct err *err) MUST_USE;
int privs_bound(struct err *err) MUST_USE;
int privs_opened(struct err *err) MUST_USE;

#endif
