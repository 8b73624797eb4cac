/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"
#include "cli/command.h"
#include "cli/status_text.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: holdfast status [--json] [--all] [--state DIR]\n"
    "\n"
    "Shows what the server on this machine does: exports, connections, locks, limits,\n"
    "and for each operation and each client how many calls there were, how long they\n"
    "took, and on what: waiting in the server's queue, the file system, stable\n"
    "storage, and the socket.\n"
    "\n"
    "  --json        everything, as one JSON object\n"
    "  --all         all clients, not only the busiest\n"
    "  --state DIR   the server's state directory (/var/lib/holdfast)\n"
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

static int show(const char *state, bool all)
{
    char *answer = NULL;
    size_t answer_bytes = 0;
    json_error_t error;
    json_t *report = NULL;

    FILE *memory = open_memstream(&answer, &answer_bytes);
    if (memory == NULL) {
        return COMMAND_CANNOT;
    }
    int status = ask_server(state, "status", "holdfast status", memory);
    if (fclose(memory) == 0 && status == COMMAND_DONE) {
        replace_bytes(answer);
        report = json_loads(answer, 0, &error);
        if (report == NULL) {
            fprintf(stderr, "holdfast status: the answer is not understood: %s\n", error.text);
        }
    }
    free(answer);
    if (report == NULL) {
        return status != COMMAND_DONE ? status : COMMAND_CANNOT;
    }
    status_text(report, all);
    json_decref(report);
    return COMMAND_DONE;
}

int cmd_status(int argc, char **argv)
{
    const char *state = NULL;
    bool json = false;
    bool all = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return COMMAND_DONE;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--all") == 0) {
            all = true;
        } else if (strcmp(argv[i], "--state") == 0 && i + 1 < argc) {
            state = argv[++i];
        } else {
            fprintf(stderr, "holdfast status: no option %s; see `holdfast status --help`\n",
                    argv[i]);
            return COMMAND_USAGE;
        }
    }
    return json ? ask_server(state, "status", "holdfast status", stdout) : show(state, all);
}
