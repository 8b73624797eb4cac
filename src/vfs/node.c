/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole: exports opened, handles turned into nodes, each call checked against the export's
 * clients and given its identity. The contract is node.h.
 */
#include "vfs/ask.h"
#include "vfs/internal.h"
#include "vfs/mounts.h"

#include "base/log.h"
#include "vfs/export_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static atomic_uint_fast64_t serial_last;

/* ---- the write verifier ---- */

static void renew_writeverf(struct vfs *vfs)
{
    uint64_t count = atomic_fetch_add(&vfs->writeverf_count, 1);
    atomic_store(&vfs->writeverf, siphash(vfs->writeverf_key, &count, sizeof count));
}

/* Chance, the clock and the count of starts: one of them differs from any earlier start. */
static int begin_writeverf(struct vfs *vfs, struct err *err)
{
    struct {
        uint8_t chance[SIPHASH_KEY_BYTES];
        struct timespec now;
        uint64_t starts;
        uint64_t half;
    } seed = {.starts = vfs->state.starts};
    if (getrandom(seed.chance, sizeof seed.chance, 0) != sizeof seed.chance) {
        return err_set(err, -EIO, "the kernel gives no random numbers");
    }
    clock_gettime(CLOCK_REALTIME, &seed.now);
    for (seed.half = 0; seed.half < 2; seed.half++) {
        uint64_t word = siphash(vfs->state.key, &seed, sizeof seed);
        memcpy(vfs->writeverf_key + 8 * seed.half, &word, sizeof word);
    }
    renew_writeverf(vfs);
    return 0;
}

void vfs_lost(void *arg)
{
    static struct log_limit limit;
    renew_writeverf(arg);
    log_write_limited(&limit, LOG_ERROR,
                      "written data may be lost: clients are told to write it again");
}

uint64_t vfs_writeverf(const struct vfs *vfs)
{
    return atomic_load_explicit(&vfs->writeverf, memory_order_acquire);
}

/* ---- open and close ---- */

static int open_exports(struct vfs *vfs, struct err *err)
{
    struct export_set *set = NULL;
    pthread_mutex_lock(&vfs->change_lock);
    int error = export_set_build(vfs, vfs->options.table, true, &set, err);
    if (error == 0) {
        (void)export_set_publish(vfs, set);
    }
    pthread_mutex_unlock(&vfs->change_lock);
    return error;
}

int vfs_open(const struct vfs_options *options, struct vfs **result, struct err *err)
{
    pthread_condattr_t monotonic;
    struct vfs *vfs = calloc(1, sizeof *vfs);
    if (vfs == NULL) {
        return err_set(err, -ENOMEM, "no memory");
    }
    vfs->options = *options;
    vfs->serial = atomic_fetch_add(&serial_last, 1) + 1;
    for (unsigned i = 0; i < LOCK_COUNT; i++) {
        pthread_mutex_init(&vfs->locks[i], NULL);
    }
    for (unsigned i = 0; i < DIR_LOCK_COUNT; i++) {
        pthread_mutex_init(&vfs->dir_locks[i], NULL);
    }
    pthread_mutex_init(&vfs->mode_lock, NULL);
    pthread_mutex_init(&vfs->set_lock, NULL);
    pthread_mutex_init(&vfs->change_lock, NULL);
    pthread_mutex_init(&vfs->join_lock, NULL);
    pthread_mutex_init(&vfs->intents_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&vfs->let_go, &monotonic);
    pthread_condattr_destroy(&monotonic);
    vfs->mounts_fd = mounts_watch();
    cred_take_root();
    vfs->is_plain = vfs_is_plain_user();
    int error = cred_begin_process(err);
    if (error == 0 && access("/proc/self/fd", X_OK) != 0) {
        error = err_set(err, -errno, "/proc is not mounted: hard links to open files need it");
    }
    if (error == 0) {
        error = state_open(options->state_dir, &vfs->state, err);
    }
    if (error == 0) {
        error = begin_writeverf(vfs, err);
    }
    if (error == 0 && (admit_open(vfs) != 0 || groups_open(vfs) != 0)) {
        error = err_set(err, -ENOMEM, "no memory for the names of clients and users");
    }
    if (error == 0) {
        error = open_exports(vfs, err);
    }
    if (error == 0 && options->opened != NULL) {
        error = options->opened(options->arg, err);
    }
    if (error == 0) {
        error = object_table_open(vfs, err);
    }
    if (error == 0 && names_open(vfs) != 0) {
        error = err_set(err, -ENOMEM, "no memory for names");
    }
    if (error == 0) {
        error = range_locks_open(vfs, err);
    }
    if (error == 0) {
        error = intent_open(vfs, err);
    }
    if (error == 0) {
        error = intent_join(vfs, vfs->set, true, err);
    }
    if (error == 0) {
        error = keeper_start(vfs, err);
    }
    if (error != 0) {
        vfs_close(vfs);
        return error;
    }
    *result = vfs;
    return 0;
}

void vfs_close(struct vfs *vfs)
{
    if (vfs == NULL) {
        return;
    }
    keeper_stop(vfs);
    /* These first: the journals' items and locks refer to objects. */
    intent_close(vfs);
    range_locks_close(vfs);
    object_table_close(vfs);
    names_close(vfs);
    ask_close(vfs->peers);
    ask_close(vfs->groups);
    intent_free(vfs);
    export_set_put(vfs->set);
    if (vfs->mounts_fd >= 0) {
        close(vfs->mounts_fd);
    }
    for (unsigned i = 0; i < LOCK_COUNT; i++) {
        pthread_mutex_destroy(&vfs->locks[i]);
    }
    for (unsigned i = 0; i < DIR_LOCK_COUNT; i++) {
        pthread_mutex_destroy(&vfs->dir_locks[i]);
    }
    pthread_mutex_destroy(&vfs->mode_lock);
    pthread_mutex_destroy(&vfs->set_lock);
    pthread_mutex_destroy(&vfs->change_lock);
    pthread_mutex_destroy(&vfs->join_lock);
    pthread_mutex_destroy(&vfs->intents_lock);
    pthread_cond_destroy(&vfs->let_go);
    free(vfs);
}

void vfs_reply(struct vfs *vfs, const struct vfs_reply *reply)
{
    (void)vfs;
    if (reply == NULL) {
        journal_leave();
        return;
    }
    struct journal_caller caller = {
        .port = reply->port,
        .is_tcp = reply->is_tcp,
        .xid = reply->xid,
        .prog = reply->prog,
        .vers = reply->vers,
        .proc = reply->proc,
        .call_bytes = reply->call_bytes,
        .call_checksum = reply->call_checksum,
    };
    memcpy(caller.address, reply->address, sizeof caller.address);
    journal_reply(&caller, reply->bytes, reply->size);
}

void vfs_promise(void)
{
    journal_promise();
}

void vfs_keep_promise(void)
{
    journal_keep_promise();
}

void vfs_break_promises(struct vfs *vfs)
{
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 0; i < VFS_JOURNAL_COUNT_MAX; i++) {
        if (vfs->intents[i] != NULL) {
            journal_wake(vfs->intents[i]->journal);
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
}

/* A set whose exports have their journals. */
static int build(struct vfs *vfs, struct export_table *table, bool strict, struct export_set **set,
                 struct err *err)
{
    int error = export_set_build(vfs, table, strict, set, err);
    if (error == 0 && (error = intent_join(vfs, *set, false, err)) != 0) {
        export_set_put(*set);
    }
    return error;
}

int vfs_reload(struct vfs *vfs, struct export_table *table, uint32_t *in_use, struct err *err)
{
    struct export_set *set = NULL;
    pthread_mutex_lock(&vfs->change_lock);
    int error = build(vfs, table, true, &set, err);
    if (error == 0) {
        *in_use = export_set_publish(vfs, set);
        ask_start_again(vfs->groups);
    }
    pthread_mutex_unlock(&vfs->change_lock);
    return error;
}

void vfs_refresh(struct vfs *vfs)
{
    struct export_set *set = NULL;
    struct err err = {0};
    pthread_mutex_lock(&vfs->change_lock);
    /* change_lock: nobody else replaces the set whose table this is. */
    if (build(vfs, vfs->set->table, false, &set, &err) == 0) {
        (void)export_set_publish(vfs, set);
    } else {
        log_error("%s", err.text);
    }
    pthread_mutex_unlock(&vfs->change_lock);
}

struct export_table *vfs_table_get(struct vfs *vfs)
{
    struct export_set *set = export_set_get(vfs);
    struct export_table *table = export_table_get(set->table);
    export_set_put(set);
    return table;
}

void vfs_each_export(struct vfs *vfs, void (*take)(void *arg, const char *path, uint64_t id),
                     void *arg)
{
    struct export_set *set = export_set_get(vfs);
    for (uint32_t i = 0; i < set->place_count; i++) {
        const struct export_place *place = &set->places[i];
        if (place->export != NULL) {
            take(arg, place->path, place->export->id);
        }
    }
    export_set_put(set);
}

void vfs_stats(const struct vfs *vfs, struct vfs_stats *stats)
{
    object_stats(vfs, stats);
}

/* ---- references ---- */

/* Known to the table: ours, without computing the MAC. Else it must prove itself. */
static int resolve(struct vfs *vfs, struct vfs_bytes bytes, struct vfs_object **object)
{
    struct vfs_export *export;
    struct vfs_handle handle;
    *object = NULL;
    if (bytes.size < HANDLE_HEAD_BYTES + HANDLE_MAC_BYTES || bytes.size > VFS_HANDLE_BYTES_MAX) {
        return -EBADF;
    }
    bytes.size = handle_unpadded(bytes.data, bytes.size);
    *object = object_find(vfs, bytes.data, bytes.size);
    if (*object != NULL) {
        return 0;
    }
    int err = handle_check(vfs, bytes.data, bytes.size, &export);
    if (err != 0) {
        return err;
    }
    handle.size = bytes.size;
    memcpy(handle.bytes, bytes.data, bytes.size);
    err = object_obtain(export, &handle, object);
    volume_put(export);
    return err;
}

int vfs_get(struct vfs_call *call, struct vfs_bytes handle, struct vfs_node *node)
{
    int err = resolve(call->vfs, handle, &node->object);
    if (err != 0) {
        node->object = NULL;
        return err;
    }
    node->export = node->object->export;
    node->has_attr = false;
    node->has_before = false;
    err = admit(call, node->export);
    if (err != 0) {
        vfs_put(node);
    }
    return err;
}

void vfs_put(struct vfs_node *node)
{
    if (node->object != NULL) {
        object_put(node->object);
        node->object = NULL;
    }
}

void vfs_node_handle(const struct vfs_node *node, struct vfs_handle *handle)
{
    handle->size = node->object->handle_size;
    memcpy(handle->bytes, node->object->handle, handle->size);
}
