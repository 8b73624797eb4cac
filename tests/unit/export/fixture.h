/* SPDX-License-Identifier: Apache-2.0 */
/* A table made from text, and questions to it, for the tests of exports. */
#ifndef TESTS_UNIT_EXPORT_FIXTURE_H
#define TESTS_UNIT_EXPORT_FIXTURE_H

#include "lib/unit.h"
#include "vfs/export.h"

#include <errno.h>
#include <stdio.h>

struct fixture {
    struct export_table *table;
    struct export_problems problems;
    int result; /* of the last load */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Adds text as the file "exports" and resolves names. */
void load_bytes(struct fixture *fixture, const char *text, size_t text_bytes);
void load(struct fixture *fixture, const char *text);
void load_argument(struct fixture *fixture, const char *argument);

/* What an address gets on exactly this export: NULL if there is no such export, or nothing. */
const struct export_options *gets(const struct fixture *fixture, const char *path,
                                  const char *address);
/* "rw", "ro", "nothing" for the above, or "no export". */
const char *gets_word(const struct fixture *fixture, const char *path, const char *address);

/* Fails, and shows all problems, unless just these were reported: "LINE:KIND:WORD" each, where KIND
 * is error or warning and WORD is found in the text. Ends with NULL. */
void assert_problems(const struct fixture *fixture, ...) __attribute__((sentinel));

#define assert_gets(fixture, path, address, word)                                                  \
    assert_string_equal(gets_word(fixture, path, address), word)

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

#endif
