/* SPDX-License-Identifier: Apache-2.0 */
/* What `holdfast status --watch` prints: what the server did between two looks at it. */
#ifndef CLI_STATUS_WATCH_H
#define CLI_STATUS_WATCH_H

#include <jansson.h>

/* Two answers of a server, in order; `before` NULL: since the start of the server. */
void status_watch(const json_t *before, const json_t *now);

#endif
