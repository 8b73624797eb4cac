/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The portmapper, version 2, and rpcbind, versions 3 and 4 (RFC 1833): which program of this host
 * listens where.
 *
 * The daemon registers what it serves itself; those entries cannot be taken away. Other programs of
 * this host (the client's statd, perhaps) may SET and UNSET theirs, over the local socket or from a
 * reserved port of the loopback interface.
 */
#ifndef SERVER_PMAP_H
#define SERVER_PMAP_H

#include "proto/pmap.h"
#include "rpc/server.h"
#include "server/uaddr.h"

#include <pthread.h>

#define PMAP_ENTRY_COUNT_MAX 256U
#define PMAP_USER_ENTRY_COUNT_MAX 64U /* of users other than root, together */
#define PMAP_PATH_BYTES_MAX 108U      /* sun_path */

struct pmap_netid;

struct pmap_entry {
    uint32_t prog;
    uint32_t vers;
    const struct pmap_netid *netid;
    struct uaddr uaddr;             /* the "any" address: answered with the one that was asked */
    char path[PMAP_PATH_BYTES_MAX]; /* netid "local" */
    uint32_t owner_uid;
    bool ours;
};

struct pmap_registry {
    pthread_mutex_t lock;
    uint32_t entry_count;
    struct pmap_entry entries[PMAP_ENTRY_COUNT_MAX];
    struct rpcb_stat stats[RPCBVERS_STAT];
};

void pmap_registry_init(struct pmap_registry *registry);

/* This process serves a version of a program on netid "udp", "tcp", "udp6" or "tcp6" at a port, on
 * every address. */
void pmap_registry_add(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                       const char *netid, uint16_t port);
/* The same on a local socket. */
void pmap_registry_add_local(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                             const char *path);

/* Fills *program. The registry must outlive the server that runs it. */
void pmap_program_init(struct rpc_program *program, struct pmap_registry *registry);

#endif
