/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of the calling thread, so that the file system itself decides what a caller may do.
 *
 * setfsuid(2), setfsgid(2) and setgroups(2) are used as raw system calls: the kernel keeps identity
 * per thread, and only the C library spreads it over the process. Each is remembered, because a
 * steady caller must cost nothing (a switch is about 2.5 µs).
 *
 * Leaving fsuid 0 drops the capabilities that override file permissions, and CAP_DAC_READ_SEARCH
 * with them; returning to it brings them back (capabilities(7)). CAP_SYS_RESOURCE is not among
 * them: it would let writes pass quotas and use reserved blocks, so threads give it up at the
 * start.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct cred_thread {
    bool begun;
    bool ids_known;
    bool groups_known;
    uint32_t fsuid;
    uint32_t fsgid;
    uint32_t gid_count;
    uint32_t gids[VFS_GIDS_MAX];
};

static _Thread_local struct cred_thread thread;

static void drop_resource_capability(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, data) == 0) {
        data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
        syscall(SYS_capset, &head, data);
    }
}

void vfs_thread_begin(void)
{
    if (!thread.begun) {
        thread.begun = true;
        umask(0); /* of the whole process; modes come from clients, who applied their own */
        drop_resource_capability();
    }
}

int cred_check_process(struct err *err)
{
    static const struct {
        int capability;
        const char *name, *reason;
    } needed[] = {
        {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "open files by their handles"},
        {CAP_SETUID, "CAP_SETUID", "act as the users who call"},
        {CAP_SETGID, "CAP_SETGID", "act as the groups of the users who call"},
    };
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &head, data) != 0) {
        return err_set(err, -errno, "cannot read the process's capabilities: %s", strerror(errno));
    }
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        int capability = needed[i].capability;
        if ((data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) == 0) {
            return err_set(err, -EPERM, "the server lacks %s, which it needs to %s: run it as root",
                           needed[i].name, needed[i].reason);
        }
    }
    return 0;
}

static void take_fsuid(uint32_t fsuid)
{
    if (!thread.ids_known || thread.fsuid != fsuid) {
        syscall(SYS_setfsuid, fsuid);
        thread.fsuid = fsuid;
    }
}

static void begin_if_new(void)
{
    if (UNLIKELY(!thread.ids_known)) {
        vfs_thread_begin();
        syscall(SYS_setfsuid, 0);
        syscall(SYS_setfsgid, 0);
        thread.fsuid = 0;
        thread.fsgid = 0;
        thread.ids_known = true;
    }
}

void cred_take_root(void)
{
    begin_if_new();
    take_fsuid(0);
}

void cred_take(const struct vfs_call *call)
{
    begin_if_new();
    size_t gids_bytes = call->fsgid_count * sizeof call->fsgids[0];
    if (!thread.groups_known || thread.gid_count != call->fsgid_count ||
        memcmp(thread.gids, call->fsgids, gids_bytes) != 0) {
        syscall(SYS_setgroups, (size_t)call->fsgid_count, call->fsgids);
        memcpy(thread.gids, call->fsgids, gids_bytes);
        thread.gid_count = call->fsgid_count;
        thread.groups_known = true;
    }
    if (thread.fsgid != call->fsgid) {
        syscall(SYS_setfsgid, call->fsgid);
        thread.fsgid = call->fsgid;
    }
    take_fsuid(call->fsuid);
}

/* The effective ids are the process's own, 0, but for the moment of cred_be: the kernel makes the
 * identity for files follow them, and gives all permitted capabilities back with them. */
int cred_be(uint32_t uid, uint32_t gid)
{
    begin_if_new();
    if (syscall(SYS_setresgid, -1, gid, -1) != 0 || syscall(SYS_setresuid, -1, uid, -1) != 0) {
        return -errno;
    }
    return 0;
}

void cred_be_root(void)
{
    bool is_root = syscall(SYS_setresuid, -1, 0, -1) == 0 && syscall(SYS_setresgid, -1, 0, -1) == 0;
    CHECK(is_root);
    drop_resource_capability();
    thread.fsuid = 0;
    thread.fsgid = 0;
}

/* exports(5), "User ID mapping". (uint32_t)-1 is no id: the kernel would keep the last one. */
static uint32_t squash_id(uint32_t id, bool root_squash, uint32_t anonymous)
{
    return (id == 0 && root_squash) || id == UINT32_MAX ? anonymous : id;
}

void cred_squash(struct vfs_call *call)
{
    const struct export_options *options = call->options;
    if (call->anonymous || options->all_squash) {
        call->fsuid = options->anonuid;
        call->fsgid = options->anongid;
        call->fsgid_count = 0;
        return;
    }
    bool root_squash = options->root_squash;
    call->fsuid = squash_id(call->uid, root_squash, options->anonuid);
    call->fsgid = squash_id(call->gid, root_squash, options->anongid);
    call->fsgid_count = call->gid_count < VFS_GIDS_MAX ? call->gid_count : VFS_GIDS_MAX;
    for (uint32_t i = 0; i < call->fsgid_count; i++) {
        call->fsgids[i] = squash_id(call->gids[i], root_squash, options->anongid);
    }
}
