/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes: read with fstat(2) on a descriptor, shared within a batch, set as the caller.
 *
 * Why sharing is honest. All calls of a batch had arrived before anything was read for one of them,
 * and no later call has its number. An answer read during the batch is therefore newer than the
 * moment any of its calls was sent, which is all that any server can promise: a change that was
 * finished before a call was sent is in its answer.
 *
 * What an object was before a change is shared more narrowly, since a client concludes from it that
 * nobody else made a change in between. A few microseconds pass between the question and the change
 * in any case; an answer of this batch that is hardly older is as good.
 */
#include "vfs/internal.h"

#include "os/ticks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* How old "before" may be. */
#define BEFORE_AGE_NS_MAX 10000

static enum vfs_type type_of(mode_t mode)
{
    static const uint8_t types[16] = {
        [S_IFREG >> 12] = VFS_REG,  [S_IFDIR >> 12] = VFS_DIR, [S_IFBLK >> 12] = VFS_BLK,
        [S_IFCHR >> 12] = VFS_CHR,  [S_IFLNK >> 12] = VFS_LNK, [S_IFSOCK >> 12] = VFS_SOCK,
        [S_IFIFO >> 12] = VFS_FIFO,
    };
    return (enum vfs_type)types[(mode & S_IFMT) >> 12];
}

void attr_fill(const struct vfs_export *export, const struct stat *st, struct vfs_attr *attr)
{
    *attr = (struct vfs_attr){
        .type = type_of(st->st_mode),
        .mode = st->st_mode & 07777,
        .nlink = (uint32_t)st->st_nlink,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = (uint64_t)st->st_size,
        .used = (uint64_t)st->st_blocks * 512,
        .rdev_major = major(st->st_rdev),
        .rdev_minor = minor(st->st_rdev),
        .fsid = export->fsid,
        .fileid = st->st_ino,
        .atime = st->st_atim,
        .mtime = st->st_mtim,
        .ctime = st->st_ctim,
    };
}

static void seen_take(struct object_seen *seen)
{
    while (atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
    }
}

static void remember(const struct vfs_call *call, struct vfs_object *object,
                     const struct vfs_attr *attr)
{
    struct object_seen *seen = &object->seen;
    if (call->batch != 0 && !atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        seen->attr = *attr;
        seen->attr_batch = call->batch;
        seen->attr_stamp = ticks_now();
        atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    }
}

/* False: it has not been seen in this batch, or longer ago than that. */
static bool recall(const struct vfs_call *call, struct vfs_object *object, uint64_t age_ns_max,
                   struct vfs_attr *attr)
{
    struct object_seen *seen = &object->seen;
    bool found = false;
    if (call->batch != 0 && !atomic_flag_test_and_set_explicit(&seen->busy, memory_order_acquire)) {
        found = seen->attr_batch == call->batch &&
                (age_ns_max == UINT64_MAX ||
                 ticks_ns(seen->attr_stamp, ticks_now()) <= age_ns_max);
        if (found) {
            *attr = seen->attr;
        }
        atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    }
    return found;
}

void attr_forget(struct vfs_object *object)
{
    struct object_seen *seen = &object->seen;
    seen_take(seen);
    seen->attr_batch = 0;
    atomic_flag_clear_explicit(&seen->busy, memory_order_release);
}

int attr_take(const struct vfs_call *call, struct vfs_object *object, const struct stat *st,
              struct vfs_attr *attr)
{
    if (st->st_nlink == 0) {
        /* Only our descriptor keeps it. */
        object_set_stale(object);
        if (object->export->ways != NULL) {
            ways_forget(object);
        }
        return -ESTALE;
    }
    attr_fill(object->export, st, attr);
    if (UNLIKELY(atomic_load_explicit(&object->type, memory_order_relaxed) == VFS_NONE)) {
        atomic_store(&object->type, (uint8_t)attr->type);
    }
    remember(call, object, attr);
    return 0;
}

int attr_fresh(const struct vfs_call *call, struct vfs_object *object, struct vfs_attr *attr)
{
    int fd;
    struct stat st;
    int err = object_fd(object, OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    return attr_take(call, object, &st, attr);
}

int attr_recent(const struct vfs_call *call, struct vfs_object *object, struct vfs_attr *attr)
{
    return recall(call, object, BEFORE_AGE_NS_MAX, attr) ? 0 : attr_fresh(call, object, attr);
}

bool attr_recall(const struct vfs_call *call, struct vfs_object *object, struct vfs_attr *attr)
{
    return recall(call, object, UINT64_MAX, attr);
}

int attr_get(const struct vfs_call *call, struct vfs_object *object, struct vfs_attr *attr)
{
    return attr_recall(call, object, attr) ? 0 : attr_fresh(call, object, attr);
}

uint64_t attr_begin_change(struct vfs_object *object, const struct vfs_attr *before)
{
    struct object_seen *seen = &object->seen;
    uint64_t lsn = atomic_load(&object->lsn);

    seen_take(seen);
    seen->before_certain = ctime_is_settled(object->export, &before->ctime);
    seen->before_ctime = before->ctime;
    seen->before_size = before->size;
    seen->before_lsn = lsn;
    atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    atomic_store(&object->lsn, LSN_PENDING);
    return lsn;
}

/*
 * Whether nothing of the change that is under way can have been seen, as the object's ctime is what
 * it was before it; then *lsn covers what was. The kernel sets ctime before it copies data, and
 * under the lock under which it changes a directory.
 */
static bool is_unchanged(const struct vfs_call *call, struct vfs_object *object, uint64_t *lsn)
{
    struct object_seen *seen = &object->seen;
    struct vfs_attr attr;

    seen_take(seen);
    bool certain = seen->before_certain;
    struct timespec ctime = seen->before_ctime;
    uint64_t size = seen->before_size;
    *lsn = seen->before_lsn;
    atomic_flag_clear_explicit(&seen->busy, memory_order_release);
    return certain && attr_fresh(call, object, &attr) == 0 && attr.size == size &&
           same_time(&attr.ctime, &ctime);
}

void attr_note_lsn(struct vfs_call *call, struct vfs_object *object)
{
    if (call->options != NULL && !call->options->sync) {
        return; /* what an async export shows may be lost */
    }
    uint64_t lsn = atomic_load_explicit(&object->lsn, memory_order_acquire);
    while (UNLIKELY(lsn == LSN_PENDING) && !is_unchanged(call, object, &lsn)) {
        /* What was seen may be of the change that is under way: wait for its number. */
        struct lock_set set = {0};
        lock_add(&set, object);
        lock_begin(call->vfs, &set);
        lsn = atomic_load(&object->lsn);
        lock_end(call->vfs, &set);
    }
    struct journal *journal = object->export->intent->journal;
    if (UNLIKELY(lsn > 0) && lsn > journal_settled(journal)) {
        journal_want(journal, lsn);
        int err = intent_depend(call, object->export, lsn);
        (void)err; /* what has failed is there to be seen all the same */
    }
}

int attr_of_node(struct vfs_call *call, struct vfs_node *node)
{
    int err = attr_get(call, node->object, &node->attr);
    node->has_attr = err == 0;
    /* After the attributes, so that what they show is covered. */
    attr_note_lsn(call, node->object);
    return err;
}

int vfs_getattr(struct vfs_call *call, struct vfs_node *node)
{
    return attr_of_node(call, node);
}

/* ---- setting ---- */

static bool sets_time(const struct vfs_sattr *sattr)
{
    return sattr->atime_how != VFS_TIME_KEEP || sattr->mtime_how != VFS_TIME_KEEP;
}

static struct timespec time_argument(enum vfs_time_how how, struct timespec time)
{
    if (how == VFS_TIME_SET) {
        return time;
    }
    return (struct timespec){.tv_nsec = how == VFS_TIME_NOW ? UTIME_NOW : UTIME_OMIT};
}

static bool nsec_is_good(enum vfs_time_how how, const struct timespec *time)
{
    return how != VFS_TIME_SET || (time->tv_nsec >= 0 && time->tv_nsec < 1000000000);
}

int attr_check(const struct vfs_sattr *sattr)
{
    if (!nsec_is_good(sattr->atime_how, &sattr->atime) ||
        !nsec_is_good(sattr->mtime_how, &sattr->mtime)) {
        return -EINVAL;
    }
    if (sattr->set_size && sattr->size > INT64_MAX) {
        return -EFBIG;
    }
    /* (uid_t)-1 means "keep" to chown(2). */
    if ((sattr->set_uid && sattr->uid == UINT32_MAX) ||
        (sattr->set_gid && sattr->gid == UINT32_MAX)) {
        return -EINVAL;
    }
    return 0;
}

static int apply_mode(struct vfs_object *object, uint32_t mode)
{
    int fd = atomic_load(&object->fds[OBJECT_WRITE]);
    if (fd < 0) {
        fd = atomic_load(&object->fds[OBJECT_READ]);
    }
    if (fd >= 0) {
        return fchmod(fd, mode) == 0 ? 0 : -errno;
    }
    fd = atomic_load(&object->fds[OBJECT_PATH]);
    if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    if (errno != ENOSYS) {
        return -errno;
    }
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return chmod(path, mode) == 0 ? 0 : -errno;
}

static int apply_owner(int fd, const struct vfs_sattr *sattr)
{
    if (!sattr->set_uid && !sattr->set_gid) {
        return 0;
    }
    uint32_t uid = sattr->set_uid ? sattr->uid : UINT32_MAX; /* keep */
    uint32_t gid = sattr->set_gid ? sattr->gid : UINT32_MAX;
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : -errno;
}

int attr_apply(struct vfs_object *object, const struct vfs_sattr *sattr)
{
    int fd;
    int err = object_fd(object, sattr->set_size ? OBJECT_WRITE : OBJECT_PATH, &fd);
    if (err == 0 && sattr->set_size && ftruncate(fd, (off_t)sattr->size) != 0) {
        err = -errno;
    }
    if (err == 0) {
        err = apply_owner(fd, sattr);
    }
    /* After the owner: a change of owner clears setuid and setgid. */
    if (err == 0 && sattr->set_mode) {
        struct vfs *vfs = object->export->vfs;
        if (vfs->is_plain) {
            pthread_mutex_lock(&vfs->mode_lock);
        }
        err = apply_mode(object, sattr->mode & 07777);
        if (vfs->is_plain) {
            pthread_mutex_unlock(&vfs->mode_lock);
        }
    }
    if (err == 0 && sets_time(sattr)) {
        struct timespec times[2] = {time_argument(sattr->atime_how, sattr->atime),
                                    time_argument(sattr->mtime_how, sattr->mtime)};
        err = utimensat(fd, "", times, AT_EMPTY_PATH) == 0 ? 0 : -errno;
    }
    return err;
}

static bool is_empty(const struct vfs_sattr *sattr)
{
    return !sattr->set_mode && !sattr->set_uid && !sattr->set_gid && !sattr->set_size &&
           !sets_time(sattr);
}

/* v3 seconds are 32 bits, whatever the file system keeps. */
static bool ctime_is(const struct vfs_attr *attr, const struct timespec *guard)
{
    return (uint32_t)attr->ctime.tv_sec == (uint32_t)guard->tv_sec &&
           attr->ctime.tv_nsec == guard->tv_nsec;
}

static int setattr_locked(struct vfs_call *call, struct vfs_node *node,
                          const struct vfs_sattr *sattr, const struct timespec *guard)
{
    /* RFC 1813 §3.3.2: the guard is compared before anything changes. */
    if (guard != NULL && !ctime_is(&node->before, guard)) {
        return -EUCLEAN;
    }
    int err = 0;
    if (sattr->set_size) {
        err = access_data(call, node->object, &node->before, VFS_MAY_WRITE);
    }
    if (err == 0) {
        err = attr_apply(node->object, sattr);
    }
    /* ext4 and xfs say EUCLEAN for damage; here it means the guard. */
    return err == -EUCLEAN ? -EIO : err;
}

int vfs_setattr(struct vfs_call *call, struct vfs_node *node, const struct vfs_sattr *sattr,
                const struct timespec *guard)
{
    struct change change;
    if (!call->options->rw) {
        return -EROFS;
    }
    int err = attr_check(sattr);
    if (err == 0 && sattr->set_size) {
        int fd;
        err = object_fd(node->object, OBJECT_WRITE, &fd);
    }
    if (err == 0) {
        err = change_begin(&change, call, &node, 1,
                           is_empty(sattr) ? JOURNAL_OP_NONE : JOURNAL_OP_SETATTR);
    }
    if (err != 0) {
        return err;
    }
    err = setattr_locked(call, node, sattr, guard);
    if (err == 0) {
        change.has_state[0] = true;
        if (sattr->set_size) {
            change_size(&change, node->object->handle, sattr->size);
        }
    }
    return change_end(&change, err, JOURNAL_FSYNC);
}

int vfs_fsstat(struct vfs_call *call, struct vfs_node *node, struct vfs_fsstat *stat)
{
    struct statvfs fs;
    int fd;
    int err = attr_of_node(call, node);
    if (err == 0) {
        err = object_fd(node->object, OBJECT_PATH, &fd);
    }
    if (err != 0) {
        return err;
    }
    /* What is available depends on who asks. */
    cred_take(call);
    if (fstatvfs(fd, &fs) != 0) {
        return -errno;
    }
    long link_max = fpathconf(fd, _PC_LINK_MAX);
    *stat = (struct vfs_fsstat){
        .total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
        .free_bytes = (uint64_t)fs.f_bfree * fs.f_frsize,
        .avail_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
        .total_files = fs.f_files,
        .free_files = fs.f_ffree,
        .avail_files = fs.f_favail,
        .name_max = (uint32_t)fs.f_namemax,
        .link_max = link_max > 0 && link_max <= UINT32_MAX ? (uint32_t)link_max : UINT32_MAX,
        .block_bytes = (uint32_t)fs.f_bsize,
    };
    return 0;
}
