/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed bytes of every type, made by tests/lib/samples.py at build time. */
#ifndef PROTO_SAMPLES_H
#define PROTO_SAMPLES_H

#include "lib/unit.h"
#include "proto/codec.h"

struct sample {
    const struct proto_spec *spec;
    const struct proto_codec *codec;
    uint8_t *bytes; /* in exactly as much memory as they need */
    size_t size_bytes;
};

/* Calls use for every sample; returns how many there were. SAMPLES_FILE names the file. */
size_t samples_each(void (*use)(const struct sample *sample));

/* Room for one decoded value of the sample's type, not zero at first. The caller frees. */
void *samples_value(const struct sample *sample);

#endif
