/* SPDX-License-Identifier: Apache-2.0 */
/* One packet is a path, with its NUL; the answer is an errno, with the descriptor if that is 0. */
#include "daemon/opener.h"

#include "daemon/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
};

static bool send_answer(int fd, int error, int tree_fd)
{
    union control control = {0};
    struct iovec iov = {&error, sizeof error};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

    if (error == 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &tree_fd, sizeof tree_fd);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof error;
}

static int receive_answer(int fd, int *tree_fd)
{
    union control control = {0};
    int error = EIO;
    struct iovec iov = {&error, sizeof error};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof error) {
        return -EIO;
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (error == 0 && head != NULL && head->cmsg_type == SCM_RIGHTS) {
        memcpy(tree_fd, CMSG_DATA(head), sizeof *tree_fd);
        return 0;
    }
    return error != 0 ? -error : -EIO;
}

/* The process: until the server's end of the socket is closed. */
static void serve_paths(int fd)
{
    char path[PATH_MAX];

    for (;;) {
        ssize_t bytes = recv(fd, path, sizeof path, 0);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            return;
        }
        path[bytes - 1] = '\0';
        int tree_fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        int error = tree_fd < 0 ? errno : 0;
        bool sent = send_answer(fd, error, tree_fd);
        if (tree_fd >= 0) {
            close(tree_fd);
        }
        if (!sent) {
            return;
        }
    }
}

static void become_opener(int fd)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    /* The terminal's ^C is for the server, which then closes the socket. */
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)prctl(PR_SET_NAME, "holdfast-opener");
    /* Nobody waits for the end of a pipe that only this process holds open. */
    bool closed = dup2(fd, STDIN_FILENO) == STDIN_FILENO && close_range(1, ~0U, 0) == 0;
    if (closed && privs_opener() == 0) {
        serve_paths(STDIN_FILENO);
    }
    _exit(0);
}

int opener_start(struct opener *opener, struct err *err)
{
    int fds[2];

    pthread_mutex_init(&opener->lock, NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid < 0) {
        int error = -errno;
        close(fds[0]);
        close(fds[1]);
        return err_set(err, error, "cannot start a process: %s", strerror(-error));
    }
    if (pid == 0) {
        become_opener(fds[1]);
    }
    close(fds[1]);
    opener->fd = fds[0];
    opener->pid = pid;
    return 0;
}

int opener_open_tree(struct opener *opener, const char *path)
{
    size_t bytes = strlen(path) + 1;
    int tree_fd = -1;

    if (bytes > PATH_MAX) {
        return -ENAMETOOLONG;
    }
    pthread_mutex_lock(&opener->lock);
    int err = send(opener->fd, path, bytes, MSG_NOSIGNAL) == (ssize_t)bytes
                  ? receive_answer(opener->fd, &tree_fd)
                  : -EPERM;
    pthread_mutex_unlock(&opener->lock);
    return err != 0 ? err : tree_fd;
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
