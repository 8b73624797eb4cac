/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net effect of a log: for each directory entry that a record names what it must be in the end,
 * for each object its last attributes and its data since it was synced last. Pure: built from
 * records, looks at no file system.
 */
#ifndef VFS_NET_H
#define VFS_NET_H

#include "journal/record.h"

struct net;
struct vfs_export;

/* A write or a new size, in the order of the log. bytes NULL: a size, in offset. */
struct net_data {
    struct net_data *next;
    uint64_t offset;
    const uint8_t *bytes;
    uint32_t size;
};

/* A name of the object in a hidden directory. */
struct net_place {
    struct net_place *next;
    struct vfs_export *export;
    int dir_fd;
    char name[24];
};

struct net_object {
    struct net_object *bucket_next, *next;
    struct vfs_export *export; /* one it is reached through */
    uint64_t dev;
    struct journal_object id;
    bool has_state;
    struct journal_state state;
    bool has_dir_mtime; /* of a directory, newer than state */
    struct journal_time dir_mtime;
    struct net_data *data, **data_end;
    uint32_t entry_count; /* entries that must lead to it in the end */
    /* For who makes it so. */
    bool homeless; /* the directory of an entry that must lead to it is gone */
    struct net_place *places;
};

struct net_prior {
    struct net_prior *next;
    struct net_object *object;
};

struct net_entry {
    struct net_entry *bucket_next, *next;
    struct net_object *dir;
    const uint8_t *name;
    uint32_t name_bytes;
    struct net_object *now;  /* NULL: nothing */
    struct net_prior *prior; /* all that the log says it ever led to, also now */
    /* For who makes it so: what it leads to was put there by a change that is not in the log. */
    bool foreign;
    bool right;
};

/* NULL without memory. */
struct net *net_new(void);
void net_free(struct net *net);

/* Adds a record, by lsn. The record's pointers must stay. 0 or -ENOMEM. A REPLY is ignored. */
int net_add(struct net *net, struct vfs_export *export, uint64_t dev,
            const struct journal_record *record) MUST_USE;

struct net_object *net_objects(const struct net *net); /* linked by next */
struct net_entry *net_entries(const struct net *net);
/* NULL: the log does not know it. */
struct net_object *net_find(const struct net *net, uint64_t dev, const struct journal_object *id);
bool net_was_prior(const struct net_entry *entry, const struct net_object *object);
/* Memory that lives as long as the net; zeroed. NULL without. */
void *net_memory(struct net *net, size_t size_bytes);

#endif
