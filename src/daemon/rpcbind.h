/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a portmapper that runs on this machine already: tells it what we serve, and takes
 * that back. RFC 1833.
 *
 * Over /run/rpcbind.sock where that answers (version 4: IPv4 and IPv6, and the kernel tells rpcbind
 * who we are), else from a reserved port over UDP to 127.0.0.1 (version 2: IPv4 only). Blocks for
 * at most RPCBIND_TIMEOUT_MS a question. One thread.
 */
#ifndef DAEMON_RPCBIND_H
#define DAEMON_RPCBIND_H

#include "base/err.h"

#include <stdbool.h>

#define RPCBIND_SOCKET "/run/rpcbind.sock"
#define RPCBIND_TIMEOUT_MS 2000

struct rpcbind {
    int fd;
    bool is_local;
    uint32_t xid;
};

/* A version of a program at a port of every address of a family. */
struct rpcbind_entry {
    uint32_t prog;
    uint32_t vers;
    int family;      /* AF_INET or AF_INET6 */
    int ip_protocol; /* IPPROTO_TCP or IPPROTO_UDP */
    uint16_t port;
};

/* Is there somebody behind RPCBIND_SOCKET? */
bool rpcbind_socket_answers(void);

int rpcbind_open(struct rpcbind *rpcbind, struct err *err) MUST_USE;
void rpcbind_close(struct rpcbind *rpcbind);

/* -EEXIST: it has another entry for that program, version and transport, and does not change it;
 * *port is that one's. -EAFNOSUPPORT: no IPv6 over version 2. Setting the same twice is good. */
int rpcbind_set(struct rpcbind *rpcbind, const struct rpcbind_entry *entry,
                uint16_t *port) MUST_USE;
int rpcbind_unset(struct rpcbind *rpcbind, const struct rpcbind_entry *entry) MUST_USE;

/* "udp", "tcp", "udp6", "tcp6": RFC 5665 §5.2. */
const char *rpcbind_netid(const struct rpcbind_entry *entry);

#endif
