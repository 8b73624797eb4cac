/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow-disk DEVICE MEGABYTES MS flush|write: makes DEVICE (/dev/nbd0) a disk in memory that answers
 * each flush, or each write and flush, MS milliseconds after it was asked, and everything else at
 * once. It goes on answering meanwhile, as disks do. For slow_disk.sh: device mapper's delay counts
 * in ticks of the kernel, which in a guest are 10 ms long and of which it waits for two.
 *
 * Serves the kernel's NBD client over a pair of sockets, until the device is disconnected.
 */
#include <endian.h>
#include <fcntl.h>
#include <linux/nbd.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096U
#define IN_BYTES (256U * 1024)
#define DATA_BYTES_MAX (2U << 20) /* the kernel asks for 1,280 KiB at most */
#define LATE_COUNT_MAX 1024U /* more than the kernel has under way at once */

struct late {
    int64_t due_ns;
    struct nbd_reply reply;
};

static int disk; /* a file in memory: to map it would cost a guest dearly for each page */
static uint64_t disk_bytes;
static int64_t delay_ns;
static bool writes_are_late;
static int sock;
static uint8_t in[IN_BYTES], data[DATA_BYTES_MAX];
static size_t in_start, in_end;
static struct late late[LATE_COUNT_MAX]; /* a ring, in order of time */
static uint32_t late_first, late_count;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* With the first bytes of data. */
static void send_reply(const struct nbd_reply *reply, size_t size)
{
    struct nbd_reply head = *reply;
    struct iovec parts[] = {{&head, sizeof head}, {data, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = size > 0 ? 2 : 1};

    for (size_t left = sizeof head + size; left > 0;) {
        ssize_t n = sendmsg(sock, &message, MSG_NOSIGNAL);
        if (n < 0) {
            die("slow-disk: send");
        }
        left -= (size_t)n;
        for (size_t sent = (size_t)n; sent > 0;) {
            struct iovec *part = message.msg_iov;
            size_t step = sent < part->iov_len ? sent : part->iov_len;
            part->iov_base = (uint8_t *)part->iov_base + step;
            part->iov_len -= step;
            sent -= step;
            if (part->iov_len == 0 && message.msg_iovlen > 1) {
                message.msg_iov++;
                message.msg_iovlen--;
            }
        }
    }
}

static void send_due(void)
{
    int64_t now = late_count > 0 ? now_ns() : 0;
    while (late_count > 0 && late[late_first].due_ns <= now) {
        send_reply(&late[late_first].reply, 0);
        late_first = (late_first + 1) % LATE_COUNT_MAX;
        late_count--;
    }
}

/* Waits until there is something to receive; late replies go out meanwhile. */
static void wait_for_more(void)
{
    while (late_count > 0) {
        struct pollfd poll = {.fd = sock, .events = POLLIN};
        int64_t left_ns = late[late_first].due_ns - now_ns();
        struct timespec timeout = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
        if (left_ns > 0 && ppoll(&poll, 1, &timeout, NULL) > 0) {
            return;
        }
        send_due();
    }
}

/* Ends the program at the end of the stream. */
static void receive(void *to, size_t size)
{
    while (size > 0) {
        if (in_start == in_end) {
            wait_for_more();
            ssize_t n = recv(sock, in, sizeof in, 0);
            if (n < 0) {
                die("slow-disk: receive");
            }
            if (n == 0) {
                exit(0);
            }
            in_start = 0;
            in_end = (size_t)n;
        }
        size_t step = size < in_end - in_start ? size : in_end - in_start;
        memcpy(to, in + in_start, step);
        in_start += step;
        to = (uint8_t *)to + step;
        size -= step;
    }
}

static void serve(void)
{
    struct nbd_request request;
    receive(&request, sizeof request);
    uint32_t type = be32toh(request.type) & 0xffffU;
    uint64_t from = be64toh(request.from);
    uint32_t size = be32toh(request.len);
    struct nbd_reply reply = {.magic = htobe32(NBD_REPLY_MAGIC)};
    bool moves = type == NBD_CMD_READ || type == NBD_CMD_WRITE;

    memcpy(reply.handle, request.handle, sizeof reply.handle);
    if (be32toh(request.magic) != NBD_REQUEST_MAGIC || (!moves && type != NBD_CMD_FLUSH) ||
        (moves && size > sizeof data)) {
        exit(type == NBD_CMD_DISC ? 0 : 1);
    }
    if (type == NBD_CMD_WRITE) {
        receive(data, size);
    }
    if ((type == NBD_CMD_WRITE && pwrite(disk, data, size, (off_t)from) != (ssize_t)size) ||
        (type == NBD_CMD_READ && pread(disk, data, size, (off_t)from) != (ssize_t)size)) {
        die("slow-disk: memory");
    }
    if (type == NBD_CMD_FLUSH || (type == NBD_CMD_WRITE && writes_are_late)) {
        if (late_count == LATE_COUNT_MAX) {
            exit(1);
        }
        late[(late_first + late_count++) % LATE_COUNT_MAX] =
            (struct late){.due_ns = now_ns() + delay_ns, .reply = reply};
        return;
    }
    send_reply(&reply, type == NBD_CMD_READ ? size : 0);
}

/* The kernel's side: this process is in NBD_DO_IT as long as the device is connected. */
static void connect_device(const char *path, int kernel_sock)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, NBD_SET_BLKSIZE, (unsigned long)BLOCK_BYTES) != 0 ||
        ioctl(fd, NBD_SET_SIZE_BLOCKS, (unsigned long)(disk_bytes / BLOCK_BYTES)) != 0 ||
        ioctl(fd, NBD_SET_FLAGS, (unsigned long)(NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH)) != 0 ||
        ioctl(fd, NBD_SET_SOCK, (unsigned long)kernel_sock) != 0) {
        die(path);
    }
    pid_t child = fork();
    if (child < 0) {
        die("slow-disk: fork");
    }
    if (child == 0) {
        close(sock);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        _exit(ioctl(fd, NBD_DO_IT) == 0 ? 0 : 1);
    }
    close(fd);
    close(kernel_sock);
}

int main(int argc, char **argv)
{
    int pair[2];
    if (argc != 5 || (strcmp(argv[4], "flush") != 0 && strcmp(argv[4], "write") != 0)) {
        fprintf(stderr, "usage: slow-disk DEVICE MEGABYTES MS flush|write\n");
        return 2;
    }
    disk_bytes = strtoull(argv[2], NULL, 10) << 20;
    delay_ns = strtoll(argv[3], NULL, 10) * 1000000;
    writes_are_late = strcmp(argv[4], "write") == 0;
    disk = memfd_create("slow-disk", MFD_CLOEXEC);
    if (disk < 0 || ftruncate(disk, (off_t)disk_bytes) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("slow-disk");
    }
    sock = pair[0];
    connect_device(argv[1], pair[1]);
    for (;;) {
        serve();
    }
}
