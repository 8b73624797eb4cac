/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire handle, byte by byte:
 *
 *     0      version, 1
 *     1      the kernel's handle type
 *     2      n, the kernel handle's length
 *     3      0
 *     4..11  the export's id, see volume.c
 *     12..   n bytes of the kernel's handle (ext4: 8, xfs: 12, btrfs: 20)
 *     last 8 SipHash-2-4 over everything before, under the state directory's key
 *
 * 1. Only what we made passes: a handle with a byte changed fails the MAC, so a client can neither
 *    move a handle to another export nor name an object that we did not name first.
 * 2. The kernel's handle holds inode number and generation, so an inode that is used again has
 *    another handle, and a renamed object has the same.
 * 3. The MAC is also the hash of the object table. A handle equal to one in the table, all bytes of
 *    it, is ours without computing the MAC again.
 */
#include "vfs/export_set.h"
#include "vfs/internal.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define HANDLE_VERSION 1
#define NFS2_HANDLE_BYTES 32 /* RFC 1094 §2.3.3: always */

static uint64_t load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

void handle_make(const struct vfs_export *export, const struct file_handle *kernel,
                 struct vfs_handle *handle)
{
    uint32_t size = HANDLE_HEAD_BYTES + kernel->handle_bytes;
    handle->bytes[0] = HANDLE_VERSION;
    handle->bytes[1] = (uint8_t)kernel->handle_type;
    handle->bytes[2] = (uint8_t)kernel->handle_bytes;
    handle->bytes[3] = 0;
    memcpy(handle->bytes + 4, &export->id, sizeof export->id);
    memcpy(handle->bytes + HANDLE_HEAD_BYTES, kernel->f_handle, kernel->handle_bytes);
    uint64_t mac = siphash(export->vfs->state.key, handle->bytes, size);
    memcpy(handle->bytes + size, &mac, sizeof mac);
    handle->size = size + HANDLE_MAC_BYTES;
}

int handle_of(const struct vfs_export *export, int dir_fd, const char *name, int flags,
              struct vfs_handle *handle)
{
    union handle_kernel kernel;
    int mount_id;
    kernel.head.handle_bytes = HANDLE_KERNEL_BYTES_MAX;
    if (name_to_handle_at(dir_fd, name, &kernel.head, &mount_id, flags) != 0) {
        return -errno;
    }
    if (mount_id != export->mount_id) {
        return -EXDEV;
    }
    if (kernel.head.handle_type < 0 || kernel.head.handle_type > UINT8_MAX) {
        return -EOVERFLOW;
    }
    handle_make(export, &kernel.head, handle);
    return 0;
}

uint64_t handle_hash(const uint8_t *bytes, uint32_t size_bytes)
{
    return load64(bytes + size_bytes - HANDLE_MAC_BYTES);
}

uint32_t handle_unpadded(const uint8_t *bytes, uint32_t size_bytes)
{
    static const uint8_t zeros[NFS2_HANDLE_BYTES];
    if (size_bytes != NFS2_HANDLE_BYTES) {
        return size_bytes;
    }
    uint32_t own = HANDLE_HEAD_BYTES + HANDLE_MAC_BYTES + bytes[2];
    bool padded = own < size_bytes && memcmp(bytes + own, zeros, size_bytes - own) == 0;
    return padded ? own : size_bytes;
}

int handle_check(struct vfs *vfs, const uint8_t *bytes, uint32_t size_bytes,
                 struct vfs_export **export)
{
    if (size_bytes < HANDLE_HEAD_BYTES + HANDLE_MAC_BYTES || size_bytes > VFS_HANDLE_BYTES_MAX ||
        bytes[0] != HANDLE_VERSION ||
        bytes[2] != size_bytes - HANDLE_HEAD_BYTES - HANDLE_MAC_BYTES) {
        return -EBADF;
    }
    uint64_t mac = siphash(vfs->state.key, bytes, size_bytes - HANDLE_MAC_BYTES);
    if (mac != handle_hash(bytes, size_bytes)) {
        return -EBADF;
    }
    uint64_t id = load64(bytes + 4);
    *export = export_set_of_id(vfs, id);
    return *export != NULL ? 0 : -ESTALE; /* no longer exported */
}

void handle_kernel_part(const uint8_t *bytes, union handle_kernel *kernel)
{
    kernel->head.handle_type = bytes[1];
    kernel->head.handle_bytes = bytes[2];
    memcpy(kernel->head.f_handle, bytes + HANDLE_HEAD_BYTES, bytes[2]);
}

static uint32_t load32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* The types of include/linux/exportfs.h, in the machine's byte order as the kernel leaves them. */
bool handle_fileid(const struct vfs_handle *handle, uint64_t *fileid)
{
    const uint8_t *kernel = handle->bytes + HANDLE_HEAD_BYTES;
    uint32_t type = handle->bytes[1];
    uint32_t size = handle->bytes[2];
    if (type == 1 && size == 8) { /* FILEID_INO32_GEN: ext4, xfs with small inode numbers, f2fs */
        *fileid = load32(kernel);
    } else if (type == 1 && size == 12) { /* tmpfs: generation, low, high */
        *fileid = load32(kernel + 4) | (uint64_t)load32(kernel + 8) << 32;
    } else if (type == 0x81 && size == 12) { /* xfs with large inode numbers */
        *fileid = load64(kernel);
    } else if (type == 0x4d && size == 20) { /* FILEID_BTRFS_WITHOUT_PARENT */
        *fileid = load64(kernel);
    } else {
        return false;
    }
    return true;
}
