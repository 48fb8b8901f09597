#include "noise/pv_bits.h"

#include <string.h>

static inline void store(unsigned char *out, uint64_t v) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < 8; ++i) out[i] = (unsigned char)(v >> (8 * i));
#else
    memcpy(out, &v, 8);
#endif
}

void pv_address(unsigned char *out, unsigned stream, unsigned level, uint32_t block, uint64_t row) {
    store(out, (uint64_t)(stream & 0xFFFF) | (uint64_t)(level & 0xFFFF) << 16 | (uint64_t)block << 32);
    store(out + 8, row);
}

size_t pv_address_row(unsigned char *out, unsigned stream, uint64_t row, int64_t d) {
    if (!pv_address_fits(stream, 0, d)) return 0;
    int64_t blocks = pv_row_words(d) / 2;
    for (int64_t j = 0; j < blocks; ++j) pv_address(out + PV_ADDRESS_BYTES * j, stream, 0, (uint32_t)j, row);
    return (size_t)blocks * PV_ADDRESS_BYTES;
}

void pv_address_turn(unsigned char *out, uint64_t row, int64_t d) {
    const int64_t blocks = pv_row_words(d) / 2;
    for (int64_t j = 0; j < blocks; ++j) store(out + PV_ADDRESS_BYTES * j + 8, row);
}

/* The barrier makes the compiler assume that the zeros are read, so the stores stay. */
void pv_wipe(void *p, size_t n) {
#if defined(__GNUC__) || defined(__clang__)
    memset(p, 0, n);
    __asm__ __volatile__("" : : "r"(p) : "memory");
#else
    volatile unsigned char *v = (volatile unsigned char *)p;
    while (n--) *v++ = 0;
#endif
}
