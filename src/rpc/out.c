/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/out.h"

#include "rpc/record.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

static const uint8_t zeros[4096];

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

/* Sends bytes[] and a tail in memory with one call. */
static ssize_t send_memory(struct out *out, int fd)
{
    struct iovec iov[3];
    int count = 0;
    uint32_t from = out->sent;

    if (from < out->size) {
        iov[count++] = (struct iovec){out->bytes + from, out->size - from};
        from = 0;
    } else {
        from -= out->size;
    }
    bool tail_in_file = out->tail.data == NULL && out->tail.size > 0;
    if (!tail_in_file) {
        if (from < out->tail.size) {
            iov[count++] =
                (struct iovec){(void *)(uintptr_t)(out->tail.data + from), out->tail.size - from};
            from = 0;
        } else {
            from -= out->tail.size;
        }
        uint32_t padding = xdr_padding(out->tail.size);
        if (from < padding) {
            iov[count++] = (struct iovec){(void *)(uintptr_t)zeros, padding - from};
        }
    }
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (tail_in_file ? MSG_MORE : 0);
    return sendmsg(fd, &msg, flags);
}

/* A step of sending a tail that lies in a file. */
static ssize_t send_file(struct out *out, int fd)
{
    uint32_t done = out->sent - out->size;
    if (done >= out->tail.size) {
        return send(fd, zeros, out_tail_bytes(&out->tail) - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    off_t offset = (off_t)(out->file.offset + done);
    ssize_t n = sendfile(fd, out->file.fd, &offset, out->tail.size - done);
    if (n == 0) {
        /* The file was cut after its size was read; the reply has promised these bytes. */
        size_t left = out->tail.size - done;
        n = send(fd, zeros, left < sizeof zeros ? left : sizeof zeros, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return n;
}

int out_send(struct out *out, int fd, uint64_t *sent_bytes)
{
    uint32_t total = out->size + out_tail_bytes(&out->tail);
    bool tail_in_file = out->tail.data == NULL && out->tail.size > 0;

    while (out->sent < total) {
        ssize_t n =
            tail_in_file && out->sent >= out->size ? send_file(out, fd) : send_memory(out, fd);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        }
        out->sent += (uint32_t)n;
        *sent_bytes += (uint64_t)n;
    }
    return 1;
}
