/* SPDX-License-Identifier: Apache-2.0 */
/* Message heads from RFC 5531 §9 and Appendix A, the portmapper from RFC 1833 §3.1 and §2.1. */
#include "golden.h"
#include "proto/pmap.h"
#include "proto/rpc.h"

static void call(void **state)
{
    (void)state;
    GOLDEN(rpc_msg, msg,
           "51a70001 00000000"                   /* xid, CALL */
           "00000002 000186a3 00000003 00000001" /* RPC 2, NFS 3, GETATTR */
           "00000001 00000024"                   /* AUTH_SYS, 36 bytes */
           "0000000a 00000005 70726f62 65000000" /* stamp, "probe" */
           "000003e8 00000064"                   /* uid 1000, gid 100 */
           "00000002 00000004 00000018"          /* two groups */
           "00000000 00000000");                 /* AUTH_NONE */
    assert_int_equal(msg.xid, 0x51a70001);
    assert_int_equal(msg.body.mtype, CALL);
    const struct call_body *body = &msg.body.cbody;
    assert_int_equal(body->rpcvers, RPC_VERSION);
    assert_int_equal(body->prog, 100003);
    assert_int_equal(body->vers, 3);
    assert_int_equal(body->proc, 1);
    assert_int_equal(body->cred.flavor, AUTH_SYS);
    assert_int_equal(body->verf.flavor, AUTH_NONE);
    assert_int_equal(body->verf.body.size, 0);

    struct xdr inner = xdr_reader(body->cred.body.data, body->cred.body.size);
    struct authsys_parms parms;
    assert_true(authsys_parms_get(&inner, &parms));
    assert_int_equal(xdr_left(&inner), 0);
    assert_int_equal(parms.stamp, 10);
    assert_text(parms.machinename, "probe");
    assert_int_equal(parms.uid, 1000);
    assert_int_equal(parms.gid, 100);
    assert_int_equal(parms.gids_count, 2);
    assert_int_equal(parms.gids[0], 4);
    assert_int_equal(parms.gids[1], 24);
    GOLDEN_END(msg);
}

static void replies(void **state)
{
    (void)state;
    GOLDEN(rpc_msg, success, "00000007 00000001 00000000 00000000 00000000 00000000");
    assert_int_equal(success.body.rbody.stat, MSG_ACCEPTED);
    assert_int_equal(success.body.rbody.areply.reply_data.stat, SUCCESS);
    GOLDEN_END(success);

    GOLDEN(rpc_msg, mismatch,
           "00000007 00000001 00000000 00000000 00000000 00000002 00000002 00000004");
    assert_int_equal(mismatch.body.rbody.areply.reply_data.stat, PROG_MISMATCH);
    assert_int_equal(mismatch.body.rbody.areply.reply_data.mismatch.low, 2);
    assert_int_equal(mismatch.body.rbody.areply.reply_data.mismatch.high, 4);
    GOLDEN_END(mismatch);

    GOLDEN(rpc_msg, garbage, "00000007 00000001 00000000 00000000 00000000 00000004");
    assert_int_equal(garbage.body.rbody.areply.reply_data.stat, GARBAGE_ARGS);
    GOLDEN_END(garbage);

    GOLDEN(rpc_msg, version, "00000007 00000001 00000001 00000000 00000002 00000002");
    assert_int_equal(version.body.rbody.stat, MSG_DENIED);
    assert_int_equal(version.body.rbody.rreply.stat, RPC_MISMATCH);
    assert_int_equal(version.body.rbody.rreply.mismatch.high, 2);
    GOLDEN_END(version);

    GOLDEN(rpc_msg, denied, "00000007 00000001 00000001 00000001 00000005");
    assert_int_equal(denied.body.rbody.rreply.stat, AUTH_ERROR);
    assert_int_equal(denied.body.rbody.rreply.why, AUTH_TOOWEAK);
    GOLDEN_END(denied);
}

/* RFC 5531 §8.2: a body of over 400 bytes is not opaque_auth; Appendix A: 16 groups and no more. */
static void limits(void **state)
{
    (void)state;
    uint8_t bytes[512] = {0, 0, 0, 1, 0, 0, 0x01, 0x91};
    struct xdr xdr = xdr_reader(bytes, sizeof(bytes));
    struct opaque_auth auth;
    assert_false(opaque_auth_get(&xdr, &auth));
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    bytes[7] = 0x90;
    xdr = xdr_reader(bytes, sizeof(bytes));
    assert_true(opaque_auth_get(&xdr, &auth));
    assert_int_equal(auth.body.size, 400);

    uint8_t parms_bytes[128] = {[19] = 17};
    struct authsys_parms parms;
    xdr = xdr_reader(parms_bytes, sizeof(parms_bytes));
    assert_false(authsys_parms_get(&xdr, &parms));
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    parms_bytes[19] = 16;
    xdr = xdr_reader(parms_bytes, sizeof(parms_bytes));
    assert_true(authsys_parms_get(&xdr, &parms));
    assert_int_equal(parms.gids_count, 16);
}

static void portmap(void **state)
{
    (void)state;
    GOLDEN(mapping, mapping, "000186a3 00000003 00000006 00000801");
    assert_int_equal(mapping.prog, 100003);
    assert_int_equal(mapping.vers, 3);
    assert_int_equal(mapping.prot, 6);
    assert_int_equal(mapping.port, 2049);
    GOLDEN_END(mapping);

    GOLDEN(pmaplist_ptr, dump,
           "00000001 000186a0 00000002 00000011 0000006f"
           "00000001 000186a5 00000003 00000006 00000801"
           "00000000");
    struct xdr cursor = xdr_reader(dump.list.data, dump.list.size);
    struct pmaplist entry;
    assert_true(pmaplist_next(&cursor, &entry));
    assert_int_equal(entry.map.prog, 100000);
    assert_int_equal(entry.map.port, 111);
    assert_true(pmaplist_next(&cursor, &entry));
    assert_int_equal(entry.map.prog, 100005);
    assert_int_equal(entry.map.prot, 6);
    assert_false(pmaplist_next(&cursor, &entry));
    GOLDEN_END(dump);

    GOLDEN(proto_u32, port, "00000801");
    assert_int_equal(port.value, 2049);
    GOLDEN_END(port);
}

static void rpcbind(void **state)
{
    (void)state;
    GOLDEN(rpcb, rpcb,
           "000186a3 00000003"
           "00000003 74637000"                   /* "tcp" */
           "0000000b 302e302e 302e302e 382e3100" /* "0.0.0.0.8.1": port 8 * 256 + 1 */
           "00000009 73757065 72757365 72000000" /* "superuser", 9 bytes */);
    assert_int_equal(rpcb.r_prog, 100003);
    assert_int_equal(rpcb.r_vers, 3);
    assert_text(rpcb.r_netid, "tcp");
    assert_text(rpcb.r_addr, "0.0.0.0.8.1");
    assert_text(rpcb.r_owner, "superuser");
    GOLDEN_END(rpcb);

    GOLDEN(rpcb_entry_list_ptr, addresses,
           "00000001"
           "0000000d 3132372e 302e302e 312e382e 31000000" /* "127.0.0.1.8.1" */
           "00000003 74637000 00000003"                   /* "tcp", NC_TPI_COTS_ORD */
           "00000004 696e6574 00000003 74637000"          /* "inet", "tcp" */
           "00000000");
    struct xdr cursor = xdr_reader(addresses.list.data, addresses.list.size);
    struct rpcb_entry_list entry;
    assert_true(rpcb_entry_list_next(&cursor, &entry));
    assert_text(entry.rpcb_entry_map.r_maddr, "127.0.0.1.8.1");
    assert_int_equal(entry.rpcb_entry_map.r_nc_semantics, 3);
    assert_text(entry.rpcb_entry_map.r_nc_protofmly, "inet");
    assert_false(rpcb_entry_list_next(&cursor, &entry));
    GOLDEN_END(addresses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call),    cmocka_unit_test(replies), cmocka_unit_test(limits),
        cmocka_unit_test(portmap), cmocka_unit_test(rpcbind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
