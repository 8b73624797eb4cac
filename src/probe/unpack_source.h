/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be unpacked, one entry after the other: from an archive, or made up. Blocks. */
#ifndef PROBE_UNPACK_SOURCE_H
#define PROBE_UNPACK_SOURCE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct unpack_source;

enum unpack_type { UNPACK_FILE, UNPACK_DIRECTORY, UNPACK_SYMLINK, UNPACK_HARD_LINK, UNPACK_OTHER };

/* Valid until the next one is asked for. */
struct unpack_entry {
    const char *path; /* relative, without "." and "..", no slash at the ends; "": the top */
    enum unpack_type type;
    uint32_t mode; /* permission bits */
    int64_t mtime_seconds;
    uint32_t mtime_nseconds;
    uint64_t bytes;     /* of a file */
    const char *target; /* of a link; of a hard link a path like `path` */
};

/* archive NULL: file_count files of file_bytes each. The caller closes. */
int unpack_source_open(const char *archive, uint32_t file_count, uint32_t file_bytes,
                       struct unpack_source **source, struct err *err) MUST_USE;
void unpack_source_close(struct unpack_source *source);

/* *found is false at the end. */
int unpack_source_next(struct unpack_source *source, struct unpack_entry *entry, bool *found,
                       struct err *err) MUST_USE;

/* The next bytes of the entry's data, all that were asked for unless it ends before. */
int unpack_source_read(struct unpack_source *source, uint8_t *data, uint32_t bytes, uint32_t *got,
                       struct err *err) MUST_USE;

#endif
