#include "noise/pv_keystream.h"

#include <string.h>

#include "noise/pv_bits.h"

static inline unsigned char *take(pv_keystream *k, int size) {
    if (k->end - k->at < size || *k->forks != k->birth) k->refill(k->owner);
    unsigned char *p = k->at;
    k->at += size;
    return p;
}

uint32_t pv_keystream_uint32(void *stream) {
    unsigned char *p = take((pv_keystream *)stream, 4);
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    memset(p, 0, 4);
    return v;
}

uint64_t pv_keystream_uint64(void *stream) {
    unsigned char *p = take((pv_keystream *)stream, 8);
    uint64_t v = pv_word(p);
    memset(p, 0, 8);
    return v;
}

double pv_keystream_double(void *stream) {
    return (double)(pv_keystream_uint64(stream) >> 11) * 1.1102230246251565e-16; /* 2^-53 */
}
