/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a file of an NFS server, with several READs under way, from an event loop of its own.
 *
 *     cc -o nfscat nfscat.c $(pkg-config --cflags --libs holdfast-client)
 *     ./nfscat nfs://server/export/file
 */
#include <holdfast/client.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_COUNT 8U

struct cat;

/* A piece of the file, on its way or here. */
struct slot {
    struct cat *cat;
    uint64_t offset;
    uint32_t got;
    bool is_here, is_last;
    uint8_t *bytes;
};

struct cat {
    struct client_mount *mount;
    struct client_node node;
    struct slot slots[SLOT_COUNT]; /* a ring: pieces are printed in their order */
    uint32_t first;
    uint64_t next_offset;
    int status; /* of the first call that failed */
};

static void answered(void *owner, const struct client_reply *reply);

static void ask(struct slot *slot)
{
    struct cat *cat = slot->cat;
    struct READ3args args = {
        .file = client_fh3(&cat->node.fh),
        .offset = slot->offset + slot->got,
        .count = cat->mount->rsize - slot->got,
    };
    int error = client_rpc_call(cat->mount->rpc, NFSPROC3_READ, &args, answered, slot);
    if (error != 0) {
        cat->status = error;
    }
}

static void ask_for_next(struct slot *slot)
{
    slot->offset = slot->cat->next_offset;
    slot->cat->next_offset += slot->cat->mount->rsize;
    slot->got = 0;
    slot->is_here = slot->is_last = false;
    ask(slot);
}

/* The reply's memory is the library's, until this returns. */
static void answered(void *owner, const struct client_reply *reply)
{
    struct slot *slot = owner;
    struct cat *cat = slot->cat;
    const struct READ3res *res = reply->res;

    if (reply->error != 0 || res->status != NFS3_OK) {
        cat->status = reply->error != 0 ? reply->error : (int)res->status;
        return;
    }
    struct xdr_bytes data = res->resok.data;
    if (data.size > cat->mount->rsize - slot->got || (data.size == 0 && !res->resok.eof)) {
        cat->status = -EBADMSG;
        return;
    }
    if (data.size > 0) {
        memcpy(slot->bytes + slot->got, data.data, data.size);
    }
    slot->got += data.size;
    slot->is_last = res->resok.eof;
    slot->is_here = slot->is_last || slot->got == cat->mount->rsize;
    if (!slot->is_here) {
        ask(slot); /* a short answer: RFC 1813 §3.3.6 allows it */
    }
}

/* Prints the pieces that are here, in order, and asks for others. True: that was all. */
static bool print_pieces(struct cat *cat)
{
    for (;;) {
        struct slot *slot = &cat->slots[cat->first];
        if (!slot->is_here) {
            return false;
        }
        fwrite(slot->bytes, 1, slot->got, stdout);
        if (slot->is_last) {
            return true;
        }
        ask_for_next(slot);
        cat->first = (cat->first + 1) % SLOT_COUNT;
    }
}

/* The library's descriptor could stand beside others here. */
static void run(struct cat *cat)
{
    struct client_loop *loop = cat->mount->loop;
    while (cat->status == 0 && !print_pieces(cat)) {
        struct pollfd ready = {.fd = client_loop_fd(loop), .events = POLLIN};
        if (poll(&ready, 1, client_loop_wait_ms(loop)) < 0 && errno != EINTR) {
            cat->status = -errno;
        } else if (cat->status == 0) {
            cat->status = client_loop_turn(loop, 0);
        }
    }
}

static int open_file(struct cat *cat, const char *text, struct err *err)
{
    struct client_url url;
    struct client_mount_options options = {.url = &url};

    int error = client_url_parse(text, &url, err);
    if (error == 0) {
        error = client_mount_open(&options, &cat->mount, err); /* this much is waited for */
    }
    return error;
}

int main(int argc, char **argv)
{
    static struct cat cat;
    struct err err = {0};
    char words[CLIENT_TEXT_BYTES_MAX];

    if (argc != 2) {
        fputs("usage: nfscat nfs://HOST/PATH\n", stderr);
        return 2;
    }
    if (open_file(&cat, argv[1], &err) != 0) {
        fprintf(stderr, "nfscat: %s\n", err.text);
        return 3;
    }
    cat.status = client_walk(cat.mount, cat.mount->rest, true, &cat.node);
    for (uint32_t i = 0; i < SLOT_COUNT && cat.status == 0; i++) {
        cat.slots[i].cat = &cat;
        cat.slots[i].bytes = malloc(cat.mount->rsize);
        cat.status = cat.slots[i].bytes == NULL ? -ENOMEM : 0;
    }
    for (uint32_t i = 0; i < SLOT_COUNT && cat.status == 0; i++) {
        ask_for_next(&cat.slots[i]);
    }
    if (cat.status == 0) {
        run(&cat);
    }
    int status = cat.status;
    if (status != 0) {
        fprintf(stderr, "nfscat: %s: %s\n", argv[1], client_status_text(status, words));
    }
    client_mount_close(cat.mount); /* ends the calls that are under way: answered() is called */
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        free(cat.slots[i].bytes);
    }
    return status == 0 && fflush(stdout) == 0 ? 0 : 1;
}
