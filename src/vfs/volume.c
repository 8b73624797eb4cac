/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a directory to be exported, of a file system that has file handles.
 *
 * Paths start at a private clone of the mount (open_tree(2)) whose root is the export's directory.
 * Nothing is mounted on the clone, so no name leads to a file system mounted below the export, and
 * the kernel lets no ".." leave it. Where a clone is not permitted the mount itself is used, and
 * every name is checked to stay on it (handle_of).
 *
 * A clone also outlives what happens to the mount. volume_is_at tells whether the path still leads
 * to what was opened.
 *
 * The export's id, in every handle, is a hash of the file system's UUID and of the directory's
 * handle, or of fsid= where that is given: it stays the same over restarts, renames of the export
 * and moves to another device node.
 */
#include "vfs/internal.h"
#include "vfs/outside.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
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

bool volume_keeps_order(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0 || (fs.f_flags & ST_RDONLY) != 0) {
        return false;
    }
    uint32_t magic = (uint32_t)fs.f_type;
    return magic == EXT4_MAGIC || magic == XFS_MAGIC || magic == BTRFS_MAGIC;
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

/* Not a secret: it spreads the bits, and keeps our ids apart from other hashes. */
static const uint8_t id_key[SIPHASH_KEY_BYTES] = "holdfast exports";

static void identify(struct vfs_export *export, const struct file_handle *root, const uint8_t *fsid)
{
    uint8_t bytes[UUID_BYTES + 2 + HANDLE_KERNEL_BYTES_MAX];
    size_t size = UUID_BYTES;

    if (fsid != NULL) {
        memcpy(bytes, fsid, UUID_BYTES);
        uint64_t words[2];
        memcpy(words, fsid, sizeof words);
        export->fsid = be64toh(words[0]) ^ be64toh(words[1]);
    } else {
        identify_fs(export->mount_fd, bytes);
        bytes[size++] = (uint8_t)root->handle_type;
        bytes[size++] = (uint8_t)root->handle_bytes;
        memcpy(bytes + size, root->f_handle, root->handle_bytes);
        size += root->handle_bytes;
    }
    export->id = siphash(id_key, bytes, size);
    if (fsid == NULL) {
        export->fsid = export->id;
    }
}

/* The root's handle, and proof that handles work here. */
static int open_root_handle(struct vfs_export *export, union handle_kernel *root, struct err *err)
{
    const char *path = export->path;
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
    if (export->vfs->is_plain) {
        return 0;
    }
    int fd = open_by_handle_at(export->mount_fd, &root->head, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno,
                       "cannot export %s: its file system does not open files by handle (%s)%s",
                       path, strerror(errno),
                       errno == EPERM ? "; in a user namespace only a user who is not its root "
                                        "can serve"
                                      : "");
    }
    close(fd);
    return 0;
}

/* The path, without symbolic links from then on, and its descriptors. */
static int open_directory(struct vfs_export *export, const char *path, struct err *err)
{
    struct outside_tree tree;
    struct statvfs fs;
    struct stat st;
    int error = outside_open(path, &tree);
    if (error == -ELOOP) {
        return err_set(err, error,
                       "cannot export %s: the way there is a symbolic link that lies in an export, "
                       "where clients could change it, or one that leads in a circle",
                       path);
    }
    if (error == -EINVAL) {
        return err_set(err, error,
                       "cannot export %s: what is mounted there cannot be cloned, as something "
                       "unbindable cannot (mount(8)); only without a sandbox it could be served",
                       path);
    }
    if (error != 0) {
        return err_set(err, error, "cannot export %s: %s", path, strerror(-error));
    }
    export->tree_fd = tree.fd;
    export->is_clone = tree.is_clone;
    export->has_journal = tree.has_journal;
    export->outside_place = tree.place;
    export->path = strdup(tree.look.real);
    if (export->path == NULL) {
        return err_set(err, -ENOMEM, "no memory for the export %s", path);
    }
    if (fstat(export->tree_fd, &st) != 0) {
        return err_set(err, -errno, "cannot export %s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, -ENOTDIR, "cannot export %s: it is not a directory", path);
    }
    if (st.st_dev != tree.look.dev || st.st_ino != tree.look.ino) {
        return err_set(err, -ESTALE, "cannot export %s: it changed while it was opened", path);
    }
    export->dev = st.st_dev;
    export->ino = st.st_ino;
    export->origin_id = tree.look.mount_id;
    export->mount_fd = openat(export->tree_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (export->mount_fd < 0 || fstatvfs(export->mount_fd, &fs) != 0) {
        return err_set(err, -errno, "cannot export %s: %s", path, strerror(errno));
    }
    export->mount_flags = fs.f_flag;
    return 0;
}

int volume_open(struct vfs *vfs, const char *path, const uint8_t *fsid, struct vfs_export **result,
                struct err *err)
{
    union handle_kernel root;
    struct vfs_export *export = calloc(1, sizeof *export);
    if (export == NULL) {
        return err_set(err, -ENOMEM, "no memory for the export %s", path);
    }
    *export =
        (struct vfs_export){.vfs = vfs, .tree_fd = -1, .mount_fd = -1, .hidden = {-1, -1, -1, -1}};
    atomic_init(&export->ref_count, 1);
    int error = open_directory(export, path, err);
    if (error == 0) {
        error = open_root_handle(export, &root, err);
    }
    if (error != 0) {
        volume_put(export);
        return error;
    }
    identify(export, &root.head, fsid);
    uint32_t magic = magic_of(export->mount_fd);
    export->has_true_ctime = keeps_ctime(magic);
    export->has_hash_cookies = magic == EXT4_MAGIC;
    handle_make(export, &root.head, &export->root);
    if (vfs->is_plain && (export->ways = ways_new(&export->root)) == NULL) {
        volume_put(export);
        return err_set(err, -ENOMEM, "no memory for the export %s", path);
    }
    *result = export;
    return 0;
}

int volume_set_apart(struct vfs_export *export)
{
    union handle_kernel root;
    uint64_t words[2] = {export->id, siphash(id_key, export->path, strlen(export->path))};
    export->id = siphash(id_key, words, sizeof words);
    export->fsid = export->id;
    handle_kernel_part(export->root.bytes, &root);
    handle_make(export, &root.head, &export->root);
    if (export->ways != NULL) {
        ways_free(export->ways);
        export->ways = ways_new(&export->root);
        return export->ways != NULL ? 0 : -ENOMEM;
    }
    return 0;
}

struct vfs_export *volume_get(struct vfs_export *export)
{
    atomic_fetch_add_explicit(&export->ref_count, 1, memory_order_relaxed);
    return export;
}

void volume_put(struct vfs_export *export)
{
    if (export == NULL ||
        atomic_fetch_sub_explicit(&export->ref_count, 1, memory_order_acq_rel) != 1) {
        return;
    }
    hidden_close(export);
    ways_free(export->ways);
    if (export->mount_fd >= 0) {
        close(export->mount_fd);
    }
    if (export->tree_fd >= 0) {
        close(export->tree_fd);
        outside_release(export->outside_place);
    }
    free(export->wish);
    free(export->path);
    free(export);
}

bool volume_is_same(const struct vfs_export *a, const struct vfs_export *b)
{
    return a->origin_id == b->origin_id && a->dev == b->dev && a->ino == b->ino;
}

bool volume_is_at(const struct vfs_export *export, const char *path)
{
    struct outside_look look;
    return outside_look(path, &look) == 0 && look.mount_id == export->origin_id &&
           look.dev == export->dev && look.ino == export->ino;
}
