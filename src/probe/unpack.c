/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file has a slot, which goes through its calls by itself; the main line reads the archive and
 * waits for a slot to be free:
 *
 *     LOOKUP --> CREATE --> WRITE ... --> COMMIT --> SETATTR --> free
 *
 * A file that is longer than its slot's buffer reads on within the main line's wait, so that the
 * archive is never read by two.
 */
#include "probe/unpack.h"

#include "client/wait.h"
#include "probe/unpack_source.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define TURN_MS 20
#define JUKEBOX_NS 100000000LL
#define OP_END UNPACK_OP_COUNT

struct directory {
    UT_hash_handle hh;
    struct client_fh fh;
    char path[];
};

struct slot {
    struct unpacking *unpacking;
    struct client_timer pause;
    enum unpack_op op; /* under way; OP_END: the slot is free */
    bool created;
    struct client_fh dir, fh;
    struct unpack_entry entry; /* its path is `path` */
    char path[PATH_MAX];
    uint8_t *data;
    uint32_t data_bytes, written_bytes; /* of `data` */
    uint64_t left_bytes;                /* not read from the archive yet */
    uint64_t offset;
};

struct unpacking {
    const struct unpack_options *options;
    struct unpack_result *result;
    struct unpack_source *source;
    struct directory *directories;
    struct slot *slots;
    uint32_t timer_count;
    struct client_answer answer; /* of calls that are waited for */
    int error;
    struct err *err;
};

const char *unpack_op_name(enum unpack_op op)
{
    static const char *const names[UNPACK_OP_COUNT] = {
        [UNPACK_LOOKUP] = "LOOKUP",      [UNPACK_CREATE] = "CREATE",   [UNPACK_WRITE] = "WRITE",
        [UNPACK_COMMIT] = "COMMIT",      [UNPACK_SETATTR] = "SETATTR", [UNPACK_MKDIR] = "MKDIR",
        [UNPACK_LINK] = "SYMLINK, LINK",
    };
    return names[op];
}

double unpack_rate(const struct unpack_result *result)
{
    return result->elapsed_ns > 0 ? (double)result->files * 1e9 / (double)result->elapsed_ns : 0;
}

static void fail(struct unpacking *unpacking, enum unpack_op op, const char *path, int status)
{
    char text[CLIENT_TEXT_BYTES_MAX];
    if (unpacking->error == 0) {
        unpacking->error = err_set(unpacking->err, status < 0 ? status : -EIO, "%s: %s: %s", path,
                                   unpack_op_name(op), client_status_text(status, text));
    }
}

static void keep_time(struct unpacking *unpacking, enum unpack_op op, int64_t ns)
{
    unpacking->result->calls[op]++;
    samples_add(&unpacking->result->ops[op], ns);
}

static struct nfstime3 mtime_of(const struct unpack_entry *entry)
{
    return (struct nfstime3){(uint32_t)entry->mtime_seconds, entry->mtime_nseconds};
}

static struct client_name last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return client_name(slash != NULL ? slash + 1 : path);
}

/* ---- a file ---- */

static void answered(void *owner, const struct client_reply *reply);

static int call(struct slot *slot)
{
    struct unpacking *unpacking = slot->unpacking;
    struct client_rpc *rpc = unpacking->options->mount->rpc;
    struct diropargs3 where = client_dirop(&slot->dir, last_name(slot->path));

    switch (slot->op) {
    case UNPACK_LOOKUP: {
        struct LOOKUP3args args = {where};
        return client_rpc_call(rpc, NFSPROC3_LOOKUP, &args, answered, slot);
    }
    case UNPACK_CREATE: {
        struct CREATE3args args = {
            .where = where,
            .how = {.mode = UNCHECKED, .obj_attributes = {.mode = {true, {slot->entry.mode}}}},
        };
        return client_rpc_call(rpc, NFSPROC3_CREATE, &args, answered, slot);
    }
    case UNPACK_WRITE: {
        uint32_t wsize = unpacking->options->mount->wsize;
        uint32_t left = slot->data_bytes - slot->written_bytes;
        uint32_t count = left < wsize ? left : wsize;
        struct WRITE3args args = {client_fh3(&slot->fh),
                                  slot->offset,
                                  count,
                                  UNSTABLE,
                                  {slot->data + slot->written_bytes, count}};
        return client_rpc_call(rpc, NFSPROC3_WRITE, &args, answered, slot);
    }
    case UNPACK_COMMIT: {
        struct COMMIT3args args = {client_fh3(&slot->fh), 0, 0};
        return client_rpc_call(rpc, NFSPROC3_COMMIT, &args, answered, slot);
    }
    default: {
        struct SETATTR3args args = {
            .object = client_fh3(&slot->fh),
            .new_attributes = {.mtime = {SET_TO_CLIENT_TIME, {mtime_of(&slot->entry)}}},
        };
        return client_rpc_call(rpc, NFSPROC3_SETATTR, &args, answered, slot);
    }
    }
}

static void begin(struct slot *slot, enum unpack_op op)
{
    slot->op = op;
    int error = op == OP_END ? 0 : call(slot);
    if (error != 0) {
        fail(slot->unpacking, op, slot->path, error);
        slot->op = OP_END;
    }
}

/* The next of the file's data into the slot. */
static int read_on(struct slot *slot)
{
    uint32_t bytes =
        slot->left_bytes < UNPACK_AT_ONCE_BYTES ? (uint32_t)slot->left_bytes : UNPACK_AT_ONCE_BYTES;
    slot->written_bytes = 0;
    int error = unpack_source_read(slot->unpacking->source, slot->data, bytes, &slot->data_bytes,
                                   slot->unpacking->err);
    slot->left_bytes = slot->data_bytes < bytes ? 0 : slot->left_bytes - bytes;
    return error;
}

static void wrote(struct slot *slot, const struct WRITE3resok *resok)
{
    uint32_t left = slot->data_bytes - slot->written_bytes;

    if (resok->count == 0 || resok->count > left) {
        fail(slot->unpacking, UNPACK_WRITE, slot->path, -EBADMSG);
        slot->op = OP_END;
        return;
    }
    slot->written_bytes += resok->count;
    slot->offset += resok->count;
    slot->unpacking->result->bytes += resok->count;
    if (slot->written_bytes == slot->data_bytes && slot->left_bytes > 0) {
        int error = read_on(slot);
        if (error != 0) {
            slot->unpacking->error = error;
            slot->op = OP_END;
            return;
        }
    }
    begin(slot, slot->written_bytes < slot->data_bytes ? UNPACK_WRITE : UNPACK_COMMIT);
}

static void has_handle(struct slot *slot, const struct nfs_fh3 *fh)
{
    client_fh_set(&slot->fh, fh);
    begin(slot, slot->data_bytes > 0 ? UNPACK_WRITE : UNPACK_SETATTR);
}

static void go_on(struct slot *slot, const void *res)
{
    switch (slot->op) {
    case UNPACK_LOOKUP:
        if (slot->created) {
            has_handle(slot, &((const struct LOOKUP3res *)res)->resok.object);
        } else {
            begin(slot, UNPACK_CREATE);
        }
        break;
    case UNPACK_CREATE: {
        const struct post_op_fh3 *obj = &((const struct CREATE3res *)res)->resok.obj;
        slot->created = true;
        if (obj->handle_follows) {
            has_handle(slot, &obj->handle);
        } else {
            begin(slot, UNPACK_LOOKUP);
        }
        break;
    }
    case UNPACK_WRITE:
        wrote(slot, &((const struct WRITE3res *)res)->resok);
        break;
    case UNPACK_COMMIT:
        begin(slot, UNPACK_SETATTR);
        break;
    default:
        slot->unpacking->result->files++;
        slot->op = OP_END;
        break;
    }
}

static void answered(void *owner, const struct client_reply *reply)
{
    struct slot *slot = owner;
    struct unpacking *unpacking = slot->unpacking;
    struct xdr xdr = xdr_reader(reply->results.data, reply->results.size);
    uint32_t word = 0;

    int status = reply->error != 0 ? reply->error : xdr_get_u32(&xdr, &word) ? (int)word : -EBADMSG;
    if (status == NFS3ERR_JUKEBOX && unpacking->error == 0) {
        client_timer_set(unpacking->options->mount->loop, &slot->pause,
                         reply->received_ns + JUKEBOX_NS);
        return;
    }
    bool free_name = slot->op == UNPACK_LOOKUP && !slot->created && status == NFS3ERR_NOENT;
    if (status != 0 && !free_name) {
        fail(unpacking, slot->op, slot->path, status);
    }
    if (unpacking->error != 0) {
        slot->op = OP_END;
        return;
    }
    keep_time(unpacking, slot->op, reply->received_ns - reply->first_sent_ns);
    go_on(slot, reply->res);
}

static void pause_over(struct client_timer *timer)
{
    struct slot *slot = CONTAINER_OF(timer, struct slot, pause);
    begin(slot, slot->op);
}

/* ---- the main line ---- */

static void turn(struct unpacking *unpacking)
{
    int error = client_loop_turn(unpacking->options->mount->loop, TURN_MS);
    const struct unpack_options *options = unpacking->options;
    if (error != 0 && unpacking->error == 0) {
        unpacking->error = err_set(unpacking->err, error, "cannot wait: %s", strerror(-error));
    } else if (unpacking->error == 0 && options->stopping != NULL &&
               options->stopping(options->owner)) {
        unpacking->error = err_set(unpacking->err, -EINTR, "interrupted");
    }
}

static void wait_for(struct unpacking *unpacking, struct slot *slot)
{
    while (slot->op != OP_END && unpacking->error == 0) {
        turn(unpacking);
    }
}

static void wait_for_all(struct unpacking *unpacking)
{
    for (uint32_t i = 0; i < unpacking->options->files_max; i++) {
        wait_for(unpacking, &unpacking->slots[i]);
    }
}

static struct slot *free_slot(struct unpacking *unpacking)
{
    while (unpacking->error == 0) {
        for (uint32_t i = 0; i < unpacking->options->files_max; i++) {
            if (unpacking->slots[i].op == OP_END) {
                return &unpacking->slots[i];
            }
        }
        turn(unpacking);
    }
    return NULL;
}

/* Calls, waits, and keeps how long it took. Returns a status, which was not told. */
static int timed(struct unpacking *unpacking, enum unpack_op op, uint32_t proc, const void *args)
{
    struct client_mount *mount = unpacking->options->mount;
    int64_t start_ns = client_loop_fresh_ns(mount->loop);

    int status = client_nfs3(mount, proc, args, &unpacking->answer);
    if (status == 0) {
        keep_time(unpacking, op, client_loop_fresh_ns(mount->loop) - start_ns);
    }
    return status;
}

static int keep_directory(struct unpacking *unpacking, const char *path, const struct client_fh *fh)
{
    struct directory *directory = malloc(sizeof *directory + strlen(path) + 1);
    if (directory == NULL) {
        return -ENOMEM;
    }
    directory->fh = *fh;
    strcpy(directory->path, path);
    HASH_ADD_STR(unpacking->directories, path, directory);
    return 0;
}

static int make_directory(struct unpacking *unpacking, const char *path, uint32_t mode,
                          struct client_fh *fh);

/* The directory that the last component of a path is in; those the archive left out are made. */
static int find_parent(struct unpacking *unpacking, const char *path, struct client_fh *fh)
{
    const char *slash = strrchr(path, '/');
    struct directory *directory;

    if (slash == NULL) {
        *fh = unpacking->options->dir;
        return 0;
    }
    size_t bytes = (size_t)(slash - path);
    HASH_FIND(hh, unpacking->directories, path, bytes, directory);
    if (directory != NULL) {
        *fh = directory->fh;
        return 0;
    }
    char *above = strndup(path, bytes);
    int status = above == NULL ? -ENOMEM : make_directory(unpacking, above, 0755, fh);
    free(above);
    return status;
}

static int make_directory(struct unpacking *unpacking, const char *path, uint32_t mode,
                          struct client_fh *fh)
{
    struct directory *known;
    struct client_fh above;
    struct client_node node;

    HASH_FIND_STR(unpacking->directories, path, known);
    if (known != NULL || path[0] == '\0') {
        *fh = known != NULL ? known->fh : unpacking->options->dir;
        return 0;
    }
    int status = find_parent(unpacking, path, &above);
    if (status != 0) {
        return status;
    }
    /* What is unpacked below must be possible, whoever we are. */
    struct MKDIR3args args = {client_dirop(&above, last_name(path)),
                              {.mode = {true, {mode | 0700}}}};
    status = timed(unpacking, UNPACK_MKDIR, NFSPROC3_MKDIR, &args);
    unpacking->result->directories += status == 0 ? 1 : 0;
    if (status == 0 || status == NFS3ERR_EXIST) {
        status = client_lookup(unpacking->options->mount, &above, last_name(path), &node);
    }
    *fh = node.fh;
    return status != 0 ? status : keep_directory(unpacking, path, fh);
}

static int make_link(struct unpacking *unpacking, const struct unpack_entry *entry)
{
    struct client_mount *mount = unpacking->options->mount;
    struct client_fh dir, target_dir;
    struct client_node node;

    int status = find_parent(unpacking, entry->path, &dir);
    if (status == 0 && entry->type == UNPACK_SYMLINK) {
        struct SYMLINK3args args = {
            client_dirop(&dir, last_name(entry->path)),
            {{.mode = {true, {0777}}},
             {(const uint8_t *)entry->target, (uint32_t)strlen(entry->target)}}};
        return timed(unpacking, UNPACK_LINK, NFSPROC3_SYMLINK, &args);
    }
    status = status != 0 ? status : find_parent(unpacking, entry->target, &target_dir);
    if (status == 0) {
        status = client_lookup(mount, &target_dir, last_name(entry->target), &node);
    }
    if (status == 0) {
        struct LINK3args args = {client_fh3(&node.fh), client_dirop(&dir, last_name(entry->path))};
        status = timed(unpacking, UNPACK_LINK, NFSPROC3_LINK, &args);
    }
    return status;
}

static void make_file(struct unpacking *unpacking, const struct unpack_entry *entry)
{
    struct client_fh dir;

    int status = find_parent(unpacking, entry->path, &dir);
    if (status != 0) {
        fail(unpacking, UNPACK_MKDIR, entry->path, status);
    }
    struct slot *slot = free_slot(unpacking);
    if (slot == NULL) {
        return;
    }
    slot->dir = dir;
    slot->entry = *entry;
    slot->created = false;
    slot->offset = 0;
    slot->left_bytes = entry->bytes;
    strcpy(slot->path, entry->path);
    int error = read_on(slot);
    if (error != 0) {
        unpacking->error = error;
        return;
    }
    begin(slot, UNPACK_LOOKUP);
    if (slot->left_bytes > 0) {
        wait_for(unpacking, slot);
    }
}

static void unpack_entry(struct unpacking *unpacking, const struct unpack_entry *entry)
{
    struct client_fh fh;
    int status;

    switch (entry->type) {
    case UNPACK_FILE:
        make_file(unpacking, entry);
        break;
    case UNPACK_DIRECTORY:
        status = make_directory(unpacking, entry->path, entry->mode, &fh);
        if (status != 0) {
            fail(unpacking, UNPACK_MKDIR, entry->path, status);
        }
        break;
    case UNPACK_SYMLINK:
    case UNPACK_HARD_LINK:
        wait_for_all(unpacking);
        status = make_link(unpacking, entry);
        if (status != 0) {
            fail(unpacking, UNPACK_LINK, entry->path, status);
        }
        unpacking->result->links++;
        break;
    case UNPACK_OTHER:
        unpacking->result->skipped++;
        break;
    }
}

static void unpack(struct unpacking *unpacking)
{
    struct client_loop *loop = unpacking->options->mount->loop;
    int64_t start_ns = client_loop_fresh_ns(loop);
    struct unpack_entry entry;
    bool found = true;

    while (unpacking->error == 0) {
        int error = unpack_source_next(unpacking->source, &entry, &found, unpacking->err);
        unpacking->error = error;
        if (error != 0 || !found) {
            break;
        }
        unpack_entry(unpacking, &entry);
    }
    wait_for_all(unpacking);
    unpacking->result->elapsed_ns = client_loop_fresh_ns(loop) - start_ns;
}

static int prepare(struct unpacking *unpacking)
{
    const struct unpack_options *options = unpacking->options;

    unpacking->slots = calloc(options->files_max, sizeof *unpacking->slots);
    if (unpacking->slots == NULL) {
        return -ENOMEM;
    }
    for (; unpacking->timer_count < options->files_max; unpacking->timer_count++) {
        struct slot *slot = &unpacking->slots[unpacking->timer_count];
        slot->unpacking = unpacking;
        slot->op = OP_END;
        slot->data = malloc(UNPACK_AT_ONCE_BYTES);
        if (slot->data == NULL ||
            client_timer_open(options->mount->loop, &slot->pause, pause_over) != 0) {
            free(slot->data);
            return -ENOMEM;
        }
    }
    for (int i = 0; i < UNPACK_OP_COUNT; i++) {
        if (samples_open(&unpacking->result->ops[i], UNPACK_SAMPLES_MAX) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* Calls that are still under way after an error are waited for: their slots are ours. */
static void finish(struct unpacking *unpacking)
{
    struct directory *directory, *next;
    struct client_loop *loop = unpacking->options->mount->loop;

    for (uint32_t i = 0; i < unpacking->timer_count; i++) {
        struct slot *slot = &unpacking->slots[i];
        while (slot->op != OP_END && slot->pause.place == 0 &&
               client_loop_turn(loop, TURN_MS) == 0) {
        }
        client_timer_close(loop, &slot->pause);
        free(slot->data);
    }
    free(unpacking->slots);
    HASH_ITER(hh, unpacking->directories, directory, next)
    {
        HASH_DEL(unpacking->directories, directory);
        free(directory);
    }
    client_answer_free(&unpacking->answer);
}

int unpack_run(const struct unpack_options *options, struct unpack_result *result, struct err *err)
{
    struct unpacking unpacking = {.options = options, .result = result, .err = err};

    CHECK(options->files_max > 0 && options->files_max <= UNPACK_FILES_MAX);
    *result = (struct unpack_result){.files_max = options->files_max};
    int error = unpack_source_open(options->archive, options->file_count, options->file_bytes,
                                   &unpacking.source, err);
    if (error == 0 && prepare(&unpacking) != 0) {
        error = err_set(err, -ENOMEM, "out of memory");
    }
    if (error == 0) {
        unpack(&unpacking);
        error = unpacking.error;
    }
    finish(&unpacking);
    unpack_source_close(unpacking.source);
    return error;
}

void unpack_close(struct unpack_result *result)
{
    for (int i = 0; i < UNPACK_OP_COUNT; i++) {
        samples_close(&result->ops[i]);
    }
}
