/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include "cli/command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define PROGRESS_AFTER_NS NS_PER_SECOND
#define PROGRESS_EVERY_NS (NS_PER_SECOND / 5)
#define OPTION_HELP 256
#define OPTION_JSON 257

bool remote_get_options(int argc, char **argv, const char *letters, struct remote_options *options)
{
    static const struct option words[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL, 0, NULL, 0},
    };
    char accepted[32];
    bool json = strchr(letters, 'j') != NULL;
    int letter;

    *options = (struct remote_options){0};
    (void)snprintf(accepted, sizeof accepted, ":%sh", letters);
    optind = 1;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, accepted, words, NULL)) != -1) {
        if (letter == ':' || letter == '?' || (letter == OPTION_JSON && !json)) {
            fprintf(stderr, "holdfast %s: %s %s; see `holdfast %s --help`\n", argv[0],
                    letter == ':' ? "a value is missing behind" : "do not know", argv[optind - 1],
                    argv[0]);
            return false;
        }
        options->help = options->help || letter == OPTION_HELP || letter == 'h';
        options->json = options->json || letter == OPTION_JSON || letter == 'j';
        if (letter < 128) {
            options->flags[letter] = true;
            options->value = optarg != NULL ? optarg : options->value;
        }
    }
    options->first = optind;
    return true;
}

void remote_tell(const char *command, const char *path, int status)
{
    char text[CLIENT_TEXT_BYTES_MAX];

    fprintf(stderr, "holdfast %s: ", command);
    remote_print_name(stderr, client_name(path));
    fprintf(stderr, ": %s\n",
            status == -EOPNOTSUPP ? "not a file, directory or symbolic link; not copied"
            : status == CLIENT_COPY_SAME
                ? "is what it would be copied to, or has that in it; not copied"
                : client_status_text(status, text));
}

static void on_event(void *owner, const struct client_event *event)
{
    const struct remote *remote = owner;

    if (event->kind == CLIENT_NOT_RESPONDING) {
        fprintf(stderr, "holdfast %s: %s is not responding, still trying\n", remote->command,
                remote->mount != NULL ? remote->mount->url.host : "the server");
    } else if (event->kind == CLIENT_RESPONDING) {
        fprintf(stderr, "holdfast %s: %s is responding again\n", remote->command,
                remote->mount != NULL ? remote->mount->url.host : "the server");
    }
}

int remote_try(struct remote *remote, const char *command, const char *text, struct err *err)
{
    struct client_url url;

    *remote = (struct remote){.command = command};
    int error = client_url_parse(text, &url, err);
    if (error != 0) {
        return error;
    }
    bool v6 = strchr(url.host, ':') != NULL;
    (void)snprintf(remote->name, sizeof remote->name, "nfs://%s%s%s%s", v6 ? "[" : "", url.host,
                   v6 ? "]" : "", url.path);
    struct client_mount_options options = {.url = &url, .on_event = on_event, .owner = remote};
    error = client_mount_open(&options, &remote->mount, err);
    if (error == 0) {
        remote->path = remote->mount->rest;
    }
    return error;
}

int remote_open(struct remote *remote, const char *command, const char *text)
{
    struct err err = {0};

    int error = remote_try(remote, command, text, &err);
    if (error != 0) {
        fprintf(stderr, "holdfast %s: %s\n", command, err.text);
    }
    switch (error) {
    case 0:
        return COMMAND_DONE;
    case -EINVAL:
        return COMMAND_USAGE;
    case -ENOENT:
    case -EACCES:
        return COMMAND_FINDING;
    default:
        return COMMAND_CANNOT;
    }
}

void remote_close(struct remote *remote)
{
    client_mount_close(remote->mount);
    remote->mount = NULL;
}

int remote_status(const struct remote *remote, int status)
{
    bool lost = remote->mount != NULL && remote->mount->lost != 0;
    return status == 0 ? COMMAND_DONE : lost ? COMMAND_CANNOT : COMMAND_FINDING;
}

void remote_print_name(FILE *file, struct client_name name)
{
    bool terminal = isatty(fileno(file)) == 1;
    for (uint32_t i = 0; i < name.size; i++) {
        unsigned char byte = (unsigned char)name.bytes[i];
        bool upsets = byte < 0x20 || byte == 0x7f || byte == 0x9b;
        fputc(terminal && upsets ? '?' : byte, file);
    }
}

/* ---- progress ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

void remote_progress_begin(struct remote_progress *progress, const char *command)
{
    *progress = (struct remote_progress){.command = command, .start_ns = now_ns()};
    progress->next_ns =
        isatty(STDERR_FILENO) == 1 ? progress->start_ns + PROGRESS_AFTER_NS : INT64_MAX;
}

static void print_bytes(char *text, size_t room, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < COUNT_OF(units)) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, room, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void remote_progress(void *owner, const struct client_copy_counts *counts)
{
    struct remote_progress *progress = owner;
    char done[32], rate[32];

    if (progress->next_ns == INT64_MAX) {
        return;
    }
    int64_t now = now_ns();
    if (now < progress->next_ns) {
        return;
    }
    progress->next_ns = now + PROGRESS_EVERY_NS;
    double seconds = (double)(now - progress->start_ns) / NS_PER_SECOND;
    double per_second = (double)counts->bytes / seconds;
    print_bytes(done, sizeof done, (double)counts->bytes);
    print_bytes(rate, sizeof rate, per_second);
    fprintf(stderr, "\r\033[K%" PRIu64 " files, %s, %s/s", counts->files, done, rate);
    if (progress->total_bytes > counts->bytes && per_second > 0) {
        fprintf(stderr, ", %.0f%%, %.0f s left",
                100.0 * (double)counts->bytes / (double)progress->total_bytes,
                (double)(progress->total_bytes - counts->bytes) / per_second);
    }
    fflush(stderr);
    progress->shown = true;
}

static void wipe(struct remote_progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        progress->shown = false;
    }
}

void remote_problem(void *owner, const char *path, int status)
{
    struct remote_progress *progress = owner;
    wipe(progress);
    progress->problems++;
    remote_tell(progress->command, path, status);
}

void remote_progress_end(struct remote_progress *progress)
{
    wipe(progress);
}
