/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making objects: CREATE, MKDIR, SYMLINK, MKNOD.
 *
 * Exclusive create keeps the client's verifier in the file's times: the first word as the seconds
 * of mtime, the second as those of atime, both read as signed 32-bit numbers, nanoseconds zero.
 * That keeps all 64 bits on ext4 with 128- and 256-byte inodes, on xfs with and without bigtime,
 * and on btrfs and tmpfs; where a file system does not give back what was set, the create is undone
 * and refused (-EOPNOTSUPP, and clients use GUARDED then). RFC 1813 §3.3.8 has the client set the
 * times afterwards.
 *
 * The file gets its times before its name (O_TMPFILE, then link), so that a server killed in
 * between leaves no file that the client's retransmission would take for somebody else's.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* One creation under way. */
struct creation {
    struct vfs_call *call;
    struct vfs_node *dir;
    struct vfs_node *node;
    char name[NAME_SPACE];
    const struct vfs_sattr *sattr;
    enum journal_op op;
    struct change change;
};

static uint32_t mode_of(const struct vfs_sattr *sattr)
{
    return sattr->set_mode ? sattr->mode & 07777 : 0;
}

static int creation_begin(struct creation *creation, struct vfs_call *call, struct vfs_node *dir,
                          struct vfs_bytes name, const struct vfs_sattr *sattr)
{
    creation->call = call;
    creation->dir = dir;
    creation->sattr = sattr;
    if (!call->options->rw) {
        return -EROFS;
    }
    int err = name_copy(name, creation->name);
    if (err == 0) {
        err = attr_check(sattr);
    }
    if (err == 0) {
        err = hidden_is(dir, creation->name) ? -EACCES : 0;
    }
    if (err == 0 && dir->export->logged) {
        int fd;
        int error = object_fd(dir->object, OBJECT_READ, &fd); /* for dir_is_plain */
        (void)error;                                          /* no directory: as below */
    }
    if (err == 0) {
        err = change_begin(&creation->change, call, &dir, 1, creation->op);
    }
    if (err != 0) {
        return err;
    }
    if (dir->before.type != VFS_DIR) {
        err = -ENOTDIR;
    } else if (name_is_dot(creation->name) || name_is_dot_dot(creation->name)) {
        err = -EEXIST;
    }
    return err == 0 ? 0 : change_end(&creation->change, err, JOURNAL_FSYNC);
}

/* What the system call that made the object could not do. */
static struct vfs_sattr rest_of(const struct creation *creation, enum vfs_type type)
{
    struct vfs_sattr rest = *creation->sattr;
    rest.set_mode = false;
    rest.set_size = rest.set_size && rest.size > 0 && type == VFS_REG;
    if (creation->call->fsuid != 0) {
        /* As knfsd: whoever may not give files away does not fail for having tried. */
        rest.set_uid = false;
        rest.set_gid = false;
    }
    return rest;
}

/* The node was made, and has its name. */
static void note_made(struct creation *creation, const struct vfs_handle *handle)
{
    struct change *change = &creation->change;
    const struct vfs_node *node = creation->node;
    change_made(change, node->object);
    change_entry(change, 0, creation->name, handle, NULL);
    if (node->attr.size > 0 && node->attr.type == VFS_REG) {
        change_size(change, handle->bytes, node->attr.size);
    }
    change_state(change, handle->bytes, &node->attr, node->attr.nlink);
    names_note(creation->dir->object, creation->name, NULL, handle->bytes, handle->size);
    if (node->export->ways != NULL) {
        ways_note(creation->dir->object, creation->name, handle->bytes, handle->size);
    }
}

/* The object that was made, with fd open on it as kind, becomes the node. */
static int made(struct creation *creation, int fd, enum object_fd_kind kind, enum vfs_type type)
{
    struct vfs_export *export = creation->dir->export;
    struct vfs_node *node = creation->node;
    struct vfs_handle handle;
    int err = handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
    if (err != 0) {
        object_close_fd(export->vfs, fd);
        return err;
    }
    err = object_adopt(export, &handle, kind, fd, &node->object);
    if (err != 0) {
        node->object = NULL;
        return err;
    }
    node->export = export;
    struct vfs_sattr rest = rest_of(creation, type);
    err = attr_apply(node->object, &rest);
    if (err == 0) {
        err = attr_fresh(creation->call, node->object, &node->attr);
    }
    node->has_attr = err == 0;
    if (err == 0) {
        note_made(creation, &handle);
        creation->change.sync_made = true; /* the file system made it just now */
    }
    return err;
}

/* Takes the name away again after a later step failed. */
static int undo(const struct creation *creation, int err, int flags)
{
    if (err != 0) {
        unlinkat(creation->change.fds[0], creation->name, flags);
    }
    return err;
}

/* ---- regular files ---- */

static int create_new(struct creation *creation)
{
    int fd = object_open_name(creation->call->vfs, creation->change.fds[0], creation->name,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode_of(creation->sattr));
    if (fd < 0) {
        return fd;
    }
    return undo(creation, made(creation, fd, OBJECT_WRITE, VFS_REG), 0);
}

static void verf_times(const uint8_t verf[8], struct timespec times[2])
{
    int32_t words[2];
    memcpy(words, verf, sizeof words);
    times[0] = (struct timespec){.tv_sec = words[1]}; /* atime */
    times[1] = (struct timespec){.tv_sec = words[0]}; /* mtime */
}

static bool has_verf(const struct vfs_attr *attr, const uint8_t verf[8])
{
    struct timespec times[2];
    verf_times(verf, times);
    return attr->type == VFS_REG && attr->atime.tv_sec == times[0].tv_sec &&
           attr->atime.tv_nsec == 0 && attr->mtime.tv_sec == times[1].tv_sec &&
           attr->mtime.tv_nsec == 0;
}

static int link_fd(int fd, int dir_fd, const char *name)
{
    char path[32];
    if (linkat(fd, "", dir_fd, name, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    if (errno != ENOENT) {
        return -errno;
    }
    /* Without CAP_DAC_READ_SEARCH. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* -EOPNOTSUPP where the file system does not give such times back. */
static int set_verf(const struct vfs_export *export, int fd, const uint8_t verf[8])
{
    struct timespec times[2];
    struct stat st;
    struct vfs_attr attr;
    verf_times(verf, times);
    if (futimens(fd, times) != 0 || fstat(fd, &st) != 0) {
        return -errno;
    }
    attr_fill(export, &st, &attr);
    return has_verf(&attr, verf) ? 0 : -EOPNOTSUPP;
}

/* The name last. */
static int open_then_link(struct creation *creation, const uint8_t verf[8])
{
    struct vfs *vfs = creation->call->vfs;
    int fd = object_open_name(vfs, creation->change.fds[0], ".", O_RDWR | O_TMPFILE, 0);
    if (fd < 0) {
        return fd;
    }
    int err = set_verf(creation->dir->export, fd, verf);
    if (err == 0) {
        err = link_fd(fd, creation->change.fds[0], creation->name);
    }
    if (err != 0) {
        object_close_fd(vfs, fd);
        return err;
    }
    return fd;
}

/* Where there are no files without names: the times follow the name at once. */
static int open_named(struct creation *creation, const uint8_t verf[8])
{
    struct vfs *vfs = creation->call->vfs;
    int fd = object_open_name(vfs, creation->change.fds[0], creation->name,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0);
    if (fd < 0) {
        return fd;
    }
    int err = undo(creation, set_verf(creation->dir->export, fd, verf), 0);
    if (err != 0) {
        object_close_fd(vfs, fd);
        return err;
    }
    return fd;
}

static int create_exclusive(struct creation *creation, const uint8_t verf[8])
{
    struct vfs_handle handle;
    /* Asked first: making a nameless file in vain costs more. */
    if (handle_of(creation->dir->export, creation->change.fds[0], creation->name, 0, &handle) ==
        0) {
        return -EEXIST;
    }
    int fd = open_then_link(creation, verf);
    if (fd == -EOPNOTSUPP || fd == -EISDIR || fd == -EINVAL) {
        fd = open_named(creation, verf);
    }
    if (fd < 0) {
        return fd;
    }
    return undo(creation, made(creation, fd, OBJECT_WRITE, VFS_REG), 0);
}

/* The name exists. The node becomes what it leads to. */
static int find_existing(struct creation *creation)
{
    struct vfs_node *node = creation->node;
    int err = name_object(creation->call, creation->dir->export, creation->change.fds[0],
                          creation->name, &node->object);
    if (err != 0) {
        node->object = NULL;
        return err;
    }
    node->export = creation->dir->export;
    if (node->export->ways != NULL) {
        ways_note(creation->dir->object, creation->name, node->object->handle,
                  node->object->handle_size);
    }
    err = attr_fresh(creation->call, node->object, &node->attr);
    node->has_attr = err == 0;
    return err;
}

/* RFC 1813 §3.3.8. Beyond it, as knfsd: UNCHECKED succeeds also on what is no regular file, and the
 * client sees from the type what it got. */
static int settle_existing(struct creation *creation, enum vfs_create_how how,
                           const uint8_t verf[8], bool *truncate)
{
    *truncate = false;
    if (how == VFS_GUARDED) {
        return -EEXIST;
    }
    int err = find_existing(creation);
    if (err != 0) {
        return err;
    }
    if (how == VFS_EXCLUSIVE) {
        return has_verf(&creation->node->attr, verf) ? 0 : -EEXIST;
    }
    *truncate = creation->sattr->set_size && creation->node->attr.type == VFS_REG;
    return 0;
}

/* ---- from the pool ---- */

/* What a new inode gets from its directory besides its group: default ACLs. */
static bool dir_is_plain(const struct creation *creation)
{
    char value[8];
    int fd = atomic_load(&creation->dir->object->fds[OBJECT_READ]);
    return fd >= 0 && fgetxattr(fd, "system.posix_acl_default", value, 0) <= 0;
}

static bool is_member(const struct vfs_call *call, uint32_t gid)
{
    bool found = call->fsgid == gid;
    for (uint32_t i = 0; i < call->fsgid_count; i++) {
        found = found || call->fsgids[i] == gid;
    }
    return found;
}

/* Everything that the file system would have given the new object: inode_init_owner() of Linux,
 * fs/inode.c, and what the caller asks for. */
static struct vfs_sattr pooled_sattr(const struct creation *creation, enum pool_kind kind)
{
    const struct vfs_call *call = creation->call;
    const struct vfs_attr *dir = &creation->dir->before;
    struct vfs_sattr sattr = rest_of(creation, kind == POOL_DIR ? VFS_DIR : VFS_REG);
    bool from_dir = (dir->mode & S_ISGID) != 0;
    uint32_t gid = from_dir || creation->dir->export->pool.bsd_groups ? dir->gid : call->fsgid;
    uint32_t mode = mode_of(creation->sattr);
    if (kind == POOL_DIR) {
        mode = (mode & ~(uint32_t)(S_ISUID | S_ISGID)) | (from_dir ? S_ISGID : 0U);
    } else if (from_dir && call->fsuid != 0 && !is_member(call, gid) &&
               (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)) {
        mode &= ~(uint32_t)S_ISGID;
    }
    sattr.uid = sattr.set_uid ? sattr.uid : call->fsuid;
    sattr.gid = sattr.set_gid ? sattr.gid : gid;
    sattr.set_uid = true;
    sattr.set_gid = true;
    sattr.mode = mode;
    sattr.set_mode = true;
    sattr.atime_how = sattr.atime_how == VFS_TIME_KEEP ? VFS_TIME_NOW : sattr.atime_how;
    sattr.mtime_how = sattr.mtime_how == VFS_TIME_KEEP ? VFS_TIME_NOW : sattr.mtime_how;
    return sattr;
}

/* The inode with its attributes, as the node. As root. */
static int dress(struct creation *creation, enum pool_kind kind, const struct pool_inode *inode,
                 const char *pool_entry, const struct vfs_sattr *sattr)
{
    struct vfs_export *export = creation->dir->export;
    struct vfs_node *node = creation->node;
    int flags = kind == POOL_DIR ? O_PATH | O_NOFOLLOW | O_DIRECTORY : O_RDWR | O_NOFOLLOW;
    int fd = object_open_name(export->vfs, export->hidden.pool_fd, pool_entry, flags, 0);
    if (fd < 0) {
        return fd;
    }
    int err = object_adopt(export, &inode->handle, kind == POOL_DIR ? OBJECT_PATH : OBJECT_WRITE,
                           fd, &node->object);
    if (err != 0) {
        node->object = NULL;
        return err;
    }
    node->export = export;
    node->object->unstable = (struct object_dirty){.known = true}; /* nobody else has it yet */
    err = attr_apply(node->object, sattr);
    if (err != 0) {
        vfs_put(node);
    }
    return err;
}

/* -ENODATA: to be made in the common way. verf: of an exclusive create, or NULL. */
static int create_pooled(struct creation *creation, enum pool_kind kind, const uint8_t *verf)
{
    struct vfs_call *call = creation->call;
    struct vfs_export *export = creation->dir->export;
    struct vfs_node *node = creation->node;
    struct pool_inode inode;
    char pool_entry[POOL_NAME_SPACE];
    if (!creation->change.logged || !dir_is_plain(creation)) {
        return -ENODATA;
    }
    int err = call->fsuid == 0 ? 0
                               : access_check(call, creation->dir->object, &creation->dir->before,
                                              VFS_MAY_WRITE | VFS_MAY_EXEC);
    if (err != 0 || !pool_take(export, kind, &inode)) {
        return err != 0 ? err : -ENODATA;
    }
    struct vfs_sattr sattr = pooled_sattr(creation, kind);
    if (verf != NULL) {
        struct timespec times[2];
        verf_times(verf, times);
        sattr.atime_how = sattr.mtime_how = VFS_TIME_SET;
        sattr.atime = times[0];
        sattr.mtime = times[1];
    }
    pool_name(kind, inode.number, pool_entry);
    cred_take_root();
    err = dress(creation, kind, &inode, pool_entry, &sattr);
    if (err == 0) {
        err = attr_fresh(call, node->object, &node->attr);
        if (err == 0 && verf != NULL && !has_verf(&node->attr, verf)) {
            err = -EOPNOTSUPP;
        }
        if (err == 0 && renameat2(export->hidden.pool_fd, pool_entry, creation->change.fds[0],
                                  creation->name, RENAME_NOREPLACE) != 0) {
            /* EXDEV: of another project. EPERM: encrypted, for example. */
            err = errno == EXDEV || errno == EPERM || errno == EINVAL ? -ENODATA : -errno;
        }
        if (err != 0) {
            vfs_put(node);
        }
    }
    cred_take(call);
    if (err != 0) {
        pool_give_back(export, kind, &inode);
        return err;
    }
    err = attr_fresh(call, node->object, &node->attr); /* a rename changes the ctime */
    node->has_attr = err == 0;
    note_made(creation, &inode.handle);
    return 0;
}

int vfs_create(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
               enum vfs_create_how how, const struct vfs_sattr *sattr, const uint8_t verf[8],
               struct vfs_node *node)
{
    static const struct vfs_sattr nothing = {0};
    struct creation creation = {.node = node, .op = JOURNAL_OP_CREATE};
    bool truncate = false;
    int err = creation_begin(&creation, call, dir, name, how == VFS_EXCLUSIVE ? &nothing : sattr);
    if (err != 0) {
        return err;
    }
    err = create_pooled(&creation, POOL_FILE, how == VFS_EXCLUSIVE ? verf : NULL);
    if (err == -ENODATA) {
        err = how == VFS_EXCLUSIVE ? create_exclusive(&creation, verf) : create_new(&creation);
    }
    if (err == -EEXIST) {
        err = settle_existing(&creation, how, verf, &truncate);
        bool found = err == 0;
        err = change_end(&creation.change, found ? -EEXIST : err, JOURNAL_FSYNC);
        err = found && err == -EEXIST ? 0 : err;
        if (found) {
            attr_note_lsn(call, node->object);
        }
    } else {
        err = change_end(&creation.change, err, JOURNAL_FSYNC);
    }
    if (err == 0 && truncate) {
        struct vfs_sattr size = {.set_size = true, .size = sattr->size};
        err = vfs_setattr(call, node, &size, NULL);
        if (err == -ESTALE) {
            err = 0; /* removed right after it was found: that it was found stands */
        }
    }
    return err;
}

/* ---- the others ---- */

/* Opens what was just made under the name, as the caller. */
static int adopt_name(struct creation *creation, enum vfs_type type)
{
    int fd = object_open_name(creation->call->vfs, creation->change.fds[0], creation->name,
                              O_PATH | O_NOFOLLOW, 0);
    return fd < 0 ? fd : made(creation, fd, OBJECT_PATH, type);
}

int vfs_mkdir(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
              const struct vfs_sattr *sattr, struct vfs_node *node)
{
    struct creation creation = {.node = node, .op = JOURNAL_OP_MKDIR};
    int err = creation_begin(&creation, call, dir, name, sattr);
    if (err != 0) {
        return err;
    }
    err = create_pooled(&creation, POOL_DIR, NULL);
    if (err == -ENODATA) {
        uint32_t mode = mode_of(sattr);
        err = mkdirat(creation.change.fds[0], creation.name, mode) == 0 ? 0 : -errno;
        if (err == 0) {
            /* mkdir(2) leaves setuid and setgid to the directory it is in. */
            err = undo(&creation, adopt_name(&creation, VFS_DIR), AT_REMOVEDIR);
        }
    }
    return change_end(&creation.change, err, JOURNAL_FSYNC);
}

int vfs_symlink(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
                struct vfs_bytes target, const struct vfs_sattr *sattr, struct vfs_node *node)
{
    struct creation creation = {.node = node, .op = JOURNAL_OP_SYMLINK};
    char text[PATH_MAX];
    if (target.size >= sizeof text) {
        return -ENAMETOOLONG;
    }
    if (memchr(target.data, 0, target.size) != NULL) {
        return -EINVAL;
    }
    memcpy(text, target.data, target.size);
    text[target.size] = 0;
    int err = creation_begin(&creation, call, dir, name, sattr);
    if (err != 0) {
        return err;
    }
    err = symlinkat(text, creation.change.fds[0], creation.name) == 0 ? 0 : -errno;
    if (err == 0) {
        /* A symbolic link's mode is nobody's to choose. */
        err = undo(&creation, adopt_name(&creation, VFS_LNK), 0);
    }
    return change_end(&creation.change, err, JOURNAL_FSYNC);
}

int vfs_mknod(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
              enum vfs_type type, uint32_t rdev_major, uint32_t rdev_minor,
              const struct vfs_sattr *sattr, struct vfs_node *node)
{
    static const mode_t types[] = {
        [VFS_BLK] = S_IFBLK, [VFS_CHR] = S_IFCHR, [VFS_SOCK] = S_IFSOCK, [VFS_FIFO] = S_IFIFO};
    struct creation creation = {.node = node, .op = JOURNAL_OP_MKNOD};
    if ((size_t)type >= COUNT_OF(types) || types[type] == 0) {
        return -EINVAL;
    }
    int err = creation_begin(&creation, call, dir, name, sattr);
    if (err != 0) {
        return err;
    }
    dev_t dev = type == VFS_BLK || type == VFS_CHR ? makedev(rdev_major, rdev_minor) : 0;
    err = mknodat(creation.change.fds[0], creation.name, types[type] | mode_of(sattr), dev) == 0
              ? 0
              : -errno;
    if (err == 0) {
        err = undo(&creation, adopt_name(&creation, type), 0);
    }
    return change_end(&creation.change, err, JOURNAL_FSYNC);
}
