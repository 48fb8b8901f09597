/* Unsigned 128-bit integers in two halves: what exact comparisons of rationals need, on every compiler. */
#ifndef PV_WIDE_H
#define PV_WIDE_H

#include <stdint.h>

typedef struct pv_wide {
    uint64_t hi, lo;
} pv_wide;

static inline pv_wide pv_wide_of(uint64_t x) { return (pv_wide){0, x}; }

static inline int pv_wide_is_zero(pv_wide a) { return (a.hi | a.lo) == 0; }

static inline int pv_wide_less(pv_wide a, pv_wide b) { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }

/* a - b modulo 2^128. */
static inline pv_wide pv_wide_sub(pv_wide a, pv_wide b) {
    return (pv_wide){a.hi - b.hi - (uint64_t)(a.lo < b.lo), a.lo - b.lo};
}

/* 2a modulo 2^128. */
static inline pv_wide pv_wide_twice(pv_wide a) { return (pv_wide){a.hi << 1 | a.lo >> 63, a.lo << 1}; }

/* The whole product. */
static inline pv_wide pv_wide_mul(uint64_t a, uint64_t b) {
    uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    uint64_t low = a0 * b0, cross = a0 * b1 + (low >> 32), other = a1 * b0 + (cross & 0xFFFFFFFF);
    return (pv_wide){a1 * b1 + (cross >> 32) + (other >> 32), other << 32 | (low & 0xFFFFFFFF)};
}

#endif
