/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object table: what was named lately, with its descriptors.
 *
 * 1. An object is in the table from object_obtain until it is freed. References are counted; the
 *    table itself holds none. A reference is only made from another one or under the shard's lock.
 * 2. Under the shard's lock, and with no reference left, an object is taken out of the table to be
 *    freed; with none but the janitor's it may lose a descriptor. So a descriptor got with
 * object_fd is good as long as the reference is.
 * 3. There are at most fd_count_max descriptors. To open one more, an idle object is evicted, cold
 *    ones first; when all are in use the caller gets -EMFILE and the client comes again.
 * 4. An object that nobody used for a few seconds is freed: a deleted file gives its space back, a
 *    program can be executed after it was written (ETXTBSY), memory is bounded by what is in use.
 * 5. An object with unstable data keeps a descriptor until the kernel has written the data, and the
 *    descriptor is then asked how that went: the kernel tells of a failed writeback only who had
 * the file open, and a failure is a new write verifier.
 * 6. Anything not yet durable is kept by the journal's reference.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_TICKS 3 /* of a second each */
#define DIRTY_TICKS_MAX 60
/* Opening is tried again this often after the whole process ran out of descriptors. */
#define OPEN_TRIES 4
/* So many objects of a shard are looked at before eviction goes on to the next shard. */
#define EVICT_SCAN_MAX 8
#define FD_COUNT_MIN 8U
#define FD_COUNT_MAX 262144U

static struct object_shard *shard_of(struct vfs *vfs, uint64_t hash)
{
    return &vfs->objects.shards[hash / (UINT64_MAX / SHARD_COUNT + 1)];
}

static struct vfs_object **bucket_of(struct object_table *table, struct object_shard *shard,
                                     uint64_t hash)
{
    return &shard->buckets[hash & table->bucket_mask];
}

/* ---- lists; the shard is locked ---- */

static void list_append(struct object_shard *shard, struct vfs_object *object)
{
    object->newer = NULL;
    object->older = shard->newest;
    if (shard->newest != NULL) {
        shard->newest->newer = object;
    } else {
        shard->oldest = object;
    }
    shard->newest = object;
}

static void list_remove(struct object_shard *shard, struct vfs_object *object)
{
    if (object->older != NULL) {
        object->older->newer = object->newer;
    } else {
        shard->oldest = object->newer;
    }
    if (object->newer != NULL) {
        object->newer->older = object->older;
    } else {
        shard->newest = object->older;
    }
}

static void table_remove(struct object_table *table, struct object_shard *shard,
                         struct vfs_object *object)
{
    struct vfs_object **at = bucket_of(table, shard, object->hash);
    while (*at != object) {
        at = &(*at)->bucket_next;
    }
    *at = object->bucket_next;
    list_remove(shard, object);
    atomic_fetch_sub(&table->object_count, 1);
}

/* ---- unstable data ---- */

/* Whether pages of the file wait to be written, or are being written. Without cachestat(2): until
 * the kernel must have done it. */
static bool has_dirty_pages(int fd, unsigned idle_ticks)
{
    struct cache_range all = {0};
    struct cache_state state;
    if (syscall(SYS_cachestat, fd, &all, &state, 0) == 0) {
        return state.dirty + state.writeback > 0;
    }
    return idle_ticks < DIRTY_TICKS_MAX;
}

/* Waits for writeback under way, and for what flags add; a failure since the descriptor was opened
 * is a new verifier. Commits no metadata: nobody was promised anything. */
static void check_writeback(struct vfs *vfs, int fd, unsigned flags)
{
    if (sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | flags) != 0 && errno != ESPIPE) {
        vfs_lost(vfs);
    }
}

/* ---- the end of an object; not locked, out of the table, nobody refers to it ---- */

static void object_free(struct vfs *vfs, struct vfs_object *object)
{
    for (int kind = 0; kind < OBJECT_FD_KINDS; kind++) {
        int fd = atomic_load(&object->fds[kind]);
        if (fd >= 0) {
            object_close_fd(vfs, fd);
        }
    }
    volume_put(object->export);
    free(object);
}

/* ---- descriptors ---- */

void object_close_fd(struct vfs *vfs, int fd)
{
    close(fd);
    atomic_fetch_sub(&vfs->objects.fd_count, 1);
}

bool object_has_fd(const struct vfs_object *object)
{
    for (int kind = 0; kind < OBJECT_FD_KINDS; kind++) {
        if (atomic_load(&object->fds[kind]) >= 0) {
            return true;
        }
    }
    return false;
}

/* The descriptor there is, or -1. */
static int open_fd(struct vfs_object *object, enum object_fd_kind kind)
{
    int fd = atomic_load_explicit(&object->fds[kind], memory_order_acquire);
    if (fd >= 0 || kind == OBJECT_WRITE) {
        return fd;
    }
    fd = atomic_load_explicit(&object->fds[OBJECT_WRITE], memory_order_acquire);
    if (fd < 0 && kind == OBJECT_PATH) {
        fd = atomic_load_explicit(&object->fds[OBJECT_READ], memory_order_acquire);
    }
    return fd;
}

/* An idle object of the shard, taken out of the table. One that was used since it was last looked
 * at gets another turn (the clock algorithm), and so do dirty ones at first. */
static struct vfs_object *take_idle(struct object_table *table, struct object_shard *shard,
                                    bool also_warm)
{
    struct vfs_object *object = shard->oldest;
    for (int i = 0; i < EVICT_SCAN_MAX && object != NULL; i++) {
        struct vfs_object *newer = object->newer;
        bool warm = atomic_exchange(&object->recent, false) || atomic_load(&object->dirty);
        if (atomic_load(&object->ref_count) == 0 && (also_warm || !warm)) {
            table_remove(table, shard, object);
            return object;
        }
        list_remove(shard, object);
        list_append(shard, object);
        object = newer;
    }
    return NULL;
}

bool object_fds_abound(const struct vfs *vfs)
{
    const struct object_table *table = &vfs->objects;
    return atomic_load_explicit(&table->fd_count, memory_order_relaxed) <
           atomic_load_explicit(&table->fd_count_max, memory_order_relaxed) / 2;
}

static void evict_object(struct vfs *vfs, struct vfs_object *victim)
{
    int fd = open_fd(victim, OBJECT_READ);
    if (atomic_load(&victim->dirty) && !atomic_load(&victim->stale) && fd >= 0) {
        check_writeback(vfs, fd, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    object_free(vfs, victim);
}

/* Frees an idle object that has a descriptor, and those without one that it meets. False: all
 * descriptors are in use. */
static bool evict(struct vfs *vfs)
{
    struct object_table *table = &vfs->objects;
    for (unsigned misses = 0; misses < 2 * SHARD_COUNT;) {
        struct object_shard *shard =
            &table->shards[atomic_fetch_add(&table->hand, 1) % SHARD_COUNT];
        pthread_mutex_lock(&shard->lock);
        struct vfs_object *victim = take_idle(table, shard, misses >= SHARD_COUNT);
        pthread_mutex_unlock(&shard->lock);
        if (victim == NULL) {
            misses++;
            continue;
        }
        bool gives_fd = object_has_fd(victim);
        evict_object(vfs, victim);
        if (gives_fd) {
            return true;
        }
    }
    return false;
}

/* A third of what the process may have, now: prlimit(1) can change that at any time. */
static void set_fd_count_max(struct vfs *vfs)
{
    struct rlimit limit;
    uint32_t wanted = vfs->options.fd_count_max;
    if (wanted == 0) {
        bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        rlim_t third = known ? limit.rlim_cur / 3 : FD_COUNT_MAX;
        wanted = third > FD_COUNT_MAX ? FD_COUNT_MAX : (uint32_t)third;
    }
    atomic_store(&vfs->objects.fd_count_max, wanted < FD_COUNT_MIN ? FD_COUNT_MIN : wanted);
}

static int reserve_fd(struct vfs *vfs)
{
    struct object_table *table = &vfs->objects;
    while (atomic_fetch_add(&table->fd_count, 1) >= atomic_load(&table->fd_count_max)) {
        atomic_fetch_sub(&table->fd_count, 1);
        if (!evict(vfs)) {
            return -EMFILE;
        }
    }
    return 0;
}

/* Whether an open that failed with this error should be tried again. */
static bool made_room(struct vfs *vfs, int error, int tries)
{
    struct object_table *table = &vfs->objects;
    if ((error != EMFILE && error != ENFILE) || tries >= OPEN_TRIES) {
        return false;
    }
    set_fd_count_max(vfs);
    bool made = evict(vfs);
    while (made && atomic_load(&table->fd_count) > atomic_load(&table->fd_count_max)) {
        made = evict(vfs);
    }
    return made;
}

int object_open_name(struct vfs *vfs, int dir_fd, const char *name, int flags, mode_t mode)
{
    int err = reserve_fd(vfs);
    if (err != 0) {
        return err;
    }
    for (int tries = 1;; tries++) {
        int fd = openat(dir_fd, name, flags | O_CLOEXEC, mode);
        if (fd >= 0) {
            return fd;
        }
        int error = errno;
        if (!made_room(vfs, error, tries)) {
            atomic_fetch_sub(&vfs->objects.fd_count, 1);
            return error == ENFILE ? -EMFILE : -error;
        }
    }
}

static int open_by_handle(struct vfs_object *object, int flags)
{
    struct vfs *vfs = object->export->vfs;
    union handle_kernel kernel;
    handle_kernel_part(object->handle, &kernel);
    int err = reserve_fd(vfs);
    if (err != 0) {
        return err;
    }
    cred_take_root();
    for (int tries = 1;; tries++) {
        int fd = object->export->ways != NULL
                     ? ways_open(object, flags | O_CLOEXEC)
                     : open_by_handle_at(object->export->mount_fd, &kernel.head, flags | O_CLOEXEC);
        if (fd >= 0) {
            return fd;
        }
        int error = object->export->ways != NULL ? -fd : errno;
        if (!made_room(vfs, error, tries)) {
            atomic_fetch_sub(&vfs->objects.fd_count, 1);
            if (error == ESTALE) {
                object_set_stale(object);
            }
            return error == ENFILE ? -EMFILE : -error;
        }
    }
}

/* Gives fd to the object, or, when another thread was first, closes it. Returns what it has. */
static int install_fd(struct vfs_object *object, enum object_fd_kind kind, int fd)
{
    int none = -1;
    if (atomic_compare_exchange_strong(&object->fds[kind], &none, fd)) {
        return fd;
    }
    object_close_fd(object->export->vfs, fd);
    return none;
}

static bool is_gone(struct vfs_object *object)
{
    struct stat st;
    int fd;
    int err = object_fd(object, OBJECT_PATH, &fd);
    return err == -ESTALE || (err == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0);
}

/* Opening anything but files and directories has effects: a device acts, a FIFO waits. */
static int check_type(struct vfs_object *object, enum object_fd_kind kind)
{
    uint8_t type = atomic_load(&object->type);
    if (type == VFS_NONE) {
        int fd;
        struct stat st;
        struct vfs_attr attr;
        int err = object_fd(object, OBJECT_PATH, &fd);
        if (err != 0) {
            return err;
        }
        if (fstat(fd, &st) != 0) {
            return -errno;
        }
        attr_fill(object->export, &st, &attr);
        atomic_store(&object->type, (uint8_t)attr.type);
        type = (uint8_t)attr.type;
    }
    if (type == VFS_REG || (type == VFS_DIR && kind == OBJECT_READ)) {
        return 0;
    }
    return is_gone(object) ? -ESTALE : type == VFS_DIR ? -EISDIR : -EINVAL;
}

int object_open(struct vfs_object *object, enum object_fd_kind kind)
{
    static const int flags[OBJECT_FD_KINDS] = {
        [OBJECT_PATH] = O_PATH | O_NOFOLLOW,
        [OBJECT_READ] = O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
        [OBJECT_WRITE] = O_RDWR | O_NOFOLLOW | O_NONBLOCK,
    };
    int err = kind != OBJECT_PATH ? check_type(object, kind) : 0;
    return err != 0 ? err : open_by_handle(object, flags[kind]);
}

int object_fd(struct vfs_object *object, enum object_fd_kind kind, int *fd)
{
    *fd = open_fd(object, kind);
    if (LIKELY(*fd >= 0)) {
        return 0;
    }
    int opened = object_open(object, kind);
    if (opened < 0) {
        return opened;
    }
    *fd = install_fd(object, kind, opened);
    return 0;
}

/* ---- references ---- */

static void touch(struct vfs *vfs, struct vfs_object *object)
{
    unsigned tick = atomic_load_explicit(&vfs->objects.tick, memory_order_relaxed);
    if (atomic_load_explicit(&object->used_tick, memory_order_relaxed) != tick) {
        atomic_store_explicit(&object->used_tick, tick, memory_order_relaxed);
    }
    if (!atomic_load_explicit(&object->recent, memory_order_relaxed)) {
        atomic_store_explicit(&object->recent, true, memory_order_relaxed);
    }
}

static struct vfs_object *find_locked(struct vfs *vfs, struct object_shard *shard, uint64_t hash,
                                      const uint8_t *handle, uint32_t size_bytes)
{
    struct vfs_object *object = *bucket_of(&vfs->objects, shard, hash);
    while (object != NULL && (object->hash != hash || object->handle_size != size_bytes ||
                              memcmp(object->handle, handle, size_bytes) != 0)) {
        object = object->bucket_next;
    }
    if (object != NULL) {
        atomic_fetch_add_explicit(&object->ref_count, 1, memory_order_relaxed);
        touch(vfs, object);
    }
    return object;
}

struct vfs_object *object_find(struct vfs *vfs, const uint8_t *handle, uint32_t size_bytes)
{
    uint64_t hash = handle_hash(handle, size_bytes);
    struct object_shard *shard = shard_of(vfs, hash);
    pthread_mutex_lock(&shard->lock);
    struct vfs_object *object = find_locked(vfs, shard, hash, handle, size_bytes);
    pthread_mutex_unlock(&shard->lock);
    return object;
}

static struct vfs_object *object_new(struct vfs_export *export, const struct vfs_handle *handle)
{
    struct vfs_object *object = calloc(1, sizeof *object + handle->size);
    if (object == NULL) {
        return NULL;
    }
    object->export = volume_get(export);
    object->hash = handle_hash(handle->bytes, handle->size);
    atomic_init(&object->ref_count, 1);
    object->lock_index = lock_index_of(export->vfs, export, handle);
    for (int kind = 0; kind < OBJECT_FD_KINDS; kind++) {
        atomic_init(&object->fds[kind], -1);
    }
    object->dir_position = -1;
    atomic_flag_clear(&object->seen.busy);
    object->handle_size = (uint8_t)handle->size;
    memcpy(object->handle, handle->bytes, handle->size);
    touch(export->vfs, object);
    return object;
}

static void wake_janitor(struct object_table *table)
{
    pthread_mutex_lock(&table->janitor_lock);
    pthread_cond_signal(&table->janitor_wake);
    pthread_mutex_unlock(&table->janitor_lock);
}

int object_obtain(struct vfs_export *export, const struct vfs_handle *handle,
                  struct vfs_object **result)
{
    struct vfs *vfs = export->vfs;
    struct object_table *table = &vfs->objects;
    *result = object_find(vfs, handle->bytes, handle->size);
    if (*result != NULL) {
        return 0;
    }
    struct vfs_object *fresh = object_new(export, handle);
    if (fresh == NULL) {
        return -ENOMEM;
    }
    struct object_shard *shard = shard_of(vfs, fresh->hash);
    pthread_mutex_lock(&shard->lock);
    *result = find_locked(vfs, shard, fresh->hash, handle->bytes, handle->size);
    bool first = false;
    if (*result == NULL) {
        struct vfs_object **bucket = bucket_of(table, shard, fresh->hash);
        fresh->bucket_next = *bucket;
        *bucket = fresh;
        list_append(shard, fresh);
        first = atomic_fetch_add(&table->object_count, 1) == 0;
        *result = fresh;
        fresh = NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    if (fresh != NULL) {
        object_free(vfs, fresh);
    }
    if (first) {
        wake_janitor(table);
    }
    return 0;
}

int object_adopt(struct vfs_export *export, const struct vfs_handle *handle,
                 enum object_fd_kind kind, int fd, struct vfs_object **object)
{
    int err = object_obtain(export, handle, object);
    if (err != 0) {
        object_close_fd(export->vfs, fd);
        return err;
    }
    install_fd(*object, kind, fd);
    return 0;
}

void object_ref(struct vfs_object *object)
{
    atomic_fetch_add_explicit(&object->ref_count, 1, memory_order_relaxed);
}

/* Attributes and rights of an object without descriptors are worth keeping for a few seconds, but
 * there must be a limit: as many objects as there may be descriptors. */
static bool is_worth_keeping(const struct vfs_object *object)
{
    const struct object_table *table = &object->export->vfs->objects;
    return object_has_fd(object) ||
           atomic_load_explicit(&table->object_count, memory_order_relaxed) <
               atomic_load_explicit(&table->fd_count_max, memory_order_relaxed);
}

/* The last reference to a stale object, or to one that is not worth keeping, is its end. */
static void put_last(struct vfs_object *object)
{
    struct vfs *vfs = object->export->vfs;
    struct object_shard *shard = shard_of(vfs, object->hash);
    pthread_mutex_lock(&shard->lock);
    bool last = atomic_fetch_sub(&object->ref_count, 1) == 1;
    if (last) {
        table_remove(&vfs->objects, shard, object);
    }
    pthread_mutex_unlock(&shard->lock);
    if (last) {
        object_free(vfs, object);
    }
}

void object_put(struct vfs_object *object)
{
    /* Looked at while the reference still holds the object. One that becomes stale a moment later,
     * and loses its other reference a moment before, is left to the janitor. */
    if (UNLIKELY(atomic_load_explicit(&object->stale, memory_order_relaxed) ||
                 !is_worth_keeping(object))) {
        put_last(object);
        return;
    }
    atomic_fetch_sub_explicit(&object->ref_count, 1, memory_order_release);
}

/* One idle object of the export taken out of the shard, NULL when there is none; those in use are
 * marked. */
static struct vfs_object *take_of(struct object_table *table, struct object_shard *shard,
                                  const struct vfs_export *export)
{
    for (struct vfs_object *object = shard->oldest; object != NULL; object = object->newer) {
        if (object->export != export) {
            continue;
        }
        if (atomic_load(&object->ref_count) == 0) {
            table_remove(table, shard, object);
            return object;
        }
        object_set_stale(object);
    }
    return NULL;
}

void object_purge(struct vfs_export *export)
{
    struct vfs *vfs = export->vfs;
    for (unsigned i = 0; i < SHARD_COUNT; i++) {
        struct object_shard *shard = &vfs->objects.shards[i];
        struct vfs_object *object;
        do {
            pthread_mutex_lock(&shard->lock);
            object = take_of(&vfs->objects, shard, export);
            pthread_mutex_unlock(&shard->lock);
            if (object != NULL) {
                evict_object(vfs, object);
            }
        } while (object != NULL);
    }
}

void object_release(void *object)
{
    object_put(object);
}

void object_set_stale(struct vfs_object *object)
{
    atomic_store(&object->stale, true);
}

bool object_is_root_of(const struct vfs_object *object, const struct vfs_export *export)
{
    uint32_t size = export->root.bytes[2];
    return export->dev == object->export->dev && object->handle[1] == export->root.bytes[1] &&
           object->handle[2] == size &&
           memcmp(object->handle + HANDLE_HEAD_BYTES, export->root.bytes + HANDLE_HEAD_BYTES,
                  size) == 0;
}

/* ---- the janitor ---- */

/* Gives the write descriptor up for one to read with, which also hears of failures: a program that
 * was written can be executed then. Nobody else must refer to the object. */
static void downgrade(struct vfs *vfs, struct vfs_object *object)
{
    struct object_shard *shard = shard_of(vfs, object->hash);
    int write_fd = -1;
    if (atomic_load(&object->fds[OBJECT_READ]) < 0) {
        int fd = open_by_handle(object, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) {
            return;
        }
        install_fd(object, OBJECT_READ, fd);
    }
    pthread_mutex_lock(&shard->lock);
    if (atomic_load(&object->ref_count) == 1) {
        write_fd = atomic_exchange(&object->fds[OBJECT_WRITE], -1);
    }
    pthread_mutex_unlock(&shard->lock);
    if (write_fd >= 0) {
        check_writeback(vfs, write_fd, 0);
        object_close_fd(vfs, write_fd);
    }
}

/* An idle object whose data is not yet on the disk. The caller has a reference. */
static void watch(struct vfs *vfs, struct vfs_object *object, unsigned idle_ticks)
{
    struct stat st;
    int fd = open_fd(object, OBJECT_READ);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_nlink == 0) {
        object_set_stale(object);
    } else if (has_dirty_pages(fd, idle_ticks)) {
        downgrade(vfs, object);
    } else {
        atomic_store(&object->dirty, false);
        check_writeback(vfs, fd, 0);
    }
}

/* Takes idle objects out of the shard: to be freed, or with a reference to be watched. Linked by
 * bucket_next and by watch_next. */
static void collect(struct vfs *vfs, struct object_shard *shard, struct vfs_object **doomed,
                    struct vfs_object **watched)
{
    unsigned tick = atomic_load(&vfs->objects.tick);
    pthread_mutex_lock(&shard->lock);
    for (struct vfs_object *object = shard->oldest; object != NULL;) {
        struct vfs_object *newer = object->newer;
        bool stale = atomic_load(&object->stale);
        bool cold = tick - atomic_load(&object->used_tick) >= IDLE_TICKS || stale;
        if (!cold || atomic_load_explicit(&object->ref_count, memory_order_acquire) != 0) {
            object = newer;
            continue;
        }
        if (atomic_load(&object->dirty) && !stale) {
            atomic_store(&object->ref_count, 1);
            object->watch_next = *watched;
            *watched = object;
        } else {
            table_remove(&vfs->objects, shard, object);
            object->bucket_next = *doomed;
            *doomed = object;
        }
        object = newer;
    }
    pthread_mutex_unlock(&shard->lock);
}

static void sweep(struct vfs *vfs, struct object_shard *shard)
{
    struct vfs_object *doomed = NULL;
    struct vfs_object *watched = NULL;
    collect(vfs, shard, &doomed, &watched);
    while (doomed != NULL) {
        struct vfs_object *next = doomed->bucket_next;
        object_free(vfs, doomed);
        doomed = next;
    }
    while (watched != NULL) {
        struct vfs_object *next = watched->watch_next;
        unsigned tick = atomic_load(&vfs->objects.tick);
        watch(vfs, watched, tick - atomic_load(&watched->used_tick));
        object_put(watched);
        watched = next;
    }
}

static void *janitor_main(void *arg)
{
    struct vfs *vfs = arg;
    struct object_table *table = &vfs->objects;
    pthread_mutex_lock(&table->janitor_lock);
    while (!table->janitor_stopping) {
        if (atomic_load(&table->object_count) == 0) {
            pthread_cond_wait(&table->janitor_wake, &table->janitor_lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        while (!table->janitor_stopping &&
               pthread_cond_timedwait(&table->janitor_wake, &table->janitor_lock, &until) == 0) {
        }
        pthread_mutex_unlock(&table->janitor_lock);
        atomic_fetch_add(&table->tick, 1);
        set_fd_count_max(vfs);
        for (unsigned i = 0; i < SHARD_COUNT; i++) {
            sweep(vfs, &table->shards[i]);
        }
        pthread_mutex_lock(&table->janitor_lock);
    }
    pthread_mutex_unlock(&table->janitor_lock);
    return NULL;
}

/* ---- open and close ---- */

int object_table_open(struct vfs *vfs, struct err *err)
{
    struct object_table *table = &vfs->objects;
    pthread_condattr_t monotonic;
    set_fd_count_max(vfs);
    uint64_t buckets = 16;
    while (buckets * SHARD_COUNT < atomic_load(&table->fd_count_max)) {
        buckets *= 2;
    }
    table->bucket_mask = buckets - 1;
    for (unsigned i = 0; i < SHARD_COUNT; i++) {
        table->shards[i].buckets = calloc(buckets, sizeof *table->shards[i].buckets);
        if (table->shards[i].buckets == NULL) {
            object_table_close(vfs);
            return err_set(err, -ENOMEM, "no memory for the table of objects");
        }
        pthread_mutex_init(&table->shards[i].lock, NULL);
    }
    atomic_store(&table->tick, IDLE_TICKS);
    pthread_mutex_init(&table->janitor_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&table->janitor_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = pthread_create(&table->janitor, NULL, janitor_main, vfs);
    if (error != 0) {
        object_table_close(vfs);
        return err_set(err, -error, "cannot start a thread: %s", strerror(error));
    }
    return 0;
}

/* Unstable data needs no look: the next start has another verifier. */
static void free_all(struct vfs *vfs, struct object_shard *shard)
{
    while (shard->oldest != NULL) {
        struct vfs_object *object = shard->oldest;
        table_remove(&vfs->objects, shard, object);
        object_free(vfs, object);
    }
}

void object_table_close(struct vfs *vfs)
{
    struct object_table *table = &vfs->objects;
    if (table->janitor != 0) {
        pthread_mutex_lock(&table->janitor_lock);
        table->janitor_stopping = true;
        pthread_cond_signal(&table->janitor_wake);
        pthread_mutex_unlock(&table->janitor_lock);
        pthread_join(table->janitor, NULL);
        table->janitor = 0;
        pthread_cond_destroy(&table->janitor_wake);
        pthread_mutex_destroy(&table->janitor_lock);
    }
    for (unsigned i = 0; i < SHARD_COUNT; i++) {
        if (table->shards[i].buckets != NULL) {
            free_all(vfs, &table->shards[i]);
            free(table->shards[i].buckets);
            table->shards[i].buckets = NULL;
            pthread_mutex_destroy(&table->shards[i].lock);
        }
    }
}

void object_stats(const struct vfs *vfs, struct vfs_stats *stats)
{
    stats->objects = atomic_load(&vfs->objects.object_count);
    stats->fds = atomic_load(&vfs->objects.fd_count);
    stats->fd_count_max = atomic_load(&vfs->objects.fd_count_max);
    stats->object_bytes = sizeof(struct vfs_object) + HANDLE_HEAD_BYTES + HANDLE_MAC_BYTES + 8;
}
