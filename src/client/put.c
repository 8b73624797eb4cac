/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file to the server (RFC 1813 §3.3.7, §3.3.8, §3.3.21, §4.8).
 *
 *     CREATE --> [LOOKUP] --> WRITE... --> [COMMIT] --> WRITE... --> [SETATTR] --> done
 *      | ^                      ^             |
 *      | +--- is it the source? +-------------+  the verifier has changed: the batch again
 *      +---> LOOKUP |
 *          it is there already
 *
 * 1. The data of a batch is read from the local file again if it must be written again; of a source
 *    that cannot seek, everything is written FILE_SYNC, and nothing has to be.
 * 2. A WRITE that says FILE_SYNC or DATA_SYNC needs no COMMIT.
 * 3. A chunk's data is not freed before its last reply: the client borrows it.
 */
#include "client/copy_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define REWRITE_COUNT_MAX 20U

enum put_state { PUT_CREATE, PUT_COMPARE, PUT_LOOKUP, PUT_WRITE, PUT_SETATTR, PUT_DONE };

struct put_file {
    struct copy_file file;
    enum put_state state;
    struct client_fh dir;
    char *name;
    uint32_t name_bytes;
    struct stat st;
    bool is_there; /* already, and not the source: it is emptied */
    enum stable_how stable;
    /* The batch */
    uint64_t batch_offset;
    bool batch_unstable; /* something in it needs a COMMIT */
    bool batch_mixed;    /* its WRITEs did not all have the same verifier */
    bool has_verf;
    writeverf3 verf;
    uint32_t rewrite_count;
};

static struct put_file *put_of(struct copy_file *file)
{
    return CONTAINER_OF(file, struct put_file, file);
}

static struct client_name name_of(const struct put_file *put)
{
    return (struct client_name){put->name, put->name_bytes};
}

/* ---- the file itself ---- */

static void created(void *owner, const struct client_reply *reply)
{
    struct put_file *put = owner;

    int status = copy_replied(&put->file, reply);
    if (status == 0) {
        const struct CREATE3resok *resok = &((const struct CREATE3res *)reply->res)->resok;
        put->state = PUT_LOOKUP;
        if (resok->obj.handle_follows) {
            client_fh_set(&put->file.fh, &resok->obj.handle);
            put->state = PUT_WRITE;
        }
    } else if (status == NFS3ERR_EXIST && !put->is_there) {
        put->state = PUT_COMPARE;
    } else if (status != COPY_LATER) {
        copy_fail(&put->file, status);
    }
    copy_go_on(put->file.copy);
}

/* §3.3.8: first GUARDED, then UNCHECKED, where size 0 empties the file that is there. NFSv2 has
 * only the latter. */
static int create(struct put_file *put)
{
    const struct client_copy *copy = put->file.copy;
    mode_t mode =
        copy->options.preserve ? put->st.st_mode & 07777 : put->st.st_mode & 0777 & ~copy->umask;
    struct CREATE3args args = {
        .where = client_dirop(&put->dir, name_of(put)),
        .how = {.mode = put->is_there ? UNCHECKED : GUARDED,
                .obj_attributes = {.mode = {true, {mode}}, .size = {true, {0}}}},
    };
    return copy_call(&put->file, NFSPROC3_CREATE, &args, created, put);
}

static void compared(void *owner, const struct client_reply *reply)
{
    struct put_file *put = owner;

    int status = copy_replied(&put->file, reply);
    if (status == 0 || status == NFS3ERR_NOENT) {
        const struct post_op_attr *attr =
            &((const struct LOOKUP3res *)reply->res)->resok.obj_attributes;
        bool same = status == 0 && attr->attributes_follow &&
                    copy_is_same(&put->st, &attr->attributes);
        put->is_there = true;
        put->state = PUT_CREATE;
        if (same) {
            copy_fail(&put->file, CLIENT_COPY_SAME);
        }
    } else if (status != COPY_LATER) {
        copy_fail(&put->file, status);
    }
    copy_go_on(put->file.copy);
}

static void looked_up(void *owner, const struct client_reply *reply)
{
    struct put_file *put = owner;

    int status = copy_replied(&put->file, reply);
    if (status == 0) {
        client_fh_set(&put->file.fh, &((const struct LOOKUP3res *)reply->res)->resok.object);
        put->state = PUT_WRITE;
    } else if (status != COPY_LATER) {
        copy_fail(&put->file, status);
    }
    copy_go_on(put->file.copy);
}

/* `compared` if GUARDED found the file, or, over NFSv2, first of all. */
static int look_up(struct put_file *put, client_reply_fn *replied)
{
    struct LOOKUP3args args = {client_dirop(&put->dir, name_of(put))};
    return copy_call(&put->file, NFSPROC3_LOOKUP, &args, replied, put);
}

static void attributes_set(void *owner, const struct client_reply *reply)
{
    struct put_file *put = owner;

    int status = copy_replied(&put->file, reply);
    if (status == 0) {
        put->state = PUT_DONE;
    } else if (status != COPY_LATER) {
        copy_fail(&put->file, status);
    }
    copy_go_on(put->file.copy);
}

static int set_attributes(struct put_file *put)
{
    struct SETATTR3args args = {
        .object = client_fh3(&put->file.fh),
        .new_attributes = {.mode = {true, {put->st.st_mode & 07777}},
                           .atime = {SET_TO_CLIENT_TIME, {copy_time(&put->st.st_atim)}},
                           .mtime = {SET_TO_CLIENT_TIME, {copy_time(&put->st.st_mtim)}}},
    };
    return copy_call(&put->file, NFSPROC3_SETATTR, &args, attributes_set, put);
}

/* ---- data ---- */

static void wrote(void *owner, const struct client_reply *reply);

static int write_chunk(struct chunk *chunk)
{
    struct put_file *put = put_of(chunk->file);
    uint32_t left = chunk->count - chunk->done;
    struct WRITE3args args = {
        .file = client_fh3(&put->file.fh),
        .offset = chunk->offset + chunk->done,
        .count = left,
        .stable = put->stable,
        .data = {chunk->data + chunk->done, left},
    };
    int status = copy_call(&put->file, NFSPROC3_WRITE, &args, wrote, chunk);
    if (status != 0) {
        copy_chunk_free(chunk);
    }
    return status;
}

/* §3.3.7: what the reply says of how much was written, and how safely. */
static int take(struct chunk *chunk, const struct WRITE3resok *resok)
{
    struct put_file *put = put_of(chunk->file);

    if (resok->count > chunk->count - chunk->done) {
        return -EBADMSG;
    }
    if (put->has_verf && memcmp(put->verf, resok->verf, sizeof put->verf) != 0) {
        put->batch_mixed = true;
    }
    memcpy(put->verf, resok->verf, sizeof put->verf);
    put->has_verf = true;
    put->batch_unstable = put->batch_unstable || resok->committed == UNSTABLE;
    put->file.stuck_count = resok->count > 0 ? 0 : put->file.stuck_count + 1;
    if (put->file.stuck_count >= COPY_STUCK_COUNT_MAX) {
        return -EIO;
    }
    chunk->done += resok->count;
    put->file.copy->counts.bytes += resok->count;
    return 0;
}

static void wrote(void *owner, const struct client_reply *reply)
{
    struct chunk *chunk = owner;
    struct copy_file *file = chunk->file;

    int status = copy_replied(file, reply);
    if (status == 0) {
        status = take(chunk, &((const struct WRITE3res *)reply->res)->resok);
    }
    bool again = status == COPY_LATER || (status == 0 && chunk->done < chunk->count);
    if (again) {
        copy_chunk_again(chunk);
    } else {
        copy_fail(file, status);
        copy_chunk_free(chunk);
    }
    copy_go_on(file->copy);
}

static void batch_begin(struct put_file *put, uint64_t offset)
{
    put->batch_offset = offset;
    put->file.offset = offset;
    put->batch_unstable = put->batch_mixed = put->has_verf = false;
}

/* The whole batch once more, from the local file. */
static int rewrite(struct put_file *put)
{
    struct client_copy_counts *counts = &put->file.copy->counts;
    uint64_t bytes = put->file.offset - put->batch_offset;

    if (put->file.in_order || ++put->rewrite_count > REWRITE_COUNT_MAX) {
        return -EIO;
    }
    counts->rewritten_bytes += bytes;
    counts->bytes -= bytes < counts->bytes ? bytes : counts->bytes;
    put->file.eof = false;
    batch_begin(put, put->batch_offset);
    return 0;
}

static void committed(void *owner, const struct client_reply *reply)
{
    struct put_file *put = owner;

    int status = copy_replied(&put->file, reply);
    if (status == 0) {
        const struct COMMIT3resok *resok = &((const struct COMMIT3res *)reply->res)->resok;
        bool same = memcmp(resok->verf, put->verf, sizeof put->verf) == 0;
        if (same && !put->batch_mixed) {
            batch_begin(put, put->file.offset);
        } else {
            status = rewrite(put);
        }
    }
    if (status != COPY_LATER) {
        copy_fail(&put->file, status);
    }
    copy_go_on(put->file.copy);
}

static int commit(struct put_file *put)
{
    struct COMMIT3args args = {
        .file = client_fh3(&put->file.fh),
        .offset = put->batch_offset,
        .count = (uint32_t)(put->file.offset - put->batch_offset),
    };
    return copy_call(&put->file, NFSPROC3_COMMIT, &args, committed, put);
}

/* Fills a chunk from the local file. Less than the chunk's count: the file ends there. */
static int read_local(struct copy_file *file, struct chunk *chunk)
{
    uint32_t wanted = chunk->count;

    chunk->count = 0;
    while (chunk->count < wanted) {
        size_t left = wanted - chunk->count;
        ssize_t n = file->in_order ? read(file->fd, chunk->data + chunk->count, left)
                                   : pread(file->fd, chunk->data + chunk->count, left,
                                           (off_t)(chunk->offset + chunk->count));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            file->eof = true;
            break;
        }
        chunk->count += (uint32_t)n;
    }
    return 0;
}

/* The next of the local file's data; at its end file->eof is set, and nothing may be asked. */
static int write_next(struct put_file *put, bool *asked)
{
    struct copy_file *file = &put->file;
    struct chunk *chunk = copy_chunk_new(file, file->offset, file->copy->mount->wsize, true);

    if (chunk == NULL) {
        return -ENOMEM;
    }
    int status = read_local(file, chunk);
    if (status != 0 || chunk->count == 0) {
        copy_chunk_free(chunk);
        return status;
    }
    file->offset += chunk->count;
    *asked = true;
    return write_chunk(chunk);
}

/* Everything of the batch was answered: COMMIT, the next batch, or the end. */
static int end_batch(struct put_file *put, bool *asked)
{
    if (put->batch_unstable) {
        *asked = true;
        return put->file.in_order ? -EIO : commit(put);
    }
    batch_begin(put, put->file.offset);
    if (put->file.eof) {
        put->state = put->file.copy->options.preserve ? PUT_SETATTR : PUT_DONE;
    }
    return 0;
}

static int pump_data(struct put_file *put, bool *asked)
{
    struct copy_file *file = &put->file;
    int status = 0;

    while (status == 0 && !*asked && put->state == PUT_WRITE) {
        struct chunk *chunk = file->again;
        bool full = file->offset - put->batch_offset >= CLIENT_COPY_BATCH_BYTES;
        if (chunk != NULL) {
            file->again = chunk->next;
            *asked = true;
            status = write_chunk(chunk);
        } else if (!file->eof && !full) {
            status = write_next(put, asked);
        } else if (file->outstanding > 0) {
            break;
        } else {
            status = end_batch(put, asked);
        }
    }
    return status;
}

static int pump(struct copy_file *file, bool *asked)
{
    struct put_file *put = put_of(file);

    if (put->state == PUT_WRITE) {
        int status = pump_data(put, asked);
        if (status != 0 || *asked || put->state == PUT_WRITE) {
            return status;
        }
    }
    if (file->outstanding > 0 || put->state == PUT_DONE) {
        return 0;
    }
    *asked = true;
    if (put->state == PUT_CREATE) {
        int status = create(put);
        if (status != -EOPNOTSUPP || put->is_there) {
            return status;
        }
        put->state = PUT_COMPARE; /* NFSv2 has no GUARDED */
    }
    return put->state == PUT_COMPARE  ? look_up(put, compared)
           : put->state == PUT_LOOKUP ? look_up(put, looked_up)
                                      : set_attributes(put);
}

static int end(struct copy_file *file)
{
    CHECK_OP(put_of(file)->state, ==, PUT_DONE);
    return 0;
}

static void release(struct copy_file *file)
{
    free(put_of(file)->name);
    free(put_of(file));
}

int client_copy_put_file(struct client_copy *copy, const struct client_fh *dir,
                         struct client_name name, int fd, bool in_order, const char *path)
{
    struct put_file *put = calloc(1, sizeof *put);
    char *path_copy = strdup(path);
    char *name_copy = strndup(name.bytes, name.size);
    int status = put == NULL || path_copy == NULL || name_copy == NULL ? -ENOMEM : 0;

    if (status == 0 && fstat(fd, &put->st) != 0) {
        status = -errno;
    }
    if (status != 0) {
        free(put);
        free(path_copy);
        free(name_copy);
        close(fd);
        return status;
    }
    put->file = (struct copy_file){
        .copy = copy,
        .path = path_copy,
        .fd = fd,
        .in_order = in_order,
        .pump = pump,
        .end = end,
        .release = release,
    };
    if (!S_ISREG(put->st.st_mode)) { /* a pipe's mode says nothing of a file's */
        put->st.st_mode = S_IFREG | (0666 & ~copy->umask);
    }
    put->dir = *dir;
    put->name = name_copy;
    put->name_bytes = name.size;
    bool one_write = put->st.st_size <= (off_t)copy->mount->wsize;
    put->stable = in_order || one_write ? FILE_SYNC : UNSTABLE;
    return copy_begin(copy, &put->file);
}
