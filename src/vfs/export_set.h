/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is exported now: a table of exports(5) with its directories opened.
 *
 *     table entry  --1:1 or n:1-->  place  --->  vfs_export (an opened directory)
 *
 * 1. A set does not change. A reload makes a new one and puts it in the old one's place, or fails
 *    and changes nothing; calls that look at the old one finish with it. What is the same in both
 *    is the same vfs_export, so nobody notices.
 * 2. A place has the entries that may let a client in, in this order: its own; then, the longest
 *    path first, those above it whose client has `crossmnt`. The first that names the client
 *    decides.
 * 3. A place whose directory is not there now (it was removed, or nothing is mounted on it) has no
 *    vfs_export; MNT looks again.
 * 4. A crossing leads from a directory of one place, on which something is mounted, to the place
 *    that exports what is mounted there. A client goes over it if the upper export has `crossmnt`
 *    or the lower one `nohide`, and the lower one is for this client. Otherwise it finds the
 *    directory below the mount.
 */
#ifndef VFS_EXPORT_SET_H
#define VFS_EXPORT_SET_H

#include "vfs/node.h"

#include <limits.h>
#include <stdatomic.h>

struct export_rule {
    const struct export_entry *entry;
    bool needs_crossmnt; /* an export above */
};

struct export_crossing {
    struct vfs_handle covered; /* of the directory in this place */
    uint32_t place;            /* index of what is mounted there */
};

struct export_place {
    struct vfs_export *export; /* a reference, or NULL */
    char *path;                /* without symbolic links, as far as known */
    bool is_unusable;          /* a directory is there, and cannot be exported */
    uint32_t rule_count;
    struct export_rule *rules;
    uint32_t crossing_count;
    struct export_crossing *crossings;
};

struct export_set {
    atomic_uint ref_count;
    struct export_table *table; /* a reference */
    uint32_t place_count;
    struct export_place *places;
    /* By export_client.number: its `mountpoint` is none now, so it gets nothing. */
    bool *is_suspended;
};

/* Opens all directories of a table. strict: one that cannot be opened is an error; else it is
 * logged, and its place is empty. The caller has change_lock. */
int export_set_build(struct vfs *vfs, struct export_table *table, bool strict,
                  struct export_set **set, struct err *err) MUST_USE;
/* Puts a set (taking it over) into force, and lets go of what only the old one had. The caller has
 * change_lock. Returns how many exports are still in use by calls after some seconds. */
uint32_t export_set_publish(struct vfs *vfs, struct export_set *set);

struct export_set *export_set_get(struct vfs *vfs);
void export_set_put(struct export_set *set);
const struct export_place *export_set_place_of(const struct export_set *set,
                                             const struct vfs_export *export);
/* The export with that id, with a reference, or NULL. */
struct vfs_export *export_set_of_id(struct vfs *vfs, uint64_t id);

/* ---- admit.c ---- */

int admit_open(struct vfs *vfs) MUST_USE;
/* From now on names are looked up for this table. */
void admit_use_table(struct vfs *vfs, struct export_table *table);

/* The export that a path of a client is in, with a reference; which others may see is admit's. real
 * is the path without symbolic links; *missing is -errno when it leads nowhere. */
int admit_path(struct vfs *vfs, struct vfs_bytes path, const struct sockaddr *peer,
               char real[PATH_MAX], int *missing, struct vfs_export **export) MUST_USE;
/* The directory at such a path, with a reference. */
int admit_walk(struct vfs_export *export, const char *real,
               struct vfs_object **object) MUST_USE;
/* Sets the options and the identity of a call on this export: 0, -EACCES, -EPERM, -ESTALE (no
 * export any more), -EAGAIN (not known yet who the client is). */
int admit(struct vfs_call *call, struct vfs_export *export) MUST_USE;
/* If a directory that LOOKUP found is a crossing that the caller may use, makes node the root of
 * what is mounted there. */
int admit_cross(struct vfs_call *call, struct vfs_node *node) MUST_USE;
/* Whether it is one. */
bool admit_crosses(struct vfs_call *call, struct vfs_export *export,
                   const struct vfs_handle *handle);

#endif
