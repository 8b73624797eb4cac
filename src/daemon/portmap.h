/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Port 111: our own portmapper when it is free, else registration with the one that runs there,
 * else neither and a log line that says why. --portmap on makes the last an error, off leaves 111
 * alone.
 *
 *     portmap_listen     before rpc_server_run, while ports below 1024 may be bound; at the sockets
 *                        that were passed for it, if there are any
 *     portmap_announce   when the server answers at its port
 *     portmap_withdraw   before it stops
 */
#ifndef DAEMON_PORTMAP_H
#define DAEMON_PORTMAP_H

#include "daemon/activate.h"
#include "daemon/listen.h"
#include "daemon/rpcbind.h"
#include "server/pmap.h"

#define PORTMAP_ENTRY_COUNT_MAX 64U

enum portmap_how { PORTMAP_NONE, PORTMAP_OWN, PORTMAP_REGISTERED };

struct portmap {
    enum portmap_how how;
    struct rpc_program program; /* PORTMAP_OWN */
    struct pmap_registry registry;
    bool has_local;         /* and RPCBIND_SOCKET is ours */
    struct rpcbind rpcbind; /* PORTMAP_REGISTERED */
    uint32_t entry_count;   /* what was set there */
    struct rpcbind_entry entries[PORTMAP_ENTRY_COUNT_MAX];
};

int portmap_listen(struct portmap *portmap, enum config_portmap wanted, struct rpc_server *server,
                   const struct listen_addresses *addresses, struct activated *activated,
                   struct err *err) MUST_USE;

/* Makes the programs, at port, known for the families of the addresses. */
int portmap_announce(struct portmap *portmap, enum config_portmap wanted,
                     const struct listen_addresses *addresses,
                     const struct rpc_program *const *programs, size_t program_count, uint16_t port,
                     struct err *err) MUST_USE;

void portmap_withdraw(struct portmap *portmap);

#endif
