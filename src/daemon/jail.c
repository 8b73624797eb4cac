/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TMPFS_OPTIONS "mode=0755,size=4m,nr_inodes=32k"
#define PLACES "/.exports"

/* ---- going there and back ---- */

static int enter(const struct jail *jail)
{
    return setns(jail->ns_fd, CLONE_NEWNS) == 0 ? 0 : -errno;
}

/* A process that is neither here nor there must not go on. */
static void leave(const struct jail *jail)
{
    bool is_back = setns(jail->host_ns_fd, CLONE_NEWNS) == 0 && fchdir(jail->host_root_fd) == 0 &&
                   chroot(".") == 0 && fchdir(jail->host_cwd_fd) == 0;
    CHECK(is_back);
}

/* ---- putting things into it ---- */

static int make_directories(const struct jail *jail, const char *path)
{
    char name[PATH_MAX];

    (void)snprintf(name, sizeof name, "%s", path);
    for (char *slash = strchr(name + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(jail->root_fd, name + 1, 0755) != 0 && errno != EEXIST) {
            return -errno;
        }
        *slash = '/';
    }
    return mkdirat(jail->root_fd, name + 1, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static int attach(const struct jail *jail, int tree_fd, const char *path, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};

    if (mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr, sizeof attr) != 0) {
        return -errno;
    }
    int err = make_directories(jail, path);
    if (err == 0) {
        err = enter(jail);
    }
    if (err == 0) {
        err = move_mount(tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0 ? 0 : -errno;
        leave(jail);
    }
    return err;
}

static int attach_path(const struct jail *jail, const char *from, const char *to,
                       uint64_t attributes)
{
    int tree_fd = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree_fd < 0) {
        return -errno;
    }
    int err = attach(jail, tree_fd, to, attributes);
    close(tree_fd);
    return err;
}

static bool is_used(const struct jail *jail, uint32_t place)
{
    return (jail->used[place / 8] >> (place % 8) & 1) != 0;
}

static void place_path(uint32_t place, char path[32])
{
    (void)snprintf(path, 32, PLACES "/%u", place);
}

int jail_add(struct jail *jail, int tree_fd, uint32_t *place)
{
    char path[32];
    uint32_t tried = 0;

    while (is_used(jail, jail->next_place)) {
        jail->next_place = (jail->next_place + 1) % JAIL_PLACE_COUNT_MAX;
        if (++tried == JAIL_PLACE_COUNT_MAX) {
            return -ENOSPC;
        }
    }
    place_path(jail->next_place, path);
    int err = attach(jail, tree_fd, path, MOUNT_ATTR_NODEV);
    if (err == 0) {
        *place = jail->next_place;
        jail->used[*place / 8] |= (uint8_t)(1U << (*place % 8));
    }
    return err;
}

void jail_remove(struct jail *jail, uint32_t place)
{
    char path[32];

    if (!jail->exists || place >= JAIL_PLACE_COUNT_MAX || !is_used(jail, place)) {
        return;
    }
    place_path(place, path);
    if (enter(jail) == 0) {
        (void)umount2(path, MNT_DETACH);
        (void)rmdir(path);
        leave(jail);
        jail->used[place / 8] &= (uint8_t)~(1U << (place % 8));
    }
}

/* ---- making it ---- */

/* The new namespace is a copy of the old one at first. Everything but the tmpfs is let go of
 * (pivot_root(2), "pivot_root(".", ".")"). */
static int become_empty(const char *scratch_dir)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("holdfast", scratch_dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              TMPFS_OPTIONS) != 0 ||
        chdir(scratch_dir) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
        return -errno;
    }
    return 0;
}

static int furnish(const struct jail *jail, const char *state_dir, pid_t server)
{
    const uint64_t harmless = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    char path[64];

    int err = attach_path(jail, state_dir, state_dir, harmless);
    if (err == 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)server);
        err = attach_path(jail, path, "/proc/self/fd", harmless);
    }
    if (err == 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/net", (int)server);
        err = attach_path(jail, path, "/proc/net", harmless | MOUNT_ATTR_RDONLY);
    }
    return err == 0 ? make_directories(jail, PLACES) : err;
}

static void close_all(struct jail *jail)
{
    const int fds[] = {jail->ns_fd, jail->root_fd, jail->host_ns_fd, jail->host_root_fd,
                       jail->host_cwd_fd};

    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static int make(struct jail *jail, const char *state_dir, pid_t server)
{
    jail->host_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    jail->host_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    jail->host_cwd_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* Whoever may not come back, as the root of a user namespace alone, does not go. */
    if (jail->host_ns_fd < 0 || jail->host_root_fd < 0 || jail->host_cwd_fd < 0 ||
        setns(jail->host_ns_fd, CLONE_NEWNS) != 0) {
        return -errno;
    }
    leave(jail);
    if (unshare(CLONE_NEWNS) != 0) {
        return -errno;
    }
    jail->ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    int err = jail->ns_fd < 0 ? -errno : become_empty(state_dir);
    if (err == 0) {
        jail->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        err = jail->root_fd < 0 ? -errno : 0;
    }
    leave(jail);
    return err == 0 ? furnish(jail, state_dir, server) : err;
}

void jail_make(struct jail *jail, const char *state_dir, pid_t server)
{
    *jail = (struct jail){.ns_fd = -1, .root_fd = -1};
    jail->error = make(jail, state_dir, server);
    jail->exists = jail->error == 0;
    if (!jail->exists) {
        close_all(jail);
    }
}
