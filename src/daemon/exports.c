/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/exports.h"

#include <errno.h>

void exports_log(const struct export_problems *problems)
{
    for (uint32_t i = 0; i < problems->count; i++) {
        if (problems->items[i].fatal) {
            log_error("%s", problems->items[i].text);
        } else {
            log_warning("%s", problems->items[i].text);
        }
    }
}

/* *lines_are_bad: the exports file could be read, and has lines with errors. */
static int add_all(const struct config *config, struct export_table *table,
                   struct export_problems *problems, bool *lines_are_bad)
{
    int error = 0;

    for (uint32_t i = 0; i < config->directory_count && error != -ENOMEM; i++) {
        int one = export_table_add_argument(table, config->directories[i], problems);
        error = one != 0 ? one : error;
    }
    if (error == 0 && config->exports_file != NULL) {
        error = export_table_add_file(table, config->exports_file, problems);
        if (error == 0 || error == -EINVAL) {
            int missing = export_table_check_directories(table, problems);
            error = error == 0 ? missing : error;
        }
        *lines_are_bad = error == -EINVAL;
        error = *lines_are_bad && config->skip_bad_lines ? 0 : error;
    }
    return error != 0 ? error : export_table_resolve(table, problems);
}

static int check(const struct config *config, const struct export_table *table, int error,
                 bool lines_are_bad, struct err *err)
{
    if (error == -ENOMEM) {
        return err_set(err, error, "no memory for the exports");
    }
    if (error != 0 && lines_are_bad) {
        return err_set(err, error, "%s has errors, see above; --skip-bad-lines serves the others",
                       config->exports_file);
    }
    if (error != 0) {
        return err_set(err, error, "what to serve is not clear, see above");
    }
    if (table->entry_count == 0) {
        return err_set(err, -EINVAL, "nothing to serve: no export in %s", config->exports_file);
    }
    return 0;
}

int exports_read(const struct config *config, struct export_table **table,
                 struct export_problems *problems, struct err *err)
{
    struct export_table *made = export_table_new();
    bool lines_are_bad = false;

    int error = made == NULL ? -ENOMEM : add_all(config, made, problems, &lines_are_bad);
    error = check(config, made, error, lines_are_bad, err);
    if (error != 0) {
        export_table_free(made);
        return error;
    }
    *table = made;
    return 0;
}
