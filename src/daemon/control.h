/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local socket of a running server, STATE/control, for root (or the server's user) alone: a
 * client connects, sends one line of words, and reads lines until the end.
 *
 *     +TEXT     to be shown
 *     -TEXT     a problem, to be shown as such
 *     =NUMBER   the last line: the exit status of the command that asked
 *
 * Commands run one after another on the control thread. So does what SIGHUP asks for.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#define CONTROL_SOCKET "control"
#define CONTROL_LINE_BYTES_MAX 1024U

/* What a command says goes to the client, or, when there is none, is dropped. */
struct control_reply {
    FILE *to; /* NULL: nobody */
};
void control_say(struct control_reply *reply, const char *format, ...) PRINTF_LIKE(2, 3);
void control_complain(struct control_reply *reply, const char *format, ...) PRINTF_LIKE(2, 3);

struct control_command {
    const char *name;
    /* Returns the exit status. */
    int (*run)(void *arg, struct control_reply *reply);
};

struct control {
    const struct control_command *commands; /* ends with a name of NULL */
    void *arg;
    int listen_fd;
    int wake_fd;
    int dir_fd;
    bool running;
    pthread_t thread;
    atomic_bool stopping;
    atomic_bool asked; /* for the first command */
};

/* Makes the socket and starts the thread. {0} before. */
int control_start(struct control *control, const char *state_dir,
                  const struct control_command *commands, void *arg, struct err *err) MUST_USE;
/* Has the first command run, with nobody to reply to. Any thread. */
void control_ask_first(struct control *control);
/* Waits for a command that runs. */
void control_stop(struct control *control);

/* ---- the other end ---- */

/* Sends a line to the server that uses a state directory, and writes its answer to `out`, problems
 * to stderr (with `name: ` before). Returns the exit status, or -errno: no server, or it went away.
 */
int control_call(const char *state_dir, const char *line, const char *name, FILE *out) MUST_USE;

#endif
