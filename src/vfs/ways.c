/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to objects, for a server that may not open them by their handles: that of a plain user, who
 * has no CAP_DAC_READ_SEARCH (open_by_handle_at(2)). A handle still is what the kernel says of the
 * object, inode number and generation, and so names it for ever; only the way there is remembered.
 *
 * 1. A way is a parent and a name. Every handle that goes to a client has one (ways_note), or is
 *    known to have none (ways_note_loose).
 * 2. A way is a hint. What a path leads to is opened beneath the export, over no symbolic link and
 *    no mount, and is what was asked for only if the kernel gives it the same handle.
 * 3. A way that leads elsewhere is mended: the first directory on it that is where it should be is
 *    searched for the next step. If that does not help, or there is no way (a server that has just
 *    started has none), the export is walked, once for all who wait, and every way is renewed.
 * 4. An object is gone when a whole walk that began after it was last known to be there has not met
 *    it. That answer is good for a while: walks take a part of the time and no more
 *    (wait_for_turn). Who comes when the next one may not begin yet is told to come again.
 * 5. Directories that cannot be read are closed to the walk: what is known to lie below them stays
 *    known. The walk begins anew when a directory slipped away under it.
 * 6. There are WAYS_BYTES_MAX of ways in an export. Those that nobody used lately make room, none
 *    before those that lead on from it. A handle without a way costs a walk.
 *
 * Two locks: walk_lock is held by who walks; lock is a leaf.
 */
#include "vfs/internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAYS_BYTES_MAX (128U * 1024 * 1024)
#define BUCKET_COUNT (1U << 17)
#define DEPTH_MAX 65536U
#define EVICTIONS_MAX 64 /* at a time */
#define ALLOCATION_BYTES 32U /* what two allocations cost besides what they hold, about */
#define OPEN_TRIES_MAX 4
#define WALK_TRIES_MAX 3
#define DIRENTS_BYTES (32U * 1024)

/* What a walk has not met stays gone for so many times the walk's time, and at least */
#define GOOD_FACTOR 20
#define GOOD_NS_MIN INT64_C(1000000000)
/* There is so much time between walks; who would have to wait longer than this comes again. */
#define REST_FACTOR 4
#define TURN_NS_MAX INT64_C(200000000)

struct way {
    struct way *bucket_next;
    struct way *older, *newer;
    struct way *parent; /* NULL: not known */
    char *name;         /* in it; NULL: the same */
    uint32_t child_count;
    uint32_t pin_count; /* of threads that are about to use it */
    uint32_t walk;      /* the last that had begun when it was known to be there */
    uint32_t closed;    /* the last walk that could not read this directory */
    bool recent;
    uint8_t handle_size;
    uint8_t handle[];
};

struct ways {
    pthread_mutex_t walk_lock;
    int64_t rest_until_ns; /* no walk before; under walk_lock */
    pthread_mutex_t lock;  /* what follows */
    struct way **buckets;
    struct way *oldest, *newest;
    struct way *root;
    uint64_t bytes;
    uint32_t walk_begun;   /* number of the last one; 0: none */
    uint32_t walk_done;    /* of the last whole one, which */
    int64_t good_until_ns; /* counts so long */
    uint32_t walk_evicted;          /* the last that had begun when a way made room */
};

/* A way, copied: steps from the export's root on. */
struct step {
    char name[NAME_SPACE];
    struct vfs_handle handle;
};

struct path {
    uint32_t count;
    struct step *steps;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- the table; locked ---- */

static struct way **bucket_of(const struct ways *ways, const uint8_t *handle, uint32_t size)
{
    return &ways->buckets[handle_hash(handle, size) % BUCKET_COUNT];
}

static bool is_of(const struct way *way, const uint8_t *handle, uint32_t size)
{
    return way->handle_size == size && memcmp(way->handle, handle, size) == 0;
}

static struct way *find(const struct ways *ways, const uint8_t *handle, uint32_t size)
{
    struct way *way = *bucket_of(ways, handle, size);
    while (way != NULL && !is_of(way, handle, size)) {
        way = way->bucket_next;
    }
    if (way != NULL) {
        way->recent = true;
    }
    return way;
}

static void list_append(struct ways *ways, struct way *way)
{
    way->newer = NULL;
    way->older = ways->newest;
    *(ways->newest != NULL ? &ways->newest->newer : &ways->oldest) = way;
    ways->newest = way;
}

static void list_remove(struct ways *ways, struct way *way)
{
    *(way->older != NULL ? &way->older->newer : &ways->oldest) = way->newer;
    *(way->newer != NULL ? &way->newer->older : &ways->newest) = way->older;
}

static uint64_t bytes_of(const struct way *way)
{
    return sizeof *way + way->handle_size + ALLOCATION_BYTES +
           (way->name != NULL ? strlen(way->name) + 1 : 0);
}

static void detach(struct ways *ways, struct way *way)
{
    ways->bytes -= bytes_of(way);
    if (way->parent != NULL) {
        way->parent->child_count--;
    }
    free(way->name);
    way->name = NULL;
    way->parent = NULL;
    ways->bytes += bytes_of(way);
}

/* Nothing leads on from it, and nobody has it in hand. */
static bool is_idle(const struct ways *ways, const struct way *way)
{
    return way != ways->root && way->child_count == 0 && way->pin_count == 0;
}

static void drop(struct ways *ways, struct way *way)
{
    struct way **at = bucket_of(ways, way->handle, way->handle_size);
    while (*at != way) {
        at = &(*at)->bucket_next;
    }
    *at = way->bucket_next;
    list_remove(ways, way);
    detach(ways, way);
    ways->bytes -= bytes_of(way);
    free(way);
}

/* The clock algorithm, as for objects. */
static void make_room(struct ways *ways)
{
    for (int i = 0; i < EVICTIONS_MAX && ways->bytes > WAYS_BYTES_MAX; i++) {
        struct way *way = ways->oldest;
        if (is_idle(ways, way) && !way->recent) {
            drop(ways, way);
            ways->walk_evicted = ways->walk_begun;
        } else {
            way->recent = false;
            list_remove(ways, way);
            list_append(ways, way);
        }
    }
}

/* The one there is, or a new one that leads nowhere. NULL: no memory. */
static struct way *obtain(struct ways *ways, const uint8_t *handle, uint32_t size, bool *is_new)
{
    struct way *way = find(ways, handle, size);
    *is_new = way == NULL;
    if (way != NULL) {
        return way;
    }
    way = calloc(1, sizeof *way + size);
    if (way == NULL) {
        return NULL;
    }
    way->handle_size = (uint8_t)size;
    memcpy(way->handle, handle, size);
    way->walk = ways->walk_begun;
    way->recent = true;
    struct way **bucket = bucket_of(ways, handle, size);
    way->bucket_next = *bucket;
    *bucket = way;
    list_append(ways, way);
    ways->bytes += bytes_of(way);
    way->pin_count++; /* it is not the one that makes room */
    make_room(ways);
    way->pin_count--;
    return way;
}

/* Directories were moved, and not by us, if one would be below itself. */
static void break_circle(struct ways *ways, const struct way *way, struct way *parent)
{
    for (struct way *above = parent; way->child_count > 0 && above != NULL;
         above = above->parent) {
        if (above == way) {
            detach(ways, parent);
            return;
        }
    }
}

/* The way was just seen to lead there. */
static void lead(struct ways *ways, struct way *way, struct way *parent, const char *name)
{
    way->walk = ways->walk_begun;
    if (way == ways->root || way == parent ||
        (way->parent == parent && strcmp(way->name, name) == 0)) {
        return;
    }
    char *copy = strdup(name);
    detach(ways, way);
    if (copy == NULL) {
        return; /* it will be looked for */
    }
    break_circle(ways, way, parent);
    ways->bytes += strlen(name) + 1;
    way->name = copy;
    way->parent = parent;
    parent->child_count++;
}

/* With a pin, or NULL. */
static struct way *note(struct ways *ways, const uint8_t *dir, uint32_t dir_size, const char *name,
                        const struct vfs_handle *handle)
{
    bool is_new;
    struct way *parent = obtain(ways, dir, dir_size, &is_new);
    struct way *way = NULL;
    if (parent != NULL) {
        parent->pin_count++;
        way = obtain(ways, handle->bytes, handle->size, &is_new);
        if (way != NULL) {
            way->pin_count++;
            lead(ways, way, parent, name);
        }
        parent->pin_count--;
    }
    return way;
}

/* ---- what others tell ---- */

static void unpin(struct ways *ways, struct way *way)
{
    if (way != NULL) {
        pthread_mutex_lock(&ways->lock);
        way->pin_count--;
        pthread_mutex_unlock(&ways->lock);
    }
}

static struct way *note_pinned(const struct vfs_export *export, const struct vfs_handle *dir,
                               const char *name, const struct vfs_handle *handle)
{
    struct ways *ways = export->ways;
    pthread_mutex_lock(&ways->lock);
    struct way *way = note(ways, dir->bytes, dir->size, name, handle);
    pthread_mutex_unlock(&ways->lock);
    return way;
}

void ways_note(const struct vfs_object *dir, const char *name, const uint8_t *handle,
               uint32_t handle_size)
{
    struct ways *ways = dir->export->ways;
    struct vfs_handle copy = {.size = handle_size};
    memcpy(copy.bytes, handle, handle_size);
    pthread_mutex_lock(&ways->lock);
    struct way *way = note(ways, dir->handle, dir->handle_size, name, &copy);
    if (way != NULL) {
        way->pin_count--;
    }
    pthread_mutex_unlock(&ways->lock);
}

void ways_note_loose(const struct vfs_object *object)
{
    struct ways *ways = object->export->ways;
    bool is_new;
    pthread_mutex_lock(&ways->lock);
    struct way *way = obtain(ways, object->handle, object->handle_size, &is_new);
    if (way != NULL) {
        way->walk = ways->walk_begun;
    }
    pthread_mutex_unlock(&ways->lock);
}

void ways_forget(const struct vfs_object *object)
{
    struct ways *ways = object->export->ways;
    pthread_mutex_lock(&ways->lock);
    struct way *way = find(ways, object->handle, object->handle_size);
    if (way != NULL && is_idle(ways, way)) {
        drop(ways, way);
    }
    pthread_mutex_unlock(&ways->lock);
}

/* ---- opening along a way ---- */

/* Beneath the directory, over no symbolic link, and on its mount. */
static int open_beneath(int dir_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    return fd >= 0 ? fd : -errno;
}

static bool is_same(const struct vfs_handle *a, const struct vfs_handle *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* A descriptor of what the path leads to, if that is it; -ENOENT: it is not. */
static int open_checked(const struct vfs_export *export, int dir_fd, const char *path,
                        const struct vfs_handle *wanted)
{
    struct vfs_handle handle;
    int fd = open_beneath(dir_fd, path);
    if (fd < 0) {
        return fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV || fd == -ESTALE ? -ENOENT : fd;
    }
    int err = handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
    if (err == 0 && is_same(&handle, wanted)) {
        return fd;
    }
    close(fd);
    return -ENOENT;
}

static bool is_dots(const char *name)
{
    return name_is_dot(name) || name_is_dot_dot(name);
}

/* Calls take for every name but "." and "..", until it says no. 0 or -errno. */
static int each_name(int dir_fd, bool (*take)(void *arg, int fd, const struct dirent_head *entry),
                     void *arg)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint8_t *buffer = malloc(DIRENTS_BYTES);
    int err = fd < 0 ? -errno : buffer == NULL ? -ENOMEM : 0;
    bool goes_on = err == 0;
    while (goes_on) {
        long size = syscall(SYS_getdents64, fd, buffer, DIRENTS_BYTES);
        err = size < 0 ? -errno : 0;
        goes_on = size > 0;
        for (long at = 0; at < size && goes_on;) {
            const struct dirent_head *entry =
                (const struct dirent_head *)(const void *)(buffer + at);
            goes_on = is_dots(entry->name) || take(arg, fd, entry);
            at += entry->size;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(buffer);
    return err;
}

struct search {
    const struct vfs_export *export;
    const struct vfs_handle *dir;
    const struct vfs_handle *wanted;
    bool knows_fileid;
    uint64_t fileid;
    int fd; /* of what was found; -ENOENT */
};

static bool search_take(void *arg, int dir_fd, const struct dirent_head *entry)
{
    struct search *search = arg;
    if (search->knows_fileid && entry->ino != search->fileid) {
        return true;
    }
    search->fd = open_checked(search->export, dir_fd, entry->name, search->wanted);
    if (search->fd < 0) {
        return true;
    }
    unpin(search->export->ways,
          note_pinned(search->export, search->dir, entry->name, search->wanted));
    return false;
}

/* Whatever it is called in that directory now. */
static int search_in(const struct vfs_export *export, int dir_fd, const struct vfs_handle *dir,
                     const struct vfs_handle *wanted)
{
    struct search search = {.export = export, .dir = dir, .wanted = wanted, .fd = -ENOENT};
    search.knows_fileid = handle_fileid(wanted, &search.fileid);
    int err = each_name(dir_fd, search_take, &search);
    return search.fd >= 0 ? search.fd : err == -EMFILE || err == -ENFILE ? err : -ENOENT;
}

/* Step by step, each of them checked, and searched for when it is not where it was. */
static int open_steps(const struct vfs_export *export, const struct path *path)
{
    const struct vfs_handle *dir = &export->root;
    int dir_fd = export->mount_fd;
    int fd = -ENOENT;
    for (uint32_t i = 0; i < path->count; i++) {
        const struct step *step = &path->steps[i];
        fd = open_checked(export, dir_fd, step->name, &step->handle);
        if (fd == -ENOENT) {
            fd = search_in(export, dir_fd, dir, &step->handle);
        }
        if (dir_fd != export->mount_fd) {
            close(dir_fd);
        }
        if (fd < 0) {
            return fd;
        }
        dir_fd = fd;
        dir = &step->handle;
    }
    return fd;
}

/* -ENOENT: the way does not begin at the root. */
static int copy_path(struct ways *ways, const struct way *way, struct path *path)
{
    int err = 0;
    *path = (struct path){0};
    pthread_mutex_lock(&ways->lock);
    const struct way *top = way;
    for (; top->parent != NULL && path->count < DEPTH_MAX; top = top->parent) {
        path->count++;
    }
    if (top != ways->root) {
        err = -ENOENT;
    } else if (path->count > 0) {
        path->steps = malloc(path->count * sizeof *path->steps);
        err = path->steps == NULL ? -ENOMEM : 0;
    }
    for (uint32_t i = path->count; err == 0 && i > 0; i--) {
        struct step *step = &path->steps[i - 1];
        memcpy(step->name, way->name, strlen(way->name) + 1);
        step->handle.size = way->handle_size;
        memcpy(step->handle.bytes, way->handle, way->handle_size);
        way = way->parent;
    }
    pthread_mutex_unlock(&ways->lock);
    return err;
}

/* False: it is too long to be one. */
static bool join(const struct path *path, char text[PATH_MAX])
{
    size_t used = 0;
    for (uint32_t i = 0; i < path->count; i++) {
        size_t bytes = strlen(path->steps[i].name);
        if (used + bytes + 2 > PATH_MAX) {
            return false;
        }
        memcpy(text + used, path->steps[i].name, bytes);
        used += bytes;
        text[used++] = '/';
    }
    text[used - 1] = '\0';
    return true;
}

/* O_PATH, of the object itself; -ENOENT: there is no way, or it leads elsewhere. */
static int open_way(const struct vfs_export *export, const struct way *way)
{
    struct path path;
    char text[PATH_MAX];
    int fd = copy_path(export->ways, way, &path);
    if (fd == 0 && path.count == 0) {
        return open_beneath(export->mount_fd, ".");
    }
    if (fd == 0) {
        fd = join(&path, text) ? open_checked(export, export->mount_fd, text,
                                              &path.steps[path.count - 1].handle)
                               : -ENOENT;
        if (fd < 0 && fd != -EMFILE && fd != -ENFILE) {
            fd = open_steps(export, &path);
        }
    }
    free(path.steps);
    return fd;
}

/* ---- the walk ---- */

struct walk {
    const struct vfs_export *export;
    struct vfs_handle dir; /* which is being read */
    struct way **pending;  /* directories, each with a pin */
    uint32_t pending_count, pending_capacity;
    int err;
};

/* Takes the pin over. */
static void walk_push(struct walk *walk, struct way *way)
{
    if (walk->pending_count == walk->pending_capacity) {
        uint32_t capacity = walk->pending_capacity * 2 + 64;
        struct way **pending = reallocarray(walk->pending, capacity, sizeof(struct way *));
        if (pending == NULL) {
            walk->err = -ENOMEM;
            unpin(walk->export->ways, way);
            return;
        }
        walk->pending = pending;
        walk->pending_capacity = capacity;
    }
    walk->pending[walk->pending_count++] = way;
}

static bool is_directory(int dir_fd, const struct dirent_head *entry)
{
    struct stat st;
    if (entry->type != DT_UNKNOWN) {
        return entry->type == DT_DIR;
    }
    return fstatat(dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
           S_ISDIR(st.st_mode);
}

static bool walk_take(void *arg, int dir_fd, const struct dirent_head *entry)
{
    struct walk *walk = arg;
    struct vfs_handle handle;
    if (handle_of(walk->export, dir_fd, entry->name, 0, &handle) != 0) {
        return true; /* gone already, or a mount */
    }
    struct way *way = note_pinned(walk->export, &walk->dir, entry->name, &handle);
    if (way == NULL) {
        walk->err = -ENOMEM;
    } else if (is_directory(dir_fd, entry)) {
        walk_push(walk, way);
    } else {
        unpin(walk->export->ways, way);
    }
    return walk->err == 0;
}

static void walk_directory(struct walk *walk, struct way *way)
{
    struct ways *ways = walk->export->ways;
    int fd = open_way(walk->export, way);
    int err = fd < 0 ? fd : 0;
    walk->dir.size = way->handle_size;
    memcpy(walk->dir.bytes, way->handle, way->handle_size);
    if (err == 0) {
        err = each_name(fd, walk_take, walk);
        close(fd);
    }
    if (err == -EACCES || err == -EPERM) {
        pthread_mutex_lock(&ways->lock);
        way->closed = ways->walk_begun;
        pthread_mutex_unlock(&ways->lock);
    } else if (err != 0 && walk->err == 0) {
        walk->err = err; /* -ENOENT: it slipped away, perhaps to where we have been */
    }
}

static bool is_below_closed(const struct ways *ways, const struct way *way)
{
    while (way != NULL && way->closed != ways->walk_begun) {
        way = way->parent;
    }
    return way != NULL;
}

/* What the walk has not met. Those in hand go with who has them. */
static void sweep(struct ways *ways)
{
    for (struct way *way = ways->oldest; way != NULL;) {
        struct way *newer = way->newer;
        struct way *gone = way;
        /* A directory after all that was in it. */
        while (gone != NULL && gone->walk < ways->walk_begun && is_idle(ways, gone) &&
               !is_below_closed(ways, gone)) {
            struct way *parent = gone->parent;
            newer = gone == newer ? gone->newer : newer;
            drop(ways, gone);
            gone = parent;
        }
        way = newer;
    }
}

static int walk_once(const struct vfs_export *export)
{
    struct ways *ways = export->ways;
    struct walk walk = {.export = export};
    int64_t begun_ns = now_ns();
    pthread_mutex_lock(&ways->lock);
    ways->walk_begun++;
    ways->root->walk = ways->walk_begun;
    ways->root->pin_count++;
    pthread_mutex_unlock(&ways->lock);
    walk_push(&walk, ways->root);
    while (walk.pending_count > 0) {
        struct way *way = walk.pending[--walk.pending_count];
        if (walk.err == 0) {
            walk_directory(&walk, way);
        }
        unpin(ways, way);
    }
    free(walk.pending);
    pthread_mutex_lock(&ways->lock);
    int64_t ended_ns = now_ns();
    int64_t good_ns = GOOD_FACTOR * (ended_ns - begun_ns);
    ways->rest_until_ns = ended_ns + REST_FACTOR * (ended_ns - begun_ns);
    if (walk.err == 0) {
        ways->walk_done = ways->walk_begun;
        ways->good_until_ns = ended_ns + (good_ns > GOOD_NS_MIN ? good_ns : GOOD_NS_MIN);
        sweep(ways);
    }
    pthread_mutex_unlock(&ways->lock);
    return walk.err;
}

/* -EAGAIN: not so soon after the last one. */
static int wait_for_turn(const struct ways *ways)
{
    int64_t left_ns = ways->rest_until_ns - now_ns();
    if (left_ns <= 0) {
        return 0;
    }
    if (left_ns > TURN_NS_MAX) {
        return -EAGAIN;
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = left_ns}, NULL);
    return 0;
}

/* 0: there is a way by now; -ESTALE; -EAGAIN. */
static int search_export(const struct vfs_export *export, const struct way *way)
{
    struct ways *ways = export->ways;
    pthread_mutex_lock(&ways->lock);
    uint32_t begun = ways->walk_begun;
    bool is_gone = way->walk < ways->walk_done && now_ns() < ways->good_until_ns;
    pthread_mutex_unlock(&ways->lock);
    if (is_gone) {
        return -ESTALE;
    }
    pthread_mutex_lock(&ways->walk_lock);
    int err = ways->walk_done <= begun ? wait_for_turn(ways) : 0;
    for (int tries = 0; err == 0 && ways->walk_done <= begun; tries++) {
        err = walk_once(export);
        err = err == -ENOENT ? (tries + 1 < WALK_TRIES_MAX ? 0 : -EAGAIN) : err;
    }
    pthread_mutex_unlock(&ways->walk_lock);
    if (err == 0) {
        pthread_mutex_lock(&ways->lock);
        err = way->walk > begun ? 0 : -ESTALE;
        pthread_mutex_unlock(&ways->lock);
    }
    return err;
}

/* ---- opening an object ---- */

/* With a pin, or NULL. */
static struct way *take(struct ways *ways, const struct vfs_object *object)
{
    bool is_new;
    pthread_mutex_lock(&ways->lock);
    struct way *way = obtain(ways, object->handle, object->handle_size, &is_new);
    if (way != NULL) {
        way->pin_count++;
    }
    if (is_new && way != NULL && ways->walk_evicted < ways->walk_done) {
        way->walk = 0; /* by (1) it is of an earlier server, and the last walk has not met it */
    }
    pthread_mutex_unlock(&ways->lock);
    return way;
}

static void give_back(struct ways *ways, struct way *way, bool is_gone)
{
    pthread_mutex_lock(&ways->lock);
    way->pin_count--;
    if (is_gone && is_idle(ways, way)) {
        drop(ways, way);
    }
    pthread_mutex_unlock(&ways->lock);
}

/*
 * RFC 1813 §4.4: the owner of a file reads and writes it whatever its mode says by now, as a client
 * lets a program go on that had it open. Root's server passes over the mode; ours, which acts as
 * the owner, has to change it for a moment. mode_lock keeps our own SETATTR out of that moment.
 */
static int open_as_owner(struct vfs *vfs, const char *path, int flags)
{
    struct stat st;
    int fd = -EACCES;
    pthread_mutex_lock(&vfs->mode_lock);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & (S_ISUID | S_ISGID)) == 0 && /* those chmod(2) may take away */
        chmod(path, (st.st_mode & 07777) | S_IRUSR | S_IWUSR) == 0) {
        fd = open(path, flags);
        fd = fd < 0 ? -errno : fd;
        if (chmod(path, st.st_mode & 07777) != 0 && fd >= 0) {
            close(fd);
            fd = -EACCES;
        }
    }
    pthread_mutex_unlock(&vfs->mode_lock);
    return fd;
}

/* What path_fd is of, for more than to name it. */
static int open_again(struct vfs *vfs, int path_fd, int flags)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
    flags &= ~O_NOFOLLOW;
    int fd = open(path, flags);
    fd = fd < 0 ? -errno : fd;
    return fd == -EACCES ? open_as_owner(vfs, path, flags) : fd;
}

int ways_open(const struct vfs_object *object, int flags)
{
    const struct vfs_export *export = object->export;
    struct way *way = take(export->ways, object);
    if (way == NULL) {
        return -ENOMEM;
    }
    int fd = open_way(export, way);
    for (int tries = 1; fd == -ENOENT; tries++) {
        fd = search_export(export, way);
        if (fd == 0) {
            fd = tries < OPEN_TRIES_MAX ? open_way(export, way) : -EAGAIN;
        }
    }
    give_back(export->ways, way, fd == -ESTALE);
    if (fd >= 0 && (flags & O_PATH) == 0) {
        int path_fd = fd;
        fd = open_again(export->vfs, path_fd, flags);
        close(path_fd);
    }
    return fd;
}

int ways_descend(const struct vfs_export *export, const char *path)
{
    char text[PATH_MAX];
    struct vfs_handle dir = export->root;
    struct vfs_handle handle;
    int dir_fd = export->mount_fd;
    int err = 0;
    snprintf(text, sizeof text, "%s", path);
    char *rest = text;
    for (char *name; err == 0 && (name = strsep(&rest, "/")) != NULL;) {
        int fd = open_beneath(dir_fd, name);
        err = fd < 0 ? fd : handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
        if (err == 0) {
            unpin(export->ways, note_pinned(export, &dir, name, &handle));
            dir = handle;
        }
        if (dir_fd != export->mount_fd) {
            close(dir_fd);
        }
        dir_fd = fd;
    }
    if (dir_fd >= 0 && dir_fd != export->mount_fd) {
        close(dir_fd);
    }
    return err;
}

/* ---- open and close ---- */

struct ways *ways_new(const struct vfs_handle *root)
{
    bool is_new;
    struct ways *ways = calloc(1, sizeof *ways);
    if (ways == NULL) {
        return NULL;
    }
    pthread_mutex_init(&ways->walk_lock, NULL);
    pthread_mutex_init(&ways->lock, NULL);
    ways->buckets = calloc(BUCKET_COUNT, sizeof(struct way *));
    if (ways->buckets != NULL) {
        ways->root = obtain(ways, root->bytes, root->size, &is_new);
    }
    if (ways->root == NULL) {
        ways_free(ways);
        return NULL;
    }
    return ways;
}

void ways_free(struct ways *ways)
{
    if (ways == NULL) {
        return;
    }
    while (ways->oldest != NULL) {
        struct way *way = ways->oldest;
        ways->oldest = way->newer;
        free(way->name);
        free(way);
    }
    pthread_mutex_destroy(&ways->lock);
    pthread_mutex_destroy(&ways->walk_lock);
    free(ways->buckets);
    free(ways);
}
