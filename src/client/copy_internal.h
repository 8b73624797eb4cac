/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by copy.c, get.c, put.c and tree.c: one file on its way, and the budget of all.
 */
#ifndef CLIENT_COPY_INTERNAL_H
#define CLIENT_COPY_INTERNAL_H

#include "client/copy.h"

#include <errno.h>
#include <sys/stat.h>

#define COPY_STUCK_COUNT_MAX 5U /* replies without progress in a row */

/* Part of a file that is on the way, or must be asked for again. */
struct chunk {
    struct chunk *next;
    struct copy_file *file;
    uint64_t offset;
    uint32_t count;
    uint32_t done; /* put: of the data, how much is written */
    uint8_t verf[NFS3_WRITEVERFSIZE];
    uint8_t *data; /* put: wsize bytes */
};

struct copy_file {
    struct copy_file *next;
    struct client_copy *copy;
    char *path;
    int fd;
    bool in_order;
    bool finished;
    int status;           /* the first that was not 0 */
    uint32_t outstanding; /* requests */
    uint32_t stuck_count;
    uint32_t jukebox_count;
    int64_t resume_ns;   /* NFS3ERR_JUKEBOX: nothing is asked for before */
    struct chunk *again; /* to be asked for before anything new */
    uint64_t offset;     /* of what was not asked for yet */
    bool eof;
    struct client_fh fh;
    struct fattr3 attr; /* get: of the remote file */
    /* Asks for one more thing if it wants something; *asked says whether. */
    int (*pump)(struct copy_file *file, bool *asked);
    /* Nothing is on the way and nothing is wanted, or it has failed. */
    int (*end)(struct copy_file *file);
    void (*release)(struct copy_file *file); /* frees the whole */
};

/* The directory that the copy of a tree is made in. */
struct copy_root {
    int fd;                  /* get: here; borrowed; -1: there is none */
    struct client_node node; /* put: there */
};

struct client_copy {
    struct client_copy_options options;
    struct client_mount *mount;
    struct copy_file *files;
    uint32_t file_count;
    uint32_t request_count;
    struct client_timer timer; /* for files that wait until resume_ns */
    struct client_copy_counts counts;
    int fatal; /* the status that ends everything; told once */
    bool fatal_told;
    struct chunk *spare; /* with wsize bytes of data each */
    mode_t umask;
    struct later *later; /* tree.c */
    struct copy_root root;
};

/* Adds a file and lets it begin; waits first until there is a place. On failure it is released. */
int copy_begin(struct client_copy *copy, struct copy_file *file);

/* Sends a call for the file. */
int copy_call(struct copy_file *file, uint32_t proc, const void *args, client_reply_fn *replied,
              void *owner);

/* What every reply callback does first. Returns the reply's status, or COPY_LATER: NFS3ERR_JUKEBOX
 * came, and the same is to be asked for again when the file has rested for a while. */
#define COPY_LATER (-EAGAIN)
int copy_replied(struct copy_file *file, const struct client_reply *reply);
/* And last: goes on with whatever wants to be asked for. */
void copy_go_on(struct client_copy *copy);

void copy_fail(struct copy_file *file, int status);
/* A problem of something that is no file on its way. */
void copy_problem(struct client_copy *copy, const char *path, int status);

/* Whether they are one object, as its number, size and ctime say: a change of either shows in both.
 */
bool copy_is_same(const struct stat *st, const struct fattr3 *attr);

/* The nearest time that RFC 1813 §2.5 nfstime3 can tell: 1970 to 2106. */
struct nfstime3 copy_time(const struct timespec *time);

struct chunk *copy_chunk_new(struct copy_file *file, uint64_t offset, uint32_t count, bool data);
void copy_chunk_free(struct chunk *chunk);
static inline void copy_chunk_again(struct chunk *chunk)
{
    chunk->next = chunk->file->again;
    chunk->file->again = chunk;
}

#endif
