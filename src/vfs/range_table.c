/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of byte-range locks: files, clients, owners, and what each owner holds of each file,
 * found by keyed hashes.
 */
#include "vfs/range_table.h"

#include "vfs/internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(RANGE_HASH_KEY_BYTES == SIPHASH_KEY_BYTES, "the key is siphash's");

struct range_table *range_table_new(const uint8_t key[RANGE_HASH_KEY_BYTES])
{
    struct range_table *table = calloc(1, sizeof *table);
    if (table != NULL) {
        memcpy(table->key, key, sizeof table->key);
        table->count_max = RANGE_COUNT_MAX;
        table->client_count_max = RANGE_CLIENT_COUNT_MAX;
        range_list_init(&table->clients);
    }
    return table;
}

/* ---- hashing ---- */

static uint64_t hash_of(const struct range_table *table, const void *above, struct range_bytes key)
{
    uint64_t words[2] = {(uint64_t)(uintptr_t)above, siphash(table->key, key.data, key.size)};
    return siphash(table->key, words, sizeof words);
}

static void link_add(struct range_link **buckets, struct range_link *link, uint64_t hash)
{
    struct range_link **bucket = &buckets[hash % RANGE_BUCKET_COUNT];
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
}

static void link_remove(struct range_link **buckets, struct range_link *link)
{
    struct range_link **at = &buckets[link->hash % RANGE_BUCKET_COUNT];
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
}

static bool is_key(const void *bytes, size_t size, struct range_bytes key)
{
    return size == key.size && memcmp(bytes, key.data, size) == 0;
}

/* ---- files ---- */

struct range_file *range_file_find(const struct range_table *table, struct range_bytes key)
{
    uint64_t hash = hash_of(table, NULL, key);
    struct range_link *link = table->files[hash % RANGE_BUCKET_COUNT];
    for (; link != NULL; link = link->next) {
        struct range_file *file = CONTAINER_OF(link, struct range_file, link);
        if (link->hash == hash && is_key(file->bytes, file->size, key)) {
            return file;
        }
    }
    return NULL;
}

struct range_file *range_file_obtain(struct range_table *table, struct range_bytes key)
{
    struct range_file *file = range_file_find(table, key);
    if (file != NULL) {
        return file;
    }
    file = calloc(1, sizeof *file + key.size);
    if (file != NULL) {
        range_list_init(&file->holds);
        range_list_init(&file->waits);
        file->size = key.size;
        memcpy(file->bytes, key.data, key.size);
        link_add(table->files, &file->link, hash_of(table, NULL, key));
        table->file_count++;
    }
    return file;
}

bool range_file_put(struct range_table *table, struct range_file *file)
{
    if (!range_list_is_empty(&file->holds) || !range_list_is_empty(&file->waits)) {
        return false;
    }
    link_remove(table->files, &file->link);
    table->file_count--;
    free(file);
    return true;
}

/* ---- clients and owners ---- */

struct range_client *range_client_find(const struct range_table *table, struct range_bytes key)
{
    uint64_t hash = hash_of(table, NULL, key);
    struct range_link *link = table->client_links[hash % RANGE_BUCKET_COUNT];
    for (; link != NULL; link = link->next) {
        struct range_client *client = CONTAINER_OF(link, struct range_client, link);
        if (link->hash == hash && is_key(client->bytes, client->size, key)) {
            return client;
        }
    }
    return NULL;
}

static struct range_client *client_obtain(struct range_table *table, struct range_bytes key)
{
    struct range_client *client = range_client_find(table, key);
    if (client != NULL) {
        return client;
    }
    client = calloc(1, sizeof *client + key.size);
    if (client != NULL) {
        range_list_init(&client->owners);
        range_list_append(&table->clients, &client->in_table);
        client->size = key.size;
        memcpy(client->bytes, key.data, key.size);
        link_add(table->client_links, &client->link, hash_of(table, NULL, key));
        table->client_count++;
    }
    return client;
}

static void client_put(struct range_table *table, struct range_client *client)
{
    if (range_list_is_empty(&client->owners)) {
        link_remove(table->client_links, &client->link);
        range_list_remove(&client->in_table);
        table->client_count--;
        free(client);
    }
}

static struct range_owner *owner_find(const struct range_table *table,
                                      const struct range_client *client, struct range_bytes key)
{
    uint64_t hash = hash_of(table, client, key);
    struct range_link *link = table->owners[hash % RANGE_BUCKET_COUNT];
    for (; link != NULL; link = link->next) {
        struct range_owner *owner = CONTAINER_OF(link, struct range_owner, link);
        if (link->hash == hash && owner->client == client &&
            is_key(owner->bytes, owner->size, key)) {
            return owner;
        }
    }
    return NULL;
}

struct range_owner *range_owner_find(const struct range_table *table, struct range_bytes client_key,
                                     struct range_bytes key)
{
    struct range_client *client = range_client_find(table, client_key);
    return client != NULL ? owner_find(table, client, key) : NULL;
}

struct range_owner *range_owner_obtain(struct range_table *table, struct range_bytes client_key,
                                       struct range_bytes key)
{
    struct range_client *client = client_obtain(table, client_key);
    if (client == NULL) {
        return NULL;
    }
    struct range_owner *owner = owner_find(table, client, key);
    if (owner != NULL) {
        return owner;
    }
    owner = calloc(1, sizeof *owner + key.size);
    if (owner == NULL) {
        client_put(table, client);
        return NULL;
    }
    owner->client = client;
    owner->born = table->serial + 1;
    range_list_append(&client->owners, &owner->in_client);
    range_list_init(&owner->holds);
    range_list_init(&owner->waits);
    owner->size = key.size;
    memcpy(owner->bytes, key.data, key.size);
    link_add(table->owners, &owner->link, hash_of(table, client, key));
    return owner;
}

bool range_owner_put(struct range_table *table, struct range_owner *owner)
{
    if (!range_list_is_empty(&owner->holds) || !range_list_is_empty(&owner->waits)) {
        return false;
    }
    link_remove(table->owners, &owner->link);
    range_list_remove(&owner->in_client);
    client_put(table, owner->client);
    free(owner);
    return true;
}

bool range_has_room(const struct range_table *table, const struct range_client *client)
{
    return table->count < table->count_max && client->count < table->client_count_max;
}

void range_count(struct range_table *table, struct range_client *client, int32_t more)
{
    table->count += (uint32_t)more;
    client->count += (uint32_t)more;
}

/* ---- what one owner holds of one file ---- */

struct range_hold *range_hold_find(const struct range_table *table, const struct range_file *file,
                                   const struct range_owner *owner)
{
    uint64_t hash = hash_of(table, owner, (struct range_bytes){&file, sizeof file});
    struct range_link *link = table->holds[hash % RANGE_BUCKET_COUNT];
    for (; link != NULL; link = link->next) {
        struct range_hold *hold = CONTAINER_OF(link, struct range_hold, link);
        if (hold->file == file && hold->owner == owner) {
            return hold;
        }
    }
    return NULL;
}

struct range_hold *range_hold_obtain(struct range_table *table, struct range_file *file,
                                     struct range_owner *owner)
{
    struct range_hold *hold = range_hold_find(table, file, owner);
    if (hold != NULL) {
        return hold;
    }
    hold = calloc(1, sizeof *hold);
    if (hold != NULL) {
        hold->owner = owner;
        hold->file = file;
        range_list_append(&owner->holds, &hold->in_owner);
        range_list_append(&file->holds, &hold->in_file);
        link_add(table->holds, &hold->link,
                 hash_of(table, owner, (struct range_bytes){&file, sizeof file}));
    }
    return hold;
}

void range_hold_put(struct range_table *table, struct range_hold *hold)
{
    if (hold->locks == NULL) {
        link_remove(table->holds, &hold->link);
        range_list_remove(&hold->in_owner);
        range_list_remove(&hold->in_file);
        free(hold);
    }
}

/* ---- the end ---- */

static void owner_drop(struct range_table *table, struct range_owner *owner)
{
    while (!range_list_is_empty(&owner->waits)) {
        struct range_wait *wait = RANGE_OF(owner->waits.next, range_wait, in_owner);
        struct range_file *file = wait->file;
        range_wait_remove(table, wait);
        (void)range_file_put(table, file);
    }
    while (!range_list_is_empty(&owner->holds)) {
        struct range_file *file = RANGE_OF(owner->holds.next, range_hold, in_owner)->file;
        int err = range_clear(table, file, owner, 0, RANGE_END);
        CHECK_OP(err, ==, 0); /* takes no memory: nothing is split */
        (void)range_file_put(table, file);
    }
    (void)range_owner_put(table, owner);
}

void range_table_free(struct range_table *table)
{
    if (table == NULL) {
        return;
    }
    while (!range_list_is_empty(&table->clients)) {
        struct range_client *client = RANGE_OF(table->clients.next, range_client, in_table);
        owner_drop(table, RANGE_OF(client->owners.next, range_owner, in_client));
    }
    free(table);
}
