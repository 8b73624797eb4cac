/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock guards the table, the descriptors and the lists. Nothing that may wait for a disk is
 * done under it: files are opened before, and closed after (a file's last name may have gone, and
 * closing it then frees all its blocks).
 *
 *     asked -> held                                   nobody is in the way, the kernel agrees
 *     asked -> waits -> held                          an unlock serves the line (serve_line)
 *              waits -> polled -> held                only the kernel says no: the keeper asks
 * again waits -> dropped                       cancelled, or the client is gone
 */
#include "vfs/range_lock.h"

#include "vfs/internal.h"
#include "vfs/range_kernel.h"
#include "vfs/range_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_MS 1000000LL
#define GIVE_WAY_NS 20000L
#define GIVE_WAY_TRIES 100
#define OPEN_TRIES 4 /* the file may be let go of between its opening and its use */

struct range_locks {
    struct vfs *vfs;
    pthread_mutex_t lock;
    atomic_uint entering; /* threads that want the lock */
    struct range_table *table;
    uint32_t fd_count;
    struct range_list polled;
    struct lock_file *doomed; /* to be closed when the lock is let go */
    pthread_cond_t wake;
    pthread_t keeper;
    bool has_keeper;
    bool stopping;
};

/* The `arg` of a range_file. */
struct lock_file {
    struct range_file *file;
    struct vfs_object *object; /* a reference */
    int fd;                    /* -1: none yet */
    bool writable;
    bool is_polled;
    struct range_list in_polled;
    int64_t due_ns;
    uint32_t poll_ms;
    struct lock_file *doomed_next;
};

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* ---- files ---- */

struct file_key {
    uint8_t bytes[sizeof(dev_t) + HANDLE_KERNEL_BYTES_MAX];
    size_t size;
};

/* The same for one file in two exports. */
static struct range_bytes key_of(dev_t dev, const uint8_t *handle, uint32_t handle_size,
                                 struct file_key *key)
{
    size_t size = handle_size - HANDLE_HEAD_BYTES - HANDLE_MAC_BYTES;
    memcpy(key->bytes, &dev, sizeof dev);
    memcpy(key->bytes + sizeof dev, handle + HANDLE_HEAD_BYTES, size);
    return (struct range_bytes){key->bytes, sizeof dev + size};
}

static struct range_bytes key_of_object(const struct vfs_object *object, struct file_key *key)
{
    return key_of(object->export->dev, object->handle, object->handle_size, key);
}

static struct lock_file *find_file(const struct range_locks *locks, const struct vfs_object *object)
{
    struct file_key key;
    struct range_file *file = range_file_find(locks->table, key_of_object(object, &key));
    return file != NULL ? file->arg : NULL;
}

static struct lock_file *obtain_file(struct range_locks *locks, struct vfs_object *object)
{
    struct file_key key;
    struct lock_file *found = find_file(locks, object);
    if (found != NULL) {
        return found;
    }
    found = calloc(1, sizeof *found);
    if (found == NULL) {
        return NULL;
    }
    found->file = range_file_obtain(locks->table, key_of_object(object, &key));
    if (found->file == NULL) {
        free(found);
        return NULL;
    }
    found->file->arg = found;
    object_ref(object);
    found->object = object;
    found->fd = -1;
    return found;
}

static void unpoll(struct lock_file *file)
{
    if (file->is_polled) {
        range_list_remove(&file->in_polled);
        file->is_polled = false;
    }
}

/* It may be that nobody holds or waits for anything of it any more. */
static void put_file(struct range_locks *locks, struct lock_file *file)
{
    if (!range_file_put(locks->table, file->file)) {
        return;
    }
    unpoll(file);
    locks->fd_count -= file->fd >= 0;
    file->doomed_next = locks->doomed;
    locks->doomed = file;
}

static void enter(struct range_locks *locks)
{
    atomic_fetch_add_explicit(&locks->entering, 1, memory_order_relaxed);
    pthread_mutex_lock(&locks->lock);
    atomic_fetch_sub_explicit(&locks->entering, 1, memory_order_relaxed);
}

static void leave(struct range_locks *locks)
{
    struct lock_file *doomed = locks->doomed;
    locks->doomed = NULL;
    pthread_mutex_unlock(&locks->lock);
    while (doomed != NULL) {
        struct lock_file *next = doomed->doomed_next;
        if (doomed->fd >= 0) {
            object_close_fd(locks->vfs, doomed->fd);
        }
        object_put(doomed->object);
        free(doomed);
        doomed = next;
    }
}

/* ---- descriptors ---- */

static bool has_fd_for(const struct lock_file *file, bool exclusive)
{
    return file != NULL && file->fd >= 0 && (file->writable || !exclusive);
}

/* Gives fd to the file, which holds as much with it as with the one it had. Takes fd over. */
static int install(struct range_locks *locks, struct lock_file *file, int fd, bool writable)
{
    int old = fd;
    int err = 0;
    if (file->fd < 0) {
        file->fd = fd;
        file->writable = writable;
        locks->fd_count++;
        return 0;
    }
    if (writable && !file->writable) {
        /* All that is held is shared, so both descriptors can hold it. */
        err = range_kernel_agree(fd, file->file, 0, RANGE_END);
        if (err == 0) {
            old = file->fd;
            file->fd = fd;
            file->writable = true;
        }
    }
    object_close_fd(locks->vfs, old);
    return err;
}

static int open_for(struct vfs_object *object, bool exclusive)
{
    int fd = object_open(object, exclusive ? OBJECT_WRITE : OBJECT_READ);
    if (exclusive && (fd == -EACCES || fd == -EPERM)) {
        return -EROFS; /* immutable: not even root may write it */
    }
    return fd == -ETXTBSY ? -ENOLCK : fd;
}

/* Enters with a file whose descriptor will do; on failure leaves. */
static int enter_with_file(struct range_locks *locks, struct vfs_object *object, bool exclusive,
                           struct lock_file **file)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        enter(locks);
        *file = find_file(locks, object);
        if (has_fd_for(*file, exclusive)) {
            return 0;
        }
        uint32_t fd_count = locks->fd_count;
        leave(locks);
        if (fd_count >= atomic_load(&locks->vfs->objects.fd_count_max) / 2) {
            return -ENOLCK;
        }
        int fd = open_for(object, exclusive);
        if (fd < 0) {
            return fd;
        }
        enter(locks);
        *file = obtain_file(locks, object);
        int err = *file != NULL ? install(locks, *file, fd, exclusive) : -ENOMEM;
        if (*file == NULL) {
            object_close_fd(locks->vfs, fd);
        }
        if (has_fd_for(*file, exclusive)) {
            return 0;
        }
        if (*file != NULL) {
            put_file(locks, *file);
        }
        leave(locks);
        if (err != 0) {
            return err;
        }
    }
    return -ENOLCK;
}

/* ---- the line ---- */

/* The owner gets what nobody else in the table holds. */
static int take(struct range_locks *locks, struct lock_file *file, struct range_owner *owner,
                const struct range_request *request)
{
    int err = range_kernel_set(file->fd, request);
    if (err != 0) {
        return err;
    }
    err = range_set(locks->table, file->file, owner, request);
    if (err != 0) {
        int restored = range_kernel_agree(file->fd, file->file, request->start, request->end);
        CHECK_OP(restored, !=, -EAGAIN); /* it held as much a moment ago */
    }
    return err;
}

static void poll_later(struct range_locks *locks, struct lock_file *file, uint32_t ms)
{
    if (!file->is_polled) {
        range_list_append(&locks->polled, &file->in_polled);
        file->is_polled = true;
    }
    file->poll_ms = ms;
    file->due_ns = clock_ns() + ms * NS_PER_MS;
    pthread_cond_signal(&locks->wake);
}

/* An owner that holds its first lock no longer stands in line for the sake of others (range.h, rule
 * 3): the keeper looks at what it waits for. */
static void look_at_waits_of(struct range_locks *locks, const struct range_owner *owner)
{
    const struct range_list *item = owner->waits.next;
    for (; item != &owner->waits; item = item->next) {
        poll_later(locks, RANGE_OF(item, range_wait, in_owner)->file->arg, 0);
    }
}

/* Grants what can be granted, in order. Returns whether the kernel alone keeps somebody waiting. */
static bool serve_line(struct range_locks *locks, struct lock_file *file)
{
    bool only_kernel = false;
    struct range_wait *wait = range_wait_next(file->file, NULL);
    while (wait != NULL) {
        struct range_wait *next = range_wait_next(file->file, wait);
        struct range_owner *owner = wait->owner;
        if (range_conflict(file->file, owner, &wait->request) == NULL &&
            !range_must_queue(file->file, owner, &wait->request, wait)) {
            if (take(locks, file, owner, &wait->request) == 0) {
                struct vfs_range_waiter *waiter = wait->arg;
                range_wait_remove(locks->table, wait);
                waiter->granted(waiter, owner->generation);
                look_at_waits_of(locks, owner);
            } else {
                only_kernel = true;
            }
        }
        wait = next;
    }
    return only_kernel;
}

/* After what the file's owners hold, or who waits, has changed. */
static void line_moved(struct range_locks *locks, struct lock_file *file)
{
    unpoll(file);
    if (serve_line(locks, file)) {
        poll_later(locks, file, RANGE_POLL_MS_MIN);
    }
}

static void drop_wait(struct range_locks *locks, struct range_wait *wait)
{
    struct vfs_range_waiter *waiter = wait->arg;
    range_wait_remove(locks->table, wait);
    waiter->dropped(waiter);
}

static int unlock(struct range_locks *locks, struct lock_file *file, struct range_owner *owner,
                  uint64_t start, uint64_t end)
{
    int err = range_clear(locks->table, file->file, owner, start, end);
    if (err == 0 && file->fd >= 0) {
        range_kernel_free_gaps(file->fd, file->file, start, end);
    }
    return err;
}

/* One lock of a hold, or all if nobody else holds anything of the file: what others hold in between
 * makes as many gaps, and each is a call into the kernel. */
static void unlock_some(struct range_locks *locks, struct range_hold *hold)
{
    struct range_file *file = hold->file;
    struct range_node *first = range_tree_first(hold->locks, 0, RANGE_END);
    bool alone = file->holds.next == &hold->in_file && hold->in_file.next == &file->holds;
    int err = unlock(locks, file->arg, hold->owner, alone ? 0 : first->start,
                     alone ? RANGE_END : first->end);
    CHECK_OP(err, ==, 0); /* nothing is split */
}

/* A release under way. Everything of a client may be a lot, and others want the table, too. */
#define RELEASE_SLICE 64U
struct release {
    uint32_t left;          /* locks and waiters that may still go before others have their turn */
    struct lock_file *file; /* whose line is to be served, since something of it went; or NULL */
};

static void release_flush(struct range_locks *locks, struct release *release)
{
    struct lock_file *file = release->file;
    release->file = NULL;
    if (file != NULL) {
        line_moved(locks, file);
        put_file(locks, file);
    }
}

static void release_touch(struct range_locks *locks, struct release *release,
                          struct lock_file *file)
{
    if (release->file != file) {
        release_flush(locks, release);
        release->file = file;
    }
    release->left -= release->left > 0 ? 1 : 0;
}

/* What the owner holds and waits for, as far as it goes. Returns whether that is all. The owner
 * itself stays. */
static bool release_some(struct range_locks *locks, struct range_owner *owner,
                         struct release *release)
{
    while (!range_list_is_empty(&owner->waits) && release->left > 0) {
        struct range_wait *wait = RANGE_OF(owner->waits.next, range_wait, in_owner);
        release_touch(locks, release, wait->file->arg);
        drop_wait(locks, wait);
    }
    while (!range_list_is_empty(&owner->holds) && release->left > 0) {
        struct range_hold *hold = RANGE_OF(owner->holds.next, range_hold, in_owner);
        release_touch(locks, release, hold->file->arg);
        unlock_some(locks, hold);
    }
    return range_list_is_empty(&owner->waits) && range_list_is_empty(&owner->holds);
}

static void release_owner(struct range_locks *locks, struct range_owner *owner)
{
    struct release release = {.left = UINT32_MAX};
    (void)release_some(locks, owner, &release);
    release_flush(locks, &release);
}

/* ---- the keeper ---- */

/* The file that is due first. */
static struct lock_file *first_due(const struct range_locks *locks)
{
    struct lock_file *first = NULL;
    struct range_list *item = locks->polled.next;
    for (; item != &locks->polled; item = item->next) {
        struct lock_file *file = RANGE_OF(item, lock_file, in_polled);
        if (first == NULL || file->due_ns < first->due_ns) {
            first = file;
        }
    }
    return first;
}

static void poll_file(struct range_locks *locks, struct lock_file *file)
{
    uint32_t ms = file->poll_ms * 2;
    ms = ms < RANGE_POLL_MS_MIN ? RANGE_POLL_MS_MIN : ms;
    unpoll(file);
    if (serve_line(locks, file)) {
        poll_later(locks, file, ms < RANGE_POLL_MS_MAX ? ms : RANGE_POLL_MS_MAX);
    }
}

static void *keeper_main(void *arg)
{
    struct range_locks *locks = arg;
    enter(locks);
    while (!locks->stopping) {
        struct lock_file *file = first_due(locks);
        if (file == NULL) {
            pthread_cond_wait(&locks->wake, &locks->lock);
        } else if (file->due_ns > clock_ns()) {
            struct timespec until = {file->due_ns / 1000000000LL, file->due_ns % 1000000000LL};
            (void)pthread_cond_timedwait(&locks->wake, &locks->lock, &until);
        } else {
            poll_file(locks, file);
            /* Others have their turn between two files. */
            leave(locks);
            enter(locks);
        }
    }
    leave(locks);
    return NULL;
}

int range_locks_open(struct vfs *vfs, struct err *err)
{
    uint8_t key[RANGE_HASH_KEY_BYTES];
    pthread_condattr_t monotonic;
    struct range_locks *locks = calloc(1, sizeof *locks);
    if (locks == NULL || getrandom(key, sizeof key, 0) != sizeof key ||
        (locks->table = range_table_new(key)) == NULL) {
        free(locks);
        return err_set(err, -ENOMEM, "no memory for the table of locks");
    }
    locks->vfs = vfs;
    range_list_init(&locks->polled);
    pthread_mutex_init(&locks->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&locks->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    vfs->ranges = locks;
    int error = pthread_create(&locks->keeper, NULL, keeper_main, locks);
    if (error != 0) {
        range_locks_close(vfs);
        return err_set(err, -error, "cannot start a thread: %s", strerror(error));
    }
    locks->has_keeper = true;
    return 0;
}

void range_locks_close(struct vfs *vfs)
{
    struct range_locks *locks = vfs->ranges;
    if (locks == NULL) {
        return;
    }
    vfs_range_release_all(vfs);
    if (locks->has_keeper) {
        enter(locks);
        locks->stopping = true;
        pthread_cond_signal(&locks->wake);
        leave(locks);
        pthread_join(locks->keeper, NULL);
    }
    pthread_cond_destroy(&locks->wake);
    pthread_mutex_destroy(&locks->lock);
    range_table_free(locks->table);
    free(locks);
    vfs->ranges = NULL;
}

/* ---- for the protocols ---- */

static struct range_bytes bytes_of(struct vfs_bytes bytes)
{
    return (struct range_bytes){bytes.data, bytes.size};
}

static struct range_request request_of(const struct vfs_range *range)
{
    return (struct range_request){range->exclusive, range->start, range->end};
}

static int check(struct vfs_call *call, struct vfs_node *node, bool exclusive)
{
    if (exclusive && !call->options->rw) {
        return -EROFS;
    }
    int err = attr_of_node(call, node);
    if (err == 0 && node->attr.type != VFS_REG) {
        err = node->attr.type == VFS_DIR ? -EISDIR : -EINVAL;
    }
    if (err != 0 || !call->options->secure_locks) {
        return err;
    }
    return access_data(call, node->object, &node->attr, VFS_MAY_READ);
}

static void copy_name(uint8_t *to, uint32_t *to_bytes, const uint8_t *from, size_t from_bytes)
{
    *to_bytes =
        from_bytes < VFS_RANGE_NAME_BYTES_MAX ? (uint32_t)from_bytes : VFS_RANGE_NAME_BYTES_MAX;
    memcpy(to, from, *to_bytes);
}

static void fill_holder(const struct range_lock *lock, struct vfs_range_holder *holder)
{
    const struct range_owner *owner = lock->hold->owner;
    holder->range = (struct vfs_range){lock->exclusive, lock->in_file.start, lock->in_file.end};
    copy_name(holder->client, &holder->client_bytes, owner->client->bytes, owner->client->size);
    copy_name(holder->name, &holder->name_bytes, owner->bytes, owner->size);
}

static int test_kernel(int fd, const struct range_request *request, struct vfs_range_holder *holder)
{
    struct range_request found;
    int err = range_kernel_test(fd, request, &found, &holder->pid);
    if (err == -EAGAIN) {
        holder->range = (struct vfs_range){found.exclusive, found.start, found.end};
        holder->is_local = true;
    }
    return err;
}

int vfs_range_test(struct vfs_call *call, struct vfs_node *node,
                   const struct vfs_range_owner *owner, const struct vfs_range *range,
                   struct vfs_range_holder *holder)
{
    struct range_locks *locks = call->vfs->ranges;
    const struct range_request request = request_of(range);
    int fd;
    *holder = (struct vfs_range_holder){0};
    int err = check(call, node, range->exclusive);
    /* Without locks of ours any descriptor will do; with some, only theirs. */
    if (err == 0) {
        err = object_fd(node->object, OBJECT_READ, &fd);
    }
    if (err != 0) {
        return err;
    }
    enter(locks);
    const struct lock_file *file = find_file(locks, node->object);
    const struct range_owner *who =
        range_owner_find(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    const struct range_lock *lock = file != NULL ? range_conflict(file->file, who, &request) : NULL;
    if (lock != NULL) {
        fill_holder(lock, holder);
        err = -EAGAIN;
    } else {
        err = test_kernel(file != NULL && file->fd >= 0 ? file->fd : fd, &request, holder);
    }
    leave(locks);
    return err;
}

/* An owner whose state is new is another one: what the one of before had goes. */
static void end_last_life(struct range_locks *locks, const struct vfs_range_owner *owner)
{
    enter(locks);
    struct range_owner *who =
        range_owner_find(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    if (who != NULL && owner->state != 0 && who->state != 0 && who->state != owner->state) {
        release_owner(locks, who);
        (void)range_owner_put(locks->table, who);
    }
    leave(locks);
}

/* There is a conflict, or the kernel or the line says no. */
static int wait_for(struct range_locks *locks, struct lock_file *file, struct range_owner *who,
                    const struct range_request *request, struct vfs_range_waiter *waiter)
{
    if (range_wait_find(file->file, who, request) != NULL) {
        return -EALREADY;
    }
    if (range_makes_circle(locks->table, file->file, who, request)) {
        return -EDEADLK;
    }
    return range_wait_add(locks->table, file->file, who, request, waiter) != NULL ? -EINPROGRESS
                                                                                  : -ENOLCK;
}

static int set_entered(struct range_locks *locks, struct lock_file *file, struct range_owner *who,
                       const struct range_request *request, struct vfs_range_waiter *waiter)
{
    struct range_wait *wait = range_wait_find(file->file, who, request);
    bool only_kernel = false;
    if (range_conflict(file->file, who, request) == NULL &&
        (waiter == NULL || !range_must_queue(file->file, who, request, wait))) {
        int err = take(locks, file, who, request);
        if (err == 0) {
            if (wait != NULL) {
                drop_wait(locks, wait);
            }
            look_at_waits_of(locks, who);
            line_moved(locks, file); /* it may have given up an exclusive lock */
        }
        if (err != -EAGAIN) {
            return err;
        }
        only_kernel = true;
    }
    if (waiter == NULL) {
        return -EAGAIN;
    }
    int err = wait_for(locks, file, who, request, waiter);
    if (err == -EINPROGRESS && only_kernel && !file->is_polled) {
        poll_later(locks, file, RANGE_POLL_MS_MIN);
    }
    return err;
}

int vfs_range_set(struct vfs_call *call, struct vfs_node *node, const struct vfs_range_owner *owner,
                  const struct vfs_range *range, struct vfs_range_waiter *waiter)
{
    struct range_locks *locks = call->vfs->ranges;
    const struct range_request request = request_of(range);
    struct lock_file *file;
    int err = check(call, node, range->exclusive);
    if (err == 0) {
        end_last_life(locks, owner);
        err = enter_with_file(locks, node->object, range->exclusive, &file);
    }
    if (err != 0) {
        return err;
    }
    struct range_owner *who =
        range_owner_obtain(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    if (who != NULL) {
        who->state = owner->state != 0 ? owner->state : who->state;
        err = set_entered(locks, file, who, &request, waiter);
        (void)range_owner_put(locks->table, who);
    } else {
        err = -ENOMEM;
    }
    put_file(locks, file);
    leave(locks);
    return err;
}

int vfs_range_clear(struct vfs_call *call, struct vfs_node *node,
                    const struct vfs_range_owner *owner, const struct vfs_range *range)
{
    struct range_locks *locks = call->vfs->ranges;
    int err = 0;
    enter(locks);
    struct lock_file *file = find_file(locks, node->object);
    struct range_owner *who =
        range_owner_find(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    if (file != NULL && who != NULL) {
        err = unlock(locks, file, who, range->start, range->end);
        line_moved(locks, file);
        put_file(locks, file);
        (void)range_owner_put(locks->table, who);
    }
    leave(locks);
    return err;
}

int vfs_range_cancel(struct vfs_call *call, struct vfs_node *node,
                     const struct vfs_range_owner *owner, const struct vfs_range *range)
{
    struct range_locks *locks = call->vfs->ranges;
    const struct range_request request = request_of(range);
    int err = -ENOENT;
    enter(locks);
    struct lock_file *file = find_file(locks, node->object);
    struct range_owner *who =
        range_owner_find(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    struct range_wait *wait =
        file != NULL && who != NULL ? range_wait_find(file->file, who, &request) : NULL;
    if (wait != NULL) {
        drop_wait(locks, wait);
        line_moved(locks, file); /* somebody may have stood behind it */
        put_file(locks, file);
        (void)range_owner_put(locks->table, who);
        err = 0;
    }
    leave(locks);
    return err;
}

bool vfs_range_take_back(struct vfs *vfs, const struct vfs_handle *handle,
                         const struct vfs_range_owner *owner, const struct vfs_range *range,
                         uint64_t life)
{
    struct range_locks *locks = vfs->ranges;
    struct vfs_object *object = object_find(vfs, handle->bytes, handle->size);
    bool taken = false;
    if (object == NULL) {
        return false; /* what is locked is in the table of objects */
    }
    enter(locks);
    struct lock_file *file = find_file(locks, object);
    struct range_owner *who =
        range_owner_find(locks->table, bytes_of(owner->client), bytes_of(owner->name));
    if (file != NULL && who != NULL && who->generation == life) {
        taken = unlock(locks, file, who, range->start, range->end) == 0;
        line_moved(locks, file);
        put_file(locks, file);
        (void)range_owner_put(locks->table, who);
    }
    leave(locks);
    object_put(object);
    return taken;
}

/* ---- all of a client ---- */

/* Some of what the client's owners have that were there at `until`. Returns whether more is
 * left. */
static bool release_client(struct range_locks *locks, struct range_client *client, uint32_t state,
                           uint64_t until)
{
    struct release release = {.left = RELEASE_SLICE};
    struct range_list *item = client->owners.next;
    bool more = item != &client->owners;
    while (more && release.left > 0) {
        struct range_owner *owner = RANGE_OF(item, range_owner, in_client);
        item = item->next;
        more = item != &client->owners; /* looked at before the client may go */
        bool goes = owner->born <= until && (state == 0 || owner->state != state);
        if (goes && release_some(locks, owner, &release)) {
            (void)range_owner_put(locks->table, owner);
        }
    }
    release_flush(locks, &release);
    return release.left == 0;
}

/* Lets those in who wait at the door. A mutex alone would not: who has just let it go gets it back
 * before the next one has woken up. */
static void give_way(struct range_locks *locks)
{
    leave(locks);
    for (int i = 0; i < GIVE_WAY_TRIES && atomic_load(&locks->entering) > 0; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL);
    }
    enter(locks);
}

void vfs_range_release(struct vfs *vfs, struct vfs_bytes client, uint32_t state)
{
    struct range_locks *locks = vfs->ranges;
    enter(locks);
    uint64_t until = locks->table->serial;
    struct range_client *found = range_client_find(locks->table, bytes_of(client));
    while (found != NULL && release_client(locks, found, state, until)) {
        give_way(locks);
        found = range_client_find(locks->table, bytes_of(client));
    }
    leave(locks);
}

void vfs_range_release_all(struct vfs *vfs)
{
    struct range_locks *locks = vfs->ranges;
    enter(locks);
    while (!range_list_is_empty(&locks->table->clients)) {
        struct range_client *client =
            RANGE_OF(locks->table->clients.next, range_client, in_table);
        if (release_client(locks, client, 0, UINT64_MAX)) {
            give_way(locks);
        }
    }
    leave(locks);
}

/* Returns whether it was a file of that export, and is gone. */
static bool release_file_of(struct range_locks *locks, struct range_link *link,
                            const struct vfs_export *export)
{
    struct range_file *file = CONTAINER_OF(link, struct range_file, link);
    struct lock_file *mine = file->arg;
    if (mine->object->export != export) {
        return false;
    }
    while (!range_list_is_empty(&file->waits)) {
        struct range_wait *wait = RANGE_OF(file->waits.next, range_wait, in_file);
        struct range_owner *owner = wait->owner;
        drop_wait(locks, wait);
        (void)range_owner_put(locks->table, owner);
    }
    while (!range_list_is_empty(&file->holds)) {
        struct range_hold *hold = RANGE_OF(file->holds.next, range_hold, in_file);
        struct range_owner *owner = hold->owner;
        unlock_some(locks, hold);
        (void)range_owner_put(locks->table, owner);
    }
    put_file(locks, mine);
    return true;
}

uint32_t range_locks_release_export(struct vfs *vfs, const struct vfs_export *export)
{
    struct range_locks *locks = vfs->ranges;
    uint32_t count = 0;
    enter(locks);
    for (uint32_t i = 0; i < RANGE_BUCKET_COUNT; i++) {
        struct range_link *link = locks->table->files[i];
        while (link != NULL) {
            struct range_link *next = link->next;
            count += release_file_of(locks, link, export);
            link = next;
        }
    }
    leave(locks);
    return count;
}

bool vfs_range_client_is_busy(struct vfs *vfs, struct vfs_bytes client)
{
    struct range_locks *locks = vfs->ranges;
    enter(locks);
    bool is_busy = range_client_find(locks->table, bytes_of(client)) != NULL;
    leave(locks);
    return is_busy;
}

void vfs_range_stats(struct vfs *vfs, struct vfs_range_stats *stats)
{
    struct range_locks *locks = vfs->ranges;
    enter(locks);
    stats->count = locks->table->count;
    stats->waiting = locks->table->wait_count;
    stats->clients = locks->table->client_count;
    stats->files = locks->table->file_count;
    leave(locks);
}
