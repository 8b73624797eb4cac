/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the journal, between bytes and structures (docs/journal-format.md). Pure. Reading is
 * bounded: no byte of a disk makes it look outside, allocate, or fail a CHECK.
 */
#ifndef JOURNAL_RECORD_H
#define JOURNAL_RECORD_H

#include "base/check.h"

#include <stdbool.h>

#define JOURNAL_OBJECT_BYTES_MAX 44U
#define JOURNAL_NAME_BYTES_MAX 255U
#define JOURNAL_DATA_BYTES_MAX (64U * 1024) /* of a WRITE record */
#define JOURNAL_REPLY_BYTES_MAX 4096U
#define JOURNAL_NLINK_UNKNOWN UINT32_MAX

/* A file handle of the kernel. size 0: no object. */
struct journal_object {
    uint8_t type;
    uint8_t size;
    uint8_t bytes[JOURNAL_OBJECT_BYTES_MAX];
};

struct journal_time {
    int64_t seconds;
    uint32_t nanoseconds;
};

/* What an object is after a change. */
struct journal_state {
    uint32_t nlink;
    uint8_t kind;  /* st_mode >> 12 */
    uint16_t mode; /* 07777 */
    uint32_t uid, gid;
    struct journal_time atime, mtime;
};

/* Who asked, as the reply cache knows it. */
struct journal_caller {
    uint8_t address[16];
    uint16_t port;
    bool is_tcp;
    uint32_t xid, prog, vers, proc;
    uint32_t call_bytes;
    uint64_t call_checksum;
};

enum journal_type {
    JOURNAL_ENTRY = 1,
    JOURNAL_STATE = 2,
    JOURNAL_WRITE = 3,
    JOURNAL_SIZE = 4,
    JOURNAL_SYNCED = 5,
    JOURNAL_REPLY = 6,
    JOURNAL_SKIPPED = 255 /* reading: one that need not be known */
};

/* For people who read a journal. */
enum journal_op {
    JOURNAL_OP_NONE,
    JOURNAL_OP_CREATE,
    JOURNAL_OP_MKDIR,
    JOURNAL_OP_SYMLINK,
    JOURNAL_OP_MKNOD,
    JOURNAL_OP_REMOVE,
    JOURNAL_OP_RMDIR,
    JOURNAL_OP_RENAME,
    JOURNAL_OP_LINK,
    JOURNAL_OP_SETATTR,
    JOURNAL_OP_WRITE,
    JOURNAL_OP_COMMIT,
    JOURNAL_OP_COUNT
};
/* "CREATE"; "?" for what is none. */
const char *journal_op_name(uint8_t op);

/* Pointers are the caller's; after reading they point into what was read. */
struct journal_record {
    uint8_t type; /* enum journal_type */
    uint8_t op;   /* enum journal_op */
    uint64_t lsn;
    uint64_t export_id;
    /* ENTRY: the directory; all others but REPLY: what it is about. */
    struct journal_object object;
    union {
        struct {
            const uint8_t *name;
            uint32_t name_bytes;
            struct journal_object now, before;
            struct journal_time dir_mtime;
        } entry;
        struct journal_state state;
        struct {
            uint64_t offset; /* offset + size fits int64_t */
            const uint8_t *bytes;
            uint32_t size;
        } write;
        uint64_t size;
        struct {
            struct journal_caller caller;
            const uint8_t *bytes;
            uint32_t size;
        } reply;
    };
};

/* What it takes, a multiple of 8. Its parts must be within their limits (CHECK). */
size_t journal_record_bytes(const struct journal_record *record);
/* Writes journal_record_bytes. */
void journal_record_put(const struct journal_record *record, uint8_t *bytes);

/* Reads the record at bytes; *used is what it takes. -EBADMSG: broken. -EPROTONOSUPPORT: of a type
 * that must be known and is not. */
int journal_record_get(const uint8_t *bytes, size_t size_bytes, struct journal_record *record,
                       size_t *used) MUST_USE;

static inline bool journal_object_is(const struct journal_object *a, const struct journal_object *b)
{
    return a->size == b->size && a->type == b->type &&
           __builtin_memcmp(a->bytes, b->bytes, a->size) == 0;
}

#endif
