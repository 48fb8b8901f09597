#include "noise/pv_mixture.h"

#include <math.h>

#include "noise/pv_bits.h"
#include "base/pv_math.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)
#define SHALLOW (UINT64_C(1) << 20) /* digits of p below which it is too uncertain: one word in 2^32 */
#define FACTORS 16                  /* in a product; no words make it subnormal */
#define BLOCK 16                    /* terms summed before their sum is added to the rest */

static int64_t exponentials(int64_t d) { return (d + 1) / 2; }

int64_t pv_mixture_words(pv_mixture kind, int64_t d) {
    if (kind == PV_SPHERE) return d;
    return d + exponentials(d) + (d % 2 == 0);
}

/* A sum of positive numbers and what its rounding lost: correct to 2^-53 of it, however many terms there are. */
typedef struct sum {
    double high, low;
} sum;

static inline void add(sum *s, double x) {
    const double t = s->high + x, y = t - s->high;
    s->low += (s->high - (t - y)) + (x - y);
    s->high = t;
}

/* The sum of n exponential variables: -log of the product of their p, each in [a, a + 1] 2^-52 and replaced by the
 * middle. */
static pv_value sum_exponential(const unsigned char *words, int64_t n) {
    sum all = {0.0, 0.0};
    double middles = 0.0;
    int64_t start = 0;
    while (start < n) {
        double part = 0.0; /* of a block of logarithms */
        for (int k = 0; k < BLOCK && start < n; ++k) {
            const int64_t stop = start + FACTORS < n ? start + FACTORS : n;
            uint64_t least = ~UINT64_C(0);
            double product = 1.0;
            for (; start < stop; ++start) {
                const uint64_t a = (pv_word(words + 8 * start) & ~SIGN_BIT) >> 11;
                least = a < least ? a : least;
                product *= ((double)a + 0.5) * 0x1p-52;
            }
            if (least < SHALLOW) return (pv_value){1.0, HUGE_VAL};
            part -= pv_log(product); /* a product is at least 2^-848 */
            middles += 0.5 * FACTORS / (double)least;
        }
        add(&all, part);
    }
    const double found = all.high + all.low;
    /* Each middle is within log((a + 1/2) / a) < 1 / (2 a) of its variable. n roundings of 2^-53 are the products', the
     * logarithms are each within 2^-50 (1 + log), and a block's sum and the whole's are right to BLOCK + 2 roundings: */
    const double roundings = (double)n * 0x1p-51 + 0x1p-49 + found * 0x1.8p-48;
    return (pv_value){found, middles * (1.0 + 0x1p-20) + roundings};
}

pv_value pv_mixture_factor(pv_mixture kind, int64_t d, const unsigned char *words) {
    const pv_value none = {1.0, HUGE_VAL};
    pv_value square = {0.0, 0.0}; /* of the factor, or of its inverse; absolute error */
    const unsigned char *last = words;
    int64_t gaussians = d;
    if (kind == PV_L2_LAPLACE) {
        square = sum_exponential(words + 8 * d, exponentials(d));
        square.z *= 2.0;
        square.error *= 2.0;
        last += 8 * (d + exponentials(d));
        gaussians = d % 2 == 0;
    }
    sum all = {square.z, 0.0};
    for (int64_t start = 0; start < gaussians; start += BLOCK) {
        const int64_t stop = start + BLOCK < gaussians ? start + BLOCK : gaussians;
        pv_value part = {0.0, 0.0};
        for (int64_t j = start; j < stop; ++j) {
            const pv_value z = pv_lattice_value(PV_GAUSSIAN, pv_word(last + 8 * j));
            part.z += z.z * z.z;
            part.error += (2.0 * fabs(z.z) + z.error) * z.error;
        }
        add(&all, part.z);
        square.error += part.error;
    }
    square.z = all.high + all.low;
    /* roundings of 2^-53: one of each square, at most BLOCK of sums in a block and two of the whole, all of positive
     * numbers, doubled; those of the error's own sum are few parts in 2^20 of it */
    const double relative = square.error / square.z * (1.0 + 0x1p-20) + (BLOCK + 4) * 0x1p-52;
    if (!(relative < 0x1p-10)) return none;
    /* sqrt(1 + e) is within e / 2 (1 + e) of 1, and so is its inverse; root, inverse and scaling round */
    const double root = sqrt(square.z);
    return (pv_value){kind == PV_SPHERE ? 1.0 / root : root, 0.51 * relative + 0x1p-50};
}

pv_status pv_mixture_round(pv_mixture kind, const pv_lattice *lattice, const double *u, int64_t d, double magnitude,
                           const unsigned char *words, double *out, pv_undecided *und, pv_value *factor) {
    pv_lattice own = *lattice;
    *factor = pv_mixture_factor(kind, d, words);
    own.scale *= factor->z;
    own.uncertainty = factor->error + 0x1p-52; /* of the product above */
    return pv_lattice_round(&own, u, 1.0, d, magnitude, words, out, und);
}
