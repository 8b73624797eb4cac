/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"
#include "cli/command.h"
#include "cli/status_text.h"
#include "cli/status_watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_SECONDS_MAX 86400

static const char help[] =
    "usage: holdfast status [--json | --watch[=SECONDS]] [--all] [--state DIR]\n"
    "\n"
    "Shows what the server on this machine does: exports, connections, locks, limits,\n"
    "and for each operation and each client how many calls there were, how long they\n"
    "took, and on what: waiting in the server's queue, the file system, stable\n"
    "storage, and the socket.\n"
    "\n"
    "  --json              everything, as one JSON object\n"
    "  --watch[=SECONDS]   what was done in each second, or so many, until interrupted\n"
    "  --all               all clients, not only the busiest\n"
    "  --state DIR         the server's state directory (/var/lib/holdfast)\n"
    "\n"
    "more: man 8 holdfast-status\n";

/* A byte that is not part of UTF-8 travels as \udcXX (report/tree.h), which no parser takes. */
static void replace_bytes(char *json)
{
    for (char *at = strchr(json, '\\'); at != NULL; at = strchr(at, '\\')) {
        if (strncmp(at, "\\udc", 4) == 0 && strlen(at) >= 6) {
            memcpy(at, "\\ufffd", 6);
        }
        at += at[1] != '\0' ? 2 : 1;
    }
}

/* The server's answer, or NULL and *status. */
static json_t *ask(const char *state, int *status)
{
    char *answer = NULL;
    size_t answer_bytes = 0;
    json_error_t error;
    json_t *report = NULL;

    FILE *memory = open_memstream(&answer, &answer_bytes);
    if (memory == NULL) {
        *status = COMMAND_CANNOT;
        return NULL;
    }
    *status = ask_server(state, "status", "holdfast status", memory);
    if (fclose(memory) == 0 && *status == COMMAND_DONE) {
        replace_bytes(answer);
        report = json_loads(answer, 0, &error);
        if (report == NULL) {
            fprintf(stderr, "holdfast status: the answer is not understood: %s\n", error.text);
        }
    }
    free(answer);
    if (report == NULL && *status == COMMAND_DONE) {
        *status = COMMAND_CANNOT;
    }
    return report;
}

/* Ends when no server answers, or nobody reads any more. */
static int watch(const char *state, double seconds)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int status;

    for (json_t *before = ask(state, &status); before != NULL;) {
        (void)nanosleep(&pause, NULL);
        json_t *now = ask(state, &status);
        if (now == NULL) {
            json_decref(before);
            break;
        }
        /* Another process has counted from its own start. */
        bool same = status_number(before, "pid") == status_number(now, "pid") &&
                    status_number(before, "uptime_seconds") <= status_number(now, "uptime_seconds");
        fputs(terminal ? "\033[H\033[J" : "", stdout);
        status_watch(same ? before : NULL, now);
        fputs(terminal ? "" : "\n", stdout);
        json_decref(before);
        before = now;
        if (fflush(stdout) != 0) { /* main says so */
            json_decref(before);
            break;
        }
    }
    return status;
}

struct arguments {
    const char *state;
    bool help, json, all;
    double watch_seconds; /* 0: no */
};

static bool get_seconds(const char *value, double *seconds)
{
    char *end;

    *seconds = strtod(value, &end);
    return end != value && *end == '\0' && *seconds >= 0.1 && *seconds <= WATCH_SECONDS_MAX;
}

/* False: bad, which was said. */
static bool get_arguments(int argc, char **argv, struct arguments *arguments)
{
    *arguments = (struct arguments){0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            arguments->help = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            arguments->json = true;
        } else if (strcmp(argv[i], "--all") == 0) {
            arguments->all = true;
        } else if (strcmp(argv[i], "--watch") == 0) {
            arguments->watch_seconds = 1;
        } else if (strncmp(argv[i], "--watch=", 8) == 0) {
            if (!get_seconds(argv[i] + 8, &arguments->watch_seconds)) {
                fprintf(stderr, "holdfast status: %s: want 0.1 to %d seconds\n", argv[i],
                        WATCH_SECONDS_MAX);
                return false;
            }
        } else if (strcmp(argv[i], "--state") == 0 && i + 1 < argc) {
            arguments->state = argv[++i];
        } else {
            fprintf(stderr, "holdfast status: no option %s; see `holdfast status --help`\n",
                    argv[i]);
            return false;
        }
    }
    if (arguments->watch_seconds > 0 && (arguments->json || arguments->all)) {
        fputs("holdfast status: --watch goes with neither --json nor --all\n", stderr);
        return false;
    }
    return true;
}

int cmd_status(int argc, char **argv)
{
    struct arguments arguments;
    int status;

    if (!get_arguments(argc, argv, &arguments)) {
        return COMMAND_USAGE;
    }
    if (arguments.help) {
        fputs(help, stdout);
        return COMMAND_DONE;
    }
    if (arguments.json) {
        return ask_server(arguments.state, "status", "holdfast status", stdout);
    }
    if (arguments.watch_seconds > 0) {
        return watch(arguments.state, arguments.watch_seconds);
    }
    json_t *report = ask(arguments.state, &status);
    if (report != NULL) {
        status_text(report, arguments.all);
        json_decref(report);
    }
    return status;
}
