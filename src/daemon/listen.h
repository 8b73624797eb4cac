/* SPDX-License-Identifier: Apache-2.0 */
/* Where the server listens: the addresses of --bind, TCP and UDP on one port. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "daemon/config.h"
#include "rpc/server.h"

#define LISTEN_ADDRESS_COUNT_MAX 32U

struct listen_addresses {
    uint32_t count;
    struct sockaddr_storage items[LISTEN_ADDRESS_COUNT_MAX];
    bool ipv4; /* some of them take IPv4 */
    bool ipv6;
};

/* The addresses of config's binds (names are looked up), or "all", which is one dual-stack address
 * where the machine has IPv6. */
int listen_find_addresses(const struct config *config, struct listen_addresses *addresses,
                          struct err *err) MUST_USE;

/* Could a socket of this type be bound to all addresses at that port now? 0 or -errno. */
int listen_try(const struct listen_addresses *addresses, uint16_t port, int type) MUST_USE;

/* Serves the programs over TCP and UDP at all addresses. *port 0 becomes a port that is free for
 * both; all addresses get the same. */
int listen_begin(struct rpc_server *server, const struct listen_addresses *addresses,
                 const struct rpc_program *const *programs, size_t program_count, uint16_t *port,
                 struct err *err) MUST_USE;

#endif
