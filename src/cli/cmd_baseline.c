/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what a server gives, over transports and block sizes, and what small files cost. */
#include "cli/command.h"

#include "cli/baseline_against.h"
#include "cli/baseline_text.h"
#include "probe/baseline.h"
#include "report/tree.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
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
    bool json, help;
};

/* ---- the command line ---- */

/* "8k" */
static bool get_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *bytes)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0) {
        return false;
    }
    unsigned shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : 0;
    shift = *end == 'g' || *end == 'G' ? 30 : shift;
    if (value > UINT64_MAX >> shift || end[shift > 0 ? 1 : 0] != '\0') {
        return false;
    }
    *bytes = (uint64_t)value << shift;
    return *bytes >= min && *bytes <= max;
}

static bool get_seconds(const char *text, double min, double max, double *seconds)
{
    char *end;
    errno = 0;
    *seconds = strtod(text, &end);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *seconds >= min &&
           *seconds <= max;
}

/* Ascending, each once. */
static bool get_list(char *text, uint64_t min, uint64_t max, uint32_t *list, uint32_t list_max,
                     uint32_t *count)
{
    *count = 0;
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        uint64_t value;
        if (*count == list_max || !get_bytes(word, min, max, &value) ||
            (*count > 0 && value <= list[*count - 1])) {
            return false;
        }
        list[(*count)++] = (uint32_t)value;
    }
    return *count > 0;
}

/* Which of two words are in the list. */
static bool get_words(char *text, const char *const words[2], bool *first, bool *second)
{
    *first = *second = false;
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        bool is_first = strcmp(word, words[0]) == 0;
        if (!is_first && strcmp(word, words[1]) != 0) {
            return false;
        }
        *(is_first ? first : second) = true;
    }
    return *first || *second;
}

static void be_quick(struct baseline_options *options)
{
    static const uint32_t blocks[] = {1024, 8192, 65536, 1 << 20};
    memcpy(options->blocks, blocks, sizeof blocks);
    options->block_count = COUNT_OF(blocks);
    options->duration_ms = 100;
    options->file_bytes = 16 << 20;
    options->small_file_count = 20;
}

static bool set_words(struct baseline_options *options, int option)
{
    static const char *const transports[] = {"tcp", "udp"};
    static const char *const kinds[] = {"read", "write"};
    static const char *const patterns[] = {"sequential", "random"};

    switch (option) {
    case OPTION_PROTO:
        return get_words(optarg, transports, &options->transports[BASELINE_TCP],
                         &options->transports[BASELINE_UDP]);
    case OPTION_KIND:
        return get_words(optarg, kinds, &options->kinds[LOAD_READ], &options->kinds[LOAD_WRITE]);
    default:
        return get_words(optarg, patterns, &options->sequential, &options->random);
    }
}

static bool set_number(struct baseline_options *options, int option)
{
    uint64_t number = 0;
    double seconds = 0;
    bool good = true;

    switch (option) {
    case OPTION_BLOCK:
        return get_list(optarg, 1, LOAD_BLOCK_BYTES_MAX, options->blocks, BASELINE_BLOCK_COUNT_MAX,
                        &options->block_count);
    case OPTION_IN_FLIGHT:
        return get_list(optarg, 1, LOAD_IN_FLIGHT_MAX, options->in_flight,
                        BASELINE_IN_FLIGHT_COUNT_MAX, &options->in_flight_count);
    case OPTION_TIME:
        good = get_seconds(optarg, 0.01, 3600, &seconds);
        options->duration_ms = (uint32_t)(seconds * 1000);
        break;
    case OPTION_DELAY:
        good = get_bytes(optarg, 0, 60000000, &number);
        options->delay_us = (uint32_t)number;
        break;
    case OPTION_SIZE:
        good = get_bytes(optarg, 1, 1ULL << 40, &options->file_bytes);
        break;
    case OPTION_RECEIVE_BUFFER:
        good = get_bytes(optarg, 1, 1 << 30, &number);
        options->receive_buffer_bytes = (uint32_t)number;
        break;
    default:
        good = get_bytes(optarg, 0, 100000, &number);
        options->small_file_count = (uint32_t)number;
        break;
    }
    return good;
}

static bool set_option(struct arguments *arguments, int option)
{
    switch (option) {
    case OPTION_PROTO:
    case OPTION_KIND:
    case OPTION_PATTERN:
        return set_words(&arguments->baseline, option);
    case OPTION_BLOCK:
    case OPTION_IN_FLIGHT:
    case OPTION_DELAY:
    case OPTION_TIME:
    case OPTION_SIZE:
    case OPTION_RECEIVE_BUFFER:
    case OPTION_FILES:
        return set_number(&arguments->baseline, option);
    case OPTION_QUICK:
        be_quick(&arguments->baseline);
        return true;
    case OPTION_SAVE:
        arguments->save = optarg;
        return true;
    case OPTION_AGAINST:
        arguments->against = optarg;
        return true;
    case OPTION_HTML:
        arguments->html = optarg;
        return true;
    case OPTION_JSON:
        arguments->json = true;
        return true;
    case 'h':
        arguments->help = true;
        return true;
    default:
        return false;
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
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"save", required_argument, NULL, OPTION_SAVE},
    {"against", required_argument, NULL, OPTION_AGAINST},
    {"html", required_argument, NULL, OPTION_HTML},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool parse(int argc, char **argv, struct arguments *arguments)
{
    int option, word = -1;

    set_defaults(arguments);
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", words, &word)) != -1) {
        char *value = optarg != NULL ? strdup(optarg) : NULL; /* lists are taken apart */
        bool good = set_option(arguments, option);
        if (!good && value != NULL && word >= 0) {
            fprintf(stderr, "holdfast baseline: cannot use --%s %s", words[word].name, value);
        } else if (!good) {
            fprintf(stderr, "holdfast baseline: cannot use %s%s", argv[optind - 1],
                    option == ':' ? " without a value" : "");
        }
        free(value);
        if (!good) {
            fputs("; see `holdfast baseline --help`\n", stderr);
            return false;
        }
        word = -1;
    }
    if (arguments->help) {
        return true;
    }
    if (argc - optind != 1) {
        fputs("holdfast baseline: one nfs://HOST/PATH; see `holdfast baseline --help`\n", stderr);
        return false;
    }
    arguments->url = argv[optind];
    if (arguments->against != NULL && access(arguments->against, R_OK) != 0) {
        fprintf(stderr, "holdfast baseline: %s: %s\n", arguments->against, strerror(errno));
        return false;
    }
    return true;
}

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
    baseline_close(&baseline);
    return status;
}

int cmd_baseline(int argc, char **argv)
{
    struct arguments arguments;
    struct err err = {0};

    if (!parse(argc, argv, &arguments)) {
        return COMMAND_USAGE;
    }
    if (arguments.help) {
        fputs(help, stdout);
        return COMMAND_DONE;
    }
    if (client_url_parse(arguments.url, &arguments.baseline.url, &err) != 0) {
        fprintf(stderr, "holdfast baseline: %s: %s\n", arguments.url, err.text);
        return COMMAND_USAGE;
    }
    return run(&arguments);
}
