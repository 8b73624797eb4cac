/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: empty inodes that the file system knows for ever, made ahead of need, so that a new
 * file's handle is durable before the client sees it (docs/durability.md, Identity).
 *
 * 1. An inode is on a shelf only after the file system was synced since it was made.
 * 2. An inode leaves the shelf before it is touched, and comes back only if it was not placed.
 * 3. What lies in the pool when the server starts, after replay, is no client's, and is removed.
 *
 * A shelf has a target, which doubles when somebody comes in vain or it runs low between two
 * fillings. The keeper fills it when half is gone. It also lets go of exports (intent.c), so that
 * it never fills a pool that is closed meanwhile.
 */
#include "vfs/internal.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static const uint32_t target_min[POOL_KINDS] = {[POOL_FILE] = 256, [POOL_DIR] = 64};
static const uint32_t target_max[POOL_KINDS] = {[POOL_FILE] = 16384, [POOL_DIR] = 4096};
/* Of the inodes that are free the pool takes one part of so many at once. */
#define FREE_PARTS_MIN 8U
/* So many are made before they are synced and put on the shelf. */
#define FILL_COUNT_MAX 2048U
/* How often exports that leave are looked at, while calls still use them. */
#define SWEEP_PAUSE_MS 20

void pool_name(enum pool_kind kind, uint32_t number, char name[POOL_NAME_SPACE])
{
    snprintf(name, POOL_NAME_SPACE, "%c%u", kind == POOL_DIR ? 'd' : 'f', number);
}

static int make_one(const struct vfs_export *export, enum pool_kind kind, struct pool_inode *inode)
{
    char name[POOL_NAME_SPACE];
    int fd = export->hidden.pool_fd;
    pool_name(kind, inode->number, name);
    if (kind == POOL_DIR) {
        if (mkdirat(fd, name, 0) != 0) {
            return -errno;
        }
    } else if (mknodat(fd, name, S_IFREG, 0) != 0) {
        return -errno;
    }
    int err = handle_of(export, fd, name, 0, &inode->handle);
    if (err != 0) {
        unlinkat(fd, name, kind == POOL_DIR ? AT_REMOVEDIR : 0);
    }
    return err;
}

static bool reserve(struct pool_shelf *shelf, uint32_t more)
{
    if (shelf->capacity - shelf->count >= more) {
        return true;
    }
    uint32_t capacity = shelf->count + more;
    struct pool_inode *inodes = realloc(shelf->inodes, capacity * sizeof *inodes);
    if (inodes == NULL) {
        return false;
    }
    shelf->inodes = inodes;
    shelf->capacity = capacity;
    return true;
}

/* Puts durable inodes behind those that are there. */
static bool publish(struct pool *pool, enum pool_kind kind, const struct pool_inode *inodes,
                    uint32_t count)
{
    struct pool_shelf *shelf = &pool->shelves[kind];
    pthread_mutex_lock(&pool->lock);
    bool room = reserve(shelf, count);
    if (room && count > 0) {
        memcpy(&shelf->inodes[shelf->count], inodes, count * sizeof *inodes);
        shelf->count += count;
    }
    pthread_mutex_unlock(&pool->lock);
    return room;
}

/* No more than the file system has to spare; some do not count theirs. */
static uint32_t spare_of(const struct vfs_export *export, uint32_t wanted)
{
    struct statvfs fs;
    if (fstatvfs(export->mount_fd, &fs) != 0 || fs.f_files == 0) {
        return wanted;
    }
    uint64_t spare = fs.f_favail / FREE_PARTS_MIN;
    return wanted < spare ? wanted : (uint32_t)spare;
}

/* Fewer than wanted, also none, when the disk is too full for more. */
static int fill(struct vfs_export *export, enum pool_kind kind, uint32_t wanted)
{
    struct pool *pool = &export->pool;
    struct pool_inode *made = calloc(wanted, sizeof *made);
    uint32_t count = 0;
    int err = made == NULL ? -ENOMEM : 0;
    while (err == 0 && count < wanted) {
        made[count].number = ++pool->number_last;
        err = make_one(export, kind, &made[count]);
        count += err == 0;
    }
    /* What could be made is of use, whatever the next one met. */
    if (count > 0 && syncfs(export->mount_fd) != 0) {
        err = -errno;
    } else if (count > 0 && publish(pool, kind, made, count)) {
        err = 0;
    }
    free(made);
    return err == 0 || err == -ENOSPC || err == -EDQUOT ? (int)count : err;
}

/* How many to make now. Notes what the demand was. */
static uint32_t wanted_of(struct pool *pool, enum pool_kind kind)
{
    struct pool_shelf *shelf = &pool->shelves[kind];
    pthread_mutex_lock(&pool->lock);
    uint32_t wanted = 0;
    if (shelf->count <= shelf->target / 2 || shelf->missed) {
        bool low = shelf->missed || shelf->count < shelf->target / 4;
        if (low && shelf->target < target_max[kind]) {
            shelf->target *= 2;
        }
        wanted = shelf->target - shelf->count;
        shelf->missed = false;
    }
    pthread_mutex_unlock(&pool->lock);
    return wanted < FILL_COUNT_MAX ? wanted : FILL_COUNT_MAX;
}

static void fill_all(struct vfs_export *export)
{
    static struct log_limit limit;
    for (enum pool_kind kind = 0; kind < POOL_KINDS && export->pool.usable; kind++) {
        int made = 0;
        do {
            uint32_t wanted = spare_of(export, wanted_of(&export->pool, kind));
            made = wanted > 0 ? fill(export, kind, wanted) : 0;
        } while (made == (int)FILL_COUNT_MAX);
        if (made < 0) {
            log_write_limited(&limit, LOG_WARNING,
                              "%s: no more empty files can be made ahead (%s): creating is slower",
                              export->path, strerror(-made));
        }
    }
}

/* ---- taking ---- */

void keeper_wake(struct vfs *vfs)
{
    pthread_mutex_lock(&vfs->keeper.lock);
    vfs->keeper.wanted = true;
    pthread_cond_signal(&vfs->keeper.wake);
    pthread_mutex_unlock(&vfs->keeper.lock);
}

bool pool_take(struct vfs_export *export, enum pool_kind kind, struct pool_inode *inode)
{
    struct pool *pool = &export->pool;
    struct pool_shelf *shelf = &pool->shelves[kind];
    if (!pool->usable) {
        return false;
    }
    pthread_mutex_lock(&pool->lock);
    bool found = shelf->count > 0;
    if (found) {
        *inode = shelf->inodes[--shelf->count];
    }
    bool wake = shelf->count == shelf->target / 2 || (!found && !shelf->missed);
    shelf->missed = shelf->missed || !found;
    pthread_mutex_unlock(&pool->lock);
    if (wake) {
        keeper_wake(export->vfs);
    }
    return found;
}

void pool_give_back(struct vfs_export *export, enum pool_kind kind, const struct pool_inode *inode)
{
    bool kept = publish(&export->pool, kind, inode, 1);
    (void)kept; /* without memory it lies in the pool unused until the next start */
}

/* An export that is leaving needs no more. */
static void fill_pools(struct vfs *vfs)
{
    struct vfs_export *export;
    for (uint32_t i = 0; (export = intent_export(vfs, i)) != NULL; i++) {
        fill_all(export);
        volume_put(export);
    }
}

static void wait_for_work(struct keeper *keeper, bool for_ever)
{
    struct timespec until;
    if (for_ever) {
        pthread_cond_wait(&keeper->wake, &keeper->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SWEEP_PAUSE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until);
}

static void *keeper_main(void *arg)
{
    struct vfs *vfs = arg;
    struct keeper *keeper = &vfs->keeper;
    bool sweeps = false; /* some export could not be let go of yet */
    vfs_thread_begin();
    cred_take_root();
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stopping) {
        if (!keeper->wanted) {
            wait_for_work(keeper, !sweeps);
        }
        keeper->wanted = false;
        pthread_mutex_unlock(&keeper->lock);
        sweeps = intent_sweep(vfs);
        fill_pools(vfs);
        pthread_mutex_lock(&keeper->lock);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

int keeper_start(struct vfs *vfs, struct err *err)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&vfs->keeper.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&vfs->keeper.wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = pthread_create(&vfs->keeper.thread, NULL, keeper_main, vfs);
    if (error != 0) {
        return err_set(err, -error, "cannot start a thread: %s", strerror(error));
    }
    vfs->keeper.started = true;
    return 0;
}

void keeper_stop(struct vfs *vfs)
{
    struct keeper *keeper = &vfs->keeper;
    if (!keeper->started) {
        return;
    }
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->wake);
    pthread_mutex_destroy(&keeper->lock);
    keeper->started = false;
}

/* ---- opening ---- */

/* Removes what is in a directory; directories there must be empty to go. */
static void clear(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (name_is_dot(entry->d_name) || name_is_dot_dot(entry->d_name)) {
            continue;
        }
        if (unlinkat(dir_fd, entry->d_name, 0) != 0 &&
            unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR) != 0) {
            log_warning(HIDDEN_NAME ": %s stays: %s", entry->d_name, strerror(errno));
        }
    }
    closedir(dir);
}

/* What the file system gives a new inode besides what we can set: looked at on one of them. */
static bool is_plain(struct vfs_export *export)
{
    const gid_t strange_gid = 64123;
    int pool_fd = export->hidden.pool_fd;
    char value[8];
    struct stat st;
    if (fgetxattr(export->mount_fd, "security.selinux", value, 0) >= 0) {
        return false; /* labels come from the directory, and a rename keeps the old one */
    }
    if (mkdirat(pool_fd, "probe", 0700) != 0) {
        return false;
    }
    bool plain = fchownat(pool_fd, "probe", 0, strange_gid, 0) == 0 &&
                 mknodat(pool_fd, "probe/file", S_IFREG, 0) == 0 &&
                 fstatat(pool_fd, "probe/file", &st, 0) == 0;
    export->pool.bsd_groups = plain && st.st_gid == strange_gid;
    unlinkat(pool_fd, "probe/file", 0);
    unlinkat(pool_fd, "probe", AT_REMOVEDIR);
    return plain;
}

void pool_open(struct vfs_export *export)
{
    struct pool *pool = &export->pool;
    clear(export->hidden.pool_fd);
    pthread_mutex_init(&pool->lock, NULL);
    pool->usable = is_plain(export);
    if (!pool->usable) {
        log_warning("%s: new files cannot be made ahead: creating is slower", export->path);
    }
    for (int kind = 0; kind < POOL_KINDS; kind++) {
        pool->shelves[kind].target = target_min[kind];
    }
    fill_all(export);
}

void pool_count(struct vfs_export *export, uint32_t *files, uint32_t *dirs)
{
    struct pool *pool = &export->pool;
    pthread_mutex_lock(&pool->lock);
    *files += pool->shelves[POOL_FILE].count;
    *dirs += pool->shelves[POOL_DIR].count;
    pthread_mutex_unlock(&pool->lock);
}

void pool_close(struct vfs_export *export, bool empties)
{
    if (empties) {
        clear(export->hidden.pool_fd);
    }
    for (int kind = 0; kind < POOL_KINDS; kind++) {
        struct pool_shelf *shelf = &export->pool.shelves[kind];
        free(shelf->inodes);
        *shelf = (struct pool_shelf){0};
    }
    export->pool.usable = false;
}
