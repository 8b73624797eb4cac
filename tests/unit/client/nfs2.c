/* SPDX-License-Identifier: Apache-2.0 */
/* Version 3 asked, version 2 spoken: the words that go out and what becomes of those that come. */
#include "client/nfs2.h"

#include "caller.h"
#include "client/wait.h"
#include "proto/nfs2.h"
#include "proto/nfs3.h"

#include <errno.h>
#include <sys/socket.h>

#define KEEP UINT32_MAX
#define FATTR_WORDS 17U

/* What the server says next, and what it was asked last. */
struct talk {
    uint8_t results[20000];
    size_t results_bytes;
    uint32_t vers, proc;
    uint8_t args[20000];
    size_t args_bytes;
};

static void script(struct stub *stub)
{
    static struct stub_call call;
    static uint8_t out[20100];
    struct talk *talk = stub->state;

    while (stub_receive(stub, &call)) {
        talk->vers = call.vers;
        talk->proc = call.proc;
        talk->args_bytes = call.args_bytes;
        memcpy(talk->args, call.args, call.args_bytes);
        stub_send(stub, &call, out,
                  stub_success(out, call.xid, talk->results, talk->results_bytes));
    }
}

static struct stub stub;
static struct talk talk;
static struct caller caller;
static struct client_answer answer;
static uint8_t handle[NFS_FHSIZE];
static const struct nfs_fh3 fh = {{handle, sizeof handle}};

static int set_up(void **state)
{
    static const struct client_rpc_options options = {
        .insecure = true, .prog = NFS_PROGRAM, .vers = NFS_VERSION, .speak = client_nfs2_call};
    (void)state;
    memset(handle, 7, sizeof handle);
    stub = (struct stub){.state = &talk};
    stub_start(&stub, SOCK_DGRAM, script);
    caller_open(&caller, &stub, &options);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client_answer_free(&answer);
    caller_close(&caller);
    stub_stop(&stub);
    return 0;
}

static void say(const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stub_word(talk.results + talk.results_bytes, words[i]);
        talk.results_bytes += 4;
    }
}

static void say_status(uint32_t status)
{
    talk.results_bytes = 0;
    say(&status, 1);
}

static void say_fattr(uint32_t type, uint32_t mode, uint32_t size, uint32_t rdev)
{
    const uint32_t words[FATTR_WORDS] = {type, mode, 2,  3,  4,  size,   4096, rdev, 5,
                                         6,    7,    10, 11, 12, 999999, 14,   15};
    say(words, FATTR_WORDS);
}

static int ask(uint32_t proc, const void *args)
{
    return client_wait(caller.loop, caller.rpc, proc, args, &answer);
}

static uint32_t asked_word(size_t index)
{
    assert_true(talk.args_bytes >= 4 * (index + 1));
    return stub_word_at(talk.args + 4 * index);
}

/* The status that every caller reads from the bytes (client/nfs3.c) is there, too. */
static uint32_t status(void)
{
    assert_true(answer.results.size >= 4);
    assert_int_equal(stub_word_at(answer.results.data), *(const uint32_t *)answer.res);
    return stub_word_at(answer.results.data);
}

static void attributes_come_in_64_bits(void **state)
{
    (void)state;
    struct GETATTR3args args = {fh};
    say_status(0);
    say_fattr(1, 0100644, UINT32_MAX, KEEP);
    assert_int_equal(ask(NFSPROC3_GETATTR, &args), 0);
    assert_int_equal(talk.vers, 2);
    assert_int_equal(talk.proc, NFSPROC_GETATTR);
    assert_int_equal(talk.args_bytes, NFS_FHSIZE);
    assert_memory_equal(talk.args, handle, NFS_FHSIZE);
    assert_int_equal(status(), NFS3_OK);
    const struct fattr3 *attr = &((const struct GETATTR3res *)answer.res)->resok.obj_attributes;
    assert_int_equal(attr->type, NF3REG);
    assert_int_equal(attr->mode, 0644);
    assert_int_equal(attr->nlink, 2);
    assert_int_equal(attr->uid, 3);
    assert_int_equal(attr->gid, 4);
    assert_int_equal(attr->size, UINT32_MAX);
    assert_int_equal(attr->used, 5 * 512);
    assert_int_equal(attr->fsid, 6);
    assert_int_equal(attr->fileid, 7);
    assert_int_equal(attr->atime.seconds, 10);
    assert_int_equal(attr->atime.nseconds, 11000);
    assert_int_equal(attr->mtime.nseconds, 999999000);
    assert_int_equal(attr->ctime.seconds, 14);
}

static void types_of_old_and_new_servers(void **state)
{
    static const struct {
        uint32_t type, mode, rdev;
        enum ftype3 type3;
    } cases[] = {
        {1, 0100600, KEEP, NF3REG},  {2, 0040700, KEEP, NF3DIR},  {5, 0120777, KEEP, NF3LNK},
        {3, 0060600, 0x801, NF3BLK}, {4, 0020600, 0x441, NF3CHR}, {4, 0020600, KEEP, NF3FIFO},
        {4, 0010600, KEEP, NF3FIFO}, {8, 0600, 0, NF3FIFO},       {0, 0140600, KEEP, NF3SOCK},
        {6, 0600, KEEP, NF3SOCK},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct GETATTR3args args = {fh};
        say_status(0);
        say_fattr(cases[i].type, cases[i].mode, 0, cases[i].rdev);
        assert_int_equal(ask(NFSPROC3_GETATTR, &args), 0);
        const struct GETATTR3res *res = answer.res;
        assert_int_equal(res->resok.obj_attributes.type, cases[i].type3);
        if (cases[i].rdev == 0x441) {
            assert_int_equal(res->resok.obj_attributes.rdev.specdata1, 4);
            assert_int_equal(res->resok.obj_attributes.rdev.specdata2, 0x41);
        }
    }
}

/* RFC 1094 §2.3.6: all ones for what is left; 10^6 microseconds for the server's time. */
static void what_is_set_goes_out_word_by_word(void **state)
{
    (void)state;
    struct SETATTR3args args = {.object = fh};
    args.new_attributes.mode.set_it = true;
    args.new_attributes.mode.mode = 0640;
    args.new_attributes.atime.set_it = SET_TO_SERVER_TIME;
    args.new_attributes.mtime.set_it = SET_TO_CLIENT_TIME;
    args.new_attributes.mtime.mtime = (struct nfstime3){77, 123456789};
    say_status(0);
    say_fattr(1, 0100640, 9, KEEP);
    assert_int_equal(ask(NFSPROC3_SETATTR, &args), 0);
    static const uint32_t right[] = {0640, KEEP, KEEP, KEEP, 0, 1000000, 77, 123456};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_int_equal(asked_word(NFS_FHSIZE / 4 + i), right[i]);
    }
    const struct SETATTR3res *res = answer.res;
    assert_false(res->resok.obj_wcc.before.attributes_follow);
    assert_int_equal(res->resok.obj_wcc.after.attributes.size, 9);
}

/* There is no eof in version 2. */
static void the_end_of_a_file_is_told_by_its_size(void **state)
{
    static const struct {
        uint32_t size, offset, bytes;
        bool eof;
    } cases[] = {
        {100, 0, 8, false},     {100, 92, 8, true},        {100, 96, 4, true},
        {100, 100, 0, true},    {100, 200, 0, true},       {8, 0, 8, true},
        {KEEP, 4096, 8, false}, {KEEP, KEEP - 7, 7, true}, {KEEP - 1, KEEP - 9, 8, true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct READ3args args = {.file = fh, .offset = cases[i].offset, .count = 8};
        const uint32_t data[] = {cases[i].bytes, 0x61626364, 0x65666768};
        say_status(0);
        say_fattr(1, 0100644, cases[i].size, KEEP);
        say(data, 1 + (cases[i].bytes + 3) / 4);
        assert_int_equal(ask(NFSPROC3_READ, &args), 0);
        assert_int_equal(asked_word(8), cases[i].offset);
        assert_int_equal(asked_word(9), 8);
        const struct READ3res *res = answer.res;
        assert_int_equal(res->resok.count, cases[i].bytes);
        assert_int_equal(res->resok.data.size, cases[i].bytes);
        assert_int_equal(res->resok.eof, cases[i].eof);
    }
}

/* Rule 2 of the header, without a datagram. */
static void what_cannot_be_said_is_an_error(void **state)
{
    static uint8_t text[1025];
    struct READ3args far = {.file = fh, .offset = 1ULL << 32, .count = 1};
    struct WRITE3args over = {.file = fh, .offset = UINT32_MAX, .count = 1, .data = {text, 1}};
    struct SETATTR3args large = {.object = fh};
    struct LOOKUP3args name = {{fh, {text, 256}}};
    struct SYMLINK3args link = {.where = {fh, {text, 1}}, .symlink.symlink_data = {text, 1025}};
    struct CREATE3args exclusive = {.where = {fh, {text, 1}}, .how.mode = EXCLUSIVE};
    struct GETATTR3args short_handle = {{{handle, 16}}};
    uint32_t before = atomic_load(&stub.calls);
    (void)state;
    large.new_attributes.size.set_it = true;
    large.new_attributes.size.size = UINT32_MAX;
    assert_int_equal(ask(NFSPROC3_READ, &far), -EFBIG);
    assert_int_equal(ask(NFSPROC3_WRITE, &over), -EFBIG);
    assert_int_equal(ask(NFSPROC3_SETATTR, &large), -EFBIG);
    assert_int_equal(ask(NFSPROC3_LOOKUP, &name), -ENAMETOOLONG);
    assert_int_equal(ask(NFSPROC3_SYMLINK, &link), -ENAMETOOLONG);
    assert_int_equal(ask(NFSPROC3_CREATE, &exclusive), -EOPNOTSUPP);
    assert_int_equal(ask(NFSPROC3_GETATTR, &short_handle), -EBADF);
    assert_int_equal(ask(NFSPROC3_READDIRPLUS, &far), -EOPNOTSUPP);
    assert_int_equal(ask(100, &far), -EOPNOTSUPP);
    assert_int_equal(atomic_load(&stub.calls), before);
}

/* And with the file's name and the number in the size. */
static void special_files_are_created_the_old_way(void **state)
{
    static const uint8_t name[] = "dev";
    static const struct {
        enum ftype3 type;
        uint32_t mode, size;
    } cases[] = {{NF3CHR, 0020600, 0x11110370},
                 {NF3BLK, 0060600, 0x11110370},
                 {NF3FIFO, 0020600, KEEP},
                 {NF3SOCK, 0140600, KEEP}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bool device = i < 2;
        struct MKNOD3args args = {.where = {fh, {name, 3}}, .what.type = cases[i].type};
        struct sattr3 *sattr =
            device ? &args.what.device.dev_attributes : &args.what.pipe_attributes;
        sattr->mode.set_it = true;
        sattr->mode.mode = 0600;
        if (device) {
            args.what.device.spec = (struct specdata3){259, 70000};
        }
        say_status(17);
        assert_int_equal(ask(NFSPROC3_MKNOD, &args), 0);
        assert_int_equal(talk.proc, NFSPROC_CREATE);
        assert_int_equal(asked_word(10), cases[i].mode);
        assert_int_equal(asked_word(13), cases[i].size);
        assert_int_equal(status(), NFS3ERR_EXIST);
    }
}

static void listings_keep_their_cookies(void **state)
{
    static const uint32_t words[] = {1,  11, 1,          0x61000000, 0x80000001, 1,
                                     12, 2,  0x62620000, 0xffffffff, 0,          1};
    struct READDIR3args args = {.dir = fh, .cookie = 0xfffffffe, .count = 100000};
    struct entry3 entry;
    (void)state;
    say_status(0);
    say(words, COUNT_OF(words));
    assert_int_equal(ask(NFSPROC3_READDIR, &args), 0);
    assert_int_equal(asked_word(8), 0xfffffffe);
    assert_int_equal(asked_word(9), NFS_MAXDATA);
    const struct READDIR3res *res = answer.res;
    assert_true(res->resok.reply.eof);
    struct xdr cursor = xdr_reader(res->resok.reply.entries.data, res->resok.reply.entries.size);
    assert_true(entry3_next(&cursor, &entry));
    assert_int_equal(entry.fileid, 11);
    assert_int_equal(entry.cookie, 0x80000001);
    assert_true(entry3_next(&cursor, &entry));
    assert_int_equal(entry.name.size, 2);
    assert_memory_equal(entry.name.data, "bb", 2);
    assert_int_equal(entry.cookie, 0xffffffff);
    assert_false(entry3_next(&cursor, &entry));
}

/* Those that Linux servers send, and no others: what is no status is a broken reply. */
static void statuses_of_other_servers(void **state)
{
    static const uint32_t cases[][2] = {{2, NFS3ERR_NOENT},  {18, NFS3ERR_XDEV},
                                        {22, NFS3ERR_INVAL}, {45, NFS3ERR_NOTSUPP},
                                        {70, NFS3ERR_STALE}, {99, NFS3ERR_IO}};
    struct GETATTR3args args = {fh};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        say_status(cases[i][0]);
        assert_int_equal(ask(NFSPROC3_GETATTR, &args), 0);
        assert_int_equal(status(), cases[i][1]);
    }
    say_status(3);
    assert_int_equal(ask(NFSPROC3_GETATTR, &args), -EBADMSG);
    say_status(0); /* and then nothing */
    assert_int_equal(ask(NFSPROC3_GETATTR, &args), -EBADMSG);
}

static void a_write_is_stable(void **state)
{
    static uint8_t data[10000];
    struct WRITE3args args = {
        .file = fh, .offset = 5, .count = 3, .stable = UNSTABLE, .data = {data, 3}};
    (void)state;
    say_status(0);
    say_fattr(1, 0100644, 8, KEEP);
    assert_int_equal(ask(NFSPROC3_WRITE, &args), 0);
    assert_int_equal(asked_word(9), 5);
    assert_int_equal(asked_word(11), 3);
    const struct WRITE3res *res = answer.res;
    assert_int_equal(res->resok.committed, FILE_SYNC);
    assert_int_equal(res->resok.count, 3);
    struct COMMIT3args commit = {.file = fh};
    writeverf3 verf;
    memcpy(verf, res->resok.verf, sizeof verf);
    assert_int_equal(ask(NFSPROC3_COMMIT, &commit), 0);
    assert_int_equal(talk.proc, NFSPROC_GETATTR);
    assert_memory_equal(((const struct COMMIT3res *)answer.res)->resok.verf, verf, sizeof verf);
    args.count = args.data.size = sizeof data; /* more than fits: the rest is for the next */
    assert_int_equal(ask(NFSPROC3_WRITE, &args), 0);
    assert_int_equal(((const struct WRITE3res *)answer.res)->resok.count, NFS_MAXDATA);
}

static void what_the_server_can_take(void **state)
{
    static const uint32_t words[] = {4096, 1024, 1000, 500, 400};
    struct FSINFO3args args = {fh};
    struct FSSTAT3args stat_args = {fh};
    (void)state;
    say_status(0);
    say(words, COUNT_OF(words));
    assert_int_equal(ask(NFSPROC3_FSINFO, &args), 0);
    assert_int_equal(talk.proc, NFSPROC_STATFS);
    assert_int_equal(((const struct FSINFO3res *)answer.res)->resok.rtmax, 4096);
    assert_int_equal(ask(NFSPROC3_FSSTAT, &stat_args), 0);
    assert_int_equal(((const struct FSSTAT3res *)answer.res)->resok.tbytes, 1024000);
    assert_int_equal(((const struct FSSTAT3res *)answer.res)->resok.abytes, 409600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_come_in_64_bits),
        cmocka_unit_test(types_of_old_and_new_servers),
        cmocka_unit_test(what_is_set_goes_out_word_by_word),
        cmocka_unit_test(the_end_of_a_file_is_told_by_its_size),
        cmocka_unit_test(what_cannot_be_said_is_an_error),
        cmocka_unit_test(special_files_are_created_the_old_way),
        cmocka_unit_test(listings_keep_their_cookies),
        cmocka_unit_test(statuses_of_other_servers),
        cmocka_unit_test(a_write_is_stable),
        cmocka_unit_test(what_the_server_can_take),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
