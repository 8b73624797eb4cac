/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/opener.h"

#include "base/log.h"
#include "daemon/channel.h"
#include "daemon/grants.h"
#include "daemon/jail.h"
#include "daemon/privs.h"
#include "daemon/rpcbind.h"
#include "daemon/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum opener_task {
    TASK_OPEN,    /* path: a directory to be exported */
    TASK_RELEASE, /* place */
    TASK_JOURNAL, /* path */
    TASK_FILES,   /* the answer is one packet for each file, and one without a name */
    TASK_PUBLISH,
    TASK_ENTER, /* the answer brings the jail's namespace */
    TASK_UNLINK_PORTMAP
};

struct request {
    enum opener_task task;
    uint32_t place;
    char path[PATH_MAX];
};

struct answer {
    int error; /* an errno */
    bool is_clone;
    bool has_journal;
    uint32_t place;
    struct outside_look look;
};

struct file_answer {
    int error;
    char name[PATH_MAX];
};

/* ---- the process ---- */

struct process {
    int fd;
    pid_t server;
    struct grants grants;
    struct jail jail;
};

/* The mount's clone, in the jail if there is one. Without a jail, and where clones are not
 * permitted, the directory itself: in a jail it would be a way out. */
static int open_tree_at(struct process *process, int dir_fd, struct answer *answer)
{
    bool exists = process->jail.exists;

    int tree_fd = open_tree(dir_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree_fd < 0 && !exists && (errno == EPERM || errno == ENOSYS || errno == EINVAL)) {
        return fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    }
    answer->is_clone = tree_fd >= 0;
    if (tree_fd >= 0 && exists) {
        int err = jail_add(&process->jail, tree_fd, &answer->place);
        if (err != 0) {
            close(tree_fd);
            errno = -err;
            return -1;
        }
    }
    return tree_fd;
}

static int answer_open(struct process *process, const char *path)
{
    static struct answer answer;
    int tree_fd = -1;

    answer = (struct answer){.place = JAIL_PLACE_COUNT_MAX};
    int dir_fd = grants_open(&process->grants, path);
    int err = dir_fd < 0 ? dir_fd : outside_look_at(dir_fd, &answer.look);
    if (err == 0 && !answer.look.is_directory) {
        err = -ENOTDIR;
    }
    if (err == 0) {
        answer.has_journal = outside_has_journal(dir_fd);
        tree_fd = open_tree_at(process, dir_fd, &answer);
        err = tree_fd < 0 ? -errno : 0;
    }
    answer.error = -err;
    int sent = channel_send(process->fd, &answer, sizeof answer, tree_fd);
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    if (tree_fd >= 0) {
        close(tree_fd);
    }
    return sent;
}

/* Descriptors of the same open files, at their beginning. */
static void copy_files(const struct outside_files *files, struct outside_files *copies)
{
    *copies = *files;
    for (uint32_t i = 0; i < files->count; i++) {
        if (files->items[i].fd >= 0) {
            int fd = fcntl(files->items[i].fd, F_DUPFD_CLOEXEC, 0);
            copies->items[i].fd = fd < 0 ? -errno : fd;
        }
    }
}

static int send_files(int fd, const struct outside_files *files)
{
    static struct file_answer answer;
    int sent = 0;

    for (uint32_t i = 0; i < files->count; i++) {
        const struct outside_file *file = &files->items[i];
        answer = (struct file_answer){.error = file->fd < 0 ? -file->fd : 0};
        (void)snprintf(answer.name, sizeof answer.name, "%s", file->name);
        if (file->fd >= 0) {
            (void)lseek(file->fd, 0, SEEK_SET);
        }
        sent = sent == 0 ? channel_send(fd, &answer, sizeof answer, file->fd) : sent;
        if (file->fd >= 0) {
            close(file->fd);
        }
    }
    answer = (struct file_answer){0};
    return sent == 0 ? channel_send(fd, &answer, sizeof answer, -1) : sent;
}

static int answer_files(struct process *process)
{
    static struct outside_files files, copies;
    static struct file_answer failure;

    files.count = 0;
    int err = process->grants.config->exports_file == NULL
                  ? 0
                  : outside_files(process->grants.config->exports_file, &files);
    if (err == 0) {
        copy_files(&files, &copies);
        err = grants_read(&process->grants, &copies);
    }
    if (err != 0) {
        failure = (struct file_answer){.error = -err};
        return channel_send(process->fd, &failure, sizeof failure, -1);
    }
    return send_files(process->fd, &files);
}

static int answer_plain(const struct process *process, int error, int pass_fd)
{
    static struct answer answer;

    answer = (struct answer){.error = error};
    return channel_send(process->fd, &answer, sizeof answer, pass_fd);
}

static int answer_journal(const struct process *process, const char *path)
{
    int fd = grants_journal(&process->grants, path);
    int sent = answer_plain(process, fd < 0 ? -fd : 0, fd);
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}

static int run(struct process *process, const struct request *request)
{
    switch (request->task) {
    case TASK_OPEN:
        return answer_open(process, request->path);
    case TASK_RELEASE:
        jail_remove(&process->jail, request->place);
        return answer_plain(process, 0, -1);
    case TASK_JOURNAL:
        return answer_journal(process, request->path);
    case TASK_FILES:
        return answer_files(process);
    case TASK_PUBLISH:
        grants_publish(&process->grants);
        return answer_plain(process, 0, -1);
    case TASK_ENTER:
        return process->jail.exists ? answer_plain(process, 0, process->jail.ns_fd)
                                    : answer_plain(process, -process->jail.error, -1);
    case TASK_UNLINK_PORTMAP:
        (void)unlink(RPCBIND_SOCKET);
        return answer_plain(process, 0, -1);
    default:
        return -EBADMSG;
    }
}

/* Until the server's end of the socket is closed. */
static void serve(struct process *process)
{
    static struct request request;
    int err = 0;

    while (err == 0) {
        ssize_t bytes = channel_receive(process->fd, &request, sizeof request, NULL);
        if (bytes != (ssize_t)sizeof request) {
            return;
        }
        request.path[sizeof request.path - 1] = '\0';
        err = run(process, &request);
    }
}

static void become_opener(int fd, pid_t server, const struct config *config, const char *state_dir)
{
    static struct process process;

    privs_ignore_stops();
    (void)prctl(PR_SET_NAME, "holdfast-opener");
    process = (struct process){.fd = STDIN_FILENO, .server = server};
    /* Nobody waits for the end of a pipe that only this process holds open. */
    bool closed = dup2(fd, STDIN_FILENO) == STDIN_FILENO && close_range(1, ~0U, 0) == 0;
    if (closed && privs_opener() == 0 && grants_begin(&process.grants, config) == 0) {
        if (sandbox_is_wanted(config)) {
            jail_make(&process.jail, state_dir, server);
        }
        serve(&process);
    }
    _exit(0);
}

int opener_start(struct opener *opener, const struct config *config, const char *state_dir,
                 struct err *err)
{
    int fds[2];

    pthread_mutex_init(&opener->lock, NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
    }
    pid_t server = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int error = -errno;
        close(fds[0]);
        close(fds[1]);
        return err_set(err, error, "cannot start a process: %s", strerror(-error));
    }
    if (pid == 0) {
        become_opener(fds[1], server, config, state_dir);
    }
    close(fds[1]);
    opener->fd = fds[0];
    opener->pid = pid;
    return 0;
}

void opener_stop(struct opener *opener)
{
    if (opener->fd >= 0) {
        close(opener->fd);
        opener->fd = -1;
        (void)waitpid(opener->pid, NULL, 0);
        pthread_mutex_destroy(&opener->lock);
    }
}

/* ---- the server's end ---- */

/* Returns -EPIPE. */
static int say_gone(void)
{
    static struct log_limit limit;

    log_write_limited(&limit, LOG_ERROR,
                      "holdfast-opener, the process that opens what is exported, is gone; exports "
                      "stay as they are until the server is started again");
    return -EPIPE;
}

/* The lock is held. */
static int ask(struct opener *opener, enum opener_task task, const char *path, uint32_t place)
{
    struct request request = {.task = task, .place = place};

    if (strlen(path) >= sizeof request.path) {
        return -ENAMETOOLONG;
    }
    strcpy(request.path, path);
    return channel_send(opener->fd, &request, sizeof request, -1) == 0 ? 0 : say_gone();
}

/* 0, or -errno: also when the opener is gone. */
static int exchange(struct opener *opener, enum opener_task task, const char *path, uint32_t place,
                    struct answer *answer, int *passed_fd)
{
    pthread_mutex_lock(&opener->lock);
    int err = ask(opener, task, path, place);
    if (err == 0) {
        ssize_t bytes = channel_receive(opener->fd, answer, sizeof *answer, passed_fd);
        err = bytes == (ssize_t)sizeof *answer ? -answer->error : say_gone();
    }
    pthread_mutex_unlock(&opener->lock);
    return err;
}

int opener_open(struct opener *opener, const char *path, struct outside_tree *tree)
{
    struct answer answer;
    int fd = -1;

    *tree = (struct outside_tree){.fd = -1};
    int err = exchange(opener, TASK_OPEN, path, 0, &answer, &fd);
    if (err == 0 && fd < 0) {
        return -EMFILE; /* the kernel had no descriptor for it */
    }
    if (err == 0) {
        *tree = (struct outside_tree){.fd = fd,
                                      .is_clone = answer.is_clone,
                                      .has_journal = answer.has_journal,
                                      .place = answer.place,
                                      .look = answer.look};
        tree->look.real[sizeof tree->look.real - 1] = '\0';
    }
    return err;
}

void opener_release(struct opener *opener, uint32_t place)
{
    struct answer answer;

    if (place < JAIL_PLACE_COUNT_MAX) {
        (void)exchange(opener, TASK_RELEASE, "", place, &answer, NULL);
    }
}

void opener_publish(struct opener *opener)
{
    struct answer answer;

    (void)exchange(opener, TASK_PUBLISH, "", 0, &answer, NULL);
}

void opener_unlink_portmap(struct opener *opener)
{
    struct answer answer;

    (void)exchange(opener, TASK_UNLINK_PORTMAP, "", 0, &answer, NULL);
}

int opener_journal(struct opener *opener, const char *path)
{
    struct answer answer;
    int fd = -1;

    int err = exchange(opener, TASK_JOURNAL, path, 0, &answer, &fd);
    return err != 0 ? err : fd < 0 ? -EMFILE : fd;
}

int opener_files(struct opener *opener, struct outside_files *files)
{
    struct file_answer answer;
    bool more = true;

    files->count = 0;
    pthread_mutex_lock(&opener->lock);
    int err = ask(opener, TASK_FILES, "", 0);
    while (err == 0 && more) {
        struct outside_file *file = &files->items[files->count];
        int fd = -1;
        if (channel_receive(opener->fd, &answer, sizeof answer, &fd) != (ssize_t)sizeof answer) {
            err = say_gone();
            break;
        }
        answer.name[sizeof answer.name - 1] = '\0';
        more = answer.name[0] != '\0' && files->count < OUTSIDE_FILE_COUNT_MAX;
        err = !more ? -answer.error : 0;
        if (more) {
            *file = (struct outside_file){.fd = answer.error != 0 ? -answer.error
                                                : fd < 0          ? -EMFILE
                                                                  : fd};
            memcpy(file->name, answer.name, sizeof file->name);
            files->count++;
        }
    }
    pthread_mutex_unlock(&opener->lock);
    for (uint32_t i = 0; err != 0 && i < files->count; i++) {
        if (files->items[i].fd >= 0) {
            close(files->items[i].fd);
        }
    }
    return err;
}

int opener_enter(struct opener *opener)
{
    struct answer answer;
    int ns_fd = -1;

    int err = exchange(opener, TASK_ENTER, "", 0, &answer, &ns_fd);
    if (err == 0) {
        err = ns_fd < 0 ? -EMFILE : setns(ns_fd, CLONE_NEWNS) == 0 ? 0 : -errno;
    }
    if (ns_fd >= 0) {
        close(ns_fd);
    }
    return err;
}
