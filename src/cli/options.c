/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include "cli/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 40

/* As the option was written: "-c" or "--port". */
static const char *name_of(const struct options *options, int option, int word, const char *written,
                           char name[NAME_BYTES_MAX])
{
    int letter = option == ':' || option == '?' ? optopt : option;

    if (word >= 0) {
        (void)snprintf(name, NAME_BYTES_MAX, "--%s", options->words[word].name);
    } else if (letter > ' ' && letter < 0x7f && strncmp(written, "--", 2) != 0) {
        (void)snprintf(name, NAME_BYTES_MAX, "-%c", letter);
    } else {
        (void)snprintf(name, NAME_BYTES_MAX, "%s", written);
    }
    return name;
}

static void complain(const struct options *options, int option, const char *name,
                     const struct options_value *value)
{
    fprintf(stderr, "holdfast %s: ", options->command);
    if (option == '?') {
        fprintf(stderr, "there is no option %s", name);
    } else if (option == ':') {
        fprintf(stderr, "%s needs a value", name);
    } else {
        fprintf(stderr, "cannot use %s %s: %s", name, value->text, value->why);
    }
    fprintf(stderr, "; see `holdfast %s --help`\n", options->command);
}

bool options_parse(const struct options *options, int argc, char **argv, void *arguments,
                   const char **operand, int *status)
{
    bool help = false;
    *status = COMMAND_USAGE;
    int option, word = -1;

    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, options->letters, options->words, &word)) != -1) {
        struct options_value value = {.text = optarg != NULL ? optarg : ""};
        char name[NAME_BYTES_MAX];

        if (option == 'h') {
            help = true;
        } else if (option == '?' || option == ':' || !options->set(arguments, option, &value)) {
            const char *written = argv[optind - 1];
            complain(options, option, name_of(options, option, word, written, name), &value);
            return false;
        }
        word = -1;
    }
    if (help) {
        fputs(options->help, stdout);
        *status = COMMAND_DONE;
        return false;
    }
    if (argc - optind != 1) {
        const char *second = argc > optind ? argv[optind + 1] : NULL;
        fprintf(stderr, "holdfast %s: it takes one %s%s%s; see `holdfast %s --help`\n",
                options->command, options->operand, second != NULL ? ", and not also " : "",
                second != NULL ? second : "", options->command);
        return false;
    }
    *operand = argv[optind];
    return true;
}

bool options_number(struct options_value *value, double min, double max, double *number)
{
    char *end;

    errno = 0;
    *number = strtod(value->text, &end);
    if (value->text[0] >= '0' && value->text[0] <= '9' && *end == '\0' && errno == 0 &&
        *number >= min && *number <= max) {
        return true;
    }
    (void)snprintf(value->why, sizeof value->why, "not a number from %.15g to %.15g", min, max);
    return false;
}

bool options_u32(struct options_value *value, uint32_t min, uint32_t max, uint32_t *number)
{
    char *end;

    errno = 0;
    unsigned long long read = strtoull(value->text, &end, 10);
    *number = (uint32_t)read;
    if (value->text[0] >= '0' && value->text[0] <= '9' && *end == '\0' && errno == 0 &&
        read >= min && read <= max) {
        return true;
    }
    (void)snprintf(value->why, sizeof value->why, "not a whole number from %" PRIu32 " to %" PRIu32,
                   min, max);
    return false;
}

bool options_port(struct options_value *value, uint16_t *port)
{
    uint32_t number = 0;
    bool good = options_u32(value, 1, UINT16_MAX, &number);
    *port = (uint16_t)number;
    return good;
}

/* One size from `text` up to '\0' or ','; *end is behind it. */
static bool read_bytes(const char *text, uint64_t *bytes, const char **end)
{
    char *behind;

    errno = 0;
    unsigned long long number = strtoull(text, &behind, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0) {
        return false;
    }
    static const char units[] = "kKmMgG";
    const char *unit = *behind != '\0' ? strchr(units, *behind) : NULL;
    unsigned shift = unit != NULL ? 10U * (unsigned)((unit - units) / 2 + 1) : 0;
    *end = behind + (unit != NULL ? 1 : 0);
    *bytes = (uint64_t)number << shift;
    return number <= UINT64_MAX >> shift && (**end == '\0' || **end == ',');
}

bool options_bytes(struct options_value *value, uint64_t min, uint64_t max, uint64_t *bytes)
{
    const char *end = "";

    if (read_bytes(value->text, bytes, &end) && *end == '\0' && *bytes >= min && *bytes <= max) {
        return true;
    }
    (void)snprintf(value->why, sizeof value->why,
                   "not a number from %" PRIu64 " to %" PRIu64 "; 64k and 1m are", min, max);
    return false;
}

bool options_list(struct options_value *value, uint32_t max, uint32_t *list, uint32_t list_max,
                  uint32_t *count)
{
    const char *at = value->text;
    uint64_t bytes = 0, before = 0;

    for (*count = 0; *count < list_max; at++) {
        if (!read_bytes(at, &bytes, &at) || bytes <= before || bytes > max) {
            break;
        }
        list[(*count)++] = (uint32_t)bytes;
        before = bytes;
        if (*at == '\0') {
            return true;
        }
    }
    (void)snprintf(value->why, sizeof value->why,
                   "not up to %" PRIu32 " ascending numbers from 1 to %" PRIu32, list_max, max);
    return false;
}

bool options_words(struct options_value *value, const char *const words[2], bool *first,
                   bool *second)
{
    *first = *second = false;
    for (const char *at = value->text;; at++) {
        size_t length = strcspn(at, ",");
        bool is_first = strlen(words[0]) == length && strncmp(at, words[0], length) == 0;
        bool is_second = strlen(words[1]) == length && strncmp(at, words[1], length) == 0;
        *first = *first || is_first;
        *second = *second || is_second;
        at += length;
        if (!is_first && !is_second) {
            break;
        }
        if (*at == '\0') {
            return true;
        }
    }
    (void)snprintf(value->why, sizeof value->why, "not %s, %s, or both with a comma between",
                   words[0], words[1]);
    return false;
}
