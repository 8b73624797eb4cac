/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int notify_fd = -1;

void notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t path_bytes = path == NULL ? 0 : strlen(path);

    if (path_bytes < 2 || path_bytes >= sizeof address.sun_path ||
        (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, path_bytes);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* an abstract address, unix(7) */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_bytes);
    if (connect(fd, (struct sockaddr *)(void *)&address, bytes) != 0) {
        close(fd);
        return;
    }
    notify_fd = fd;
}

void notify_send(const char *lines)
{
    if (notify_fd >= 0) {
        (void)send(notify_fd, lines, strlen(lines), MSG_NOSIGNAL);
    }
}

void notify_reloading(void)
{
    struct timespec now;
    char lines[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n",
                   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify_send(lines);
}
