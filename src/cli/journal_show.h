/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a journal, as text or in a report. */
#ifndef CLI_JOURNAL_SHOW_H
#define CLI_JOURNAL_SHOW_H

#include "journal/log.h"
#include "journal/record.h"
#include "report/tree.h"

/* json NULL: text on standard output. */
void journal_show_superblock(const struct journal_superblock *superblock, struct report *json);
void journal_show_batch(const struct journal_log_found *batch, struct report *list);
void journal_show_record(const struct journal_record *record, struct report *list);

#endif
