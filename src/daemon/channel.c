/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
};

int channel_send(int fd, const void *bytes, size_t size_bytes, int pass_fd)
{
    union control control = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, size_bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (pass_fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &pass_fd, sizeof pass_fd);
    }
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size_bytes ? 0 : sent < 0 ? -errno : -EMSGSIZE;
}

ssize_t channel_receive(int fd, void *bytes, size_t size_bytes, int *passed_fd)
{
    union control control = {0};
    struct iovec iov = {bytes, size_bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t got;

    if (passed_fd != NULL) {
        *passed_fd = -1;
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
    }
    do {
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got < 0 || passed_fd == NULL ? NULL : CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(passed_fd, CMSG_DATA(head), sizeof *passed_fd);
    }
    if (got >= 0 && (message.msg_flags & MSG_TRUNC) != 0) {
        if (passed_fd != NULL && *passed_fd >= 0) {
            close(*passed_fd);
            *passed_fd = -1;
        }
        return -EMSGSIZE;
    }
    return got < 0 ? -errno : got;
}
