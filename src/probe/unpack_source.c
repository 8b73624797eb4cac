/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/unpack_source.h"

#include "base/check.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define READ_BYTES 65536U
#define FILES_PER_DIRECTORY 100U /* made up */
#define A_TIME 1000000000

struct unpack_source {
    const char *name;
    struct archive *archive; /* NULL: made up */
    struct archive_entry *entry;
    uint32_t file_count, file_bytes;
    uint32_t next; /* made up */
    uint64_t left; /* of the data of an entry that is made up */
    char path[PATH_MAX];
    char target[PATH_MAX];
};

int unpack_source_open(const char *archive, uint32_t file_count, uint32_t file_bytes,
                       struct unpack_source **source, struct err *err)
{
    struct unpack_source *opened = calloc(1, sizeof *opened);

    *source = opened;
    if (opened == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    opened->name = archive;
    opened->file_count = file_count;
    opened->file_bytes = file_bytes;
    if (archive == NULL) {
        return 0;
    }
    opened->archive = archive_read_new();
    if (opened->archive == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    archive_read_support_filter_all(opened->archive);
    archive_read_support_format_all(opened->archive);
    if (archive_read_open_filename(opened->archive, archive, READ_BYTES) != ARCHIVE_OK) {
        return err_set(err, -EINVAL, "%s: %s", archive, archive_error_string(opened->archive));
    }
    return 0;
}

void unpack_source_close(struct unpack_source *source)
{
    if (source != NULL) {
        archive_read_free(source->archive);
        free(source);
    }
}

/* ---- made up ---- */

static void make_up(struct unpack_source *source, struct unpack_entry *entry, bool *found)
{
    uint32_t directory = source->next / (FILES_PER_DIRECTORY + 1);
    uint32_t in_directory = source->next % (FILES_PER_DIRECTORY + 1); /* 0: the directory itself */
    uint32_t files_before = directory * FILES_PER_DIRECTORY + (in_directory > 0 ? in_directory : 1);

    *found = files_before <= source->file_count;
    if (!*found) {
        return;
    }
    *entry = (struct unpack_entry){.path = source->path, .mtime_seconds = A_TIME};
    if (in_directory == 0) {
        (void)snprintf(source->path, sizeof source->path, "directory%u", directory);
        entry->type = UNPACK_DIRECTORY;
        entry->mode = 0755;
    } else {
        (void)snprintf(source->path, sizeof source->path, "directory%u/file%u", directory,
                       in_directory);
        entry->type = UNPACK_FILE;
        entry->mode = 0644;
        entry->bytes = source->file_bytes;
    }
    source->left = entry->bytes;
    source->next++;
}

/* ---- from an archive ---- */

/* False if the path leads upward, or is too long. */
static bool normalize(const char *from, char to[PATH_MAX])
{
    size_t used = 0;

    while (*from != '\0') {
        size_t length = strcspn(from, "/");
        bool nothing = length == 0 || (length == 1 && from[0] == '.');
        if (length == 2 && from[0] == '.' && from[1] == '.') {
            return false;
        }
        if (!nothing) {
            if (used + length + 2 > PATH_MAX) {
                return false;
            }
            if (used > 0) {
                to[used++] = '/';
            }
            memcpy(to + used, from, length);
            used += length;
        }
        from += length + (from[length] == '/' ? 1 : 0);
    }
    to[used] = '\0';
    return true;
}

static enum unpack_type type_of(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry) != NULL) {
        return UNPACK_HARD_LINK;
    }
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return UNPACK_FILE;
    case AE_IFDIR:
        return UNPACK_DIRECTORY;
    case AE_IFLNK:
        return UNPACK_SYMLINK;
    default:
        return UNPACK_OTHER;
    }
}

static void describe(struct unpack_source *source, struct unpack_entry *entry)
{
    struct archive_entry *from = source->entry;
    const char *path = archive_entry_pathname(from);

    *entry = (struct unpack_entry){
        .path = source->path,
        .target = source->target,
        .type = type_of(from),
        .mode = archive_entry_perm(from) & 0777,
        .mtime_seconds = archive_entry_mtime(from),
        .mtime_nseconds = (uint32_t)archive_entry_mtime_nsec(from),
        .bytes = archive_entry_size(from) > 0 ? (uint64_t)archive_entry_size(from) : 0,
    };
    source->path[0] = source->target[0] = '\0';
    bool good = path != NULL && normalize(path, source->path);
    if (entry->type == UNPACK_HARD_LINK) {
        good = good && normalize(archive_entry_hardlink(from), source->target);
    } else if (entry->type == UNPACK_SYMLINK) {
        const char *target = archive_entry_symlink(from);
        good = good && target != NULL && strlen(target) < PATH_MAX;
        (void)snprintf(source->target, sizeof source->target, "%s", good ? target : "");
    }
    entry->type = good ? entry->type : UNPACK_OTHER;
}

int unpack_source_next(struct unpack_source *source, struct unpack_entry *entry, bool *found,
                       struct err *err)
{
    if (source->archive == NULL) {
        make_up(source, entry, found);
        return 0;
    }
    int got = archive_read_next_header(source->archive, &source->entry);
    *found = got == ARCHIVE_OK || got == ARCHIVE_WARN;
    if (!*found && got != ARCHIVE_EOF) {
        return err_set(err, -EINVAL, "%s: %s", source->name, archive_error_string(source->archive));
    }
    if (*found) {
        describe(source, entry);
    }
    return 0;
}

int unpack_source_read(struct unpack_source *source, uint8_t *data, uint32_t bytes, uint32_t *got,
                       struct err *err)
{
    *got = 0;
    if (source->archive == NULL) {
        *got = source->left < bytes ? (uint32_t)source->left : bytes;
        source->left -= *got;
        memset(data, 0x33, *got);
        return 0;
    }
    while (*got < bytes) {
        la_ssize_t count = archive_read_data(source->archive, data + *got, bytes - *got);
        if (count < 0) {
            return err_set(err, -EINVAL, "%s: %s: %s", source->name, source->path,
                           archive_error_string(source->archive));
        }
        if (count == 0) {
            break;
        }
        *got += (uint32_t)count;
    }
    return 0;
}
