/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least an RPC server over TCP can cost on this machine: NULL, GETATTR and READ of NFSv3 are
 * answered from constants, and every other call as if it were NULL, as many per writev(2) as there
 * were calls in the read(2). What a real server spends above this is its own; what is below is the
 * kernel's. Serves one connection after another.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define NFS_PROGRAM 100003
#define GETATTR 1
#define READ 6
#define FATTR3_BYTES 84
#define HEAD_BYTES 28 /* of a reply, with its record mark */
#define REPLY_BYTES_MAX (HEAD_BYTES + 4 + FATTR3_BYTES)
#define CALL_BYTES_MIN 44 /* a mark, ten words */
#define BUFFER_BYTES (1U << 20)
#define DATA_BYTES (128U << 10) /* sent again and again, as iperf3 does: it stays in the cache */
#define READ_BYTES_MAX (1U << 20)
#define PART_COUNT_MAX 1024
#define READ_PARTS (int)(READ_BYTES_MAX / DATA_BYTES + 2)

static uint8_t in[BUFFER_BYTES];
static uint8_t out[BUFFER_BYTES];
static uint8_t data[DATA_BYTES];
static size_t out_bytes;
static struct iovec parts[PART_COUNT_MAX];
static int part_count;

static uint32_t get(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
    return ntohl(word);
}

static void put(uint8_t *bytes, uint32_t word)
{
    word = htonl(word);
    memcpy(bytes, &word, sizeof(word));
}

static void put_part(uint8_t *bytes, size_t size)
{
    struct iovec *last = part_count > 0 ? &parts[part_count - 1] : NULL;
    if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == bytes) {
        last->iov_len += size;
    } else {
        parts[part_count++] = (struct iovec){bytes, size};
    }
}

/* RFC 5531 §8.2: credential and verifier, each a flavor and at most 400 bytes. 0: too short. */
static size_t args_at(const uint8_t *call, size_t size)
{
    size_t at = 28;
    for (int i = 0; i < 2; i++) {
        uint32_t body = at + 8 <= size ? get(call + at + 4) : 1000;
        if (body > 400) {
            return 0;
        }
        at += 8 + ((body + 3) & ~3U);
    }
    return at;
}

/* Bytes that a READ asks for: behind a handle of at most 64 bytes and an offset. */
static uint32_t read_count(const uint8_t *call, size_t size)
{
    size_t at = args_at(call, size);
    uint32_t fh = at != 0 && at + 4 <= size ? get(call + at) : 1000;
    size_t count_at = at + 4 + ((fh + 3) & ~3U) + 8;
    uint32_t count = fh <= 64 && count_at + 4 <= size ? get(call + count_at) : 0;
    return count > READ_BYTES_MAX ? READ_BYTES_MAX : count & ~3U;
}

/* RFC 5531 §9, §11: last fragment; xid; REPLY; MSG_ACCEPTED; AUTH_NONE, empty; SUCCESS. */
static void reply(const uint8_t *call, size_t size)
{
    uint8_t *head = out + out_bytes;
    bool nfs = get(call + 16) == NFS_PROGRAM;
    uint32_t head_bytes = HEAD_BYTES, data_bytes = 0;

    memset(head, 0, REPLY_BYTES_MAX);
    memcpy(head + 4, call + 4, 4);
    head[11] = 1;
    if (nfs && get(call + 24) == GETATTR) {
        head_bytes += 4 + FATTR3_BYTES;
        put(head + HEAD_BYTES + 4, 1); /* NF3REG; everything else is 0 */
    } else if (nfs && get(call + 24) == READ) {
        head_bytes += 20; /* status, no attributes, count, eof, length */
        data_bytes = read_count(call, size);
        put(head + HEAD_BYTES + 8, data_bytes);
        put(head + HEAD_BYTES + 16, data_bytes);
    }
    put(head, 0x80000000U | (head_bytes - 4 + data_bytes));
    out_bytes += head_bytes;
    put_part(head, head_bytes);
    for (uint32_t left = data_bytes; left > 0;) {
        uint32_t piece = left < DATA_BYTES ? left : DATA_BYTES;
        parts[part_count++] = (struct iovec){data, piece};
        left -= piece;
    }
}

/* The socket blocks: less than all is sent only if the connection is gone. */
static bool flush(int fd)
{
    size_t wanted = 0;
    for (int i = 0; i < part_count; i++) {
        wanted += parts[i].iov_len;
    }
    ssize_t sent = wanted > 0 ? writev(fd, parts, part_count) : 0;
    out_bytes = 0;
    part_count = 0;
    return sent == (ssize_t)wanted;
}

/* Answers the whole calls among size bytes; returns the bytes it has used up, or size + 1. */
static size_t answer(int fd, size_t size)
{
    size_t used = 0;
    while (size - used >= CALL_BYTES_MIN) {
        size_t call_bytes = 4 + (get(in + used) & 0x7fffffffU);
        if (size - used < call_bytes) {
            break;
        }
        if (part_count + READ_PARTS > PART_COUNT_MAX || out_bytes + REPLY_BYTES_MAX > sizeof(out)) {
            if (!flush(fd)) {
                return size + 1;
            }
        }
        reply(in + used, call_bytes);
        used += call_bytes;
    }
    return flush(fd) ? used : size + 1;
}

static void serve(int fd)
{
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, in + size, sizeof(in) - size)) > 0) {
        size += (size_t)got;
        size_t used = answer(fd, size);
        if (used > size) {
            return;
        }
        size -= used;
        memmove(in, in + used, size);
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
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 31 + (i >> 8));
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
