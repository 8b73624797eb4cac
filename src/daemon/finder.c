/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/finder.h"

#include "base/log.h"
#include "daemon/channel.h"
#include "daemon/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum finder_task { TASK_LOOK, TASK_ADDRESSES, TASK_NAMES, TASK_NETGROUP, TASK_GROUPS };

struct request {
    enum finder_task task;
    bool has_name; /* of a netgroup's member */
    uint32_t uid;
    uint8_t address[16];
    char text[PATH_MAX]; /* path, host or group */
    char name[OUTSIDE_NAME_BYTES_MAX];
};

struct answer {
    int result; /* 0, -errno, or what getaddrinfo(3) says; for a netgroup: 1 or 0 */
    union {
        struct outside_look look;
        struct outside_names names;
        struct outside_addresses addresses;
        struct outside_groups groups;
    };
};

#define HEAD_BYTES offsetof(struct answer, look)

/* ---- the process ---- */

/* Returns how much of the answer there is. */
static size_t run(struct request *request, struct answer *answer)
{
    request->text[sizeof request->text - 1] = '\0';
    request->name[sizeof request->name - 1] = '\0';
    switch (request->task) {
    case TASK_LOOK:
        answer->result = outside_look(request->text, &answer->look);
        return HEAD_BYTES + sizeof answer->look;
    case TASK_ADDRESSES:
        answer->result = outside_addresses(request->text, &answer->addresses);
        return HEAD_BYTES + offsetof(struct outside_addresses, items) +
               answer->addresses.count * sizeof answer->addresses.items[0];
    case TASK_NAMES:
        answer->result = outside_names(request->address, &answer->names);
        return HEAD_BYTES + sizeof answer->names;
    case TASK_NETGROUP:
        answer->result =
            outside_netgroup(request->text, request->has_name ? request->name : NULL) ? 1 : 0;
        return HEAD_BYTES;
    case TASK_GROUPS:
        answer->result = outside_groups(request->uid, &answer->groups);
        return HEAD_BYTES + sizeof answer->groups;
    default:
        answer->result = -EBADMSG;
        return HEAD_BYTES;
    }
}

static void *serve(void *arg)
{
    const int fd = *(const int *)arg;
    struct request *request = malloc(sizeof *request);
    struct answer *answer = calloc(1, sizeof *answer);
    int err = request == NULL || answer == NULL ? -ENOMEM : 0;

    while (err == 0) {
        if (channel_receive(fd, request, sizeof *request, NULL) != (ssize_t)sizeof *request) {
            break;
        }
        size_t bytes = run(request, answer);
        err = channel_send(fd, answer, bytes, -1);
    }
    _exit(0); /* the server is gone, whatever the other threads wait for */
}

/* Closes everything else: nobody waits for the end of a pipe that only this process holds open.
 * Libraries may write to 0 to 2. */
static bool keep_sockets(const int *fds, int mine[FINDER_THREAD_COUNT])
{
    unsigned next = STDERR_FILENO + 1;
    bool kept = true;

    for (unsigned i = 0; i < FINDER_THREAD_COUNT && kept; i++) {
        mine[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int)next); /* in ascending order */
        kept = mine[i] >= 0;
        next = (unsigned)mine[i] + 1;
    }
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO && null_fd >= 0; fd++) {
        (void)dup2(null_fd, fd);
    }
    next = STDERR_FILENO + 1;
    for (unsigned i = 0; i < FINDER_THREAD_COUNT && kept; i++) {
        if ((unsigned)mine[i] > next) {
            (void)close_range(next, (unsigned)mine[i] - 1, 0);
        }
        next = (unsigned)mine[i] + 1;
    }
    return kept && close_range(next, ~0U, 0) == 0;
}

static void become_finder(const int *fds)
{
    static int mine[FINDER_THREAD_COUNT];
    pthread_t thread;

    privs_ignore_stops();
    (void)prctl(PR_SET_NAME, "holdfast-finder");
    if (!keep_sockets(fds, mine) || privs_finder() != 0) {
        _exit(0);
    }
    for (unsigned i = 1; i < FINDER_THREAD_COUNT; i++) {
        if (pthread_create(&thread, NULL, serve, &mine[i]) != 0) {
            _exit(0);
        }
    }
    (void)serve(&mine[0]);
}

static void close_ends(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
}

int finder_start(struct finder *finder, struct err *err)
{
    int theirs[FINDER_THREAD_COUNT];
    int pair[2];

    *finder = (struct finder){0};
    for (unsigned i = 0; i < FINDER_THREAD_COUNT; i++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
            int error = -errno;
            close_ends(finder->fds, i);
            close_ends(theirs, i);
            return err_set(err, error, "cannot make a socket: %s", strerror(-error));
        }
        finder->fds[i] = pair[0];
        theirs[i] = pair[1];
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_finder(theirs);
    }
    int error = pid < 0 ? -errno : 0;
    close_ends(theirs, FINDER_THREAD_COUNT);
    if (error != 0) {
        close_ends(finder->fds, FINDER_THREAD_COUNT);
        return err_set(err, error, "cannot start a process: %s", strerror(-error));
    }
    pthread_mutex_init(&finder->lock, NULL);
    pthread_cond_init(&finder->freed, NULL);
    finder->pid = pid;
    finder->is_running = true;
    return 0;
}

void finder_stop(struct finder *finder)
{
    if (!finder->is_running) {
        return;
    }
    close_ends(finder->fds, FINDER_THREAD_COUNT);
    (void)waitpid(finder->pid, NULL, 0);
    pthread_cond_destroy(&finder->freed);
    pthread_mutex_destroy(&finder->lock);
    finder->is_running = false;
}

/* ---- the server's end ---- */

static unsigned take_line(struct finder *finder)
{
    unsigned line = 0;

    pthread_mutex_lock(&finder->lock);
    for (;;) {
        for (line = 0; line < FINDER_THREAD_COUNT && finder->is_busy[line]; line++) {
        }
        if (line < FINDER_THREAD_COUNT) {
            break;
        }
        pthread_cond_wait(&finder->freed, &finder->lock);
    }
    finder->is_busy[line] = true;
    pthread_mutex_unlock(&finder->lock);
    return line;
}

static void give_line_back(struct finder *finder, unsigned line)
{
    pthread_mutex_lock(&finder->lock);
    finder->is_busy[line] = false;
    pthread_cond_signal(&finder->freed);
    pthread_mutex_unlock(&finder->lock);
}

/* 0: there is an answer. */
static int exchange(struct finder *finder, const struct request *request, struct answer *answer)
{
    static struct log_limit limit;
    unsigned line = take_line(finder);
    int fd = finder->fds[line];
    int err = channel_send(fd, request, sizeof *request, -1);

    if (err == 0 && channel_receive(fd, answer, sizeof *answer, NULL) < (ssize_t)HEAD_BYTES) {
        err = -EPIPE;
    }
    give_line_back(finder, line);
    if (err != 0) {
        log_write_limited(&limit, LOG_ERROR,
                          "holdfast-finder, the process that looks up names and paths, is gone; "
                          "nobody can mount until the server is started again");
    }
    return err;
}

static bool set_text(struct request *request, const char *text)
{
    size_t bytes = strlen(text);

    memcpy(request->text, text, bytes < sizeof request->text ? bytes + 1 : 0);
    return bytes < sizeof request->text;
}

int finder_look(struct finder *finder, const char *path, struct outside_look *look)
{
    struct request request = {.task = TASK_LOOK};
    struct answer answer;

    if (!set_text(&request, path)) {
        return -ENAMETOOLONG;
    }
    int err = exchange(finder, &request, &answer);
    if (err == 0) {
        *look = answer.look;
        look->real[sizeof look->real - 1] = '\0';
    }
    return err != 0 ? err : answer.result;
}

int finder_addresses(struct finder *finder, const char *host, struct outside_addresses *addresses)
{
    struct request request = {.task = TASK_ADDRESSES};
    struct answer answer;

    addresses->count = 0;
    if (!set_text(&request, host)) {
        return EAI_NONAME;
    }
    if (exchange(finder, &request, &answer) != 0) {
        return EAI_SYSTEM;
    }
    *addresses = answer.addresses;
    return answer.result;
}

int finder_names(struct finder *finder, const uint8_t address[16], struct outside_names *names)
{
    struct request request = {.task = TASK_NAMES};
    struct answer answer;

    memcpy(request.address, address, sizeof request.address);
    int err = exchange(finder, &request, &answer);
    if (err == 0) {
        *names = answer.names;
    }
    return err != 0 ? err : answer.result;
}

int finder_groups(struct finder *finder, uint32_t uid, struct outside_groups *groups)
{
    struct request request = {.task = TASK_GROUPS, .uid = uid};
    struct answer answer;

    int err = exchange(finder, &request, &answer);
    if (err == 0) {
        *groups = answer.groups;
    }
    return err != 0 ? err : answer.result;
}

bool finder_netgroup(struct finder *finder, const char *group, const char *name)
{
    struct request request = {.task = TASK_NETGROUP, .has_name = name != NULL};
    struct answer answer;

    if (!set_text(&request, group) || (name != NULL && strlen(name) >= sizeof request.name)) {
        return false;
    }
    if (name != NULL) {
        strcpy(request.name, name);
    }
    return exchange(finder, &request, &answer) == 0 && answer.result == 1;
}
