/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller may do: asked of the kernel with faccessat2(2) under the caller's identity, so that
 * access control lists and whatever else the file system knows are obeyed. Answers are shared within
 * a batch, as attributes are (attr.c).
 */
#include "vfs/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool same_caller(const struct object_seen *seen, const struct vfs_call *call)
{
    return seen->fsuid == call->fsuid && seen->fsgid == call->fsgid &&
           seen->fsgid_count == call->fsgid_count &&
           memcmp(seen->fsgids, call->fsgids, call->fsgid_count * sizeof call->fsgids[0]) == 0;
}

static bool recall(const struct vfs_call *call, struct vfs_object *object, uint32_t want,
                   uint32_t *granted)
{
    struct object_seen *seen = &object->seen;
    bool found = false;
    if (call->batch != 0 && !atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        found = seen->access_batch == call->batch && (want & ~seen->access_asked) == 0 &&
                same_caller(seen, call);
        *granted = seen->access_granted & want;
        atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    }
    return found;
}

static void remember(const struct vfs_call *call, struct vfs_object *object, uint32_t want,
                     uint32_t granted)
{
    struct object_seen *seen = &object->seen;
    if (call->batch != 0 && !atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        seen->access_batch = call->batch;
        seen->access_asked = want;
        seen->access_granted = granted;
        seen->fsuid = call->fsuid;
        seen->fsgid = call->fsgid;
        seen->fsgid_count = call->fsgid_count;
        memcpy(seen->fsgids, call->fsgids, call->fsgid_count * sizeof call->fsgids[0]);
        atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    }
}

static int ask(int fd, uint32_t want)
{
    int mode = ((want & VFS_MAY_READ) != 0 ? R_OK : 0) | ((want & VFS_MAY_WRITE) != 0 ? W_OK : 0) |
               ((want & VFS_MAY_EXEC) != 0 ? X_OK : 0);
    return syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) == 0 ? 0 : -errno;
}

static bool is_refusal(int err)
{
    return err == -EACCES || err == -EPERM || err == -EROFS || err == -ETXTBSY;
}

/* Which of want are granted; *refusal is why one is not. */
static int granted_of(const struct vfs_call *call, struct vfs_object *object, uint32_t want,
                      uint32_t *granted, int *refusal)
{
    int fd;
    *refusal = -EACCES;
    if (recall(call, object, want, granted)) {
        return 0;
    }
    int err = object_fd(object, OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    cred_take(call);
    *granted = 0;
    err = ask(fd, want);
    if (err == 0) {
        *granted = want;
    } else if (!is_refusal(err)) {
        return err;
    } else {
        *refusal = err;
        for (uint32_t bit = VFS_MAY_READ; bit <= VFS_MAY_EXEC && want != bit; bit <<= 1) {
            if ((want & bit) != 0 && ask(fd, bit) == 0) {
                *granted |= bit;
            }
        }
    }
    remember(call, object, want, *granted);
    return 0;
}

int access_check(const struct vfs_call *call, struct vfs_object *object, uint32_t want)
{
    uint32_t granted;
    int refusal;
    int err = granted_of(call, object, want, &granted, &refusal);
    if (err != 0) {
        return err;
    }
    return granted == want ? 0 : refusal;
}

int access_data(const struct vfs_call *call, struct vfs_object *object,
                const struct vfs_attr *attr, uint32_t want)
{
    /* RFC 1813 §4.4: a client lets a program that has a file open go on after its mode changed; the
     * server cannot know of the open, so the owner may. Root may as on any Linux file system. */
    if (call->fsuid == attr->uid || call->fsuid == 0) {
        return 0;
    }
    int err = access_check(call, object, want);
    if (err == -EACCES && want == VFS_MAY_READ && attr->type == VFS_REG) {
        /* RFC 1813 §4.4 again: to run a program a client must read it. */
        err = access_check(call, object, VFS_MAY_EXEC);
    }
    return err;
}

int vfs_access(struct vfs_call *call, struct vfs_node *node, uint32_t want, uint32_t *granted)
{
    int refusal;
    *granted = 0;
    int err = attr_of_node(call, node);
    if (err != 0) {
        return err;
    }
    if (!call->options->rw) {
        want &= ~VFS_MAY_WRITE;
    }
    return want == 0 ? 0 : granted_of(call, node->object, want, granted, &refusal);
}
