/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least an RPC server over TCP can cost on this machine: every call, whichever, gets the answer
 * of NULL, as many per write(2) as there were calls in the read(2). What a real server spends above
 * this is its own; what is below is the kernel's. Serves one connection after another.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_BYTES 28
#define BUFFER_BYTES (1U << 20)

static uint8_t in[BUFFER_BYTES];
static uint8_t out[BUFFER_BYTES];

/* Turns the whole calls among size bytes into replies; returns the bytes it has used up. */
static size_t answer(size_t size, size_t *out_bytes)
{
    size_t used = 0;
    *out_bytes = 0;
    while (size - used >= 8) {
        uint32_t mark;
        memcpy(&mark, in + used, sizeof(mark));
        size_t call_bytes = 4 + (ntohl(mark) & 0x7fffffffU);
        if (size - used < call_bytes) {
            break;
        }
        /* RFC 5531 §9, §11: last fragment; xid; REPLY; MSG_ACCEPTED; AUTH_NONE, empty; SUCCESS */
        uint8_t *reply = out + *out_bytes;
        memset(reply, 0, REPLY_BYTES);
        reply[0] = 0x80;
        reply[3] = REPLY_BYTES - 4;
        memcpy(reply + 4, in + used + 4, 4);
        reply[11] = 1;
        *out_bytes += REPLY_BYTES;
        used += call_bytes;
    }
    return used;
}

static void serve(int fd)
{
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, in + size, sizeof(in) - size)) > 0) {
        size_t out_bytes;
        size += (size_t)got;
        size_t used = answer(size, &out_bytes);
        size -= used;
        memmove(in, in + used, size);
        if (out_bytes > 0 && write(fd, out, out_bytes) != (ssize_t)out_bytes) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)(argc == 2 ? atoi(argv[1]) : 0));
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (argc != 2 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 16) != 0) {
        fputs("usage: floor PORT\n", stderr);
        return 2;
    }
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            serve(fd);
            close(fd);
        }
    }
}
