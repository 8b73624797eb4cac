/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NFSv3 procedures that are waited for, and what is built of them: looking up, walking, listing.
 *
 * A status: 0, a nfsstat3 (positive), or -errno where no status came (transport, local files).
 * Every function here returns one. NFS3ERR_JUKEBOX never appears: the call is repeated after a
 * while (RFC 1813 §2.6), for ever or, soft, JUKEBOX_COUNT_MAX times.
 */
#ifndef CLIENT_NFS3_H
#define CLIENT_NFS3_H

#include "client/mount.h"

#define CLIENT_SYMLINK_COUNT_MAX 40U
#define CLIENT_JUKEBOX_MS_MIN 100U
#define CLIENT_JUKEBOX_MS_MAX 5000U
#define CLIENT_JUKEBOX_COUNT_MAX 10U

/* "NFS3ERR_NOENT (no such file or directory)". */
const char *client_status_text(int status, char text[CLIENT_TEXT_BYTES_MAX]);

/* args and answer->res are those of the procedure. */
int client_nfs3(struct client_mount *mount, uint32_t proc, const void *args,
                struct client_answer *answer) MUST_USE;

/* An object, with attributes if the server gave some. */
struct client_node {
    struct client_fh fh;
    bool has_attr;
    struct fattr3 attr;
};

struct client_name {
    const char *bytes;
    uint32_t size;
};
static inline struct client_name client_name(const char *text)
{
    return (struct client_name){text, (uint32_t)strlen(text)};
}
struct diropargs3 client_dirop(const struct client_fh *dir, struct client_name name);

/* Takes over what a reply says; keeps attributes as they were if it says nothing. */
void client_node_set_attr(struct client_node *node, const struct post_op_attr *attr);

int client_getattr(struct client_mount *mount, struct client_node *node) MUST_USE;
int client_lookup(struct client_mount *mount, const struct client_fh *dir, struct client_name name,
                  struct client_node *node) MUST_USE;
/* The caller frees *target, which has a NUL behind it. */
int client_readlink(struct client_mount *mount, const struct client_fh *fh, char **target) MUST_USE;

/* From the root of the mount along a relative path, with attributes. Symbolic links are followed,
 * the last one if it is asked for; an absolute one as far as it leads below the export, else it is
 * -EXDEV. -ELOOP, -ENAMETOOLONG. */
int client_walk(struct client_mount *mount, const char *path, bool follow_last,
                struct client_node *node) MUST_USE;

/* The directory in which the last component of a path is (all links followed), and that component:
 * its bytes are in `path`. -EINVAL: the path is empty. */
int client_walk_parent(struct client_mount *mount, const char *path, struct client_node *dir,
                       struct client_name *last) MUST_USE;

#endif
