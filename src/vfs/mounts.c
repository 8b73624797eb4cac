/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/self/mountinfo, see proc(5), as a list. */
#include "vfs/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOUNTINFO "/proc/self/mountinfo"

/* \ooo, as the kernel writes blanks and backslashes. */
static void unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in != '\0';) {
        bool octal = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
        if (octal) {
            *out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 4;
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
}

/* "ID PARENT MAJOR:MINOR ROOT PATH OPTIONS [TAG]... - TYPE SOURCE SUPER_OPTIONS" */
static bool read_line(char *line, struct mount *mount)
{
    char *rest = line;
    char *fields[6] = {NULL};
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        fields[i] = strsep(&rest, " ");
    }
    const char *type = rest != NULL ? strstr(rest, "- ") : NULL;
    if (fields[5] == NULL || type == NULL || (type != rest && type[-1] != ' ')) {
        return false;
    }
    mount->id = strtoull(fields[0], NULL, 10);
    mount->parent_id = strtoull(fields[1], NULL, 10);
    mount->is_autofs = strncmp(type + 2, "autofs ", 7) == 0;
    unescape(fields[4]);
    mount->path = strdup(fields[4]);
    return mount->path != NULL;
}

int mounts_read(int fd, struct mounts *mounts)
{
    char *line = NULL;
    size_t line_bytes = 0;
    int err = 0;

    *mounts = (struct mounts){0};
    int copy = fd < 0 || lseek(fd, 0, SEEK_SET) != 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    if (file == NULL) {
        err = -errno;
        if (copy >= 0) {
            close(copy);
        }
        return err;
    }
    while (err == 0 && getline(&line, &line_bytes, file) > 0) {
        struct mount *items =
            reallocarray(mounts->items, mounts->count + 1, sizeof *mounts->items);
        if (items == NULL) {
            err = -ENOMEM;
            break;
        }
        mounts->items = items;
        mounts->count += read_line(line, &mounts->items[mounts->count]) ? 1 : 0;
    }
    free(line);
    (void)fclose(file);
    if (err != 0) {
        mounts_free(mounts);
    }
    return err;
}

void mounts_free(struct mounts *mounts)
{
    for (uint32_t i = 0; i < mounts->count; i++) {
        free(mounts->items[i].path);
    }
    free(mounts->items);
    *mounts = (struct mounts){0};
}

const struct mount *mounts_find(const struct mounts *mounts, uint64_t id)
{
    for (uint32_t i = 0; i < mounts->count; i++) {
        if (mounts->items[i].id == id) {
            return &mounts->items[i];
        }
    }
    return NULL;
}

int mounts_watch(void)
{
    int fd = open(MOUNTINFO, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

bool mounts_changed(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLPRI}; /* proc(5) */
    return poll(&pollfd, 1, 0) == 1;
}
