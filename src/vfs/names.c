/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names looked up lately: (directory, name) -> handle, or -> nothing there.
 *
 * 1. An answer is given only for a directory whose ctime is now what it was when the answer was
 * read from the file system. Every change of a directory's names changes its ctime, so the name
 * still leads where it led, also where local processes make the changes.
 * 2. Two changes within one tick of the file system's clock leave one ctime. So an answer is only
 *    kept as such when, before it was read, the clock was past the directory's ctime by more than a
 *    tick: whatever changes the directory after that moment gives it another ctime. And only on
 *    file systems that are known to keep their times so.
 * 3. Apart from that the table is a hint: what a name led to when last heard of.
 *
 * The table has a fixed size, and a new name takes the place of the one that was there. Nobody
 * waits for an entry: if it is busy, the file system is asked.
 */
#include "vfs/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_ENTRIES 16384U
/* Longer names, and handles, are not kept. */
#define NAME_KEPT_BYTES 44U
#define HANDLE_KEPT_BYTES 40U

/* Clocks of file systems: a tick of 10 ms at most, or whole seconds (up to two). */
#define TICK_FINE_NS 50000000
#define TICK_COARSE_NS 3000000000

struct name_entry {
    atomic_flag busy;
    bool certain;        /* for a directory with this ctime; else a hint */
    uint8_t name_size;   /* 0: empty */
    uint8_t handle_size; /* 0: nothing has that name */
    uint64_t dir;        /* the MAC of its handle */
    struct timespec ctime;
    uint8_t handle[HANDLE_KEPT_BYTES];
    uint8_t name[NAME_KEPT_BYTES];
};

bool ctime_is_settled(const struct vfs_export *export, const struct timespec *ctime)
{
    struct timespec now;
    if (!export->has_true_ctime) {
        return false;
    }
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t age_ns =
        (now.tv_sec - ctime->tv_sec) * INT64_C(1000000000) + now.tv_nsec - ctime->tv_nsec;
    return age_ns > (ctime->tv_nsec != 0 ? TICK_FINE_NS : TICK_COARSE_NS);
}

int names_open(struct vfs *vfs)
{
    vfs->names = calloc(NAME_ENTRIES, sizeof *vfs->names);
    return vfs->names != NULL ? 0 : -1;
}

void names_close(struct vfs *vfs)
{
    free(vfs->names);
    vfs->names = NULL;
}

static struct name_entry *entry_of(const struct vfs_object *dir, const char *name, size_t size)
{
    struct vfs *vfs = dir->export->vfs;
    uint8_t bytes[sizeof dir->hash + NAME_KEPT_BYTES];
    memcpy(bytes, &dir->hash, sizeof dir->hash);
    memcpy(bytes + sizeof dir->hash, name, size);
    return &vfs->names[siphash(vfs->state.key, bytes, sizeof dir->hash + size) % NAME_ENTRIES];
}

static bool take(struct name_entry *entry)
{
    return !atomic_flag_test_and_set_explicit(&entry->busy, memory_order_acquire);
}

static void leave(struct name_entry *entry)
{
    atomic_flag_clear_explicit(&entry->busy, memory_order_release);
}

static bool is_for(const struct name_entry *entry, const struct vfs_object *dir, const char *name,
                   size_t size)
{
    return entry->name_size == size && entry->dir == dir->hash &&
           memcmp(entry->name, name, size) == 0;
}

enum name_answer names_find(const struct vfs_object *dir, const char *name,
                            const struct timespec *ctime, struct vfs_handle *handle)
{
    enum name_answer answer = NAME_UNKNOWN;
    size_t size = strlen(name);
    if (size > NAME_KEPT_BYTES) {
        return NAME_UNKNOWN;
    }
    struct name_entry *entry = entry_of(dir, name, size);
    if (!take(entry)) {
        return NAME_UNKNOWN;
    }
    if (is_for(entry, dir, name, size) &&
        (ctime == NULL || (entry->certain && same_time(&entry->ctime, ctime)))) {
        answer = entry->handle_size > 0 ? NAME_KNOWN : NAME_ABSENT;
        handle->size = entry->handle_size;
        memcpy(handle->bytes, entry->handle, sizeof entry->handle);
    }
    leave(entry);
    return answer;
}

void names_note(const struct vfs_object *dir, const char *name, const struct timespec *ctime,
                const uint8_t *handle, uint32_t handle_size)
{
    size_t size = strlen(name);
    if (size > NAME_KEPT_BYTES || handle_size > HANDLE_KEPT_BYTES) {
        return;
    }
    struct name_entry *entry = entry_of(dir, name, size);
    if (!take(entry)) {
        return;
    }
    entry->certain = ctime != NULL;
    entry->ctime = ctime != NULL ? *ctime : (struct timespec){0};
    entry->dir = dir->hash;
    entry->name_size = (uint8_t)size;
    memcpy(entry->name, name, size);
    entry->handle_size = (uint8_t)handle_size;
    if (handle_size > 0) {
        memcpy(entry->handle, handle, handle_size);
    }
    leave(entry);
}

void names_forget(const struct vfs_object *dir, const char *name)
{
    size_t size = strlen(name);
    if (size > NAME_KEPT_BYTES) {
        return;
    }
    struct name_entry *entry = entry_of(dir, name, size);
    if (take(entry)) {
        if (is_for(entry, dir, name, size)) {
            entry->name_size = 0;
        }
        leave(entry);
    }
}
