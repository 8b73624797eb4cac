/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exports have to ask of the machine around them: where paths lead, what hosts are called,
 * who is in a netgroup, and to have a directory opened. Asked directly, unless a server that sees
 * nothing of the machine any more has put processes in between that do (daemon/opener.h,
 * daemon/finder.h). All may block for as long as a disk or DNS does; any thread.
 */
#ifndef VFS_OUTSIDE_H
#define VFS_OUTSIDE_H

#include "base/check.h"

#include <limits.h>
#include <stdbool.h>

#define OUTSIDE_NAME_COUNT_MAX 16U
#define OUTSIDE_NAME_BYTES_MAX 256U
#define OUTSIDE_ADDRESS_COUNT_MAX 4000U /* of one host */
#define OUTSIDE_GROUP_COUNT_MAX 1024U
#define OUTSIDE_FILE_COUNT_MAX 250U     /* of an exports file and those that belong to it */

/* What a path leads to. */
struct outside_look {
    uint64_t mount_id; /* STATX_MNT_ID */
    uint64_t dev, ino;
    bool is_directory;
    char real[PATH_MAX]; /* the path without symbolic links */
};

/* A directory to be exported. */
struct outside_tree {
    int fd; /* O_PATH, the caller's */
    /* Of a private clone of the mount, open_tree(2): nothing is mounted on it. */
    bool is_clone;
    bool has_journal; /* its file system, as outside_has_journal says */
    uint32_t place; /* for outside_release */
    struct outside_look look;
};

struct outside_names {
    char unproven[OUTSIDE_NAME_BYTES_MAX]; /* does not lead back to the address */
    uint32_t count; /* of those that do; the first is the one of the address */
    char names[OUTSIDE_NAME_COUNT_MAX][OUTSIDE_NAME_BYTES_MAX];
};

/* The groups of a user; of more than there is room for, the first ones. */
struct outside_groups {
    uint32_t count; /* of all */
    uint32_t gids[OUTSIDE_GROUP_COUNT_MAX];
};

/* Addresses are IPv6, or IPv4 as ::ffff:a.b.c.d. */
struct outside_addresses {
    uint32_t count;
    uint8_t items[OUTSIDE_ADDRESS_COUNT_MAX][16];
};

/* The text of a file: a descriptor open for reading, or -errno. */
struct outside_file {
    int fd;
    char name[PATH_MAX];
};

struct outside_files {
    uint32_t count;
    struct outside_file items[OUTSIDE_FILE_COUNT_MAX];
};

/* Each as the function of that name below. */
struct outside_ops {
    int (*look)(void *arg, const char *path, struct outside_look *look);
    int (*open)(void *arg, const char *path, struct outside_tree *tree);
    void (*release)(void *arg, uint32_t place);
    int (*journal)(void *arg, const char *path);
    int (*files)(void *arg, const char *file, struct outside_files *files);
    int (*addresses)(void *arg, const char *host, struct outside_addresses *addresses);
    int (*names)(void *arg, const uint8_t address[16], struct outside_names *names);
    bool (*netgroup)(void *arg, const char *group, const char *name);
    int (*groups)(void *arg, uint32_t uid, struct outside_groups *groups);
};

/* Before there are threads. The direct ones in the beginning. */
void outside_use(const struct outside_ops *ops, void *arg);
extern const struct outside_ops outside_direct;
/* The same, and what outside_open opens is the directory itself: its paths can be shown. */
extern const struct outside_ops outside_without_clones;

/* 0 or -errno. */
int outside_look(const char *path, struct outside_look *look) MUST_USE;
/* 0 or -errno. -ELOOP also when the path leads over a symbolic link that clients could change. */
int outside_open(const char *path, struct outside_tree *tree) MUST_USE;
/* The directory is not needed any more; its descriptors are closed by the caller. */
void outside_release(uint32_t place);
/* Opens a journal for reading and writing: a block device, or a file, which is made if need be.
 * What an admin names may be a symbolic link, as in /dev/disk. A descriptor, the caller's, or
 * -errno. */
int outside_journal(const char *path) MUST_USE;
/* A device that is not there is no reason to make a file of that name. */
#define OUTSIDE_DEVICES "/dev/"
/* Opens an exports file; with /etc/exports those of /etc/exports.d whose names end in ".exports",
 * in the order of versions, as nfs-utils does. -errno: not even that could be tried. */
int outside_files(const char *file, struct outside_files *files) MUST_USE;
/* 0 or what getaddrinfo(3) says. */
int outside_addresses(const char *host, struct outside_addresses *addresses) MUST_USE;
/* 0 or -errno; without names for the address: 0 and nothing. */
int outside_names(const uint8_t address[16], struct outside_names *names) MUST_USE;
/* Whether a host of this name is in a netgroup; NULL: any host. */
bool outside_netgroup(const char *group, const char *name);
/* 0, or -ENOENT: the user database has no such user. */
int outside_groups(uint32_t uid, struct outside_groups *groups) MUST_USE;

/* For those who hold a descriptor. 0 or -errno. */
int outside_look_at(int fd, struct outside_look *look) MUST_USE;
/* False for ext2, and ext4 that was made without a journal. Where there is no sysfs to ask, a file
 * system is taken for what it mostly is. */
bool outside_has_journal(int fd);

#endif
