/* SPDX-License-Identifier: Apache-2.0 */
#include "client/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "nfs://"
#define WORD_BYTES_MAX 64U
#define TRANSFER_BYTES_MAX (1U << 20)

static const char *const libnfs_words[] = {
    "tcp-syncnt", "readahead", "pagecache",      "auto-traverse-mounts", "dircache",
    "debug",      "if",        "readdir-buffer", "autoreconnect",
};

struct setting {
    char word[WORD_BYTES_MAX];
    char value[WORD_BYTES_MAX];
    bool has_value;
};

static int get_number(const struct setting *setting, uint32_t max, uint32_t *number,
                      struct err *err)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(setting->value, &end, 10);
    if (!isdigit((unsigned char)setting->value[0]) || *end != '\0' || errno != 0 || value > max) {
        return err_set(err, -EINVAL, "%s wants a number up to %u, not '%s'", setting->word, max,
                       setting->value);
    }
    *number = (uint32_t)value;
    return 0;
}

static int get_flag(const struct setting *setting, bool *flag, struct err *err)
{
    if (!setting->has_value || strcmp(setting->value, "1") == 0) {
        *flag = true;
    } else if (strcmp(setting->value, "0") == 0) {
        *flag = false;
    } else {
        return err_set(err, -EINVAL, "%s is 0 or 1, not '%s'", setting->word, setting->value);
    }
    return 0;
}

static int get_port(const struct setting *setting, uint16_t *port, struct err *err)
{
    uint32_t number = 0;
    int error = get_number(setting, UINT16_MAX, &number, err);
    *port = (uint16_t)number;
    return error;
}

static int set_proto(const struct setting *setting, struct client_url *url, struct err *err)
{
    url->udp = strcmp(setting->value, "udp") == 0;
    if (!url->udp && strcmp(setting->value, "tcp") != 0) {
        return err_set(err, -EINVAL, "proto is tcp or udp, not '%s'", setting->value);
    }
    return 0;
}

static int set_identity(const struct setting *setting, struct client_url *url, struct err *err)
{
    bool uid = setting->word[0] == 'u';
    *(uid ? &url->has_uid : &url->has_gid) = true;
    return get_number(setting, UINT32_MAX, uid ? &url->uid : &url->gid, err);
}

static int set_timeo(const struct setting *setting, struct client_url *url, struct err *err)
{
    int error = get_number(setting, 6000, &url->timeo_ms, err); /* nfs(5): tenths of a second */
    url->timeo_ms *= 100;
    return error;
}

static int set_version(const struct setting *setting, struct client_url *url, struct err *err)
{
    url->version = strcmp(setting->value, "2") == 0 ? 2 : 3;
    if (url->version == 3 && strcmp(setting->value, "3") != 0) {
        return err_set(err, -EINVAL, "version is 2 or 3, not '%s'", setting->value);
    }
    return 0;
}

static int apply(const struct setting *setting, struct client_url *url, struct err *err)
{
    const char *word = setting->word;
    const struct {
        const char *word;
        uint16_t *port;
    } ports[] = {{"nfsport", &url->nfs_port},
                 {"mountport", &url->mount_port},
                 {"pmapport", &url->pmap_port}};

    for (size_t i = 0; i < COUNT_OF(ports); i++) {
        if (strcmp(word, ports[i].word) == 0) {
            return get_port(setting, ports[i].port, err);
        }
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "vers") == 0) {
        return set_version(setting, url, err);
    }
    if (strcmp(word, "proto") == 0) {
        return set_proto(setting, url, err);
    }
    if (strcmp(word, "uid") == 0 || strcmp(word, "gid") == 0) {
        return set_identity(setting, url, err);
    }
    if (strcmp(word, "rsize") == 0 || strcmp(word, "wsize") == 0) {
        return get_number(setting, TRANSFER_BYTES_MAX, word[0] == 'r' ? &url->rsize : &url->wsize,
                          err);
    }
    if (strcmp(word, "timeo") == 0) {
        return set_timeo(setting, url, err);
    }
    if (strcmp(word, "retrans") == 0) {
        return get_number(setting, 1000, &url->retrans, err);
    }
    if (strcmp(word, "soft") == 0 || strcmp(word, "insecure") == 0) {
        return get_flag(setting, word[0] == 's' ? &url->soft : &url->insecure, err);
    }
    if (strcmp(word, "hard") == 0) {
        bool hard = true;
        int error = get_flag(setting, &hard, err);
        url->soft = !hard;
        return error;
    }
    for (size_t i = 0; i < COUNT_OF(libnfs_words); i++) {
        if (strcmp(word, libnfs_words[i]) == 0) {
            return 0;
        }
    }
    return err_set(err, -EINVAL, "do not know the word '%s'", word);
}

/* Copies up to `end`, decoding %XX. False: no room, a NUL, or no hex digits. */
static bool copy_decoded(const char *from, const char *end, char *to, size_t room)
{
    size_t at = 0;
    while (from < end) {
        char byte = *from++;
        if (byte == '%') {
            char digits[3] = {0};
            if (end - from < 2 || !isxdigit((unsigned char)from[0]) ||
                !isxdigit((unsigned char)from[1])) {
                return false;
            }
            memcpy(digits, from, 2);
            byte = (char)strtoul(digits, NULL, 16);
            from += 2;
        }
        if (byte == '\0' || at + 1 >= room) {
            return false;
        }
        to[at++] = byte;
    }
    to[at] = '\0';
    return true;
}

static int parse_settings(const char *text, struct client_url *url, struct err *err)
{
    while (*text != '\0') {
        const char *end = text + strcspn(text, "&");
        const char *equals = memchr(text, '=', (size_t)(end - text));
        struct setting setting = {.has_value = equals != NULL};
        if (!copy_decoded(text, equals != NULL ? equals : end, setting.word, sizeof setting.word) ||
            (equals != NULL &&
             !copy_decoded(equals + 1, end, setting.value, sizeof setting.value))) {
            return err_set(err, -EINVAL, "cannot read '%s'", text);
        }
        int error = setting.word[0] == '\0' ? 0 : apply(&setting, url, err);
        if (error != 0) {
            return error;
        }
        text = *end == '&' ? end + 1 : end;
    }
    return 0;
}

/* HOST, HOST:PORT, [IPv6] or [IPv6]:PORT. */
static int parse_host(const char *text, const char *end, struct client_url *url, struct err *err)
{
    const char *host_end = end;
    const char *port = NULL;

    if (*text == '[') {
        text++;
        host_end = memchr(text, ']', (size_t)(end - text));
        if (host_end == NULL || (host_end + 1 != end && host_end[1] != ':')) {
            return err_set(err, -EINVAL, "no ']' behind the address");
        }
        port = host_end + 1 != end ? host_end + 2 : NULL;
    } else {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        if (colon != NULL) {
            host_end = colon;
            port = colon + 1;
        }
    }
    if (host_end == text || !copy_decoded(text, host_end, url->host, sizeof url->host)) {
        return err_set(err, -EINVAL, "no host");
    }
    if (port != NULL && port != end) {
        struct setting setting = {.word = "the port"};
        if (!copy_decoded(port, end, setting.value, sizeof setting.value)) {
            return err_set(err, -EINVAL, "cannot read the port");
        }
        return get_port(&setting, &url->nfs_port, err);
    }
    return 0;
}

static void squeeze_slashes(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0'; from++) {
        if (*from != '/' || to == path || to[-1] != '/') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

int client_url_parse(const char *text, struct client_url *url, struct err *err)
{
    struct err why = {0};

    *url = (struct client_url){.version = 3};
    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0) {
        return err_set(err, -EINVAL, "'%s' is not nfs://HOST/PATH", text);
    }
    const char *host = text + strlen(SCHEME);
    const char *host_end = host + strcspn(host, "/?");
    const char *path_end = host_end + strcspn(host_end, "?");
    int error = parse_host(host, host_end, url, &why);
    if (error == 0 && !copy_decoded(host_end, path_end, url->path, sizeof url->path)) {
        error = err_set(&why, -EINVAL, "cannot read the path");
    }
    if (error == 0 && url->path[0] == '\0') {
        strcpy(url->path, "/");
    }
    squeeze_slashes(url->path);
    if (error == 0 && *path_end == '?') {
        error = parse_settings(path_end + 1, url, &why);
    }
    return error == 0 ? 0 : err_set(err, error, "%s: %s", text, why.text);
}
