/* First pass of rounding noise to a lattice: quantiles in single precision, as wide as the processor's vectors.
 *
 * It decides what it can prove and leaves the rest undecided. The released value is the correctly rounded ideal sum
 * whoever decides it, so only the speed depends on the level.
 */
#ifndef PV_FIRST_PASS_H
#define PV_FIRST_PASS_H

#include <stdint.h>

/* The law of Z. A word's top bit is its sign (ignored for the exponential law); the other 63 bits are the first
 * binary digits of p = P(|Z'| > |Z|). */
typedef enum pv_law { PV_GAUSSIAN, PV_LAPLACE, PV_EXPONENTIAL, PV_LAWS } pv_law;

/* Coordinates per call, and the multiple that work on them is padded to. */
#define PV_FIRST_PASS_CHUNK 64
#define PV_FIRST_PASS_PAD 8
#define PV_FIRST_PASS_VALUES 16
/* Largest scale in units of the grid. */
#define PV_FIRST_PASS_WIDEST 524288.0

/* |Z| from the top 31 digits of p: if z is at most `most`, every Z that the later digits can give is within error z
 * + floor of it. tests/core/c/test_first_pass.c checks this for each of the 2^31 values. */
typedef struct pv_first_pass_bound {
    float most, error, floor;
    uint32_t sign; /* mask of the sign bit where it counts */
} pv_first_pass_bound;

/* out[j] = round_h(x[j] + b h Z_j), j < n, for those that are decided; the result has the bits of the others set,
 * and their out[j] is meaningless. The ideal b may differ by the relative `uncertainty`. n <= PV_FIRST_PASS_CHUNK,
 * |x[j]| <= 2^50 h, h a power of two, 0 < b <= PV_FIRST_PASS_WIDEST. */
typedef uint64_t (*pv_first_pass_function)(pv_law law, const double *x, double h, double b, double uncertainty,
                                           const uint64_t *word, double *out, int64_t n);

typedef struct pv_first_pass {
    const char *name;
    const pv_first_pass_bound *bounds; /* of each law */
    pv_first_pass_function run;
    /* |Z| of top words; n <= PV_FIRST_PASS_CHUNK is a multiple of PV_FIRST_PASS_PAD; for tests */
    void (*quantile)(pv_law law, const uint32_t *top, float *z, int64_t n);
    /* The same as run, with x[j] = fl(s u[j]) and words at any alignment. */
    uint64_t (*round)(pv_law law, const double *u, double s, double h, double b, double uncertainty, const void *words,
                      double *out, int64_t n);
    /* The same in two parts. z[j], j < n, is Z of a word with its sign, as the first pass has it; NaN, or above
     * `most`, if it has no bound. Room for n rounded up to PV_FIRST_PASS_VALUES. */
    void (*values)(pv_law law, const void *words, float *z, int64_t n);
    uint64_t (*add)(pv_law law, const double *u, double s, double h, double b, double uncertainty, const float *z,
                    double *out, int64_t n);
    int level; /* the index of this level */
} pv_first_pass;

/* Levels that this build has and this processor runs, slowest first. */
int pv_first_pass_levels(void);
const pv_first_pass *pv_first_pass_level(int level);

#endif
