/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exports(5) text to a table. Pure on bytes: no file is opened, no name is looked up. (Only the
 * directory of a command line argument is: it may be relative.)
 *
 *     LINE     = DIR { -OPTIONS | CLIENT[(OPTIONS)] }
 *     in any word: "..." keeps blanks and #, \ooo is a byte in octal
 *     \ at the end of a line joins the next line to it, # starts a comment, blanks part words
 *
 * 1. A line with an error in it is left out as a whole, and all its errors are reported.
 * 2. What nfs-utils would take in a way that its author did not mean is a warning.
 * 3. Memory is bounded by the size of the text and the limits in export.h.
 */
#include "vfs/export_internal.h"
#include "vfs/outside.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct export_context context; /* its line is the line of the last word */
    const char *next;
    const char *end;
    unsigned line; /* of next */
    bool comments; /* # starts one */
    bool has_nul;  /* somewhere in the text */
    char *word;    /* the last word, NUL-terminated; room for all of the text */
    size_t word_bytes;
    bool word_quoted; /* there were quotes or escapes in it */
};

/* One line while it is read. */
struct line {
    char *path;
    uint32_t client_count;
    struct export_client *clients;
    struct export_options defaults;
    bool defaults_unused;    /* no client came behind the last -OPTIONS */
    const char *bare_client; /* the client before, if it had no brackets */
};

static const struct export_options file_defaults = {
    .sync = true,
    .secure = true,
    .root_squash = true,
    .anonuid = 65534,
    .anongid = 65534,
    .readdirplus = true,
    .acl = true,
    .secure_locks = true,
};
static const struct export_options argument_defaults = {
    .rw = true,
    .sync = true,
    .root_squash = true,
    .anonuid = 65534,
    .anongid = 65534,
    .readdirplus = true,
    .acl = true,
    .secure_locks = true,
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Bytes of a line end at `at`, a CR before the LF included; 0 if there is none. */
static size_t newline_bytes(const struct reader *reader, const char *at)
{
    if (at < reader->end && *at == '\n') {
        return 1;
    }
    return reader->end - at >= 2 && at[0] == '\r' && at[1] == '\n' ? 2 : 0;
}

/* Takes "\ newline blanks" if it stands next. */
static bool take_continuation(struct reader *reader)
{
    if (reader->next == reader->end || *reader->next != '\\') {
        return false;
    }
    size_t bytes = newline_bytes(reader, reader->next + 1);
    if (bytes == 0) {
        return false;
    }
    reader->next += 1 + bytes;
    reader->line++;
    while (reader->next < reader->end && (*reader->next == ' ' || *reader->next == '\t')) {
        reader->next++;
    }
    return true;
}

static void skip_comment(struct reader *reader)
{
    while (reader->next < reader->end && *reader->next != '\n') {
        reader->next++;
    }
}

static void skip_blanks(struct reader *reader)
{
    while (reader->next < reader->end) {
        if (is_blank(*reader->next)) {
            reader->next++;
        } else if (*reader->next == '#' && reader->comments) {
            skip_comment(reader);
        } else if (!take_continuation(reader)) {
            return;
        }
    }
}

static bool octal_at(const struct reader *reader, const char *at, unsigned *value)
{
    *value = 0;
    if (reader->end - at < 3) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (at[i] < '0' || at[i] > '7') {
            return false;
        }
        *value = *value * 8 + (unsigned)(at[i] - '0');
    }
    return true;
}

/* The backslash is next, and no line end behind it. */
static void take_backslash(struct reader *reader)
{
    struct export_context *context = &reader->context;
    unsigned value;

    reader->next++;
    if (!octal_at(reader, reader->next, &value)) {
        if (reader->next < reader->end && *reader->next == ' ') {
            export_warning(context,
                           "a backslash does not protect a blank here: write \\040, or put "
                           "the name in double quotes");
        }
        reader->word[reader->word_bytes++] = '\\';
        return;
    }
    if (value == 0 || value > 255) {
        export_error(context, "'\\%03o' is no byte of a name: \\001 to \\377", value);
    } else {
        reader->word[reader->word_bytes++] = (char)value;
    }
    reader->word_quoted = true;
    reader->next += 3;
}

/* A file of them is complained of once. */
static void take_nul(struct reader *reader)
{
    if (!reader->has_nul) {
        export_error(&reader->context, "a NUL byte: this is not text, and lines with one are left "
                                       "out");
    }
    reader->has_nul = true;
    reader->context.line_is_bad = true;
}

/* Reads one word into reader->word; false at the end of the line, whose end is not taken. */
static bool next_word(struct reader *reader)
{
    bool in_quotes = false;

    skip_blanks(reader);
    reader->word_bytes = 0;
    reader->word_quoted = false;
    reader->context.line = reader->line; /* 0 on the command line */
    if (reader->next == reader->end || *reader->next == '\n') {
        return false;
    }
    while (reader->next < reader->end && newline_bytes(reader, reader->next) == 0) {
        char c = *reader->next;
        if (!in_quotes && (is_blank(c) || (c == '#' && reader->comments))) {
            break;
        }
        if (c == '\\' && newline_bytes(reader, reader->next + 1) > 0) {
            if (!in_quotes) {
                break;
            }
            (void)take_continuation(reader);
            reader->word[reader->word_bytes++] = ' ';
        } else if (c == '\\') {
            take_backslash(reader);
        } else if (c == '"') {
            in_quotes = !in_quotes;
            reader->word_quoted = true;
            reader->next++;
        } else {
            if (c == '\0') {
                take_nul(reader);
            }
            reader->word[reader->word_bytes++] = c;
            reader->next++;
        }
    }
    if (in_quotes) {
        export_error(&reader->context, "a double quote is opened and not closed on the line");
    }
    reader->word[reader->word_bytes] = '\0';
    return true;
}

void export_path_tidy(char *path)
{
    char *out = path;

    for (const char *in = path; *in != '\0';) {
        size_t bytes = strcspn(in + 1, "/") + 1; /* a slash and a name */
        bool keep = bytes > 1 && !(bytes == 2 && in[1] == '.');
        if (keep) {
            memmove(out, in, bytes);
            out += bytes;
        }
        in += bytes;
    }
    if (out == path) {
        *out++ = '/';
    }
    *out = '\0';
}

static bool has_dot_dot(const char *path)
{
    for (const char *at = strstr(path, "/.."); at != NULL; at = strstr(at + 1, "/..")) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

static void take_path(struct export_context *context, char *path, struct line *line)
{
    if (path[0] != '/') {
        export_error(context, "'%s' is no directory to export: it must begin with '/'", path);
        return;
    }
    if (has_dot_dot(path)) {
        export_error(context, "'%s': a path with '..' in it; write the directory that is meant",
                     path);
        return;
    }
    export_path_tidy(path);
    if (strlen(path) > EXPORT_PATH_BYTES_MAX) {
        export_error(context, "a path of %zu bytes; %u are allowed", strlen(path),
                     EXPORT_PATH_BYTES_MAX);
        return;
    }
    line->path = export_copy(context, path);
}

/* Appends a client, taking over what it points to. */
static void add_client(struct export_context *context, struct line *line,
                       struct export_client *client)
{
    void *clients = line->clients;

    if (line->client_count == EXPORT_CLIENT_COUNT_MAX) {
        export_error(context, "more than %u clients on one line", EXPORT_CLIENT_COUNT_MAX);
    } else if (export_grow(context, &clients, line->client_count, sizeof *client)) {
        line->clients = clients;
        line->clients[line->client_count++] = *client;
        return;
    }
    export_client_free(client);
}

static void add_named_client(struct export_context *context, struct line *line, const char *name,
                             const struct export_options *options)
{
    struct export_client client = {.options = *options};

    if (export_client_parse(context, name, &client)) {
        add_client(context, line, &client);
    } else {
        export_client_free(&client);
    }
}

static void warn_of_everyone(struct export_context *context, const struct line *line,
                             const char *brackets)
{
    if (line->bare_client != NULL) {
        export_warning(
            context,
            "the blank before '%s' makes it an entry of its own: '%s' gets the defaults, "
            "and everyone gets '%s'; write %s%s, or *%s if everyone is meant",
            brackets, line->bare_client, brackets, line->bare_client, brackets, brackets);
    } else {
        export_warning(context, "'%s' without a client is for everyone; write *%s if that is meant",
                       brackets, brackets);
    }
}

/* CLIENT, CLIENT(OPTIONS) or (OPTIONS). */
static void take_client(struct reader *reader, struct line *line)
{
    struct export_context *context = &reader->context;
    struct export_options options = line->defaults;
    char *name = reader->word;
    char *bracket = strchr(name, '(');

    line->defaults_unused = false;
    if (bracket == NULL) {
        if (strchr(name, ')') != NULL) {
            export_error(context, "'%s': a ')' without '('; no blanks are allowed in the brackets",
                         name);
            return;
        }
        add_named_client(context, line, name, &options);
        line->bare_client =
            line->client_count > 0 ? line->clients[line->client_count - 1].text : NULL;
        return;
    }
    char *end = strchr(bracket, ')');
    if (end == NULL || end[1] != '\0' || strchr(bracket + 1, '(') != NULL) {
        export_error(context,
                     end == NULL ? "'%s': the '(' is not closed; no blanks are allowed in "
                                   "the brackets"
                                 : "'%s': more behind the brackets than a blank",
                     name);
        return;
    }
    if (bracket == name) {
        warn_of_everyone(context, line, name);
    }
    *end = '\0';
    *bracket = '\0';
    if (export_options_parse(context, bracket + 1, &options)) {
        add_named_client(context, line, name, &options);
    }
    line->bare_client = NULL;
}

/* -OPTIONS. Brackets in a value could not stand in those of a client, where it belongs as well. */
static void take_defaults(struct export_context *context, char *word, struct line *line)
{
    if (strpbrk(word, "()") != NULL) {
        export_error(context,
                     "'%s': brackets in options that are for all clients behind them; a client's "
                     "own stand behind its name, as in: DIR -ro CLIENT(rw)",
                     word);
    } else {
        (void)export_options_parse(context, word + 1, &line->defaults);
    }
    line->defaults_unused = true;
    line->bare_client = NULL;
}

static void take_clients(struct reader *reader, struct line *line)
{
    while (next_word(reader)) {
        if (reader->word[0] == '-') {
            take_defaults(&reader->context, reader->word, line);
        } else {
            take_client(reader, line);
        }
    }
}

static void free_line(struct line *line)
{
    for (uint32_t i = 0; i < line->client_count; i++) {
        export_client_free(&line->clients[i]);
    }
    free(line->clients);
    free(line->path);
}

/* Gives the line to the table if it is good. */
static void end_line(struct export_context *context, struct line *line)
{
    if (!context->line_is_bad && !context->no_memory) {
        export_table_join(context, line->path, line->clients, line->client_count);
        line->client_count = 0;
    }
    context->line_is_bad = false;
    free_line(line);
}

/* The '(' of an unquoted DIR(OPTIONS), NULL if the word is not that. */
static char *brackets_in_path(const struct reader *reader)
{
    bool closed = reader->word_bytes > 0 && reader->word[reader->word_bytes - 1] == ')';

    return closed && !reader->word_quoted ? strrchr(reader->word, '(') : NULL;
}

static void parse_line(struct reader *reader)
{
    struct export_context *context = &reader->context;
    struct line line = {.defaults = file_defaults};

    if (!next_word(reader)) {
        return;
    }
    unsigned first_line = context->line;
    if (brackets_in_path(reader) != NULL) {
        export_warning(context,
                       "the brackets are taken as part of the name '%s'; options stand "
                       "behind a client, as in: DIR CLIENT(rw)",
                       reader->word);
    }
    take_path(context, reader->word, &line);
    take_clients(reader, &line);
    context->line = first_line;
    if (line.client_count == 0 && !context->line_is_bad) {
        export_warning(context,
                       "no client is named, so that everyone may use %s; write * if that is "
                       "meant",
                       line.path == NULL ? "it" : line.path);
        add_named_client(context, &line, "*", &line.defaults);
    } else if (line.defaults_unused) {
        export_warning(context,
                       "no client stands behind the last -OPTIONS, so that they mean nothing");
    }
    end_line(context, &line);
}

int export_table_add_text(struct export_table *table, const char *file, const char *text,
                          size_t text_bytes, struct export_problems *problems)
{
    static const char byte_order_mark[3] = "\xef\xbb\xbf";
    struct reader reader = {
        .context = {.table = table, .problems = problems, .file = file},
        .next = text,
        .end = text + text_bytes,
        .line = 1,
        .comments = true,
    };

    reader.word = malloc(text_bytes + 1);
    if (reader.word == NULL) {
        return -ENOMEM;
    }
    if (text_bytes >= sizeof byte_order_mark &&
        memcmp(text, byte_order_mark, sizeof byte_order_mark) == 0) {
        reader.next += sizeof byte_order_mark;
    }
    while (reader.next < reader.end && !reader.context.no_memory) {
        parse_line(&reader);
        if (reader.next < reader.end) { /* at the newline */
            reader.next++;
            reader.line++;
        }
    }
    free(reader.word);
    return export_context_result(&reader.context);
}

/* Where a path leads that may be relative. real may be NULL. 0 or -errno. */
static int look_at(const char *text, bool is_directory, char real[PATH_MAX])
{
    struct outside_look look;

    int err = outside_look(text, &look);
    if (err == 0 && is_directory && !look.is_directory) {
        err = -ENOTDIR;
    }
    if (err == 0 && real != NULL) {
        memcpy(real, look.real, sizeof look.real);
    }
    return err;
}

/* The DIR of an argument, made absolute. */
static void take_argument_path(struct export_context *context, const char *text, struct line *line)
{
    char path[PATH_MAX];

    if (strlen(text) >= sizeof path) {
        export_error(context, "a path of %zu bytes; %u are allowed", strlen(text),
                     EXPORT_PATH_BYTES_MAX);
        return;
    }
    if (text[0] == '/') {
        strcpy(path, text);
    } else {
        int err = look_at(text, false, path);
        if (err != 0) {
            export_error(context, "cannot find directory '%s': %s", text, strerror(-err));
            return;
        }
    }
    take_path(context, path, line);
}

static void parse_argument(struct reader *reader, struct line *line)
{
    struct export_context *context = &reader->context;

    if (!next_word(reader)) {
        export_error(context, "an empty argument where a directory is meant");
        return;
    }
    char *bracket = brackets_in_path(reader);
    if (bracket != NULL) {
        *bracket = '\0';
        reader->word[reader->word_bytes - 1] = '\0';
        (void)export_options_parse(context, bracket + 1, &line->defaults);
    }
    take_argument_path(context, reader->word, line);
    take_clients(reader, line);
    if (reader->next < reader->end) {
        export_error(context, "a line end in an argument; give each directory as one argument");
    }
}

/*
 * On a command line "DIR (rw)" and "DIR(rw, sync)" are slips of somebody who means "DIR(rw,sync)".
 * Says what to type. Quotes and backslashes are left to the parser.
 */
static bool blanks_around_brackets(struct export_context *context, const char *argument)
{
    const char *bracket = strchr(argument, '(');
    const char *dir_end = argument + strcspn(argument, " \t(");
    char typed[EXPORT_PATH_BYTES_MAX + EXPORT_OPTIONS_TEXT_BYTES_MAX];
    size_t used = 0;
    bool inside = false;
    bool slipped = false;

    if (bracket == NULL || strpbrk(argument, "\"\\") != NULL || strlen(argument) >= sizeof typed) {
        return false;
    }
    bool no_client = dir_end + strspn(dir_end, " \t") == bracket && dir_end != bracket;
    for (const char *c = argument; *c != '\0'; c++) {
        bool blank = *c == ' ' || *c == '\t';
        inside = *c == '(' || (inside && *c != ')');
        slipped = slipped || (blank && inside);
        if (!blank || !(inside || (no_client && c >= dir_end && c < bracket))) {
            typed[used++] = *c;
        }
    }
    typed[used] = '\0';
    if (no_client) {
        export_error(context,
                     "'%s': a blank before the brackets makes them an entry for everyone; for this "
                     "machine alone type '%s', for everyone '%.*s *%s'",
                     argument, typed, (int)(dir_end - argument), argument,
                     typed + (dir_end - argument));
    } else if (slipped) {
        export_error(context, "'%s': no blanks are allowed in the brackets; type '%s'", argument,
                     typed);
    }
    return no_client || slipped;
}

int export_table_add_argument(struct export_table *table, const char *argument,
                              struct export_problems *problems)
{
    size_t bytes = strlen(argument);
    struct line line = {.defaults = argument_defaults};
    struct reader reader = {
        .context = {.table = table, .problems = problems},
        .next = argument,
        .end = argument + bytes,
    };

    reader.word = malloc(bytes + 1);
    if (reader.word == NULL) {
        return -ENOMEM;
    }
    /* A directory as it stands? Then a blank in it parts nothing. */
    if (look_at(argument, true, NULL) == 0) {
        take_argument_path(&reader.context, argument, &line);
    } else if (!blanks_around_brackets(&reader.context, argument)) {
        parse_argument(&reader, &line);
    }
    if (line.client_count == 0 && !reader.context.line_is_bad) {
        add_named_client(&reader.context, &line, "127.0.0.0/8", &line.defaults);
        add_named_client(&reader.context, &line, "::1", &line.defaults);
    }
    end_line(&reader.context, &line);
    free(reader.word);
    return export_context_result(&reader.context);
}
