/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller may do: asked of the kernel with faccessat2(2) under the caller's identity, so that
 * access control lists and whatever else the file system knows are obeyed.
 *
 * Answers are shared within a batch, as attributes are (attr.c), and beyond it while the object's
 * ctime says that nothing they depend on has changed (names.c has the argument); for a few seconds,
 * since a security module may have reasons of its own.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCESS_TICKS_MAX 2 /* of a second each */

static bool same_caller(const struct object_seen *seen, const struct vfs_call *call)
{
    return seen->fsuid == call->fsuid && seen->fsgid == call->fsgid &&
           cred_same_groups(call, seen->fsgids_number, seen->fsgid_count, seen->fsgids);
}

static bool is_current(const struct object_seen *seen, const struct vfs_call *call,
                       const struct vfs_attr *attr)
{
    if (seen->access_batch == call->batch && call->batch != 0) {
        return true;
    }
    return seen->access_certain && same_time(&seen->access_ctime, &attr->ctime) &&
           atomic_load(&call->vfs->objects.tick) - seen->access_tick <= ACCESS_TICKS_MAX;
}

static bool recall(const struct vfs_call *call, struct vfs_object *object,
                   const struct vfs_attr *attr, uint32_t want, uint32_t *granted)
{
    struct object_seen *seen = &object->seen;
    bool found = false;
    if (!atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        found = (want & ~seen->access_asked) == 0 && is_current(seen, call, attr) &&
                same_caller(seen, call);
        *granted = seen->access_granted & want;
        atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    }
    return found;
}

static void remember(const struct vfs_call *call, struct vfs_object *object,
                     const struct timespec *ctime, uint32_t want, uint32_t granted)
{
    struct object_seen *seen = &object->seen;
    if (!atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        seen->access_batch = call->batch;
        seen->access_certain = ctime != NULL;
        seen->access_ctime = ctime != NULL ? *ctime : (struct timespec){0};
        seen->access_tick = atomic_load(&call->vfs->objects.tick);
        seen->access_asked = want;
        seen->access_granted = granted;
        seen->fsuid = call->fsuid;
        seen->fsgid = call->fsgid;
        seen->fsgid_count = call->fsgid_count;
        seen->fsgids_number = call->fsgids_number;
        if (call->fsgids_number == 0) {
            memcpy(seen->fsgids, call->fsgids, call->fsgid_count * sizeof call->fsgids[0]);
        }
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

/* Without the question whose answer is known: a file that has no execute bit is run by nobody, root
 * and access control lists (whose entries are bounded by the group's bits) included. */
static uint32_t possible(const struct vfs_attr *attr, uint32_t want)
{
    return attr->type == VFS_REG && (attr->mode & 0111) == 0 ? want & ~VFS_MAY_EXEC : want;
}

/* Asks for all, and if that is refused for each. *refusal is why one is not granted. */
static int ask_each(int fd, uint32_t want, uint32_t *granted, int *refusal)
{
    *granted = 0;
    int err = want == 0 ? 0 : ask(fd, want);
    if (err == 0) {
        *granted = want;
        return 0;
    }
    if (!is_refusal(err)) {
        return err;
    }
    *refusal = err;
    for (uint32_t bit = VFS_MAY_READ; bit <= VFS_MAY_EXEC && want != bit; bit <<= 1) {
        if ((want & bit) != 0 && ask(fd, bit) == 0) {
            *granted |= bit;
        }
    }
    return 0;
}

static int granted_of(const struct vfs_call *call, struct vfs_object *object,
                      const struct vfs_attr *attr, uint32_t want, uint32_t *granted, int *refusal)
{
    int fd;
    *refusal = -EACCES;
    if (recall(call, object, attr, want, granted)) {
        return 0;
    }
    int err = object_fd(object, OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    cred_take(call);
    bool settled = ctime_is_settled(object->export, &attr->ctime);
    err = ask_each(fd, possible(attr, want), granted, refusal);
    if (err == 0) {
        remember(call, object, settled ? &attr->ctime : NULL, want, *granted);
    }
    return err;
}

int access_check(const struct vfs_call *call, struct vfs_object *object,
                 const struct vfs_attr *attr, uint32_t want)
{
    uint32_t granted;
    int refusal;
    int err = granted_of(call, object, attr, want, &granted, &refusal);
    if (err != 0) {
        return err;
    }
    return granted == want ? 0 : refusal;
}

int access_data(const struct vfs_call *call, struct vfs_object *object, const struct vfs_attr *attr,
                uint32_t want)
{
    /* RFC 1813 §4.4: a client lets a program that has a file open go on after its mode changed; the
     * server cannot know of the open, so the owner may. Root may as on any Linux file system. */
    if (call->fsuid == attr->uid || call->fsuid == 0) {
        return 0;
    }
    int err = access_check(call, object, attr, want);
    if (err == -EACCES && want == VFS_MAY_READ && attr->type == VFS_REG) {
        /* RFC 1813 §4.4 again: to run a program a client must read it. */
        err = access_check(call, object, attr, VFS_MAY_EXEC);
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
    return want == 0 ? 0 : granted_of(call, node->object, &node->attr, want, granted, &refusal);
}
