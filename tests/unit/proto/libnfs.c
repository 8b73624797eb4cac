/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated codecs against libnfs' (rpcgen descendants that share nothing with ours): what
 * libnfs makes of a sample and encodes again must be what ours decodes and encodes again. Both
 * directions are one, since each side reads what the other wrote. That names stand for the same
 * bytes is checked by names.py.
 */
#include "samples.h"

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-nlm.h>
#include <nfsc/libnfs-raw-nsm.h>
#include <nfsc/libnfs-raw-portmap.h>
#include <nfsc/libnfs-raw-rquota.h>

struct pair {
    const char *spec;
    const char *ours;
    zdrproc_t zdr;
    size_t size_bytes;
};

#define PAIR(SPEC, OURS, THEIRS)                                                                   \
    {                                                                                              \
        SPEC, #OURS, (zdrproc_t)zdr_##THEIRS, sizeof(THEIRS)                                       \
    }
#define NFS3(NAME) PAIR("nfs3", NAME, NAME)
#define NFS3_OP(NAME) NFS3(NAME##3args), NFS3(NAME##3res)
#define NFS2(OURS, THEIRS) PAIR("nfs2", OURS, THEIRS)

/* clang-format off */
static const struct pair pairs[] = {
    NFS3_OP(GETATTR), NFS3_OP(SETATTR), NFS3_OP(LOOKUP), NFS3_OP(ACCESS), NFS3_OP(READLINK),
    NFS3_OP(READ), NFS3_OP(WRITE), NFS3_OP(CREATE), NFS3_OP(MKDIR), NFS3_OP(SYMLINK),
    NFS3_OP(MKNOD), NFS3_OP(REMOVE), NFS3_OP(RMDIR), NFS3_OP(RENAME), NFS3_OP(LINK),
    NFS3_OP(READDIR), NFS3_OP(READDIRPLUS), NFS3_OP(FSSTAT), NFS3_OP(FSINFO), NFS3_OP(PATHCONF),
    NFS3_OP(COMMIT),
    NFS2(fhandle, GETATTR2args), NFS2(attrstat, GETATTR2res), NFS2(sattrargs, SETATTR2args),
    NFS2(diropargs, LOOKUP2args), NFS2(diropres, LOOKUP2res), NFS2(readlinkres, READLINK2res),
    NFS2(readargs, READ2args), NFS2(readres, READ2res), NFS2(writeargs, WRITE2args),
    NFS2(createargs, CREATE2args), NFS2(statres, REMOVE2res), NFS2(renameargs, RENAME2args),
    NFS2(linkargs, LINK2args), NFS2(symlinkargs, SYMLINK2args), NFS2(readdirargs, READDIR2args),
    NFS2(readdirres, READDIR2res), NFS2(statfsres, STATFS2res),
    PAIR("nfsacl", GETACL3args, GETACL3args), PAIR("nfsacl", GETACL3resok, GETACL3resok),
    PAIR("nfsacl", SETACL3args, SETACL3args), PAIR("nfsacl", SETACL3resok, SETACL3resok),
    PAIR("nfsacl", aclent, nfsacl_ace),
    PAIR("rquota", getquota_args, GETQUOTA1args), PAIR("rquota", ext_getquota_args, GETQUOTA2args),
    PAIR("rquota", getquota_rslt, GETQUOTA1res), PAIR("rquota", rquota, GETQUOTA1res_ok),
    PAIR("mount", dirpath, dirpath), PAIR("mount", fhstatus, mountres1),
    PAIR("mount", mountres3, mountres3), PAIR("mount", mountlist, mountlist),
    PAIR("mount", exports, exports),
    PAIR("pmap", mapping, pmap2_mapping), PAIR("pmap", pmaplist_ptr, pmap2_dump_result),
    PAIR("pmap", call_args, pmap2_call_args), PAIR("pmap", call_result, pmap2_call_result),
    PAIR("pmap", rpcb, pmap3_mapping), PAIR("pmap", rpcblist_ptr, pmap3_dump_result),
    PAIR("pmap", rpcb_rmtcallargs, pmap3_call_args), PAIR("pmap", netbuf, pmap3_netbuf),
    PAIR("pmap", rpcb_string, pmap3_string_result),
    PAIR("nlm", nlm4_testargs, NLM4_TESTargs), PAIR("nlm", nlm4_testres, NLM4_TESTres),
    PAIR("nlm", nlm4_lockargs, NLM4_LOCKargs), PAIR("nlm", nlm4_res, NLM4_LOCKres),
    PAIR("nlm", nlm4_cancargs, NLM4_CANCargs), PAIR("nlm", nlm4_unlockargs, NLM4_UNLOCKargs),
    PAIR("nsm", sm_name, NSM1_STATargs), PAIR("nsm", sm_stat_res, NSM1_STATres),
    PAIR("nsm", mon, NSM1_MONargs), PAIR("nsm", mon_id, NSM1_UNMONargs),
    PAIR("nsm", my_id, NSM1_UNMONALLargs), PAIR("nsm", sm_stat, NSM1_UNMONres),
    PAIR("nsm", stat_chge, NSM1_NOTIFYargs),
};
/* clang-format on */

static size_t uses[COUNT_OF(pairs)];

static void compare(const struct pair *pair, const struct sample *sample)
{
    void *theirs = calloc(1, pair->size_bytes);
    uint8_t *between = calloc(1, sample->size_bytes + 4);
    ZDR from, to;
    zdrmem_create(&from, (caddr_t)sample->bytes, (uint32_t)sample->size_bytes, ZDR_DECODE);
    if (!pair->zdr(&from, theirs)) {
        fail_msg("libnfs cannot decode a sample of %s", pair->ours);
    }
    assert_int_equal(zdr_getpos(&from), sample->size_bytes);
    zdrmem_create(&to, (caddr_t)between, (uint32_t)sample->size_bytes + 4, ZDR_ENCODE);
    assert_true(pair->zdr(&to, theirs));
    size_t between_bytes = zdr_getpos(&to);

    void *ours = samples_value(sample);
    struct xdr xdr = xdr_reader(between, between_bytes);
    assert_true(sample->codec->get(&xdr, ours));
    assert_int_equal(xdr_left(&xdr), 0);
    uint8_t *out = malloc(sample->size_bytes + 4);
    struct xdr back = xdr_writer(out, sample->size_bytes + 4);
    assert_true(sample->codec->put(&back, ours));
    unit_same_bytes(out, xdr_offset(&back), sample->bytes, sample->size_bytes);

    zdr_destroy(&to);
    zdr_destroy(&from);
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

static void libnfs_agrees(void **state)
{
    (void)state;
    samples_each(try);
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (uses[i] == 0) {
            fail_msg("no sample of %s", pairs[i].ours);
        }
    }
}

/* Every argument and result of NFSv3 stands in the table above. */
static void nothing_of_nfs3_is_left_out(void **state)
{
    (void)state;
    for (uint32_t proc = 1; proc < 22; proc++) {
        const struct proto_procedure *procedure = proto_procedure_find(100003, 3, proc);
        size_t found = 0;
        for (size_t i = 0; i < COUNT_OF(pairs); i++) {
            found += strcmp(pairs[i].ours, procedure->args->name) == 0;
            found += strcmp(pairs[i].ours, procedure->res->name) == 0;
        }
        assert_int_equal(found, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libnfs_agrees),
        cmocka_unit_test(nothing_of_nfs3_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
