/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much CPU time a call costs its maker with our client library: calls of one kind, so many in
 * flight over one TCP connection, for a while. client_libnfs.c does the same with libnfs; client.py
 * runs both.
 */
#include "client/rpc.h"
#include "proto/nfs3.h"
#include "twin.h"

#include <arpa/inet.h>
#include <netinet/in.h>

struct load {
    struct twin twin;
    struct client_loop *loop;
    struct client_rpc *rpc;
    bool over;
};

static void issue(struct load *load);

static bool is_right(const struct twin *twin, const struct client_reply *reply)
{
    if (reply->error != 0) {
        return false;
    }
    if (twin->op == TWIN_GETATTR) {
        const struct GETATTR3res *res = reply->res;
        return res->status == NFS3_OK && res->resok.obj_attributes.type == NF3REG;
    }
    if (twin->op == TWIN_READ) {
        const struct READ3res *res = reply->res;
        return res->status == NFS3_OK && res->resok.count == twin->size_bytes &&
               res->resok.data.size == twin->size_bytes;
    }
    return true;
}

static void answered(void *owner, const struct client_reply *reply)
{
    struct load *load = owner;
    if (load->over) {
        return;
    }
    if (!is_right(&load->twin, reply)) {
        char text[CLIENT_TEXT_BYTES_MAX];
        twin_die("a wrong answer: %s", client_reply_text(reply, text));
    }
    load->twin.calls++;
    issue(load);
}

static void issue(struct load *load)
{
    struct twin *twin = &load->twin;
    struct nfs_fh3 fh = {.data = {twin->handle, twin->handle_bytes}};
    int error = 0;

    if (twin->op == TWIN_NULL) {
        error = client_rpc_call(load->rpc, NFSPROC3_NULL, NULL, answered, load);
    } else if (twin->op == TWIN_GETATTR) {
        struct GETATTR3args args = {fh};
        error = client_rpc_call(load->rpc, NFSPROC3_GETATTR, &args, answered, load);
    } else {
        struct READ3args args = {fh, twin_next_offset(twin), twin->size_bytes};
        error = client_rpc_call(load->rpc, NFSPROC3_READ, &args, answered, load);
    }
    if (error != 0) {
        twin_die("client_rpc_call: %s", strerror(-error));
    }
}

int main(int argc, char **argv)
{
    struct load load = {0};
    struct err err = {0};

    twin_open(&load.twin, argc, argv);
    if (client_loop_open(&load.loop) != 0) {
        twin_die("no event loop");
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(load.twin.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct client_rpc_options options = {
        .loop = load.loop,
        .address = (const struct sockaddr *)&address,
        .address_bytes = sizeof(address),
        .prog = NFS_PROGRAM,
        .vers = NFS_V3,
        .tcp = true,
        .insecure = true,
        .fail_before_contact = true,
    };
    if (client_rpc_open(&options, &load.rpc, &err) != 0) {
        twin_die("%s", err.text);
    }
    for (uint32_t i = 0; i < load.twin.in_flight; i++) {
        issue(&load);
    }
    while (twin_goes_on(&load.twin)) {
        if (client_loop_turn(load.loop, 1000) != 0) {
            twin_die("cannot wait");
        }
    }
    load.over = true;
    client_rpc_close(load.rpc);
    client_loop_close(load.loop);
    return 0;
}
