/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole: exports opened, handles turned into nodes, each call checked against the export's
 * clients and given its identity. The contract is node.h.
 */
#include "vfs/internal.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
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

static void on_durable(void *arg, uint64_t lsn, int error)
{
    struct vfs *vfs = arg;
    if (vfs->options.durable != NULL) {
        vfs->options.durable(vfs->options.arg, lsn, error);
    }
}

static int on_sync(void *arg, int fd, enum journal_how how)
{
    struct vfs *vfs = arg;
    return vfs->options.sync(vfs->options.arg, fd, (int)how);
}

static int open_exports(struct vfs *vfs, struct err *err)
{
    const struct export_table *table = vfs->options.table;
    vfs->exports = calloc(table->entry_count + 1, sizeof *vfs->exports);
    if (vfs->exports == NULL) {
        return err_set(err, -ENOMEM, "no memory for %u exports", table->entry_count);
    }
    for (uint32_t i = 0; i < table->entry_count; i++) {
        struct vfs_export *export = &vfs->exports[i];
        int error = volume_open(vfs, &table->entries[i], export, err);
        if (error != 0) {
            return error;
        }
        vfs->export_count++;
        for (uint32_t j = 0; j < i; j++) {
            if (vfs->exports[j].id == export->id) {
                return err_set(
                    err, -EEXIST,
                    "%s and %s look the same to clients: give them different fsid= values",
                    vfs->exports[j].entry->path, export->entry->path);
            }
        }
    }
    return 0;
}

static int open_journal(struct vfs *vfs, struct err *err)
{
    struct journal_options options = {
        .durable = on_durable,
        .lost = vfs_lost,
        .sync = vfs->options.sync != NULL ? on_sync : NULL,
        .arg = vfs,
    };
    return journal_open(&options, &vfs->journal, err);
}

int vfs_open(const struct vfs_options *options, struct vfs **result, struct err *err)
{
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
    cred_take_root();
    int error = cred_check_process(err);
    if (error == 0 && access("/proc/self/fd", X_OK) != 0) {
        error = err_set(err, -errno, "/proc is not mounted: hard links to open files need it");
    }
    if (error == 0) {
        error = state_open(options->state_dir, &vfs->state, err);
    }
    if (error == 0) {
        error = begin_writeverf(vfs, err);
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
        error = open_journal(vfs, err);
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
    /* These first: the journal's items and locks refer to objects. */
    journal_close(vfs->journal);
    range_locks_close(vfs);
    object_table_close(vfs);
    names_close(vfs);
    for (uint32_t i = 0; i < vfs->export_count; i++) {
        volume_close(&vfs->exports[i]);
    }
    for (unsigned i = 0; i < LOCK_COUNT; i++) {
        pthread_mutex_destroy(&vfs->locks[i]);
    }
    for (unsigned i = 0; i < DIR_LOCK_COUNT; i++) {
        pthread_mutex_destroy(&vfs->dir_locks[i]);
    }
    free(vfs->exports);
    free(vfs);
}

const struct export_table *vfs_export_table(const struct vfs *vfs)
{
    return vfs->options.table;
}

void vfs_stats(const struct vfs *vfs, struct vfs_stats *stats)
{
    object_stats(vfs, stats);
}

/* ---- who calls ---- */

#define PEER_BYTES_MAX sizeof(struct sockaddr_in6)

/* The last answer of export_entry_match on this thread: most calls come from the same client. */
struct last_match {
    uint64_t serial;
    const struct vfs_export *export;
    const struct export_options *options;
    size_t peer_bytes;
    uint8_t peer[PEER_BYTES_MAX];
};

static size_t peer_size(const struct sockaddr *peer)
{
    return peer->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                         : 0;
}

static const struct export_options *match(const struct vfs *vfs, const struct vfs_export *export,
                                          const struct sockaddr *peer)
{
    static _Thread_local struct last_match last;
    size_t size = peer_size(peer);
    if (size > 0 && last.serial == vfs->serial && last.export == export &&
        last.peer_bytes == size && memcmp(last.peer, peer, size) == 0) {
        return last.options;
    }
    last.options = export_entry_match(export->entry, peer);
    last.serial = vfs->serial;
    last.export = export;
    last.peer_bytes = size;
    memcpy(last.peer, peer, size);
    return last.options;
}

static bool port_is_secure(const struct sockaddr *peer)
{
    in_port_t port = 0;
    if (peer->sa_family == AF_INET) {
        port = ((const struct sockaddr_in *)(const void *)peer)->sin_port;
    } else if (peer->sa_family == AF_INET6) {
        port = ((const struct sockaddr_in6 *)(const void *)peer)->sin6_port;
    }
    return ntohs(port) < IPPORT_RESERVED;
}

static int admit(struct vfs_call *call, const struct vfs_export *export)
{
    const struct export_options *options = match(call->vfs, export, call->peer);
    if (options == NULL) {
        return -EACCES;
    }
    if (options->secure && !port_is_secure(call->peer)) {
        return -EPERM;
    }
    call->options = options;
    cred_squash(call);
    return 0;
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
    return object_obtain(export, &handle, object);
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

/* A path without what does not matter in it. */
static int path_copy(struct vfs_bytes path, char text[PATH_MAX])
{
    if (path.size == 0 || path.data[0] != '/' || memchr(path.data, 0, path.size) != NULL) {
        return -EACCES;
    }
    if (path.size >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(text, path.data, path.size);
    text[path.size] = 0;
    export_path_tidy(text);
    return 0;
}

/* The export a path is in, and the rest of the path below it. */
static struct vfs_export *find_export(const struct vfs *vfs, const char *path, const char **rest)
{
    const struct export_entry *entry = export_table_find(vfs->options.table, path);
    for (uint32_t i = 0; i < vfs->export_count; i++) {
        if (vfs->exports[i].entry == entry) {
            *rest = path + strlen(entry->path);
            *rest += strspn(*rest, "/");
            return &vfs->exports[i];
        }
    }
    return NULL;
}

/* A directory below the export's root, as root: MNT is answered before users are known. */
static int walk(struct vfs_export *export, const char *path, struct vfs_object **object)
{
    struct vfs_handle handle;
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    cred_take_root();
    int fd = (int)syscall(SYS_openat2, export->tree_fd, path, &how, sizeof how);
    if (fd < 0) {
        return errno == EXDEV ? -EACCES : errno == ELOOP ? -ENOTDIR : -errno;
    }
    int err = handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
    close(fd);
    if (err != 0) {
        return err;
    }
    return object_obtain(export, &handle, object);
}

int vfs_root(struct vfs_call *call, struct vfs_bytes path, struct vfs_node *node)
{
    char text[PATH_MAX];
    const char *rest = NULL;
    int err = path_copy(path, text);
    if (err != 0) {
        return err;
    }
    struct vfs_export *export = find_export(call->vfs, text, &rest);
    if (export == NULL) {
        return -ENOENT;
    }
    err = admit(call, export);
    if (err == 0) {
        err = rest[0] == 0 ? object_obtain(export, &export->root, &node->object)
                           : walk(export, rest, &node->object);
    }
    if (err != 0) {
        node->object = NULL;
        return err;
    }
    node->export = export;
    return attr_of_node(call, node);
}
