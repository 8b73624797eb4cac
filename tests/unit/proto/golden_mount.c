/* SPDX-License-Identifier: Apache-2.0 */
/* MOUNT from RFC 1813 §5.1.5 and §5.2, and version 1 from RFC 1094 Appendix A. */
#include "golden.h"
#include "proto/mount.h"

static void mnt(void **state)
{
    (void)state;
    GOLDEN(dirpath, dirpath, "00000008 2f737276 2f782f65"); /* "/srv/x/e" */
    assert_text(dirpath.path, "/srv/x/e");
    GOLDEN_END(dirpath);

    GOLDEN(mountres3, ok,
           "00000000"                   /* MNT3_OK */
           "00000005 01020304 05000000" /* a handle of 5 bytes */
           "00000002 00000001 00000000" /* AUTH_SYS, AUTH_NONE */);
    assert_int_equal(ok.fhs_status, MNT3_OK);
    unit_same_bytes(ok.mountinfo.fhandle.data.data, ok.mountinfo.fhandle.data.size,
                    (const uint8_t *)"\1\2\3\4\5", 5);
    assert_int_equal(ok.mountinfo.auth_flavors_count, 2);
    assert_int_equal(ok.mountinfo.auth_flavors[0], 1);
    assert_int_equal(ok.mountinfo.auth_flavors[1], 0);
    GOLDEN_END(ok);

    GOLDEN(mountres3, refused, "0000000d");
    assert_int_equal(refused.fhs_status, MNT3ERR_ACCES);
    GOLDEN_END(refused);
}

static void mnt_version_1(void **state)
{
    (void)state;
    GOLDEN(fhstatus, ok,
           "00000000"
           "00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f");
    assert_int_equal(ok.status, 0);
    assert_int_equal(ok.directory[31], 31);
    GOLDEN_END(ok);

    GOLDEN(fhstatus, refused, "0000000d"); /* a UNIX errno, and nothing after it */
    assert_int_equal(refused.status, 13);
    GOLDEN_END(refused);
}

static void dump(void **state)
{
    (void)state;
    GOLDEN(mountlist, list,
           "00000001 00000002 68310000 00000004 2f737276" /* h1, /srv */
           "00000001 00000003 68323200 00000001 2f000000" /* h22, / */
           "00000000");
    struct xdr cursor = xdr_reader(list.list.data, list.list.size);
    struct mountbody body;
    assert_true(mountbody_next(&cursor, &body));
    assert_text(body.ml_hostname, "h1");
    assert_text(body.ml_directory, "/srv");
    assert_true(mountbody_next(&cursor, &body));
    assert_text(body.ml_hostname, "h22");
    assert_text(body.ml_directory, "/");
    assert_false(mountbody_next(&cursor, &body));
    GOLDEN_END(list);
}

static void export(void **state)
{
    (void)state;
    GOLDEN(exports, exports,
           "00000001 00000002 2f610000"          /* /a */
           "00000001 00000001 2a000000 00000000" /* to *, */
           "00000001 00000002 2f620000"          /* /b */
           "00000001 00000003 3a3a3100"          /* to ::1 */
           "00000001 00000006 40677275 70650000" /* and to @grupe, */
           "00000000 00000000");
    struct xdr cursor = xdr_reader(exports.list.data, exports.list.size);
    struct exportnode node;
    struct groupnode group;
    assert_true(exportnode_next(&cursor, &node));
    assert_text(node.ex_dir, "/a");
    assert_true(exportnode_next(&cursor, &node));
    assert_text(node.ex_dir, "/b");
    struct xdr groups = xdr_reader(node.ex_groups.data, node.ex_groups.size);
    assert_true(groupnode_next(&groups, &group));
    assert_text(group.gr_name, "::1");
    assert_true(groupnode_next(&groups, &group));
    assert_text(group.gr_name, "@grupe");
    assert_false(groupnode_next(&groups, &group));
    assert_false(exportnode_next(&cursor, &node));
    GOLDEN_END(exports);
}

/* A list whose end is missing is an error, and gives nothing. */
static void list_without_end(void **state)
{
    (void)state;
    size_t size_bytes;
    uint8_t *bytes = unit_hex("00000001 00000002 68310000 00000004 2f737276 00000001", &size_bytes);
    struct xdr xdr = xdr_reader(bytes, size_bytes);
    struct mountlist list;
    assert_false(mountlist_get(&xdr, &list));
    assert_int_equal(xdr.error, XDR_SHORT);
    assert_int_equal(list.list.size, 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnt),    cmocka_unit_test(mnt_version_1),    cmocka_unit_test(dump),
        cmocka_unit_test(export), cmocka_unit_test(list_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
