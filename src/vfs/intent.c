/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Journals, and which export's changes go into which.
 *
 * 1. Changes of one file system go into one log, whichever of its exports they come through: replay
 *    puts them in order. Several file systems may share a log.
 * 2. An export says which by `journal=`; else the server's --journal counts. VFS_JOURNAL_AUTO is a
 *    log in the file system itself, so that a file system has all of its own with it. Where that
 *    cannot be made, the export does without.
 * 3. An export has its intent before the first call, and until the last one is done with it. Then
 *    the keeper makes a checkpoint, and closes what the export has open; with the last export of a
 *    log goes the log.
 * 4. Each journal counts its own lsns. To callers they are in the lane of the journal's index
 *    (node.h); a call that depends on two journals waits for one of them here.
 */
#include "vfs/export_set.h"
#include "vfs/internal.h"
#include "vfs/outside.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LET_GO_SECONDS_MAX 30

/* Exports on their way into logs. */
struct joining {
    struct vfs *vfs;
    const struct export_set *set;
    bool at_start;
    struct err *err;
    struct intent *made[VFS_JOURNAL_COUNT_MAX];
    uint32_t made_count;
    struct vfs_export **joined; /* that got an intent */
    uint32_t joined_count;
};

void intent_object(const uint8_t *handle, struct journal_object *object)
{
    _Static_assert(HANDLE_KERNEL_BYTES_MAX <= JOURNAL_OBJECT_BYTES_MAX, "a handle has room");
    object->type = handle[1];
    object->size = handle[2];
    memcpy(object->bytes, handle + HANDLE_HEAD_BYTES, object->size);
}

/* ---- an intent ---- */

static struct intent *intent_new(struct vfs *vfs)
{
    struct intent *intent = calloc(1, sizeof *intent);
    if (intent != NULL) {
        intent->vfs = vfs;
        intent->file_fd = -1;
        pthread_mutex_init(&intent->lock, NULL);
    }
    return intent;
}

/* Its exports have gone. NULL is fine. */
static void intent_delete(struct intent *intent)
{
    if (intent == NULL) {
        return;
    }
    if (intent->file_fd >= 0) {
        close(intent->file_fd);
    }
    pthread_mutex_destroy(&intent->lock);
    free(intent->exports);
    free(intent->path);
    free(intent);
}

static int add_export(struct intent *intent, struct vfs_export *export)
{
    struct vfs *vfs = intent->vfs;
    pthread_mutex_lock(&intent->lock);
    pthread_mutex_lock(&vfs->intents_lock);
    struct vfs_export **exports =
        reallocarray(intent->exports, intent->export_count + 1, sizeof *exports);
    if (exports != NULL) {
        intent->exports = exports;
        intent->exports[intent->export_count++] = volume_get(export);
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    pthread_mutex_unlock(&intent->lock);
    return exports != NULL ? 0 : -ENOMEM;
}

/* The reference is the caller's then. */
static void remove_export(struct intent *intent, const struct vfs_export *export)
{
    struct vfs *vfs = intent->vfs;
    pthread_mutex_lock(&intent->lock);
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 0; i < intent->export_count; i++) {
        if (intent->exports[i] == export) {
            intent->exports[i] = intent->exports[--intent->export_count];
            break;
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    pthread_mutex_unlock(&intent->lock);
}

static uint32_t names_of(const struct intent *intent,
                         struct journal_export names[JOURNAL_EXPORT_COUNT_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < intent->export_count && count < JOURNAL_EXPORT_COUNT_MAX; i++) {
        names[count] = (struct journal_export){.id = intent->exports[i]->id};
        snprintf(names[count].path, sizeof names[count].path, "%s", intent->exports[i]->path);
        count++;
    }
    return count;
}

/* For who reads the log; what is in it does not depend on it. */
static void name_exports(struct intent *intent)
{
    struct journal_export names[JOURNAL_EXPORT_COUNT_MAX];
    uint32_t count = names_of(intent, names);
    int err = journal_log_name_exports(intent->log, names, count);
    if (err != 0) {
        log_warning("the journal %s: %s", intent->path, strerror(-err));
    }
}

int intent_sync(const struct intent *intent)
{
    int err = 0;
    for (uint32_t i = 0; i < intent->export_count && err == 0; i++) {
        err = hidden_sync(intent->exports[i]);
    }
    return err;
}

/* ---- its journal ---- */

static void on_durable(void *arg, uint64_t lsn, int error)
{
    const struct intent *intent = arg;
    const struct vfs_options *options = &intent->vfs->options;
    if (options->durable != NULL) {
        options->durable(options->arg, lsn + intent->lsn_offset, error);
    }
}

static void on_lost(void *arg)
{
    const struct intent *intent = arg;
    vfs_lost(intent->vfs);
}

static int on_sync(void *arg, int fd, enum journal_how how)
{
    const struct intent *intent = arg;
    const struct vfs_options *options = &intent->vfs->options;
    return options->sync(options->arg, fd, (int)how);
}

static int on_checkpoint(void *arg)
{
    struct intent *intent = arg;
    pthread_mutex_lock(&intent->lock);
    int err = intent_sync(intent);
    pthread_mutex_unlock(&intent->lock);
    return err;
}

/* An index that is free; nobody else takes one. */
static int find_index(struct vfs *vfs, struct intent *intent)
{
    int err = -EUSERS;
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = intent->log == NULL ? 0 : 1; i < VFS_JOURNAL_COUNT_MAX && err != 0; i++) {
        if (vfs->intents[i] == NULL) {
            intent->index = i;
            err = 0;
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return err;
}

/* Takes over intent->log, also when it fails. */
static int open_journal(struct intent *intent, struct err *err)
{
    struct vfs *vfs = intent->vfs;
    const struct journal_options options = {
        .durable = on_durable,
        .lost = on_lost,
        .sync = vfs->options.sync != NULL ? on_sync : NULL,
        .checkpoint = on_checkpoint,
        .arg = intent,
        .log = intent->log,
    };
    int error = find_index(vfs, intent);
    if (error != 0) {
        err_set(err, error, "more than %u journals", VFS_JOURNAL_COUNT_MAX - 1);
    } else {
        error = journal_open(&options, &intent->journal, err);
    }
    if (error != 0) {
        journal_log_close(intent->log);
        intent->log = NULL;
        return error;
    }
    uint64_t lane = (uint64_t)intent->index << VFS_LANE_SHIFT;
    uint64_t last = vfs->lane_last[intent->index];
    intent->lsn_offset = (last > lane ? last : lane) - journal_settled(intent->journal);
    pthread_mutex_lock(&vfs->intents_lock);
    vfs->intents[intent->index] = intent;
    pthread_mutex_unlock(&vfs->intents_lock);
    return 0;
}

/* Nothing is under way in it. Whoever looks at the intents does not find it any more. */
static int close_journal(struct intent *intent)
{
    struct vfs *vfs = intent->vfs;
    pthread_mutex_lock(&vfs->intents_lock);
    vfs->intents[intent->index] = NULL;
    pthread_mutex_unlock(&vfs->intents_lock);
    vfs->lane_last[intent->index] = journal_settled(intent->journal) + intent->lsn_offset;
    int err = journal_close(intent->journal);
    intent->journal = NULL;
    intent->log = NULL;
    return err;
}

/* ---- which log ---- */

/* What the place says itself, or those above it; NULL: nothing. */
static const char *word_of(const struct export_place *place)
{
    for (uint32_t i = 0; i < place->rule_count; i++) {
        const char *word = place->rules[i].entry->clients[0].options.journal;
        if (word != NULL) {
            return word;
        }
    }
    return NULL;
}

static bool shares_fs(const struct export_place *place, const struct vfs_export *export)
{
    return place->export != NULL && place->export->dev == export->dev;
}

/* What is to be of the file system that an export is on (1). *wish: VFS_JOURNAL_OFF,
 * VFS_JOURNAL_AUTO or a path. *known: an export of it that has its intent already, or NULL. */
static int find_wish(const struct joining *joining, const struct vfs_export *export,
                     const char **wish, const struct vfs_export **known)
{
    const struct export_set *set = joining->set;
    const char *said_by = NULL;
    *wish = NULL;
    *known = NULL;
    for (uint32_t i = 0; i < set->place_count; i++) {
        const struct export_place *place = &set->places[i];
        const char *word = shares_fs(place, export) ? word_of(place) : NULL;
        if (shares_fs(place, export) && place->export->intent != NULL) {
            *known = place->export;
        }
        if (word != NULL && *wish != NULL && strcmp(word, *wish) != 0) {
            return err_set(joining->err, -EINVAL,
                           "%s and %s are in one file system, whose changes go into one journal: "
                           "their journal= differ",
                           said_by, place->path);
        }
        if (word != NULL) {
            *wish = word;
            said_by = place->path;
        }
    }
    if (*wish == NULL) {
        const char *given = joining->vfs->options.journal_path;
        *wish = given != NULL ? given : VFS_JOURNAL_OFF;
    }
    if (joining->vfs->is_plain && strcmp(*wish, VFS_JOURNAL_OFF) != 0) {
        return err_set(joining->err, -EPERM,
                       "cannot keep a journal of %s: replay opens files by their handles, which is "
                       "for root",
                       export->path);
    }
    return 0;
}

static bool has_log_file(const struct vfs_export *export)
{
    struct stat st;
    return fstatat(export->mount_fd, HIDDEN_NAME "/" LOG_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_size > 0;
}

/* Where the log of a file system is, or will be: in the first of its exports, unless it is in
 * another one. */
static struct vfs_export *find_home(const struct joining *joining, struct vfs_export *export)
{
    struct vfs_export *first = NULL;
    for (uint32_t i = 0; i < joining->set->place_count; i++) {
        const struct export_place *place = &joining->set->places[i];
        if (!shares_fs(place, export)) {
            continue;
        }
        first = first != NULL ? first : place->export;
        if (has_log_file(place->export)) {
            return place->export;
        }
    }
    return first;
}

static bool is_same_file(int fd, int other_fd)
{
    struct stat a, b;
    if (other_fd < 0 || fstat(fd, &a) != 0 || fstat(other_fd, &b) != 0) {
        return false;
    }
    return S_ISBLK(a.st_mode) ? S_ISBLK(b.st_mode) && a.st_rdev == b.st_rdev
                              : a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The intent of this file, or NULL. */
static struct intent *find_open(const struct joining *joining, int fd)
{
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = joining->vfs->intents[i];
        if (intent != NULL && is_same_file(fd, intent->file_fd)) {
            return intent;
        }
    }
    for (uint32_t i = 0; i < joining->made_count; i++) {
        if (is_same_file(fd, joining->made[i]->file_fd)) {
            return joining->made[i];
        }
    }
    return NULL;
}

/* One that runs for this file system, though the exports it has now may be about to go. Not if its
 * log went with a directory that was removed. */
static struct intent *find_running(struct vfs *vfs, dev_t dev)
{
    struct stat st;
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            if (intent->exports[j]->dev == dev && fstat(intent->file_fd, &st) == 0 &&
                st.st_nlink > 0) {
                return intent;
            }
        }
    }
    return NULL;
}

static int open_file(const struct joining *joining, struct vfs_export *export, const char *wish,
                     char path[VFS_JOURNAL_PATH_BYTES_MAX])
{
    if (strcmp(wish, VFS_JOURNAL_AUTO) != 0) {
        snprintf(path, VFS_JOURNAL_PATH_BYTES_MAX, "%s", wish);
        return outside_journal(wish);
    }
    struct vfs_export *home = find_home(joining, export);
    snprintf(path, VFS_JOURNAL_PATH_BYTES_MAX, "%s/" HIDDEN_NAME "/" LOG_NAME, home->path);
    int err = home->hidden.dir_fd < 0 ? hidden_open(home, joining->err) : 0;
    uint64_t bytes = joining->vfs->options.journal_bytes;
    return err == 0 ? log_file_make(home->hidden.dir_fd, LOG_NAME, bytes) : err;
}

static uint32_t count_journals(const struct joining *joining)
{
    uint32_t count = joining->made_count;
    for (uint32_t i = 0; i < VFS_JOURNAL_COUNT_MAX; i++) {
        count += joining->vfs->intents[i] != NULL;
    }
    return count;
}

/* One that is running, or one more that is to be started when all its exports are known. */
static int find_intent(struct joining *joining, struct vfs_export *export, const char *wish,
                       struct intent **result)
{
    char path[VFS_JOURNAL_PATH_BYTES_MAX];
    int fd = open_file(joining, export, wish, path);
    if (fd < 0) {
        return err_set(joining->err, fd, "the journal %s: %s", path, strerror(-fd));
    }
    *result = find_open(joining, fd);
    if (*result != NULL) {
        close(fd);
        return 0;
    }
    if (count_journals(joining) == VFS_JOURNAL_COUNT_MAX) {
        close(fd);
        return err_set(joining->err, -EUSERS, "more than %u journals", VFS_JOURNAL_COUNT_MAX - 1);
    }
    struct intent *intent = intent_new(joining->vfs);
    if (intent != NULL) {
        intent->file_fd = fd;
        intent->path = strdup(path);
    }
    if (intent == NULL || intent->path == NULL) {
        intent_delete(intent);
        return err_set(joining->err, -ENOMEM, "no memory for the journal %s", path);
    }
    joining->made[joining->made_count++] = intent;
    *result = intent;
    return 0;
}

/* ---- joining ---- */

static bool is_leaving(struct vfs *vfs, uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        const struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            found = found || (intent->exports[j]->leaving && intent->exports[j]->id == id);
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return found;
}

/* An export that had its intent before can keep it, or must be an error. */
static int check_same(const struct joining *joining, const struct vfs_export *export,
                      const char *wish)
{
    if (strcmp(export->wish, wish) == 0) {
        return 0;
    }
    return err_set(joining->err, -EBUSY,
                   "the journal of %s cannot become %s while it is served: restart the server, or "
                   "take the export out for a moment",
                   export->path, wish);
}

/* Whether clients may change anything in its file system. */
static bool is_written(const struct joining *joining, const struct vfs_export *export)
{
    for (uint32_t i = 0; i < joining->set->place_count; i++) {
        const struct export_place *place = &joining->set->places[i];
        for (uint32_t j = 0; shares_fs(place, export) && j < place->rule_count; j++) {
            const struct export_entry *entry = place->rules[j].entry;
            for (uint32_t k = 0; k < entry->client_count; k++) {
                if (entry->clients[k].options.rw) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Whether its changes can go into a log at all. */
static bool can_have_log(const struct joining *joining, const struct vfs_export *export,
                         const char *wish)
{
    bool is_auto = strcmp(wish, VFS_JOURNAL_AUTO) == 0;
    if (strcmp(wish, VFS_JOURNAL_OFF) == 0 || (is_auto && !is_written(joining, export))) {
        return false;
    }
    if (!volume_keeps_order(export->mount_fd)) {
        log_notice("%s: its file system cannot be used with the journal: each change is synced by "
                   "itself",
                   export->path);
        return false;
    }
    if (!export->has_journal && is_auto) {
        log_notice("%s: its file system has no journal of its own: each change is synced by itself",
                   export->path);
        return false;
    }
    if (!export->has_journal) {
        log_warning("%s: its file system has no journal of its own: a power cut may take from it "
                    "what the log relies on",
                    export->path);
    }
    return true;
}

/* Into a log that runs: nothing in it is of this export. */
static int join_running(const struct joining *joining, struct vfs_export *export,
                        const struct intent *intent)
{
    int err = note_check(export, intent->log, joining->err);
    if (err != 0) {
        return err;
    }
    err = note_write(export, intent->log, intent->path);
    if (err != 0) {
        return err_set(joining->err, err, "%s/" HIDDEN_NAME ": %s", export->path, strerror(-err));
    }
    pool_open(export);
    return 0;
}

static int join_log(struct joining *joining, struct vfs_export *export, const char *wish,
                    struct intent *intent)
{
    int err = export->hidden.dir_fd < 0 ? hidden_open(export, joining->err) : 0;
    if (err == 0 && intent == NULL) {
        err = find_intent(joining, export, wish, &intent);
    }
    if (err == 0 && intent->journal != NULL) {
        err = join_running(joining, export, intent);
    }
    if (err != 0) {
        return err;
    }
    err = add_export(intent, export);
    if (err != 0) {
        note_remove(export);
        return err_set(joining->err, err, "no memory for the exports");
    }
    export->intent = intent;
    export->logged = true;
    joining->joined[joining->joined_count++] = export;
    return 0;
}

static int join_none(struct joining *joining, struct vfs_export *export)
{
    int err = note_check(export, NULL, joining->err);
    if (err == 0) {
        export->intent = joining->vfs->intents[0];
        joining->joined[joining->joined_count++] = export;
    }
    return err;
}

/* A log that nobody has asked for is missed by nobody, unless the last server left changes in it.
 */
static int join_or_do_without(struct joining *joining, struct vfs_export *export, const char *wish,
                              struct intent *intent)
{
    int err = join_log(joining, export, wish, intent);
    if (err == 0 || intent != NULL || strcmp(wish, VFS_JOURNAL_AUTO) != 0 || err == -ENOMEM ||
        has_log_file(export)) {
        return err;
    }
    log_notice("%s: no log can be kept in its file system (%s): each change is synced by itself",
               export->path, strerror(-err));
    hidden_remove(export);
    return join_none(joining, export);
}

static int join_one(struct joining *joining, struct vfs_export *export)
{
    struct vfs *vfs = joining->vfs;
    const char *wish;
    const struct vfs_export *known;
    int err = find_wish(joining, export, &wish, &known);
    if (err == 0 && known != NULL) {
        err = check_same(joining, known, wish);
    }
    if (err != 0 || export->intent != NULL) {
        return err;
    }
    if (is_leaving(vfs, export->id)) {
        return err_set(joining->err, -EBUSY, "%s is still being let go of: try again in a moment",
                       export->path);
    }
    export->wish = strdup(wish);
    if (export->wish == NULL) {
        return err_set(joining->err, -ENOMEM, "no memory for the exports");
    }
    if (known != NULL ? known->intent == vfs->intents[0] : !can_have_log(joining, export, wish)) {
        return join_none(joining, export);
    }
    return join_or_do_without(joining, export, wish,
                              known != NULL ? known->intent : find_running(vfs, export->dev));
}

/* ---- starting ---- */

static int begin_epoch(struct intent *intent, struct err *err)
{
    struct journal_export names[JOURNAL_EXPORT_COUNT_MAX];
    int error = 0;
    for (uint32_t i = 0; i < intent->export_count && error == 0; i++) {
        error = note_write(intent->exports[i], intent->log, intent->path);
    }
    if (error == 0) {
        uint32_t count = names_of(intent, names);
        error = journal_log_begin(intent->log, names, count);
    }
    return error == 0
               ? 0
               : err_set(err, error, "the journal %s: %s", intent->path, strerror(-error));
}

static void say_speed(const struct intent *intent)
{
    const struct intent_speed *speed = &intent->speed;
    log_notice("the journal %s: a durable write takes %.3f ms, the fsync of a file %.3f ms; stable "
               "data of up to %u KiB goes into it",
               intent->path, (double)speed->write_ns / 1e6, (double)speed->sync_ns / 1e6,
               speed->write_bytes_max / 1024);
}

/* All its exports are known. */
static int start(const struct joining *joining, struct intent *intent)
{
    struct err *err = joining->err;
    int fd = fcntl(intent->file_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return err_set(err, -errno, "the journal %s: %s", intent->path, strerror(errno));
    }
    int error =
        log_open(fd, intent->path, joining->vfs->options.journal_bytes, &intent->log, err);
    for (uint32_t i = 0; i < intent->export_count && error == 0; i++) {
        error = note_check(intent->exports[i], intent->log, err);
    }
    if (error == 0) {
        error = replay_run(intent, intent->log, joining->at_start, err);
    }
    if (error == 0) {
        error = begin_epoch(intent, err);
    }
    if (error == 0) {
        error = intent_measure(intent->exports[0], intent->log, &intent->speed);
        if (error != 0) {
            err_set(err, error, "the journal %s cannot be written: %s", intent->path,
                    strerror(-error));
        }
    }
    if (error != 0) {
        journal_log_close(intent->log);
        intent->log = NULL;
        return error;
    }
    for (uint32_t i = 0; i < intent->export_count; i++) {
        pool_open(intent->exports[i]);
    }
    say_speed(intent);
    return open_journal(intent, err);
}

static void part_one(struct intent *intent, struct vfs_export *export, bool is_clean)
{
    remove_export(intent, export);
    if (is_clean) {
        note_remove(export);
    }
    pool_close(export, is_clean);
    hidden_close(export);
}

/* The exports are as they were before. */
static void undo(struct joining *joining)
{
    bool is_clean[VFS_JOURNAL_COUNT_MAX] = {false};
    for (uint32_t i = 0; i < joining->made_count; i++) {
        struct intent *intent = joining->made[i];
        is_clean[i] = intent->journal != NULL && close_journal(intent) == 0;
    }
    for (uint32_t i = 0; i < joining->joined_count; i++) {
        struct vfs_export *export = joining->joined[i];
        struct intent *intent = export->intent;
        bool clean = intent->journal != NULL;
        for (uint32_t j = 0; j < joining->made_count; j++) {
            clean = joining->made[j] == intent ? is_clean[j] : clean;
        }
        if (export->logged) {
            part_one(intent, export, clean);
            volume_put(export);
        }
        export->intent = NULL;
        export->logged = false;
    }
    for (uint32_t i = 0; i < joining->made_count; i++) {
        intent_delete(joining->made[i]);
    }
}

int intent_join(struct vfs *vfs, const struct export_set *set, bool at_start, struct err *err)
{
    struct joining joining = {.vfs = vfs, .set = set, .at_start = at_start, .err = err};
    joining.joined = calloc(set->place_count + 1, sizeof(struct vfs_export *));
    if (joining.joined == NULL) {
        return err_set(err, -ENOMEM, "no memory for %u exports", set->place_count);
    }
    int error = 0;
    pthread_mutex_lock(&vfs->join_lock);
    for (uint32_t i = 0; i < set->place_count && error == 0; i++) {
        error = set->places[i].export != NULL ? join_one(&joining, set->places[i].export) : 0;
    }
    for (uint32_t i = 0; i < joining.made_count && error == 0; i++) {
        error = start(&joining, joining.made[i]);
    }
    if (error != 0) {
        undo(&joining);
    }
    for (uint32_t i = 0; i < joining.joined_count && error == 0 && !at_start; i++) {
        if (joining.joined[i]->logged) {
            name_exports(joining.joined[i]->intent);
        }
    }
    pthread_mutex_unlock(&vfs->join_lock);
    free(joining.joined);
    return error;
}

/* ---- parting ---- */

/* Exports that leave. The caller has intents_lock. */
static uint32_t count_leaving(const struct vfs *vfs)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        const struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            count += intent->exports[j]->leaving;
        }
    }
    return count;
}

static bool mark_leaving(struct vfs *vfs, const struct export_set *set)
{
    bool any = false;
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            if (export_set_place_of(set, intent->exports[j]) == NULL) {
                intent->exports[j]->leaving = true;
                any = true;
            }
        }
    }
    return any;
}

uint32_t intent_part(struct vfs *vfs, const struct export_set *set)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LET_GO_SECONDS_MAX;
    pthread_mutex_lock(&vfs->intents_lock);
    if (!mark_leaving(vfs, set)) {
        pthread_mutex_unlock(&vfs->intents_lock);
        return 0;
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    keeper_wake(vfs);
    pthread_mutex_lock(&vfs->intents_lock);
    uint32_t left = count_leaving(vfs);
    while (left > 0 && pthread_cond_timedwait(&vfs->let_go, &vfs->intents_lock, &until) == 0) {
        left = count_leaving(vfs);
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return left;
}

/* One that leaves and that no call uses any more, or NULL. */
static struct vfs_export *find_free(struct vfs *vfs, struct intent **of)
{
    struct vfs_export *found = NULL;
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            struct vfs_export *export = intent->exports[j];
            if (export->leaving && atomic_load(&export->ref_count) == 1) {
                found = export;
                *of = intent;
            }
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return found;
}

static void let_go(struct intent *intent, struct vfs_export *export)
{
    struct vfs *vfs = intent->vfs;
    int err = journal_checkpoint(intent->journal);
    if (err != 0) {
        log_error("%s is let go of with changes that are in the journal %s alone: serve it again "
                  "with that",
                  export->path, intent->path);
    }
    part_one(intent, export, err == 0);
    volume_put(export);
    if (intent->export_count > 0) {
        name_exports(intent);
    } else {
        (void)close_journal(intent);
        intent_delete(intent);
    }
    pthread_mutex_lock(&vfs->intents_lock);
    pthread_cond_broadcast(&vfs->let_go);
    pthread_mutex_unlock(&vfs->intents_lock);
}

bool intent_sweep(struct vfs *vfs)
{
    struct intent *intent = NULL;
    struct vfs_export *export;
    if (pthread_mutex_trylock(&vfs->join_lock) == 0) {
        while ((export = find_free(vfs, &intent)) != NULL) {
            let_go(intent, export);
        }
        pthread_mutex_unlock(&vfs->join_lock);
    }
    pthread_mutex_lock(&vfs->intents_lock);
    bool more = count_leaving(vfs) > 0;
    pthread_mutex_unlock(&vfs->intents_lock);
    return more;
}

/* ---- looking ---- */

struct vfs_export *intent_export(struct vfs *vfs, uint32_t index)
{
    struct vfs_export *found = NULL;
    uint32_t seen = 0;
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX && found == NULL; i++) {
        const struct intent *intent = vfs->intents[i];
        uint32_t count = intent != NULL ? intent->export_count : 0;
        if (index < seen + count) {
            found = volume_get(intent->exports[index - seen]);
        }
        seen += count;
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return found;
}

bool intent_has_root(struct vfs *vfs, const struct vfs_object *object)
{
    bool found = false;
    pthread_mutex_lock(&vfs->intents_lock);
    for (uint32_t i = 1; i < VFS_JOURNAL_COUNT_MAX; i++) {
        const struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count && !found; j++) {
            found = object_is_root_of(object, intent->exports[j]);
        }
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return found;
}

bool vfs_journal_info(struct vfs *vfs, uint32_t index, struct vfs_journal_info *info)
{
    if (index >= VFS_JOURNAL_COUNT_MAX) {
        return false;
    }
    pthread_mutex_lock(&vfs->intents_lock);
    const struct intent *intent = vfs->intents[index];
    if (intent != NULL) {
        *info = (struct vfs_journal_info){
            .export_count = intent->export_count,
            .write_bytes_max = intent->speed.write_bytes_max,
            .measured_write_ns = intent->speed.write_ns,
            .measured_sync_ns = intent->speed.sync_ns,
        };
        snprintf(info->path, sizeof info->path, "%s", intent->path != NULL ? intent->path : "");
        for (uint32_t i = 0; i < intent->export_count; i++) {
            pool_count(intent->exports[i], &info->pool_files, &info->pool_dirs);
        }
        journal_stats(intent->journal, &info->stats);
    }
    pthread_mutex_unlock(&vfs->intents_lock);
    return intent != NULL;
}

int intent_depend(struct vfs_call *call, const struct vfs_export *export, uint64_t lsn)
{
    const struct intent *intent = export->intent;
    uint64_t seen = lsn + intent->lsn_offset;
    if (call->lsn == 0 || call->lsn >> VFS_LANE_SHIFT == intent->index) {
        call->lsn = seen > call->lsn ? seen : call->lsn;
        return 0;
    }
    journal_leave(); /* or the batch that is waited for would wait for this thread's reply */
    return journal_wait(intent->journal, lsn);
}

/* ---- begin and end ---- */

int intent_open(struct vfs *vfs, struct err *err)
{
    struct intent *intent = intent_new(vfs);
    if (intent == NULL) {
        return err_set(err, -ENOMEM, "no memory for the journal");
    }
    int error = open_journal(intent, err);
    if (error != 0) {
        intent_delete(intent);
    }
    return error;
}

void intent_close(struct vfs *vfs)
{
    for (uint32_t i = 0; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = vfs->intents[i];
        if (intent == NULL) {
            continue;
        }
        int err = journal_close(intent->journal);
        intent->journal = NULL;
        for (uint32_t j = 0; err == 0 && j < intent->export_count; j++) {
            note_remove(intent->exports[j]);
        }
    }
}

void intent_free(struct vfs *vfs)
{
    for (uint32_t i = 0; i < VFS_JOURNAL_COUNT_MAX; i++) {
        struct intent *intent = vfs->intents[i];
        for (uint32_t j = 0; intent != NULL && j < intent->export_count; j++) {
            pool_close(intent->exports[j], false);
            hidden_close(intent->exports[j]);
            volume_put(intent->exports[j]);
        }
        intent_delete(intent);
        vfs->intents[i] = NULL;
    }
}
