/* SPDX-License-Identifier: Apache-2.0 */
/* NFSv3 messages, from the XDR of RFC 1813 §2.6 and §3.3 by hand. No two words are alike. */
#include "golden.h"
#include "proto/nfs3.h"

/* §2.6 fattr3, 84 bytes. */
#define FATTR3                                                                                     \
    "00000002 000001ed 00000003 000003e8 00000064"          /* NF3DIR, 0755, 3 links, 1000, 100 */ \
    "00000001 00000002 00000003 00000004"                   /* size, used */                       \
    "00000008 00000011"                                     /* rdev 8, 17 */                       \
    "00000005 00000006 00000007 00000009"                   /* fsid, fileid */                     \
    "0000000a 0000000b 0000000c 0000000d 0000000e 0000000f" /* atime, mtime, ctime */
/* §2.6 wcc_attr, 24 bytes. */
#define WCC_ATTR "00000021 00000022 00000023 00000024 00000025 00000026"
#define FH "00000004 f00df11e"
/* §2.6 sattr3 that sets nothing. */
#define NO_SATTR "00000000 00000000 00000000 00000000 00000000 00000000"

static void assert_fattr3(const struct fattr3 *attr)
{
    assert_int_equal(attr->type, NF3DIR);
    assert_int_equal(attr->mode, 0755);
    assert_int_equal(attr->nlink, 3);
    assert_int_equal(attr->uid, 1000);
    assert_int_equal(attr->gid, 100);
    assert_true(attr->size == 0x0000000100000002);
    assert_true(attr->used == 0x0000000300000004);
    assert_int_equal(attr->rdev.specdata1, 8);
    assert_int_equal(attr->rdev.specdata2, 17);
    assert_true(attr->fsid == 0x0000000500000006);
    assert_true(attr->fileid == 0x0000000700000009);
    assert_int_equal(attr->atime.seconds, 10);
    assert_int_equal(attr->atime.nseconds, 11);
    assert_int_equal(attr->mtime.seconds, 12);
    assert_int_equal(attr->mtime.nseconds, 13);
    assert_int_equal(attr->ctime.seconds, 14);
    assert_int_equal(attr->ctime.nseconds, 15);
}

static void assert_wcc(const struct wcc_data *wcc)
{
    assert_true(wcc->before.attributes_follow);
    assert_true(wcc->before.attributes.size == 0x2100000022);
    assert_int_equal(wcc->before.attributes.mtime.seconds, 0x23);
    assert_int_equal(wcc->before.attributes.ctime.nseconds, 0x26);
    assert_true(wcc->after.attributes_follow);
    assert_fattr3(&wcc->after.attributes);
}

static void assert_fh(const struct nfs_fh3 *fh)
{
    unit_same_bytes(fh->data.data, fh->data.size, (const uint8_t *)"\xf0\x0d\xf1\x1e", 4);
}

static void getattr(void **state)
{
    (void)state;
    GOLDEN(GETATTR3args, args, FH);
    assert_fh(&args.object);
    GOLDEN_END(args);
    GOLDEN(GETATTR3res, res, "00000000" FATTR3);
    assert_int_equal(res_bytes, 4 + 84);
    assert_fattr3(&res.resok.obj_attributes);
    GOLDEN_END(res);
    GOLDEN(GETATTR3res, stale, "00000046"); /* a failure carries nothing */
    assert_int_equal(stale.status, NFS3ERR_STALE);
    GOLDEN_END(stale);
}

static void setattr(void **state)
{
    (void)state;
    GOLDEN(SETATTR3args, args,
           FH "00000001 000001a4"                   /* mode 0644 */
              "00000001 00000007 00000001 00000008" /* uid, gid */
              "00000001 00000009 0000000a"          /* size */
              "00000001"                            /* atime: the server's */
              "00000002 0000000b 0000000c"          /* mtime: this */
              "00000001 0000000d 0000000e" /* guard */);
    assert_true(args.new_attributes.mode.set_it);
    assert_int_equal(args.new_attributes.mode.mode, 0644);
    assert_int_equal(args.new_attributes.uid.uid, 7);
    assert_int_equal(args.new_attributes.gid.gid, 8);
    assert_true(args.new_attributes.size.size == 0x90000000a);
    assert_int_equal(args.new_attributes.atime.set_it, SET_TO_SERVER_TIME);
    assert_int_equal(args.new_attributes.mtime.set_it, SET_TO_CLIENT_TIME);
    assert_int_equal(args.new_attributes.mtime.mtime.seconds, 11);
    assert_true(args.guard.check);
    assert_int_equal(args.guard.obj_ctime.nseconds, 14);
    GOLDEN_END(args);

    GOLDEN(SETATTR3args, nothing, FH NO_SATTR "00000000");
    assert_false(nothing.new_attributes.mode.set_it);
    assert_int_equal(nothing.new_attributes.atime.set_it, DONT_CHANGE);
    assert_false(nothing.guard.check);
    GOLDEN_END(nothing);

    GOLDEN(SETATTR3res, res, "00002712 00000001" WCC_ATTR "00000001" FATTR3);
    assert_int_equal(res.status, NFS3ERR_NOT_SYNC);
    assert_wcc(&res.resfail.obj_wcc);
    GOLDEN_END(res);
}

static void lookup(void **state)
{
    (void)state;
    GOLDEN(LOOKUP3args, args, FH "00000005 68656c6c 6f000000");
    assert_fh(&args.what.dir);
    assert_text(args.what.name, "hello");
    GOLDEN_END(args);
    GOLDEN(LOOKUP3args, empty, FH "00000000"); /* form is fine; the server says NFS3ERR_ACCES */
    assert_int_equal(empty.what.name.size, 0);
    GOLDEN_END(empty);
    GOLDEN(LOOKUP3res, res, "00000000" FH "00000001" FATTR3 "00000000");
    assert_fh(&res.resok.object);
    assert_fattr3(&res.resok.obj_attributes.attributes);
    assert_false(res.resok.dir_attributes.attributes_follow);
    GOLDEN_END(res);
    GOLDEN(LOOKUP3res, missing, "00000002 00000001" FATTR3);
    assert_int_equal(missing.status, NFS3ERR_NOENT);
    assert_fattr3(&missing.resfail.dir_attributes.attributes);
    GOLDEN_END(missing);
}

static void access_and_readlink(void **state)
{
    (void)state;
    GOLDEN(ACCESS3args, args, FH "0000003f");
    assert_int_equal(args.access, ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY | ACCESS3_EXTEND |
                                      ACCESS3_DELETE | ACCESS3_EXECUTE);
    GOLDEN_END(args);
    GOLDEN(ACCESS3res, res, "00000000 00000001" FATTR3 "00000021");
    assert_int_equal(res.resok.access, ACCESS3_READ | ACCESS3_EXECUTE);
    GOLDEN_END(res);
    GOLDEN(READLINK3res, link, "00000000 00000000 00000003 2e2e2f00");
    assert_text(link.resok.data, "../");
    GOLDEN_END(link);
}

static void read_and_write(void **state)
{
    (void)state;
    GOLDEN(READ3args, read, FH "00000001 00000002 00001000");
    assert_true(read.offset == 0x100000002);
    assert_int_equal(read.count, 4096);
    GOLDEN_END(read);
    GOLDEN(READ3res, data, "00000000 00000000 00000003 00000001 00000003 61626300");
    assert_int_equal(data.resok.count, 3);
    assert_true(data.resok.eof);
    assert_text(data.resok.data, "abc");
    GOLDEN_END(data);
    GOLDEN(WRITE3args, write, FH "00000000 00000200 00000003 00000002 00000003 61626300");
    assert_true(write.offset == 512);
    assert_int_equal(write.count, 3);
    assert_int_equal(write.stable, FILE_SYNC);
    assert_text(write.data, "abc");
    GOLDEN_END(write);
    GOLDEN(WRITE3res, written,
           "00000000 00000001" WCC_ATTR "00000001" FATTR3 "00000003 00000000 0102030405060708");
    assert_wcc(&written.resok.file_wcc);
    assert_int_equal(written.resok.count, 3);
    assert_int_equal(written.resok.committed, UNSTABLE);
    unit_same_bytes(written.resok.verf, 8, (const uint8_t *)"\1\2\3\4\5\6\7\10", 8);
    GOLDEN_END(written);
}

static void create(void **state)
{
    (void)state;
    GOLDEN(CREATE3args, unchecked, FH "00000001 66000000 00000000" NO_SATTR);
    assert_int_equal(unchecked.how.mode, UNCHECKED);
    assert_false(unchecked.how.obj_attributes.size.set_it);
    GOLDEN_END(unchecked);
    GOLDEN(CREATE3args, guarded,
           FH "00000001 66000000 00000001"
              "00000001 00000180 00000000 00000000 00000000 00000000 00000000");
    assert_int_equal(guarded.how.mode, GUARDED);
    assert_int_equal(guarded.how.obj_attributes.mode.mode, 0600);
    GOLDEN_END(guarded);
    GOLDEN(CREATE3args, exclusive, FH "00000001 66000000 00000002 ffffffff80000001");
    assert_int_equal(exclusive.how.mode, EXCLUSIVE);
    unit_same_bytes(exclusive.how.verf, 8, (const uint8_t *)"\xff\xff\xff\xff\x80\0\0\1", 8);
    GOLDEN_END(exclusive);
    GOLDEN(CREATE3res, res,
           "00000000 00000001" FH "00000001" FATTR3 "00000001" WCC_ATTR "00000001" FATTR3);
    assert_true(res.resok.obj.handle_follows);
    assert_fh(&res.resok.obj.handle);
    assert_fattr3(&res.resok.obj_attributes.attributes);
    assert_wcc(&res.resok.dir_wcc);
    GOLDEN_END(res);
}

static void make_others(void **state)
{
    (void)state;
    GOLDEN(MKDIR3args, mkdir, FH "00000001 64000000" NO_SATTR);
    assert_text(mkdir.where.name, "d");
    GOLDEN_END(mkdir);
    GOLDEN(SYMLINK3args, symlink, FH "00000001 6c000000" NO_SATTR "00000004 2f746d70");
    assert_text(symlink.symlink.symlink_data, "/tmp");
    GOLDEN_END(symlink);
    GOLDEN(MKNOD3args, device, FH "00000001 6e000000 00000004" NO_SATTR "00000005 00000001");
    assert_int_equal(device.what.type, NF3CHR);
    assert_int_equal(device.what.device.spec.specdata1, 5);
    assert_int_equal(device.what.device.spec.specdata2, 1);
    GOLDEN_END(device);
    GOLDEN(MKNOD3args, fifo, FH "00000001 6e000000 00000007" NO_SATTR);
    assert_int_equal(fifo.what.type, NF3FIFO);
    assert_false(fifo.what.pipe_attributes.mode.set_it);
    GOLDEN_END(fifo);
    GOLDEN(MKNOD3args, regular, FH "00000001 6e000000 00000001"); /* the server says BADTYPE */
    assert_int_equal(regular.what.type, NF3REG);
    GOLDEN_END(regular);
}

static void names(void **state)
{
    (void)state;
    GOLDEN(RENAME3args, rename, FH "00000001 61000000 00000002 01020000 00000001 62000000");
    assert_fh(&rename.from.dir);
    assert_text(rename.from.name, "a");
    assert_int_equal(rename.to.dir.data.size, 2);
    assert_text(rename.to.name, "b");
    GOLDEN_END(rename);
    GOLDEN(RENAME3res, renamed,
           "00000000 00000000 00000001" FATTR3 "00000001" WCC_ATTR "00000001" FATTR3);
    assert_false(renamed.resok.fromdir_wcc.before.attributes_follow);
    assert_wcc(&renamed.resok.todir_wcc);
    GOLDEN_END(renamed);
    GOLDEN(LINK3args, link, FH "00000002 01020000 00000001 62000000");
    assert_fh(&link.file);
    assert_text(link.link.name, "b");
    GOLDEN_END(link);
    GOLDEN(REMOVE3res, failed, "0000000d 00000000 00000000");
    assert_int_equal(failed.status, NFS3ERR_ACCES);
    GOLDEN_END(failed);
}

static void readdir(void **state)
{
    (void)state;
    GOLDEN(READDIR3args, args, FH "00000001 00000002 1112131415161718 00000400");
    assert_true(args.cookie == 0x100000002);
    assert_int_equal(args.cookieverf[7], 0x18);
    assert_int_equal(args.count, 1024);
    GOLDEN_END(args);
    GOLDEN(READDIR3res, res,
           "00000000 00000000 1112131415161718"
           "00000001 00000000 00000007 00000001 2e000000 00000000 00000009"
           "00000001 00000000 00000008 00000002 2e2e0000 00000001 0000000a"
           "00000000 00000001");
    assert_true(res.resok.reply.eof);
    struct xdr cursor = xdr_reader(res.resok.reply.entries.data, res.resok.reply.entries.size);
    struct entry3 entry;
    assert_true(entry3_next(&cursor, &entry));
    assert_true(entry.fileid == 7);
    assert_text(entry.name, ".");
    assert_true(entry.cookie == 9);
    assert_true(entry3_next(&cursor, &entry));
    assert_text(entry.name, "..");
    assert_true(entry.cookie == 0x10000000a);
    assert_false(entry3_next(&cursor, &entry));
    assert_true(xdr_ok(&cursor));
    GOLDEN_END(res);
}

static void readdirplus(void **state)
{
    (void)state;
    GOLDEN(READDIRPLUS3args, args, FH "00000000 00000000 0000000000000000 00000200 00001000");
    assert_int_equal(args.dircount, 512);
    assert_int_equal(args.maxcount, 4096);
    GOLDEN_END(args);
    GOLDEN(READDIRPLUS3res, res,
           "00000000 00000001" FATTR3 "1112131415161718"
           "00000001 00000000 00000007 00000001 66000000 00000000 00000009"
           "00000001" FATTR3 "00000001" FH
           "00000001 00000000 00000008 00000001 67000000 00000000 0000000a 00000000 00000000"
           "00000000 00000000");
    assert_false(res.resok.reply.eof);
    struct xdr cursor = xdr_reader(res.resok.reply.entries.data, res.resok.reply.entries.size);
    struct entryplus3 entry;
    assert_true(entryplus3_next(&cursor, &entry));
    assert_text(entry.name, "f");
    assert_fattr3(&entry.name_attributes.attributes);
    assert_fh(&entry.name_handle.handle);
    assert_true(entryplus3_next(&cursor, &entry));
    assert_text(entry.name, "g");
    assert_false(entry.name_attributes.attributes_follow);
    assert_false(entry.name_handle.handle_follows);
    assert_false(entryplus3_next(&cursor, &entry));
    GOLDEN_END(res);
}

static void file_system(void **state)
{
    (void)state;
    GOLDEN(FSSTAT3res, stat,
           "00000000 00000000 00000000 00000001 00000000 00000002 00000000 00000003"
           "00000000 00000004 00000000 00000005 00000000 00000006 00000007");
    assert_true(stat.resok.tbytes == 1 && stat.resok.fbytes == 2 && stat.resok.abytes == 3);
    assert_true(stat.resok.tfiles == 4 && stat.resok.ffiles == 5 && stat.resok.afiles == 6);
    assert_int_equal(stat.resok.invarsec, 7);
    GOLDEN_END(stat);
    GOLDEN(FSINFO3res, info,
           "00000000 00000000 00000001 00000002 00000003 00000004 00000005 00000006 00000007"
           "00000008 00000009 0000000a 0000000b 0000001b");
    assert_int_equal(info.resok.rtmax, 1);
    assert_int_equal(info.resok.rtmult, 3);
    assert_int_equal(info.resok.wtpref, 5);
    assert_int_equal(info.resok.dtpref, 7);
    assert_true(info.resok.maxfilesize == 0x800000009);
    assert_int_equal(info.resok.time_delta.nseconds, 11);
    assert_int_equal(info.resok.properties,
                     FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME);
    GOLDEN_END(info);
    GOLDEN(PATHCONF3res, conf,
           "00000000 00000000 0000ffff 000000ff 00000001 00000000 00000001 00000001");
    assert_int_equal(conf.resok.linkmax, 65535);
    assert_int_equal(conf.resok.name_max, 255);
    assert_true(conf.resok.no_trunc && !conf.resok.chown_restricted);
    assert_true(conf.resok.case_insensitive && conf.resok.case_preserving);
    GOLDEN_END(conf);
    GOLDEN(COMMIT3res, commit, "00000000 00000001" WCC_ATTR "00000001" FATTR3 "0102030405060708");
    assert_wcc(&commit.resok.file_wcc);
    assert_int_equal(commit.resok.verf[0], 1);
    GOLDEN_END(commit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getattr),        cmocka_unit_test(setattr),
        cmocka_unit_test(lookup),         cmocka_unit_test(access_and_readlink),
        cmocka_unit_test(read_and_write), cmocka_unit_test(create),
        cmocka_unit_test(make_others),    cmocka_unit_test(names),
        cmocka_unit_test(readdir),        cmocka_unit_test(readdirplus),
        cmocka_unit_test(file_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
