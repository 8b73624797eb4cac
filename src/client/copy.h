/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies files and trees to and from an export, several files and requests at a time.
 *
 * 1. put: data is written UNSTABLE and committed in batches of COPY_BATCH_BYTES. If the write
 *    verifier of the COMMIT is not that of every WRITE of the batch, the server has lost data in
 *    between and the batch is written again (RFC 1813 §4.8). A file of one WRITE is written
 *    FILE_SYNC instead.
 * 2. Short READs and WRITEs are continued. A server that makes no progress is an error.
 * 3. get: names from the server never lead out of the local directory: those with a slash, "." and
 *    ".." are refused, and symbolic links are never followed on the way down.
 * 4. A file that fails is reported once, and the others go on. When the server is gone (a transport
 *    error, soft) everything ends with one report.
 *
 * The functions wait: they turn the loop of the mount. Not from within a callback.
 */
#ifndef CLIENT_COPY_H
#define CLIENT_COPY_H

#include "client/nfs3.h"

#define CLIENT_COPY_BATCH_BYTES (64ULL << 20)
#define CLIENT_COPY_DEPTH_MAX 256U /* of a tree */
/* The status of a file that would be copied onto itself, or a tree into itself: here and there are
 * one object, on this machine or mounted on it. */
#define CLIENT_COPY_SAME (-ENOTUNIQ)

struct client_copy;

struct client_copy_counts {
    uint64_t files, directories, symlinks;
    uint64_t bytes;
    uint64_t rewritten_bytes; /* written again, rule 1 */
    uint64_t failed;
};

struct client_copy_options {
    struct client_mount *mount;
    bool preserve;           /* mode in full and times; otherwise permission bits for new files */
    uint32_t file_count_max; /* at a time; 0: 16 */
    uint32_t request_count_max; /* on the way; 0: 16 */
    /* Something could not be copied. status as in client/nfs3.h. */
    void (*problem)(void *owner, const char *path, int status);
    /* Called often. May be NULL. */
    void (*progress)(void *owner, const struct client_copy_counts *counts);
    void *owner;
};

int client_copy_open(const struct client_copy_options *options, struct client_copy **copy) MUST_USE;
void client_copy_close(struct client_copy *copy);

/* Copies one file's data to fd, which is closed. in_order: fd cannot seek. path is for messages. */
int client_copy_get_file(struct client_copy *copy, const struct client_node *node, int fd,
                         bool in_order, const char *path) MUST_USE;

/* Copies fd, which is closed, into a file of a directory, making or emptying it. in_order: fd
 * cannot seek. mode: of a new file. */
int client_copy_put_file(struct client_copy *copy, const struct client_fh *dir,
                         struct client_name name, int fd, bool in_order, const char *path) MUST_USE;

/* Copies an object and, if it is a directory, all below it, to `local` (which is made, or is a
 * directory already). */
int client_copy_get_tree(struct client_copy *copy, const struct client_node *node,
                         const char *local) MUST_USE;
int client_copy_put_tree(struct client_copy *copy, const char *local, const struct client_fh *dir,
                         struct client_name name) MUST_USE;

/* Waits for everything that was begun. Returns 0, or the status that ended it early. */
int client_copy_finish(struct client_copy *copy) MUST_USE;

void client_copy_counts(const struct client_copy *copy, struct client_copy_counts *counts);

/* Removes an object and all below it; `problem` as above. Returns the first status that is not 0.
 */
int client_remove_tree(struct client_mount *mount, const struct client_fh *dir,
                       struct client_name name, const char *path,
                       void (*problem)(void *owner, const char *path, int status),
                       void *owner) MUST_USE;

#endif
