/* Integer noise of both laws: up to three values from up to six words, whatever they are, with a proposal's block known
 * or not, and any scale and width of a block. Sums stay below 2^62. And words in sequence from 24 bytes, before and after
 * a fork, where `refill` has at least 8 bytes. */
#include "noise/pv_discrete.h"
#include "noise/pv_keystream.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one value too few, and four bytes of a refill */
#endif

enum { VALUES = 3, WORDS = 6, BLOCKS = 3, BYTES = 24 };

static unsigned char bytes[BYTES];
static uint16_t guide[1 << PV_DISCRETE_GUIDE_BITS];

static void refill(void *owner) {
    pv_keystream *k = owner;
    const int used = Frama_C_interval(0, BYTES - 8 + 4 * SHORT);
    Frama_C_make_unknown((char *)bytes, sizeof bytes);
    k->at = bytes + used;
    k->end = bytes + BYTES;
    k->birth = *k->forks;
}

static void in_sequence(void) {
    volatile unsigned long forks = 0;
    pv_keystream k = {bytes, bytes, &forks, 0, refill, &k};
    const int calls = Frama_C_interval(0, 1000);
    for (int i = 0; i < calls; ++i) {
        forks = Frama_C_unsigned_int_interval(0, 3);
        if (Frama_C_interval(0, 1)) pv_keystream_uint32(&k);
        if (Frama_C_interval(0, 1)) pv_keystream_uint64(&k);
        if (Frama_C_interval(0, 1)) pv_keystream_double(&k);
    }
}

int main(void) {
    const uint64_t limits[BLOCKS] = {UINT64_C(1) << 62, UINT64_C(3) << 61, (UINT64_C(1) << 63) - 1};
    uint32_t sure[BLOCKS];
    unsigned char words[8 * WORDS];
    int64_t out[VALUES - SHORT];
    const unsigned shift = Frama_C_unsigned_int_interval(0, PV_DISCRETE_MAX_SHIFT);
    pv_discrete_guide(limits, guide);
    Frama_C_make_unknown((char *)sure, sizeof sure);
    Frama_C_make_unknown((char *)words, sizeof words);
    const int negative = Frama_C_interval(0, 1);
    //@ split negative;
    //@ loop unroll 6;
    for (int j = 0; j < WORDS; ++j) words[8 * j] = (unsigned char)(2 * Frama_C_interval(0, 127) + negative);
    //@ loop unroll 3;
    for (int j = 0; j < VALUES - SHORT; ++j) out[j] = Frama_C_long_interval(-(INT64_C(1) << 61), INT64_C(1) << 61);
    const uint64_t a = Frama_C_unsigned_long_interval(1, PV_DISCRETE_MAX_NUMERATOR);
    const uint64_t b = Frama_C_unsigned_long_interval(1, PV_DISCRETE_MAX_NUMERATOR);
    const pv_discrete law = {limits, sure, guide, BLOCKS, shift, Frama_C_interval(0, 1), a, b};
    const int64_t used = Frama_C_long_interval(0, WORDS);
    pv_draw draw = {words, WORDS, used, 0, Frama_C_long_interval(-1, PV_DISCRETE_MAX_BLOCK)};
    //@ split used;
    draw.used = used;
    pv_discrete_add(&law, &draw, out, VALUES);
    in_sequence();
    return 0;
}
