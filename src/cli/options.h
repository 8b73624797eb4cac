/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command line: what cannot be used is said in one way, with the reason. main()'s
 * thread only (getopt).
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/check.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* The value of an option as it was written, and, once it cannot be used, why. */
struct options_value {
    const char *text;
    char why[80];
};

struct options {
    const char *command;        /* "spray" */
    const char *letters;        /* as getopt(3), with ':' in front */
    const struct option *words; /* as getopt_long(3) */
    const char *help;
    const char *operand; /* "HOST": what is named behind the options, exactly one */

    /* `option` is a letter or the val of a word. */
    bool (*set)(void *arguments, int option, struct options_value *value);
};

/*
 * Sets every option of argv and *operand. False: the command ends here, with *status. Either help
 * was asked for (-h, --help: a word whose val is 'h'; it needs no operand) and printed, or
 * something is bad, which was said on stderr and names the option.
 */
MUST_USE bool options_parse(const struct options *options, int argc, char **argv, void *arguments,
                            const char **operand, int *status);

/* The value, all of it, within [min, max]; false with the reason in `value`. */
MUST_USE bool options_number(struct options_value *value, double min, double max, double *number);
MUST_USE bool options_u32(struct options_value *value, uint32_t min, uint32_t max,
                          uint32_t *number);
MUST_USE bool options_port(struct options_value *value, uint16_t *port);

/* "64m": with k, m or g behind it the number counts KiB, MiB or GiB. */
MUST_USE bool options_bytes(struct options_value *value, uint64_t min, uint64_t max,
                            uint64_t *bytes);

/* "512,8k,1m": ascending, at most list_max of them, each as options_bytes. */
MUST_USE bool options_list(struct options_value *value, uint32_t max, uint32_t *list,
                           uint32_t list_max, uint32_t *count);

/* "tcp,udp": which of two words the value lists; at least one. */
MUST_USE bool options_words(struct options_value *value, const char *const words[2], bool *first,
                            bool *second);

#endif
