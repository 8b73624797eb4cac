/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <stdio.h>
#include <string.h>

void op_file_name(char name[32], uint64_t number)
{
    snprintf(name, 32, "f%06llu", (unsigned long long)number);
}

/* Files in an order that is neither theirs in the directory nor a short cycle: 7919 is a prime. */
static uint64_t file_of(const struct work *work, uint64_t number)
{
    return number * 7919 % work->file_count;
}

static nfs_fh3 fh(const struct handle *handle)
{
    return (nfs_fh3){.data = {.data_len = handle->size, .data_val = (char *)handle->bytes}};
}

static nfs_fh3 fh_of_file(const struct work *work, uint64_t number)
{
    return fh(&work->files[file_of(work, number)]);
}

static uint64_t offset_of(const struct work *work, uint64_t number)
{
    uint64_t places = work->span_bytes / work->size_bytes;
    return (number / work->file_count) % (places == 0 ? 1 : places) * work->size_bytes;
}

static int null_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    (void)number;
    return rpc_nfs3_null_async(rpc, done, slot);
}

static int64_t any_check(struct slot *slot, const void *result)
{
    (void)slot;
    (void)result;
    return 1;
}

static int getattr_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    struct GETATTR3args args = {.object = fh_of_file(slot->work, number)};
    return rpc_nfs3_getattr_async(rpc, done, &args, slot);
}

static int64_t getattr_check(struct slot *slot, const void *result)
{
    const struct GETATTR3res *res = result;
    (void)slot;
    return res->GETATTR3res_u.resok.obj_attributes.type == NF3REG ? 1 : -1;
}

static int lookup_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    op_file_name(slot->name, file_of(slot->work, number));
    struct LOOKUP3args args = {.what = {.dir = fh(&slot->work->dir), .name = slot->name}};
    return rpc_nfs3_lookup_async(rpc, done, &args, slot);
}

static int64_t lookup_check(struct slot *slot, const void *result)
{
    const struct LOOKUP3res *res = result;
    (void)slot;
    bool right = res->LOOKUP3res_u.resok.object.data.data_len > 0 &&
                 res->LOOKUP3res_u.resok.obj_attributes.attributes_follow;
    return right ? 1 : -1;
}

static int read_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    struct work *work = slot->work;
    struct READ3args args = {.file = fh_of_file(work, number),
                             .offset = offset_of(work, number),
                             .count = work->size_bytes};
    return rpc_nfs3_read_async(rpc, done, &args, slot);
}

static int64_t read_check(struct slot *slot, const void *result)
{
    const struct READ3resok *resok = &((const struct READ3res *)result)->READ3res_u.resok;
    return resok->count == slot->work->size_bytes && resok->data.data_len == resok->count ? 1 : -1;
}

static int write_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    struct work *work = slot->work;
    struct WRITE3args args = {.file = fh_of_file(work, number),
                              .offset = offset_of(work, number),
                              .count = work->size_bytes,
                              .stable = UNSTABLE,
                              .data = {.data_len = work->size_bytes, .data_val = work->data}};
    return rpc_nfs3_write_async(rpc, done, &args, slot);
}

static int64_t write_check(struct slot *slot, const void *result)
{
    const struct WRITE3res *res = result;
    return res->WRITE3res_u.resok.count == slot->work->size_bytes ? 1 : -1;
}

static int create_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    op_file_name(slot->name, number);
    struct CREATE3args args = {.where = {.dir = fh(&slot->work->dir), .name = slot->name}};
    args.how.mode = UNCHECKED;
    args.how.createhow3_u.obj_attributes.mode.set_it = 1;
    args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
    return rpc_nfs3_create_async(rpc, done, &args, slot);
}

static int remove_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done)
{
    op_file_name(slot->name, number);
    struct REMOVE3args args = {.object = {.dir = fh(&slot->work->dir), .name = slot->name}};
    return rpc_nfs3_remove_async(rpc, done, &args, slot);
}

static int readdirplus_issue(struct rpc_context *rpc, struct slot *slot, uint64_t number,
                             rpc_cb done)
{
    (void)number;
    struct READDIRPLUS3args args = {.dir = fh(&slot->work->dir),
                                    .cookie = slot->cookie,
                                    .dircount = slot->work->size_bytes,
                                    .maxcount = slot->work->size_bytes};
    memcpy(args.cookieverf, slot->cookieverf, sizeof(args.cookieverf));
    return rpc_nfs3_readdirplus_async(rpc, done, &args, slot);
}

/* An entry without attributes or handle makes the client ask again, so it does not count. */
static int64_t readdirplus_check(struct slot *slot, const void *result)
{
    const struct READDIRPLUS3resok *resok =
        &((const struct READDIRPLUS3res *)result)->READDIRPLUS3res_u.resok;
    int64_t complete = 0;
    for (const entryplus3 *entry = resok->reply.entries; entry != NULL; entry = entry->nextentry) {
        complete += entry->name_attributes.attributes_follow && entry->name_handle.handle_follows;
        slot->cookie = entry->cookie;
    }
    memcpy(slot->cookieverf, resok->cookieverf, sizeof(slot->cookieverf));
    if (resok->reply.eof) {
        slot->cookie = 0;
        memset(slot->cookieverf, 0, sizeof(slot->cookieverf));
    }
    return complete;
}

static const struct op ops[] = {
    {"null", OP_NEEDS_NOTHING, null_issue, any_check},
    {"getattr", OP_NEEDS_FILES, getattr_issue, getattr_check},
    {"lookup", OP_NEEDS_DIR, lookup_issue, lookup_check},
    {"read", OP_NEEDS_FILES, read_issue, read_check},
    {"write", OP_NEEDS_FILES, write_issue, write_check},
    {"create", OP_NEEDS_DIR, create_issue, any_check},
    {"remove", OP_NEEDS_DIR, remove_issue, any_check},
    {"readdirplus", OP_NEEDS_DIR, readdirplus_issue, readdirplus_check},
};

const struct op *op_find(const char *name)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return &ops[i];
        }
    }
    return NULL;
}

void op_list(void)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        fprintf(stderr, " %s", ops[i].name);
    }
}
