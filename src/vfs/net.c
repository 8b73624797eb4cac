/* SPDX-License-Identifier: Apache-2.0 */
#include "vfs/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET_COUNT 65536U
#define CHUNK_BYTES (256U * 1024)

struct chunk {
    struct chunk *next;
    size_t used_bytes;
    _Alignas(16) uint8_t bytes[];
};

struct net {
    struct chunk *chunks;
    struct net_object *objects;
    struct net_entry *entries;
    struct net_object *object_buckets[BUCKET_COUNT];
    struct net_entry *entry_buckets[BUCKET_COUNT];
};

struct net *net_new(void)
{
    return calloc(1, sizeof(struct net));
}

void net_free(struct net *net)
{
    while (net != NULL && net->chunks != NULL) {
        struct chunk *chunk = net->chunks;
        net->chunks = chunk->next;
        free(chunk);
    }
    free(net);
}

void *net_memory(struct net *net, size_t size_bytes)
{
    size_t room = (size_bytes + 15) & ~(size_t)15;
    if (net->chunks == NULL || net->chunks->used_bytes + room > CHUNK_BYTES) {
        struct chunk *chunk = calloc(1, sizeof *chunk + CHUNK_BYTES);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = net->chunks;
        net->chunks = chunk;
    }
    void *memory = net->chunks->bytes + net->chunks->used_bytes;
    net->chunks->used_bytes += room;
    return memory;
}

/* FNV-1a: what is hashed is ours, or was made by clients who would gain a slow start. */
static uint32_t hash(uint64_t start, const uint8_t *bytes, size_t size_bytes)
{
    uint64_t sum = 0xcbf29ce484222325U ^ start;
    for (size_t i = 0; i < size_bytes; i++) {
        sum = (sum ^ bytes[i]) * 0x100000001b3U;
    }
    return (uint32_t)(sum ^ sum >> 32) % BUCKET_COUNT;
}

struct net_object *net_find(const struct net *net, uint64_t dev, const struct journal_object *id)
{
    struct net_object *object = net->object_buckets[hash(dev, id->bytes, id->size)];
    while (object != NULL && (object->dev != dev || !journal_object_is(&object->id, id))) {
        object = object->bucket_next;
    }
    return object;
}

static struct net_object *obtain(struct net *net, struct vfs_export *export, uint64_t dev,
                                 const struct journal_object *id)
{
    struct net_object *object = net_find(net, dev, id);
    if (object != NULL) {
        return object;
    }
    object = net_memory(net, sizeof *object);
    if (object != NULL) {
        struct net_object **bucket = &net->object_buckets[hash(dev, id->bytes, id->size)];
        object->export = export;
        object->dev = dev;
        object->id = *id;
        object->data_end = &object->data;
        object->bucket_next = *bucket;
        *bucket = object;
        object->next = net->objects;
        net->objects = object;
    }
    return object;
}

static struct net_entry *obtain_entry(struct net *net, struct net_object *dir, const uint8_t *name,
                                      uint32_t name_bytes)
{
    struct net_entry **bucket = &net->entry_buckets[hash((uintptr_t)dir, name, name_bytes)];
    for (struct net_entry *entry = *bucket; entry != NULL; entry = entry->bucket_next) {
        if (entry->dir == dir && entry->name_bytes == name_bytes &&
            memcmp(entry->name, name, name_bytes) == 0) {
            return entry;
        }
    }
    struct net_entry *entry = net_memory(net, sizeof *entry);
    if (entry != NULL) {
        entry->dir = dir;
        entry->name = name;
        entry->name_bytes = name_bytes;
        entry->bucket_next = *bucket;
        *bucket = entry;
        entry->next = net->entries;
        net->entries = entry;
    }
    return entry;
}

bool net_was_prior(const struct net_entry *entry, const struct net_object *object)
{
    for (const struct net_prior *prior = entry->prior; prior != NULL; prior = prior->next) {
        if (prior->object == object) {
            return true;
        }
    }
    return false;
}

/* *object is NULL for none. */
static int add_prior(struct net *net, struct net_entry *entry, const struct journal_object *id,
                     struct net_object **object)
{
    *object = NULL;
    if (id->size == 0) {
        return 0;
    }
    *object = obtain(net, entry->dir->export, entry->dir->dev, id);
    if (*object == NULL || net_was_prior(entry, *object)) {
        return *object == NULL ? -ENOMEM : 0;
    }
    struct net_prior *prior = net_memory(net, sizeof *prior);
    if (prior == NULL) {
        return -ENOMEM;
    }
    prior->object = *object;
    prior->next = entry->prior;
    entry->prior = prior;
    return 0;
}

static int add_entry(struct net *net, struct net_object *dir, const struct journal_record *record)
{
    struct net_object *before;
    struct net_object *now;
    struct net_entry *entry = obtain_entry(net, dir, record->entry.name, record->entry.name_bytes);
    if (entry == NULL) {
        return -ENOMEM;
    }
    int err = add_prior(net, entry, &record->entry.before, &before);
    if (err == 0) {
        err = add_prior(net, entry, &record->entry.now, &now);
    }
    if (err != 0) {
        return err;
    }
    if (entry->now != NULL) {
        entry->now->entry_count--;
    }
    entry->now = now;
    if (now != NULL) {
        now->entry_count++;
    }
    dir->has_dir_mtime = true;
    dir->dir_mtime = record->entry.dir_mtime;
    return 0;
}

static int add_data(struct net *net, struct net_object *object, const struct journal_record *record)
{
    struct net_data *data = net_memory(net, sizeof *data);
    if (data == NULL) {
        return -ENOMEM;
    }
    if (record->type == JOURNAL_SIZE) {
        data->offset = record->size;
    } else {
        data->offset = record->write.offset;
        data->bytes = record->write.bytes;
        data->size = record->write.size;
    }
    *object->data_end = data;
    object->data_end = &data->next;
    return 0;
}

int net_add(struct net *net, struct vfs_export *export, uint64_t dev,
            const struct journal_record *record)
{
    if (record->type == JOURNAL_REPLY || record->type == JOURNAL_SKIPPED) {
        return 0;
    }
    struct net_object *object = obtain(net, export, dev, &record->object);
    if (object == NULL) {
        return -ENOMEM;
    }
    switch (record->type) {
    case JOURNAL_ENTRY:
        return add_entry(net, object, record);
    case JOURNAL_STATE:
        object->has_state = true;
        object->state = record->state;
        object->has_dir_mtime = false;
        return 0;
    case JOURNAL_SYNCED:
        object->data = NULL;
        object->data_end = &object->data;
        return 0;
    default:
        return add_data(net, object, record);
    }
}

struct net_object *net_objects(const struct net *net)
{
    return net->objects;
}

struct net_entry *net_entries(const struct net *net)
{
    return net->entries;
}
