/* SPDX-License-Identifier: Apache-2.0 */
/* Making a set, and putting it into force. The contract is export_set.h. */
#include "vfs/export_set.h"

#include "base/log.h"
#include "vfs/internal.h"
#include "vfs/mounts.h"
#include "vfs/outside.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RELEASE_WAIT_MS 10
#define RELEASE_WAITS_MAX 300

struct builder {
    struct vfs *vfs;
    struct export_set *set;
    struct export_set *old; /* a reference, or NULL */
    struct mounts mounts;
    bool strict;
    struct err *err;
};

static bool is_below(const char *path, const char *above)
{
    size_t bytes = strcmp(above, "/") == 0 ? 0 : strlen(above);
    return strncmp(path, above, bytes) == 0 && path[bytes] == '/' && path[bytes + 1] != '\0';
}

static void free_set(struct export_set *set)
{
    for (uint32_t i = 0; i < set->place_count; i++) {
        volume_put(set->places[i].export);
        free(set->places[i].path);
        free(set->places[i].rules);
        free(set->places[i].crossings);
    }
    free(set->places);
    free(set->is_suspended);
    export_table_free(set->table);
    free(set);
}

struct export_set *export_set_get(struct vfs *vfs)
{
    pthread_mutex_lock(&vfs->set_lock);
    struct export_set *set = vfs->set;
    atomic_fetch_add_explicit(&set->ref_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&vfs->set_lock);
    return set;
}

void export_set_put(struct export_set *set)
{
    if (set != NULL &&
        atomic_fetch_sub_explicit(&set->ref_count, 1, memory_order_acq_rel) == 1) {
        free_set(set);
    }
}

const struct export_place *export_set_place_of(const struct export_set *set,
                                             const struct vfs_export *export)
{
    for (uint32_t i = 0; i < set->place_count; i++) {
        if (set->places[i].export == export) {
            return &set->places[i];
        }
    }
    return NULL;
}

static struct vfs_export *find_id(const struct export_set *set, uint64_t id)
{
    for (uint32_t i = 0; i < set->place_count; i++) {
        if (set->places[i].export != NULL && set->places[i].export->id == id) {
            return set->places[i].export;
        }
    }
    return NULL;
}

struct vfs_export *export_set_of_id(struct vfs *vfs, uint64_t id)
{
    struct export_set *set = export_set_get(vfs);
    struct vfs_export *export = find_id(set, id);
    if (export != NULL) {
        (void)volume_get(export);
    }
    export_set_put(set);
    return export;
}

/* ---- building ---- */

static int no_memory(struct builder *builder)
{
    return err_set(builder->err, -ENOMEM, "no memory for the exports");
}

static struct export_place *add_place(struct builder *builder, const char *path)
{
    struct export_set *set = builder->set;
    struct export_place *places =
        reallocarray(set->places, set->place_count + 1, sizeof *set->places);
    char *copy = strdup(path);
    set->places = places != NULL ? places : set->places;
    if (places == NULL || copy == NULL) {
        free(copy);
        return NULL;
    }
    struct export_place *place = &set->places[set->place_count++];
    *place = (struct export_place){.path = copy};
    return place;
}

static int add_rule(struct builder *builder, struct export_place *place,
                    const struct export_entry *entry, bool needs_crossmnt)
{
    struct export_rule *rules =
        reallocarray(place->rules, place->rule_count + 1, sizeof *place->rules);
    if (rules == NULL) {
        return no_memory(builder);
    }
    place->rules = rules;
    place->rules[place->rule_count++] = (struct export_rule){entry, needs_crossmnt};
    return 0;
}

/* Whoever can read the state directory can make handles. -EPERM: it lies in the export. */
static int keep_state_out(struct builder *builder, const struct vfs_export *export)
{
    const struct vfs_state *state = &builder->vfs->state;
    for (uint32_t i = 0; i < state->above_count; i++) {
        if (state->above[i].dev == export->dev && state->above[i].ino == export->ino) {
            return err_set(builder->err, -EPERM,
                           "the state directory %s lies in the export %s, where clients could "
                           "read the key of all file handles; choose another with --state DIR",
                           builder->vfs->options.state_dir, export->path);
        }
    }
    return 0;
}

/* The one that is open already, if that is as good. Takes fresh over. */
static struct vfs_export *reuse(const struct builder *builder, struct vfs_export *fresh)
{
    struct vfs_export *old = builder->old == NULL ? NULL : find_id(builder->old, fresh->id);
    if (old == NULL || !volume_is_same(old, fresh) || old->mount_flags != fresh->mount_flags ||
        old->is_clone != fresh->is_clone || old->root.size != fresh->root.size ||
        memcmp(old->root.bytes, fresh->root.bytes, fresh->root.size) != 0 ||
        strcmp(old->path, fresh->path) != 0) {
        return fresh;
    }
    volume_put(fresh);
    return volume_get(old);
}

/* A directory may be there twice by different names: then it is one place. *export is taken over.
 */
static int place_for(struct builder *builder, struct vfs_export *export, bool has_fsid,
                     struct export_place **place)
{
    struct export_set *set = builder->set;
    for (uint32_t i = 0; i < set->place_count; i++) {
        struct vfs_export *other = set->places[i].export;
        if (other != NULL && volume_is_same(other, export)) {
            volume_put(export);
            *place = &set->places[i];
            return 0;
        }
    }
    struct vfs_export *twin = find_id(set, export->id);
    if (twin != NULL && has_fsid) {
        int err = err_set(builder->err, -EEXIST,
                          "%s and %s look the same to clients: give them different fsid= values",
                          twin->path, export->path);
        volume_put(export);
        return err;
    }
    if (twin != NULL && volume_set_apart(export) != 0) {
        volume_put(export);
        return no_memory(builder);
    }
    *place = add_place(builder, export->path);
    if (*place == NULL) {
        volume_put(export);
        return no_memory(builder);
    }
    (*place)->export = reuse(builder, export);
    return 0;
}

static const uint8_t *fsid_of(const struct export_entry *entry)
{
    for (uint32_t i = 0; i < entry->client_count; i++) {
        if (entry->clients[i].options.has_fsid) {
            return entry->clients[i].options.fsid;
        }
    }
    return NULL;
}

/* "FILE:LINE: " before what went wrong. */
static void name_the_line(struct err *err, const struct export_entry *entry)
{
    struct err what = *err;
    const struct export_client *client = &entry->clients[0];
    if (client->file != NULL) {
        (void)err_set(err, what.code, "%.160s:%u: %.320s", client->file, client->line, what.text);
    }
}

static int add_entry(struct builder *builder, const struct export_entry *entry)
{
    struct vfs_export *export = NULL;
    struct export_place *place = NULL;
    const uint8_t *fsid = fsid_of(entry);
    struct err why = {0};
    struct err *asked = builder->err;

    builder->err = &why;
    int err = volume_open(builder->vfs, entry->path, fsid, &export, &why);
    if (err == 0) {
        err = keep_state_out(builder, export);
        if (err != 0) {
            volume_put(export);
        }
    }
    if (err == 0) {
        err = place_for(builder, export, fsid != NULL, &place);
    }
    builder->err = asked;
    if (err != 0) {
        name_the_line(&why, entry);
    }
    if (err != 0 && (builder->strict || err == -ENOMEM)) {
        return err_set(builder->err, err, "%s", why.text);
    }
    if (err != 0) {
        log_warning("%s", why.text);
        place = add_place(builder, entry->path);
        if (place != NULL) {
            place->is_unusable = err != -ENOENT && err != -ENOTDIR;
        }
    }
    return place == NULL ? no_memory(builder) : add_rule(builder, place, entry, false);
}

static bool some_client_crosses(const struct export_entry *entry)
{
    for (uint32_t i = 0; i < entry->client_count; i++) {
        if (entry->clients[i].options.crossmnt) {
            return true;
        }
    }
    return false;
}

static bool crosses_down_to(const struct builder *builder, const char *path)
{
    const struct export_set *set = builder->set;
    for (uint32_t i = 0; i < set->place_count; i++) {
        const struct export_place *place = &set->places[i];
        for (uint32_t j = 0; j < place->rule_count && is_below(path, place->path); j++) {
            if (some_client_crosses(place->rules[j].entry)) {
                return true;
            }
        }
    }
    return false;
}

static bool has_place(const struct export_set *set, const char *path)
{
    for (uint32_t i = 0; i < set->place_count; i++) {
        if (strcmp(set->places[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* What is mounted below an export with crossmnt is exported with it, if it can be. */
static int add_mounts(struct builder *builder)
{
    for (uint32_t i = 0; i < builder->mounts.count; i++) {
        const struct mount *mount = &builder->mounts.items[i];
        struct vfs_export *export = NULL;
        struct export_place *place = NULL;
        struct err why = {0};
        if (mount->is_autofs || has_place(builder->set, mount->path) ||
            !crosses_down_to(builder, mount->path)) {
            continue;
        }
        struct err *asked = builder->err;
        builder->err = &why;
        int err = volume_open(builder->vfs, mount->path, NULL, &export, &why);
        if (err == 0 && (export->origin_id != mount->id || keep_state_out(builder, export) != 0)) {
            volume_put(export); /* another mount hides it, or it is not for clients */
            err = -EPERM;
        }
        if (err == 0) {
            err = place_for(builder, export, false, &place);
        }
        builder->err = asked;
        if (err == -ENOMEM) {
            return no_memory(builder);
        }
        if (err != 0) {
            log_debug("%s is not exported with what is above: %s", mount->path, why.text);
        }
    }
    return 0;
}

/* Entries above a place whose clients may come down to it, the longest path first. */
static int add_rules_from_above(struct builder *builder, struct export_place *place)
{
    const struct export_set *set = builder->set;
    size_t below_bytes = SIZE_MAX;
    for (;;) {
        const struct export_place *best = NULL;
        for (uint32_t i = 0; i < set->place_count; i++) {
            const struct export_place *above = &set->places[i];
            size_t bytes = strlen(above->path);
            if (is_below(place->path, above->path) && bytes < below_bytes &&
                (best == NULL || bytes > strlen(best->path))) {
                best = above;
            }
        }
        if (best == NULL) {
            return 0;
        }
        below_bytes = strlen(best->path);
        for (uint32_t j = 0; j < best->rule_count && !best->rules[j].needs_crossmnt; j++) {
            if (some_client_crosses(best->rules[j].entry)) {
                int err = add_rule(builder, place, best->rules[j].entry, true);
                if (err != 0) {
                    return err;
                }
            }
        }
    }
}

static int add_crossing(struct builder *builder, struct export_place *upper, uint32_t lower)
{
    const char *rest = builder->set->places[lower].path + strlen(upper->path);
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    struct vfs_handle covered;
    rest += strspn(rest, "/");
    int fd = (int)syscall(SYS_openat2, upper->export->tree_fd, rest, &how, sizeof how);
    if (fd < 0) {
        return 0; /* renamed, or hidden: nobody gets there */
    }
    int err = handle_of(upper->export, fd, "", AT_EMPTY_PATH, &covered);
    close(fd);
    if (err != 0) {
        return 0;
    }
    struct export_crossing *crossings = reallocarray(upper->crossings, upper->crossing_count + 1,
                                                      sizeof *upper->crossings);
    if (crossings == NULL) {
        return no_memory(builder);
    }
    upper->crossings = crossings;
    upper->crossings[upper->crossing_count++] = (struct export_crossing){covered, lower};
    return 0;
}

/* Crossings into a place from all places of the file system that it is mounted on. */
static int add_crossings(struct builder *builder, uint32_t lower)
{
    struct export_set *set = builder->set;
    const struct export_place *place = &set->places[lower];
    const struct mount *mount =
        place->export == NULL ? NULL : mounts_find(&builder->mounts, place->export->origin_id);
    if (mount == NULL || strcmp(mount->path, place->path) != 0) {
        return 0; /* not the root of what is mounted */
    }
    for (uint32_t i = 0; i < set->place_count; i++) {
        struct export_place *upper = &set->places[i];
        if (upper->export != NULL && upper->export->is_clone &&
            upper->export->origin_id == mount->parent_id && is_below(place->path, upper->path)) {
            int err = add_crossing(builder, upper, lower);
            if (err != 0) {
                return err;
            }
        }
    }
    return 0;
}

/* exports(5), mountpoint: only while something is mounted there. */
static bool is_mounted(const struct builder *builder, const char *path)
{
    struct outside_look look;
    bool found = false;
    if (outside_look(path, &look) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < builder->mounts.count; i++) {
        const struct mount *mount = &builder->mounts.items[i];
        found = found || (!mount->is_autofs && strcmp(mount->path, look.real) == 0);
    }
    return found;
}

static int suspend_clients(struct builder *builder)
{
    const struct export_table *table = builder->set->table;
    builder->set->is_suspended = calloc(table->client_count + 1, sizeof(bool));
    if (builder->set->is_suspended == NULL) {
        return no_memory(builder);
    }
    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        for (uint32_t j = 0; j < entry->client_count; j++) {
            const struct export_client *client = &entry->clients[j];
            const char *path = client->options.mountpoint;
            if (path != NULL && !is_mounted(builder, path[0] != '\0' ? path : entry->path)) {
                builder->set->is_suspended[client->number] = true;
            }
        }
    }
    return 0;
}

static int fill(struct builder *builder)
{
    struct export_set *set = builder->set;
    int err = suspend_clients(builder);
    for (uint32_t i = 0; err == 0 && i < set->table->entry_count; i++) {
        err = add_entry(builder, &set->table->entries[i]);
    }
    if (err == 0) {
        err = add_mounts(builder);
    }
    for (uint32_t i = 0; err == 0 && i < set->place_count; i++) {
        err = add_rules_from_above(builder, &set->places[i]);
    }
    for (uint32_t i = 0; err == 0 && i < set->place_count; i++) {
        err = add_crossings(builder, i);
    }
    return err;
}

int export_set_build(struct vfs *vfs, struct export_table *table, bool strict,
                  struct export_set **result, struct err *err)
{
    struct builder builder = {.vfs = vfs, .strict = strict, .err = err};
    cred_take_root();
    builder.set = calloc(1, sizeof *builder.set);
    if (builder.set == NULL) {
        return no_memory(&builder);
    }
    atomic_init(&builder.set->ref_count, 1);
    builder.set->table = export_table_get(table);
    builder.old = vfs->set != NULL ? export_set_get(vfs) : NULL;
    int error = mounts_read(vfs->mounts_fd, &builder.mounts);
    if (error != 0) {
        err_set(err, error, "cannot read what is mounted: %s", strerror(-error));
    } else {
        error = fill(&builder);
    }
    mounts_free(&builder.mounts);
    export_set_put(builder.old);
    if (error != 0) {
        export_set_put(builder.set);
        return error;
    }
    *result = builder.set;
    return 0;
}

/* ---- putting into force ---- */

static void mark_crossings(const struct export_set *set)
{
    for (uint32_t i = 0; i < set->place_count; i++) {
        if (set->places[i].export != NULL) {
            atomic_store(&set->places[i].export->has_crossings,
                         set->places[i].crossing_count > 0);
        }
    }
}

/* Waits until nobody has a reference but the old set, and the intent of one with a log. False: it
 * took too long. */
static bool release(struct vfs *vfs, struct vfs_export *export, const char *path)
{
    uint32_t locked = 0;
    bool is_free = false;
    for (int i = 0; i < RELEASE_WAITS_MAX && !is_free; i++) {
        locked += range_locks_release_export(vfs, export);
        journal_push(export->intent->journal);
        object_purge(export);
        is_free = atomic_load(&export->ref_count) == (export->logged ? 2U : 1U);
        if (!is_free) {
            (void)nanosleep(&(struct timespec){.tv_nsec = RELEASE_WAIT_MS * 1000000L}, NULL);
        }
    }
    if (locked > 0) {
        log_notice("%s is exported no more: locks of %u files are gone", path, locked);
    }
    return is_free;
}

uint32_t export_set_publish(struct vfs *vfs, struct export_set *set)
{
    uint32_t in_use = 0;
    mark_crossings(set);
    admit_use_table(vfs, set->table);
    pthread_mutex_lock(&vfs->set_lock);
    struct export_set *old = vfs->set;
    vfs->set = set;
    atomic_fetch_add(&vfs->generation, 1);
    pthread_mutex_unlock(&vfs->set_lock);
    for (uint32_t i = 0; old != NULL && i < old->place_count; i++) {
        struct vfs_export *export = old->places[i].export;
        if (export == NULL || export_set_place_of(set, export) != NULL) {
            continue;
        }
        bool is_free = release(vfs, export, old->places[i].path);
        in_use += !is_free && !export->logged; /* the others are counted below */
    }
    export_set_put(old);
    return in_use + intent_part(vfs, set);
}
