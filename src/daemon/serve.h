/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the server, says when it is ready, and stops it on SIGTERM or SIGINT. All wiring is here:
 * which programs at which sockets, on which vfs, and how the journal's progress lets replies go.
 */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include "daemon/config.h"

/* Returns 0 after a clean stop, or -errno when it could not start, with err saying why (problems of
 * exports were logged one by one before). Changes the process: signals, limits, privileges. */
int serve_run(const struct config *config, struct err *err) MUST_USE;

#endif
