/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that the service manager has bound for us: sd_listen_fds(3), the protocol, without the
 * library. It keeps them while no server runs, so that clients wait instead of being refused. What
 * one is for is its name, FileDescriptorName= of systemd.socket(5):
 *
 *     nfs        all programs but the portmapper; the name of the unit, or none, says the same
 *     portmap    the portmapper
 *     metrics    numbers for Prometheus over HTTP
 */
#ifndef DAEMON_ACTIVATE_H
#define DAEMON_ACTIVATE_H

#include "daemon/listen.h"

#define ACTIVATE_SOCKET_COUNT_MAX 32U

enum activate_use { ACTIVATE_NFS, ACTIVATE_PORTMAP, ACTIVATE_METRICS, ACTIVATE_USE_COUNT };

struct activated {
    uint32_t count;
    int fds[ACTIVATE_SOCKET_COUNT_MAX]; /* -1: it has an owner */
    enum activate_use uses[ACTIVATE_SOCKET_COUNT_MAX];
    uint32_t counts[ACTIVATE_USE_COUNT];
};

/* Takes over what $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES say, and unsets them; without them
 * there is nothing. Before there are threads, and before anything else is opened. */
int activate_take(struct activated *activated, struct err *err) MUST_USE;

/* Serves the programs at the sockets of that use: their port, which is one for all, and in
 * *addresses, unless it is NULL, where they are bound. */
int activate_serve(struct activated *activated, enum activate_use use, struct rpc_server *server,
                   const struct rpc_program *const *programs, size_t program_count,
                   struct listen_addresses *addresses, uint16_t *port, struct err *err) MUST_USE;

/* The socket for metrics, the caller's, or -1. */
int activate_metrics(struct activated *activated);

/* Closes those that nobody has taken, and says so. */
void activate_close(struct activated *activated);

#endif
