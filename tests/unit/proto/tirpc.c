/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated codecs against libtirpc's, where libnfs has none: message heads and rpcbind 4.
 * Calls are left to the golden bytes: xdr_callmsg refuses every rpcvers but 2; samples have any.
 */
#include "samples.h"

#include <rpc/rpc.h>

#include <rpc/pmap_prot.h>
#include <rpc/rpcb_prot.h>

struct pair {
    const char *spec;
    const char *ours;
    xdrproc_t xdr;
    size_t size_bytes;
};

static const struct pair pairs[] = {
    {"rpc", "authsys_parms", (xdrproc_t)xdr_authunix_parms, sizeof(struct authunix_parms)},
    {"rpc", "opaque_auth", (xdrproc_t)xdr_opaque_auth, sizeof(struct opaque_auth)},
    {"rpc", "accepted_reply", (xdrproc_t)xdr_accepted_reply, sizeof(struct accepted_reply)},
    {"rpc", "rejected_reply", (xdrproc_t)xdr_rejected_reply, sizeof(struct rejected_reply)},
    {"pmap", "mapping", (xdrproc_t)xdr_pmap, sizeof(struct pmap)},
    {"pmap", "pmaplist_ptr", (xdrproc_t)xdr_pmaplist, sizeof(struct pmaplist *)},
    {"pmap", "rpcb", (xdrproc_t)xdr_rpcb, sizeof(rpcb)},
    {"pmap", "rpcblist_ptr", (xdrproc_t)xdr_rpcblist_ptr, sizeof(rpcblist_ptr)},
    {"pmap", "rpcb_entry", (xdrproc_t)xdr_rpcb_entry, sizeof(rpcb_entry)},
    {"pmap", "rpcb_entry_list_ptr", (xdrproc_t)xdr_rpcb_entry_list_ptr,
     sizeof(rpcb_entry_list_ptr)},
    {"pmap", "rpcb_stat", (xdrproc_t)xdr_rpcb_stat, sizeof(rpcb_stat)},
    {"pmap", "rpcb_stat_byvers", (xdrproc_t)xdr_rpcb_stat_byvers, sizeof(rpcb_stat_byvers)},
};

static size_t uses[COUNT_OF(pairs)];

/* The results that follow SUCCESS in a message: a sample has none. */
static bool_t no_results(XDR *xdr, ...)
{
    (void)xdr;
    return TRUE;
}

static void *their_value(const struct pair *pair)
{
    void *value = calloc(1, pair->size_bytes);
    assert_non_null(value);
    if (pair->xdr == (xdrproc_t)xdr_accepted_reply) {
        ((struct accepted_reply *)value)->ar_results.proc = no_results;
    }
    return value;
}

static void compare(const struct pair *pair, const struct sample *sample)
{
    void *theirs = their_value(pair);
    char *between = calloc(1, sample->size_bytes + 4);
    XDR from, to;
    xdrmem_create(&from, (char *)sample->bytes, (u_int)sample->size_bytes, XDR_DECODE);
    if (!pair->xdr(&from, theirs)) {
        fail_msg("libtirpc cannot decode a sample of %s", pair->ours);
    }
    assert_int_equal(xdr_getpos(&from), sample->size_bytes);
    xdrmem_create(&to, between, (u_int)sample->size_bytes + 4, XDR_ENCODE);
    assert_true(pair->xdr(&to, theirs));

    void *ours = samples_value(sample);
    struct xdr xdr = xdr_reader(between, xdr_getpos(&to));
    assert_true(sample->codec->get(&xdr, ours));
    assert_int_equal(xdr_left(&xdr), 0);
    uint8_t *out = malloc(sample->size_bytes + 4);
    struct xdr back = xdr_writer(out, sample->size_bytes + 4);
    assert_true(sample->codec->put(&back, ours));
    unit_same_bytes(out, xdr_offset(&back), sample->bytes, sample->size_bytes);

    if (pair->xdr != (xdrproc_t)xdr_accepted_reply) {
        xdr_free(pair->xdr, theirs);
    } else {
        xdr_free((xdrproc_t)xdr_opaque_auth, &((struct accepted_reply *)theirs)->ar_verf);
    }
    free(out);
    free(ours);
    free(between);
    free(theirs);
}

static void try(const struct sample *sample)
{
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (strcmp(pairs[i].spec, sample->spec->name) == 0 &&
            strcmp(pairs[i].ours, sample->codec->name) == 0) {
            compare(&pairs[i], sample);
            uses[i]++;
        }
    }
}

static void libtirpc_agrees(void **state)
{
    (void)state;
    samples_each(try);
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (uses[i] == 0) {
            fail_msg("no sample of %s", pairs[i].ours);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libtirpc_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
