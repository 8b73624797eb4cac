/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole server: a stream of bytes, record marks and all, sent to a server that runs NFSv2,
 * NFSv3, NFS_ACL, MOUNT, NLM, NSM, RQUOTA and the portmapper over a scratch export on a tmpfs.
 * Whatever the bytes are, the server lives, the stream comes to its end, and no memory is lost
 * (LeakSanitizer).
 *
 * Real handles cannot be guessed, so an input names them: 00 00 00 20 'F' 'H' k, followed by 29
 * bytes of anything, becomes the handle of the k-th object of the export. Version 2 of NFS has no
 * length before a handle: 'F' 'H' k '2' and 28 bytes.
 *
 * Needs root: a mount namespace, and handles. Every input finds the same export.
 */
#include "rpc/server.h"
#include "fuzz.h"
#include "server/lockd.h"
#include "server/mount.h"
#include "server/nfs.h"
#include "server/nfsacl.h"
#include "server/pmap.h"
#include "server/rquota.h"
#include "server/spray.h"
#include "vfs/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HANDLE_BYTES 32U
#define OBJECT_COUNT 8U
#define STREAM_MS_MAX 60000

static struct {
    char root[64], export[96], state[96], socket[96];
    struct export_table *table;
    struct vfs *vfs;
    struct rpc_server *server;
    struct nfs_service nfs;
    struct mount_service mount;
    struct pmap_registry registry;
    struct spray_service spray;
    struct lockd lockd;
    struct rpc_program programs[8];
    const struct rpc_program *program_list[8];
    uint8_t handles[OBJECT_COUNT][HANDLE_BYTES];
} fuzz;

static void durable(void *arg, uint64_t lsn, int error)
{
    (void)arg;
    rpc_server_release(fuzz.server, lsn, error);
}

static void thread_begin(void *arg)
{
    (void)arg;
    vfs_thread_begin();
}

/* Nobody is called from here: what would be told is told later, for ever. */
static int submit(void *arg, const struct rpc_outcall *call)
{
    (void)arg;
    (void)call;
    return -EAGAIN;
}

static void must(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(77); /* this machine cannot run it: skipped */
    }
}

static void remove_all(int dir_fd)
{
    DIR *dir = fdopendir(dup(dir_fd));
    FUZZ_CHECK(dir != NULL);
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(dir_fd, entry->d_name, 0) != 0 && errno == EISDIR) {
            int child = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
            if (child >= 0) {
                remove_all(child);
                close(child);
            }
            (void)unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(dir);
}

static void handle_of(const char *path, uint8_t handle[HANDLE_BYTES])
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(700)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct vfs_call call = {.vfs = fuzz.vfs, .peer = (struct sockaddr *)&peer};
    struct vfs_node node = {0}, child = {0};
    struct vfs_handle wire = {0};
    struct vfs_bytes export = {(const uint8_t *)fuzz.export, (uint32_t)strlen(fuzz.export)};
    FUZZ_CHECK(vfs_root(&call, export, &node) == 0);
    if (path != NULL) {
        struct vfs_bytes name = {(const uint8_t *)path, (uint32_t)strlen(path)};
        FUZZ_CHECK(vfs_lookup(&call, &node, name, &child) == 0);
    }
    vfs_node_handle(path != NULL ? &child : &node, &wire);
    FUZZ_CHECK(wire.size == HANDLE_BYTES);
    memcpy(handle, wire.bytes, HANDLE_BYTES);
    vfs_put(&child);
    vfs_put(&node);
}

/* root, dir, file, link, fifo, dir2, gone, forged */
static void make_objects(void)
{
    int dir = open(fuzz.export, O_RDONLY | O_DIRECTORY);
    FUZZ_CHECK(dir >= 0);
    remove_all(dir);
    FUZZ_CHECK(fchmod(dir, 0777) == 0);
    FUZZ_CHECK(mkdirat(dir, "dir", 0777) == 0 && mkdirat(dir, "dir2", 0755) == 0);
    int file = openat(dir, "file", O_CREAT | O_RDWR, 0666);
    FUZZ_CHECK(file >= 0 && write(file, "some words\n", 11) == 11);
    close(file);
    FUZZ_CHECK(symlinkat("file", dir, "link") == 0 && mkfifoat(dir, "fifo", 0666) == 0);
    FUZZ_CHECK(mkdirat(dir, "gone", 0777) == 0);
    static const char *const names[] = {NULL, "dir", "file", "link", "fifo", "dir2", "gone"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        handle_of(names[i], fuzz.handles[i]);
    }
    FUZZ_CHECK(unlinkat(dir, "gone", AT_REMOVEDIR) == 0);
    memcpy(fuzz.handles[7], fuzz.handles[2], HANDLE_BYTES);
    fuzz.handles[7][14] ^= 1;
    close(dir);
}

static void make_place(void)
{
    must(geteuid() == 0, "the server target needs root");
    snprintf(fuzz.root, sizeof fuzz.root, "/tmp/holdfast-fuzz-XXXXXX");
    must(mkdtemp(fuzz.root) != NULL, "mkdtemp");
    must(unshare(CLONE_NEWNS) == 0, "unshare");
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount --make-rprivate");
    must(mount("fuzz", fuzz.root, "tmpfs", 0, "size=256m,nr_inodes=0") == 0, "mount tmpfs");
    snprintf(fuzz.export, sizeof fuzz.export, "%s/e", fuzz.root);
    snprintf(fuzz.state, sizeof fuzz.state, "%s/state", fuzz.root);
    snprintf(fuzz.socket, sizeof fuzz.socket, "%s/socket", fuzz.root);
    must(mkdir(fuzz.export, 0777) == 0 && mkdir(fuzz.state, 0700) == 0, "mkdir");
}

/* The namespace and its tmpfs go with the process; the empty mount point stays without this. */
static void leave(void)
{
    rpc_server_close(fuzz.server);
    lockd_close(&fuzz.lockd);
    vfs_close(fuzz.vfs);
    mount_service_fini(&fuzz.mount);
    spray_service_fini(&fuzz.spray);
    export_table_free(fuzz.table);
    (void)umount2(fuzz.root, MNT_DETACH);
    (void)rmdir(fuzz.root);
}

static void start(void)
{
    struct export_problems problems = {0};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct rpc_server_options options = {.loop_count = 1, .thread_begin = thread_begin};
    char argument[160];
    struct err err = {0};

    fuzz.table = export_table_new();
    FUZZ_CHECK(fuzz.table != NULL);
    signal(SIGPIPE, SIG_IGN);
    make_place();
    snprintf(argument, sizeof argument, "%s 127.0.0.0/8(rw,sync,no_root_squash)", fuzz.export);
    FUZZ_CHECK(export_table_add_argument(fuzz.table, argument, &problems) == 0);
    export_problems_free(&problems);
    struct vfs_options vfs_options = {
        .state_dir = fuzz.state, .table = fuzz.table, .durable = durable};
    must(rpc_server_open(&options, &fuzz.server, &err) == 0, "rpc_server_open");
    if (vfs_open(&vfs_options, &fuzz.vfs, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(77);
    }
    fuzz.nfs.vfs = fuzz.mount.vfs = fuzz.spray.vfs = fuzz.vfs;
    pmap_registry_init(&fuzz.registry);
    nfs_program_init(&fuzz.programs[0], &fuzz.nfs);
    mount_program_init(&fuzz.programs[1], &fuzz.mount);
    pmap_program_init(&fuzz.programs[2], &fuzz.registry);
    FUZZ_CHECK(spray_program_init(&fuzz.programs[3], &fuzz.spray) == 0);
    lockd_init(&fuzz.lockd, &fuzz.programs[4], &fuzz.programs[5]);
    const struct rpc_outcaller outcaller = {.submit = submit};
    FUZZ_CHECK(lockd_open(&fuzz.lockd, fuzz.vfs, &outcaller, 0, &err) == 0);
    nfsacl_program_init(&fuzz.programs[6], &fuzz.nfs);
    rquota_program_init(&fuzz.programs[7], &fuzz.nfs);
    for (size_t i = 0; i < COUNT_OF(fuzz.programs); i++) {
        fuzz.program_list[i] = &fuzz.programs[i];
    }
    snprintf(at.sun_path, sizeof at.sun_path, "%s", fuzz.socket);
    FUZZ_CHECK(rpc_server_listen(fuzz.server, (struct sockaddr *)&at, sizeof at, SOCK_STREAM,
                                 fuzz.program_list, COUNT_OF(fuzz.program_list), NULL, &err) == 0);
    FUZZ_CHECK(rpc_server_run(fuzz.server, &err) == 0);
    vfs_thread_begin();
    atexit(leave);
}

static void name_handles(uint8_t *bytes, size_t size_bytes)
{
    static const uint8_t mark[] = {0, 0, 0, HANDLE_BYTES, 'F', 'H'};
    for (size_t i = 0; i + HANDLE_BYTES <= size_bytes; i += 4) {
        size_t at = i + (memcmp(bytes + i, mark, sizeof mark) == 0 ? 4 : 0);
        bool named = at > i || (memcmp(bytes + i, "FH", 2) == 0 && bytes[i + 3] == '2');
        if (named && at + HANDLE_BYTES <= size_bytes) {
            memcpy(bytes + at, fuzz.handles[bytes[at + 2] % OBJECT_COUNT], HANDLE_BYTES);
            i = at + HANDLE_BYTES - 4;
        }
    }
}

/* Sends while it reads, until the server closes. */
static void talk(int fd, const uint8_t *bytes, size_t size_bytes)
{
    size_t sent = 0;
    uint8_t reply[65536];
    for (;;) {
        short events = (short)(POLLIN | (sent < size_bytes ? POLLOUT : 0));
        struct pollfd pollfd = {.fd = fd, .events = events};
        int ready = poll(&pollfd, 1, STREAM_MS_MAX);
        if (ready < 0 && errno == EINTR) {
            continue; /* libFuzzer's own timer */
        }
        FUZZ_CHECK(ready == 1);
        if ((pollfd.revents & POLLOUT) != 0) {
            ssize_t n = send(fd, bytes + sent, size_bytes - sent, MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN) {
                return;
            }
            sent += n > 0 ? (size_t)n : 0;
            if (sent == size_bytes) {
                shutdown(fd, SHUT_WR);
            }
        }
        if ((pollfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
            recv(fd, reply, sizeof reply, MSG_DONTWAIT) <= 0 && errno != EAGAIN) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (size_bytes == 0) {
        return 0;
    }
    if (fuzz.server == NULL) {
        start();
    }
    make_objects();
    nlm_release_all(&fuzz.lockd.nlm);
    uint8_t *bytes = malloc(size_bytes);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data, size_bytes);
    name_handles(bytes, size_bytes);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", fuzz.socket);
    FUZZ_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    talk(fd, bytes, size_bytes);
    close(fd);
    free(bytes);
    return 0;
}
