/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets and the source ports they are bound to.
 */
#include "client/internal.h"

#include <errno.h>
#include <unistd.h>

/* Where the Linux client begins, too: lower ones are more likely to belong to a service. */
#define RESERVED_PORT_FIRST 665U
#define RESERVED_PORT_END 1024U

static int bind_port(const struct client_rpc *rpc, int fd, uint16_t port)
{
    bool is_ipv6 = rpc->address.sa.sa_family == AF_INET6;
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address = {0};

    if (is_ipv6) {
        address.in6 = rpc->source.in6;
        address.in6.sin6_family = AF_INET6;
        address.in6.sin6_port = htons(port);
    } else {
        address.in = rpc->source.in;
        address.in.sin_family = AF_INET;
        address.in.sin_port = htons(port);
    }
    socklen_t size = is_ipv6 ? sizeof address.in6 : sizeof address.in;
    return bind(fd, &address.sa, size) == 0 ? 0 : -errno;
}

/* Secure exports want a source port below 1024. Without one things work too, as far as the server
 * allows. */
static void bind_reserved(const struct client_rpc *rpc, int fd)
{
    uint32_t count = RESERVED_PORT_END - RESERVED_PORT_FIRST;

    for (uint32_t i = 0; i < count; i++) {
        uint16_t port = (uint16_t)(RESERVED_PORT_FIRST + (rpc->xid_first % count + i) % count);
        int error = bind_port(rpc, fd, port);
        if (error != -EADDRINUSE) {
            return;
        }
    }
}

int client_socket(const struct client_rpc *rpc, int type, uint16_t port)
{
    int family = rpc->address.sa.sa_family;
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (port != 0) {
        int on = 1;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind_port(rpc, fd, port) == 0) {
            return fd;
        }
        on = 0;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (!rpc->options.insecure) {
        bind_reserved(rpc, fd);
    } else if (rpc->options.source != NULL) {
        (void)bind_port(rpc, fd, 0);
    }
    return fd;
}
