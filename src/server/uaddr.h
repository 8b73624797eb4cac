/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Universal addresses, the text form of transport addresses: RFC 5665 §5.2.3.3 and §5.2.3.4.
 *
 *     192.0.2.7.8.1       IPv4, then the port's two bytes: 8 * 256 + 1 = 2049
 *     2001:db8::7.8.1     IPv6, likewise
 */
#ifndef SERVER_UADDR_H
#define SERVER_UADDR_H

#include "xdr/stream.h"

#include <netinet/in.h>

#define UADDR_BYTES_MAX 64U /* INET6_ADDRSTRLEN, ".255.255", and the NUL */

struct uaddr {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
};

/* family is AF_INET or AF_INET6; the text must be of that family. */
bool uaddr_parse(struct xdr_bytes text, int family, struct uaddr *uaddr);

void uaddr_format(const struct uaddr *uaddr, int family, char text[UADDR_BYTES_MAX]);

/* The address that means "every address of this host". */
struct in6_addr uaddr_any(int family);
bool uaddr_is_any(const struct in6_addr *address, int family);

#endif
