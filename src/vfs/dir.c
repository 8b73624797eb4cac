/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up and listing them.
 *
 * A directory's cookies are the file system's own (d_off of getdents64), which ext4, xfs and btrfs
 * keep valid while other entries come and go, and over restarts. So a page costs the same wherever
 * it starts, nothing is remembered per client, and READDIR and READDIRPLUS may be mixed.
 */
#include "vfs/export_set.h"
#include "vfs/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKUP_TRIES_MAX 4
#define PARENTS_MAX 4096

#define DIRENTS_BYTES_MAX (64U * 1024)
#define DIRENTS_BYTES_MIN 1024U

/* RFC 1813 §3.2: an empty name, and one with bytes that cannot be in a name, is NFS3ERR_ACCES. */
int name_copy(struct vfs_bytes name, char text[NAME_SPACE])
{
    if (name.size == 0) {
        return -EACCES;
    }
    if (name.size > VFS_NAME_BYTES_MAX) {
        return -ENAMETOOLONG;
    }
    if (memchr(name.data, '/', name.size) != NULL || memchr(name.data, 0, name.size) != NULL) {
        return -EACCES;
    }
    memcpy(text, name.data, name.size);
    text[name.size] = 0;
    return 0;
}

bool name_is_dot(const char *text)
{
    return text[0] == '.' && text[1] == 0;
}

bool name_is_dot_dot(const char *text)
{
    return text[0] == '.' && text[1] == '.' && text[2] == 0;
}

bool node_is_root(const struct vfs_node *node)
{
    const struct vfs_handle *root = &node->export->root;
    return node->object->handle_size == root->size &&
           memcmp(node->object->handle, root->bytes, root->size) == 0;
}

/* Whether what is above a directory is in the export as well: not so when it was moved out. In a
 * clone of the mount the kernel knows (path_connected()); else the way up must meet the root. */
static bool parent_is_inside(const struct vfs_export *export, int dir_fd)
{
    struct stat st, before = {0};
    bool inside = export->is_clone;
    if (export->is_clone) {
        return fstatat(dir_fd, "..", &st, AT_SYMLINK_NOFOLLOW) == 0;
    }
    int fd = openat(dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned depth = 0; fd >= 0 && !inside && depth < PARENTS_MAX; depth++) {
        if (fstat(fd, &st) != 0 || (st.st_ino == before.st_ino && st.st_dev == before.st_dev)) {
            break; /* the top */
        }
        inside = st.st_dev == export->dev && st.st_ino == export->ino;
        before = st;
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
    }
    if (fd >= 0) {
        close(fd);
    }
    return inside;
}

/* Whether st is of the inode that the handle names, as far as can be told. */
static bool is_same(const struct stat *st, const struct vfs_handle *handle)
{
    uint64_t fileid;
    return handle_fileid(handle, &fileid) && st->st_ino == fileid;
}

int name_open(struct vfs_export *export, int dir_fd, const char *name, struct vfs_object **object)
{
    struct vfs_handle handle;
    int fd = object_open_name(export->vfs, dir_fd, name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0) {
        return fd;
    }
    int err = handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
    if (err != 0) {
        object_close_fd(export->vfs, fd);
        return err == -EXDEV ? -EACCES : err;
    }
    return object_adopt(export, &handle, OBJECT_PATH, fd, object);
}

/* The object of a name that leads to this handle, with its attributes taken for this batch if it
 * has no descriptor. Who only looks a name up needs none: a walk over a large tree would open and
 * evict one for each file. */
static int object_of_name(const struct vfs_call *call, struct vfs_export *export, int dir_fd,
                          const char *name, const struct vfs_handle *handle,
                          struct vfs_object **object)
{
    struct vfs_attr attr;
    struct stat st;
    *object = object_find(export->vfs, handle->bytes, handle->size);
    if (*object != NULL && (object_has_fd(*object) || object_fds_abound(export->vfs) ||
                            attr_recall(call, *object, &attr))) {
        return 0;
    }
    int err = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 ? 0 : -errno;
    bool same = err == 0 && is_same(&st, handle);
    if (same && *object == NULL) {
        err = object_obtain(export, handle, object);
    }
    if (same && err == 0) {
        err = attr_take(call, *object, &st, &attr);
    }
    if (same && err == 0) {
        return 0;
    }
    if (*object != NULL) {
        object_put(*object);
        *object = NULL;
    }
    return err == 0 ? name_open(export, dir_fd, name, object) : err;
}

int name_object(const struct vfs_call *call, struct vfs_export *export, int dir_fd,
                const char *name, struct vfs_object **object)
{
    struct vfs_handle handle;
    int err = handle_of(export, dir_fd, name, 0, &handle);
    if (err != 0) {
        return err == -EXDEV ? -EACCES : err; /* something is mounted there */
    }
    return object_of_name(call, export, dir_fd, name, &handle, object);
}

/* The answer that is known already, and allowed to this caller. */
static enum name_answer recall_name(struct vfs_call *call, const struct vfs_node *dir,
                                    const char *name, struct vfs_handle *handle)
{
    if (name_is_dot(name) || name_is_dot_dot(name)) {
        return NAME_UNKNOWN;
    }
    enum name_answer answer = names_find(dir->object, name, &dir->attr.ctime, handle);
    if (answer != NAME_UNKNOWN && call->fsuid != 0 &&
        access_check(call, dir->object, &dir->attr, VFS_MAY_EXEC) != 0) {
        return NAME_UNKNOWN; /* the file system says it best */
    }
    return answer;
}

static int ask_name(struct vfs_call *call, const struct vfs_node *dir, int dir_fd, const char *name,
                    struct vfs_object **object)
{
    bool settled = ctime_is_settled(dir->export, &dir->attr.ctime);
    const struct timespec *ctime = settled ? &dir->attr.ctime : NULL;
    int err = name_object(call, dir->export, dir_fd, name, object);
    if (name_is_dot(name) || name_is_dot_dot(name)) {
        return err;
    }
    if (err == 0) {
        names_note(dir->object, name, ctime, (*object)->handle, (*object)->handle_size);
    } else if (err == -ENOENT && ctime != NULL) {
        names_note(dir->object, name, ctime, NULL, 0);
    }
    return err;
}

static int find_name(struct vfs_call *call, const struct vfs_node *dir, const char *name,
                     struct vfs_object **object)
{
    struct vfs_handle handle;
    int fd;
    enum name_answer answer = recall_name(call, dir, name, &handle);
    if (answer == NAME_ABSENT) {
        return -ENOENT;
    }
    int err = object_fd(dir->object, OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    cred_take(call);
    if (answer == NAME_KNOWN) {
        return object_of_name(call, dir->export, fd, name, &handle, object);
    }
    if (name_is_dot_dot(name) && !dir->export->is_clone && !parent_is_inside(dir->export, fd)) {
        return -ENOENT; /* as the kernel has it in a clone */
    }
    return ask_name(call, dir, fd, name, object);
}

/* For a server that opens by ways. */
static void note_way(const struct vfs_object *dir, const char *name,
                     const struct vfs_object *object)
{
    if (dir->export->ways == NULL) {
        return;
    }
    if (name_is_dot_dot(name)) {
        ways_note_loose(object);
    } else if (!name_is_dot(name)) {
        ways_note(dir, name, object->handle, object->handle_size);
    }
}

/* Past everything that is remembered. */
static int look_again(struct vfs_call *call, struct vfs_node *dir, const char *name,
                      struct vfs_object **object)
{
    int fd;
    int err = object_fd(dir->object, OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    cred_take(call);
    return name_object(call, dir->export, fd, name, object);
}

/* On from a directory on which something is mounted, if that is for this client. */
static int cross(struct vfs_call *call, struct vfs_node *node)
{
    const struct vfs_export *upper = node->export;
    if (node->attr.type != VFS_DIR) {
        return 0;
    }
    int err = admit_cross(call, node);
    if (err == 0 && node->export != upper) {
        err = attr_of_node(call, node);
    }
    return err;
}

static int lookup(struct vfs_call *call, struct vfs_node *dir, const char *name,
                  struct vfs_node *node)
{
    /* RFC 1813 §3.3.3: what ".." is in the export's root is for the server to say: the root. */
    if (name_is_dot_dot(name) && node_is_root(dir)) {
        name = ".";
    }
    int err = find_name(call, dir, name, &node->object);
    for (int tries = 1; err == 0; tries++) {
        node->export = dir->export;
        note_way(dir->object, name, node->object);
        err = attr_of_node(call, node);
        if (err == 0 && UNLIKELY(atomic_load_explicit(&dir->export->has_crossings,
                                                      memory_order_relaxed))) {
            return cross(call, node);
        }
        if (err != -ESTALE) {
            return err;
        }
        /* It was removed, or another took its name, since the name was read. The directory is not
         * stale, and that is what a client would understand. */
        object_put(node->object);
        node->object = NULL;
        err = tries < LOOKUP_TRIES_MAX ? look_again(call, dir, name, &node->object) : -ENOENT;
    }
    node->object = NULL;
    return err;
}

int vfs_lookup(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
               struct vfs_node *node)
{
    char text[NAME_SPACE];
    int err = attr_of_node(call, dir);
    if (err != 0) {
        return err;
    }
    if (dir->attr.type != VFS_DIR) {
        return -ENOTDIR;
    }
    err = name_copy(name, text);
    if (err == 0) {
        err = hidden_is(dir, text) ? -ENOENT : lookup(call, dir, text, node);
    }
    attr_note_lsn(call, dir->object);
    return err;
}

int vfs_readlink(struct vfs_call *call, struct vfs_node *node, uint8_t *buffer,
                 uint32_t buffer_bytes, uint32_t *target_bytes)
{
    int fd;
    int err = attr_of_node(call, node);
    if (err == 0 && node->attr.type != VFS_LNK) {
        err = -EINVAL; /* RFC 1813 §3.3.5 */
    }
    if (err == 0) {
        err = object_fd(node->object, OBJECT_PATH, &fd);
    }
    if (err != 0) {
        return err;
    }
    ssize_t size = readlinkat(fd, "", (char *)buffer, buffer_bytes);
    if (size < 0) {
        return -errno;
    }
    *target_bytes = (uint32_t)size;
    return 0;
}

/* ---- listing ---- */

struct listing {
    struct vfs_call *call;
    struct vfs_node *dir;
    int fd;
    bool plus;
    bool is_root;
    bool has_crossings;
    bool hides;     /* it may have a name that no client sees */
    bool unsettled; /* entries may be of changes that are not yet durable */
    vfs_entry_take *take;
    void *arg;
};

/* Fills buffer with entries behind the position. Several calls share the descriptor. */
static ssize_t read_dirents(struct listing *listing, uint64_t position, uint8_t *buffer,
                            size_t buffer_bytes)
{
    struct vfs_object *object = listing->dir->object;
    pthread_mutex_t *lock = &listing->call->vfs->dir_locks[object->lock_index % DIR_LOCK_COUNT];
    ssize_t size = 0;
    pthread_mutex_lock(lock);
    if (object->dir_position != (int64_t)position &&
        lseek(listing->fd, (off_t)position, SEEK_SET) < 0) {
        size = -errno;
    } else {
        size = syscall(SYS_getdents64, listing->fd, buffer, buffer_bytes);
        size = size < 0 ? -errno : size;
    }
    object->dir_position = -1;
    if (size > 0) {
        /* The position is that of the last entry's successor. */
        const struct dirent_head *entry = NULL;
        for (ssize_t at = 0; at < size; at += entry->size) {
            entry = (const struct dirent_head *)(const void *)(buffer + at);
        }
        object->dir_position = entry->next;
    }
    pthread_mutex_unlock(lock);
    return size;
}

static void note_entry(const struct listing *listing, const char *name,
                       const struct vfs_handle *handle)
{
    struct vfs_object *object;
    if (!name_is_dot(name) && !name_is_dot_dot(name)) {
        ways_note(listing->dir->object, name, handle->bytes, handle->size);
    } else if (name_is_dot_dot(name) &&
               object_obtain(listing->dir->export, handle, &object) == 0) {
        ways_note_loose(object);
        object_put(object);
    }
}

/* Handle and attributes of an entry, as far as they can be had and are of one object. */
static void look_at(struct listing *listing, const char *name, struct vfs_entry *entry)
{
    struct vfs_export *export = listing->dir->export;
    struct stat st;
    if (handle_of(export, listing->fd, name, 0, &entry->handle) != 0) {
        return;
    }
    if (listing->has_crossings && admit_crosses(listing->call, export, &entry->handle)) {
        return; /* LOOKUP leads on from here */
    }
    entry->has_handle = true;
    if (export->ways != NULL) {
        note_entry(listing, name, &entry->handle);
    }
    if (fstatat(listing->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
        is_same(&st, &entry->handle)) {
        attr_fill(export, &st, &entry->attr);
        entry->has_attr = true;
        entry->fileid = entry->attr.fileid;
    }
    if (listing->unsettled) {
        struct vfs_object *object =
            object_find(export->vfs, entry->handle.bytes, entry->handle.size);
        if (object != NULL) {
            attr_note_lsn(listing->call, object);
            object_put(object);
        }
    }
}

static bool give(struct listing *listing, const struct dirent_head *dirent)
{
    struct vfs_entry entry;
    const char *name = dirent->name;
    if (listing->hides && strcmp(name, HIDDEN_NAME) == 0) {
        return true;
    }
    entry.name = (struct vfs_bytes){.data = (const uint8_t *)name, .size = (uint32_t)strlen(name)};
    entry.fileid = dirent->ino;
    entry.cookie = (uint64_t)dirent->next;
    entry.has_attr = false;
    entry.has_handle = false;
    if (name[0] == '.' && name_is_dot_dot(name) &&
        (listing->is_root || !parent_is_inside(listing->dir->export, listing->fd))) {
        /* What lies above the export is nobody's business, also when the directory was moved there.
         */
        name = ".";
        entry.fileid = listing->dir->attr.fileid;
    }
    if (listing->plus) {
        look_at(listing, name, &entry);
    }
    return listing->take(listing->arg, &entry);
}

static int list(struct listing *listing, uint64_t cookie, size_t buffer_bytes, bool *eof)
{
    static _Thread_local uint8_t buffer[DIRENTS_BYTES_MAX] __attribute__((aligned(8)));
    for (;;) {
        ssize_t size = read_dirents(listing, cookie, buffer, buffer_bytes);
        if (size == -EINVAL && buffer_bytes < DIRENTS_BYTES_MAX) {
            buffer_bytes = DIRENTS_BYTES_MAX; /* one name did not fit */
            continue;
        }
        if (size <= 0) {
            *eof = size == 0;
            return (int)size;
        }
        for (ssize_t at = 0; at < size;) {
            const struct dirent_head *entry =
                (const struct dirent_head *)(const void *)(buffer + at);
            if (!give(listing, entry)) {
                *eof = false;
                return 0;
            }
            cookie = (uint64_t)entry->next;
            at += entry->size;
        }
    }
}

bool vfs_cookies_are_hashes(const struct vfs_node *dir)
{
    return dir->export->has_hash_cookies;
}

int vfs_readdir(struct vfs_call *call, struct vfs_node *dir, uint64_t cookie, bool plus,
                uint32_t bytes_hint, vfs_entry_take *take, void *arg, bool *eof)
{
    struct listing listing = {.call = call, .dir = dir, .plus = plus, .take = take, .arg = arg};
    int err = plus && !call->options->readdirplus ? -EOPNOTSUPP : attr_of_node(call, dir);
    if (err == 0 && dir->attr.type != VFS_DIR) {
        err = -ENOTDIR;
    }
    if (err == 0) {
        err = object_fd(dir->object, OBJECT_READ, &listing.fd);
    }
    if (err == 0 && call->fsuid != 0) {
        err = access_check(call, dir->object, &dir->attr, VFS_MAY_READ);
    }
    if (err == 0 && cookie > INT64_MAX) {
        err = -EINVAL; /* never one of ours */
    }
    if (err != 0) {
        return err;
    }
    cred_take(call);
    listing.is_root = node_is_root(dir);
    listing.has_crossings = atomic_load(&dir->export->has_crossings);
    listing.hides = hidden_is_in(dir);
    listing.unsettled = plus && call->options->sync;
    uint32_t bytes = bytes_hint < DIRENTS_BYTES_MIN ? DIRENTS_BYTES_MIN : bytes_hint;
    bytes = bytes > DIRENTS_BYTES_MAX ? DIRENTS_BYTES_MAX : bytes;
    err = list(&listing, cookie, bytes & ~7U, eof);
    attr_note_lsn(call, dir->object);
    return err;
}
