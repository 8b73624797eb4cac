/* SPDX-License-Identifier: Apache-2.0 */
/* Hands every file of the folders and files named to a fuzz target, each in a block of its size. */
#include "fuzz.h"

#include <fts.h>
#include <signal.h>
#include <sys/stat.h>

static void replay(const char *path, size_t size_bytes)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size_bytes > 0 ? size_bytes : 1);
    if (file == NULL || data == NULL || fread(data, 1, size_bytes, file) != size_bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size_bytes);
    free(data);
}

/* Left behind when an input ends the process, so that the log says which. */
static const char *current;

static void name_input(void)
{
    if (current != NULL) {
        fprintf(stderr, "replay: the input was %s\n", current);
    }
}

static void name_and_abort(int signal_number)
{
    name_input();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (argv[1] == NULL) {
        fprintf(stderr, "usage: %s FOLDER|FILE ...\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, name_and_abort);
    atexit(name_input); /* sanitizers exit */
    FTS *tree = fts_open(argv + 1, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    size_t count = 0;
    for (FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_F) {
            current = entry->fts_path;
            replay(entry->fts_path, (size_t)entry->fts_statp->st_size);
            count++;
        }
    }
    current = NULL;
    fts_close(tree);
    printf("%zu inputs\n", count);
    return count > 0 ? 0 : 1;
}
