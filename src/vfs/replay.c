/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: makes the file systems what the log says (net.h), before anybody is served.
 *
 *     read       all live batches are read and judged; nothing is changed before all are good
 *     look       what lies in the pools and in staging
 *     unmake     an entry that leads to an object which the log knows to have been there before,
 * but not to the right one: that goes to staging make       an entry that must lead to an object
 * and leads nowhere: the object comes from staging, from the pool, or gets one name more fill data
 * and attributes tidy       what nobody wants any more leaves staging sync       all of it, with
 * the devices
 *
 * 1. Each step looks before it acts, and may be done again: a cut in the midst is just another cut.
 * 2. An object is found by its handle. One that is gone was removed by a change that reached the
 *    file system and not the log: whatever is said of it is skipped.
 * 3. An entry that leads to an object which the log does not know there was changed later, by a
 *    change that reached the file system and not the log. It stays: nobody was told, and nobody
 *    loses anything.
 * 4. An object that should have a name, has not, and lies neither in staging nor in the pool, was
 *    moved by such a change too, if it has all the names it should have. It stays where it is.
 * 5. Nothing is unlinked but a name in staging, of an object that the log says has lost that name.
 *
 * docs/durability.md has the argument.
 */
#include "vfs/internal.h"
#include "vfs/net.h"
#include "vfs/rehearse.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLY_AGE_NS_MAX (120ULL * 1000000000U)

struct replay {
    struct vfs *vfs;
    const struct intent *intent;
    bool replies;                          /* are wanted */
    const struct vfs_rehearsal *rehearsal; /* not NULL: everything is told, and nothing is done */
    struct net *net;
    struct err *err;
    uint8_t **batches; /* what the net points into */
    size_t batch_count;
    uint32_t staged_last;
    uint64_t record_count;
    uint64_t changed; /* things that were not right */
};

static int failed(struct replay *replay, int error, const char *what, const char *name)
{
    return err_set(replay->err, error, "the journal cannot be replayed: %s%s%s: %s", what,
                   name[0] != 0 ? " " : "", name, strerror(-error));
}

/* Something is not right: whether to put it right. fd and name say where it is; either may be
 * missing. */
static bool must(struct replay *replay, enum vfs_step step, int fd, const char *name,
                 uint64_t bytes)
{
    const struct vfs_rehearsal *rehearsal = replay->rehearsal;
    char link[40];
    char path[PATH_MAX + NAME_SPACE + 1] = "?";
    replay->changed++;
    if (rehearsal == NULL) {
        return true;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    size = size < 0 ? 1 : size;
    path[size] = 0;
    if (name[0] != 0) {
        snprintf(path + size, sizeof path - (size_t)size, "/%s", name);
    }
    rehearsal->tell(rehearsal->arg, step, path, bytes);
    return false;
}

/* ---- read ---- */

static struct vfs_export *export_of(const struct intent *intent, uint64_t id)
{
    for (uint32_t i = 0; i < intent->export_count; i++) {
        if (intent->exports[i]->id == id) {
            return intent->exports[i];
        }
    }
    return NULL;
}

static int no_export(struct replay *replay, const struct journal_log *log, uint64_t id)
{
    const struct journal_superblock *superblock = journal_log_superblock(log);
    const char *path = "an export that it does not name";
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        if (superblock->exports[i].id == id) {
            path = superblock->exports[i].path;
        }
    }
    return err_set(replay->err, -EXDEV,
                   "the journal has changes for %s, which is not served now, or is another file "
                   "system, or cannot be written: serve all that was served when it was written",
                   path);
}

static void hand_out(struct replay *replay, const struct journal_record *record)
{
    const struct journal_caller *caller = &record->reply.caller;
    struct vfs_reply reply = {
        .port = caller->port,
        .is_tcp = caller->is_tcp,
        .xid = caller->xid,
        .prog = caller->prog,
        .vers = caller->vers,
        .proc = caller->proc,
        .call_bytes = caller->call_bytes,
        .call_checksum = caller->call_checksum,
        .bytes = record->reply.bytes,
        .size = record->reply.size,
    };
    memcpy(reply.address, caller->address, sizeof reply.address);
    if (replay->replies && replay->vfs->options.reply != NULL) {
        replay->vfs->options.reply(replay->vfs->options.arg, &reply);
    }
}

/* A batch that replay does not need any more may have replies that somebody still asks for. */
static int take_record(struct replay *replay, const struct journal_log *log, bool live,
                       const struct journal_record *record)
{
    if (record->type == JOURNAL_REPLY) {
        hand_out(replay, record);
        return 0;
    }
    if (!live || record->type == JOURNAL_SKIPPED) {
        return 0;
    }
    struct vfs_export *export = export_of(replay->intent, record->export_id);
    if (export == NULL) {
        return no_export(replay, log, record->export_id);
    }
    replay->record_count++;
    int err = net_add(replay->net, export, export->dev, record);
    return err == 0 ? 0 : failed(replay, err, "its records", "");
}

static int take_batch(struct replay *replay, const struct journal_log *log,
                      const struct journal_log_found *found, const uint8_t *bytes)
{
    size_t size = found->head.size_bytes;
    for (size_t at = JOURNAL_BATCH_HEAD_BYTES; at < size;) {
        struct journal_record record;
        size_t used = 0;
        int err = journal_record_get(bytes + at, size - at, &record, &used);
        if (err != 0) {
            return err_set(replay->err, err, "the journal has a record that %s, in batch %llu",
                           err == -EPROTONOSUPPORT ? "this version of holdfast does not know"
                                                   : "makes no sense",
                           (unsigned long long)found->head.seq);
        }
        at += used;
        err = take_record(replay, log, found->live, &record);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int read_log(struct replay *replay, struct journal_log *log)
{
    size_t count = 0;
    const struct journal_log_found *found = journal_log_found(log, &count);
    uint64_t newest_ns = 0;
    for (size_t i = 0; i < count; i++) {
        newest_ns = found[i].head.time_ns > newest_ns ? found[i].head.time_ns : newest_ns;
    }
    replay->batches = calloc(count + 1, sizeof *replay->batches);
    if (replay->batches == NULL) {
        return failed(replay, -ENOMEM, "its batches", "");
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t *bytes = NULL;
        bool old = newest_ns - found[i].head.time_ns > REPLY_AGE_NS_MAX;
        if (!found[i].live && old) {
            continue;
        }
        int err = journal_log_load(log, &found[i], &bytes);
        if (err == -EUCLEAN && !found[i].live) {
            continue; /* the ring has come round to it */
        }
        if (err != 0) {
            return failed(replay, err, "a batch", "");
        }
        replay->batches[replay->batch_count++] = bytes;
        err = take_batch(replay, log, &found[i], bytes);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* ---- objects by handle ---- */

static void kernel_handle(const struct journal_object *id, union handle_kernel *kernel)
{
    uint8_t size = id->size <= HANDLE_KERNEL_BYTES_MAX ? id->size : 0;
    kernel->head.handle_type = id->type;
    kernel->head.handle_bytes = size;
    memcpy(kernel->head.f_handle, id->bytes, size);
}

/* -ESTALE: it is gone (2). The caller closes. */
static int open_object(const struct vfs_export *export, const struct net_object *object, int flags)
{
    union handle_kernel kernel;
    kernel_handle(&object->id, &kernel);
    int fd = open_by_handle_at(export->mount_fd, &kernel.head, flags | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

/* What a name leads to now; NULL and *err 0: to something that the log does not know. */
static struct net_object *lead_to(struct replay *replay, const struct vfs_export *export,
                                  int dir_fd, const char *name, int *err)
{
    struct vfs_handle handle;
    struct journal_object id = {0};
    *err = handle_of(export, dir_fd, name, 0, &handle);
    if (*err == -EXDEV) {
        *err = 0; /* something is mounted there */
        return NULL;
    }
    if (*err != 0) {
        return NULL;
    }
    intent_object(handle.bytes, &id);
    return net_find(replay->net, export->dev, &id);
}

/* ---- look ---- */

static int note_place(struct replay *replay, struct net_object *object, struct vfs_export *export,
                      int dir_fd, const char *name)
{
    struct net_place *place = net_memory(replay->net, sizeof *place);
    if (place == NULL) {
        return failed(replay, -ENOMEM, "its records", "");
    }
    place->export = export;
    place->dir_fd = dir_fd;
    snprintf(place->name, sizeof place->name, "%s", name);
    place->next = object->places;
    object->places = place;
    return 0;
}

static int look_in(struct replay *replay, struct vfs_export *export, int dir_fd)
{
    int err = 0;
    if (dir_fd < 0 && replay->rehearsal != NULL) {
        return 0; /* it would be made, empty */
    }
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        err = -errno;
        if (fd >= 0) {
            close(fd);
        }
        return failed(replay, err, export->path, HIDDEN_NAME);
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && err == 0; entry = readdir(dir)) {
        unsigned number = 0;
        int error;
        if (entry->d_name[0] == '.' ||
            strlen(entry->d_name) >= sizeof((struct net_place *)0)->name) {
            continue;
        }
        if (sscanf(entry->d_name, "s%u", &number) == 1 && number > replay->staged_last) {
            replay->staged_last = number;
        }
        struct net_object *object = lead_to(replay, export, dir_fd, entry->d_name, &error);
        if (object != NULL) {
            err = note_place(replay, object, export, dir_fd, entry->d_name);
        }
    }
    closedir(dir);
    return err;
}

/* The pool first, so that what is in staging is taken first. */
static int look(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->intent->export_count; i++) {
        struct vfs_export *export = replay->intent->exports[i];
        int err = look_in(replay, export, export->hidden.pool_fd);
        if (err == 0) {
            err = look_in(replay, export, export->hidden.staging_fd);
        }
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* ---- unmake ---- */

static void entry_name(const struct net_entry *entry, char text[NAME_SPACE])
{
    memcpy(text, entry->name, entry->name_bytes);
    text[entry->name_bytes] = 0;
}

static int stage(struct replay *replay, struct net_entry *entry, int dir_fd, const char *name,
                 struct net_object *object)
{
    struct vfs_export *export = entry->dir->export;
    char staged[24];
    int result = 0;
    bool moves = must(replay, VFS_STEP_STAGE, dir_fd, name, 0);
    do {
        snprintf(staged, sizeof staged, "s%u", ++replay->staged_last);
        if (moves) {
            result = renameat2(dir_fd, name, export->hidden.staging_fd, staged, RENAME_NOREPLACE);
        }
    } while (result != 0 && errno == EEXIST);
    if (result != 0) {
        return failed(replay, -errno, "cannot move", name);
    }
    return note_place(replay, object, export, export->hidden.staging_fd, staged);
}

static int unmake(struct replay *replay, struct net_entry *entry)
{
    char name[NAME_SPACE];
    int err = 0;
    int dir_fd = open_object(entry->dir->export, entry->dir, O_RDONLY | O_DIRECTORY);
    if (dir_fd == -ESTALE || dir_fd == -ENOTDIR) {
        return 0;
    }
    if (dir_fd < 0) {
        return failed(replay, dir_fd, "a directory", "");
    }
    entry_name(entry, name);
    struct net_object *found = lead_to(replay, entry->dir->export, dir_fd, name, &err);
    if (err == -ENOENT) {
        err = 0;
    } else if (err != 0) {
        err = failed(replay, err, "cannot look up", name);
    } else if (found != NULL && found == entry->now) {
        entry->right = true;
    } else if (found != NULL && net_was_prior(entry, found)) {
        err = stage(replay, entry, dir_fd, name, found);
    } else {
        entry->foreign = true; /* 3 */
    }
    close(dir_fd);
    return err;
}

/* ---- make ---- */

/* The object comes from where it lies. The directory is opened through the same mount. */
static int bring(struct replay *replay, struct net_entry *entry, const char *name)
{
    struct net_place *place = entry->now->places;
    int dir_fd = open_object(place->export, entry->dir, O_RDONLY | O_DIRECTORY);
    if (dir_fd == -ESTALE || dir_fd == -ENOTDIR) {
        entry->now->homeless = true;
        return 0;
    }
    if (dir_fd < 0) {
        return failed(replay, dir_fd, "a directory", "");
    }
    int err = 0;
    if (must(replay, VFS_STEP_PLACE, dir_fd, name, 0) &&
        renameat2(place->dir_fd, place->name, dir_fd, name, RENAME_NOREPLACE) != 0) {
        err = -errno;
    }
    close(dir_fd);
    if (err != 0) {
        return failed(replay, err, "cannot place", name);
    }
    entry->now->places = place->next;
    return 0;
}

/* 4: one name more, if it has fewer than it should. */
static int add_name(struct replay *replay, struct net_entry *entry, const char *name)
{
    const struct net_object *object = entry->now;
    char path[32];
    struct stat st;
    int err = 0;
    int fd = open_object(entry->dir->export, object, O_PATH);
    if (fd == -ESTALE) {
        return 0;
    }
    int dir_fd = open_object(entry->dir->export, entry->dir, O_RDONLY | O_DIRECTORY);
    bool wanted = fd >= 0 && dir_fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
                  st.st_nlink > 0 && object->has_state &&
                  object->state.nlink != JOURNAL_NLINK_UNKNOWN && st.st_nlink < object->state.nlink;
    if (wanted && must(replay, VFS_STEP_LINK, dir_fd, name, 0)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) != 0) {
            err = failed(replay, -errno, "cannot link", name);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    return err;
}

static int make(struct replay *replay, struct net_entry *entry)
{
    char name[NAME_SPACE];
    if (entry->now == NULL || entry->right || entry->foreign) {
        return 0;
    }
    entry_name(entry, name);
    return entry->now->places != NULL ? bring(replay, entry, name) : add_name(replay, entry, name);
}

/* ---- fill ---- */

static int write_data(int fd, const struct net_data *data)
{
    for (uint32_t at = 0; at < data->size;) {
        ssize_t put = pwrite(fd, data->bytes + at, data->size - at, (off_t)(data->offset + at));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put < 0 ? -errno : -ENOSPC;
        }
        at += (uint32_t)put;
    }
    return 0;
}

static int fill_data(struct replay *replay, struct net_object *object)
{
    if (object->data == NULL) {
        return 0;
    }
    int fd = open_object(object->export, object,
                         replay->rehearsal != NULL ? O_PATH : O_RDWR | O_NONBLOCK);
    if (fd == -ESTALE) {
        return 0;
    }
    int err = fd < 0 ? fd : 0;
    for (const struct net_data *data = object->data; data != NULL && err == 0; data = data->next) {
        if (!must(replay, VFS_STEP_DATA, fd, "", data->size)) {
            continue;
        }
        if (data->bytes != NULL) {
            err = write_data(fd, data);
        } else if (ftruncate(fd, (off_t)data->offset) != 0) {
            err = -errno;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return err == 0 ? 0 : failed(replay, err, "cannot write a file's data", "");
}

static struct timespec timespec_of(const struct journal_time *time)
{
    return (struct timespec){.tv_sec = time->seconds, .tv_nsec = time->nanoseconds};
}

/* What of the wanted attributes the object has not. */
static void want(const struct net_object *object, const struct stat *st, struct vfs_sattr *sattr)
{
    const struct journal_state *state = &object->state;
    struct timespec mtime =
        object->has_dir_mtime ? timespec_of(&object->dir_mtime) : timespec_of(&state->mtime);
    if (object->has_state) {
        struct timespec atime = timespec_of(&state->atime);
        sattr->set_uid = st->st_uid != state->uid;
        sattr->uid = state->uid;
        sattr->set_gid = st->st_gid != state->gid;
        sattr->gid = state->gid;
        bool owner = sattr->set_uid || sattr->set_gid; /* which clears bits of the mode */
        sattr->set_mode = !S_ISLNK(st->st_mode) && (owner || (st->st_mode & 07777) != state->mode);
        sattr->mode = state->mode;
        sattr->atime_how = same_time(&st->st_atim, &atime) ? VFS_TIME_KEEP : VFS_TIME_SET;
        sattr->atime = atime;
    }
    sattr->mtime_how = same_time(&st->st_mtim, &mtime) ? VFS_TIME_KEEP : VFS_TIME_SET;
    sattr->mtime = mtime;
}

static bool wants_any(const struct vfs_sattr *sattr)
{
    return sattr->set_uid || sattr->set_gid || sattr->set_mode ||
           sattr->atime_how != VFS_TIME_KEEP || sattr->mtime_how != VFS_TIME_KEEP;
}

static int set_attributes(const struct net_object *object, const struct vfs_sattr *sattr)
{
    struct vfs_handle handle;
    struct vfs_object *known;
    union handle_kernel kernel;
    kernel_handle(&object->id, &kernel);
    handle_make(object->export, &kernel.head, &handle);
    int err = object_obtain(object->export, &handle, &known);
    if (err == 0) {
        int fd;
        err = object_fd(known, OBJECT_PATH, &fd);
        err = err == 0 ? attr_apply(known, sattr) : err;
        object_put(known);
    }
    return err;
}

static int fill_attributes(struct replay *replay, struct net_object *object)
{
    struct vfs_sattr sattr = {0};
    struct stat st;
    if (!object->has_state && !object->has_dir_mtime) {
        return 0;
    }
    int fd = open_object(object->export, object, O_PATH);
    int err = fd < 0 ? fd : 0;
    if (err == 0 && fstat(fd, &st) != 0) {
        err = -errno;
    }
    if (err == 0 && st.st_nlink > 0 &&
        (!object->has_state || st.st_mode >> 12 == object->state.kind)) {
        want(object, &st, &sattr);
        if (wants_any(&sattr) && must(replay, VFS_STEP_ATTRIBUTES, fd, "", 0)) {
            err = set_attributes(object, &sattr);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return err == 0 || err == -ESTALE ? 0 : failed(replay, err, "cannot set attributes", "");
}

/* ---- tidy ---- */

/* 5. Directories may hold each other: again until nothing goes any more. */
static bool tidy_once(struct replay *replay)
{
    bool went = false;
    for (struct net_object *object = net_objects(replay->net); object != NULL;
         object = object->next) {
        struct net_place **link = &object->places;
        while (*link != NULL && !object->homeless) {
            struct net_place *place = *link;
            bool staged = place->dir_fd == place->export->hidden.staging_fd;
            bool gone = staged && (unlinkat(place->dir_fd, place->name, 0) == 0 ||
                                   unlinkat(place->dir_fd, place->name, AT_REMOVEDIR) == 0);
            if (gone) {
                *link = place->next;
                went = true;
            } else {
                link = &place->next;
            }
        }
    }
    return went;
}

static void tidy(struct replay *replay)
{
    while (tidy_once(replay)) {
    }
    for (const struct net_object *object = net_objects(replay->net); object != NULL;
         object = object->next) {
        for (const struct net_place *place = object->places; place != NULL; place = place->next) {
            if (place->dir_fd == place->export->hidden.staging_fd) {
                log_warning("%s/" HIDDEN_NAME "/staging/%s has lost its place, and stays there",
                            place->export->path, place->name);
            }
        }
    }
}

/* ---- all ---- */

static int each_entry(struct replay *replay, int (*step)(struct replay *, struct net_entry *))
{
    int err = 0;
    for (struct net_entry *entry = net_entries(replay->net); entry != NULL && err == 0;
         entry = entry->next) {
        err = step(replay, entry);
    }
    return err;
}

static int each_object(struct replay *replay, int (*step)(struct replay *, struct net_object *))
{
    int err = 0;
    for (struct net_object *object = net_objects(replay->net); object != NULL && err == 0;
         object = object->next) {
        err = step(replay, object);
    }
    return err;
}

static int apply(struct replay *replay)
{
    int err = look(replay);
    if (err == 0) {
        err = each_entry(replay, unmake);
    }
    if (err == 0) {
        err = each_entry(replay, make);
    }
    if (err == 0) {
        err = each_object(replay, fill_data);
    }
    if (err == 0) {
        err = each_object(replay, fill_attributes);
    }
    if (err == 0 && replay->rehearsal == NULL) {
        tidy(replay);
        int error = intent_sync(replay->intent);
        err = error == 0 ? 0 : failed(replay, error, "syncing", "");
    }
    return err;
}

static void end(struct replay *replay)
{
    for (size_t i = 0; i < replay->batch_count; i++) {
        free(replay->batches[i]);
    }
    free(replay->batches);
    net_free(replay->net);
}

int replay_run(struct intent *intent, struct journal_log *log, bool replies, struct err *err)
{
    struct replay replay = {.vfs = intent->vfs,
                            .intent = intent,
                            .replies = replies,
                            .err = err,
                            .net = net_new()};
    if (replay.net == NULL) {
        return err_set(err, -ENOMEM, "no memory to replay the journal");
    }
    cred_take_root();
    int error = read_log(&replay, log);
    if (error == 0 && replay.record_count > 0) {
        log_notice("the journal %s has %llu records since its last checkpoint: replaying",
                   intent->path, (unsigned long long)replay.record_count);
        error = apply(&replay);
    }
    if (error == 0 && replay.record_count > 0) {
        log_notice("the journal %s was replayed; %llu things were not yet in the file system",
                   intent->path, (unsigned long long)replay.changed);
    }
    end(&replay);
    return error;
}

int replay_rehearse(const struct intent *intent, struct journal_log *log,
                    struct vfs_rehearsal *rehearsal, struct err *err)
{
    struct replay replay = {.vfs = intent->vfs,
                            .intent = intent,
                            .rehearsal = rehearsal,
                            .err = err,
                            .net = net_new()};
    if (replay.net == NULL) {
        return err_set(err, -ENOMEM, "no memory to replay the journal");
    }
    int error = read_log(&replay, log);
    rehearsal->record_count = replay.record_count;
    if (error == 0 && replay.record_count > 0) {
        error = apply(&replay);
    }
    end(&replay);
    return error;
}
