/* SPDX-License-Identifier: Apache-2.0 */
/* URLs as people write them, and as they should not. */
#include "client/url.h"

#include "lib/unit.h"

static void parts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *path;
        uint16_t nfs_port;
    } cases[] = {
        {"nfs://server/export/dir/file", "server", "/export/dir/file", 0},
        {"nfs://server", "server", "/", 0},
        {"nfs://server/", "server", "/", 0},
        {"nfs://server?uid=1", "server", "/", 0},
        {"nfs://server:2050/e", "server", "/e", 2050},
        {"nfs://server:/e", "server", "/e", 0},
        {"nfs://192.0.2.7//a///b/", "192.0.2.7", "/a/b/", 0},
        {"nfs://[2001:db8::1]/e", "2001:db8::1", "/e", 0},
        {"nfs://[::1]:2049/e", "::1", "/e", 2049},
        {"nfs://[fe80::1%25eth0]/e", "fe80::1%eth0", "/e", 0},
        {"nfs://s/a%20b/%3Fwhat%25/%c3%a4", "s", "/a b/?what%/\xc3\xa4", 0},
        {"nfs://s/a+b", "s", "/a+b", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct client_url url;
        struct err err = {0};
        if (client_url_parse(cases[i].text, &url, &err) != 0) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(url.host, cases[i].host);
        assert_string_equal(url.path, cases[i].path);
        assert_int_equal(url.nfs_port, cases[i].nfs_port);
    }
}

static void settings(void **state)
{
    (void)state;
    struct client_url url;
    struct err err = {0};

    assert_int_equal(client_url_parse("nfs://s/e?uid=0&gid=4294967295&version=3&nfsport=2049&"
                                      "mountport=635&pmapport=1111&proto=udp&rsize=8192&"
                                      "wsize=4096&timeo=11&retrans=5&soft&insecure=1&"
                                      "readahead=1048576&dircache=0&auto-traverse-mounts=0",
                                      &url, &err),
                     0);
    assert_int_equal(url.version, 3);
    assert_true(url.has_uid && url.uid == 0);
    assert_true(url.has_gid && url.gid == UINT32_MAX);
    assert_int_equal(url.nfs_port, 2049);
    assert_int_equal(url.mount_port, 635);
    assert_int_equal(url.pmap_port, 1111);
    assert_true(url.udp && url.soft && url.insecure);
    assert_int_equal(url.rsize, 8192);
    assert_int_equal(url.wsize, 4096);
    assert_int_equal(url.timeo_ms, 1100);
    assert_int_equal(url.retrans, 5);
    assert_int_equal(client_url_parse("nfs://s/e?vers=2", &url, &err), 0);
    assert_int_equal(url.version, 2);
    assert_int_equal(client_url_parse("nfs://s/e", &url, &err), 0);
    assert_int_equal(url.version, 3);

    assert_int_equal(client_url_parse("nfs://s/e?soft=1&hard&insecure=0&proto=tcp&&", &url, &err),
                     0);
    assert_false(url.udp || url.soft || url.insecure || url.has_uid || url.has_gid);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"/srv/files", "nfs://HOST/PATH"},
        {"http://s/e", "nfs://HOST/PATH"},
        {"nfs:///e", "no host"},
        {"nfs://[::1/e", "']'"},
        {"nfs://[::1]x/e", "']'"},
        {"nfs://s:99999/e", "port"},
        {"nfs://s:20x/e", "port"},
        {"nfs://s/a%2", "path"},
        {"nfs://s/a%zz", "path"},
        {"nfs://s/a%00b", "path"},
        {"nfs://s/e?version=4", "version"},
        {"nfs://s/e?vers=", "version"},
        {"nfs://s/e?vers=22", "version"},
        {"nfs://s/e?proto=sctp", "proto"},
        {"nfs://s/e?uid=root", "uid"},
        {"nfs://s/e?uid=-1", "uid"},
        {"nfs://s/e?uid=4294967296", "uid"},
        {"nfs://s/e?rsize=2000000", "rsize"},
        {"nfs://s/e?soft=maybe", "soft"},
        {"nfs://s/e?colour=red", "colour"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct client_url url;
        struct err err = {0};
        assert_int_not_equal(client_url_parse(cases[i].text, &url, &err), 0);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
    }
}

static void too_long(void **state)
{
    (void)state;
    struct client_url url;
    struct err err = {0};
    static char text[8000];

    memset(text, 'a', sizeof text - 1);
    memcpy(text, "nfs://s/", 8);
    assert_int_not_equal(client_url_parse(text, &url, &err), 0);
    memcpy(text, "nfs://ss", 8);
    assert_int_not_equal(client_url_parse(text, &url, &err), 0);
    memcpy(text, "nfs://s?", 8);
    assert_int_not_equal(client_url_parse(text, &url, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(settings),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
