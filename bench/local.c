/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel alone charges for the work of an NFS operation: the one system call without which
 * it cannot be done, on the same files, in a loop. A server that does one operation for each
 * request cannot be below this, and its own share is what it is above this and floor.
 *
 *     local OP DIR FILES SIZE SPAN COUNT       prints microseconds of CPU per operation
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FILES_MAX 1000U

struct local {
    int dir_fd;
    uint64_t file_count;
    uint64_t size_bytes;
    uint64_t span_bytes;
    uint64_t units; /* of the last call, if it is not one */
    int fds[FILES_MAX];
    char *data;
};

static void name_of(char name[32], uint64_t number)
{
    snprintf(name, 32, "f%06llu", (unsigned long long)number);
}

static off_t offset_of(const struct local *local, uint64_t number)
{
    uint64_t places = local->span_bytes / local->size_bytes;
    return (off_t)((number / local->file_count) % (places == 0 ? 1 : places) * local->size_bytes);
}

static bool run_null(struct local *local, uint64_t number)
{
    (void)local;
    (void)number;
    return syscall(SYS_getppid) >= 0;
}

static bool run_getattr(struct local *local, uint64_t number)
{
    struct stat st;
    return fstat(local->fds[number % local->file_count], &st) == 0;
}

static bool run_lookup(struct local *local, uint64_t number)
{
    struct stat st;
    char name[32];
    name_of(name, number * 7919 % local->file_count);
    return fstatat(local->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool run_read(struct local *local, uint64_t number)
{
    int fd = local->fds[number % local->file_count];
    return pread(fd, local->data, local->size_bytes, offset_of(local, number)) >= 0;
}

static bool run_write(struct local *local, uint64_t number)
{
    int fd = local->fds[number % local->file_count];
    return pwrite(fd, local->data, local->size_bytes, offset_of(local, number)) >= 0;
}

static bool run_create(struct local *local, uint64_t number)
{
    char name[32];
    name_of(name, number);
    int fd = openat(local->dir_fd, name, O_RDWR | O_CREAT | O_EXCL, 0644);
    return fd >= 0 && close(fd) == 0;
}

static bool run_remove(struct local *local, uint64_t number)
{
    char name[32];
    name_of(name, number);
    return unlinkat(local->dir_fd, name, 0) == 0;
}

static bool run_readdirplus(struct local *local, uint64_t number)
{
    (void)number;
    struct stat st;
    DIR *dir = fdopendir(openat(local->dir_fd, ".", O_RDONLY | O_DIRECTORY));
    if (dir == NULL) {
        return false;
    }
    local->units = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        local->units += fstatat(local->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    }
    return closedir(dir) == 0;
}

static const struct {
    const char *name;
    bool needs_fds;
    bool (*run)(struct local *local, uint64_t number);
} ops[] = {
    {"null", false, run_null},     {"getattr", true, run_getattr},
    {"lookup", false, run_lookup}, {"read", true, run_read},
    {"write", true, run_write},    {"create", false, run_create},
    {"remove", false, run_remove}, {"readdirplus", false, run_readdirplus},
};

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static bool open_files(struct local *local, const char *dir, bool needs_fds)
{
    local->dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    local->data = calloc(1, local->size_bytes);
    if (local->dir_fd < 0 || local->data == NULL) {
        return false;
    }
    for (uint64_t i = 0; needs_fds && i < local->file_count; i++) {
        char name[32];
        name_of(name, i);
        local->fds[i] = openat(local->dir_fd, name, O_RDWR);
        if (local->fds[i] < 0) {
            return false;
        }
    }
    return true;
}

static int measure(struct local *local, bool (*run)(struct local *, uint64_t), uint64_t count)
{
    uint64_t units = 0;
    double begin_us = cpu_us();
    for (uint64_t number = 0; number < count; number++) {
        if (!run(local, number)) {
            perror("local");
            return 3;
        }
        units += local->units;
    }
    printf("%.3f\n", (cpu_us() - begin_us) / (double)units);
    return 0;
}

int main(int argc, char **argv)
{
    static struct local local = {.units = 1};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (size_t i = 0; argc == 7 && i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(argv[1], ops[i].name) == 0) {
            local.file_count = strtoull(argv[3], NULL, 10);
            local.size_bytes = strtoull(argv[4], NULL, 10);
            local.span_bytes = strtoull(argv[5], NULL, 10);
            if (local.file_count == 0 || (ops[i].needs_fds && local.file_count > FILES_MAX) ||
                local.size_bytes == 0 || !open_files(&local, argv[2], ops[i].needs_fds)) {
                break;
            }
            return measure(&local, ops[i].run, strtoull(argv[6], NULL, 10));
        }
    }
    fputs("usage: local OP DIR FILES SIZE SPAN COUNT\n", stderr);
    return 2;
}
