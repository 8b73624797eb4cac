/* SPDX-License-Identifier: Apache-2.0 */
/* What `holdfast status` prints for people. */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* report: the server's answer. all: every client, not only the busiest. */
void status_text(const json_t *report, bool all);

#endif
