/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that go, move and are added: REMOVE, RMDIR, RENAME, LINK.
 *
 * An object that lost its last name is forgotten at once, so that the file system frees it.
 *
 * DEPARTS: RFC 1813 §3.3.14 wants NFS3ERR_EXIST where source and target of RENAME are of different
 * kinds or the target is not empty. The kernel's EISDIR, ENOTDIR and ENOTEMPTY are passed on, as
 * other Linux servers do: they are what programs expect of rename(2).
 */
#include "vfs/internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* The cached object that a name leads to, to be looked at again when the name is gone. NULL if
 * there is none. A hint that is wrong only means that the file system frees the real one a little
 * later. */
static struct vfs_object *cached_victim(const struct vfs_node *dir, int dir_fd, const char *name)
{
    struct vfs_handle handle;
    if (names_find(dir->object, name, NULL, &handle) != NAME_KNOWN &&
        handle_of(dir->export, dir_fd, name, 0, &handle) != 0) {
        return NULL;
    }
    return object_find(dir->export->vfs, handle.bytes, handle.size);
}

/* The name is gone, and perhaps the object. */
static void bury(const struct vfs_call *call, struct vfs_object *victim)
{
    if (victim == NULL) {
        return;
    }
    attr_forget(victim);
    if (object_has_fd(victim)) {
        struct vfs_attr attr;
        int err = attr_fresh(call, victim, &attr);
        (void)err; /* -ESTALE, after which the last reference frees it; or it has other names */
    } else {
        object_set_stale(victim); /* nothing is lost if it has other names */
    }
    object_put(victim);
}

static int remove_name(struct vfs_call *call, struct vfs_node *dir, const char *name, int flags)
{
    struct change change;
    int err = change_begin(&change, call, &dir, 1, true);
    if (err != 0) {
        return err;
    }
    struct vfs_object *victim = cached_victim(dir, change.fds[0], name);
    err = unlinkat(change.fds[0], name, flags) == 0 ? 0 : -errno;
    names_forget(dir->object, name);
    err = change_end(&change, err, JOURNAL_FSYNC);
    bury(call, victim);
    return err;
}

int vfs_remove(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name)
{
    char text[NAME_SPACE];
    int err = name_copy(name, text);
    if (err == 0 && !call->options->rw) {
        err = -EROFS;
    }
    return err == 0 ? remove_name(call, dir, text, 0) : err;
}

int vfs_rmdir(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name)
{
    char text[NAME_SPACE];
    int err = name_copy(name, text);
    if (err == 0 && !call->options->rw) {
        err = -EROFS;
    }
    /* RFC 1813 §3.3.13 */
    if (err == 0 && name_is_dot(text)) {
        err = -EINVAL;
    }
    if (err == 0 && name_is_dot_dot(text)) {
        err = -EEXIST;
    }
    return err == 0 ? remove_name(call, dir, text, AT_REMOVEDIR) : err;
}

static int rename_names(struct vfs_call *call, struct vfs_node *const dirs[2], const char *from,
                        const char *to)
{
    struct change change;
    int err = change_begin(&change, call, dirs, 2, true);
    if (err != 0) {
        return err;
    }
    struct vfs_object *victim = cached_victim(dirs[1], change.fds[1], to);
    err = renameat(change.fds[0], from, change.fds[1], to) == 0 ? 0 : -errno;
    names_forget(dirs[0]->object, from);
    names_forget(dirs[1]->object, to);
    err = change_end(&change, err, JOURNAL_FSYNC);
    bury(call, victim);
    return err;
}

int vfs_rename(struct vfs_call *call, struct vfs_node *from_dir, struct vfs_bytes from_name,
               struct vfs_node *to_dir, struct vfs_bytes to_name)
{
    char from[NAME_SPACE];
    char to[NAME_SPACE];
    struct vfs_node *dirs[2] = {from_dir, to_dir};
    int err = name_copy(from_name, from);
    if (err == 0) {
        err = name_copy(to_name, to);
    }
    if (err == 0 && !call->options->rw) {
        err = -EROFS;
    }
    if (err == 0 && from_dir->export != to_dir->export) {
        err = -EXDEV;
    }
    /* RFC 1813 §3.3.14 */
    if (err == 0 &&
        (name_is_dot(from) || name_is_dot_dot(from) || name_is_dot(to) || name_is_dot_dot(to))) {
        err = -EINVAL;
    }
    return err == 0 ? rename_names(call, dirs, from, to) : err;
}

/* As the caller: the kernel's rules for hard links to other people's files hold. */
static int link_object(int fd, int dir_fd, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) == 0) {
        return 0;
    }
    return -errno;
}

int vfs_link(struct vfs_call *call, struct vfs_node *node, struct vfs_node *dir,
             struct vfs_bytes name)
{
    char text[NAME_SPACE];
    struct change change;
    struct vfs_node *nodes[2] = {node, dir};
    int err = name_copy(name, text);
    if (err == 0 && !call->options->rw) {
        err = -EROFS;
    }
    if (err == 0 && node->export != dir->export) {
        err = -EXDEV;
    }
    if (err == 0) {
        err = change_begin(&change, call, nodes, 2, true);
    }
    if (err != 0) {
        return err;
    }
    if (name_is_dot(text) || name_is_dot_dot(text)) {
        err = -EEXIST;
    } else {
        err = link_object(change.fds[0], change.fds[1], text);
    }
    return change_end(&change, err, JOURNAL_FSYNC);
}
