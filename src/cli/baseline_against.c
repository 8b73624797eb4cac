/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/baseline_against.h"

#include "base/check.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 1e15

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool is_point(const json_t *saved, const struct baseline_point *point)
{
    return strcmp(text_of(saved, "kind"), point->kind == LOAD_READ ? "read" : "write") == 0 &&
           strcmp(text_of(saved, "pattern"), point->random ? "random" : "sequential") == 0 &&
           strcmp(text_of(saved, "transport"), baseline_transport_name(point->transport)) == 0 &&
           json_integer_value(json_object_get(saved, "block_bytes")) == point->block_bytes &&
           json_integer_value(json_object_get(saved, "in_flight")) == point->in_flight;
}

static void add(struct baseline_changes *changes, const struct baseline_change *change)
{
    if (changes->count == changes->capacity) {
        return; /* the file names something twice */
    }
    struct baseline_change *kept = &changes->changes[changes->count];
    bool both = change->before > 0 && change->now > 0;

    *kept = *change;
    if (!both) {
        kept->factor = change->now > 0 ? 1000 : change->before > 0 ? 0 : 1;
    } else if (change->unit == BASELINE_MS) {
        kept->factor = change->before / change->now;
    } else {
        kept->factor = change->now / change->before;
    }
    changes->slower += kept->factor < BASELINE_SLOWER_FACTOR ? 1 : 0;
    changes->faster += kept->factor > BASELINE_FASTER_FACTOR ? 1 : 0;
    changes->count++;
}

static void compare_points(const json_t *points, struct baseline *baseline,
                           struct baseline_changes *changes)
{
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *point = &baseline->points[i];
        for (size_t n = 0; n < json_array_size(points); n++) {
            const json_t *saved = json_array_get(points, n);
            if (!is_point(saved, point)) {
                continue;
            }
            struct baseline_change change = {
                .before = json_number_value(json_object_get(saved, "bytes_per_second")),
                .now = baseline_rate(point),
            };
            char size[32];
            (void)snprintf(change.what, sizeof change.what, "%s%s %s over %s, %u at a time",
                           point->random ? "random " : "",
                           point->kind == LOAD_READ ? "read" : "write",
                           baseline_size_text(point->block_bytes, size),
                           baseline_transport_name(point->transport), point->in_flight);
            add(changes, &change);
            break;
        }
    }
}

static void compare_small(const json_t *small, struct baseline *baseline,
                          struct baseline_changes *changes)
{
    const json_t *operations = json_object_get(small, "operations");

    for (int i = 0; baseline->small.file_count > 0 && i < BASELINE_OP_COUNT; i++) {
        const char *name = baseline_op_name((enum baseline_op)i);
        for (size_t n = 0; n < json_array_size(operations); n++) {
            const json_t *saved = json_array_get(operations, n);
            int64_t median_ns = samples_percentile(&baseline->small.ops[i], 0.5);
            if (strcmp(text_of(saved, "name"), name) == 0) {
                struct baseline_change change = {
                    .before = json_number_value(json_object_get(saved, "p50_ms")),
                    .now = (double)median_ns / 1e6,
                    .unit = BASELINE_MS,
                };
                (void)snprintf(change.what, sizeof change.what, "%s", name);
                add(changes, &change);
            }
        }
    }
}

static void compare_unpacking(const json_t *unpacking, struct baseline *baseline,
                              struct baseline_changes *changes)
{
    for (uint32_t i = 0; i < baseline->unpacked_count; i++) {
        const struct unpack_result *result = &baseline->unpacked[i];
        for (size_t n = 0; n < json_array_size(unpacking); n++) {
            const json_t *saved = json_array_get(unpacking, n);
            if (json_integer_value(json_object_get(saved, "at_a_time")) == result->files_max) {
                struct baseline_change change = {
                    .before = json_number_value(json_object_get(saved, "files_per_second")),
                    .now = unpack_rate(result),
                    .unit = BASELINE_FILES_PER_SECOND,
                };
                (void)snprintf(change.what, sizeof change.what, "unpacking, %u files at a time",
                               result->files_max);
                add(changes, &change);
            }
        }
    }
}

/* What is compared is a number that a measurement can have. */
static bool is_sound(const json_t *array, const char *key)
{
    size_t i;
    json_t *item;

    json_array_foreach (array, i, item) {
        const json_t *value = json_object_get(item, key);
        double number = json_number_value(value);
        if (!json_is_number(value) || number < 0 || number > VALUE_MAX) {
            return false;
        }
    }
    return true;
}

static int check(const json_t *saved, const char *path, struct err *err)
{
    const json_t *points = json_object_get(saved, "points");
    const json_t *small = json_object_get(saved, "small_files");
    const struct {
        const json_t *array;
        const char *key;
    } compared[] = {{points, "bytes_per_second"},
                    {json_object_get(small, "operations"), "p50_ms"},
                    {json_object_get(saved, "unpacking"), "files_per_second"}};

    if (!json_is_array(points)) {
        return err_set(err, -EINVAL, "%s: no saved baseline: it has no \"points\"", path);
    }
    for (size_t i = 0; i < COUNT_OF(compared); i++) {
        if (!is_sound(compared[i].array, compared[i].key)) {
            return err_set(err, -EINVAL,
                           "%s: no saved baseline: a \"%s\" is not a number from 0 to %g", path,
                           compared[i].key, VALUE_MAX);
        }
    }
    return 0;
}

int baseline_compare(const char *path, struct baseline *baseline, struct baseline_changes *changes,
                     struct err *err)
{
    json_error_t problem;
    FILE *file = fopen(path, "r");

    *changes = (struct baseline_changes){0};
    if (file == NULL) {
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    json_t *saved = json_loadf(file, JSON_REJECT_DUPLICATES, &problem);
    (void)fclose(file);
    if (saved == NULL) {
        return err_set(err, -EINVAL, "%s:%d: %s", path, problem.line, problem.text);
    }
    int error = check(saved, path, err);
    if (error != 0) {
        json_decref(saved);
        return error;
    }
    changes->capacity =
        baseline->point_count + (uint32_t)BASELINE_OP_COUNT + baseline->unpacked_count;
    changes->changes = calloc(changes->capacity, sizeof *changes->changes);
    if (changes->changes == NULL) {
        json_decref(saved);
        return err_set(err, -ENOMEM, "out of memory");
    }
    (void)snprintf(changes->url, sizeof changes->url, "%s", text_of(saved, "url"));
    compare_points(json_object_get(saved, "points"), baseline, changes);
    compare_small(json_object_get(saved, "small_files"), baseline, changes);
    compare_unpacking(json_object_get(saved, "unpacking"), baseline, changes);
    json_decref(saved);
    return 0;
}

void baseline_changes_free(struct baseline_changes *changes)
{
    free(changes->changes);
    changes->changes = NULL;
}

static const char *value_text(const struct baseline_change *change, double value, char text[32])
{
    switch (change->unit) {
    case BASELINE_MS:
        (void)snprintf(text, 32, "%.3f ms", value);
        return text;
    case BASELINE_FILES_PER_SECOND:
        (void)snprintf(text, 32, "%.0f/s", value);
        return text;
    default:
        return value > 0 ? baseline_rate_text(value, text) : "nothing";
    }
}

void baseline_changes_print(FILE *file, const struct baseline_changes *changes)
{
    char before[32], now[32];

    fprintf(file, "\nagainst %s\n", changes->url);
    if (changes->count == 0) {
        fputs("  nothing was measured both times\n", file);
        return;
    }
    fprintf(file, "  %-44s %12s %12s\n", "", "then", "now");
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct baseline_change *change = &changes->changes[i];
        const char *word = change->factor < BASELINE_SLOWER_FACTOR   ? "  slower"
                           : change->factor > BASELINE_FASTER_FACTOR ? "  faster"
                                                                     : "";
        fprintf(file, "  %-44s %12s %12s  x%.2f%s\n", change->what,
                value_text(change, change->before, before), value_text(change, change->now, now),
                change->factor, word);
    }
    fprintf(file, "  %u slower, %u faster, %u as before\n", changes->slower, changes->faster,
            changes->count - changes->slower - changes->faster);
}

void baseline_changes_report(struct report *report, const struct baseline_changes *changes)
{
    struct report *object = report_add_object(report, "against");

    report_add_text(object, "url", changes->url);
    report_add_u64(object, "slower", changes->slower);
    report_add_u64(object, "faster", changes->faster);
    static const char *const units[] = {"bytes_per_second", "files_per_second", "ms"};
    struct report *array = report_add_array(object, "changes");
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct baseline_change *change = &changes->changes[i];
        struct report *entry = report_add_object(array, NULL);
        report_add_text(entry, "what", change->what);
        report_add_text(entry, "unit", units[change->unit]);
        report_add_real(entry, "before", change->before);
        report_add_real(entry, "now", change->now);
        report_add_real(entry, "factor", change->factor);
    }
}
