/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: what must outlive the server.
 *
 *     handle-key   16 bytes, mode 0600: the key of the handles' MAC. Whoever loses it makes every
 *                  handle of every client stale; whoever learns it can forge handles.
 *     starts       a decimal number and a newline: how often a server started here. It makes the
 *                  write verifier new also where clock and randomness repeat, and NSM's state.
 *     FOLDER/NAME  what protocols keep (state.h).
 *
 * A file is replaced whole: written under another name, synced, renamed, directory synced.
 */
#include "vfs/state.h"

#include "vfs/internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_FILE "handle-key"
#define STARTS_FILE "starts"

/* Reads up to size bytes; the count or -errno. */
static ssize_t read_small(int dir_fd, const char *name, void *bytes, size_t size)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    ssize_t got = read(fd, bytes, size);
    if (got < 0) {
        got = -errno;
    }
    close(fd);
    return got;
}

static int write_synced(int dir_fd, const char *name, const void *bytes, size_t size)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    ssize_t put = write(fd, bytes, size);
    int err = put == (ssize_t)size ? 0 : put < 0 ? -errno : -ENOSPC;
    if (err == 0 && fsync(fd) != 0) {
        err = -errno;
    }
    close(fd);
    if (err != 0) {
        unlinkat(dir_fd, name, 0);
    }
    return err;
}

/* keep_first: a file of that name that somebody else made meanwhile stays (-EEXIST). */
static int replace(int dir_fd, const char *name, const void *bytes, size_t size, bool keep_first)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".%s.%ld", name, (long)getpid());
    unlinkat(dir_fd, temporary, 0);
    int err = write_synced(dir_fd, temporary, bytes, size);
    if (err != 0) {
        return err;
    }
    if (keep_first) {
        err = linkat(dir_fd, temporary, dir_fd, name, 0) == 0 ? 0 : -errno;
        unlinkat(dir_fd, temporary, 0);
    } else {
        err = renameat(dir_fd, temporary, dir_fd, name) == 0 ? 0 : -errno;
    }
    if (err == 0 && fsync(dir_fd) != 0) {
        err = -errno;
    }
    return err;
}

static int read_key(int dir_fd, uint8_t key[SIPHASH_KEY_BYTES])
{
    uint8_t bytes[SIPHASH_KEY_BYTES + 1];
    ssize_t got = read_small(dir_fd, KEY_FILE, bytes, sizeof bytes);
    if (got < 0) {
        return (int)got;
    }
    if (got != SIPHASH_KEY_BYTES) {
        return -EBADMSG;
    }
    memcpy(key, bytes, SIPHASH_KEY_BYTES);
    return 0;
}

static int open_key(int dir_fd, uint8_t key[SIPHASH_KEY_BYTES])
{
    int err = read_key(dir_fd, key);
    if (err != -ENOENT) {
        return err;
    }
    if (getrandom(key, SIPHASH_KEY_BYTES, 0) != SIPHASH_KEY_BYTES) {
        return -EIO;
    }
    err = replace(dir_fd, KEY_FILE, key, SIPHASH_KEY_BYTES, true);
    return err == -EEXIST ? read_key(dir_fd, key) : err;
}

static int count_start(int dir_fd, uint64_t *starts)
{
    char text[32] = {0};
    ssize_t got = read_small(dir_fd, STARTS_FILE, text, sizeof text - 1);
    if (got < 0 && got != -ENOENT) {
        return (int)got;
    }
    /* What cannot be read counts as nothing: the number is one of three things that differ. */
    *starts = strtoull(text, NULL, 10) + 1;
    int size = snprintf(text, sizeof text, "%" PRIu64 "\n", *starts);
    return replace(dir_fd, STARTS_FILE, text, (size_t)size, false);
}

/* Takes dir_fd over. */
static void note_above(int dir_fd, struct vfs_state *state)
{
    struct stat st;
    state->above_count = 0;
    while (dir_fd >= 0 && fstat(dir_fd, &st) == 0 && state->above_count < STATE_DEPTH_MAX) {
        uint32_t last = state->above_count - 1;
        if (state->above_count > 0 && state->above[last].dev == st.st_dev &&
            state->above[last].ino == st.st_ino) {
            break; /* the top */
        }
        state->above[state->above_count].dev = st.st_dev;
        state->above[state->above_count++].ino = st.st_ino;
        int up = openat(dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(dir_fd);
        dir_fd = up;
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
}

int state_open(const char *dir, struct vfs_state *state, struct err *err)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return err_set(err, -errno, "cannot make the state directory %s: %s", dir, strerror(errno));
    }
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return err_set(err, -errno, "cannot open the state directory %s: %s", dir, strerror(errno));
    }
    int error = open_key(dir_fd, state->key);
    if (error == -EBADMSG) {
        err_set(err, error,
                "%s/" KEY_FILE " is not a key of %d bytes; removing it makes all handles"
                " that clients have stale",
                dir, SIPHASH_KEY_BYTES);
    } else if (error != 0) {
        err_set(err, error, "%s/" KEY_FILE ": %s", dir, strerror(-error));
    } else {
        error = count_start(dir_fd, &state->starts);
        if (error != 0) {
            err_set(err, error, "%s/" STARTS_FILE ": %s", dir, strerror(-error));
        }
    }
    note_above(dir_fd, state);
    return error;
}

/* ---- for protocols ---- */

/* A descriptor of the folder, or -errno. */
static int open_folder(const struct vfs *vfs, const char *folder, bool make)
{
    cred_take_root();
    int dir_fd = open(vfs->options.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return -errno;
    }
    int fd = 0;
    if (make && mkdirat(dir_fd, folder, 0700) == 0 && fsync(dir_fd) != 0) {
        fd = -errno;
    }
    if (fd == 0) {
        fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        fd = fd < 0 ? -errno : fd;
    }
    close(dir_fd);
    return fd;
}

int vfs_state_put(struct vfs *vfs, const char *folder, const char *name, const void *bytes,
                  size_t size_bytes)
{
    int fd = open_folder(vfs, folder, true);
    if (fd < 0) {
        return fd;
    }
    int err = replace(fd, name, bytes, size_bytes, false);
    close(fd);
    return err;
}

int vfs_state_drop(struct vfs *vfs, const char *folder, const char *name)
{
    int fd = open_folder(vfs, folder, false);
    if (fd < 0) {
        return fd;
    }
    int err = unlinkat(fd, name, 0) == 0 ? 0 : -errno;
    close(fd);
    return err;
}

int vfs_state_each(struct vfs *vfs, const char *folder,
                   void (*take)(void *arg, const char *name, const void *bytes, size_t size_bytes),
                   void *arg)
{
    uint8_t bytes[VFS_STATE_BYTES_MAX + 1];
    int fd = open_folder(vfs, folder, false);
    if (fd < 0) {
        return fd == -ENOENT ? 0 : fd;
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int err = -errno;
        close(fd);
        return err;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        /* Those that begin with a dot are half written, or no files. */
        ssize_t got =
            entry->d_name[0] != '.' ? read_small(fd, entry->d_name, bytes, sizeof bytes) : -EINVAL;
        if (got >= 0 && (size_t)got <= VFS_STATE_BYTES_MAX) {
            take(arg, entry->d_name, bytes, (size_t)got);
        }
    }
    closedir(dir);
    return 0;
}

uint64_t vfs_state_starts(const struct vfs *vfs)
{
    return vfs->state.starts;
}

int vfs_state_restart(struct vfs *vfs)
{
    int fd = open_folder(vfs, ".", false);
    if (fd < 0) {
        return fd;
    }
    int err = count_start(fd, &vfs->state.starts);
    close(fd);
    return err;
}
