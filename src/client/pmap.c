/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pmap.h"

#include "client/address.h"
#include "client/wait.h"
#include "proto/pmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ENTRY_COUNT_MAX 4096U
#define UADDR_BYTES_MAX 64U

static struct xdr_bytes text_bytes(const char *text)
{
    return (struct xdr_bytes){(const uint8_t *)text, (uint32_t)strlen(text)};
}

/* One question over one transport. */
static int ask(const struct client_pmap_query *query, bool tcp, uint32_t vers, uint32_t proc,
               const void *args, struct client_answer *answer)
{
    struct client_address address;
    struct client_rpc *rpc;

    client_address_set(&address, query->address, query->address_bytes);
    if (client_address_port(&address) == 0) {
        client_address_set_port(&address, PMAP_PORT);
    }
    struct client_rpc_options options = {
        .loop = query->loop,
        .address = &address.sa,
        .address_bytes = address.bytes,
        .prog = PMAP_PROG,
        .vers = vers,
        .tcp = tcp,
        .cred = {.none = true},
        .insecure = true,
        .soft = true,
        .fail_before_contact = true,
        .timeo_ms = query->timeo_ms > 0 ? query->timeo_ms
                    : tcp               ? 5000
                                        : 1100,
        .retrans = tcp ? 1 : 3,
        .on_event = query->on_event,
        .owner = query->owner,
    };
    int error = client_rpc_open(&options, &rpc, NULL);
    if (error == 0) {
        error = client_wait(query->loop, rpc, proc, args, answer);
        client_rpc_close(rpc);
    }
    return error;
}

/* Over the transport that is wanted, and over the other one if nobody answers there. */
static int ask_either(const struct client_pmap_query *query, uint32_t vers, uint32_t proc,
                      const void *args, struct client_answer *answer)
{
    int error = ask(query, query->tcp, vers, proc, args, answer);
    if (error != 0 && answer->fault == CLIENT_FAULT_TRANSPORT) {
        int other = ask(query, !query->tcp, vers, proc, args, answer);
        error = other == 0 || answer->fault != CLIENT_FAULT_TRANSPORT ? other : error;
    }
    return error;
}

/* RFC 5665 §5.2.3.3: the port is in the last two numbers, "...p1.p2". */
static int port_of_uaddr(struct xdr_bytes uaddr, uint16_t *port)
{
    char text[UADDR_BYTES_MAX];
    unsigned high, low;

    if (uaddr.size == 0) {
        return -ENOENT;
    }
    if (uaddr.size >= sizeof text) {
        return -EBADMSG;
    }
    memcpy(text, uaddr.data, uaddr.size);
    text[uaddr.size] = '\0';
    char *dot = strrchr(text, '.');
    if (dot != NULL) {
        *dot = ' ';
        dot = strrchr(text, '.');
    }
    if (dot == NULL || sscanf(dot + 1, "%3u %3u", &high, &low) != 2 || high > 255 || low > 255) {
        return -EBADMSG;
    }
    *port = (uint16_t)(high * 256 + low);
    return 0;
}

void client_pmap_ask(int family, bool tcp, uint32_t vers, uint32_t prog, uint32_t prog_vers,
                     struct client_pmap_question *question)
{
    uint32_t first = family == AF_INET6 ? RPCBVERS4 : PMAP_VERS;
    *question = (struct client_pmap_question){.vers = vers != 0 ? vers : first};
    if (question->vers == PMAP_VERS) {
        question->proc = PMAPPROC_GETPORT;
        question->args.mapping = (struct mapping){
            .prog = prog, .vers = prog_vers, .prot = tcp ? IPPROTO_TCP : IPPROTO_UDP};
        return;
    }
    question->proc = RPCBPROC_GETADDR;
    question->args.rpcb = (struct rpcb){
        .r_prog = prog,
        .r_vers = prog_vers,
        .r_netid = text_bytes(family == AF_INET6 ? tcp ? "tcp6" : "udp6"
                              : tcp              ? "tcp"
                                                 : "udp"),
        .r_addr = text_bytes(""),
        .r_owner = text_bytes(""),
    };
}

int client_pmap_answer(const struct client_pmap_question *question, const void *res, uint16_t *port)
{
    if (question->vers == PMAP_VERS) {
        uint32_t word = ((const struct proto_u32 *)res)->value;
        *port = (uint16_t)word;
        return word == 0 ? -ENOENT : word > UINT16_MAX ? -EBADMSG : 0;
    }
    return port_of_uaddr(((const struct rpcb_string *)res)->text, port);
}

static int ask_version(const struct client_pmap_query *query, uint32_t vers, uint32_t prog,
                       uint32_t prog_vers, struct client_answer *answer, uint16_t *port)
{
    struct client_pmap_question question;
    client_pmap_ask(query->address->sa_family, query->tcp, vers, prog, prog_vers, &question);
    int error = ask_either(query, question.vers, question.proc, &question.args, answer);
    return error != 0 ? error : client_pmap_answer(&question, answer->res, port);
}

int client_pmap_getport(const struct client_pmap_query *query, uint32_t prog, uint32_t vers,
                        uint16_t *port)
{
    struct client_answer answer = {0};
    int error = ask_version(query, 0, prog, vers, &answer, port);
    if (answer.fault == CLIENT_FAULT_PROG_MISMATCH && query->address->sa_family == AF_INET6) {
        error = ask_version(query, RPCBVERS, prog, vers, &answer, port);
    }
    client_answer_free(&answer);
    return error;
}

int client_pmap_dump(const struct client_pmap_query *query, struct client_pmap_entry **entries,
                     size_t *count)
{
    struct client_answer answer = {0};
    struct pmaplist element;

    *entries = NULL;
    *count = 0;
    int error = ask_either(query, PMAP_VERS, PMAPPROC_DUMP, NULL, &answer);
    if (error == 0) {
        *entries = calloc(ENTRY_COUNT_MAX, sizeof **entries);
        error = *entries == NULL ? -ENOMEM : 0;
    }
    if (error == 0) {
        const struct pmaplist_ptr *list = answer.res;
        struct xdr cursor = xdr_reader(list->list.data, list->list.size);
        while (*count < ENTRY_COUNT_MAX && pmaplist_next(&cursor, &element)) {
            bool tcp = element.map.prot == IPPROTO_TCP;
            if ((tcp || element.map.prot == IPPROTO_UDP) && element.map.port <= UINT16_MAX) {
                (*entries)[(*count)++] = (struct client_pmap_entry){
                    element.map.prog, element.map.vers, tcp, (uint16_t)element.map.port};
            }
        }
    }
    client_answer_free(&answer);
    return error;
}
