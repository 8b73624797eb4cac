/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/journal_show.h"

#include "cli/remote.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define HEX_BYTES_MAX 64U
#define TIME_TEXT_BYTES 48U

static const char *const type_names[] = {
    [JOURNAL_ENTRY] = "entry",   [JOURNAL_STATE] = "object", [JOURNAL_WRITE] = "write",
    [JOURNAL_SIZE] = "size",     [JOURNAL_SYNCED] = "synced", [JOURNAL_REPLY] = "reply",
};

static const char *type_name(uint8_t type)
{
    return type < COUNT_OF(type_names) && type_names[type] != NULL ? type_names[type] : "skipped";
}

static void hex(const uint8_t *bytes, size_t size_bytes, char text[2 * HEX_BYTES_MAX + 1])
{
    text[0] = '\0';
    for (size_t i = 0; i < size_bytes && i < HEX_BYTES_MAX; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* "1:" and the handle: two kinds of handle may have the same bytes. "-": no object. */
static void object_text(const struct journal_object *object, char text[2 * HEX_BYTES_MAX + 8])
{
    char bytes[2 * HEX_BYTES_MAX + 1];
    hex(object->bytes, object->size, bytes);
    (void)snprintf(text, 2 * HEX_BYTES_MAX + 8, object->size == 0 ? "-" : "%u:%s", object->type,
                   bytes);
}

static void time_text(uint64_t time_ns, char text[TIME_TEXT_BYTES])
{
    time_t seconds = (time_t)(time_ns / 1000000000U);
    struct tm tm;
    (void)localtime_r(&seconds, &tm);
    size_t size = strftime(text, TIME_TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(text + size, TIME_TEXT_BYTES - size, ".%06u",
                   (unsigned)(time_ns % 1000000000U / 1000));
}

/* ---- superblock and batches ---- */

void journal_show_superblock(const struct journal_superblock *superblock, struct report *json)
{
    char uuid[2 * HEX_BYTES_MAX + 1];
    hex(superblock->uuid, sizeof superblock->uuid, uuid);
    report_add_text(json, "uuid", uuid);
    report_add_u64(json, "bytes", superblock->size_bytes);
    report_add_u64(json, "generation", superblock->generation);
    report_add_u64(json, "epoch", superblock->epoch);
    report_add_u64(json, "head_offset", superblock->head_offset);
    report_add_u64(json, "head_seq", superblock->head_seq);
    report_add_u64(json, "head_lsn", superblock->head_lsn);
    struct report *exports = report_add_array(json, "exports");
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        const struct journal_export *export = &superblock->exports[i];
        struct report *item = report_add_object(exports, NULL);
        report_add_u64(item, "id", export->id);
        report_add_bytes(item, "path", export->path, strlen(export->path));
    }
    if (json != NULL) {
        return;
    }
    printf("uuid        %s\nbytes       %" PRIu64 "\ngeneration  %" PRIu64 ", epoch %" PRIu64
           "\nhead        batch %" PRIu64 " at %" PRIu64 ", lsn %" PRIu64 "\n",
           uuid, superblock->size_bytes, superblock->generation, superblock->epoch,
           superblock->head_seq, superblock->head_offset, superblock->head_lsn);
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        printf("export      %016" PRIx64 " ", superblock->exports[i].id);
        remote_print_name(stdout, client_name(superblock->exports[i].path));
        putchar('\n');
    }
}

void journal_show_batch(const struct journal_log_found *batch, struct report *list)
{
    const struct journal_batch_head *head = &batch->head;
    char written[TIME_TEXT_BYTES];
    time_text(head->time_ns, written);
    if (list == NULL) {
        printf("batch %" PRIu64 "  epoch %" PRIu64 "  at %" PRIu64 "  bytes %u  records %u  lsn "
               "%" PRIu64 "-%" PRIu64 "  %s%s\n",
               head->seq, head->epoch, batch->offset, head->size_bytes, head->record_count,
               head->first_lsn, head->last_lsn, written, batch->live ? "" : "  (done)");
        return;
    }
    struct report *item = report_add_object(list, NULL);
    report_add_u64(item, "seq", head->seq);
    report_add_u64(item, "epoch", head->epoch);
    report_add_u64(item, "offset", batch->offset);
    report_add_u64(item, "bytes", head->size_bytes);
    report_add_u64(item, "records", head->record_count);
    report_add_u64(item, "first_lsn", head->first_lsn);
    report_add_u64(item, "last_lsn", head->last_lsn);
    report_add_u64(item, "written_ns", head->time_ns);
    report_add_bool(item, "live", batch->live);
}

/* ---- records ---- */

static void show_entry(const struct journal_record *record, struct report *json)
{
    char now[2 * HEX_BYTES_MAX + 8], before[2 * HEX_BYTES_MAX + 8];
    const char *name = (const char *)record->entry.name;
    object_text(&record->entry.now, now);
    object_text(&record->entry.before, before);
    report_add_bytes(json, "name", name, record->entry.name_bytes);
    report_add_text(json, "now", now);
    report_add_text(json, "before", before);
    if (json == NULL) {
        printf(" name ");
        remote_print_name(stdout, (struct client_name){name, record->entry.name_bytes});
        printf(" now %s before %s", now, before);
    }
}

static void show_state(const struct journal_state *state, struct report *json)
{
    report_add_u64(json, "mode", (uint64_t)state->kind << 12 | state->mode);
    report_add_u64(json, "uid", state->uid);
    report_add_u64(json, "gid", state->gid);
    report_add_i64(json, "mtime", state->mtime.seconds);
    report_add_u64(json, "mtime_ns", state->mtime.nanoseconds);
    bool known = state->nlink != JOURNAL_NLINK_UNKNOWN;
    if (known) {
        report_add_u64(json, "nlink", state->nlink);
    }
    if (json == NULL) {
        printf(" mode %06o uid %u gid %u mtime %" PRId64 ".%09u", state->kind << 12 | state->mode,
               state->uid, state->gid, state->mtime.seconds, state->mtime.nanoseconds);
        if (known) {
            printf(" nlink %u", state->nlink);
        }
    }
}

static void show_reply(const struct journal_record *record, struct report *json)
{
    static const uint8_t zeros[12] = {0};
    const struct journal_caller *caller = &record->reply.caller;
    bool ipv4 = memcmp(caller->address, zeros, sizeof zeros) == 0;
    char address[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop(ipv4 ? AF_INET : AF_INET6, caller->address + (ipv4 ? 12 : 0), address,
                    sizeof address);
    uint16_t port = ntohs(caller->port);
    report_add_text(json, "client", address);
    report_add_u64(json, "port", port);
    report_add_text(json, "transport", caller->is_tcp ? "tcp" : "udp");
    report_add_u64(json, "xid", caller->xid);
    report_add_u64(json, "prog", caller->prog);
    report_add_u64(json, "vers", caller->vers);
    report_add_u64(json, "proc", caller->proc);
    report_add_u64(json, "reply_bytes", record->reply.size);
    if (json == NULL) {
        printf(" to %s port %u %s xid %08x prog %u vers %u proc %u bytes %u", address, port,
               caller->is_tcp ? "tcp" : "udp", caller->xid, caller->prog, caller->vers,
               caller->proc, record->reply.size);
    }
}

static void show_body(const struct journal_record *record, struct report *json)
{
    switch (record->type) {
    case JOURNAL_ENTRY:
        show_entry(record, json);
        break;
    case JOURNAL_STATE:
        show_state(&record->state, json);
        break;
    case JOURNAL_WRITE:
        report_add_u64(json, "offset", record->write.offset);
        report_add_u64(json, "bytes", record->write.size);
        if (json == NULL) {
            printf(" offset %" PRIu64 " bytes %u", record->write.offset, record->write.size);
        }
        break;
    case JOURNAL_SIZE:
        report_add_u64(json, "size", record->size);
        if (json == NULL) {
            printf(" size %" PRIu64, record->size);
        }
        break;
    case JOURNAL_REPLY:
        show_reply(record, json);
        break;
    default:
        break;
    }
}

void journal_show_record(const struct journal_record *record, struct report *list)
{
    char object[2 * HEX_BYTES_MAX + 8];
    bool has_object = record->type != JOURNAL_REPLY && record->type != JOURNAL_SKIPPED;
    struct report *json = list != NULL ? report_add_object(list, NULL) : NULL;
    object_text(&record->object, object);
    report_add_u64(json, "lsn", record->lsn);
    report_add_text(json, "type", type_name(record->type));
    report_add_text(json, "op", journal_op_name(record->op));
    if (has_object) {
        report_add_u64(json, "export", record->export_id);
        report_add_text(json, "object", object);
    }
    if (list == NULL) {
        printf("  lsn %" PRIu64 " %s %s", record->lsn, journal_op_name(record->op),
               type_name(record->type));
        if (has_object) {
            printf(" of %s", object);
        }
    }
    show_body(record, json);
    if (list == NULL) {
        putchar('\n');
    }
}
