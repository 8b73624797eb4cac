/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What src/proto/codec.h promises of every generated codec, tried on samples of every type: the
 * same bytes come back, a missing byte is an error and never read, and a small buffer is never
 * overrun.
 */
#include "proto/mount.h"
#include "proto/nfs2.h"
#include "proto/nfs3.h"
#include "proto/nlm.h"
#include "proto/pmap.h"
#include "proto/spray.h"
#include "samples.h"

static void round_trip(const struct sample *sample)
{
    void *value = samples_value(sample);
    struct xdr xdr = xdr_reader(sample->bytes, sample->size_bytes);
    if (!sample->codec->get(&xdr, value)) {
        fail_msg("%s: %s at %u", sample->codec->name, xdr_error_name(xdr.error), xdr.error_offset);
    }
    assert_int_equal(xdr_left(&xdr), 0);
    assert_int_equal(xdr.notes, 0);
    uint8_t *out = malloc(sample->size_bytes + 1);
    struct xdr to = xdr_writer(out, sample->size_bytes);
    assert_true(sample->codec->put(&to, value));
    unit_same_bytes(out, xdr_offset(&to), sample->bytes, sample->size_bytes);
    free(out);
    free(value);
}

/* Every prefix is too short, as bytes to read and as room to write to. The copies are exact, so
 * that AddressSanitizer sees a step over either end. */
static void prefixes(const struct sample *sample)
{
    void *value = samples_value(sample), *part = samples_value(sample);
    struct xdr whole = xdr_reader(sample->bytes, sample->size_bytes);
    assert_true(sample->codec->get(&whole, value));
    size_t step = sample->size_bytes > 512 ? 61 : 1;
    for (size_t size = 0; size < sample->size_bytes; size += step) {
        uint8_t *bytes = unit_copy(sample->bytes, size);
        struct xdr xdr = xdr_reader(bytes, size);
        assert_false(sample->codec->get(&xdr, part));
        assert_int_equal(xdr.error, XDR_SHORT);
        struct xdr to = xdr_writer(bytes, size);
        assert_false(sample->codec->put(&to, value));
        assert_in_range(xdr_offset(&to), 0, size);
        free(bytes);
    }
    free(part);
    free(value);
}

/* Whatever was damaged, a decoded value is one that can be printed and encoded. */
static void damage(const struct sample *sample)
{
    static uint64_t seed = 0x9e3779b97f4a7c15U;
    FILE *nowhere = fopen("/dev/null", "w");
    void *value = samples_value(sample);
    for (int turn = 0; turn < 8 && sample->size_bytes > 0; turn++) {
        uint8_t *bytes = unit_copy(sample->bytes, sample->size_bytes);
        uint64_t random = unit_random(&seed);
        bytes[random % sample->size_bytes] ^= (uint8_t)(1U << (random >> 61));
        struct xdr xdr = xdr_reader(bytes, sample->size_bytes);
        if (sample->codec->get(&xdr, value)) {
            uint8_t *out = malloc(sample->size_bytes);
            struct xdr to = xdr_writer(out, sample->size_bytes);
            assert_true(sample->codec->put(&to, value));
            if (xdr.notes == 0) {
                unit_same_bytes(out, xdr_offset(&to), bytes, xdr_offset(&xdr));
            }
            sample->codec->print(nowhere, 0, value);
            free(out);
        }
        free(bytes);
    }
    free(value);
    fclose(nowhere);
}

static void same_bytes_come_back(void **state)
{
    (void)state;
    assert_in_range(samples_each(round_trip), 1000, SIZE_MAX);
}

static void nothing_is_read_or_written_beyond(void **state)
{
    (void)state;
    samples_each(prefixes);
}

static void damage_is_survived(void **state)
{
    (void)state;
    samples_each(damage);
}

/* Caps bind both directions: one more than allowed is XDR_TOO_LONG, not a longer read. */
static void caps(void **state)
{
    (void)state;
    static uint8_t bytes[2048] = {0, 0, 0, 65};
    struct xdr xdr = xdr_reader(bytes, sizeof(bytes));
    struct nfs_fh3 fh = {.data = {.data = bytes, .size = 9}};
    assert_false(nfs_fh3_get(&xdr, &fh));
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    assert_int_equal(fh.data.size, 0);

    uint8_t out[2048];
    struct xdr to = xdr_writer(out, sizeof(out));
    fh.data = (struct xdr_bytes){.data = bytes, .size = NFS3_FHSIZE + 1};
    assert_false(nfs_fh3_put(&to, &fh));
    assert_int_equal(to.error, XDR_TOO_LONG);

    struct mountres3_ok mountres = {.auth_flavors_count = MNT_FLAVORS_MAX + 1};
    to = xdr_writer(out, sizeof(out));
    assert_false(mountres3_ok_put(&to, &mountres));
    assert_int_equal(to.error, XDR_TOO_LONG);

    bytes[3] = 0;                   /* an empty handle, */
    bytes[7] = MNT_FLAVORS_MAX + 1; /* and one flavour too many */
    xdr = xdr_reader(bytes, sizeof(bytes));
    assert_false(mountres3_ok_get(&xdr, &mountres));
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    assert_int_equal(mountres.auth_flavors_count, 0);
}

static void enums_and_arms(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 0, 0, 3, 0, 0, 0, 0}; /* nfsstat3 has no 3 */
    struct xdr xdr = xdr_reader(bytes, sizeof(bytes));
    struct GETATTR3res res;
    assert_false(GETATTR3res_get(&xdr, &res));
    assert_int_equal(xdr.error, XDR_BAD_ENUM);

    uint8_t out[8];
    struct xdr to = xdr_writer(out, sizeof(out));
    res.status = (enum nfsstat3)3;
    assert_false(GETATTR3res_put(&to, &res));
    assert_int_equal(to.error, XDR_BAD_ENUM);

    struct createhow3 how; /* a union without a default: 3 is no createmode3 */
    xdr = xdr_reader(bytes, sizeof(bytes));
    assert_false(createhow3_get(&xdr, &how));
    assert_int_equal(xdr.error, XDR_BAD_ENUM);

    assert_string_equal(nfsstat3_name(NFS3ERR_JUKEBOX), "NFS3ERR_JUKEBOX");
    assert_string_equal(nfsstat3_name((enum nfsstat3)3), "?");
}

static void put_names(struct xdr *to, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct groupnode group = {
            .gr_name = {.data = (const uint8_t *)names[i], .size = (uint32_t)strlen(names[i])}};
        assert_true(groupnode_list_put(to, &group));
    }
    assert_true(xdr_list_end(to));
}

/* A list is built in memory, put as it is, read back, and walked; lists may hold lists. */
static void lists(void **state)
{
    (void)state;
    static const char *const names[] = {"*", "10.0.0.0/8", "x"};
    uint8_t memory[256], out[256];
    struct xdr to = xdr_writer(memory, sizeof(memory));
    put_names(&to, names, COUNT_OF(names));
    struct exportnode node = {.ex_dir = {.data = (const uint8_t *)"/srv", .size = 4},
                              .ex_groups = xdr_since(&to, memory)};
    const uint8_t *from = to.next;
    assert_true(exportnode_list_put(&to, &node));
    node.ex_groups = (struct xdr_bytes){0};
    assert_true(exportnode_list_put(&to, &node));
    assert_true(xdr_list_end(&to));
    struct exports exports = {.list = xdr_since(&to, from)};
    struct xdr reply = xdr_writer(out, sizeof(out));
    assert_true(exports_put(&reply, &exports));

    struct xdr xdr = xdr_reader(out, xdr_offset(&reply));
    struct exports got;
    assert_true(exports_get(&xdr, &got));
    assert_int_equal(xdr_left(&xdr), 0);
    struct xdr cursor = xdr_reader(got.list.data, got.list.size);
    assert_true(exportnode_next(&cursor, &node));
    struct xdr inner = xdr_reader(node.ex_groups.data, node.ex_groups.size);
    struct groupnode group;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_true(groupnode_next(&inner, &group));
        unit_same_bytes(group.gr_name.data, group.gr_name.size, (const uint8_t *)names[i],
                        strlen(names[i]));
    }
    assert_false(groupnode_next(&inner, &group));
    assert_true(xdr_ok(&inner));
    assert_true(exportnode_next(&cursor, &node));
    assert_false(exportnode_next(&cursor, &node));
    assert_true(xdr_ok(&cursor));
}

static void empty_lists(void **state)
{
    (void)state;
    struct mountlist none = {0};
    uint8_t out[4] = {9, 9, 9, 9};
    struct xdr to = xdr_writer(out, sizeof(out));
    assert_true(mountlist_put(&to, &none));
    unit_same_bytes(out, xdr_offset(&to), (const uint8_t *)"\0\0\0\0", 4);
    struct xdr cursor = xdr_reader(none.list.data, none.list.size);
    struct mountbody body;
    assert_false(mountbody_next(&cursor, &body));
}

static void procedures_are_found(void **state)
{
    (void)state;
    const struct proto_procedure *readdirplus = proto_procedure_find(100003, 3, 17);
    assert_non_null(readdirplus);
    assert_string_equal(readdirplus->name, "NFSPROC3_READDIRPLUS");
    assert_string_equal(readdirplus->args->name, "READDIRPLUS3args");
    assert_string_equal(readdirplus->res->name, "READDIRPLUS3res");
    assert_string_equal(readdirplus->section, "RFC 1813 §3.3.17");
    assert_null(proto_procedure_find(100003, 3, 22));
    assert_null(proto_procedure_find(100003, 9, 0));
    assert_null(proto_procedure_find(100021, 4, 17));
    assert_null(proto_procedure_find(100000, 2, 0)->args);
    assert_int_equal(SPRAYPROC_GET, 2);
    assert_int_equal(NLMPROC4_FREE_ALL, 23);
    assert_int_equal(NFS_PROGRAM, 100003);
    assert_int_equal(NFS_V3, 3);
    assert_int_equal(NFS_VERSION, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_come_back), cmocka_unit_test(nothing_is_read_or_written_beyond),
        cmocka_unit_test(damage_is_survived),   cmocka_unit_test(caps),
        cmocka_unit_test(enums_and_arms),       cmocka_unit_test(lists),
        cmocka_unit_test(empty_lists),          cmocka_unit_test(procedures_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
