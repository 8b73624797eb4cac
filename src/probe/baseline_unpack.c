/* SPDX-License-Identifier: Apache-2.0 */
/* The same archive, or as many made-up files, unpacked with one and with more files at a time. */
#include "probe/baseline_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int make_place(struct session *session, uint32_t number, struct client_fh *fh,
                      struct err *err)
{
    struct client_answer answer = {0};
    struct client_node node;
    char name[32], text[CLIENT_TEXT_BYTES_MAX];

    (void)snprintf(name, sizeof name, "unpack%u", number);
    struct MKDIR3args args = {client_dirop(&session->dir, client_name(name)),
                              {.mode = {true, {0700}}}};
    int status = client_nfs3(session->mount, NFSPROC3_MKDIR, &args, &answer);
    client_answer_free(&answer);
    if (status == 0) {
        status = client_lookup(session->mount, &session->dir, client_name(name), &node);
    }
    *fh = node.fh;
    return status == 0 ? 0
                       : err_set(err, status < 0 ? status : -EIO, "%s: %s", name,
                                 client_status_text(status, text));
}

int baseline_measure_unpacking(struct session *session, struct err *err)
{
    const struct baseline_options *options = session->options;
    struct baseline *baseline = session->baseline;
    int error = 0;

    for (uint32_t i = 0; i < options->in_flight_count && error == 0; i++) {
        uint32_t most = options->in_flight[i];
        struct unpack_options unpack = {
            .mount = session->mount,
            .archive = options->archive,
            .file_count = options->unpack_count,
            .file_bytes = BASELINE_SMALL_FILE_BYTES,
            .files_max = most < UNPACK_FILES_MAX ? most : UNPACK_FILES_MAX,
            .stopping = options->stopping,
            .owner = options->owner,
        };
        error = make_place(session, i, &unpack.dir, err);
        if (error == 0) {
            error = unpack_run(&unpack, &baseline->unpacked[baseline->unpacked_count++], err);
        }
    }
    return error;
}
