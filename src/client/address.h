/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket addresses of IPv4 and IPv6, as one type.
 */
#ifndef CLIENT_ADDRESS_H
#define CLIENT_ADDRESS_H

#include "base/err.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct client_address {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    };
    socklen_t bytes;
};

#define CLIENT_ADDRESS_COUNT_MAX 16U

/* Looks up a host; may take as long as DNS does. At most CLIENT_ADDRESS_COUNT_MAX are given. */
int client_address_find(const char *host, struct client_address *addresses, size_t *count,
                        struct err *err) MUST_USE;

/* From a socket address of another kind of struct. */
void client_address_set(struct client_address *address, const struct sockaddr *from,
                        socklen_t bytes);

uint16_t client_address_port(const struct client_address *address);
void client_address_set_port(struct client_address *address, uint16_t port);

/* "192.0.2.1" or "2001:db8::1". */
const char *client_address_text(const struct client_address *address, char text[64]);

#endif
