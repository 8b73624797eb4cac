/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a tree: the files of a directory several at a time, then the directory.
 *
 * A directory is read while it shrinks. Where a server loses entries over that, RMDIR says
 * NOTEMPTY, and the directory is read again as long as each reading finds something to remove.
 */
#include "client/copy.h"
#include "client/dir.h"

#include <errno.h>
#include <stdlib.h>

#define REMOVE_COUNT_MAX 16U /* at a time */

struct removing {
    struct client_answer answer;
    char *path; /* NULL: this one is free */
    struct client_fh dir;
    const char *name; /* within path */
    uint32_t name_bytes;
};

struct remover {
    struct client_mount *mount;
    void (*problem)(void *owner, const char *path, int status);
    void *owner;
    int first_status;
    bool gone; /* the server does not answer any more, and that was told */
    struct removing removing[REMOVE_COUNT_MAX];
    uint32_t next;
};

static void tell(struct remover *remover, const char *path, int status)
{
    if (status != 0 && !remover->gone) {
        remover->problem(remover->owner, path, status);
        remover->first_status = remover->first_status == 0 ? status : remover->first_status;
        remover->gone = status == remover->mount->lost;
    }
}

/* Waits for one that was begun. Something that is gone already was removed, as far as we care:
 * another reading of the directory, or a retransmission, may have met it before. */
static void settle(struct remover *remover, struct removing *removing)
{
    if (removing->path == NULL) {
        return;
    }
    int status = client_wait_end(remover->mount->loop, &removing->answer);
    if (removing->answer.fault == CLIENT_FAULT_TRANSPORT) {
        remover->mount->lost = status;
    }
    if (status == 0) {
        status = (int)((const struct REMOVE3res *)removing->answer.res)->status;
    }
    if (status == NFS3ERR_JUKEBOX) {
        struct client_name name = {removing->name, removing->name_bytes};
        struct REMOVE3args args = {client_dirop(&removing->dir, name)};
        status = client_nfs3(remover->mount, NFSPROC3_REMOVE, &args, &removing->answer);
    }
    tell(remover, removing->path, status == NFS3ERR_NOENT ? 0 : status);
    free(removing->path);
    removing->path = NULL;
}

static void settle_all(struct remover *remover)
{
    for (uint32_t i = 0; i < REMOVE_COUNT_MAX; i++) {
        settle(remover, &remover->removing[i]);
    }
}

/* path ends with the name, and is taken over. */
static void begin(struct remover *remover, const struct client_fh *dir, struct client_name name,
                  char *path)
{
    struct removing *removing = &remover->removing[remover->next++ % REMOVE_COUNT_MAX];
    struct REMOVE3args args = {client_dirop(dir, name)};

    settle(remover, removing);
    removing->path = path;
    removing->dir = *dir;
    removing->name = name.bytes;
    removing->name_bytes = name.size;
    (void)!client_wait_begin(remover->mount->rpc, NFSPROC3_REMOVE, &args, &removing->answer);
}

static int remove_directory(struct remover *remover, const struct client_fh *dir,
                            struct client_name name, const struct client_fh *fh, const char *path,
                            uint32_t depth);

static void remove_entry(struct remover *remover, struct client_dir *dir,
                         struct client_entry *entry, const char *above, uint32_t depth)
{
    size_t above_bytes = strlen(above);
    uint32_t name_bytes = entry->name.size;
    char *path = malloc(above_bytes + name_bytes + 2);

    if (path == NULL) {
        tell(remover, above, -ENOMEM);
        return;
    }
    memcpy(path, above, above_bytes);
    path[above_bytes] = '/';
    memcpy(path + above_bytes + 1, entry->name.bytes, name_bytes);
    path[above_bytes + 1 + name_bytes] = '\0';
    int status = client_dir_complete(dir, entry);
    if (status == 0 && entry->node.attr.type != NF3DIR) {
        struct client_name name = {path + above_bytes + 1, name_bytes};
        begin(remover, &dir->fh, name, path);
        return;
    }
    if (status == 0) {
        status = remove_directory(remover, &dir->fh, entry->name, &entry->node.fh, path, depth + 1);
    }
    tell(remover, path, status == NFS3ERR_NOENT ? 0 : status);
    free(path);
}

/* One reading; *count is how much it met. */
static int remove_entries(struct remover *remover, const struct client_fh *fh, const char *path,
                          uint32_t depth, uint64_t *count)
{
    struct client_dir dir;
    struct client_entry entry;
    bool found = true;
    int status;

    client_dir_open(&dir, remover->mount, fh, true);
    while ((status = client_dir_next(&dir, &entry, &found)) == 0 && found && !remover->gone) {
        remove_entry(remover, &dir, &entry, path, depth);
        ++*count;
    }
    settle_all(remover);
    client_dir_close(&dir);
    return status;
}

static int remove_directory(struct remover *remover, const struct client_fh *dir,
                            struct client_name name, const struct client_fh *fh, const char *path,
                            uint32_t depth)
{
    struct client_answer answer = {0};
    struct RMDIR3args args = {client_dirop(dir, name)};
    uint64_t met;
    int status;

    if (depth >= CLIENT_COPY_DEPTH_MAX) {
        return -ELOOP;
    }
    do {
        int before = remover->first_status;
        met = 0;
        status = remove_entries(remover, fh, path, depth, &met);
        if (status == 0 && before == remover->first_status) {
            status = client_nfs3(remover->mount, NFSPROC3_RMDIR, &args, &answer);
        } else if (status == 0) {
            break; /* told already: it is not empty */
        }
    } while (status == NFS3ERR_NOTEMPTY && met > 0 && !remover->gone);
    client_answer_free(&answer);
    return status;
}

int client_remove_tree(struct client_mount *mount, const struct client_fh *dir,
                       struct client_name name, const char *path,
                       void (*problem)(void *owner, const char *path, int status), void *owner)
{
    struct remover remover = {.mount = mount, .problem = problem, .owner = owner};
    struct client_node node;

    /* "." and ".." would be emptied before the server could refuse to remove them. */
    int status = client_name_is_safe(name) ? client_lookup(mount, dir, name, &node) : -EINVAL;
    if (status == 0 && !node.has_attr) {
        status = client_getattr(mount, &node);
    }
    if (status == 0 && node.attr.type == NF3DIR) {
        status = remove_directory(&remover, dir, name, &node.fh, path, 0);
    } else if (status == 0) {
        struct client_answer answer = {0};
        struct REMOVE3args args = {client_dirop(dir, name)};
        status = client_nfs3(mount, NFSPROC3_REMOVE, &args, &answer);
        client_answer_free(&answer);
    }
    tell(&remover, path, status);
    for (uint32_t i = 0; i < REMOVE_COUNT_MAX; i++) {
        client_answer_free(&remover.removing[i].answer);
    }
    return remover.first_status;
}
