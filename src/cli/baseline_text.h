/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline for people to read: as text, as a page. */
#ifndef CLI_BASELINE_TEXT_H
#define CLI_BASELINE_TEXT_H

#include "probe/baseline.h"

#include <stdio.h>

void baseline_print(FILE *file, const char *url, struct baseline *baseline);
void baseline_write_page(FILE *file, const char *url, struct baseline *baseline);

#endif
