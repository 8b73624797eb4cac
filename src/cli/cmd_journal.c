/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into the log of a server: what is in it, whether it is whole, what a replay would do. Reads
 * and never writes. */
#include "cli/command.h"

#include "cli/journal_show.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "os/disk.h"
#include "vfs/rehearse.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_AN_EXPORT "/.holdfast/journal"
#define EXPORT_COUNT_MAX 64U
/* A server that writes meanwhile may make a log look damaged once. */
#define TRIES 5

static const char help[] =
    "usage: holdfast journal inspect [--json] [--records] JOURNAL\n"
    "       holdfast journal verify [--json] JOURNAL\n"
    "       holdfast journal replay --dry-run [--json] [--export DIR]... JOURNAL\n"
    "\n"
    "Looks into the log of changes of a server, and changes nothing.\n"
    "\n"
    "  inspect     what is in it: the exports, the batches, and with --records every\n"
    "              record\n"
    "  verify      reads all of it; exit status 1 if a server would refuse it\n"
    "  replay      what a server will do first when it starts; exit status 1 if it\n"
    "              would refuse. --export names a directory that was exported, if it\n"
    "              is not where it was\n"
    "\n"
    "JOURNAL is a file or block device, or an exported directory that has it inside.\n"
    "more: man 8 holdfast-journal\n";

struct look {
    const char *word; /* the subcommand */
    char path[PATH_MAX];
    bool wants_json;
    bool records;
    bool dry_run;
    const char *exports[EXPORT_COUNT_MAX];
    uint32_t export_count;
    struct report *json; /* NULL: text */
    struct journal_log *log;
    bool in_use;
    uint64_t live_batches, live_records, live_bytes, replies;
};

/* ---- opening ---- */

static void complain(const struct look *look, const char *text)
{
    fprintf(stderr, "holdfast journal %s: %s: %s\n", look->word, look->path, text);
}

/* What a server would say, too. */
static int refused(const struct look *look, const char *text)
{
    report_add_text(look->json, "refused", text);
    complain(look, text);
    return COMMAND_FINDING;
}

static void find_path(struct look *look, const char *name)
{
    struct stat st;
    bool is_directory = stat(name, &st) == 0 && S_ISDIR(st.st_mode);
    (void)snprintf(look->path, sizeof look->path, "%s%s", name, is_directory ? IN_AN_EXPORT : "");
    report_add_bytes(look->json, "path", look->path, strlen(look->path));
}

static int open_once(struct look *look, struct err *err)
{
    struct disk *disk = NULL;
    int fd = open(look->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "%s", strerror(errno));
    }
    look->in_use = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    int error = disk_posix_open(fd, look->path, &disk, err);
    if (error != 0) {
        return error;
    }
    error = journal_log_open(disk, &look->log, err);
    if (error != 0) {
        disk_close(disk);
    }
    return error;
}

/* COMMAND_DONE, or what it ends with. */
static int open_journal(struct look *look)
{
    struct err err = {0};
    int error = open_once(look, &err);
    for (int i = 1; i < TRIES && error == -EUCLEAN && look->in_use; i++) {
        error = open_once(look, &err);
    }
    if (error == -EUCLEAN || error == -EMEDIUMTYPE || error == -EPROTONOSUPPORT ||
        error == -ENODATA) {
        return refused(look, err.text);
    }
    if (error != 0) {
        complain(look, err.text);
        return COMMAND_CANNOT;
    }
    report_add_bool(look->json, "in_use", look->in_use);
    return COMMAND_DONE;
}

/* ---- reading ---- */

static int read_batch(struct look *look, const struct journal_log_found *found,
                      const uint8_t *bytes, struct report *records, struct err *err)
{
    size_t size = found->head.size_bytes;
    for (size_t at = JOURNAL_BATCH_HEAD_BYTES; at < size;) {
        struct journal_record record;
        size_t used = 0;
        int error = journal_record_get(bytes + at, size - at, &record, &used);
        if (error != 0) {
            return err_set(err, error, "a record that %s, in batch %" PRIu64,
                           error == -EPROTONOSUPPORT ? "this version of holdfast does not know"
                                                     : "makes no sense",
                           found->head.seq);
        }
        at += used;
        look->replies += record.type == JOURNAL_REPLY;
        look->live_records += found->live && record.type != JOURNAL_REPLY;
        if (look->records) {
            journal_show_record(&record, records);
        }
    }
    return 0;
}

/* Batches that are not live may be overwritten in part: what is left of them does not matter. */
static int read_all(struct look *look, bool shows, struct err *err)
{
    size_t count = 0;
    const struct journal_log_found *found = journal_log_found(look->log, &count);
    struct report *batches = shows ? report_add_array(look->json, "batches") : NULL;
    struct report *records = look->records ? report_add_array(look->json, "records") : NULL;
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        uint8_t *bytes = NULL;
        error = journal_log_load(look->log, &found[i], &bytes);
        if (error == -EUCLEAN && (!found[i].live || look->in_use)) {
            error = 0;
            continue;
        }
        if (error != 0) {
            return err_set(err, error, "batch %" PRIu64 ": %s", found[i].head.seq,
                           strerror(-error));
        }
        look->live_batches += found[i].live;
        look->live_bytes += found[i].live ? found[i].head.size_bytes : 0;
        if (shows) {
            journal_show_batch(&found[i], batches);
        }
        error = read_batch(look, &found[i], bytes, records, err);
        free(bytes);
    }
    return error;
}

static void add_counts(const struct look *look)
{
    report_add_u64(look->json, "live_batches", look->live_batches);
    report_add_u64(look->json, "live_records", look->live_records);
    report_add_u64(look->json, "live_bytes", look->live_bytes);
    report_add_u64(look->json, "replies", look->replies);
}

/* ---- inspect, verify ---- */

static int inspect(struct look *look)
{
    struct err err = {0};
    int status = open_journal(look);
    if (status != COMMAND_DONE) {
        return status;
    }
    journal_show_superblock(journal_log_superblock(look->log), look->json);
    int error = read_all(look, true, &err);
    add_counts(look);
    if (error != 0) {
        return refused(look, err.text);
    }
    if (look->json == NULL) {
        printf("to replay   %" PRIu64 " records in %" PRIu64 " batches, %" PRIu64
               " bytes; replies kept: %" PRIu64 "\n",
               look->live_records, look->live_batches, look->live_bytes, look->replies);
        if (look->in_use) {
            printf("in use      by a server: this was true a moment ago\n");
        }
    }
    return COMMAND_DONE;
}

static int refuse_use(const struct look *look)
{
    complain(look, "a server uses it");
    return COMMAND_CANNOT;
}

static int verify(struct look *look)
{
    struct err err = {0};
    int status = open_journal(look);
    if (status == COMMAND_DONE && look->in_use) {
        status = refuse_use(look);
    }
    if (status != COMMAND_DONE) {
        return status;
    }
    int error = read_all(look, false, &err);
    add_counts(look);
    if (error != 0) {
        return refused(look, err.text);
    }
    if (look->json == NULL) {
        printf("%s is whole: %" PRIu64 " records in %" PRIu64 " batches to replay\n", look->path,
               look->live_records, look->live_batches);
    }
    return COMMAND_DONE;
}

/* ---- replay ---- */

struct telling {
    struct report *json; /* NULL: text */
    struct report *steps;
    uint64_t counts[VFS_STEP_COUNT];
};

static void tell(void *arg, enum vfs_step step, const char *path, uint64_t bytes)
{
    static const char *const names[VFS_STEP_COUNT] = {
        [VFS_STEP_STAGE] = "remove name",
        [VFS_STEP_PLACE] = "place",
        [VFS_STEP_LINK] = "link",
        [VFS_STEP_DATA] = "write",
        [VFS_STEP_ATTRIBUTES] = "set attributes",
    };
    struct telling *telling = arg;
    telling->counts[step]++;
    if (telling->json == NULL) {
        printf("%-15s ", names[step]);
        remote_print_name(stdout, client_name(path));
        if (step == VFS_STEP_DATA) {
            printf(" bytes %" PRIu64, bytes);
        }
        putchar('\n');
        return;
    }
    struct report *item = report_add_object(telling->steps, NULL);
    report_add_text(item, "step", names[step]);
    report_add_bytes(item, "path", path, strlen(path));
    if (step == VFS_STEP_DATA) {
        report_add_u64(item, "bytes", bytes);
    }
}

static int replay(struct look *look)
{
    struct err err = {0};
    struct telling telling = {.json = look->json};
    int status = open_journal(look);
    if (status == COMMAND_DONE && look->in_use) {
        status = refuse_use(look);
    }
    if (status != COMMAND_DONE) {
        return status;
    }
    telling.steps = report_add_array(look->json, "steps");
    struct vfs_rehearsal rehearsal = {
        .dirs = look->exports, .dir_count = look->export_count, .tell = tell, .arg = &telling};
    int error = vfs_rehearse(look->log, &rehearsal, &err);
    report_add_u64(look->json, "live_records", rehearsal.record_count);
    if (error != 0) {
        return refused(look, err.text);
    }
    if (look->json == NULL) {
        uint64_t steps = 0;
        for (int i = 0; i < VFS_STEP_COUNT; i++) {
            steps += telling.counts[i];
        }
        printf("%" PRIu64 " records to replay, %" PRIu64 " steps; nothing was changed\n",
               rehearsal.record_count, steps);
    }
    return COMMAND_DONE;
}

/* ---- the command line ---- */

static bool set_option(void *arguments, int option, struct options_value *value)
{
    struct look *look = arguments;
    switch (option) {
    case 'j':
        look->wants_json = true;
        return true;
    case 'r':
        look->records = true;
        return true;
    case 'n':
        look->dry_run = true;
        return true;
    default:
        if (look->export_count == EXPORT_COUNT_MAX) {
            (void)snprintf(value->why, sizeof value->why, "more than %u", EXPORT_COUNT_MAX);
            return false;
        }
        look->exports[look->export_count++] = value->text;
        return true;
    }
}

static const struct option option_words[] = {
    {"json", no_argument, NULL, 'j'},    {"records", no_argument, NULL, 'r'},
    {"dry-run", no_argument, NULL, 'n'}, {"export", required_argument, NULL, 'e'},
    {"help", no_argument, NULL, 'h'},    {NULL, 0, NULL, 0},
};
static const struct options options = {.command = "journal",
                                       .letters = ":h",
                                       .words = option_words,
                                       .help = help,
                                       .operand = "JOURNAL",
                                       .set = set_option};

static const struct {
    const char *word;
    int (*run)(struct look *look);
} commands[] = {{"inspect", inspect}, {"verify", verify}, {"replay", replay}};

static int (*find_command(const char *word))(struct look *)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(commands[i].word, word) == 0) {
            return commands[i].run;
        }
    }
    return NULL;
}

static int usage(const char *text, const char *word)
{
    fprintf(stderr, "holdfast journal: %s%s; see `holdfast journal --help`\n", text, word);
    return COMMAND_USAGE;
}

static int run_command(struct look *look, int (*run)(struct look *), const char *name)
{
    look->json = look->wants_json ? report_new() : NULL;
    find_path(look, name);
    int status = run(look);
    journal_log_close(look->log);
    if (look->wants_json && status <= COMMAND_FINDING && !report_write_json(look->json, stdout)) {
        fprintf(stderr, "holdfast journal: no memory\n");
        status = COMMAND_CANNOT;
    }
    report_free(look->json);
    return status;
}

int cmd_journal(int argc, char **argv)
{
    static struct look look; /* large */
    const char *name = NULL;

    look = (struct look){.word = argc > 1 ? argv[1] : ""};
    int (*run)(struct look *) = find_command(look.word);
    if (run == NULL && look.word[0] != '-' && argc > 1) {
        return usage("no command ", look.word);
    }
    if (argc < 2) {
        fputs(help, stderr);
        return COMMAND_USAGE;
    }
    int skipped = run != NULL ? 1 : 0;
    int status;
    if (!options_parse(&options, argc - skipped, argv + skipped, &look, &name, &status)) {
        return status;
    }
    if (run == NULL) {
        return usage("which of inspect, verify, replay is not said", "");
    }
    if (run == replay && !look.dry_run) {
        return usage("replay wants --dry-run: a server does the real one when it starts", "");
    }
    return run_command(&look, run, name);
}
