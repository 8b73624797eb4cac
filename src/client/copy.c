/* SPDX-License-Identifier: Apache-2.0 */
#include "client/copy.h"

#include "client/copy_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_COUNT_MAX 16U
#define REQUEST_COUNT_MAX 16U
#define NS_PER_MS 1000000LL

/* ---- chunks ---- */

struct chunk *copy_chunk_new(struct copy_file *file, uint64_t offset, uint32_t count, bool data)
{
    struct client_copy *copy = file->copy;
    struct chunk *chunk = data ? copy->spare : NULL;
    uint8_t *bytes = NULL;

    if (chunk != NULL) {
        copy->spare = chunk->next;
        bytes = chunk->data;
    } else {
        chunk = malloc(sizeof *chunk);
        bytes = data ? malloc(copy->mount->wsize) : NULL;
        if (chunk == NULL || (data && bytes == NULL)) {
            free(chunk);
            free(bytes);
            return NULL;
        }
    }
    *chunk = (struct chunk){.file = file, .offset = offset, .count = count, .data = bytes};
    return chunk;
}

void copy_chunk_free(struct chunk *chunk)
{
    if (chunk->data != NULL) {
        chunk->next = chunk->file->copy->spare;
        chunk->file->copy->spare = chunk;
    } else {
        free(chunk);
    }
}

/* ---- failing ---- */

void copy_problem(struct client_copy *copy, const char *path, int status)
{
    if (copy->fatal == 0 && status != 0 && status == copy->mount->lost) {
        copy->fatal = status;
    }
    bool fatal = copy->fatal != 0 && status == copy->fatal;
    copy->counts.failed++;
    if (!fatal || !copy->fatal_told) {
        copy->options.problem(copy->options.owner, path, status);
    }
    copy->fatal_told = copy->fatal_told || fatal;
}

void copy_fail(struct copy_file *file, int status)
{
    if (file->status == 0) {
        file->status = status;
    }
}

/* ---- one file at its end ---- */

static void file_release(struct copy_file *file)
{
    while (file->again != NULL) {
        struct chunk *chunk = file->again;
        file->again = chunk->next;
        copy_chunk_free(chunk);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->path);
    file->release(file);
}

static void file_finish(struct copy_file *file)
{
    struct client_copy *copy = file->copy;

    if (file->status == 0) {
        copy_fail(file, file->end(file));
    }
    if (file->fd >= 0 && close(file->fd) != 0) {
        copy_fail(file, -errno);
    }
    file->fd = -1;
    if (file->status == 0) {
        copy->counts.files++;
    } else {
        copy_problem(copy, file->path, file->status);
    }
    file_release(file);
}

/* Takes finished files out of the list. */
static void reap(struct client_copy *copy)
{
    struct copy_file **at = &copy->files;
    while (*at != NULL) {
        struct copy_file *file = *at;
        if (!file->finished) {
            at = &file->next;
            continue;
        }
        *at = file->next;
        copy->file_count--;
        file_finish(file);
    }
}

/* ---- going on ---- */

/* Lets each file ask for one thing. Returns whether any did. */
static bool pump_all(struct client_copy *copy)
{
    int64_t now_ns = client_loop_now_ns(copy->mount->loop);
    bool any = false;

    for (struct copy_file *file = copy->files; file != NULL; file = file->next) {
        bool asked = false;
        if (file->finished || copy->request_count >= copy->options.request_count_max) {
            continue;
        }
        copy_fail(file, copy->fatal);
        if (file->status == 0 && file->resume_ns <= now_ns) {
            copy_fail(file, file->pump(file, &asked));
        } else if (file->status == 0) {
            continue;
        }
        any = any || asked;
        file->finished = !asked && file->outstanding == 0;
    }
    return any;
}

void copy_go_on(struct client_copy *copy)
{
    while (pump_all(copy)) {
    }
    reap(copy);
    if (copy->options.progress != NULL) {
        copy->options.progress(copy->options.owner, &copy->counts);
    }
}

static void timer_expired(struct client_timer *timer)
{
    copy_go_on(CONTAINER_OF(timer, struct client_copy, timer));
}

static void rest(struct copy_file *file)
{
    struct client_copy *copy = file->copy;
    file->resume_ns = client_loop_now_ns(copy->mount->loop) + CLIENT_JUKEBOX_MS_MIN * NS_PER_MS;
    client_timer_set(copy->mount->loop, &copy->timer, file->resume_ns);
}

bool copy_is_same(const struct stat *st, const struct fattr3 *attr)
{
    uint32_t ns = (uint32_t)st->st_ctim.tv_nsec;

    return st->st_ino == attr->fileid && (uint64_t)st->st_size == attr->size &&
           (uint32_t)st->st_ctim.tv_sec == attr->ctime.seconds &&
           (ns == attr->ctime.nseconds || ns / 1000 * 1000 == attr->ctime.nseconds); /* NFSv2 */
}

struct nfstime3 copy_time(const struct timespec *time)
{
    if (time->tv_sec < 0) {
        return (struct nfstime3){0, 0};
    }
    if (time->tv_sec > UINT32_MAX) {
        return (struct nfstime3){UINT32_MAX, 0};
    }
    return (struct nfstime3){(uint32_t)time->tv_sec, (uint32_t)time->tv_nsec};
}

int copy_call(struct copy_file *file, uint32_t proc, const void *args, client_reply_fn *replied,
              void *owner)
{
    int error = client_rpc_call(file->copy->mount->rpc, proc, args, replied, owner);
    if (error == 0) {
        file->outstanding++;
        file->copy->request_count++;
    }
    return error;
}

int copy_replied(struct copy_file *file, const struct client_reply *reply)
{
    struct client_copy *copy = file->copy;
    uint32_t status;

    file->outstanding--;
    copy->request_count--;
    if (reply->error != 0) {
        if (reply->fault == CLIENT_FAULT_TRANSPORT) {
            copy->mount->lost = reply->error;
            copy->fatal = copy->fatal == 0 ? reply->error : copy->fatal;
        }
        return reply->error;
    }
    struct xdr xdr = xdr_reader(reply->results.data, reply->results.size);
    if (!xdr_get_u32(&xdr, &status)) {
        return -EBADMSG;
    }
    if (status == NFS3ERR_JUKEBOX &&
        (!copy->mount->url.soft || file->jukebox_count++ < CLIENT_JUKEBOX_COUNT_MAX)) {
        rest(file);
        return COPY_LATER;
    }
    return (int)status;
}

static void turn(struct client_copy *copy)
{
    int error = client_loop_turn(copy->mount->loop, -1);
    CHECK_OP(error, ==, 0);
}

int copy_begin(struct client_copy *copy, struct copy_file *file)
{
    while (copy->file_count >= copy->options.file_count_max && copy->fatal == 0) {
        turn(copy);
    }
    if (copy->fatal != 0) {
        file_release(file);
        return copy->fatal;
    }
    struct copy_file **end = &copy->files;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    file->next = NULL;
    *end = file;
    copy->file_count++;
    copy_go_on(copy);
    return 0;
}

/* ---- the whole ---- */

int client_copy_open(const struct client_copy_options *options, struct client_copy **opened)
{
    struct client_copy *copy = calloc(1, sizeof *copy);
    if (copy == NULL) {
        return -ENOMEM;
    }
    copy->options = *options;
    copy->mount = options->mount;
    if (copy->options.file_count_max == 0) {
        copy->options.file_count_max = FILE_COUNT_MAX;
    }
    if (copy->options.request_count_max == 0) {
        copy->options.request_count_max = REQUEST_COUNT_MAX;
    }
    copy->root.fd = -1;
    copy->umask = umask(0);
    umask(copy->umask);
    int error = client_timer_open(copy->mount->loop, &copy->timer, timer_expired);
    if (error != 0) {
        free(copy);
        return error;
    }
    *opened = copy;
    return 0;
}

int client_copy_finish(struct client_copy *copy)
{
    while (copy->file_count > 0) {
        turn(copy);
    }
    return copy->fatal;
}

void client_copy_close(struct client_copy *copy)
{
    if (copy == NULL) {
        return;
    }
    if (copy->fatal == 0) {
        copy->fatal = -ECANCELED;
    }
    (void)!client_copy_finish(copy);
    while (copy->spare != NULL) {
        struct chunk *chunk = copy->spare;
        copy->spare = chunk->next;
        free(chunk->data);
        free(chunk);
    }
    client_timer_close(copy->mount->loop, &copy->timer);
    free(copy);
}

void client_copy_counts(const struct client_copy *copy, struct client_copy_counts *counts)
{
    *counts = copy->counts;
}
