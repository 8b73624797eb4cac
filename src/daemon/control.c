/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control.h"

#include "base/log.h"
#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENT_SECONDS_MAX 5 /* to send its line, and to take the answer */
#define BACKLOG 8

static void write_line(struct control_reply *reply, char mark, const char *format, va_list args)
{
    if (reply->to != NULL) {
        (void)fputc(mark, reply->to);
        (void)vfprintf(reply->to, format, args);
        (void)fputc('\n', reply->to);
    }
}

void control_say(struct control_reply *reply, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(reply, '+', format, args);
    va_end(args);
}

void control_complain(struct control_reply *reply, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(reply, '-', format, args);
    va_end(args);
}

static void limit_time(int fd)
{
    struct timeval limit = {.tv_sec = CLIENT_SECONDS_MAX};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* The state directory's name may be longer than a socket's. */
static void address_in(int dir_fd, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/" CONTROL_SOCKET,
                   dir_fd);
}

static int run_line(struct control *control, const char *line, struct control_reply *reply)
{
    for (const struct control_command *command = control->commands; command->name != NULL;
         command++) {
        if (strcmp(command->name, line) == 0) {
            return command->run(control->arg, reply);
        }
    }
    control_complain(reply, "this server has no command '%s'", line);
    return 2;
}

static bool read_line(int fd, char line[CONTROL_LINE_BYTES_MAX])
{
    size_t used = 0;

    while (used < CONTROL_LINE_BYTES_MAX) {
        ssize_t n = recv(fd, line + used, CONTROL_LINE_BYTES_MAX - used, 0);
        if (n <= 0) {
            return false;
        }
        used += (size_t)n;
        char *end = memchr(line, '\n', used);
        if (end != NULL) {
            *end = '\0';
            return true;
        }
    }
    return false;
}

static void serve_client(struct control *control, int fd)
{
    char line[CONTROL_LINE_BYTES_MAX];
    struct control_reply reply = {0};

    limit_time(fd);
    if (!read_line(fd, line) || (reply.to = fdopen(fd, "w")) == NULL) {
        close(fd);
        return;
    }
    int status = run_line(control, line, &reply);
    (void)fprintf(reply.to, "=%d\n", status);
    (void)fclose(reply.to);
}

static void *control_main(void *arg)
{
    struct control *control = arg;
    struct control_reply nobody = {0};

    while (!atomic_load(&control->stopping)) {
        struct pollfd fds[] = {{.fd = control->wake_fd, .events = POLLIN},
                               {.fd = control->listen_fd, .events = POLLIN}};
        uint64_t count;
        if (poll(fds, COUNT_OF(fds), -1) < 0) {
            continue;
        }
        if ((fds[0].revents & POLLIN) != 0 &&
            read(control->wake_fd, &count, sizeof count) == (ssize_t)sizeof count &&
            atomic_exchange(&control->asked, false)) {
            (void)control->commands[0].run(control->arg, &nobody);
        }
        if ((fds[1].revents & POLLIN) != 0) {
            int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0) {
                serve_client(control, fd);
            }
        }
    }
    return NULL;
}

static int make_socket(struct control *control, const char *state_dir)
{
    struct sockaddr_un address;

    control->dir_fd = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    control->wake_fd = eventfd(0, EFD_CLOEXEC);
    control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (control->dir_fd < 0 || control->wake_fd < 0 || control->listen_fd < 0) {
        return -errno;
    }
    address_in(control->dir_fd, &address);
    (void)unlinkat(control->dir_fd, CONTROL_SOCKET, 0);
    /* The mode that bind(2) gives the name. */
    if (fchmod(control->listen_fd, 0600) != 0 ||
        bind(control->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(control->listen_fd, BACKLOG) != 0) {
        return -errno;
    }
    return 0;
}

static void close_all(struct control *control)
{
    int fds[] = {control->listen_fd, control->wake_fd, control->dir_fd};

    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int control_start(struct control *control, const char *state_dir,
                  const struct control_command *commands, void *arg, struct err *err)
{
    sigset_t old;

    *control = (struct control){.commands = commands, .arg = arg};
    int error = make_socket(control, state_dir);
    if (error == 0) {
        signals_hold(&old);
        error = -pthread_create(&control->thread, NULL, control_main, control);
        signals_release(&old);
    }
    if (error != 0) {
        close_all(control);
        return err_set(err, error, "cannot make the control socket %s/" CONTROL_SOCKET ": %s",
                       state_dir, strerror(-error));
    }
    control->running = true;
    return 0;
}

static void wake(struct control *control)
{
    uint64_t one = 1;

    if (write(control->wake_fd, &one, sizeof one) < 0) {
        log_warning("cannot wake the control thread: %s", strerror(errno));
    }
}

void control_ask_first(struct control *control)
{
    atomic_store(&control->asked, true);
    wake(control);
}

void control_stop(struct control *control)
{
    if (!control->running) {
        return;
    }
    atomic_store(&control->stopping, true);
    wake(control);
    pthread_join(control->thread, NULL);
    (void)unlinkat(control->dir_fd, CONTROL_SOCKET, 0);
    close_all(control);
    control->running = false;
}

/* ---- the other end ---- */

static int connect_to(const char *state_dir)
{
    struct sockaddr_un address;

    int dir_fd = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return -errno;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address_in(dir_fd, &address);
    int error = fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ? -errno
                                                                                        : 0;
    close(dir_fd);
    if (error != 0 && fd >= 0) {
        close(fd);
    }
    return error != 0 ? error : fd;
}

static int show_answer(FILE *stream, const char *name, FILE *out)
{
    char *line = NULL;
    size_t line_bytes = 0;
    int status = -ECONNRESET;

    while (status < 0 && getline(&line, &line_bytes, stream) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '+') {
            (void)fprintf(out, "%s\n", line + 1);
        } else if (line[0] == '-') {
            (void)fprintf(stderr, "%s: %s\n", name, line + 1);
        } else if (line[0] == '=' && line[1] >= '0' && line[1] <= '9') {
            status = line[1] - '0';
        }
    }
    free(line);
    return status;
}

int control_call(const char *state_dir, const char *line, const char *name, FILE *out)
{
    int fd = connect_to(state_dir);
    if (fd < 0) {
        return fd;
    }
    int error = dprintf(fd, "%s\n", line) < 0 ? -errno : 0;
    FILE *stream = error == 0 ? fdopen(fd, "r") : NULL;
    if (stream == NULL) {
        close(fd);
        return error != 0 ? error : -ENOMEM;
    }
    int status = show_answer(stream, name, out);
    (void)fclose(stream);
    return status;
}
