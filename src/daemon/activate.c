/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/activate.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define UNIT_SUFFIX ".socket"

/* What systemd-socket-activate(1) and systemd call a socket that was given no name. */
static bool is_plain_name(const char *name, size_t bytes)
{
    const size_t suffix_bytes = sizeof UNIT_SUFFIX - 1;

    return bytes == 0 || (bytes == strlen("unknown") && memcmp(name, "unknown", bytes) == 0) ||
           (bytes > suffix_bytes &&
            memcmp(name + bytes - suffix_bytes, UNIT_SUFFIX, suffix_bytes) == 0);
}

static int use_of(const char *name, size_t bytes, enum activate_use *use, struct err *err)
{
    static const char *const names[ACTIVATE_USE_COUNT] = {"nfs", "portmap", "metrics"};

    for (size_t i = 0; i < ACTIVATE_USE_COUNT; i++) {
        if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0) {
            *use = (enum activate_use)i;
            return 0;
        }
    }
    *use = ACTIVATE_NFS;
    return is_plain_name(name, bytes)
               ? 0
               : err_set(err, -EINVAL,
                         "the service manager passed a socket called '%.*s'; one of nfs, portmap, "
                         "metrics (FileDescriptorName=)",
                         (int)bytes, name);
}

/* A socket that takes calls over IP. */
static int check(int fd, enum activate_use use, struct err *err)
{
    struct sockaddr_storage address = {0};
    socklen_t address_bytes = sizeof address;
    int type = 0, listens = 0;
    socklen_t bytes = sizeof type;

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0) {
        return err_set(err, -errno, "descriptor %d of the service manager: %s", fd,
                       strerror(errno));
    }
    bool is_ip = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    bool is_right = type == SOCK_STREAM ? listens != 0
                                        : type == SOCK_DGRAM && use != ACTIVATE_METRICS;
    if (!is_ip || !is_right) {
        return err_set(err, -EINVAL,
                       "descriptor %d of the service manager is %s; ListenStream= and "
                       "ListenDatagram= with a port, and Accept=no, are right",
                       fd, is_ip ? "no socket that takes calls" : "no socket of IP");
    }
    return 0;
}

static uint32_t number_in(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int activate_take(struct activated *activated, struct err *err)
{
    const char *names = getenv("LISTEN_FDNAMES");
    uint32_t count = number_in("LISTEN_PID") == (uint32_t)getpid() ? number_in("LISTEN_FDS") : 0;
    int error = 0;

    *activated = (struct activated){0};
    if (count > ACTIVATE_SOCKET_COUNT_MAX) {
        return err_set(err, -E2BIG, "the service manager passed %u sockets, more than %u", count,
                       ACTIVATE_SOCKET_COUNT_MAX);
    }
    names = names != NULL ? names : "";
    for (uint32_t i = 0; i < count && error == 0; i++) {
        size_t bytes = strcspn(names, ":");
        int fd = FIRST_FD + (int)i;
        error = use_of(names, bytes, &activated->uses[i], err);
        if (error == 0) {
            error = check(fd, activated->uses[i], err);
        }
        names += bytes + (names[bytes] == ':' ? 1 : 0);
        activated->fds[i] = fd;
        activated->counts[activated->uses[i]]++;
        activated->count = i + 1;
    }
    if (error == 0 && activated->counts[ACTIVATE_METRICS] > 1) {
        error = err_set(err, -EINVAL, "the service manager passed more than one socket for "
                                      "metrics");
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return error;
}

static void note_address(int fd, struct listen_addresses *addresses)
{
    struct sockaddr_storage *item = &addresses->items[addresses->count];
    socklen_t bytes = sizeof *item;
    int only = 1;
    socklen_t only_bytes = sizeof only;

    *item = (struct sockaddr_storage){0};
    if (addresses->count == LISTEN_ADDRESS_COUNT_MAX ||
        getsockname(fd, (struct sockaddr *)item, &bytes) != 0) {
        return;
    }
    (void)getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &only_bytes);
    bool is_any = IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)(void *)item)->sin6_addr);
    addresses->ipv6 = addresses->ipv6 || item->ss_family == AF_INET6;
    addresses->ipv4 =
        addresses->ipv4 || item->ss_family == AF_INET || (is_any && only == 0);
    addresses->count++;
}

int activate_serve(struct activated *activated, enum activate_use use, struct rpc_server *server,
                   const struct rpc_program *const *programs, size_t program_count,
                   struct listen_addresses *addresses, uint16_t *port, struct err *err)
{
    uint16_t first = 0;

    if (addresses != NULL) {
        *addresses = (struct listen_addresses){0};
    }
    for (uint32_t i = 0; i < activated->count; i++) {
        if (activated->uses[i] != use || activated->fds[i] < 0) {
            continue;
        }
        if (addresses != NULL) {
            note_address(activated->fds[i], addresses);
        }
        int error =
            rpc_server_adopt(server, activated->fds[i], programs, program_count, port, err);
        if (error != 0) {
            return error;
        }
        activated->fds[i] = -1;
        if (first != 0 && *port != first) {
            return err_set(err, -EINVAL,
                           "the service manager passed sockets at the ports %u and %u, and clients "
                           "are told of one",
                           first, *port);
        }
        first = *port;
    }
    return 0;
}

int activate_metrics(struct activated *activated)
{
    int fd = -1;

    for (uint32_t i = 0; i < activated->count && fd < 0; i++) {
        if (activated->uses[i] == ACTIVATE_METRICS) {
            fd = activated->fds[i];
            activated->fds[i] = -1;
        }
    }
    return fd;
}

void activate_close(struct activated *activated)
{
    for (uint32_t i = 0; i < activated->count; i++) {
        if (activated->fds[i] >= 0) {
            log_warning("descriptor %d of the service manager is not used: nothing is served there",
                        activated->fds[i]);
            close(activated->fds[i]);
            activated->fds[i] = -1;
        }
    }
}
