#include "noise/pv_lattice.h"

#include <math.h>
#include <string.h>

#include "noise/gaussian_table.inc.h"
#include "noise/pv_bits.h"
#include "base/pv_math.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)
#define MANTISSA UINT64_C(0x000FFFFFFFFFFFFF)
#define TWO52 4503599627370496.0
#define SEGMENT_SHIFT 48 /* exponent and the top four mantissa bits: 16 segments an octave */
#define FIRST_SEGMENT ((int64_t)(1023 + 52 - PV_GAUSS_OCTAVES) << 4)

#define TWO50 1125899906842624.0
#define WIDEST 0x1p44 /* scale in steps, beyond which nothing is decided here: one vector on a sphere in 2^65 */
/* For words below this (apart from the sign) p is uncertain by more than one part in 2^20. */
#define DEEPEST (UINT64_C(1) << 31)

/* On each of 16 segments of an octave of p a polynomial of degree 7 in the position, from -1/2 to 1/2. */
static pv_value gaussian(uint64_t a) {
    const double place =
        pv_from_bits(a | UINT64_C(0x4330000000000000)) - TWO52; /* a: its exponent and mantissa serve */
    const uint64_t bits = pv_to_bits(place);
    const int64_t segment = (int64_t)(bits >> SEGMENT_SHIFT) - FIRST_SEGMENT;
    if (segment < 0) return (pv_value){HUGE_VAL, HUGE_VAL};
    const double t = pv_from_bits(((bits << 4) & MANTISSA) | UINT64_C(0x3FF0000000000000)) - 1.5, t2 = t * t;
    const double *c = gauss_polynomial[segment];
    const double tail = t2 * ((c[2] + t * c[3]) + t2 * ((c[4] + t * c[5]) + t2 * (c[6] + t * c[7])));
    return (pv_value){c[0] + (t * c[1] + tail), gauss_error[segment >> 4]};
}

/* p in [a, a + 1] 2^-52, so -log p is within log((a + 1/2) / a) < 1 / (2 a) of that of the middle, itself a double. */
static pv_value exponential(uint64_t a) {
    if (a < DEEPEST >> 11) return (pv_value){HUGE_VAL, HUGE_VAL};
    double z = -pv_log(((double)a + 0.5) * 0x1p-52);
    return (pv_value){z, 0.5 / (double)a + (1.0 + z) * 0x1p-49};
}

pv_value pv_lattice_value(pv_law law, uint64_t word) {
    const uint64_t a = (word & ~SIGN_BIT) >> 11;
    pv_value found = law == PV_GAUSSIAN ? gaussian(a) : exponential(a);
    if (law != PV_EXPONENTIAL) found.z = pv_from_bits(pv_to_bits(found.z) ^ (word & SIGN_BIT));
    return found;
}

double pv_lattice_step(double scale) {
    return pv_from_bits(pv_to_bits(scale) & ~(SIGN_BIT | MANTISSA)) * 0x1p-10; /* 2^e <= scale < 2^(e+1) */
}

int pv_lattice_within(const pv_lattice *lattice, const double *x, int64_t n) {
    const double limit = TWO50 * lattice->step;
    int64_t beyond = 0;
    for (int64_t j = 0; j < n; ++j) beyond |= !(fabs(x[j]) < limit); /* NaN is beyond too */
    return !beyond;
}

/* A coordinate that the first pass left undecided: in double precision, then by the caller. */
static void decide(const pv_lattice *lattice, uint64_t word, double x, int64_t j, double *out, pv_undecided *und) {
    const double h = lattice->step, b = lattice->scale / h, place = x / h; /* exact: h is a power of two */
    const double whole = pv_round(place), rest = place - whole;            /* exact up to 2^50 */
    const pv_value found = pv_lattice_value(lattice->law, word);
    const double noise = b * found.z, sum = rest + noise, nearest = pv_round(sum);
    /* |b (1 + u) (z + e) - b z| <= b e (1 + u) + b z u for the error e of z and u of the scale; and four roundings of
     * 2^-53 of what is summed, doubled */
    const double wrong = b * found.error * (1.0 + lattice->uncertainty) + fabs(noise) * lattice->uncertainty;
    const double error = wrong + (fabs(rest) + fabs(noise)) * 0x1p-50;
    if (fabs(place) <= TWO50 && b <= WIDEST && fabs(sum - nearest) <= 0.5 - error) {
        *out = (whole + nearest) * h + 0.0;
        return;
    }
    int64_t k = und->n++;
    if (und->n > und->most) und->most = und->n;
    if (k < und->resolved && und->coord[k] == j) {
        *out = und->value[k] * h + 0.0;
        return;
    }
    und->resolved = 0; /* a list that does not match is resolved again */
    und->coord[k] = j;
    und->word[k] = word;
    und->x[k] = x;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const void *host_words(const unsigned char *words, int64_t n, uint64_t *word) {
    (void)n, (void)word;
    return words;
}
#else
static const void *host_words(const unsigned char *words, int64_t n, uint64_t *word) {
    for (int64_t j = 0; j < n; ++j) word[j] = pv_word(words + 8 * j);
    return word;
}
#endif

static inline int lowest_bit(uint64_t x) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(x);
#else
    int j = 0;
    for (; !(x & 1); x >>= 1) ++j;
    return j;
#endif
}

void pv_lattice_values(const pv_lattice *lattice, const unsigned char *words, int64_t d, float *z) {
    for (int64_t start = 0; start < d; start += PV_FIRST_PASS_CHUNK) {
        const int64_t n = d - start < PV_FIRST_PASS_CHUNK ? d - start : PV_FIRST_PASS_CHUNK;
        uint64_t word[PV_FIRST_PASS_CHUNK];
        lattice->pass->values(lattice->law, host_words(words + 8 * start, n, word), z + start, n);
    }
}

pv_status pv_lattice_add(const pv_lattice *lattice, const double *u, double s, int64_t d, double magnitude,
                         const unsigned char *words, const float *z, double *out, pv_undecided *und) {
    static const double zeros[PV_FIRST_PASS_CHUNK] = {0.0};
    const double h = lattice->step, b = lattice->scale / h;
    const int fits = magnitude <= TWO50 * h && b <= PV_FIRST_PASS_WIDEST;
    und->n = 0;
    for (int64_t start = 0; start < d; start += PV_FIRST_PASS_CHUNK) {
        const int64_t n = d - start < PV_FIRST_PASS_CHUNK ? d - start : PV_FIRST_PASS_CHUNK;
        uint64_t word[PV_FIRST_PASS_CHUNK], open = ~UINT64_C(0) >> (64 - n);
        double kept[PV_FIRST_PASS_CHUNK];
        const double *x = u ? u + start : zeros;
        if (x == out + start)
            x = memcpy(kept, x, 8 * (size_t)n); /* read again where the first pass leaves a sum undecided */
        if (fits && z)
            open = lattice->pass->add(lattice->law, x, s, h, b, lattice->uncertainty, z + start, out + start, n);
        else if (fits)
            open = lattice->pass->round(lattice->law, x, s, h, b, lattice->uncertainty,
                                        host_words(words + 8 * start, n, word), out + start, n);
        for (; open; open &= open - 1) {
            const int64_t k = lowest_bit(open), j = start + k;
            decide(lattice, pv_word(words + 8 * j), s * x[k], j, out + j, und);
        }
    }
    if (und->n > und->resolved) return PV_UNDECIDED;
    return PV_OK;
}

pv_status pv_lattice_round(const pv_lattice *lattice, const double *u, double s, int64_t d, double magnitude,
                           const unsigned char *words, double *out, pv_undecided *und) {
    return pv_lattice_add(lattice, u, s, d, magnitude, words, NULL, out, und);
}
