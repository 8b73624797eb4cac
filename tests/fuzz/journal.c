/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the journal: what is read as right is written back as the same bytes, and nothing
 * outside the input is touched (it is in a block of its size).
 */
#include "fuzz.h"
#include "journal/record.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t *input = malloc(size_bytes + 1);
    memcpy(input, data, size_bytes);
    for (size_t at = 0; at < size_bytes;) {
        struct journal_record record;
        size_t used = 0;
        uint8_t *exact = malloc(size_bytes - at);
        memcpy(exact, input + at, size_bytes - at);
        int err = journal_record_get(exact, size_bytes - at, &record, &used);
        if (err == 0) {
            FUZZ_CHECK(used >= 8 && used <= size_bytes - at);
        }
        if (err == 0 && record.type != JOURNAL_SKIPPED) {
            uint8_t *again = malloc(used);
            FUZZ_CHECK(journal_record_bytes(&record) == used);
            journal_record_put(&record, again);
            FUZZ_CHECK(memcmp(again, exact, used) == 0);
            free(again);
        }
        free(exact);
        if (err != 0) {
            break;
        }
        at += used;
    }
    free(input);
    return 0;
}
