/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place for tests of vfs: an empty directory that is exported, a state directory, and a vfs on
 * them. Needs root. The directory lies in $HOLDFAST_TEST_DIR, or /var/tmp.
 *
 * Helpers fail the test where a call that must work does not.
 */
#ifndef UNIT_VFS_PLACE_H
#define UNIT_VFS_PLACE_H

#include "lib/unit.h"
#include "vfs/journals.h"
#include "vfs/node.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_NAME(text) ((struct vfs_bytes){(const uint8_t *)(text), (uint32_t)strlen(text)})

#define PLACE_JOURNAL_BYTES (4 * 1024 * 1024)

struct place {
    char base[256];
    char path[300];  /* the exported directory */
    char state[300]; /* the state directory */
    char options[128];
    uint32_t fd_count_max;
    const char *journal; /* vfs_options.journal_path; NULL: none, but for $HOLDFAST_TEST_JOURNAL */
    char journal_file[300];
    int (*sync)(void *arg, int fd, int how);
    struct export_table *table;
    struct vfs *vfs;
    struct sockaddr_in peer;
    uint64_t batch;
    /* What the journals said last. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t durable_lsn[VFS_JOURNAL_COUNT_MAX];
    int durable_error;
};

/* Whether this machine can run these tests (main returns 77 otherwise). */
bool place_possible(void);

/* base NULL: a new directory. Options as in exports(5), for everyone. */
void place_make(struct place *place, const char *base, const char *options);
/* The place at base that another process has made; not opened. */
void place_plan(struct place *place, const char *base, const char *options);
void place_remove(struct place *place);
void place_open(struct place *place);
void place_close(struct place *place);
void place_reopen(struct place *place);

/* cmocka set-ups: rw,no_root_squash,async; and the same with sync. */
int place_setup(void **state);
int place_setup_sync(void **state);
int place_teardown(void **state);

/* A call by a user, with a batch of its own. */
struct vfs_call place_call(struct place *place, uint32_t uid, uint32_t gid);
/* As the above for root. */
struct vfs_call place_root_call(struct place *place);
/* Waits until lsn has met its end; returns its error. */
int place_wait(struct place *place, uint64_t lsn);

/* Nodes by path below the export, one name after the other, as root; put by the caller. */
struct vfs_node place_node(struct place *place, const char *path);
struct vfs_handle place_handle(struct place *place, const char *path);
/* The node of a handle. */
int place_get(struct vfs_call *call, const struct vfs_handle *handle, struct vfs_node *node);

/* A path of the underlying file system, in static storage for a few calls. The thread gets root's
 * identity, which a call may have changed. */
const char *place_local(struct place *place, const char *path);
/* Makes a file there with some text. */
void place_write_local(struct place *place, const char *path, const char *text, mode_t mode,
                       uint32_t uid, uint32_t gid);

/* One operation on a name in a directory given by path, as a user. */
int place_create(struct place *place, uint32_t uid, const char *dir, const char *name,
                 uint32_t mode);
int place_remove_name(struct place *place, uint32_t uid, const char *dir, const char *name);

#endif
