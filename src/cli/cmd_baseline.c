/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what a server gives, over transports and block sizes, and what small files cost. */
#include "cli/command.h"

#include "cli/baseline_against.h"
#include "cli/baseline_text.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "probe/baseline.h"
#include "report/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: holdfast baseline [OPTIONS] nfs://HOST/PATH\n"
    "\n"
    "Measures throughput over transports, block sizes and requests in flight, and what\n"
    "each operation on small files costs; says which block size to choose, and why. Works\n"
    "in a directory that it makes in PATH and removes; or reads PATH, if that is a file.\n"
    "\n"
    "  --proto LIST         of tcp, udp (both)\n"
    "  --kind LIST          of read, write (both)\n"
    "  --pattern LIST       of sequential, random (sequential)\n"
    "  --block LIST         bytes of a request: 512, 8k, 1m (512 to 1m by doubling)\n"
    "  --in-flight LIST     requests at a time (1,8)\n"
    "  --delay MICROS       between a reply and the next request (0)\n"
    "  --time SECONDS       for each point (0.5)\n"
    "  --size BYTES         of the file (64m)\n"
    "  --receive-buffer B   of the socket, to play a client that has little room\n"
    "  --files N            small files; 0: none (50)\n"
    "  --tar FILE           an archive to unpack, instead of made-up files\n"
    "  --quick              fewer points: 1k to 1m by eight, one second in all\n"
    "  --save FILE          keep the numbers\n"
    "  --against FILE       compare with numbers kept before\n"
    "  --html FILE          a page with plots\n"
    "  --json               every number\n"
    "\n"
    "exit status: 0 done, 1 slower than --against, 2 usage, 3 could not run\n"
    "more: man 1 holdfast-baseline\n";

enum {
    OPTION_PROTO = 256,
    OPTION_KIND,
    OPTION_PATTERN,
    OPTION_BLOCK,
    OPTION_IN_FLIGHT,
    OPTION_DELAY,
    OPTION_TIME,
    OPTION_SIZE,
    OPTION_RECEIVE_BUFFER,
    OPTION_FILES,
    OPTION_TAR,
    OPTION_QUICK,
    OPTION_SAVE,
    OPTION_AGAINST,
    OPTION_HTML,
    OPTION_JSON
};

struct arguments {
    struct baseline_options baseline;
    const char *url;
    const char *save, *against, *html;
    bool json;
};

/* ---- the command line ---- */

static void be_quick(struct baseline_options *options)
{
    static const uint32_t blocks[] = {1024, 8192, 65536, 1 << 20};
    memcpy(options->blocks, blocks, sizeof blocks);
    options->block_count = COUNT_OF(blocks);
    options->duration_ms = 100;
    options->file_bytes = 16 << 20;
    options->small_file_count = options->unpack_count = 20;
}

static bool set_words(struct baseline_options *baseline, int option, struct options_value *value)
{
    static const char *const transports[] = {"tcp", "udp"};
    static const char *const kinds[] = {"read", "write"};
    static const char *const patterns[] = {"sequential", "random"};

    switch (option) {
    case OPTION_PROTO:
        return options_words(value, transports, &baseline->transports[BASELINE_TCP],
                             &baseline->transports[BASELINE_UDP]);
    case OPTION_KIND:
        return options_words(value, kinds, &baseline->kinds[LOAD_READ],
                             &baseline->kinds[LOAD_WRITE]);
    default:
        return options_words(value, patterns, &baseline->sequential, &baseline->random);
    }
}

static bool set_number(struct baseline_options *baseline, int option, struct options_value *value)
{
    uint64_t bytes = 0;
    double seconds = 0;
    bool good;

    switch (option) {
    case OPTION_BLOCK:
        return options_list(value, LOAD_BLOCK_BYTES_MAX, baseline->blocks, BASELINE_BLOCK_COUNT_MAX,
                            &baseline->block_count);
    case OPTION_IN_FLIGHT:
        return options_list(value, LOAD_IN_FLIGHT_MAX, baseline->in_flight,
                            BASELINE_IN_FLIGHT_COUNT_MAX, &baseline->in_flight_count);
    case OPTION_TIME:
        good = options_number(value, 0.01, 3600, &seconds);
        baseline->duration_ms = (uint32_t)(seconds * 1000);
        return good;
    case OPTION_DELAY:
        return options_u32(value, 0, 60000000, &baseline->delay_us);
    case OPTION_SIZE:
        return options_bytes(value, 1, 1ULL << 40, &baseline->file_bytes);
    case OPTION_RECEIVE_BUFFER:
        good = options_bytes(value, 1, 1 << 30, &bytes);
        baseline->receive_buffer_bytes = (uint32_t)bytes;
        return good;
    default:
        good = options_u32(value, 0, 100000, &baseline->small_file_count);
        baseline->unpack_count = baseline->small_file_count;
        return good;
    }
}

static bool can_read(struct options_value *value)
{
    if (access(value->text, R_OK) != 0) {
        (void)snprintf(value->why, sizeof value->why, "%s", strerror(errno));
        return false;
    }
    return true;
}

static bool set_option(void *owner, int option, struct options_value *value)
{
    struct arguments *arguments = owner;

    switch (option) {
    case OPTION_PROTO:
    case OPTION_KIND:
    case OPTION_PATTERN:
        return set_words(&arguments->baseline, option, value);
    case OPTION_QUICK:
        be_quick(&arguments->baseline);
        return true;
    case OPTION_SAVE:
        arguments->save = value->text;
        return true;
    case OPTION_AGAINST:
        arguments->against = value->text;
        return can_read(value);
    case OPTION_TAR:
        arguments->baseline.archive = value->text;
        return can_read(value);
    case OPTION_HTML:
        arguments->html = value->text;
        return true;
    case OPTION_JSON:
        arguments->json = true;
        return true;
    default:
        return set_number(&arguments->baseline, option, value);
    }
}

static void set_defaults(struct arguments *arguments)
{
    *arguments = (struct arguments){.baseline = {
                                        .transports = {true, true},
                                        .kinds = {true, true},
                                        .sequential = true,
                                        .in_flight = {1, 8},
                                        .in_flight_count = 2,
                                        .duration_ms = 500,
                                        .file_bytes = 64 << 20,
                                        .small_file_count = 50,
                                        .unpack_count = 50,
                                    }};
    for (uint32_t bytes = 512; bytes <= LOAD_BLOCK_BYTES_MAX; bytes *= 2) {
        arguments->baseline.blocks[arguments->baseline.block_count++] = bytes;
    }
}

static const struct option words[] = {
    {"proto", required_argument, NULL, OPTION_PROTO},
    {"kind", required_argument, NULL, OPTION_KIND},
    {"pattern", required_argument, NULL, OPTION_PATTERN},
    {"block", required_argument, NULL, OPTION_BLOCK},
    {"in-flight", required_argument, NULL, OPTION_IN_FLIGHT},
    {"delay", required_argument, NULL, OPTION_DELAY},
    {"time", required_argument, NULL, OPTION_TIME},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"receive-buffer", required_argument, NULL, OPTION_RECEIVE_BUFFER},
    {"files", required_argument, NULL, OPTION_FILES},
    {"tar", required_argument, NULL, OPTION_TAR},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"save", required_argument, NULL, OPTION_SAVE},
    {"against", required_argument, NULL, OPTION_AGAINST},
    {"html", required_argument, NULL, OPTION_HTML},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct options command_line = {
    .command = "baseline",
    .letters = ":h",
    .words = words,
    .help = help,
    .operand = "nfs://HOST/PATH",
    .set = set_option,
};

/* ---- running ---- */

static void progress(void *owner, uint32_t done, uint32_t all, const char *what)
{
    (void)owner;
    fprintf(stderr, "\r\033[K%3u%%  %s", all > 0 ? done * 100 / all : 0, what);
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "holdfast baseline: %s: %s\n", path, strerror(errno));
    }
    return file;
}

static bool close_file(FILE *file, const char *path)
{
    bool good = ferror(file) == 0;
    if (fclose(file) != 0 || !good) {
        fprintf(stderr, "holdfast baseline: %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

static bool save(const char *path, const struct report *report)
{
    FILE *file = open_file(path);
    if (file == NULL) {
        return false;
    }
    bool written = report_write_json(report, file);
    return close_file(file, path) && written;
}

static bool save_page(const struct arguments *arguments, struct baseline *baseline)
{
    FILE *file = open_file(arguments->html);
    if (file == NULL) {
        return false;
    }
    baseline_write_page(file, arguments->url, baseline);
    return close_file(file, arguments->html);
}

/* Everything that is said, in the forms that were asked for. */
static int tell(const struct arguments *arguments, struct baseline *baseline)
{
    struct baseline_changes changes = {0};
    struct err err = {0};
    int status = COMMAND_DONE;
    struct report *report = report_new();

    report_add_text(report, "url", arguments->url);
    baseline_report(report, baseline);
    if (arguments->against != NULL) {
        if (baseline_compare(arguments->against, baseline, &changes, &err) != 0) {
            fprintf(stderr, "holdfast baseline: %s\n", err.text);
            status = COMMAND_CANNOT;
        } else {
            baseline_changes_report(report, &changes);
            status = changes.slower > 0 ? COMMAND_FINDING : COMMAND_DONE;
        }
    }
    if (arguments->save != NULL && !save(arguments->save, report)) {
        status = COMMAND_CANNOT;
    }
    if (arguments->html != NULL && !save_page(arguments, baseline)) {
        status = COMMAND_CANNOT;
    }
    if (arguments->json) {
        status = report_write_json(report, stdout) ? status : COMMAND_CANNOT;
    } else {
        baseline_print(stdout, arguments->url, baseline);
        if (changes.changes != NULL) {
            baseline_changes_print(stdout, &changes);
        }
    }
    baseline_changes_free(&changes);
    if (baseline->left_behind[0] != '\0') {
        fprintf(stderr, "holdfast baseline: %s\n", baseline->left_behind);
    }
    report_free(report);
    return status;
}

static int run(struct arguments *arguments)
{
    struct baseline baseline;
    struct err err = {0};
    bool shown = isatty(STDERR_FILENO) == 1;

    arguments->baseline.progress = shown ? progress : NULL;
    arguments->baseline.making = interrupt_making;
    arguments->baseline.stopping = interrupt_stopping;
    int error = baseline_run(&arguments->baseline, &baseline, &err);
    if (shown) {
        fputs("\r\033[K", stderr);
    }
    int status = COMMAND_CANNOT;
    if (error == 0) {
        status = tell(arguments, &baseline);
    } else {
        fprintf(stderr, "holdfast baseline: %s: %s\n", arguments->url, err.text);
        if (baseline.left_behind[0] != '\0') {
            fprintf(stderr, "holdfast baseline: %s\n", baseline.left_behind);
        }
    }
    interrupt_release();
    baseline_close(&baseline);
    return status;
}

int cmd_baseline(int argc, char **argv)
{
    struct arguments arguments;
    struct err err = {0};
    int status;

    set_defaults(&arguments);
    if (!options_parse(&command_line, argc, argv, &arguments, &arguments.url, &status)) {
        return status;
    }
    if (client_url_parse(arguments.url, &arguments.baseline.url, &err) != 0) {
        fprintf(stderr, "holdfast baseline: %s: %s\n", arguments.url, err.text);
        return COMMAND_USAGE;
    }
    return run(&arguments);
}
