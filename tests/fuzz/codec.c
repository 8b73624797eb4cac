/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every generated decoder of one description (FUZZ_SPEC, "nfs3"). A byte of the input picks a type,
 * the next ones are its bytes; if they can be decoded, what follows is again a type and its bytes.
 *
 * 1. The decoder does not read past the end (AddressSanitizer: they are in a block of their size).
 * 2. Decoded and nothing noted: encoding gives the same bytes. Something noted: as many bytes.
 * 3. With one byte less of room the encoder fails, and does not write past the end either.
 * 4. What was decoded can be printed.
 */
#include "proto/codec.h"
#include "fuzz.h"

#include <string.h>

static const struct proto_spec *spec(void)
{
    for (uint32_t i = 0; i < proto_spec_count; i++) {
        if (strcmp(proto_specs[i]->name, FUZZ_SPEC) == 0) {
            return proto_specs[i];
        }
    }
    fprintf(stderr, "no description of %s\n", FUZZ_SPEC);
    abort();
}

static void encode(const struct proto_codec *codec, const void *value, const uint8_t *wire,
                   size_t wire_bytes, uint32_t notes)
{
    uint8_t *out = malloc(wire_bytes > 0 ? wire_bytes : 1);
    struct xdr to = xdr_writer(out, wire_bytes);
    FUZZ_CHECK(codec->put(&to, value));
    FUZZ_CHECK(xdr_left(&to) == 0);
    FUZZ_CHECK(notes != 0 || memcmp(out, wire, wire_bytes) == 0);
    free(out);

    if (wire_bytes > 0) {
        out = malloc(wire_bytes - 1 > 0 ? wire_bytes - 1 : 1);
        to = xdr_writer(out, wire_bytes - 1);
        FUZZ_CHECK(!codec->put(&to, value));
        FUZZ_CHECK(to.error == XDR_SHORT);
        free(out);
    }
}

static void print(const struct proto_codec *codec, const void *value)
{
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out = open_memstream(&text, &text_bytes);
    FUZZ_CHECK(out != NULL);
    codec->print(out, 0, value);
    FUZZ_CHECK(fclose(out) == 0);
    free(text);
}

/* Returns how many bytes the value took, or all of them after an error. */
static size_t try(const struct proto_codec *codec, const uint8_t *wire, size_t wire_bytes)
{
    void *value = malloc(codec->size_bytes);
    memset(value, 0xa5, codec->size_bytes);
    struct xdr xdr = xdr_reader(wire, wire_bytes);
    bool ok = codec->get(&xdr, value);
    FUZZ_CHECK(ok == xdr_ok(&xdr));
    FUZZ_CHECK(xdr_offset(&xdr) <= wire_bytes);
    FUZZ_CHECK(ok || xdr.error_offset <= wire_bytes);
    if (ok) {
        encode(codec, value, wire, xdr_offset(&xdr), xdr.notes);
        print(codec, value);
    }
    free(value);
    return ok ? xdr_offset(&xdr) : wire_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    for (const uint8_t *end = data + size_bytes; data < end;) {
        const struct proto_codec *codec = &spec()->codecs[*data++ % spec()->codec_count];
        data += try(codec, data, (size_t)(end - data));
    }
    return 0;
}
