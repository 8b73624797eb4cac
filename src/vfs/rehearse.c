/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An export is known by its note (intent_note.c), which names the log; its id may come from fsid=,
 * which nobody says here, so it is the one that the log has under that path.
 */
#include "vfs/rehearse.h"

#include "vfs/internal.h"
#include "vfs/outside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_open(const struct intent *intent, const struct vfs_export *export)
{
    for (uint32_t i = 0; i < intent->export_count; i++) {
        if (intent->exports[i]->dev == export->dev && intent->exports[i]->ino == export->ino) {
            return true;
        }
    }
    return false;
}

/* The id that records have: by the path, or, where a directory was given, the last one left. */
static void take_id(const struct journal_superblock *superblock, struct vfs_export *export)
{
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        const struct journal_export *known = &superblock->exports[i];
        if (known->id == export->id) {
            return;
        }
    }
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        const struct journal_export *known = &superblock->exports[i];
        if (strncmp(known->path, export->path, JOURNAL_EXPORT_PATH_BYTES) == 0) {
            export->id = known->id;
            return;
        }
    }
}

/* required: it was named by the caller. */
static int add(struct intent *intent, struct journal_log *log, const char *path, bool required,
               struct err *err)
{
    struct vfs_export *export = NULL;
    struct err why = {0};
    int error = volume_open(intent->vfs, path, NULL, &export, &why);
    if (error != 0) {
        return required ? err_set(err, error, "%s", why.text) : 0;
    }
    bool noted = note_names(export, log);
    if (!noted || is_open(intent, export)) {
        volume_put(export);
        return required && !noted
                   ? err_set(err, -EXDEV, "%s has no changes in this journal: it is another file "
                                          "system, or they were replayed",
                             path)
                   : 0;
    }
    take_id(journal_log_superblock(log), export);
    hidden_look(export);
    intent->exports[intent->export_count++] = export;
    return 0;
}

static int add_all(struct intent *intent, struct journal_log *log,
                   const struct vfs_rehearsal *rehearsal, struct err *err)
{
    const struct journal_superblock *superblock = journal_log_superblock(log);
    int error = 0;
    for (uint32_t i = 0; i < rehearsal->dir_count && error == 0; i++) {
        error = add(intent, log, rehearsal->dirs[i], true, err);
    }
    for (uint32_t i = 0; i < superblock->export_count && error == 0; i++) {
        error = add(intent, log, superblock->exports[i].path, false, err);
    }
    return error;
}

int vfs_rehearse(struct journal_log *log, struct vfs_rehearsal *rehearsal, struct err *err)
{
    struct vfs *vfs = calloc(1, sizeof *vfs);
    struct intent intent = {.vfs = vfs, .file_fd = -1};
    intent.exports = calloc(rehearsal->dir_count + JOURNAL_EXPORT_COUNT_MAX,
                            sizeof(struct vfs_export *));
    int error = vfs == NULL || intent.exports == NULL ? err_set(err, -ENOMEM, "no memory") : 0;
    if (error == 0) {
        outside_use(&outside_without_clones, NULL);
        error = add_all(&intent, log, rehearsal, err);
    }
    if (error == 0) {
        error = replay_rehearse(&intent, log, rehearsal, err);
    }
    for (uint32_t i = 0; i < intent.export_count; i++) {
        volume_put(intent.exports[i]);
    }
    outside_use(&outside_direct, NULL);
    free(intent.exports);
    free(vfs);
    return error;
}
