/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine that locks files: the address it calls from and the name it gives itself (caller_name,
 * mon_name). Both together are who it is: names alone are not unique ("localhost"), and one address
 * may stand for many machines.
 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

#include "rpc/server.h"

#define MACHINE_NAME_BYTES_MAX 1025U /* LM_MAXNAMELEN, the longest of them */
#define MACHINE_KEY_BYTES_MAX (1U + 16U + MACHINE_NAME_BYTES_MAX)
#define MACHINE_TEXT_BYTES_MAX 160U

struct machine {
    uint8_t address[16]; /* IPv4 mapped */
    uint32_t scope;      /* of a link-local address */
    struct xdr_bytes name;
};

/* name is borrowed. */
void machine_of_peer(const struct rpc_peer *peer, struct xdr_bytes name, struct machine *machine);
bool machine_is_loopback(const struct rpc_peer *peer);

/* As the client of vfs/range_lock.h; returns the size. */
uint32_t machine_key(const struct machine *machine, uint8_t key[MACHINE_KEY_BYTES_MAX]);

/* An address as a socket address without a port; of all zeros: AF_UNSPEC. */
void machine_sockaddr(const uint8_t address[16], uint32_t scope, struct sockaddr_storage *to);

/* The same name, capitals aside; "host" is the same as "host.example". */
bool machine_name_is_same(struct xdr_bytes a, struct xdr_bytes b);

/* "name (address)" for the log, what cannot be printed as "?". */
const char *machine_text(const struct machine *machine, char text[MACHINE_TEXT_BYTES_MAX]);

#endif
