/* Noise on a power-of-two lattice: out = round_h(x + scale Z), correctly rounded.
 *
 * |Z| is the quantile of p = P(|Z'| > |Z|), the infinite binary fraction whose first digits are the coordinate's word
 * (pv_first_pass.h). Where every point of the interval that the word leaves (widened by the error of the evaluation)
 * rounds to the same lattice point, that point is released; elsewhere the coordinate is reported undecided and the
 * caller resolves it with more bits and more precision. The result is that of the ideal real sum, so it does not
 * depend on how it was evaluated.
 */
#ifndef PV_LATTICE_H
#define PV_LATTICE_H

#include <stdint.h>
#include "noise/pv_first_pass.h"
#include "base/pv_status.h"

typedef struct pv_undecided {
    int64_t n;        /* undecided coordinates of the last call */
    int64_t most;     /* ... of any call: what has ever been written and must be wiped */
    int64_t capacity; /* of the arrays: the dimension */
    int64_t *coord;   /* their indices, ascending */
    uint64_t *word;   /* their words */
    double *x;        /* their noiseless values */
    int64_t resolved; /* of them, how many `value` holds: all or none */
    double *value;    /* resolved lattice points, in units of h */
} pv_undecided;

/* Grid of a scale: the power of two with 2^10 h <= scale < 2^11 h. */
double pv_lattice_step(double scale);

/* What is added, and the grid of the sum. */
typedef struct pv_lattice {
    pv_law law;
    double scale;              /* of Z, above 0 */
    double uncertainty;        /* relative: the ideal scale is so near to `scale` */
    double step;               /* h: a power of two */
    const pv_first_pass *pass; /* the instruction-set level */
} pv_lattice;

/* Whether all n values are finite and of magnitude below 2^50 h. */
int pv_lattice_within(const pv_lattice *lattice, const double *x, int64_t n);

/* out[j] = round_h(fl(s u[j]) + scale Z_j), j < d; u NULL: zeros; words: d words as raw little-endian bytes.
 * magnitude bounds |s u[j]|; beyond 2^50 h everything is left to the slower path. PV_UNDECIDED lists what could not be
 * rounded; call again with the resolved values in `und`, or write them into out. out may be u, which a second call would
 * then not find any more. */
pv_status pv_lattice_round(const pv_lattice *lattice, const double *u, double s, int64_t d, double magnitude,
                           const unsigned char *words, double *out, pv_undecided *und);

/* What the first pass makes of the words of d coordinates, which does not depend on what they are added to: the dearer
 * half of the rounding, which may be done ahead. Room for pv_lattice_values_size(d) floats. */
void pv_lattice_values(const pv_lattice *lattice, const unsigned char *words, int64_t d, float *z);
static inline int64_t pv_lattice_values_size(int64_t d) {
    return (d + PV_FIRST_PASS_VALUES - 1) & ~(int64_t)(PV_FIRST_PASS_VALUES - 1);
}

/* pv_lattice_round, of words whose values are there already; NULL: they are not. The same result. */
pv_status pv_lattice_add(const pv_lattice *lattice, const double *u, double s, int64_t d, double magnitude,
                         const unsigned char *words, const float *z, double *out, pv_undecided *und);

/* Z of a word in double precision, and a bound on its distance from every Z that starts with the word (infinite where
 * the word is too deep in the tail). */
typedef struct pv_value {
    double z, error;
} pv_value;

pv_value pv_lattice_value(pv_law law, uint64_t word);

#endif
