/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which exports have the intent log, where it is, and what happens at the start and the end.
 *
 * An export whose changes are in a log has a file .holdfast/in-use, which names the log: its uuid
 * and its path. It is made before the first change goes into the log, and removed when the server
 * has ended with nothing left to replay. Whoever finds it and has not that log refuses to serve:
 * the file system alone may lack what clients were promised.
 */
#include "vfs/export_set.h"
#include "vfs/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define NOTE_NAME "in-use"
#define UUID_TEXT_BYTES (2 * JOURNAL_UUID_BYTES)
#define NOTE_BYTES_MAX 4096

/* Small stable writes. On the development machine's disk a durable write of this much took no
 * longer than one of a block, one of 256 KiB twice as long, and an fsync of a new file with as much
 * in it three to five times as long. A constant so far: it is not measured at start. */
#define WRITE_BYTES_MAX (32U * 1024)

void intent_object(const uint8_t *handle, struct journal_object *object)
{
    _Static_assert(HANDLE_KERNEL_BYTES_MAX <= JOURNAL_OBJECT_BYTES_MAX, "a handle has room");
    object->type = handle[1];
    object->size = handle[2];
    memcpy(object->bytes, handle + HANDLE_HEAD_BYTES, object->size);
}

/* ---- the note ---- */

/* The path in the note, or "" when there is no note. uuid: of the log it names. */
static int read_note(const struct vfs_export *export, char uuid[UUID_TEXT_BYTES + 1],
                     char path[NOTE_BYTES_MAX])
{
    char text[NOTE_BYTES_MAX] = "";
    path[0] = 0;
    uuid[0] = 0;
    int fd = openat(export->mount_fd, HIDDEN_NAME "/" NOTE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    }
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got < 0) {
        return -errno;
    }
    if (got < (ssize_t)UUID_TEXT_BYTES + 2) {
        snprintf(path, NOTE_BYTES_MAX, "(unknown)");
        return 0;
    }
    memcpy(uuid, text, UUID_TEXT_BYTES);
    uuid[UUID_TEXT_BYTES] = 0;
    snprintf(path, NOTE_BYTES_MAX, "%.*s", (int)strcspn(text + UUID_TEXT_BYTES + 1, "\n"),
             text + UUID_TEXT_BYTES + 1);
    return 0;
}

static void uuid_text(const struct journal_log *log, char text[UUID_TEXT_BYTES + 1])
{
    const uint8_t *uuid = journal_log_superblock(log)->uuid;
    for (size_t i = 0; i < JOURNAL_UUID_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    }
}

static int write_note(const struct vfs_export *export, const struct journal_log *log,
                      const char *path)
{
    char uuid[UUID_TEXT_BYTES + 1];
    char text[NOTE_BYTES_MAX];
    int dir_fd = export->hidden.dir_fd;
    uuid_text(log, uuid);
    int size = snprintf(text, sizeof text, "%s %s\n", uuid, path);
    int fd = openat(dir_fd, NOTE_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0) {
        return -errno;
    }
    int err = write(fd, text, (size_t)size) == size ? 0 : -ENOSPC;
    if (err == 0 && fsync(fd) != 0) {
        err = -errno;
    }
    close(fd);
    if (err == 0 && renameat(dir_fd, NOTE_NAME ".new", dir_fd, NOTE_NAME) != 0) {
        err = -errno;
    }
    return err == 0 && fsync(dir_fd) != 0 ? -errno : err;
}

static int check_note(const struct vfs_export *export, const char *mine, struct err *err)
{
    char uuid[UUID_TEXT_BYTES + 1];
    char path[NOTE_BYTES_MAX];
    int error = read_note(export, uuid, path);
    if (error != 0) {
        return err_set(err, error, "%s/" HIDDEN_NAME "/" NOTE_NAME ": %s", export->path,
                       strerror(-error));
    }
    if (path[0] != 0 && strcmp(uuid, mine) != 0) {
        return err_set(err, -EUCLEAN,
                       "%s has changes in the journal %s that are not yet in its file system: "
                       "serve it once with --journal %s",
                       export->path, path, path);
    }
    return 0;
}

/* log NULL: there is none. */
static int check_notes(const struct vfs *vfs, const struct journal_log *log, struct err *err)
{
    char mine[UUID_TEXT_BYTES + 1] = "";
    const struct export_set *set = vfs->set; /* nobody replaces it yet */
    int error = 0;
    if (log != NULL) {
        uuid_text(log, mine);
    }
    for (uint32_t i = 0; i < set->place_count && error == 0; i++) {
        error = set->places[i].export != NULL ? check_note(set->places[i].export, mine, err) : 0;
    }
    return error;
}

/* ---- opening ---- */

static int prepare_exports(struct vfs *vfs, struct err *err)
{
    const struct export_set *set = vfs->set; /* nobody replaces it yet */
    vfs->logged = calloc(set->place_count + 1, sizeof *vfs->logged);
    if (vfs->logged == NULL) {
        return err_set(err, -ENOMEM, "no memory for %u exports", set->place_count);
    }
    for (uint32_t i = 0; i < set->place_count; i++) {
        struct vfs_export *export = set->places[i].export;
        if (export == NULL) {
            continue;
        }
        if (!volume_keeps_order(export->mount_fd)) {
            log_notice("%s: its file system cannot be used with the journal: each change is synced "
                       "by itself",
                       export->path);
            continue;
        }
        int error = hidden_open(export, err);
        if (error != 0) {
            return error;
        }
        export->logged = true;
        vfs->logged[vfs->logged_count++] = volume_get(export);
    }
    return 0;
}

void intent_adopt(const struct vfs *vfs, struct vfs_export *export)
{
    for (uint32_t i = 0; i < vfs->logged_count && !export->logged; i++) {
        if (vfs->logged[i]->dev == export->dev) {
            export->logged = true; /* nobody else has it yet */
        }
    }
}

void intent_free(struct vfs *vfs)
{
    for (uint32_t i = 0; i < vfs->logged_count; i++) {
        pool_close(vfs->logged[i]);
        hidden_close(vfs->logged[i]);
        volume_put(vfs->logged[i]);
    }
    free(vfs->logged);
    vfs->logged = NULL;
    vfs->logged_count = 0;
}

static int make_file(int fd, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > 0) {
        return 0;
    }
    bytes = bytes > JOURNAL_LOG_BYTES_MIN ? bytes : JOURNAL_LOG_BYTES_MIN;
    return -posix_fallocate(fd, 0, (off_t)bytes);
}

static int open_disk(int dir_fd, const char *name, uint64_t bytes, const char *path,
                     struct disk **disk, struct err *err)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_set(err, -errno, "the journal %s: %s", path, strerror(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = -errno;
        close(fd);
        return err_set(err, error, "the journal %s: another server uses it", path);
    }
    int error = make_file(fd, bytes);
    if (error != 0) {
        close(fd);
        return err_set(err, error, "the journal %s: %s", path, strerror(-error));
    }
    return disk_posix_open(fd, path, disk, err);
}

static int open_log(struct disk *disk, const char *path, struct journal_log **log, struct err *err)
{
    struct err why = {0};
    int error = journal_log_open(disk, log, &why);
    if (error == -ENODATA) {
        error = journal_log_format(disk, &why);
        if (error == 0) {
            error = journal_log_open(disk, log, &why);
        }
    }
    if (error != 0) {
        disk_close(disk);
        return err_set(err, error, "the journal %s: %s", path, why.text);
    }
    return 0;
}

static int find_log(struct vfs *vfs, char path[NOTE_BYTES_MAX], struct journal_log **log,
                    struct err *err)
{
    const char *wanted = vfs->options.journal_path;
    struct disk *disk = NULL;
    int dir_fd = AT_FDCWD;
    const char *name = wanted;
    if (strcmp(wanted, VFS_JOURNAL_AUTO) == 0) {
        const struct vfs_export *home = vfs->logged[0];
        dir_fd = home->hidden.dir_fd;
        name = "journal";
        snprintf(path, NOTE_BYTES_MAX, "%s/" HIDDEN_NAME "/journal", home->path);
    } else {
        snprintf(path, NOTE_BYTES_MAX, "%s", wanted);
    }
    int error = open_disk(dir_fd, name, vfs->options.journal_bytes, path, &disk, err);
    return error == 0 ? open_log(disk, path, log, err) : error;
}

static int begin(struct vfs *vfs, struct journal_log *log, const char *path, struct err *err)
{
    struct journal_export exports[JOURNAL_EXPORT_COUNT_MAX] = {0};
    uint32_t count = 0;
    int error = 0;
    for (uint32_t i = 0; i < vfs->logged_count && error == 0; i++) {
        const struct vfs_export *export = vfs->logged[i];
        error = write_note(export, log, path);
        if (count < JOURNAL_EXPORT_COUNT_MAX) {
            exports[count].id = export->id;
            snprintf(exports[count].path, sizeof exports[count].path, "%s", export->path);
            count++;
        }
    }
    if (error == 0) {
        error = journal_log_begin(log, exports, count);
    }
    return error == 0 ? 0 : err_set(err, error, "the journal %s: %s", path, strerror(-error));
}

int intent_open(struct vfs *vfs, struct journal_log **result, struct err *err)
{
    char path[NOTE_BYTES_MAX] = "";
    struct journal_log *log = NULL;
    *result = NULL;
    int error = vfs->options.journal_path == NULL ? 0 : prepare_exports(vfs, err);
    if (error != 0 || vfs->logged_count == 0) {
        return error != 0 ? error : check_notes(vfs, NULL, err);
    }
    error = find_log(vfs, path, &log, err);
    if (error != 0) {
        return error;
    }
    error = check_notes(vfs, log, err);
    if (error == 0) {
        error = replay_run(vfs, log, err);
    }
    if (error == 0) {
        error = begin(vfs, log, path, err);
    }
    if (error != 0) {
        journal_log_close(log);
        return error;
    }
    for (uint32_t i = 0; i < vfs->logged_count; i++) {
        pool_open(vfs->logged[i]);
    }
    vfs->write_bytes_max = WRITE_BYTES_MAX;
    *result = log;
    return 0;
}

int intent_checkpoint(void *arg)
{
    const struct vfs *vfs = arg;
    int err = 0;
    for (uint32_t i = 0; i < vfs->logged_count && err == 0; i++) {
        err = hidden_sync(vfs->logged[i]);
    }
    return err;
}

void intent_closed(struct vfs *vfs, int error)
{
    for (uint32_t i = 0; i < vfs->logged_count && vfs->journal != NULL && error == 0; i++) {
        const struct vfs_export *export = vfs->logged[i];
        if (unlinkat(export->hidden.dir_fd, NOTE_NAME, 0) != 0 ||
            fsync(export->hidden.dir_fd) != 0) {
            log_warning("%s/" HIDDEN_NAME "/" NOTE_NAME ": %s", export->path, strerror(errno));
        }
    }
}
