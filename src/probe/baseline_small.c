/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small-file baseline: one file after the other, one call at a time, as tar(1) on a mount does
 * it. What a call costs beyond NULL is the server's; what a call that must be durable costs beyond
 * one that need not is the wait for stable storage.
 */
#include "probe/baseline_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS 1e6

static const char *const op_names[BASELINE_OP_COUNT] = {
    [BASELINE_NULL] = "NULL",       [BASELINE_LOOKUP] = "LOOKUP",
    [BASELINE_CREATE] = "CREATE",   [BASELINE_WRITE_UNSTABLE] = "WRITE UNSTABLE",
    [BASELINE_COMMIT] = "COMMIT",   [BASELINE_WRITE_FILE_SYNC] = "WRITE FILE_SYNC",
    [BASELINE_SETATTR] = "SETATTR", [BASELINE_GETATTR] = "GETATTR",
    [BASELINE_READ] = "READ",       [BASELINE_REMOVE] = "REMOVE",
};

const char *baseline_op_name(enum baseline_op op)
{
    return op_names[op];
}

struct small_file {
    struct session *session;
    struct client_answer answer;
    struct client_fh fh;
    char name[32];
    uint8_t data[BASELINE_SMALL_FILE_BYTES];
};

/* Calls, and keeps how long it took. */
static int timed(struct small_file *file, enum baseline_op op, uint32_t proc, const void *args)
{
    struct session *session = file->session;
    struct client_mount *mount = session->mount;
    int64_t start_ns = client_loop_fresh_ns(mount->loop);

    int status = op == BASELINE_NULL
                     ? client_wait(mount->loop, mount->rpc, proc, args, &file->answer)
                     : client_nfs3(mount, proc, args, &file->answer);
    int64_t took_ns = client_loop_fresh_ns(mount->loop) - start_ns;
    if (status == 0 || (op == BASELINE_LOOKUP && status == NFS3ERR_NOENT)) {
        samples_add(&session->baseline->small.ops[op], took_ns);
        return 0;
    }
    return status;
}

static int write_file(struct small_file *file, enum baseline_op op, enum stable_how stable)
{
    struct WRITE3args args = {
        client_fh3(&file->fh), 0, sizeof file->data, stable, {file->data, sizeof file->data}};
    return timed(file, op, NFSPROC3_WRITE, &args);
}

static int make(struct small_file *file)
{
    struct diropargs3 where = client_dirop(&file->session->dir, client_name(file->name));
    struct LOOKUP3args lookup = {where};
    struct CREATE3args create = {
        .where = where,
        .how = {.mode = UNCHECKED, .obj_attributes = {.mode = {true, {0644}}}},
    };

    int status = timed(file, BASELINE_LOOKUP, NFSPROC3_LOOKUP, &lookup);
    if (status == 0) {
        status = timed(file, BASELINE_CREATE, NFSPROC3_CREATE, &create);
    }
    if (status != 0) {
        return status;
    }
    const struct CREATE3resok *resok = &((const struct CREATE3res *)file->answer.res)->resok;
    if (resok->obj.handle_follows) {
        client_fh_set(&file->fh, &resok->obj.handle);
        return 0;
    }
    struct client_node node;
    status =
        client_lookup(file->session->mount, &file->session->dir, client_name(file->name), &node);
    file->fh = node.fh;
    return status;
}

static int fill(struct small_file *file)
{
    struct COMMIT3args commit = {client_fh3(&file->fh), 0, 0};
    struct SETATTR3args setattr = {
        .object = client_fh3(&file->fh),
        .new_attributes = {.mode = {true, {0640}},
                           .atime = {SET_TO_CLIENT_TIME, {{1000000000, 0}}},
                           .mtime = {SET_TO_CLIENT_TIME, {{1000000000, 0}}}},
    };

    int status = write_file(file, BASELINE_WRITE_UNSTABLE, UNSTABLE);
    if (status == 0) {
        status = timed(file, BASELINE_COMMIT, NFSPROC3_COMMIT, &commit);
    }
    if (status == 0) {
        status = write_file(file, BASELINE_WRITE_FILE_SYNC, FILE_SYNC);
    }
    return status != 0 ? status : timed(file, BASELINE_SETATTR, NFSPROC3_SETATTR, &setattr);
}

static int use(struct small_file *file)
{
    struct GETATTR3args getattr = {client_fh3(&file->fh)};
    struct READ3args read = {client_fh3(&file->fh), 0, sizeof file->data};
    struct REMOVE3args remove = {client_dirop(&file->session->dir, client_name(file->name))};

    int status = timed(file, BASELINE_GETATTR, NFSPROC3_GETATTR, &getattr);
    if (status == 0) {
        status = timed(file, BASELINE_READ, NFSPROC3_READ, &read);
    }
    return status != 0 ? status : timed(file, BASELINE_REMOVE, NFSPROC3_REMOVE, &remove);
}

double baseline_median_ms(struct baseline_small *small, enum baseline_op op)
{
    int64_t ns = samples_percentile(&small->ops[op], 0.5);
    return ns < 0 ? 0 : (double)ns / NS_PER_MS;
}

/* What of an operation is waiting for stable storage: what it costs beyond one like it that need
 * not be durable. */
static double storage_ms(struct baseline_small *small, enum baseline_op op, enum baseline_op like)
{
    double more = baseline_median_ms(small, op) - baseline_median_ms(small, like);
    return more > 0 ? more : 0;
}

static void sum_up(struct baseline_small *small)
{
    static const enum baseline_op unpacking[] = {BASELINE_LOOKUP, BASELINE_CREATE,
                                                 BASELINE_WRITE_UNSTABLE, BASELINE_COMMIT,
                                                 BASELINE_SETATTR};
    small->network_ms = baseline_median_ms(small, BASELINE_NULL);
    for (size_t i = 0; i < COUNT_OF(unpacking); i++) {
        small->per_file_ms += baseline_median_ms(small, unpacking[i]);
    }
    small->storage_ms = storage_ms(small, BASELINE_CREATE, BASELINE_LOOKUP) +
                        storage_ms(small, BASELINE_COMMIT, BASELINE_GETATTR) +
                        storage_ms(small, BASELINE_SETATTR, BASELINE_GETATTR);
}

int baseline_measure_small(struct session *session, struct err *err)
{
    struct baseline_small *small = &session->baseline->small;
    uint32_t count = session->options->small_file_count;
    struct small_file file = {.session = session};
    int status = 0;

    for (int i = 0; i < BASELINE_OP_COUNT; i++) {
        if (samples_open(&small->ops[i], count) != 0) {
            return err_set(err, -ENOMEM, "out of memory");
        }
    }
    memset(file.data, 0x33, sizeof file.data);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        (void)snprintf(file.name, sizeof file.name, "small%u", i);
        status = timed(&file, BASELINE_NULL, NFSPROC3_NULL, NULL);
        status = status != 0 ? status : make(&file);
        status = status != 0 ? status : fill(&file);
        status = status != 0 ? status : use(&file);
        status = status != 0 ? status : baseline_stopped(session, err);
    }
    client_answer_free(&file.answer);
    if (status == -EINTR) {
        return status;
    }
    if (status != 0) {
        char text[CLIENT_TEXT_BYTES_MAX];
        return err_set(err, status < 0 ? status : -EIO, "small files: %s",
                       client_status_text(status, text));
    }
    small->file_count = count;
    sum_up(small);
    return 0;
}
