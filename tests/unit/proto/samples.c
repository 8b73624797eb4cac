/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

static const struct proto_codec *codec_find(const struct proto_spec *spec, const char *name)
{
    for (uint32_t i = 0; i < spec->codec_count; i++) {
        if (strcmp(spec->codecs[i].name, name) == 0) {
            return &spec->codecs[i];
        }
    }
    return NULL;
}

static void find(struct sample *sample, const char *spec, const char *name)
{
    for (uint32_t i = 0; i < proto_spec_count; i++) {
        if (strcmp(proto_specs[i]->name, spec) == 0) {
            sample->spec = proto_specs[i];
            sample->codec = codec_find(proto_specs[i], name);
        }
    }
    if (sample->codec == NULL) {
        fail_msg("no codec %s %s", spec, name);
    }
}

size_t samples_each(void (*use)(const struct sample *sample))
{
    FILE *file = fopen(SAMPLES_FILE, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t line_bytes = 0, count = 0;
    while (getline(&line, &line_bytes, file) > 0) {
        char *rest = line;
        const char *spec = strsep(&rest, " "), *name = strsep(&rest, " ");
        assert_non_null(rest);
        struct sample sample = {0};
        find(&sample, spec, name);
        sample.bytes = unit_hex(rest, &sample.size_bytes);
        use(&sample);
        free(sample.bytes);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

void *samples_value(const struct sample *sample)
{
    void *value = malloc(sample->codec->size_bytes);
    assert_non_null(value);
    memset(value, 0xa5, sample->codec->size_bytes);
    return value;
}
