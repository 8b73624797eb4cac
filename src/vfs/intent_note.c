/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note .holdfast/in-use of an export whose changes are in a log: the log's uuid and path. It is
 * made before the first change goes into the log, and removed when the log has nothing left to
 * replay. Whoever finds it and has not that log refuses to serve: the file system alone may lack
 * what clients were promised.
 */
#include "vfs/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOTE_NAME "in-use"
#define UUID_TEXT_BYTES (2 * JOURNAL_UUID_BYTES)
#define NOTE_BYTES_MAX (VFS_JOURNAL_PATH_BYTES_MAX + UUID_TEXT_BYTES + 8)

struct note {
    char uuid[UUID_TEXT_BYTES + 1];
    char path[VFS_JOURNAL_PATH_BYTES_MAX]; /* "": there is no note */
};

static int note_read(const struct vfs_export *export, struct note *note)
{
    char text[NOTE_BYTES_MAX] = "";
    *note = (struct note){0};
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
        snprintf(note->path, sizeof note->path, "(unknown)");
        return 0;
    }
    memcpy(note->uuid, text, UUID_TEXT_BYTES);
    snprintf(note->path, sizeof note->path, "%.*s",
             (int)strcspn(text + UUID_TEXT_BYTES + 1, "\n"), text + UUID_TEXT_BYTES + 1);
    return 0;
}

static void uuid_text(const struct journal_log *log, char text[UUID_TEXT_BYTES + 1])
{
    const uint8_t *uuid = journal_log_superblock(log)->uuid;
    for (size_t i = 0; i < JOURNAL_UUID_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    }
}

int note_write(const struct vfs_export *export, const struct journal_log *log, const char *path)
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

/* One that is gone went with the directory. */
void note_remove(const struct vfs_export *export)
{
    int dir_fd = export->hidden.dir_fd;
    if ((unlinkat(dir_fd, NOTE_NAME, 0) != 0 && errno != ENOENT) || fsync(dir_fd) != 0) {
        log_warning("%s/" HIDDEN_NAME "/" NOTE_NAME ": %s", export->path, strerror(errno));
    }
}

bool note_names(const struct vfs_export *export, const struct journal_log *log)
{
    char mine[UUID_TEXT_BYTES + 1];
    struct note note;
    uuid_text(log, mine);
    return note_read(export, &note) == 0 && strcmp(note.uuid, mine) == 0;
}

int note_check(const struct vfs_export *export, const struct journal_log *log, struct err *err)
{
    char mine[UUID_TEXT_BYTES + 1] = "";
    struct note note;
    int error = note_read(export, &note);
    if (error != 0) {
        return err_set(err, error, "%s/" HIDDEN_NAME "/" NOTE_NAME ": %s", export->path,
                       strerror(-error));
    }
    if (log != NULL) {
        uuid_text(log, mine);
    }
    if (note.path[0] != 0 && strcmp(note.uuid, mine) != 0) {
        return err_set(err, -EUCLEAN,
                       "%s has changes in the journal %s that are not yet in its file system: "
                       "serve it once with that journal",
                       export->path, note.path);
    }
    return 0;
}
