/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file from the server (RFC 1813 §3.3.6): READs in parallel, in any order, until one says eof.
 *
 * The size in the attributes is only a hint of how far to ask ahead: a file may have grown or
 * shrunk since. Beyond it one READ at a time feels for the end.
 */
#include "client/copy_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void replied(void *owner, const struct client_reply *reply);

static int write_all(const struct copy_file *file, struct xdr_bytes data, uint64_t offset)
{
    while (data.size > 0) {
        ssize_t n = file->in_order ? write(file->fd, data.data, data.size)
                                   : pwrite(file->fd, data.data, data.size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
        data.data += n;
        data.size -= (uint32_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static int ask(struct chunk *chunk)
{
    struct READ3args args = {
        .file = client_fh3(&chunk->file->fh), .offset = chunk->offset, .count = chunk->count};
    int status = copy_call(chunk->file, NFSPROC3_READ, &args, replied, chunk);
    if (status != 0) {
        copy_chunk_free(chunk);
    }
    return status;
}

static int pump(struct copy_file *file, bool *asked)
{
    struct chunk *chunk = file->again;
    bool feel = file->offset >= file->attr.size || file->in_order;

    if (chunk != NULL) {
        file->again = chunk->next;
    } else if (file->eof || (feel && file->outstanding > 0)) {
        return 0;
    } else {
        uint32_t count = file->copy->mount->rsize;
        chunk = copy_chunk_new(file, file->offset, count, false);
        if (chunk == NULL) {
            return -ENOMEM;
        }
        file->offset += count;
    }
    *asked = true;
    return ask(chunk);
}

/* Some bytes came: what is missing is asked for again. An eof before the size that the same reply
 * has is none: a server that stays with it makes no progress. */
static int take(struct chunk *chunk, const struct READ3resok *resok)
{
    struct copy_file *file = chunk->file;
    struct xdr_bytes data = resok->data;

    if (data.size > chunk->count) {
        return -EBADMSG;
    }
    int status = write_all(file, data, chunk->offset);
    if (status != 0) {
        return status;
    }
    file->copy->counts.bytes += data.size;
    file->stuck_count = data.size > 0 ? 0 : file->stuck_count + 1;
    const struct post_op_attr *attr = &resok->file_attributes;
    bool denied = attr->attributes_follow && attr->attributes.size > chunk->offset + data.size;
    if (resok->eof && !denied) {
        file->eof = true;
        return 0;
    }
    if (data.size == chunk->count) {
        return 0;
    }
    if (file->stuck_count >= COPY_STUCK_COUNT_MAX) {
        return -EIO;
    }
    struct chunk *rest =
        copy_chunk_new(file, chunk->offset + data.size, chunk->count - data.size, false);
    if (rest == NULL) {
        return -ENOMEM;
    }
    copy_chunk_again(rest);
    return 0;
}

static void replied(void *owner, const struct client_reply *reply)
{
    struct chunk *chunk = owner;
    struct copy_file *file = chunk->file;

    int status = copy_replied(file, reply);
    if (status == COPY_LATER) {
        copy_chunk_again(chunk);
    } else {
        if (status == 0) {
            status = take(chunk, &((const struct READ3res *)reply->res)->resok);
        }
        copy_fail(file, status);
        copy_chunk_free(chunk);
    }
    copy_go_on(file->copy);
}

/* Permission bits only for a file that is new, unless all is to be preserved. */
static int end(struct copy_file *file)
{
    if (!file->copy->options.preserve) {
        return 0;
    }
    const struct fattr3 *attr = &file->attr;
    const struct timespec times[2] = {{attr->atime.seconds, attr->atime.nseconds},
                                      {attr->mtime.seconds, attr->mtime.nseconds}};
    if (fchmod(file->fd, attr->mode & 07777) != 0 || futimens(file->fd, times) != 0) {
        return -errno;
    }
    return 0;
}

static void release(struct copy_file *file)
{
    free(file);
}

int client_copy_get_file(struct client_copy *copy, const struct client_node *node, int fd,
                         bool in_order, const char *path)
{
    struct copy_file *file = calloc(1, sizeof *file);
    char *path_copy = strdup(path);

    if (file == NULL || path_copy == NULL) {
        free(file);
        free(path_copy);
        close(fd);
        return -ENOMEM;
    }
    *file = (struct copy_file){
        .copy = copy,
        .path = path_copy,
        .fd = fd,
        .in_order = in_order,
        .fh = node->fh,
        .attr = node->attr,
        .pump = pump,
        .end = end,
        .release = release,
    };
    return copy_begin(copy, file);
}
