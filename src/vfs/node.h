/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the exported file systems, reached by handle.
 *
 * 1. A wire handle names an object for ever: across renames, restarts and re-exports of the same
 *    directory. When the object is deleted its handle is stale, also when its inode is used again.
 * 2. A handle that we did not make is refused (keyed MAC), so nobody reaches outside an export.
 * 3. Every call is checked against the export's client list and identity rules, not only MNT.
 * 4. A file system mounted below an export is not reached.
 * 5. Changes return with the attributes before and after, taken under the object's lock.
 *
 * All functions return 0 or -errno, may be called from any thread that called vfs_thread_begin(),
 * and may block on the disk. Names are bytes, without a NUL, and are judged here: "" is -EACCES,
 * over 255 bytes -ENAMETOOLONG, "." and ".." as RFC 1813 has it for each procedure.
 */
#ifndef VFS_NODE_H
#define VFS_NODE_H

#include "base/err.h"
#include "vfs/export.h"

#include <stdbool.h>
#include <time.h>

struct vfs;
struct vfs_object; /* an inode that somebody named lately: shared, counted, cached */
struct vfs_export; /* an opened export_entry */

#define VFS_HANDLE_BYTES_MAX 64 /* 32 or fewer on ext4 and xfs */
#define VFS_GIDS_MAX 16 /* of a credential */
#define VFS_NAME_BYTES_MAX 255

struct vfs_handle {
    uint32_t size;
    uint8_t bytes[VFS_HANDLE_BYTES_MAX];
};

/* Bytes of a name or a handle that belong to the caller. */
struct vfs_bytes {
    const uint8_t *data;
    uint32_t size;
};

enum vfs_type { VFS_NONE = 0, VFS_REG, VFS_DIR, VFS_BLK, VFS_CHR, VFS_LNK, VFS_SOCK, VFS_FIFO };

struct vfs_attr {
    enum vfs_type type;
    uint32_t mode; /* permission bits, setuid, setgid, sticky: 07777 */
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint64_t size;
    uint64_t used; /* bytes on disk */
    uint32_t rdev_major;
    uint32_t rdev_minor;
    uint64_t fsid; /* of the export */
    uint64_t fileid;
    struct timespec atime, mtime, ctime; /* seconds may be negative */
};

/* A reference to an object within an export, with what was seen of it. Starts as {0}; vfs_put may
 * be called on that too. One thread. */
struct vfs_node {
    struct vfs_object *object;
    struct vfs_export *export;
    bool has_attr;   /* attr is what the object looked like after the last call on this node */
    bool has_before; /* before is what it looked like before that call changed it */
    struct vfs_attr attr;
    struct vfs_attr before;
};

/* Who calls, once per call. The caller fills the first part; vfs_get and vfs_root the rest. */
struct vfs_call {
    struct vfs *vfs;
    const struct sockaddr *peer;
    uint64_t batch; /* see rpc_call.batch; 0: never share */
    bool anonymous; /* no AUTH_SYS: the caller is nobody */
    uint32_t uid;
    uint32_t gid;
    uint32_t gid_count;
    uint32_t gids[VFS_GIDS_MAX];
    /* After vfs_get or vfs_root: */
    const struct export_options *options;
    uint32_t fsuid, fsgid; /* after squashing */
    uint32_t fsgid_count;
    const uint32_t *fsgids; /* squashed_gids, or the thread's until its next vfs_get or vfs_root */
    uint64_t fsgids_number; /* not 0: fsgids of that number are always the same */
    uint32_t squashed_gids[VFS_GIDS_MAX];
    uint64_t export_id; /* of the export it is about, the last one if several; 0: none yet */
    /* The newest lsn the call depends on: made by it, or observed. From VFS_LANE_SHIFT up it is the
     * index of a journal (vfs/journals.h); numbers of different journals have nothing to do with
     * each other. */
    uint64_t lsn;
    /* The thread will call vfs_reply when it knows the reply. */
    bool replies;
};

#define VFS_LANE_SHIFT 56

#define VFS_JOURNAL_OFF "off"
#define VFS_JOURNAL_AUTO "auto"

/* A reply for the reply cache, with what identifies its call. */
struct vfs_reply {
    uint8_t address[16]; /* IPv6, or IPv4 in its last four bytes, as the reply cache has it */
    uint16_t port;
    bool is_tcp;
    uint32_t xid, prog, vers, proc;
    uint32_t call_bytes;
    uint64_t call_checksum;
    const uint8_t *bytes;
    uint32_t size;
};

struct vfs_options {
    const char *state_dir;            /* holds the handle key (made if missing, mode 0600) */
    struct export_table *table;       /* the vfs has a reference of its own */
    uint32_t fd_count_max; /* descriptors of the object cache; 0: derived from RLIMIT_NOFILE */
    /* Called by vfs_open when the exports are open and before it starts threads: the place to give
     * up the privilege that opening needed, since threads inherit. May be NULL. */
    int (*opened)(void *arg, struct err *err);
    /* The intent log (docs/durability.md) of exports that do not say themselves: a file or block
     * device, VFS_JOURNAL_AUTO for a file in each file system, or NULL for groups of fsync. */
    const char *journal_path;
    uint64_t journal_bytes;   /* of a file that is made; 0: the smallest */
    uint32_t async_window_ms; /* of exports that do not say themselves */
    bool manage_gids;         /* on all exports */
    /* A reply that a client may still ask for, from before the start. Called by vfs_open. */
    void (*reply)(void *arg, const struct vfs_reply *reply);
    /* See journal/commit.h; called on the thread of a journal, with lsns as in struct vfs_call. */
    void (*durable)(void *arg, uint64_t lsn, int error);
    /* Stands in for fsync and its kin (how: enum journal_how), so that tests can make them fail.
     * NULL: the real ones. */
    int (*sync)(void *arg, int fd, int how);
    void *arg;
};

/* Whether this process is a plain user's: not root's, and without the capabilities that serving for
 * others takes. Its server acts as that user whoever calls, opens objects by remembered ways
 * (ways.c), and has no log. */
bool vfs_is_plain_user(void);

/* Opens every export; an export that cannot be opened is an error that names it. */
int vfs_open(const struct vfs_options *options, struct vfs **vfs, struct err *err) MUST_USE;
void vfs_close(struct vfs *vfs);

/* Prepares the calling thread: identity bookkeeping, capabilities that must not be in force. */
void vfs_thread_begin(void);

/* The write verifier: 8 bytes, the same for all files, threads and transports; new with every start
 * and after every writeback error, whatever the clock does. RFC 1813 §4.8. */
uint64_t vfs_writeverf(const struct vfs *vfs);

/* The reply to the call that this thread has just run, to be kept with the change that the call has
 * made, if it made one. reply NULL: there is none to be kept. Must follow every call with
 * `replies`. */
void vfs_reply(struct vfs *vfs, const struct vfs_reply *reply);

/* Between the two, what the calls of this thread change may wait to be made durable by this thread:
 * vfs_keep_promise does it, and may wait for a device (journal/commit.h). */
void vfs_promise(void);
void vfs_keep_promise(void);
/* Whatever threads have promised is done by others: one of them may be blocked. Any thread. */
void vfs_break_promises(struct vfs *vfs);

/* ---- references ---- */

/* The object of a handle. -EBADF: not a handle of ours (NFS3ERR_BADHANDLE); -ESTALE; -EACCES: the
 * export is not for this client; -EPERM: `secure`, and a high port. Attributes are not read.
 *
 * A handle of 32 bytes may be a shorter one with zeros behind it, which is how NFSv2 and MOUNT v1
 * have it: a handle's third byte tells its length, the zeros do not count, and anything else behind
 * it is -EBADF. So a padded handle and the plain one are the same object's, in either version. */
int vfs_get(struct vfs_call *call, struct vfs_bytes handle, struct vfs_node *node) MUST_USE;

/* The object at a path, for MNT: the export itself or a directory below one. Symbolic links are
 * followed as a local user's would be; of the exports at or above what they lead to, the one with
 * the longest path that is for this client decides. What is hidden below a mount that is not
 * exported is -EACCES. A path that no longer leads to the directory that was opened has the exports
 * looked at anew (vfs_refresh). -ENOENT, -EACCES, -EPERM, -ENOTDIR. */
int vfs_root(struct vfs_call *call, struct vfs_bytes path, struct vfs_node *node) MUST_USE;

void vfs_put(struct vfs_node *node);

/* The wire handle of a node. */
void vfs_node_handle(const struct vfs_node *node, struct vfs_handle *handle);

/* ---- attributes ---- */

int vfs_getattr(struct vfs_call *call, struct vfs_node *node) MUST_USE;

enum vfs_time_how { VFS_TIME_KEEP, VFS_TIME_NOW, VFS_TIME_SET };

struct vfs_sattr {
    bool set_mode, set_uid, set_gid, set_size;
    uint32_t mode, uid, gid;
    uint64_t size;
    enum vfs_time_how atime_how, mtime_how;
    struct timespec atime, mtime;
};

/* guard_ctime: if not NULL and not the object's ctime, nothing is changed and -EUCLEAN is returned
 * (NFS3ERR_NOT_SYNC). */
int vfs_setattr(struct vfs_call *call, struct vfs_node *node, const struct vfs_sattr *sattr,
                const struct timespec *guard_ctime) MUST_USE;

#define VFS_MAY_READ 1U  /* read a file, list a directory */
#define VFS_MAY_WRITE 2U /* change a file's data, add to a directory */
#define VFS_MAY_EXEC 4U  /* run a file, look names up */
/* Which of `want` the file system grants. Also fills attr. */
int vfs_access(struct vfs_call *call, struct vfs_node *node, uint32_t want,
               uint32_t *granted) MUST_USE;

struct vfs_fsstat {
    uint64_t total_bytes, free_bytes, avail_bytes;
    uint64_t total_files, free_files, avail_files;
    uint32_t name_max, link_max;
    uint32_t block_bytes;
};
int vfs_fsstat(struct vfs_call *call, struct vfs_node *node, struct vfs_fsstat *stat) MUST_USE;

/* ---- access control lists (acl.c) ---- */

/* The numbers of POSIX 1003.1e draft 17, in the order of a list. */
enum vfs_acl_tag {
    VFS_ACL_USER_OBJ = 0x1,
    VFS_ACL_USER = 0x2,
    VFS_ACL_GROUP_OBJ = 0x4,
    VFS_ACL_GROUP = 0x8,
    VFS_ACL_MASK = 0x10,
    VFS_ACL_OTHER = 0x20
};

struct vfs_ace {
    uint16_t tag;
    uint16_t perm; /* r 4, w 2, x 1 */
    uint32_t id;   /* of VFS_ACL_USER and VFS_ACL_GROUP */
};

#define VFS_ACL_ENTRY_COUNT_MAX 1024U
struct vfs_acl {
    uint32_t count; /* 0: there is no list */
    struct vfs_ace entries[VFS_ACL_ENTRY_COUNT_MAX];
};

/* The access list, made from the mode where there is none; and the list that objects made in a
 * directory begin with. attr is filled. -EOPNOTSUPP: the file system has none, or the export hides
 * them; -EOVERFLOW: longer than we take. */
int vfs_getacl(struct vfs_call *call, struct vfs_node *node, struct vfs_acl *access,
               struct vfs_acl *initial) MUST_USE;
/* Sets both or neither; NULL: as it is; without entries: there is none then, and the mode stays.
 * In any order. -EINVAL: no list; -EPERM: not the owner; -EACCES: an initial list, of what is no
 * directory; and as above. */
int vfs_setacl(struct vfs_call *call, struct vfs_node *node, const struct vfs_acl *access,
               const struct vfs_acl *initial) MUST_USE;

/* ---- names (dir.c): dir.attr, dir.before are filled where the call changes dir; dir.attr always
 * ---- */

int vfs_lookup(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
               struct vfs_node *node) MUST_USE;

enum vfs_create_how { VFS_UNCHECKED, VFS_GUARDED, VFS_EXCLUSIVE };

/* VFS_EXCLUSIVE keeps the 8-byte verf in the object (atime and mtime, so that it survives a
 * restart); the same verf again is the same success. On UNCHECKED success for an existing file only
 * the size of sattr is applied. */
int vfs_create(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
               enum vfs_create_how how, const struct vfs_sattr *sattr, const uint8_t verf[8],
               struct vfs_node *node) MUST_USE;
int vfs_mkdir(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
              const struct vfs_sattr *sattr, struct vfs_node *node) MUST_USE;
int vfs_symlink(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
                struct vfs_bytes target, const struct vfs_sattr *sattr,
                struct vfs_node *node) MUST_USE;
/* type: VFS_BLK, VFS_CHR, VFS_SOCK, VFS_FIFO */
int vfs_mknod(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name,
              enum vfs_type type, uint32_t rdev_major, uint32_t rdev_minor,
              const struct vfs_sattr *sattr, struct vfs_node *node) MUST_USE;
int vfs_remove(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name) MUST_USE;
int vfs_rmdir(struct vfs_call *call, struct vfs_node *dir, struct vfs_bytes name) MUST_USE;
/* Two nodes, also when both are the same directory. -EXDEV across exports. */
int vfs_rename(struct vfs_call *call, struct vfs_node *from_dir, struct vfs_bytes from_name,
               struct vfs_node *to_dir, struct vfs_bytes to_name) MUST_USE;
int vfs_link(struct vfs_call *call, struct vfs_node *node, struct vfs_node *dir,
             struct vfs_bytes name) MUST_USE;
/* The target is written to buffer (not NUL-terminated). */
int vfs_readlink(struct vfs_call *call, struct vfs_node *node, uint8_t *buffer,
                 uint32_t buffer_bytes, uint32_t *target_bytes) MUST_USE;

/* One entry of a directory. Pointers are valid during the callback only. */
struct vfs_entry {
    struct vfs_bytes name;
    uint64_t fileid;
    uint64_t cookie; /* pass it to continue behind this entry; stable across changes and restarts */
    bool has_attr;   /* only asked for with `plus`; may be missing for any entry */
    struct vfs_attr attr;
    bool has_handle;
    struct vfs_handle handle;
};
/* Takes an entry, or returns false when it does not fit: it will come first next time. */
typedef bool vfs_entry_take(void *arg, const struct vfs_entry *entry);
/* Calls take for every entry behind cookie (0: from the start, with "." and "..") until it says no
 * (*eof false) or all were taken (*eof true). dir->attr is filled. bytes_hint: how much the caller
 * can use, so that not much more is read. */
int vfs_readdir(struct vfs_call *call, struct vfs_node *dir, uint64_t cookie, bool plus,
                uint32_t bytes_hint, vfs_entry_take *take, void *arg, bool *eof) MUST_USE;

/*
 * Whether cookies of 2^31 and more are places in an order of hashes (ext4), so that every number of
 * the kind continues with the first entry at or behind it, also if it was never given out.
 * Elsewhere only what was given out means anything.
 */
bool vfs_cookies_are_hashes(const struct vfs_node *dir);

/* ---- data (file.c) ---- */

/* What a read gives: bytes in the buffer, or, where it pays, a part of a file to be sent as it is.
 */
struct vfs_data {
    uint32_t size; /* bytes read; fewer than asked only at the end of the file */
    bool eof;
    const uint8_t *bytes; /* NULL: use fd */
    int fd;
    uint64_t offset;
    void (*release)(
        void *owner); /* must be called once if not NULL, when bytes or fd are done with */
    void *owner;
};
/* Reads up to count bytes. Small reads land in buffer (buffer_bytes may be less than count); others
 * come as memory or file range with a release. attr is filled. */
int vfs_read(struct vfs_call *call, struct vfs_node *node, uint64_t offset, uint32_t count,
             uint8_t *buffer, uint32_t buffer_bytes, struct vfs_data *data) MUST_USE;

enum vfs_stable { VFS_UNSTABLE = 0, VFS_DATA_SYNC = 1, VFS_FILE_SYNC = 2 };
/* Writes; *written may be less than size_bytes only when the disk is full or a limit is met.
 * *committed is what call->lsn will make true. */
int vfs_write(struct vfs_call *call, struct vfs_node *node, uint64_t offset, const uint8_t *bytes,
              uint32_t size_bytes, enum vfs_stable stable, uint32_t *written,
              enum vfs_stable *committed) MUST_USE;
int vfs_commit(struct vfs_call *call, struct vfs_node *node, uint64_t offset,
               uint32_t count) MUST_USE;

/* ---- quotas (quota.c) ---- */

enum vfs_quota_kind { VFS_QUOTA_USER, VFS_QUOTA_GROUP };

struct vfs_quota {
    bool is_enforced; /* not only counted */
    uint64_t hard_bytes, soft_bytes, used_bytes; /* limits: 0 is none */
    uint64_t hard_files, soft_files, used_files;
    time_t bytes_until, files_until; /* when a soft limit becomes a hard one; 0: it is kept */
};

/* Of the file system at a path, which vfs_root would find but for `secure`. The id is the file
 * system's; who may ask is for the caller to judge. -ENODATA: there is no quota; -ENOENT, -EACCES
 * and the like as from vfs_root. */
int vfs_quota(struct vfs_call *call, struct vfs_bytes path, enum vfs_quota_kind kind, uint32_t id,
              struct vfs_quota *quota) MUST_USE;

/* ---- for MOUNT ---- */

/* What is exported now, with a reference: export_table_free. */
struct export_table *vfs_table_get(struct vfs *vfs);

/* Calls take for every directory that is exported now, with the id that calls on it have. */
void vfs_each_export(struct vfs *vfs, void (*take)(void *arg, const char *path, uint64_t id),
                     void *arg);

/* Whether some export is for this client, as far as can be told at once. Does not block. */
bool vfs_names_host(struct vfs *vfs, const struct sockaddr *peer);

/* ---- changing what is exported, while calls run ---- */

/* Puts a resolved table in the place of the one in force, or says what is wrong with it and
 * changes nothing. Calls on exports that are in both notice nothing; handles of others are stale,
 * and their file systems are let go of, but for *in_use of them, on which calls still run after
 * some seconds. Takes a reference to the table. */
int vfs_reload(struct vfs *vfs, struct export_table *table, uint32_t *in_use,
               struct err *err) MUST_USE;

/* Looks anew at the directories of the table in force: made again, or mounted, in the meantime. */
void vfs_refresh(struct vfs *vfs);

struct vfs_stats {
    uint32_t objects, fds;
    uint32_t fd_count_max;
    size_t object_bytes; /* memory per known object, descriptors not counted */
};
void vfs_stats(const struct vfs *vfs, struct vfs_stats *stats);

#endif
