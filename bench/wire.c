/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#define WIRE_FD_MAX 65536
#define WIRE_OUT_BYTES (1U << 20)

struct wire {
    uint8_t *in;
    uint32_t in_bytes;
    uint32_t in_next;
    uint32_t in_end;
    uint32_t out_end;
    uint8_t *out;
};

static struct wire *wires[WIRE_FD_MAX];

uint64_t wire_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static struct wire *wire_of(int fd)
{
    return fd >= 0 && fd < WIRE_FD_MAX ? wires[fd] : NULL;
}

void wire_begin(int fd, uint32_t in_bytes)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    if (wire == NULL || fd >= WIRE_FD_MAX) {
        abort();
    }
    wire->in_bytes = in_bytes;
    wire->in = malloc(in_bytes);
    wire->out = malloc(WIRE_OUT_BYTES);
    if (wire->in == NULL || wire->out == NULL) {
        abort();
    }
    int on = 1;
    struct timeval silence = {.tv_sec = WIRE_SILENCE_S};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    wires[fd] = wire;
}

bool wire_wait(int fd, uint64_t *now_ns)
{
    struct wire *wire = wire_of(fd);
    if (wire->in_next == wire->in_end) {
        wire->in_next = wire->in_end = 0;
    }
    ssize_t got = 0;
    if (wire->in_end == 0) {
        got = recvfrom(fd, wire->in, wire->in_bytes, 0, NULL, NULL);
        if (got <= 0) {
            return false;
        }
    }
    wire->in_end += (uint32_t)got;
    *now_ns = wire_now_ns();
    return true;
}

static bool send_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = sendto(fd, bytes, size, MSG_NOSIGNAL, NULL, 0);
        if (sent < 0) {
            return false;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool wire_flush(int fd)
{
    struct wire *wire = wire_of(fd);
    uint32_t size = wire->out_end;
    wire->out_end = 0;
    return send_all(fd, wire->out, size);
}

/* ---- found by libnfs in place of libc's ---- */

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    struct wire *wire = wire_of(fd);
    if (wire == NULL) {
        return sendto(fd, bytes, size, flags, NULL, 0);
    }
    if (wire->out_end + size > WIRE_OUT_BYTES || size >= WIRE_DIRECT_BYTES) {
        if (!wire_flush(fd)) {
            return -1;
        }
    }
    if (size >= WIRE_DIRECT_BYTES) {
        return send_all(fd, bytes, size) ? (ssize_t)size : -1;
    }
    memcpy(wire->out + wire->out_end, bytes, size);
    wire->out_end += (uint32_t)size;
    return (ssize_t)size;
}

/* A part of a large reply is waited for, since nothing else can be done before it is here. */
ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    struct wire *wire = wire_of(fd);
    if (wire == NULL) {
        return recvfrom(fd, bytes, size, flags, NULL, NULL);
    }
    size_t ready = wire->in_end - wire->in_next;
    if (ready > 0) {
        size_t count = size < ready ? size : ready;
        memcpy(bytes, wire->in + wire->in_next, count);
        wire->in_next += (uint32_t)count;
        return (ssize_t)count;
    }
    if (size >= wire->in_bytes) {
        return recvfrom(fd, bytes, size, 0, NULL, NULL);
    }
    errno = EAGAIN;
    return -1;
}

/* libnfs as root tries the 512 reserved ports first, one bind each; with 1,000 connections that
 * never ends well. EACCES makes it take any port. */
int bind(int fd, const struct sockaddr *address, socklen_t address_bytes)
{
    (void)fd;
    (void)address;
    (void)address_bytes;
    errno = EACCES;
    return -1;
}
