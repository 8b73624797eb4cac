/* SPDX-License-Identifier: Apache-2.0 */
/* What `holdfast status` prints for people. One thread. */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* report: the server's answer. all: every client, not only the busiest. */
void status_text(const json_t *report, bool all);

/* ---- parts of it, also for status_watch ---- */

#define STATUS_TEXT_BYTES 32U

/* What an object has under a key; 0 and "" if there is nothing. */
double status_number(const json_t *object, const char *key);
const char *status_string(const json_t *object, const char *key);

/* "4.1 ms", "52 kB"; `out` is returned. */
const char *status_duration(double us, char out[STATUS_TEXT_BYTES]);
const char *status_bytes(double value, char out[STATUS_TEXT_BYTES]);

/* "nfs 3 GETATTR" */
void status_operation(const json_t *operation, char out[64]);

#endif
