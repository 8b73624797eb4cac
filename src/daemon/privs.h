/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that gives privilege away. Called by the main thread while it is the only one:
 * capabilities belong to threads, and those made later inherit what is left.
 *
 *     privs_begin    for good: no new privileges by exec, no core image that holds keys and
 *                    other people's data, every capability that neither starting nor serving needs
 *     privs_bound    after the sockets are bound: what only binding needed
 *     privs_opened   after the exports are opened, and the jail was entered: what only that needed
 */
#ifndef DAEMON_PRIVS_H
#define DAEMON_PRIVS_H

#include "base/err.h"

/* The processes beside the server, which keep the least they need: to clone mounts, keep the jail
 * and make a journal; to look into any directory. 0 or -errno. */
int privs_opener(void) MUST_USE;
int privs_finder(void) MUST_USE;
/* For those: what ends or reloads a service is for the server. They end when it does. */
void privs_ignore_stops(void);

int privs_begin(struct err *err) MUST_USE;
int privs_bound(struct err *err) MUST_USE;
int privs_opened(struct err *err) MUST_USE;

#endif
