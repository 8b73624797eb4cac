/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words between the brackets. Every word of the exports(5) manual has a row here; none is
 * swallowed. A word that would let more in, or protect something, and is not built condemns its
 * line; one that only asks for comfort that is not built is a warning; one that asks for what we do
 * anyway, or that has nothing to act on here, is taken without comment.
 */
#include "vfs/export_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum word_kind {
    WORD_FLAG,      /* sets a bool of struct export_options */
    WORD_VALUE,     /* "word=": handled by set_value */
    WORD_NO_EFFECT, /* accepted: `why` is for the reader */
    WORD_WARN,      /* not built; the export works without */
    WORD_REFUSE     /* not built; the line would not mean what its author meant */
};

struct word_row {
    const char *word; /* with a final '=' if it takes a value */
    enum word_kind kind;
    size_t offset; /* WORD_FLAG */
    bool value;
    bool by_flavor; /* a sec= before it restricts it to those flavors */
    const char *why;
};

#define FLAG(name, field, on)                                                                      \
    {                                                                                              \
        .word = name, .kind = WORD_FLAG, .offset = offsetof(struct export_options, field),         \
        .value = on                                                                                \
    }
#define FLAG_BY_FLAVOR(name, field, on)                                                            \
    {                                                                                              \
        .word = name, .kind = WORD_FLAG, .offset = offsetof(struct export_options, field),         \
        .value = on, .by_flavor = true                                                             \
    }

static const struct word_row words[] = {
    FLAG_BY_FLAVOR("rw", rw, true),
    FLAG_BY_FLAVOR("ro", rw, false),
    FLAG_BY_FLAVOR("root_squash", root_squash, true),
    FLAG_BY_FLAVOR("no_root_squash", root_squash, false),
    FLAG_BY_FLAVOR("all_squash", all_squash, true),
    FLAG_BY_FLAVOR("no_all_squash", all_squash, false),
    FLAG("sync", sync, true),
    FLAG("async", sync, false),
    FLAG("secure", secure, true),
    FLAG("insecure", secure, false),
    FLAG("crossmnt", crossmnt, true),
    FLAG("nocrossmnt", crossmnt, false),
    FLAG("nohide", nohide, true),
    FLAG("hide", nohide, false),
    FLAG("rdirplus", readdirplus, true),
    FLAG("nordirplus", readdirplus, false),
    FLAG("manage_gids", manage_gids, true),
    FLAG("no_manage_gids", manage_gids, false),
    FLAG("acl", acl, true),
    FLAG("no_acl", acl, false),
    FLAG("secure_locks", secure_locks, true),
    FLAG("insecure_locks", secure_locks, false),
    FLAG("auth_nlm", secure_locks, true),
    FLAG("no_auth_nlm", secure_locks, false),

    {.word = "anonuid=", .kind = WORD_VALUE},
    {.word = "anongid=", .kind = WORD_VALUE},
    {.word = "fsid=", .kind = WORD_VALUE},
    {.word = "mountpoint", .kind = WORD_VALUE},
    {.word = "mountpoint=", .kind = WORD_VALUE},
    {.word = "mp", .kind = WORD_VALUE},
    {.word = "mp=", .kind = WORD_VALUE},
    {.word = "journal=", .kind = WORD_VALUE},
    {.word = "async_window=", .kind = WORD_VALUE},
    {.word = "sec=", .kind = WORD_VALUE},
    {.word = "xprtsec=", .kind = WORD_VALUE},

    {.word = "wdelay", .kind = WORD_NO_EFFECT, .why = "writes that wait share a flush anyway"},
    {.word = "no_wdelay", .kind = WORD_NO_EFFECT, .why = "there is no delay to avoid"},
    {.word = "no_subtree_check", .kind = WORD_NO_EFFECT, .why = "what we do"},
    {.word = "no_pnfs", .kind = WORD_NO_EFFECT, .why = "what we do"},

    {.word = "subtree_check",
     .kind = WORD_WARN,
     .why =
         "handles are sealed, so a client cannot make one up; but a file that is moved out of the "
         "directory keeps its handle"},
    {.word = "pnfs", .kind = WORD_WARN, .why = "there is no NFSv4 yet"},
    {.word = "security_label", .kind = WORD_WARN, .why = "there is no NFSv4 yet"},
    {.word = "replicas=", .kind = WORD_WARN, .why = "there is no NFSv4 yet"},

    {.word = "refer=", .kind = WORD_REFUSE, .why = "clients would get the directory itself"},
    {.word = "reexport=", .kind = WORD_REFUSE, .why = "handles would not survive a restart"},
    {.word = "squash_uids=", .kind = WORD_REFUSE, .why = "those users would not be squashed"},
    {.word = "squash_gids=", .kind = WORD_REFUSE, .why = "those groups would not be squashed"},
};

#define WORD_COUNT COUNT_OF(words)

bool export_number(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;
    const char *c = text;

    for (; *c >= '0' && *c <= '9'; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (number > (max - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (c == text || *c != '\0' || number > max) {
        return false;
    }
    *value = number;
    return true;
}

/* How many bytes to insert, delete or change; gives up above 2. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[32];
    size_t a_bytes = strlen(a);
    size_t b_bytes = strlen(b);

    if (a_bytes >= COUNT_OF(row) || b_bytes >= COUNT_OF(row)) {
        return 3;
    }
    for (unsigned j = 0; j <= b_bytes; j++) {
        row[j] = j;
    }
    for (unsigned i = 1; i <= a_bytes; i++) {
        unsigned corner = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_bytes; j++) {
            unsigned best = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[b_bytes];
}

static void unknown_word(struct export_context *context, const char *word)
{
    const char *nearest = NULL;
    unsigned nearest_distance = 3;

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        unsigned d = distance(word, words[i].word);
        if (d < nearest_distance && d < strlen(words[i].word)) {
            nearest_distance = d;
            nearest = words[i].word;
        }
    }
    if (nearest != NULL) {
        export_error(context, "'%s' is no export option; did you mean '%s'?", word, nearest);
    } else {
        export_error(context, "'%s' is no export option", word);
    }
}

static bool set_id(struct export_context *context, const char *word, const char *value,
                   uint32_t *id)
{
    uint64_t number;

    /* exports(5) examples of old have -2 for nobody; -1 is no user (chown(2) takes it for "keep").
     */
    if (value[0] == '-' && export_number(value + 1, 1U << 31, &number) && number >= 2) {
        *id = (uint32_t)-number;
        return true;
    }
    if (!export_number(value, UINT32_MAX - 1, &number)) {
        export_error(context, "'%s%s': an id is a number from 0 to 4294967294", word, value);
        return false;
    }
    if (number == 0) {
        export_warning(context, "'%s0' makes squashed callers root", word);
    }
    *id = (uint32_t)number;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* exports(5): "a UUID which should contain 32 hex digits and arbitrary punctuation". */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    unsigned digits = 0;

    memset(uuid, 0, 16);
    for (const char *c = text; *c != '\0'; c++) {
        int digit = hex_digit(*c);
        if (digit >= 0 && digits < 32) {
            uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | digit);
            digits++;
        } else if (digit >= 0 || strchr("-:._", *c) == NULL) {
            return false;
        }
    }
    return digits == 32;
}

static bool parse_fsid_number(const char *text, uint64_t *number)
{
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && hex_digit(text[2]) >= 0) {
        char *end;
        *number = strtoul(text + 2, &end, 16);
        return *end == '\0' && *number <= UINT32_MAX;
    }
    return export_number(text, UINT32_MAX, number);
}

static bool set_fsid(struct export_context *context, const char *value,
                     struct export_options *options)
{
    uint64_t number = 0;
    uint8_t fsid[16] = {0};

    bool is_root = strcmp(value, "root") == 0;
    if (is_root || parse_fsid_number(value, &number)) {
        is_root = number == 0;
        for (int i = 0; i < 4; i++) {
            fsid[12 + i] = (uint8_t)(number >> (24 - 8 * i));
        }
    } else if (!parse_uuid(value, fsid)) {
        export_error(
            context,
            "'fsid=%s': write a number up to 4294967295, 'root', or a UUID of 32 hex digits",
            value);
        return false;
    }
    options->has_fsid = true;
    options->fsid_is_root = is_root;
    memcpy(options->fsid, fsid, sizeof options->fsid);
    return true;
}

/* exports(5): without a path it is the directory itself. */
static bool set_mountpoint(struct export_context *context, const char *path,
                           struct export_options *options)
{
    if (path[0] != '\0' && path[0] != '/') {
        export_error(context, "'mountpoint=%s': a path that begins with '/' is meant", path);
        return false;
    }
    options->mountpoint = export_keep(context, path);
    return options->mountpoint != NULL;
}

/* Ours: what the admin of a server decides for each file system. */
static bool set_journal(struct export_context *context, const char *value,
                        struct export_options *options)
{
    if ((value[0] != '/' && strcmp(value, "off") != 0 && strcmp(value, "auto") != 0) ||
        strlen(value) > EXPORT_PATH_BYTES_MAX) {
        export_error(context,
                     "'journal=%.64s': 'off', 'auto', or the path of a file or block device, which "
                     "begins with '/' and has no more than %u bytes, is meant",
                     value, EXPORT_PATH_BYTES_MAX);
        return false;
    }
    options->journal = export_keep(context, value);
    return options->journal != NULL;
}

/* "500", "500ms" or "2s". */
static bool set_async_window(struct export_context *context, const char *value,
                             struct export_options *options)
{
    char digits[16];
    uint64_t number = 0;
    size_t bytes = strspn(value, "0123456789");
    const char *unit = value + bytes;
    bool seconds = strcmp(unit, "s") == 0;
    bool ok = bytes < sizeof digits && (seconds || *unit == '\0' || strcmp(unit, "ms") == 0);
    if (ok) {
        memcpy(digits, value, bytes);
        digits[bytes] = '\0';
        ok = export_number(digits, EXPORT_ASYNC_WINDOW_MS_MAX / (seconds ? 1000 : 1), &number);
    }
    if (!ok) {
        export_error(context,
                     "'async_window=%s': milliseconds, or a number with ms or s behind it, up to "
                     "%us",
                     value, EXPORT_ASYNC_WINDOW_MS_MAX / 1000);
        return false;
    }
    options->has_async_window = true;
    options->async_window_ms = (uint32_t)number * (seconds ? 1000 : 1);
    return true;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(word, *list) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * "a:b:c" for sec= and xprtsec=. Sets *served when a flavor that we serve is in it; the others are
 * a warning each, so that an admin knows who will not get in. False after an error.
 */
static bool flavors(struct export_context *context, const char *word, char *value,
                    const char *const *ours, const char *const *known, bool *served)
{
    char *rest = value;

    *served = false;
    for (char *flavor = strsep(&rest, ":"); flavor != NULL; flavor = strsep(&rest, ":")) {
        if (is_one_of(flavor, ours)) {
            *served = true;
        } else if (is_one_of(flavor, known)) {
            export_warning(context, "'%s%s' is not built yet: only %s%s gets in", word, flavor,
                           word, ours[0]);
        } else {
            export_error(context, "'%s' is nothing that %s knows", flavor, word);
            return false;
        }
    }
    return true;
}

/* What one option list said so far. */
struct list_state {
    bool sec_seen, sec_served;               /* any sec=; any with sys in it */
    bool sys_now;                            /* words here count for AUTH_SYS */
    const struct word_row *said[WORD_COUNT]; /* the words that counted, */
    uint32_t said_count;                     /* the first of each subject */
};

static bool set_value(struct export_context *context, const char *word, char *value,
                      struct export_options *options, struct list_state *state)
{
    static const char *const sys[] = {"sys", "unix", NULL};
    static const char *const other_sec[] = {"krb5", "krb5i", "krb5p", "none", "null", NULL};
    static const char *const plain[] = {"none", NULL};
    static const char *const other_xprtsec[] = {"tls", "mtls", NULL};

    if (strcmp(word, "anonuid=") == 0) {
        return set_id(context, word, value, &options->anonuid);
    }
    if (strcmp(word, "anongid=") == 0) {
        return set_id(context, word, value, &options->anongid);
    }
    if (strcmp(word, "fsid=") == 0) {
        return set_fsid(context, value, options);
    }
    if (word[0] == 'm') {
        return set_mountpoint(context, value, options);
    }
    if (strcmp(word, "journal=") == 0) {
        return set_journal(context, value, options);
    }
    if (strcmp(word, "async_window=") == 0) {
        return set_async_window(context, value, options);
    }
    if (strcmp(word, "sec=") == 0) {
        bool ok = flavors(context, word, value, sys, other_sec, &state->sys_now);
        state->sec_seen = true;
        state->sec_served = state->sec_served || state->sys_now;
        return ok;
    }
    bool served;
    if (!flavors(context, word, value, plain, other_xprtsec, &served)) {
        return false;
    }
    if (!served) {
        export_error(context,
                     "TLS is not built yet, so that 'xprtsec=' without 'none' lets nobody in");
    }
    return served;
}

static const struct word_row *find_word(const char *word, size_t word_bytes)
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strlen(words[i].word) == word_bytes && memcmp(words[i].word, word, word_bytes) == 0) {
            return &words[i];
        }
    }
    return NULL;
}

/* The last word counts, as it always did. An author who wrote both meant one. */
static void warn_of_contradiction(struct export_context *context, const struct word_row *row,
                                  struct list_state *state)
{
    for (uint32_t i = 0; i < state->said_count; i++) {
        const struct word_row *before = state->said[i];
        if (before->kind != row->kind || before->kind == WORD_NO_EFFECT) {
            continue;
        }
        if (row->kind == WORD_FLAG && before->offset == row->offset) {
            if (before->value != row->value) {
                export_warning(context, "'%s' takes back the '%s' before it; write one of them",
                               row->word, before->word);
            }
            state->said[i] = row;
            return;
        }
        if (row->kind == WORD_VALUE && before == row) {
            export_warning(context, "'%s' is given twice; the last one counts", row->word);
            return;
        }
    }
    state->said[state->said_count++] = row;
}

static bool apply_word(struct export_context *context, char *word, struct export_options *options,
                       struct list_state *state)
{
    const char *equals = strchr(word, '=');
    size_t name_bytes = equals == NULL ? strlen(word) : (size_t)(equals - word) + 1;
    const struct word_row *row = find_word(word, name_bytes);

    if (row == NULL) {
        unknown_word(context, word);
        return false;
    }
    switch (row->kind) {
    case WORD_FLAG:
        if (state->sys_now || !row->by_flavor) {
            warn_of_contradiction(context, row, state);
            *(bool *)((char *)options + row->offset) = row->value;
        }
        return true;
    case WORD_VALUE:
        if (strcmp(row->word, "sec=") != 0) { /* may come more than once */
            warn_of_contradiction(context, row, state);
        }
        return set_value(context, row->word, word + name_bytes, options, state);
    case WORD_NO_EFFECT:
        return true;
    case WORD_WARN:
        export_warning(context, "'%s' is not built yet: %s", word, row->why);
        return true;
    case WORD_REFUSE:
        export_error(context, "'%s' is not built yet: %s", word, row->why);
        return false;
    }
    return false;
}

bool export_options_parse(struct export_context *context, char *list,
                          struct export_options *options)
{
    struct list_state state = {.sys_now = true};
    bool ok = true;
    char *rest = *list == '\0' ? NULL : list;

    for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
        if (*word == '\0') {
            /* nfs-utils takes it, too. */
            export_warning(context, "a comma too many in the options: there is no word %s it",
                           rest == NULL ? "behind" : "before");
        } else if (!apply_word(context, word, options, &state)) {
            ok = false;
        }
    }
    if (ok && state.sec_seen && !state.sec_served) {
        export_error(context,
                     "only sec=sys is built yet: without 'sys' in it, sec= lets nobody in");
        ok = false;
    }
    return ok;
}

void export_options_text(const struct export_options *options,
                         char text[EXPORT_OPTIONS_TEXT_BYTES_MAX])
{
    char fsid[48] = "";
    char window[32] = "";
    const char *journal = options->journal != NULL ? options->journal : "";
    const char *mountpoint = options->mountpoint == NULL         ? ""
                             : options->mountpoint[0] == '\0' ? ",mountpoint"
                                                               : ",mountpoint=";

    if (options->has_fsid && options->fsid_is_root) {
        (void)snprintf(fsid, sizeof fsid, ",fsid=root");
    } else if (options->has_fsid) {
        static const uint8_t zeros[12] = {0};
        const uint8_t *b = options->fsid;
        if (memcmp(b, zeros, sizeof zeros) == 0) {
            (void)snprintf(fsid, sizeof fsid, ",fsid=%u",
                           (unsigned)b[12] << 24 | (unsigned)b[13] << 16 | (unsigned)b[14] << 8 |
                               (unsigned)b[15]);
        } else {
            (void)snprintf(
                fsid, sizeof fsid,
                ",fsid=%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
        }
    }
    if (options->has_async_window) {
        (void)snprintf(window, sizeof window, ",async_window=%ums", options->async_window_ms);
    }
    (void)snprintf(text, EXPORT_OPTIONS_TEXT_BYTES_MAX,
                   "%s,%s,%s,%s,%s,anonuid=%u,anongid=%u%s%s%s%s%s%s%s%s%.*s%s%.*s%s",
                   options->rw ? "rw" : "ro", options->sync ? "sync" : "async",
                   options->secure ? "secure" : "insecure",
                   options->root_squash ? "root_squash" : "no_root_squash",
                   options->all_squash ? "all_squash" : "no_all_squash", options->anonuid,
                   options->anongid, fsid, options->crossmnt ? ",crossmnt" : "",
                   options->nohide ? ",nohide" : "", options->readdirplus ? "" : ",nordirplus",
                   options->acl ? "" : ",no_acl", options->manage_gids ? ",manage_gids" : "",
                   options->secure_locks ? "" : ",insecure_locks", mountpoint,
                   (int)EXPORT_PATH_BYTES_MAX,
                   options->mountpoint == NULL ? "" : options->mountpoint,
                   journal[0] != '\0' ? ",journal=" : "", (int)EXPORT_PATH_BYTES_MAX, journal,
                   window);
}
