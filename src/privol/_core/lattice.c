#include "pv_lattice.h"

#include <math.h>

#include "gaussian_table.inc.h"
#include "pv_bits.h"
#include "pv_math.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)
#define MANTISSA UINT64_C(0x000FFFFFFFFFFFFF)
#define TWO52 4503599627370496.0
#define SEGMENT_SHIFT 46 /* exponent and the top six mantissa bits: 64 segments an octave */
#define FIRST_SEGMENT ((int64_t)(1023 + 52 - PV_GAUSS_OCTAVES) << 6)
#define FAST_SEGMENT ((PV_GAUSS_OCTAVES - PV_GAUSS_FAST_OCTAVES) << 6)

/* |Z| <= 9 for every word that has a segment (32 octaves: U > 2^-34). */
#define Z_MAX 9.0

/* The 52-bit integer A of a word as a double: exact, and its exponent and mantissa are the segment. */
static inline uint64_t placed(uint64_t word) {
    uint64_t a = (word & ~SIGN_BIT) >> 11;
    return pv_to_bits(pv_from_bits(a | UINT64_C(0x4330000000000000)) - TWO52);
}

/* Negative: deeper in the tail than the table. */
static inline int64_t segment_of(uint64_t bits) { return (int64_t)(bits >> SEGMENT_SHIFT) - FIRST_SEGMENT; }

/* Position within the segment, from -1/2 to 1/2. */
static inline double position(uint64_t bits) {
    return pv_from_bits(((bits << 6) & MANTISSA) | UINT64_C(0x3FF0000000000000)) - 1.5;
}

static inline double cubic(int64_t segment, double t) {
    const double *c = gauss_cubic[segment];
    return (c[0] + t * c[1]) + t * t * (c[2] + t * c[3]);
}

static inline double with_sign(double z, uint64_t word) { return pv_from_bits(pv_to_bits(z) ^ (word & SIGN_BIT)); }

static inline double evaluate(uint64_t word, uint64_t bits, int64_t segment) {
    return with_sign(cubic(segment, position(bits)), word);
}

double pv_gaussian_value(uint64_t word) {
    uint64_t bits = placed(word);
    int64_t segment = segment_of(bits);
    return segment < 0 ? copysign(HUGE_VAL, word & SIGN_BIT ? -1.0 : 1.0) : evaluate(word, bits, segment);
}

double pv_gaussian_error(uint64_t word) {
    int64_t segment = segment_of(placed(word));
    return segment < 0 ? HUGE_VAL : gauss_error[segment >> 6];
}

double pv_lattice_step(double scale) {
    int exponent;
    (void)frexp(scale, &exponent); /* 2^(e-1) <= scale < 2^e */
    return ldexp(1.0, exponent - 11);
}

#define CHUNK 64

/* A chunk that the fast test left open: every coordinate by its octave's own bound, then by the caller's resolution. */
static void decide(uint64_t word, double x, double inv_h, double b, double slack, double h, int64_t j, double *out,
                   pv_undecided *und) {
    uint64_t bits = placed(word);
    int64_t segment = segment_of(bits);
    if (segment >= 0) {
        double val = x * inv_h + b * evaluate(word, bits, segment);
        double n = pv_round(val);
        if (fabs(val - n) <= 0.5 - (b * gauss_error[segment >> 6] + slack)) {
            *out = n * h + 0.0;
            return;
        }
    }
    int64_t k = und->n++;
    if (k < und->resolved && und->coord[k] == j) {
        *out = und->value[k] * h + 0.0;
        return;
    }
    und->resolved = 0; /* a list that does not match is resolved afresh */
    und->coord[k] = j;
    und->word[k] = word;
    und->x[k] = x;
}

pv_status pv_lattice_gaussian(const double *u, double s, int64_t d, double scale, double magnitude,
                              const unsigned char *words, double *out, pv_undecided *und) {
    const double h = pv_lattice_step(scale), inv_h = 1.0 / h, b = scale * inv_h;
    /* Rounding of b z, of the sum and of the comparison: each operand is at most `top`. */
    const double top = magnitude * inv_h + Z_MAX * b;
    const double slack = top * 8.8817841970012523e-16; /* 2^-50: four roundings of relative size 2^-53, doubled */
    const double limit = 0.5 - (b * PV_GAUSS_FAST_ERROR + slack);
    und->n = 0;
    for (int64_t start = 0; start < d; start += CHUNK) {
        const int64_t n = d - start < CHUNK ? d - start : CHUNK;
        const double *uc = u + start;
        double *oc = out + start;
        double t[CHUNK], z[CHUNK];
        int open = 0;
        uint64_t word[CHUNK];
        int64_t segment[CHUNK], shallow = FAST_SEGMENT;
        /* three passes, so that the compiler vectorises the first and the last around the table look-up */
        for (int64_t j = 0; j < n; ++j) {
            word[j] = pv_word(words + 8 * (start + j));
            uint64_t bits = placed(word[j]);
            segment[j] = segment_of(bits);
            t[j] = position(bits);
        }
        for (int64_t j = 0; j < n; ++j) {
            int64_t at = segment[j];
            shallow = at < shallow ? at : shallow;
            z[j] = cubic(at < 0 ? 0 : at, t[j]);
        }
        for (int64_t j = 0; j < n; ++j) {
            double v = s * uc[j] * inv_h + b * with_sign(z[j], word[j]), r = pv_round(v), off = fabs(v - r);
            open |= !(off <= limit); /* NaN too */
            oc[j] = r * h + 0.0; /* + 0.0: never -0 */
        }
        if (!open && shallow >= FAST_SEGMENT) continue;
        for (int64_t j = 0; j < n; ++j)
            decide(word[j], s * uc[j], inv_h, b, slack, h, start + j, oc + j, und);
    }
    if (und->n > und->resolved) return PV_UNDECIDED;
    return PV_OK;
}
