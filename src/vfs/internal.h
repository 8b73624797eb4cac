/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of vfs share: the structures, and what each file does for the others.
 *
 * Order of things inside an operation, so that nothing waits on itself and no identity leaks:
 *   1. descriptors that need root's identity are opened (object_fd);
 *   2. the caller's identity is taken (cred_take);
 *   3. locks are taken (lock_begin), always in one set, in table order;
 *   4. before-attributes, the change, after-attributes, journal;
 *   5. locks are let go; references after that.
 * A shard lock of the object table is a leaf: nothing is taken and nothing blocks under it.
 */
#ifndef VFS_INTERNAL_H
#define VFS_INTERNAL_H

#include "journal/commit.h"
#include "vfs/journals.h"
#include "vfs/node.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SIPHASH_KEY_BYTES 16

/* A wire handle is 4 bytes of head, 8 of export, the kernel's handle, 8 of MAC. See handle.c. */
#define HANDLE_HEAD_BYTES 12
#define HANDLE_MAC_BYTES 8
#define HANDLE_KERNEL_BYTES_MAX (VFS_HANDLE_BYTES_MAX - HANDLE_HEAD_BYTES - HANDLE_MAC_BYTES)

#define LOCK_COUNT 4096U
#define SHARD_COUNT 64U
#define DIR_LOCK_COUNT 64U
#define LSN_PENDING UINT64_MAX
#define STATE_DEPTH_MAX 256U

/* An empty inode with a name in the pool. */
struct pool_inode {
    struct vfs_handle handle;
    uint32_t number; /* its name */
};

enum pool_kind { POOL_FILE, POOL_DIR, POOL_KINDS };

struct pool_shelf {
    struct pool_inode *inodes;
    uint32_t count;
    uint32_t capacity;
    uint32_t target; /* how many there should be */
    bool missed;     /* somebody came in vain since it was filled last */
};

struct pool {
    bool usable;     /* set once, before requests; then only cleared */
    bool bsd_groups; /* new objects get their directory's group (mount option grpid) */
    pthread_mutex_t lock;
    struct pool_shelf shelves[POOL_KINDS];
    uint32_t number_last; /* the keeper's */
};

/* The hidden directory in an export's root; see hidden.c. Descriptors are -1 without one. */
struct hidden {
    int dir_fd;
    int pool_fd;
    int staging_fd;
    int flush_fd; /* a regular file: fsync of it flushes the device */
};

/* An opened directory. Counted: sets of exports have references, and every object has one. Fixed
 * but for has_crossings. */
struct vfs_export {
    struct vfs *vfs;
    atomic_uint ref_count;
    char *path;                /* when it was opened; without symbolic links */
    int tree_fd;               /* O_PATH: where paths below the export start */
    uint32_t outside_place;    /* what outside_open gave */
    bool is_clone;             /* of the mount: nothing is mounted on it */
    bool has_journal;          /* its file system: see vfs/outside.h */
    int mount_fd;              /* O_RDONLY: what open_by_handle_at and syncfs want */
    int mount_id;              /* a name that leads to another mount is not followed */
    uint64_t origin_id;        /* of the mount it was found on, STATX_MNT_ID */
    unsigned long mount_flags; /* of that mount, statvfs(3) */
    uint64_t id;               /* in every handle */
    uint64_t fsid;             /* in every attribute */
    dev_t dev;
    ino_t ino;
    bool has_true_ctime;       /* every change of an inode shows in its ctime */
    bool has_hash_cookies;     /* see vfs_cookies_are_hashes */
    atomic_bool has_crossings; /* names in it may lead to exports mounted there, see export_set.h */
    struct intent *intent;     /* where changes go; set before the first call */
    bool logged;               /* that has a log */
    char *wish;                /* which journal was asked for */
    bool leaving;              /* exported no more, under intents_lock: the keeper lets go of it */
    struct vfs_handle root;
    struct ways *ways; /* of a plain user's server; else NULL: objects are opened by handle */
    struct hidden hidden;
    struct pool pool;
};

enum object_fd_kind { OBJECT_PATH, OBJECT_READ, OBJECT_WRITE, OBJECT_FD_KINDS };

/* What the file system said about an object during one batch (struct vfs_call), whom it let in, and
 * what the object was before the change that is under way. */
struct object_seen {
    atomic_flag busy; /* held for an instant; who only looks does not wait, but asks elsewhere */
    uint64_t attr_batch;
    uint64_t attr_stamp; /* when, in ticks */
    struct vfs_attr attr;
    uint64_t access_batch;        /* good for this batch, */
    bool access_certain;          /* and, if set, */
    struct timespec access_ctime; /* while the object has this ctime (names.c has the argument), */
    unsigned access_tick;         /* for some seconds */
    uint32_t access_asked;
    uint32_t access_granted;
    uint32_t fsuid, fsgid, fsgid_count;
    uint64_t fsgids_number;
    uint32_t fsgids[VFS_GIDS_MAX]; /* if that is 0 */
    bool before_certain; /* the change, once it can be seen, shows in ctime (names.c) */
    struct timespec before_ctime;
    uint64_t before_size, before_lsn;
};

/* Which data was written since the last commit, for a small COMMIT; under the object's lock. */
struct object_dirty {
    bool known; /* the range holds all of it: the file was made, or committed, since it is known */
    uint64_t begin, end; /* empty: end 0 */
};

struct vfs_object {
    struct vfs_object *bucket_next;
    struct vfs_object *older, *newer; /* in the shard's list, by age of the entry */
    struct vfs_object *watch_next;    /* the janitor's */
    struct vfs_export *export;
    uint64_t hash; /* the handle's MAC */
    atomic_uint ref_count;
    atomic_uint used_tick;
    atomic_bool recent;    /* used since eviction last looked at it */
    atomic_bool stale;     /* the object is gone; forget it with the last reference */
    atomic_bool dirty;     /* unstable data was written and not yet given to the journal */
    _Atomic(uint8_t) type; /* enum vfs_type, VFS_NONE: not yet known */
    uint16_t lock_index;
    /* -1: not open; set once, closed when nobody has a reference */
    atomic_int fds[OBJECT_FD_KINDS];
    /* Of the newest change; LSN_PENDING while one is under way, under the object's lock. While it
     * is not settled the journal has a reference. */
    atomic_uint_fast64_t lsn;
    struct object_dirty unstable;
    int64_t dir_position; /* of the read fd, under dir_locks; -1: not known */
    struct object_seen seen;
    uint8_t handle_size;
    uint8_t handle[];
};

struct object_shard {
    pthread_mutex_t lock;
    struct vfs_object **buckets;
    struct vfs_object *oldest, *newest;
} __attribute__((aligned(64)));

struct object_table {
    struct object_shard shards[SHARD_COUNT];
    uint64_t bucket_mask;
    atomic_uint object_count;
    atomic_uint fd_count;
    atomic_uint fd_count_max;
    atomic_uint hand; /* where eviction goes on */
    atomic_uint tick; /* seconds, roughly, while there are objects */
    pthread_mutex_t janitor_lock;
    pthread_cond_t janitor_wake;
    pthread_t janitor;
    bool janitor_stopping;
};

struct ask;
struct vfs_rehearsal;
struct export_set;
struct peers;
struct name_entry;

struct vfs_state {
    uint8_t key[SIPHASH_KEY_BYTES]; /* of handles; the same for ever */
    uint64_t starts;                /* how often a server started with this state */
    /* The state directory and those above it, when the server started. */
    uint32_t above_count;
    struct {
        dev_t dev;
        ino_t ino;
    } above[STATE_DEPTH_MAX];
};

/* The thread that fills the pools, and lets go of exports with a log. */
struct keeper {
    bool started;
    bool stopping;
    bool wanted;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
};

/* What was measured when a log was opened. */
struct intent_speed {
    uint32_t write_bytes_max; /* stable data up to here goes into the log, of more the file is
                               * synced */
    uint64_t write_ns;        /* a durable write of a block; 0: not measured */
    uint64_t sync_ns;         /* an fsync of so much new data */
};

/* A journal, and the exports whose changes go into its log: see intent.c. */
struct intent {
    struct vfs *vfs;
    uint32_t index;      /* in vfs->intents */
    uint64_t lsn_offset; /* what the journal calls n is n + lsn_offset to callers, in a lane of the
                          * index */
    struct journal *journal;
    struct journal_log *log;  /* the journal's; NULL: groups of fsync, for all other exports */
    char *path;               /* of the log */
    int file_fd;              /* O_PATH: which file or device it is */
    struct intent_speed speed;
    pthread_mutex_t lock;     /* against a checkpoint: exports stay, with what they have open */
    uint32_t export_count;    /* references; the list changes under this lock and intents_lock */
    struct vfs_export **exports;
};

struct vfs {
    struct vfs_options options;
    bool is_plain;             /* vfs_is_plain_user */
    pthread_mutex_t mode_lock; /* then: modes are changed under it */
    uint64_t serial; /* tells this vfs from one that had the same address */
    struct vfs_state state;
    pthread_mutex_t set_lock;
    struct export_set *set;          /* what is exported now; under set_lock */
    atomic_uint_fast64_t generation; /* new whenever the above changes */
    int mounts_fd;                   /* mounts_changed */
    struct ask *peers;               /* names of clients, for */
    struct peers *peers_table;       /* the table in force */
    struct ask *groups;              /* of users */
    pthread_mutex_t change_lock;     /* whoever changes it, from building to publishing */
    pthread_mutex_t join_lock;    /* exports join logs, or leave them; taken before all others */
    pthread_mutex_t intents_lock; /* which intents there are, and their lists of exports; under it
                                   * only locks of pools and journals are taken */
    struct intent *intents[VFS_JOURNAL_COUNT_MAX]; /* [0] has no log */
    uint64_t lane_last[VFS_JOURNAL_COUNT_MAX]; /* the last lsn that somebody saw of a closed one */
    pthread_cond_t let_go;                     /* the keeper has let go of something */
    struct keeper keeper;
    uint8_t writeverf_key[SIPHASH_KEY_BYTES];
    atomic_uint_fast64_t writeverf_count;
    atomic_uint_fast64_t writeverf;
    struct object_table objects;
    struct name_entry *names;
    struct range_locks *ranges;
    pthread_mutex_t locks[LOCK_COUNT];
    pthread_mutex_t dir_locks[DIR_LOCK_COUNT];
};

/* cachestat(2), in linux/mman.h since 6.5. A size of 0 is the whole file. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
struct cache_range {
    uint64_t offset;
    uint64_t size;
};
struct cache_state {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* ---- siphash.c ---- */

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t size_bytes);

/* ---- state.c ---- */

/* Reads or makes the state directory's files, and counts the start. */
int state_open(const char *dir, struct vfs_state *state, struct err *err) MUST_USE;

/* ---- volume.c ---- */

/* Opens the directory at a path, with a reference. fsid: 16 bytes, or NULL: the file system's own.
 */
int volume_open(struct vfs *vfs, const char *path, const uint8_t *fsid, struct vfs_export **export,
                struct err *err) MUST_USE;
struct vfs_export *volume_get(struct vfs_export *export);
/* NULL is fine. */
void volume_put(struct vfs_export *export);
/* The same directory is exported under another path, too: gives this one, which nobody uses yet, an
 * identity of its own. -ENOMEM. */
int volume_set_apart(struct vfs_export *export) MUST_USE;
/* The same directory on the same mount. */
bool volume_is_same(const struct vfs_export *a, const struct vfs_export *b);
/* Whether the path leads there now. */
bool volume_is_at(const struct vfs_export *export, const char *path);
/* Whether the file system can be written, and is one that the log may be relied upon with: the
 * changes of an inode and of a directory entry reach the disk in order (docs/durability.md). */
bool volume_keeps_order(int fd);

/* ---- hidden.c ---- */

#define HIDDEN_NAME ".holdfast"
#define LOG_NAME "journal" /* in there, with VFS_JOURNAL_AUTO */
/* Whether this name in this directory is one that no client sees or touches. */
bool hidden_is(const struct vfs_node *dir, const char *name);
/* The same for a directory alone: whether there may be such a name in it. */
bool hidden_is_in(const struct vfs_node *dir);
/* Makes what is missing. */
int hidden_open(struct vfs_export *export, struct err *err) MUST_USE;
/* Opens what there is, and makes nothing. */
void hidden_look(struct vfs_export *export);
void hidden_close(struct vfs_export *export);
/* Also removes what hidden_open makes, unless more is there. */
void hidden_remove(struct vfs_export *export);
/* Everything that was applied is in the file system, and its device has been flushed. */
int hidden_sync(const struct vfs_export *export) MUST_USE;

/* ---- pool.c ---- */

#define POOL_NAME_SPACE 16
void pool_name(enum pool_kind kind, uint32_t number, char name[POOL_NAME_SPACE]);
/* Throws away what is in the pool, which nobody refers to, and fills it anew. A pool that cannot be
 * used is no error: see pool.usable. */
void pool_open(struct vfs_export *export);
/* Adds what there is now. */
void pool_count(struct vfs_export *export, uint32_t *files, uint32_t *dirs);
/* What is made goes back to the file system, if empties. Nobody takes any more. */
void pool_close(struct vfs_export *export, bool empties);
/* False: there is none now. Must be placed or given back. */
bool pool_take(struct vfs_export *export, enum pool_kind kind, struct pool_inode *inode);
void pool_give_back(struct vfs_export *export, enum pool_kind kind, const struct pool_inode *inode);
int keeper_start(struct vfs *vfs, struct err *err) MUST_USE;
void keeper_wake(struct vfs *vfs);
void keeper_stop(struct vfs *vfs);

/* ---- intent.c ---- */

/* The journal without a log, and the rest of what intent.c needs. */
int intent_open(struct vfs *vfs, struct err *err) MUST_USE;
/* Gives each export of a set, which nobody uses yet, its intent: opens logs, replays them and
 * begins their epochs as needed. at_start: also hands out the replies that they have. After a
 * failure all is as before. The caller has change_lock, or nothing else runs. */
int intent_join(struct vfs *vfs, const struct export_set *set, bool at_start,
                struct err *err) MUST_USE;
/* Exports that are not in the set: as soon as no call uses them, all they have in a log is made
 * part of their file systems, and what is open there is closed. Waits for that, but not for ever.
 * Returns how many are left. */
uint32_t intent_part(struct vfs *vfs, const struct export_set *set);
/* The keeper's: lets go of what leaves. True: there is still something that does. */
bool intent_sweep(struct vfs *vfs);
/* The keeper's and the status': the export at an index of all that have a log, with a reference, or
 * NULL. */
struct vfs_export *intent_export(struct vfs *vfs, uint32_t index);
/* The journals end. */
void intent_close(struct vfs *vfs);
/* After the objects are gone. */
void intent_free(struct vfs *vfs);
/* Whether this is the root of an export with a log. */
bool intent_has_root(struct vfs *vfs, const struct vfs_object *object);
/* The call depends on this lsn of the export's journal: call->lsn covers it, or it was waited for.
 * -EIO: that failed. */
int intent_depend(struct vfs_call *call, const struct vfs_export *export, uint64_t lsn) MUST_USE;
void intent_object(const uint8_t *handle, struct journal_object *object);
/* Everything that was applied is in the file systems of its exports, past the devices' caches. The
 * caller has the intent's lock, or nothing else runs. */
int intent_sync(const struct intent *intent) MUST_USE;

/* ---- intent_note.c ---- */

/* Says that the export has changes in this log. Durable when it returns 0. */
int note_write(const struct vfs_export *export, const struct journal_log *log,
               const char *path) MUST_USE;
void note_remove(const struct vfs_export *export);
/* Whether it says so of this log. */
bool note_names(const struct vfs_export *export, const struct journal_log *log);
/* -EUCLEAN: it has them in another log. log NULL: in any. */
int note_check(const struct vfs_export *export, const struct journal_log *log,
               struct err *err) MUST_USE;

/* ---- intent_log.c ---- */

/* The file of a log, made if it is not there: a descriptor or -errno. dir_fd: where name starts. */
int log_file_open(int dir_fd, const char *name) MUST_USE;
/* The same for a log that nobody has asked for: it is made only whole, of so many bytes or the
 * least that a log has, and -ENOSPC also if it would take much of what is free. */
int log_file_make(int dir_fd, const char *name, uint64_t bytes) MUST_USE;
/* Locks it, and opens the log in it, which is made if the file is empty. Takes fd over. */
int log_open(int fd, const char *path, uint64_t new_bytes, struct journal_log **log,
             struct err *err) MUST_USE;

/* ---- intent_measure.c ---- */

/* On an epoch without batches; the export has its hidden directory open. Takes half a second at
 * most, but for one operation of the device. -EIO: the log has failed. */
int intent_measure(const struct vfs_export *export, struct journal_log *log,
                   struct intent_speed *speed) MUST_USE;

/* ---- replay.c ---- */

/* Makes the file systems what the live batches of the log say; replies: and hands out those that it
 * has. Locks as for intent_sync. */
int replay_run(struct intent *intent, struct journal_log *log, bool replies,
               struct err *err) MUST_USE;
/* Tells what that would do. Needs no table of objects. */
int replay_rehearse(const struct intent *intent, struct journal_log *log,
                    struct vfs_rehearsal *rehearsal, struct err *err) MUST_USE;

/* ---- handle.c ---- */

union handle_kernel {
    struct file_handle head;
    uint8_t space[sizeof(struct file_handle) + HANDLE_KERNEL_BYTES_MAX];
};

/* Asks the kernel for the handle of a name. flags: AT_EMPTY_PATH or 0. -EXDEV: another mount. */
int handle_of(const struct vfs_export *export, int dir_fd, const char *name, int flags,
              struct vfs_handle *handle) MUST_USE;
/* The wire form. */
void handle_make(const struct vfs_export *export, const struct file_handle *kernel,
                 struct vfs_handle *handle);
/* The size without the zeros that an NFSv2 handle, also that of MOUNT version 1, ends in. */
uint32_t handle_unpadded(const uint8_t *bytes, uint32_t size_bytes);
/* The export of a handle that we made, with a reference, or -EBADF. -ESTALE: made, but the export
 * is gone. */
int handle_check(struct vfs *vfs, const uint8_t *bytes, uint32_t size_bytes,
                 struct vfs_export **export) MUST_USE;
void handle_kernel_part(const uint8_t *bytes, union handle_kernel *kernel);
/* The inode number inside, where the file system's format is known. */
bool handle_fileid(const struct vfs_handle *handle, uint64_t *fileid);
uint64_t handle_hash(const uint8_t *bytes, uint32_t size_bytes);

/* ---- object.c ---- */

int object_table_open(struct vfs *vfs, struct err *err) MUST_USE;
void object_table_close(struct vfs *vfs);
/* With a reference, or NULL. */
struct vfs_object *object_find(struct vfs *vfs, const uint8_t *handle, uint32_t size_bytes);
/* With a reference; made if there is none. The handle must be ours. */
int object_obtain(struct vfs_export *export, const struct vfs_handle *handle,
                  struct vfs_object **object) MUST_USE;
/* The same, and the object gets fd, which object_open_name opened. Takes fd over, always. */
int object_adopt(struct vfs_export *export, const struct vfs_handle *handle,
                 enum object_fd_kind kind, int fd, struct vfs_object **object) MUST_USE;
void object_ref(struct vfs_object *object);
void object_put(struct vfs_object *object);
/* object_put for the journal and for data in flight. */
void object_release(void *object);
/* The same directory, whichever export it was reached through. */
bool object_is_root_of(const struct vfs_object *object, const struct vfs_export *export);
/* The object was found to be deleted. */
void object_set_stale(struct vfs_object *object);
/* Lets go of all objects of an export: those in use go with their last reference. */
void object_purge(struct vfs_export *export);

/* A descriptor that lives as long as the caller's reference. May take root's identity. OBJECT_PATH
 * means any; OBJECT_READ may be the one for writing. -ESTALE, -EMFILE, -EINVAL (no file or
 * directory), and what open(2) says. */
int object_fd(struct vfs_object *object, enum object_fd_kind kind, int *fd) MUST_USE;
/* A new descriptor, the caller's to close with object_close_fd; otherwise the same. Returns fd or
 * -errno. */
int object_open(struct vfs_object *object, enum object_fd_kind kind);
/* Whether it has one now. */
bool object_has_fd(const struct vfs_object *object);
/* Whether one more would be no loss to anybody. */
bool object_fds_abound(const struct vfs *vfs);
/* openat(2) that counts, and makes room when there are too many descriptors. Returns fd or
 * -errno. */
int object_open_name(struct vfs *vfs, int dir_fd, const char *name, int flags,
                     mode_t mode) MUST_USE;
void object_close_fd(struct vfs *vfs, int fd);
void object_stats(const struct vfs *vfs, struct vfs_stats *stats);

/* ---- cred.c ---- */

/* Root's identity, for opening by handle. */
void cred_take_root(void);
/* The caller's. */
void cred_take(const struct vfs_call *call);
/* Effective ids for a system call that looks at those, until cred_be_root, which must follow also
 * after a failure. */
int cred_be(uint32_t uid, uint32_t gid) MUST_USE;
void cred_be_root(void);
/* Fills fsuid.. of call from its options. -EAGAIN: the groups are not known yet. */
int cred_squash(struct vfs_call *call) MUST_USE;
/* Of a call's groups, and those of another that were kept (gids for number 0). */
bool cred_same_groups(const struct vfs_call *call, uint64_t number, uint32_t count,
                      const uint32_t *gids);
/* Says which capability is missing, if one is that the process should have. Threads keep the
 * process's identity from here on if it is a plain user's. */
int cred_begin_process(struct err *err) MUST_USE;

/* ---- groups.c ---- */

#define GROUP_COUNT_MAX 1024U /* of a user */
int groups_open(struct vfs *vfs) MUST_USE;
/* The groups that the user database has for a user, none for one who is not in it (number 0 then).
 * -EAGAIN: not known yet. May wait for ASK_WAIT_MS. */
int groups_of_user(struct vfs *vfs, uint32_t uid, uint32_t gids[GROUP_COUNT_MAX], uint32_t *count,
                   uint32_t *number) MUST_USE;

/* ---- ways.c: for exports that have ways ---- */

struct ways;
/* NULL: no memory. */
struct ways *ways_new(const struct vfs_handle *root);
/* NULL is fine. */
void ways_free(struct ways *ways);
/* The name in dir was seen to lead to the object with this handle. */
void ways_note(const struct vfs_object *dir, const char *name, const uint8_t *handle,
               uint32_t handle_size);
/* The object is there, who knows where. */
void ways_note_loose(const struct vfs_object *object);
/* The object is gone. */
void ways_forget(const struct vfs_object *object);
/* Notes each step of a path below the export's root, without "." and "..". 0 or -errno. */
int ways_descend(const struct vfs_export *export, const char *path) MUST_USE;
/* As open_by_handle_at(2): a descriptor or -errno; -ESTALE; -EAGAIN: to be asked again later. May
 * take as long as a walk of the export. */
int ways_open(const struct vfs_object *object, int flags) MUST_USE;

/* ---- lock.c ---- */

#define LOCK_SET_MAX 4
struct lock_set {
    uint32_t count;
    uint16_t index[LOCK_SET_MAX];
};
uint16_t lock_index_of(const struct vfs *vfs, const struct vfs_export *export,
                       const struct vfs_handle *handle);
/* Adds an object before lock_begin. */
void lock_add(struct lock_set *set, const struct vfs_object *object);
void lock_begin(struct vfs *vfs, const struct lock_set *set);
void lock_end(struct vfs *vfs, const struct lock_set *set);

/* ---- attr.c ---- */

void attr_fill(const struct vfs_export *export, const struct stat *st, struct vfs_attr *attr);
/* What the file system says now; remembered for the batch. -ESTALE when deleted. */
int attr_fresh(const struct vfs_call *call, struct vfs_object *object,
               struct vfs_attr *attr) MUST_USE;
/* The same, or what it said in this batch a moment ago: for what an object was before a change. */
int attr_recent(const struct vfs_call *call, struct vfs_object *object,
                struct vfs_attr *attr) MUST_USE;
/* Notes what fstat(2) said just now. -ESTALE when deleted. */
int attr_take(const struct vfs_call *call, struct vfs_object *object, const struct stat *st,
              struct vfs_attr *attr) MUST_USE;
/* What it said earlier in this batch, if it was asked. */
bool attr_recall(const struct vfs_call *call, struct vfs_object *object, struct vfs_attr *attr);
/* That, or what it says now. */
int attr_get(const struct vfs_call *call, struct vfs_object *object,
             struct vfs_attr *attr) MUST_USE;
/* What was seen of the object in this batch no longer counts. */
void attr_forget(struct vfs_object *object);
/* attr_get into the node, and attr_note_lsn. */
int attr_of_node(struct vfs_call *call, struct vfs_node *node) MUST_USE;
/* call->lsn covers what can be seen of the object. Not with a lock held. After what was seen. */
void attr_note_lsn(struct vfs_call *call, struct vfs_object *object);
/* A change of the object begins, which has these attributes; under its lock. Returns the lsn of the
 * change before. */
uint64_t attr_begin_change(struct vfs_object *object, const struct vfs_attr *before);
/* Whether the values make sense at all. */
int attr_check(const struct vfs_sattr *sattr) MUST_USE;
/* Applies sattr as the caller, whose identity is in force. For a size the write descriptor must be
 * open, and the permission checked: the kernel asks nobody on a descriptor. */
int attr_apply(struct vfs_object *object, const struct vfs_sattr *sattr) MUST_USE;

/* ---- access.c ---- */

/* Whether the caller may do all of want (VFS_MAY_*), as the file system sees it. attr: what was
 * seen of the object in this call. Takes the caller's identity where it must ask. */
int access_check(const struct vfs_call *call, struct vfs_object *object,
                 const struct vfs_attr *attr, uint32_t want) MUST_USE;
/* The same for a file's data, where the owner always may. */
int access_data(const struct vfs_call *call, struct vfs_object *object, const struct vfs_attr *attr,
                uint32_t want) MUST_USE;

/* ---- dir.c ---- */

#define NAME_SPACE (VFS_NAME_BYTES_MAX + 1)
/* A name as the kernel wants it. */
int name_copy(struct vfs_bytes name, char text[NAME_SPACE]) MUST_USE;
bool name_is_dot(const char *text);
bool name_is_dot_dot(const char *text);
/* What getdents64 writes. */
struct dirent_head {
    uint64_t ino;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};
/* The object, with a descriptor, of whatever the name leads to when it is opened; otherwise the
 * next one. */
int name_open(struct vfs_export *export, int dir_fd, const char *name,
              struct vfs_object **object) MUST_USE;
/* The object a name leads to, for the caller whose identity is in force. */
int name_object(const struct vfs_call *call, struct vfs_export *export, int dir_fd,
                const char *name, struct vfs_object **object) MUST_USE;
bool node_is_root(const struct vfs_node *node);

/* ---- names.c ---- */

static inline bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

enum name_answer { NAME_UNKNOWN, NAME_KNOWN, NAME_ABSENT };
/* Whether no change from now on can leave an object with this ctime. Asked before what the ctime is
 * to stand for is read. */
bool ctime_is_settled(const struct vfs_export *export, const struct timespec *ctime);
int names_open(struct vfs *vfs) MUST_USE;
void names_close(struct vfs *vfs);
/* What a name leads to in a directory that has this ctime; NULL: what it led to when last heard
 * of. */
enum name_answer names_find(const struct vfs_object *dir, const char *name,
                            const struct timespec *ctime, struct vfs_handle *handle);
/* handle_size 0: nothing has that name. ctime NULL: as a hint. */
void names_note(const struct vfs_object *dir, const char *name, const struct timespec *ctime,
                const uint8_t *handle, uint32_t handle_size);
void names_forget(const struct vfs_object *dir, const char *name);

/* ---- change.c ---- */

#define CHANGE_NODES_MAX 3
#define CHANGE_RECORDS_MAX 6

/* A change of up to three objects under way. */
struct change {
    struct vfs_call *call;
    enum journal_op op;
    bool journaled;  /* appended to the journal */
    bool logged;     /* with records, so that nothing else need be synced, but for */
    bool sync_nodes; /* these */
    bool sync_made;  /* or this */
    bool has_state[CHANGE_NODES_MAX]; /* attributes of the node have changed */
    uint32_t record_count;
    struct journal_record records[CHANGE_RECORDS_MAX];
    uint8_t record_dir[CHANGE_RECORDS_MAX]; /* index of an ENTRY's directory */
    uint32_t count;
    struct vfs_node *nodes[CHANGE_NODES_MAX];
    int fds[CHANGE_NODES_MAX]; /* any descriptor of each */
    uint64_t lsn_before[CHANGE_NODES_MAX];
    struct vfs_object *made; /* new in this change, to be durable with it */
    struct lock_set locks;
};
/* Steps 1 to 3 of an operation, and the before-attributes. After a failure there is nothing to end.
 * op: what is to be durable before the reply (on a sync export); JOURNAL_OP_NONE: nothing. */
int change_begin(struct change *change, struct vfs_call *call, struct vfs_node *const *nodes,
                 uint32_t count, enum journal_op op) MUST_USE;
/* The change made this object, too; the change holds on to it. */
void change_made(struct change *change, struct vfs_object *object);
/* For the record, in the order of what was done; without a log they do nothing. Names and bytes
 * stay the caller's until change_end. A handle of NULL is no object. */
void change_entry(struct change *change, uint32_t dir, const char *name,
                  const struct vfs_handle *now, const struct vfs_handle *before);
void change_state(struct change *change, const uint8_t *handle, const struct vfs_attr *attr,
                  uint32_t nlink);
void change_data(struct change *change, uint32_t node, uint64_t offset, const uint8_t *bytes,
                 uint32_t size_bytes);
void change_size(struct change *change, const uint8_t *handle, uint64_t size_bytes);
/* The node's data is to be synced as a whole before the reply. */
void change_sync_data(struct change *change, uint32_t node);
/* Steps 4 and 5. err is how the change went; returns how it all went. A change that failed is not
 * journaled. */
int change_end(struct change *change, int err, enum journal_how how) MUST_USE;

/* ---- range_lock.c ---- */

struct range_locks;
int range_locks_open(struct vfs *vfs, struct err *err) MUST_USE;
void range_locks_close(struct vfs *vfs);
/* Locks of files that were reached through this export go. Returns of how many files. */
uint32_t range_locks_release_export(struct vfs *vfs, const struct vfs_export *export);

/* ---- node.c ---- */

/* Unstable data may be lost: a new write verifier. */
void vfs_lost(void *vfs);

#endif
