/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *text)
{
    fprintf(stderr, "holdfast: %s:%d: this should be impossible: not (%s)\n", file, line, text);
    abort();
}

void check_failed_values(const char *file, int line, const char *text, intmax_t left,
                         intmax_t right)
{
    fprintf(stderr, "holdfast: %s:%d: this should be impossible: not (%s): %jd against %jd\n", file,
            line, text, left, right);
    abort();
}
