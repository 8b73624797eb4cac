/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's side of byte-range locks. One open file description holds for each byte what the
 * table's owners hold of it together: nothing, a shared lock, or the exclusive one.
 *
 * It is open for reading until somebody wants an exclusive lock, so that programs which clients
 * merely lock shared can be executed on the server.
 */
#include "vfs/range_kernel.h"

#include <errno.h>
#include <fcntl.h>

#define OFFSET_MAX ((uint64_t)INT64_MAX)

/* False: the kernel has no such offsets. */
static bool to_flock(short type, uint64_t start, uint64_t end, struct flock *flock)
{
    *flock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)start};
    flock->l_len = end >= OFFSET_MAX ? 0 : (off_t)(end - start + 1);
    return start <= OFFSET_MAX;
}

static int set(int fd, short type, uint64_t start, uint64_t end)
{
    struct flock flock;
    if (!to_flock(type, start, end, &flock) || fcntl(fd, F_OFD_SETLK, &flock) == 0) {
        return 0;
    }
    switch (errno) {
    case EAGAIN:
    case EACCES:
        return -EAGAIN;
    case EBADF:
        return -EROFS; /* not open for writing */
    default:
        return -ENOLCK;
    }
}

int range_kernel_set(int fd, const struct range_request *request)
{
    return set(fd, request->exclusive ? F_WRLCK : F_RDLCK, request->start, request->end);
}

int range_kernel_test(int fd, const struct range_request *request, struct range_request *found,
                      int32_t *pid)
{
    struct flock flock;
    if (!to_flock(request->exclusive ? F_WRLCK : F_RDLCK, request->start, request->end, &flock)) {
        return 0;
    }
    if (fcntl(fd, F_OFD_GETLK, &flock) != 0) {
        return -ENOLCK;
    }
    if (flock.l_type == F_UNLCK) {
        return 0;
    }
    found->exclusive = flock.l_type == F_WRLCK;
    found->start = (uint64_t)flock.l_start;
    found->end = flock.l_len == 0 ? RANGE_END : (uint64_t)(flock.l_start + flock.l_len - 1);
    *pid = flock.l_pid > 0 ? flock.l_pid : 0; /* an open file description has none */
    return -EAGAIN;
}

void range_kernel_free_gaps(int fd, const struct range_file *file, uint64_t start, uint64_t end)
{
    uint64_t gap_start, gap_end;
    while (range_gap(file, start, end, &gap_start, &gap_end)) {
        (void)set(fd, F_UNLCK, gap_start, gap_end);
        if (gap_end >= end) {
            return;
        }
        start = gap_end + 1;
    }
}

int range_kernel_agree(int fd, const struct range_file *file, uint64_t start, uint64_t end)
{
    int err = 0;
    range_kernel_free_gaps(fd, file, start, end);
    for (int exclusive = 0; exclusive <= 1 && err == 0; exclusive++) {
        struct range_node *root = file->held[exclusive];
        struct range_node *node = range_tree_first(root, start, end);
        for (; node != NULL && err == 0; node = range_tree_next(root, node, start, end)) {
            err = set(fd, exclusive ? F_WRLCK : F_RDLCK, node->start, node->end);
        }
    }
    return err;
}
