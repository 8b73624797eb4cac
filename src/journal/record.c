/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/record.h"

#include "journal/bytes.h"

#include <errno.h>
#include <stddef.h>

#define HEAD_BYTES 24U
#define TIME_BYTES 12U
#define STATE_BYTES (4U + 1U + 2U + 4U + 4U + 2U * TIME_BYTES)
#define CALLER_BYTES (16U + 2U + 1U + 1U + 5U * 4U + 8U)
#define MAY_SKIP 128U

const char *journal_op_name(uint8_t op)
{
    static const char *const names[JOURNAL_OP_COUNT] = {
        [JOURNAL_OP_NONE] = "-",      [JOURNAL_OP_CREATE] = "CREATE",
        [JOURNAL_OP_MKDIR] = "MKDIR", [JOURNAL_OP_SYMLINK] = "SYMLINK",
        [JOURNAL_OP_MKNOD] = "MKNOD", [JOURNAL_OP_REMOVE] = "REMOVE",
        [JOURNAL_OP_RMDIR] = "RMDIR", [JOURNAL_OP_RENAME] = "RENAME",
        [JOURNAL_OP_LINK] = "LINK",   [JOURNAL_OP_SETATTR] = "SETATTR",
        [JOURNAL_OP_WRITE] = "WRITE", [JOURNAL_OP_COMMIT] = "COMMIT",
    };
    return op < JOURNAL_OP_COUNT ? names[op] : "?";
}

/* ---- writing: at moves on ---- */

static void add(uint8_t **at, const void *bytes, size_t size_bytes)
{
    memcpy(*at, bytes, size_bytes);
    *at += size_bytes;
}

static void add8(uint8_t **at, uint8_t value)
{
    *(*at)++ = value;
}

static void add16(uint8_t **at, uint16_t value)
{
    put16(*at, value);
    *at += 2;
}

static void add32(uint8_t **at, uint32_t value)
{
    put32(*at, value);
    *at += 4;
}

static void add64(uint8_t **at, uint64_t value)
{
    put64(*at, value);
    *at += 8;
}

static void add_object(uint8_t **at, const struct journal_object *object)
{
    add8(at, object->type);
    add8(at, object->size);
    add(at, object->bytes, object->size);
}

static void add_time(uint8_t **at, const struct journal_time *time)
{
    add64(at, (uint64_t)time->seconds);
    add32(at, time->nanoseconds);
}

static size_t object_bytes(const struct journal_object *object)
{
    CHECK_OP(object->size, <=, JOURNAL_OBJECT_BYTES_MAX);
    return 2U + object->size;
}

static size_t body_bytes(const struct journal_record *record)
{
    switch (record->type) {
    case JOURNAL_ENTRY:
        CHECK_OP(record->entry.name_bytes, <=, JOURNAL_NAME_BYTES_MAX);
        return 1U + record->entry.name_bytes + object_bytes(&record->object) +
               object_bytes(&record->entry.now) + object_bytes(&record->entry.before) + TIME_BYTES;
    case JOURNAL_STATE:
        return object_bytes(&record->object) + STATE_BYTES;
    case JOURNAL_WRITE:
        CHECK_OP(record->write.size, <=, JOURNAL_DATA_BYTES_MAX);
        return object_bytes(&record->object) + 8U + 4U + record->write.size;
    case JOURNAL_SIZE:
        return object_bytes(&record->object) + 8U;
    case JOURNAL_SYNCED:
        return object_bytes(&record->object);
    case JOURNAL_REPLY:
        CHECK_OP(record->reply.size, <=, JOURNAL_REPLY_BYTES_MAX);
        return CALLER_BYTES + 4U + record->reply.size;
    default:
        CHECK_OP(record->type, <=, JOURNAL_REPLY);
        return 0;
    }
}

size_t journal_record_bytes(const struct journal_record *record)
{
    return (HEAD_BYTES + body_bytes(record) + 7U) & ~(size_t)7U;
}

static void add_entry(uint8_t **at, const struct journal_record *record)
{
    add8(at, (uint8_t)record->entry.name_bytes);
    add(at, record->entry.name, record->entry.name_bytes);
    add_object(at, &record->object);
    add_object(at, &record->entry.now);
    add_object(at, &record->entry.before);
    add_time(at, &record->entry.dir_mtime);
}

static void add_state(uint8_t **at, const struct journal_state *state)
{
    add32(at, state->nlink);
    add8(at, state->kind);
    add16(at, state->mode);
    add32(at, state->uid);
    add32(at, state->gid);
    add_time(at, &state->atime);
    add_time(at, &state->mtime);
}

static void add_caller(uint8_t **at, const struct journal_caller *caller)
{
    add(at, caller->address, sizeof caller->address);
    add16(at, caller->port);
    add8(at, caller->is_tcp);
    add8(at, 0);
    add32(at, caller->xid);
    add32(at, caller->prog);
    add32(at, caller->vers);
    add32(at, caller->proc);
    add32(at, caller->call_bytes);
    add64(at, caller->call_checksum);
}

static void add_body(uint8_t **at, const struct journal_record *record)
{
    if (record->type == JOURNAL_ENTRY) {
        add_entry(at, record);
        return;
    }
    if (record->type == JOURNAL_REPLY) {
        add_caller(at, &record->reply.caller);
        add32(at, record->reply.size);
        add(at, record->reply.bytes, record->reply.size);
        return;
    }
    add_object(at, &record->object);
    if (record->type == JOURNAL_STATE) {
        add_state(at, &record->state);
    } else if (record->type == JOURNAL_WRITE) {
        add64(at, record->write.offset);
        add32(at, record->write.size);
        add(at, record->write.bytes, record->write.size);
    } else if (record->type == JOURNAL_SIZE) {
        add64(at, record->size);
    }
}

void journal_record_put(const struct journal_record *record, uint8_t *bytes)
{
    uint8_t *at = bytes;
    size_t size = journal_record_bytes(record);
    add32(&at, (uint32_t)size);
    add8(&at, record->type);
    add8(&at, record->op);
    add16(&at, 0);
    add64(&at, record->lsn);
    add64(&at, record->export_id);
    add_body(&at, record);
    CHECK_OP(at - bytes, <=, (ptrdiff_t)size);
    memset(at, 0, size - (size_t)(at - bytes));
}

/* ---- reading: a cursor that stays broken ---- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool broken;
};

/* NULL when there are not so many left. */
static const uint8_t *take(struct reader *in, size_t size_bytes)
{
    if (in->broken || in->left < size_bytes) {
        in->broken = true;
        return NULL;
    }
    const uint8_t *bytes = in->at;
    in->at += size_bytes;
    in->left -= size_bytes;
    return bytes;
}

static uint8_t take8(struct reader *in)
{
    const uint8_t *bytes = take(in, 1);
    return bytes != NULL ? bytes[0] : 0;
}

static uint16_t take16(struct reader *in)
{
    const uint8_t *bytes = take(in, 2);
    return bytes != NULL ? get16(bytes) : 0;
}

static uint32_t take32(struct reader *in)
{
    const uint8_t *bytes = take(in, 4);
    return bytes != NULL ? get32(bytes) : 0;
}

static uint64_t take64(struct reader *in)
{
    const uint8_t *bytes = take(in, 8);
    return bytes != NULL ? get64(bytes) : 0;
}

static void take_object(struct reader *in, struct journal_object *object)
{
    object->type = take8(in);
    uint8_t size = take8(in);
    const uint8_t *bytes = size <= JOURNAL_OBJECT_BYTES_MAX ? take(in, size) : NULL;
    if (bytes == NULL) {
        in->broken = true;
        return;
    }
    object->size = size;
    memcpy(object->bytes, bytes, size);
}

/* One that is about something. */
static void take_subject(struct reader *in, struct journal_object *object)
{
    take_object(in, object);
    in->broken = in->broken || object->size == 0;
}

static void take_time(struct reader *in, struct journal_time *time)
{
    time->seconds = (int64_t)take64(in);
    time->nanoseconds = take32(in);
    in->broken = in->broken || time->nanoseconds >= 1000000000U;
}

static void take_entry(struct reader *in, struct journal_record *record)
{
    record->entry.name_bytes = take8(in);
    record->entry.name = take(in, record->entry.name_bytes);
    take_subject(in, &record->object);
    take_object(in, &record->entry.now);
    take_object(in, &record->entry.before);
    take_time(in, &record->entry.dir_mtime);
    if (in->broken) {
        return;
    }
    const uint8_t *name = record->entry.name;
    uint32_t size = record->entry.name_bytes;
    bool dots = (size == 1 && name[0] == '.') || (size == 2 && name[0] == '.' && name[1] == '.');
    in->broken =
        size == 0 || dots || memchr(name, '/', size) != NULL || memchr(name, 0, size) != NULL;
}

static void take_state(struct reader *in, struct journal_state *state)
{
    state->nlink = take32(in);
    state->kind = take8(in);
    state->mode = take16(in);
    state->uid = take32(in);
    state->gid = take32(in);
    take_time(in, &state->atime);
    take_time(in, &state->mtime);
    in->broken = in->broken || state->kind > 15 || state->mode > 07777;
}

static void take_write(struct reader *in, struct journal_record *record)
{
    record->write.offset = take64(in);
    record->write.size = take32(in);
    if (record->write.size > JOURNAL_DATA_BYTES_MAX ||
        record->write.offset > INT64_MAX - JOURNAL_DATA_BYTES_MAX) {
        in->broken = true;
        return;
    }
    record->write.bytes = take(in, record->write.size);
}

static void take_reply(struct reader *in, struct journal_record *record)
{
    struct journal_caller *caller = &record->reply.caller;
    const uint8_t *address = take(in, sizeof caller->address);
    if (address != NULL) {
        memcpy(caller->address, address, sizeof caller->address);
    }
    caller->port = take16(in);
    uint8_t is_tcp = take8(in);
    uint8_t zero = take8(in);
    caller->is_tcp = is_tcp == 1;
    caller->xid = take32(in);
    caller->prog = take32(in);
    caller->vers = take32(in);
    caller->proc = take32(in);
    caller->call_bytes = take32(in);
    caller->call_checksum = take64(in);
    record->reply.size = take32(in);
    if (record->reply.size > JOURNAL_REPLY_BYTES_MAX || is_tcp > 1 || zero != 0) {
        in->broken = true;
        return;
    }
    record->reply.bytes = take(in, record->reply.size);
}

static int take_body(struct reader *in, struct journal_record *record)
{
    switch (record->type) {
    case JOURNAL_ENTRY:
        take_entry(in, record);
        return 0;
    case JOURNAL_REPLY:
        take_reply(in, record);
        return 0;
    case JOURNAL_STATE:
        take_subject(in, &record->object);
        take_state(in, &record->state);
        return 0;
    case JOURNAL_WRITE:
        take_subject(in, &record->object);
        take_write(in, record);
        return 0;
    case JOURNAL_SIZE:
        take_subject(in, &record->object);
        record->size = take64(in);
        in->broken = in->broken || record->size > INT64_MAX;
        return 0;
    case JOURNAL_SYNCED:
        take_subject(in, &record->object);
        return 0;
    default:
        if (record->type < MAY_SKIP) {
            return -EPROTONOSUPPORT;
        }
        record->type = JOURNAL_SKIPPED;
        in->left = 0;
        return 0;
    }
}

static bool is_filling(const struct reader *in)
{
    for (size_t i = 0; i < in->left; i++) {
        if (in->at[i] != 0) {
            return false;
        }
    }
    return in->left < 8;
}

int journal_record_get(const uint8_t *bytes, size_t size_bytes, struct journal_record *record,
                       size_t *used)
{
    struct reader in = {.at = bytes, .left = size_bytes};
    *record = (struct journal_record){0};
    uint32_t size = take32(&in);
    record->type = take8(&in);
    record->op = take8(&in);
    uint16_t zero = take16(&in);
    record->lsn = take64(&in);
    record->export_id = take64(&in);
    if (in.broken || size < HEAD_BYTES || size > size_bytes || size % 8 != 0 || zero != 0) {
        return -EBADMSG;
    }
    in.left = size - HEAD_BYTES;
    int err = take_body(&in, record);
    if (err != 0) {
        return err;
    }
    *used = size;
    return in.broken || !is_filling(&in) ? -EBADMSG : 0;
}
