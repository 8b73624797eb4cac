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
#include <string.h>
#include <unistd.h>

/* What a name that is about to go leads to. */
struct victim {
    struct vfs_object *object; /* the cached one, with a reference; NULL if there is none */
    bool known;                /* handle and attr are right; else handle is a hint */
    struct vfs_handle handle;
    struct vfs_attr attr;
};

/* For the record it must be right. Else it is only to be looked at again when the name is gone: a
 * hint that is wrong means that the file system frees the real one a little later. */
static void find_victim(const struct change *change, uint32_t dir, const char *name,
                        struct victim *victim)
{
    const struct vfs_node *node = change->nodes[dir];
    struct vfs_export *export = node->export;
    int fd = change->fds[dir];
    struct stat st;
    *victim = (struct victim){0};
    if (export->ways != NULL) {
        /* With a descriptor, which tells whether the object is gone with the name. */
        if (name_open(export, fd, name, &victim->object) != 0) {
            victim->object = NULL;
        }
        return;
    }
    bool hinted =
        !change->logged && names_find(node->object, name, NULL, &victim->handle) == NAME_KNOWN;
    if (!hinted && handle_of(export, fd, name, 0, &victim->handle) != 0) {
        return;
    }
    victim->object = object_find(export->vfs, victim->handle.bytes, victim->handle.size);
    if (change->logged && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        attr_fill(export, &st, &victim->attr);
        victim->known = true;
    }
}

/* The name is gone from the victim. */
static void note_victim(struct change *change, const struct victim *victim)
{
    if (victim->known) {
        uint32_t nlink = victim->attr.type == VFS_DIR ? 0 : victim->attr.nlink - 1;
        change_state(change, victim->handle.bytes, &victim->attr, nlink);
    }
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
    struct victim victim;
    if (hidden_is(dir, name)) {
        return -ENOENT;
    }
    int err = change_begin(&change, call, &dir, 1,
                           flags == AT_REMOVEDIR ? JOURNAL_OP_RMDIR : JOURNAL_OP_REMOVE);
    if (err != 0) {
        return err;
    }
    find_victim(&change, 0, name, &victim);
    err = unlinkat(change.fds[0], name, flags) == 0 ? 0 : -errno;
    names_forget(dir->object, name);
    if (err == 0) {
        change_entry(&change, 0, name, NULL, victim.known ? &victim.handle : NULL);
        note_victim(&change, &victim);
    }
    err = change_end(&change, err, JOURNAL_FSYNC);
    bury(call, victim.object);
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

static bool is_same(const struct victim *a, const struct victim *b)
{
    return a->known && b->known && a->handle.size == b->handle.size &&
           memcmp(a->handle.bytes, b->handle.bytes, a->handle.size) == 0;
}

/* Two names of one file: rename(2) does nothing, and so there is nothing to note. */
static void note_rename(struct change *change, const char *from, const char *to,
                        const struct victim *moved, const struct victim *victim)
{
    if (!is_same(moved, victim)) {
        change_entry(change, 0, from, NULL, &moved->handle);
        change_entry(change, 1, to, &moved->handle, victim->known ? &victim->handle : NULL);
        note_victim(change, victim);
    }
}

static int rename_names(struct vfs_call *call, struct vfs_node *const dirs[2], const char *from,
                        const char *to)
{
    struct change change;
    struct victim victim;
    struct victim moved = {0};
    int err = change_begin(&change, call, dirs, 2, JOURNAL_OP_RENAME);
    if (err != 0) {
        return err;
    }
    if (change.logged || dirs[0]->export->ways != NULL) {
        find_victim(&change, 0, from, &moved);
    }
    find_victim(&change, 1, to, &victim);
    err = renameat(change.fds[0], from, change.fds[1], to) == 0 ? 0 : -errno;
    names_forget(dirs[0]->object, from);
    names_forget(dirs[1]->object, to);
    if (err == 0 && change.logged) {
        note_rename(&change, from, to, &moved, &victim);
    }
    if (err == 0 && moved.object != NULL && dirs[1]->export->ways != NULL) {
        ways_note(dirs[1]->object, to, moved.object->handle, moved.object->handle_size);
    }
    err = change_end(&change, err, JOURNAL_FSYNC);
    bury(call, victim.object);
    if (moved.object != NULL) {
        object_put(moved.object);
    }
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
    if (err == 0 && hidden_is(from_dir, from)) {
        err = -ENOENT;
    }
    if (err == 0 && hidden_is(to_dir, to)) {
        err = -EACCES;
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
    if (err == 0 && hidden_is(dir, text)) {
        err = -EACCES;
    }
    if (err == 0) {
        err = change_begin(&change, call, nodes, 2, JOURNAL_OP_LINK);
    }
    if (err != 0) {
        return err;
    }
    if (name_is_dot(text) || name_is_dot_dot(text)) {
        err = -EEXIST;
    } else {
        err = link_object(change.fds[0], change.fds[1], text);
    }
    if (err == 0) {
        struct vfs_handle handle;
        vfs_node_handle(node, &handle);
        change_entry(&change, 1, text, &handle, NULL);
        change.has_state[0] = true;
    }
    return change_end(&change, err, JOURNAL_FSYNC);
}
