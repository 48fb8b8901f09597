#include "pv_mixture.h"

#include <math.h>

#include "pv_bits.h"
#include "pv_math.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)
#define SHALLOW (UINT64_C(1) << 20) /* digits of p below which it is too uncertain: one word in 2^32 */
#define FACTORS 16 /* of a product, which no words make subnormal */
#define BLOCK 64   /* squares that are summed before they are added to the rest */

static int64_t exponentials(int64_t d) { return (d + 1) / 2; }

int64_t pv_mixture_words(pv_mixture kind, int64_t d) {
    if (kind == PV_SPHERE) return d;
    return d + exponentials(d) + (d % 2 == 0);
}

/* The sum of n exponential variables: -log of the product of their p, each in [a, a + 1] 2^-52 and taken as the middle. */
static pv_value sum_exponential(const unsigned char *words, int64_t n) {
    double sum = 0.0;
    uint64_t least = ~UINT64_C(0);
    for (int64_t start = 0; start < n; start += FACTORS) {
        const int64_t stop = start + FACTORS < n ? start + FACTORS : n;
        double product = 1.0;
        for (int64_t i = start; i < stop; ++i) {
            uint64_t a = (pv_word(words + 8 * i) & ~SIGN_BIT) >> 11;
            least = a < least ? a : least;
            product *= ((double)a + 0.5) * 0x1p-52;
        }
        sum -= pv_log(product); /* a product is not below 2^-848 */
    }
    if (least < SHALLOW) return (pv_value){sum, HUGE_VAL};
    /* Each middle is within log((a + 1/2) / a) < 1 / (2 a) of its variable. Of the rest, at most n roundings of 2^-53 are
     * the products' and so many of the sum are the sums' of n / 16 + 1 logarithms; the logarithms are each within
     * 2^-50 (1 + log). All that doubled and more: */
    const double roundings = (double)n * 0x1p-48 + sum * (0x1p-48 + (double)n * 0x1p-56);
    return (pv_value){sum, (double)n * (0.5 / (double)least) + roundings};
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
    for (int64_t start = 0; start < gaussians; start += BLOCK) {
        const int64_t stop = start + BLOCK < gaussians ? start + BLOCK : gaussians;
        pv_value part = {0.0, 0.0};
        for (int64_t j = start; j < stop; ++j) {
            const pv_value z = pv_lattice_value(PV_GAUSSIAN, pv_word(last + 8 * j));
            part.z += z.z * z.z;
            part.error += (2.0 * fabs(z.z) + z.error) * z.error;
        }
        square.z += part.z;
        square.error += part.error;
    }
    /* roundings of 2^-53: one of each square, at most BLOCK of sums in a block and one for every block, all of
     * positive numbers; the same of the error's own, which are few parts in 2^20 of it */
    const double roundings = (double)(BLOCK + 2 + gaussians / BLOCK) * 0x1p-52;
    const double relative = square.error / square.z * (1.0 + 0x1p-20) + roundings;
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
