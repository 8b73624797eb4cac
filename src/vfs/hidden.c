/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Holdfast keeps in an exported file system, in a directory of the export's root that no
 * client sees, whatever the name of the client's user:
 *
 *     .holdfast/README     what this is; its fsync flushes the device
 *     .holdfast/pool/      empty inodes for new files and directories (pool.c)
 *     .holdfast/staging/   what replay has taken from a wrong name (replay.c)
 *     .holdfast/journal    the log, if it is kept here (intent.c)
 *     .holdfast/in-use     which log has changes of this export (intent_note.c)
 *
 * The pool must give plain inodes, so the directories have no default ACL and no setgid bit,
 * whatever the export's root has.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char readme[] =
    "This directory belongs to the NFS server holdfast. NFS clients do not see it. It holds the\n"
    "intent log of this export, and empty files that new files are made from. Do not change\n"
    "anything here while the server runs. When the server has been stopped, and no longer serves\n"
    "this directory, all of it may be removed.\n";

/* Also seen from an export above. */
bool hidden_is_in(const struct vfs_node *dir)
{
    return object_is_root_of(dir->object, dir->export) ||
           intent_has_root(dir->export->vfs, dir->object);
}

bool hidden_is(const struct vfs_node *dir, const char *name)
{
    return name[0] == '.' && strcmp(name, HIDDEN_NAME) == 0 && hidden_is_in(dir);
}

/* A plain directory of root's. */
static int open_dir(int parent_fd, const char *name)
{
    if (mkdirat(parent_fd, name, 0700) != 0 && errno != EEXIST) {
        return -errno;
    }
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    (void)fremovexattr(fd, "system.posix_acl_default");
    (void)fremovexattr(fd, "system.posix_acl_access");
    if (fchown(fd, 0, 0) != 0 || fchmod(fd, 0700) != 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

static int open_readme(int dir_fd)
{
    int fd = openat(dir_fd, "README", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    ssize_t size = (ssize_t)(sizeof readme - 1);
    if (pwrite(fd, readme, sizeof readme - 1, 0) != size || ftruncate(fd, size) != 0) {
        close(fd);
        return -ENOSPC;
    }
    return fd;
}

int hidden_open(struct vfs_export *export, struct err *err)
{
    struct hidden *hidden = &export->hidden;
    int error = 0;
    hidden->dir_fd = open_dir(export->mount_fd, HIDDEN_NAME);
    if (hidden->dir_fd < 0) {
        error = hidden->dir_fd;
    }
    if (error == 0 && (hidden->pool_fd = open_dir(hidden->dir_fd, "pool")) < 0) {
        error = hidden->pool_fd;
    }
    if (error == 0 && (hidden->staging_fd = open_dir(hidden->dir_fd, "staging")) < 0) {
        error = hidden->staging_fd;
    }
    if (error == 0 && (hidden->flush_fd = open_readme(hidden->dir_fd)) < 0) {
        error = hidden->flush_fd;
    }
    if (error == 0 && syncfs(export->mount_fd) != 0) {
        error = -errno;
    }
    if (error != 0) {
        hidden_close(export);
        return err_set(err, error, "%s/" HIDDEN_NAME ": %s", export->path, strerror(-error));
    }
    return 0;
}

void hidden_look(struct vfs_export *export)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct hidden *hidden = &export->hidden;
    hidden->dir_fd = openat(export->mount_fd, HIDDEN_NAME, flags);
    hidden->pool_fd = openat(hidden->dir_fd, "pool", flags);
    hidden->staging_fd = openat(hidden->dir_fd, "staging", flags);
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

void hidden_close(struct vfs_export *export)
{
    close_one(&export->hidden.flush_fd);
    close_one(&export->hidden.staging_fd);
    close_one(&export->hidden.pool_fd);
    close_one(&export->hidden.dir_fd);
}

void hidden_remove(struct vfs_export *export)
{
    const struct hidden *hidden = &export->hidden;
    unlinkat(hidden->dir_fd, "staging", AT_REMOVEDIR);
    unlinkat(hidden->dir_fd, "pool", AT_REMOVEDIR);
    unlinkat(hidden->dir_fd, "README", 0);
    unlinkat(export->mount_fd, HIDDEN_NAME, AT_REMOVEDIR);
    hidden_close(export);
}

/* syncfs may find nothing to commit and then not flush, though data written back before is still in
 * the device's cache; fsync of a regular file always flushes on ext4, xfs and btrfs. */
int hidden_sync(const struct vfs_export *export)
{
    if (syncfs(export->mount_fd) != 0 || fsync(export->hidden.flush_fd) != 0) {
        return -errno;
    }
    return 0;
}
