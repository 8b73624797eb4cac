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
 *
 * A process of a plain user has none of them, and acts as that user, whoever calls.
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
    uint64_t gids_number;
    uint32_t gids[VFS_GIDS_MAX]; /* if that is 0 */
    uint32_t managed_gids[GROUP_COUNT_MAX]; /* struct vfs_call.fsgids may be these */
};

static _Thread_local struct cred_thread thread;

/* A plain user's process: there is one identity, and threads keep it. */
static bool is_plain;

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

static const struct {
    int capability;
    const char *name, *reason;
} needed[] = {
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "open files by their handles"},
    {CAP_SETUID, "CAP_SETUID", "act as the users who call"},
    {CAP_SETGID, "CAP_SETGID", "act as the groups of the users who call"},
};

/* Index of the first one that the process lacks, or how many there are. */
static size_t find_lacking(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    size_t i = 0;
    if (syscall(SYS_capget, &head, data) != 0) {
        return 0;
    }
    while (i < COUNT_OF(needed) && (data[CAP_TO_INDEX(needed[i].capability)].effective &
                                    CAP_TO_MASK(needed[i].capability)) != 0) {
        i++;
    }
    return i;
}

bool vfs_is_plain_user(void)
{
    return geteuid() != 0 && find_lacking() < COUNT_OF(needed);
}

int cred_begin_process(struct err *err)
{
    size_t lacking = find_lacking();
    is_plain = vfs_is_plain_user();
    if (lacking < COUNT_OF(needed) && !is_plain) {
        return err_set(err, -EPERM,
                       "this root lacks %s, which it needs to %s: give it the capability, or run "
                       "the server as a user who is not root",
                       needed[lacking].name, needed[lacking].reason);
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
        if (!is_plain) {
            syscall(SYS_setfsuid, 0);
            syscall(SYS_setfsgid, 0);
        }
        thread.fsuid = 0;
        thread.fsgid = 0;
        thread.ids_known = true;
    }
}

void cred_take_root(void)
{
    begin_if_new();
    if (LIKELY(!is_plain)) {
        take_fsuid(0);
    }
}

bool cred_same_groups(const struct vfs_call *call, uint64_t number, uint32_t count,
                      const uint32_t *gids)
{
    return call->fsgids_number == number && call->fsgid_count == count &&
           (number != 0 || count == 0 || memcmp(call->fsgids, gids, count * sizeof gids[0]) == 0);
}

static void take_groups(const struct vfs_call *call)
{
    syscall(SYS_setgroups, (size_t)call->fsgid_count, call->fsgids);
    if (call->fsgids_number == 0 && call->fsgid_count > 0) {
        memcpy(thread.gids, call->fsgids, call->fsgid_count * sizeof thread.gids[0]);
    }
    thread.gids_number = call->fsgids_number;
    thread.gid_count = call->fsgid_count;
    thread.groups_known = true;
}

void cred_take(const struct vfs_call *call)
{
    begin_if_new();
    if (UNLIKELY(is_plain)) {
        return;
    }
    if (!thread.groups_known ||
        !cred_same_groups(call, thread.gids_number, thread.gid_count, thread.gids)) {
        take_groups(call);
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
    if (is_plain) {
        return 0; /* the kernel tells a user of their own */
    }
    if (syscall(SYS_setresgid, -1, gid, -1) != 0 || syscall(SYS_setresuid, -1, uid, -1) != 0) {
        return -errno;
    }
    return 0;
}

void cred_be_root(void)
{
    if (is_plain) {
        return;
    }
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

/* Squashes so many groups in place; whether that changed one. */
static bool squash_gids(const struct export_options *options, uint32_t *gids, uint32_t count)
{
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gid = squash_id(gids[i], options->root_squash, options->anongid);
        changed = changed || gid != gids[i];
        gids[i] = gid;
    }
    return changed;
}

/* As mountd(8), --manage-gids: the first group stays the one of the credential, so that newgrp(1)
 * works on clients. The number tells lists that were squashed in different ways apart. */
static int take_managed_gids(struct vfs_call *call)
{
    const struct export_options *options = call->options;
    uint32_t number;
    int err =
        groups_of_user(call->vfs, call->uid, thread.managed_gids, &call->fsgid_count, &number);
    if (err != 0) {
        return err;
    }
    bool changed = squash_gids(options, thread.managed_gids, call->fsgid_count);
    call->fsgids = thread.managed_gids;
    call->fsgids_number = (uint64_t)number << 33;
    if (changed) {
        call->fsgids_number |= UINT64_C(1) << 32 | options->anongid;
    }
    return 0;
}

int cred_squash(struct vfs_call *call)
{
    const struct export_options *options = call->options;
    call->fsgid_count = 0;
    call->fsgids = call->squashed_gids;
    call->fsgids_number = 0;
    if (UNLIKELY(is_plain)) {
        call->fsuid = geteuid();
        call->fsgid = getegid();
        return 0;
    }
    if (call->anonymous || options->all_squash) {
        call->fsuid = options->anonuid;
        call->fsgid = options->anongid;
        return 0;
    }
    call->fsuid = squash_id(call->uid, options->root_squash, options->anonuid);
    call->fsgid = squash_id(call->gid, options->root_squash, options->anongid);
    if (options->manage_gids || call->vfs->options.manage_gids) {
        return take_managed_gids(call);
    }
    call->fsgid_count = call->gid_count < VFS_GIDS_MAX ? call->gid_count : VFS_GIDS_MAX;
    memcpy(call->squashed_gids, call->gids, call->fsgid_count * sizeof call->gids[0]);
    (void)squash_gids(options, call->squashed_gids, call->fsgid_count);
    return 0;
}
