/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/out.h"

#include "rpc/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static const uint8_t padding[3];

uint32_t out_tail_bytes(const struct xdr_bytes *tail)
{
    return tail->size + xdr_padding(tail->size);
}

void reply_mark(struct reply *reply)
{
    record_mark(reply->bytes, reply->size - REPLY_MARK_BYTES + out_tail_bytes(&reply->tail));
}

static void release(struct rpc_file *file, struct rpc_memory *memory)
{
    if (file->release != NULL) {
        file->release(file->owner);
        file->release = NULL;
    }
    if (memory->release != NULL) {
        memory->release(memory->owner);
        memory->release = NULL;
    }
}

void reply_drop(struct reply *reply)
{
    release(&reply->file, &reply->memory);
}

struct out *out_new(struct reply *reply, uint32_t sent)
{
    bool copy_tail = reply->tail.data != NULL && reply->memory.release == NULL;
    size_t tail_bytes = copy_tail ? reply->tail.size : 0;
    struct out *out = malloc(sizeof *out + reply->size + tail_bytes);
    if (out == NULL) {
        reply_drop(reply);
        return NULL;
    }
    *out = (struct out){
        .size = reply->size,
        .sent = sent,
        .tail = reply->tail,
        .file = reply->file,
        .memory = reply->memory,
    };
    memcpy(out->bytes, reply->bytes, reply->size);
    if (copy_tail) {
        memcpy(out->bytes + reply->size, reply->tail.data, tail_bytes);
        out->tail.data = out->bytes + reply->size;
    }
    reply->file.release = NULL;
    reply->memory.release = NULL;
    return out;
}

void out_free(struct out *out)
{
    if (out != NULL) {
        release(&out->file, &out->memory);
        free(out);
    }
}

bool reply_load_file(struct reply *reply, uint8_t *buffer, uint32_t buffer_bytes)
{
    if (reply->tail.size == 0 || reply->tail.data != NULL) {
        return true;
    }
    if (reply->tail.size > buffer_bytes) {
        return false;
    }
    uint32_t got = 0;
    while (got < reply->tail.size) {
        ssize_t n = pread(reply->file.fd, buffer + got, reply->tail.size - got,
                          (off_t)(reply->file.offset + got));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            /* The file was cut after its size was read; what is gone reads as zeros. */
            memset(buffer + got, 0, reply->tail.size - got);
            break;
        }
        got += (uint32_t)n;
    }
    reply->tail.data = buffer;
    return true;
}

/* Bytes of a tail that lies in a file, as many as there is room for. Returns how many, or -1. */
static ssize_t load(const struct out *out, uint32_t from, uint8_t room[OUT_ROOM_BYTES])
{
    uint32_t left = out->tail.size - from;
    uint32_t size = left < OUT_ROOM_BYTES ? left : OUT_ROOM_BYTES;
    ssize_t got = pread(out->file.fd, room, size, (off_t)(out->file.offset + from));
    if (got == 0) {
        /* The file was cut after its size was read; the reply has promised these bytes. */
        memset(room, 0, size);
        got = size;
    }
    return got;
}

/* One call to send all there is, or as much of a file as fits room. Returns what is sent or -1;
 * *wanted is what should have been. */
static ssize_t send_step(struct out *out, int fd, uint8_t room[OUT_ROOM_BYTES], size_t *wanted)
{
    struct iovec iov[3];
    struct msghdr msg = {.msg_iov = iov};
    uint32_t head = out->sent < out->size ? out->size - out->sent : 0;
    uint32_t from = out->sent - (out->size - head); /* of tail and padding */
    ssize_t tail = from < out->tail.size ? out->tail.size - from : 0;
    uint32_t left = out_tail_bytes(&out->tail) - from;

    *wanted = 0;
    if (head > 0) {
        iov[msg.msg_iovlen++] = (struct iovec){out->bytes + out->sent, head};
    }
    if (tail > 0 && out->tail.data != NULL) {
        uint8_t *data = (uint8_t *)(uintptr_t)(out->tail.data + from);
        iov[msg.msg_iovlen++] = (struct iovec){data, (size_t)tail};
    } else if (tail > 0) {
        ssize_t got = load(out, from, room);
        if (got < 0) {
            return -1;
        }
        iov[msg.msg_iovlen++] = (struct iovec){room, (size_t)got};
        left = got < tail ? (uint32_t)got : left;
        tail = got;
    }
    if (left > tail) {
        iov[msg.msg_iovlen++] =
            (struct iovec){(void *)(uintptr_t)padding, left - (uint32_t)tail}; /* XDR padding */
    }
    *wanted = (size_t)head + left;
    bool more = from + left < out_tail_bytes(&out->tail);
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0));
}

int out_send(struct out *out, int fd, uint8_t room[OUT_ROOM_BYTES], uint64_t *sent_bytes)
{
    uint32_t total = out->size + out_tail_bytes(&out->tail);

    while (out->sent < total) {
        size_t wanted;
        ssize_t n = send_step(out, fd, room, &wanted);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        }
        out->sent += (uint32_t)n;
        *sent_bytes += (uint64_t)n;
        if ((size_t)n < wanted) {
            return 0; /* asking again would read the file for nothing */
        }
    }
    return 1;
}
