/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening what an export entry names: a directory of a file system that has file handles.
 *
 * Paths start at a private clone of the mount (open_tree(2)) whose root is the export's directory.
 * Nothing is mounted on the clone, so no name leads to a file system mounted below the export, and
 * the kernel lets no ".." leave it. Where a clone is not permitted the mount itself is used, and
 * every name is checked to stay on it (handle_of).
 *
 * The export's id, in every handle, is a hash of the file system's UUID and of the directory's
 * handle, or of fsid= where that is given: it stays the same over restarts, renames of the export
 * and moves to another device node.
 */
#include "vfs/internal.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UUID_BYTES 16

/* linux/fs.h has it since 6.9. */
struct uuid_of_fs {
    uint8_t size;
    uint8_t uuid[UUID_BYTES];
};
#define IOCTL_UUID_OF_FS _IOR(0x15, 0, struct uuid_of_fs)

/* xfs_fs.h: the head of xfs_fsop_geom, whose uuid starts at byte 64. */
struct xfs_geometry {
    uint8_t before[64];
    uint8_t uuid[UUID_BYTES];
    uint8_t after[256 - 64 - UUID_BYTES];
};
#define IOCTL_XFS_GEOMETRY _IOR('X', 126, struct xfs_geometry)

/* linux/btrfs.h: the head of btrfs_ioctl_fs_info_args. */
struct btrfs_info {
    uint64_t max_id;
    uint64_t num_devices;
    uint8_t fsid[UUID_BYTES];
    uint8_t after[1024 - 16 - UUID_BYTES];
};
#define IOCTL_BTRFS_INFO _IOR(0x94, 31, struct btrfs_info)

/* ext4.h: EXT4_IOC_GETFSUUID. */
struct ext4_uuid {
    uint32_t size;
    uint32_t flags;
    uint8_t uuid[UUID_BYTES];
};
#define IOCTL_EXT4_UUID                                                                            \
    _IOR(                                                                                          \
        'f', 44, struct {                                                                          \
            uint32_t size;                                                                         \
            uint32_t flags;                                                                        \
        })

#define EXT4_MAGIC 0xef53
#define XFS_MAGIC 0x58465342
#define BTRFS_MAGIC 0x9123683e
#define TMPFS_MAGIC 0x01021994
#define F2FS_MAGIC 0xf2f52010

static bool uuid_of_fs(int fd, uint8_t uuid[UUID_BYTES])
{
    struct uuid_of_fs answer = {0};
    if (ioctl(fd, IOCTL_UUID_OF_FS, &answer) != 0 || answer.size != UUID_BYTES) {
        return false;
    }
    memcpy(uuid, answer.uuid, UUID_BYTES);
    return true;
}

static bool uuid_of_known_fs(int fd, long magic, uint8_t uuid[UUID_BYTES])
{
    if (magic == EXT4_MAGIC) {
        struct ext4_uuid answer = {.size = UUID_BYTES};
        if (ioctl(fd, IOCTL_EXT4_UUID, &answer) == 0) {
            memcpy(uuid, answer.uuid, UUID_BYTES);
            return true;
        }
    } else if (magic == XFS_MAGIC) {
        struct xfs_geometry answer = {0};
        if (ioctl(fd, IOCTL_XFS_GEOMETRY, &answer) == 0) {
            memcpy(uuid, answer.uuid, UUID_BYTES);
            return true;
        }
    } else if (magic == BTRFS_MAGIC) {
        struct btrfs_info answer = {0};
        if (ioctl(fd, IOCTL_BTRFS_INFO, &answer) == 0) {
            memcpy(uuid, answer.fsid, UUID_BYTES);
            return true;
        }
    }
    return false;
}

/* Something that names the file system, in 16 bytes. */
static void identify_fs(int fd, uint8_t uuid[UUID_BYTES])
{
    struct statfs fs = {0};
    memset(uuid, 0, UUID_BYTES);
    if (uuid_of_fs(fd, uuid)) {
        return;
    }
    if (fstatfs(fd, &fs) == 0 && !uuid_of_known_fs(fd, (long)fs.f_type, uuid)) {
        memcpy(uuid, &fs.f_fsid, sizeof fs.f_fsid);
        memcpy(uuid + sizeof fs.f_fsid, &fs.f_type, sizeof fs.f_type);
    }
}

/* 0: not known. */
static uint32_t magic_of(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 ? (uint32_t)fs.f_type : 0;
}

static bool keeps_ctime(uint32_t magic)
{
    return magic == EXT4_MAGIC || magic == XFS_MAGIC || magic == BTRFS_MAGIC ||
           magic == TMPFS_MAGIC || magic == F2FS_MAGIC;
}

/* fsid= of the entry's clients: one for all. */
static int choose_fsid(const struct export_entry *entry, const struct export_options **chosen,
                       struct err *err)
{
    *chosen = NULL;
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_options *options = &entry->clients[i].options;
        if (!options->has_fsid) {
            continue;
        }
        if (*chosen != NULL && memcmp((*chosen)->fsid, options->fsid, sizeof options->fsid) != 0) {
            return err_set(err, -EINVAL, "%s: two clients are given different fsid= values",
                           entry->path);
        }
        *chosen = options;
    }
    return 0;
}

static int identify(struct vfs_export *export, const struct file_handle *root, struct err *err)
{
    /* Not a secret: it spreads the bits, and keeps our ids apart from other hashes. */
    static const uint8_t key[SIPHASH_KEY_BYTES] = "holdfast exports";
    const struct export_options *fsid;
    uint8_t bytes[UUID_BYTES + 2 + HANDLE_KERNEL_BYTES_MAX];
    size_t size = UUID_BYTES;

    int error = choose_fsid(export->entry, &fsid, err);
    if (error != 0) {
        return error;
    }
    if (fsid != NULL) {
        memcpy(bytes, fsid->fsid, UUID_BYTES);
        uint64_t words[2];
        memcpy(words, fsid->fsid, sizeof words);
        export->fsid = be64toh(words[0]) ^ be64toh(words[1]);
    } else {
        identify_fs(export->mount_fd, bytes);
        bytes[size++] = (uint8_t)root->handle_type;
        bytes[size++] = (uint8_t)root->handle_bytes;
        memcpy(bytes + size, root->f_handle, root->handle_bytes);
        size += root->handle_bytes;
    }
    export->id = siphash(key, bytes, size);
    if (fsid == NULL) {
        export->fsid = export->id;
    }
    return 0;
}

static int open_path(const char *path)
{
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0 && (errno == EPERM || errno == ENOSYS || errno == EINVAL)) {
        fd = open(path, O_PATH | O_CLOEXEC);
    }
    return fd < 0 ? -errno : fd;
}

/* The root's handle, and proof that handles work here. */
static int open_root_handle(struct vfs_export *export, union handle_kernel *root, struct err *err)
{
    const char *path = export->entry->path;
    root->head.handle_bytes = HANDLE_KERNEL_BYTES_MAX;
    if (name_to_handle_at(export->mount_fd, "", &root->head, &export->mount_id, AT_EMPTY_PATH) !=
        0) {
        return errno == EOVERFLOW
                   ? err_set(err, -EOVERFLOW,
                             "cannot export %s: its file system's handles are over "
                             "%d bytes, which does not fit into an NFS handle",
                             path, HANDLE_KERNEL_BYTES_MAX)
                   : err_set(err, -errno,
                             "cannot export %s: its file system has no file handles (%s)", path,
                             strerror(errno));
    }
    if (root->head.handle_type < 0 || root->head.handle_type > UINT8_MAX) {
        return err_set(err, -EOVERFLOW, "cannot export %s: unknown kind of file handle %d", path,
                       root->head.handle_type);
    }
    int fd = open_by_handle_at(export->mount_fd, &root->head, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno,
                       "cannot export %s: its file system does not open files by handle "
                       "(%s)",
                       path, strerror(errno));
    }
    close(fd);
    return 0;
}

static int open_directory(struct vfs_export *export, struct err *err)
{
    const char *path = export->entry->path;
    struct stat st;
    export->tree_fd = open_path(path);
    if (export->tree_fd < 0) {
        return err_set(err, export->tree_fd, "cannot export %s: %s", path,
                       strerror(-export->tree_fd));
    }
    if (fstat(export->tree_fd, &st) != 0) {
        return err_set(err, -errno, "cannot export %s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, -ENOTDIR, "cannot export %s: it is not a directory", path);
    }
    export->dev = st.st_dev;
    export->mount_fd = openat(export->tree_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (export->mount_fd < 0) {
        return err_set(err, -errno, "cannot export %s: %s", path, strerror(errno));
    }
    return 0;
}

int volume_open(struct vfs *vfs, const struct export_entry *entry, struct vfs_export *export,
                struct err *err)
{
    union handle_kernel root;
    *export = (struct vfs_export){.vfs = vfs, .entry = entry, .tree_fd = -1, .mount_fd = -1};
    int error = open_directory(export, err);
    if (error == 0) {
        error = open_root_handle(export, &root, err);
    }
    if (error == 0) {
        error = identify(export, &root.head, err);
    }
    if (error != 0) {
        volume_close(export);
        return error;
    }
    uint32_t magic = magic_of(export->mount_fd);
    export->has_true_ctime = keeps_ctime(magic);
    export->has_hash_cookies = magic == EXT4_MAGIC;
    handle_make(export, &root.head, &export->root);
    return 0;
}

void volume_close(struct vfs_export *export)
{
    if (export->mount_fd >= 0) {
        close(export->mount_fd);
    }
    if (export->tree_fd >= 0) {
        close(export->tree_fd);
    }
    export->mount_fd = -1;
    export->tree_fd = -1;
}
