/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpcbind.h"

#include "proto/pmap.h"
#include "proto/rpc.h"
#include "server/uaddr.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX 2048U
#define RESERVED_PORT_FIRST 1023 /* downwards to 512, as bindresvport(3) */
#define RESERVED_PORT_LAST 512
#define SEND_COUNT_MAX 2 /* UDP: a datagram may be lost also on loopback, when buffers are full */

const char *rpcbind_netid(const struct rpcbind_entry *entry)
{
    if (entry->family == AF_INET6) {
        return entry->ip_protocol == IPPROTO_TCP ? "tcp6" : "udp6";
    }
    return entry->ip_protocol == IPPROTO_TCP ? "tcp" : "udp";
}

static int connect_local(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = RPCBIND_SOCKET};

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/* rpcbind believes what comes from a port that only root can have. */
static int connect_udp(void)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in to = from;
    int error = -EADDRINUSE;

    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    for (int port = RESERVED_PORT_FIRST; port >= RESERVED_PORT_LAST && error == -EADDRINUSE;
         port--) {
        from.sin_port = htons((uint16_t)port);
        error = bind(fd, (struct sockaddr *)(void *)&from, sizeof from) == 0 ? 0 : -errno;
    }
    to.sin_port = htons(PMAP_PORT);
    if (error == 0 && connect(fd, (struct sockaddr *)(void *)&to, sizeof to) != 0) {
        error = -errno;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    return fd;
}

bool rpcbind_socket_answers(void)
{
    int fd = connect_local();

    if (fd < 0) {
        return false;
    }
    close(fd);
    return true;
}

int rpcbind_open(struct rpcbind *rpcbind, struct err *err)
{
    *rpcbind = (struct rpcbind){.fd = connect_local(), .is_local = true};
    if (rpcbind->fd < 0) {
        rpcbind->fd = connect_udp();
        rpcbind->is_local = false;
    }
    if (rpcbind->fd < 0) {
        return err_set(err, rpcbind->fd,
                       "cannot reach the portmapper, neither at " RPCBIND_SOCKET
                       " nor from a reserved port at 127.0.0.1: %s",
                       strerror(-rpcbind->fd));
    }
    if (getrandom(&rpcbind->xid, sizeof rpcbind->xid, GRND_NONBLOCK) < 0) {
        rpcbind->xid = (uint32_t)getpid();
    }
    return 0;
}

void rpcbind_close(struct rpcbind *rpcbind)
{
    if (rpcbind->fd >= 0) {
        close(rpcbind->fd);
        rpcbind->fd = -1;
    }
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Bytes received, 0 at the end of the stream, -ETIMEDOUT, or another -errno. */
static ssize_t receive(int fd, uint8_t *bytes, size_t size_bytes, int64_t deadline_ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    int64_t left_ms = deadline_ms - now_ms();
    int n = poll(&ready, 1, left_ms > 0 ? (int)left_ms : 0);
    if (n == 0) {
        return -ETIMEDOUT;
    }
    ssize_t got = n < 0 ? -1 : recv(fd, bytes, size_bytes, 0);
    return got < 0 ? -errno : got;
}

/* One record of one fragment, which is what rpcbind sends (RFC 5531 §11). */
static ssize_t receive_record(int fd, uint8_t *bytes, size_t size_bytes, int64_t deadline_ms)
{
    uint8_t mark[4];
    size_t got = 0;
    size_t wanted = sizeof mark;
    bool in_body = false;

    for (;;) {
        uint8_t *to = in_body ? bytes : mark;
        ssize_t n = receive(fd, to + got, wanted - got, deadline_ms);
        if (n <= 0) {
            return n == 0 ? -EPIPE : n;
        }
        got += (size_t)n;
        if (got < wanted) {
            continue;
        }
        if (in_body) {
            return (ssize_t)wanted;
        }
        uint32_t value;
        struct xdr reader = xdr_reader(mark, sizeof mark);
        (void)xdr_get_u32(&reader, &value);
        wanted = value & 0x7fffffffU;
        got = 0;
        in_body = true;
        if ((value & 0x80000000U) == 0 || wanted == 0 || wanted > size_bytes) {
            return -EBADMSG;
        }
    }
}

static int send_all(int fd, const uint8_t *bytes, size_t size_bytes)
{
    ssize_t sent = send(fd, bytes, size_bytes, MSG_NOSIGNAL);

    if (sent < 0) {
        return -errno;
    }
    return (size_t)sent == size_bytes ? 0 : -EMSGSIZE;
}

/* The results of an accepted and successful call, or an error. 1: a reply to something else. */
static int check_reply(struct xdr *reply, uint32_t xid)
{
    uint32_t got_xid, type, stat, flavor, accepted;
    struct xdr_bytes verf;

    (void)xdr_get_u32(reply, &got_xid);
    (void)xdr_get_u32(reply, &type);
    if (!xdr_ok(reply) || got_xid != xid || type != REPLY) {
        return 1;
    }
    (void)xdr_get_u32(reply, &stat);
    if (stat != MSG_ACCEPTED) {
        return -EACCES;
    }
    (void)xdr_get_u32(reply, &flavor);
    (void)xdr_get_bytes(reply, &verf, RPC_AUTH_BODY_MAX);
    (void)xdr_get_u32(reply, &accepted);
    if (!xdr_ok(reply)) {
        return -EBADMSG;
    }
    return accepted == SUCCESS ? 0 : -EPROTO;
}

static int exchange(struct rpcbind *rpcbind, const struct xdr *call, uint8_t *buffer,
                    struct xdr *reply)
{
    size_t head = rpcbind->is_local ? 0 : 4; /* no record mark over UDP */
    int64_t deadline_ms = now_ms() + RPCBIND_TIMEOUT_MS;

    int error = send_all(rpcbind->fd, call->start + head, xdr_offset(call) - head);
    while (error == 0) {
        ssize_t got = rpcbind->is_local
                          ? receive_record(rpcbind->fd, buffer, MESSAGE_BYTES_MAX, deadline_ms)
                          : receive(rpcbind->fd, buffer, MESSAGE_BYTES_MAX, deadline_ms);
        if (got < 0) {
            return (int)got;
        }
        *reply = xdr_reader(buffer, (size_t)got);
        error = check_reply(reply, rpcbind->xid);
        if (error != 1) {
            return error;
        }
        error = 0;
    }
    return error;
}

/* The stream was idle since start-up and rpcbind may have closed it, or be another one now. */
static int reconnect(struct rpcbind *rpcbind)
{
    rpcbind_close(rpcbind);
    rpcbind->fd = connect_local();
    return rpcbind->fd < 0 ? rpcbind->fd : 0;
}

/* Calls a procedure with an entry as its argument; the results are in *reply, within buffer. */
static int call(struct rpcbind *rpcbind, uint32_t vers, uint32_t proc,
                const struct rpcbind_entry *entry, uint8_t buffer[MESSAGE_BYTES_MAX],
                struct xdr *reply)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct xdr call = xdr_writer(bytes, sizeof bytes);
    char uaddr_text[UADDR_BYTES_MAX];
    const struct uaddr uaddr = {.address = uaddr_any(entry->family), .port = entry->port};
    const char *netid = rpcbind_netid(entry);

    uaddr_format(&uaddr, entry->family, uaddr_text);
    (void)xdr_put_u32(&call, 0); /* the record mark, below */
    const uint32_t head[] = {++rpcbind->xid, CALL,      RPC_VERSION, PMAP_PROG, vers,
                             proc,           AUTH_NONE, 0,           AUTH_NONE, 0};
    for (size_t i = 0; i < COUNT_OF(head); i++) {
        (void)xdr_put_u32(&call, head[i]);
    }
    if (vers == RPCBVERS4) {
        const struct rpcb rpcb = {
            .r_prog = entry->prog,
            .r_vers = entry->vers,
            .r_netid = {.data = (const uint8_t *)netid, .size = (uint32_t)strlen(netid)},
            .r_addr = {.data = (const uint8_t *)uaddr_text, .size = (uint32_t)strlen(uaddr_text)},
        };
        (void)rpcb_put(&call, &rpcb);
    } else {
        const struct mapping mapping = {.prog = entry->prog,
                                        .vers = entry->vers,
                                        .prot = (uint32_t)entry->ip_protocol,
                                        .port = entry->port};
        (void)mapping_put(&call, &mapping);
    }
    CHECK(xdr_ok(&call));
    struct xdr mark = xdr_writer(bytes, 4);
    (void)xdr_put_u32(&mark, 0x80000000U | (uint32_t)(xdr_offset(&call) - 4));

    int error = -ETIMEDOUT;
    for (int sent = 0; sent < SEND_COUNT_MAX && error != 0; sent++) {
        error = exchange(rpcbind, &call, buffer, reply);
        if (error != 0 && rpcbind->is_local && reconnect(rpcbind) != 0) {
            break;
        }
    }
    return error;
}

/* Which port it has for that program; 0 if it does not say. Version 2 also over the local socket:
 * the later ones answer for the transport that the question came over (RFC 1833 §2.2.1). */
static uint16_t get_port(struct rpcbind *rpcbind, const struct rpcbind_entry *entry)
{
    uint8_t buffer[MESSAGE_BYTES_MAX];
    struct xdr reply;
    uint32_t port = 0;

    if (call(rpcbind, PMAP_VERS, PMAPPROC_GETPORT, entry, buffer, &reply) == 0) {
        (void)xdr_get_u32(&reply, &port);
    }
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* SET and UNSET have the same numbers in all versions (RFC 1833 §2.1, §3.1). */
static int change(struct rpcbind *rpcbind, uint32_t proc, const struct rpcbind_entry *entry)
{
    uint8_t buffer[MESSAGE_BYTES_MAX];
    struct xdr reply;
    bool done = false;

    if (!rpcbind->is_local && entry->family != AF_INET) {
        return -EAFNOSUPPORT;
    }
    uint32_t vers = rpcbind->is_local ? RPCBVERS4 : PMAP_VERS;
    int error = call(rpcbind, vers, proc, entry, buffer, &reply);
    if (error == 0 && !xdr_get_bool(&reply, &done)) {
        error = -EBADMSG;
    }
    return error == 0 && !done ? -EEXIST : error;
}

int rpcbind_set(struct rpcbind *rpcbind, const struct rpcbind_entry *entry, uint16_t *port)
{
    int error = change(rpcbind, PMAPPROC_SET, entry);

    *port = entry->port;
    if (error == -EEXIST) {
        *port = get_port(rpcbind, entry);
        error = *port == entry->port ? 0 : error;
    }
    return error;
}

int rpcbind_unset(struct rpcbind *rpcbind, const struct rpcbind_entry *entry)
{
    return change(rpcbind, PMAPPROC_UNSET, entry);
}
