/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed 64-bit MAC for short input. */
#include "vfs/internal.h"

#include <endian.h>
#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t word, unsigned bits)
{
    return (word << bits) | (word >> (64 - bits));
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    uint64_t k0 = load(key);
    uint64_t k1 = load(key + 8);
    struct sip s = {.v0 = k0 ^ UINT64_C(0x736f6d6570736575),
                    .v1 = k1 ^ UINT64_C(0x646f72616e646f6d),
                    .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
                    .v3 = k1 ^ UINT64_C(0x7465646279746573)};
    size_t whole = size_bytes & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        sip_word(&s, load(bytes + i));
    }
    uint8_t last[8] = {0};
    memcpy(last, bytes + whole, size_bytes - whole);
    last[7] = (uint8_t)size_bytes;
    sip_word(&s, load(last));
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(&s);
    }
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
