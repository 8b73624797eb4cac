/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_TEXT_BYTES_MAX (INET6_ADDRSTRLEN + 16)
#define FREE_PORT_TRIES 32

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static struct sockaddr *as_sockaddr(struct sockaddr_storage *address)
{
    return (struct sockaddr *)(void *)address;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    }
}

static bool is_any_ipv6(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* "192.0.2.7:2049", "[2001:db8::7]:2049", "every address, port 2049" */
static void format(const struct sockaddr_storage *address, uint16_t port,
                   char text[ADDRESS_TEXT_BYTES_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

    if (is_any_ipv6(address)) {
        (void)snprintf(text, ADDRESS_TEXT_BYTES_MAX, "port %u", port);
    } else if (address->ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(text, ADDRESS_TEXT_BYTES_MAX, "[%s]:%u", host, port);
    } else {
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(text, ADDRESS_TEXT_BYTES_MAX, "%s:%u", host, port);
    }
}

static int add(struct listen_addresses *addresses, const struct sockaddr *address, socklen_t bytes,
               struct err *err)
{
    if (addresses->count == LISTEN_ADDRESS_COUNT_MAX) {
        return err_set(err, -EINVAL, "--bind: more than %u addresses", LISTEN_ADDRESS_COUNT_MAX);
    }
    struct sockaddr_storage *item = &addresses->items[addresses->count++];
    memcpy(item, address, bytes);
    addresses->ipv6 = addresses->ipv6 || item->ss_family == AF_INET6;
    addresses->ipv4 = addresses->ipv4 || item->ss_family == AF_INET || is_any_ipv6(item);
    return 0;
}

static int add_named(struct listen_addresses *addresses, const char *name, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int error = 0;

    int lookup = getaddrinfo(name, NULL, &hints, &list);
    if (lookup != 0) {
        return err_set(err, -EINVAL, "--bind '%s': %s", name, gai_strerror(lookup));
    }
    for (const struct addrinfo *ai = list; ai != NULL && error == 0; ai = ai->ai_next) {
        error = add(addresses, ai->ai_addr, ai->ai_addrlen, err);
    }
    freeaddrinfo(list);
    return error;
}

static bool machine_has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

int listen_find_addresses(const struct config *config, struct listen_addresses *addresses,
                          struct err *err)
{
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    const struct sockaddr_in any = {.sin_family = AF_INET};
    int error = 0;

    *addresses = (struct listen_addresses){0};
    for (uint32_t i = 0; i < config->bind_count && error == 0; i++) {
        error = add_named(addresses, config->binds[i], err);
    }
    if (config->bind_count > 0) {
        return error;
    }
    return machine_has_ipv6()
               ? add(addresses, (const struct sockaddr *)(const void *)&any6, sizeof any6, err)
               : add(addresses, (const struct sockaddr *)(const void *)&any, sizeof any, err);
}

/* Binds a socket and closes it again; *port 0 becomes the port it got. */
static int try_one(struct sockaddr_storage address, uint16_t *port, int type)
{
    socklen_t bytes = address_bytes(&address);
    int on = 1;
    int only = is_any_ipv6(&address) ? 0 : 1;

    int fd = socket(address.ss_family, type | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    set_port(&address, *port);
    if (type == SOCK_STREAM) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (address.ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    int error = bind(fd, as_sockaddr(&address), bytes) != 0 ? -errno : 0;
    if (error == 0 && type == SOCK_STREAM && listen(fd, 1) != 0) {
        error = -errno;
    }
    if (error == 0 && *port == 0 && getsockname(fd, as_sockaddr(&address), &bytes) == 0) {
        *port = ntohs(address.ss_family == AF_INET6
                          ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                          : ((struct sockaddr_in *)(void *)&address)->sin_port);
    }
    close(fd);
    return error;
}

int listen_try(const struct listen_addresses *addresses, uint16_t port, int type)
{
    int error = 0;

    for (uint32_t i = 0; i < addresses->count && error == 0; i++) {
        error = try_one(addresses->items[i], &port, type);
    }
    return error;
}

static int explain(int error, const struct sockaddr_storage *address, uint16_t port,
                   const char *protocol, struct err *err)
{
    char where[ADDRESS_TEXT_BYTES_MAX];

    format(address, port, where);
    switch (error) {
    case -EADDRINUSE:
        return err_set(err, error,
                       "cannot listen on %s (%s): another program does (`ss -lnp 'sport = :%u'` "
                       "shows which); stop it, or choose with --port",
                       where, protocol, port);
    case -EACCES:
        return err_set(err, error,
                       "cannot listen on %s (%s): ports below 1024 are for root; choose a higher "
                       "one with --port",
                       where, protocol);
    case -EADDRNOTAVAIL:
        return err_set(err, error,
                       "cannot listen on %s (%s): --bind names no address of this machine", where,
                       protocol);
    default:
        return err_set(err, error, "cannot listen on %s (%s): %s", where, protocol,
                       strerror(-error));
    }
}

/* A port that is free at all addresses for TCP and UDP. */
static int free_port(const struct listen_addresses *addresses, uint16_t *port, struct err *err)
{
    int error = -EADDRINUSE;

    for (int i = 0; i < FREE_PORT_TRIES && error == -EADDRINUSE; i++) {
        *port = 0;
        error = try_one(addresses->items[0], port, SOCK_STREAM);
        if (error != 0) {
            return explain(error, &addresses->items[0], 0, "tcp", err);
        }
        error = listen_try(addresses, *port, SOCK_STREAM);
        if (error == 0) {
            error = listen_try(addresses, *port, SOCK_DGRAM);
        }
    }
    if (error == -EADDRINUSE) {
        return err_set(err, error, "no port is free for TCP and UDP at all addresses, in %d tries",
                       FREE_PORT_TRIES);
    }
    return 0; /* whatever else is wrong will be found, and said, by listening */
}

int listen_begin(struct rpc_server *server, const struct listen_addresses *addresses,
                 const struct rpc_program *const *programs, size_t program_count, uint16_t *port,
                 struct err *err)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};

    int error = *port == 0 ? free_port(addresses, port, err) : 0;
    for (uint32_t i = 0; error == 0 && i < addresses->count * COUNT_OF(types); i++) {
        struct sockaddr_storage address = addresses->items[i / COUNT_OF(types)];
        int type = types[i % COUNT_OF(types)];
        set_port(&address, *port);
        error = rpc_server_listen(server, as_sockaddr(&address), address_bytes(&address), type,
                                  programs, program_count, NULL, err);
        if (error != 0) {
            error = explain(error, &address, *port, type == SOCK_STREAM ? "tcp" : "udp", err);
        }
    }
    return error;
}
