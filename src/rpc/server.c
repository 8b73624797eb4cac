/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/server.h"

#include "rpc/internal.h"

#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_BACKLOG 1024
#define UDP_SOCKET_BYTES (4 << 20)
#define RECORD_SLACK_BYTES (64U * 1024) /* a large buffer holds a record and some of the next */

/* A third of the descriptors are for connections, a third for files, the rest for everything else.
 */
static uint32_t connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 200000) {
        return 65536;
    }
    uint32_t third = (uint32_t)limit.rlim_cur / 3;
    return third > 8 ? third : 8;
}

static void fill_defaults(struct rpc_server_options *options, uint32_t cpus)
{
    if (options->loop_count == 0) {
        options->loop_count = cpus;
    }
    if (options->thread_count_max == 0) {
        options->thread_count_max = 128;
    }
    if (options->thread_count_max < options->loop_count + 1) {
        options->thread_count_max = options->loop_count + 1;
    }
    if (options->connection_count_max == 0) {
        options->connection_count_max = connection_limit();
    }
    if (options->idle_ms == 0) {
        options->idle_ms = 360000;
    }
    if (options->record_bytes_max == 0) {
        options->record_bytes_max = (1U << 20) + 65536;
    }
    if (options->half_bytes_max == 0) {
        options->half_bytes_max = HALF_BYTES_MAX;
    }
}

int rpc_server_open(const struct rpc_server_options *options, struct rpc_server **out,
                    struct err *err)
{
    struct rpc_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return err_set(err, -ENOMEM, "no memory for the RPC server");
    }
    if (options != NULL) {
        server->options = *options;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cpus = online > 0 ? (uint32_t)online : 1;
    fill_defaults(&server->options, cpus);
    server->spin_count_max = cpus / 2;
    ticks_begin();
    if (getrandom(&server->share_key, sizeof server->share_key, 0) < 0) {
        int error = -errno;
        free(server);
        return err_set(err, error, "cannot get random bytes");
    }
    park_init(server);
    pthread_mutex_init(&server->worker_lock, NULL);
    pthread_mutex_init(&server->large_lock, NULL);
    pthread_cond_init(&server->monitor_wake, NULL);
    server->large_bytes = server->options.record_bytes_max + RECORD_SLACK_BYTES;
    server->drc = drc_open();
    server->loops = calloc(server->options.loop_count, sizeof *server->loops);
    int status = server->drc == NULL || server->loops == NULL ? -ENOMEM : 0;
    while (status == 0 && server->loop_count < server->options.loop_count) {
        uint32_t index = server->loop_count++;
        status = loop_open(server, index, &server->loops[index]);
    }
    if (status != 0) {
        rpc_server_close(server);
        return err_set(err, status, "cannot make an event loop: %s", strerror(-status));
    }
    *out = server;
    return 0;
}

static int copy_service(struct service *service, const struct rpc_program *const *programs,
                        size_t program_count)
{
    service->programs = calloc(program_count, sizeof *service->programs);
    if (service->programs == NULL) {
        return -ENOMEM;
    }
    memcpy(service->programs, programs, program_count * sizeof *programs);
    service->program_count = program_count;
    return 0;
}

static uint16_t bound_port(int fd, bool *is_local)
{
    struct rpc_peer at = {0};
    socklen_t size = sizeof at.address;
    *is_local = false;
    if (getsockname(fd, &at.address.sa, &size) != 0) {
        return 0;
    }
    *is_local = at.address.sa.sa_family == AF_UNIX;
    if (at.address.sa.sa_family == AF_INET6) {
        return ntohs(at.address.in6.sin6_port);
    }
    return at.address.sa.sa_family == AF_INET ? ntohs(at.address.in.sin_port) : 0;
}

static int add_listener(struct rpc_server *server, int fd,
                        const struct rpc_program *const *programs, size_t program_count,
                        uint16_t *port)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL || copy_service(&listener->service, programs, program_count) != 0) {
        free(listener);
        return -ENOMEM;
    }
    listener->source = (struct source){.kind = SOURCE_LISTENER, .fd = fd};
    listener->port = bound_port(fd, &listener->is_local);
    *port = listener->port;
    int status = loop_poll(&server->loops[0], &listener->source, EPOLLIN, true);
    if (status != 0) {
        free(listener->service.programs);
        free(listener);
        return status;
    }
    listener->next = server->listeners;
    server->listeners = listener;
    return 0;
}

static int add_udp(struct rpc_server *server, int fd, const struct rpc_program *const *programs,
                   size_t program_count, uint16_t *port)
{
    struct udp *udp = calloc(1, sizeof *udp);
    if (udp == NULL || copy_service(&udp->service, programs, program_count) != 0) {
        free(udp);
        return -ENOMEM;
    }
    int on = 1;
    int bytes = UDP_SOCKET_BYTES;
    bool is_local;
    udp->source = (struct source){.kind = SOURCE_UDP, .fd = fd};
    udp->port = bound_port(fd, &is_local);
    *port = udp->port;
    /* Each fails on the other family's sockets, and that is fine. */
    (void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    struct loop *loop = &server->loops[server->loop_count - 1];
    int status = loop_poll(loop, &udp->source, EPOLLIN, true);
    if (status != 0) {
        free(udp->service.programs);
        free(udp);
        return status;
    }
    udp->next = server->udps;
    server->udps = udp;
    return 0;
}

int rpc_server_adopt(struct rpc_server *server, int fd, const struct rpc_program *const *programs,
                     size_t program_count, uint16_t *port, struct err *err)
{
    uint16_t bound = 0;
    int type = 0;
    socklen_t size = sizeof type;
    int status = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? 0 : -errno;

    CHECK(!server->running);
    if (status == 0) {
        int flags = fcntl(fd, F_GETFL);
        status = flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : -errno;
    }
    if (status == 0 && type == SOCK_STREAM) {
        status = add_listener(server, fd, programs, program_count, &bound);
    } else if (status == 0 && type == SOCK_DGRAM) {
        status = add_udp(server, fd, programs, program_count, &bound);
    } else if (status == 0) {
        status = -ESOCKTNOSUPPORT;
    }
    if (status != 0) {
        return err_set(err, status, "cannot serve socket %d: %s", fd, strerror(-status));
    }
    if (port != NULL) {
        *port = bound;
    }
    return 0;
}

static int bind_socket(int fd, const struct sockaddr *address, socklen_t address_bytes, int type)
{
    int on = 1;
    if (address->sa_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)address;
        (void)unlink(un->sun_path);
    } else if (type == SOCK_STREAM) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        /* "::" takes IPv4 as well; any other address is meant as it is. */
        int only = IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) ? 0 : 1;
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    if (bind(fd, address, address_bytes) != 0) {
        return -errno;
    }
    return type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) != 0 ? -errno : 0;
}

int rpc_server_listen(struct rpc_server *server, const struct sockaddr *address,
                      socklen_t address_bytes, int type, const struct rpc_program *const *programs,
                      size_t program_count, uint16_t *port, struct err *err)
{
    int fd = socket(address->sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        int status = -errno;
        return err_set(err, status, "cannot make a socket: %s", strerror(-status));
    }
    int status = bind_socket(fd, address, address_bytes, type);
    if (status != 0) {
        close(fd);
        return err_set(err, status, "cannot bind: %s", strerror(-status));
    }
    status = rpc_server_adopt(server, fd, programs, program_count, port, err);
    if (status != 0) {
        close(fd);
    } else if (address->sa_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)address;
        server->listeners->unlink_path = strdup(un->sun_path);
        (void)chmod(un->sun_path, 0666);
    }
    return status;
}

void rpc_server_restore(struct rpc_server *server, const struct rpc_kept_reply *reply)
{
    drc_restore(server->drc, reply);
}

int rpc_server_run(struct rpc_server *server, struct err *err)
{
    sigset_t old;
    int status = 0;

    signals_hold(&old);
    for (uint32_t i = 0; i < server->loop_count && status == 0; i++) {
        status = worker_start(server, &server->loops[i]);
    }
    if (status == 0) {
        status = worker_start(server, NULL);
    }
    if (status == 0) {
        status = worker_monitor_start(server);
        server->running = status == 0;
    }
    signals_release(&old);
    if (status != 0) {
        return err_set(err, status, "cannot start threads: %s", strerror(-status));
    }
    return 0;
}

void rpc_server_stop(struct rpc_server *server)
{
    if (!server->running) {
        return;
    }
    pthread_mutex_lock(&server->worker_lock);
    atomic_store(&server->stopping, true);
    pthread_mutex_unlock(&server->worker_lock);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_wake(&server->loops[i]);
    }
    worker_join_all(server);
    server->running = false;
}

void rpc_server_close(struct rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    rpc_server_stop(server);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_close(&server->loops[i]);
    }
    while (server->listeners != NULL) {
        struct listener *listener = server->listeners;
        server->listeners = listener->next;
        close(listener->source.fd);
        if (listener->unlink_path != NULL) {
            (void)unlink(listener->unlink_path);
        }
        free(listener->unlink_path);
        free(listener->service.programs);
        free(listener);
    }
    while (server->udps != NULL) {
        struct udp *udp = server->udps;
        server->udps = udp->next;
        udp_close(udp);
    }
    rxbuf_free_spares(server);
    drc_close(server->drc);
    free(server->loops);
    pthread_mutex_destroy(&server->settled_lock);
    pthread_mutex_destroy(&server->worker_lock);
    pthread_mutex_destroy(&server->large_lock);
    pthread_cond_destroy(&server->monitor_wake);
    free(server);
}

void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *stats)
{
    *stats = (struct rpc_server_stats){.takeovers = atomic_load(&server->takeovers)};
    for (uint32_t i = 0; i < server->loop_count; i++) {
        const struct loop *loop = &server->loops[i];
        stats->calls += loop->stats.calls;
        stats->replies += loop->stats.replies;
        stats->bytes_in += loop->stats.bytes_in;
        stats->bytes_out += loop->stats.bytes_out;
        stats->garbage += loop->stats.garbage;
        stats->refused_auth += loop->stats.refused_auth;
        stats->cache_hits += loop->stats.cache_hits;
        stats->cache_dropped += loop->stats.cache_dropped;
        stats->held_back += loop->stats.held_back;
        stats->parked += loop->stats.parked;
        stats->connections += atomic_load(&loop->conn_count);
    }
}
