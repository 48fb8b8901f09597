/* Gaussian noise on a power-of-two lattice: out = round_h(x + scale Z), correctly rounded.
 *
 * Z = F^-1(U) with U the infinite binary fraction whose first bits are the coordinate's word: sign
 * from the top bit, the next 52 bits place |Z| within an interval. Where every point of the interval
 * (widened by the error of the evaluation) rounds to the same lattice point, that point is released;
 * elsewhere the coordinate is reported undecided and the caller resolves it with more bits and more
 * precision. The result is that of the ideal real sum, so it does not depend on the polynomial.
 */
#ifndef PV_LATTICE_H
#define PV_LATTICE_H

#include <stdint.h>
#include "pv_status.h"

typedef struct pv_undecided {
    int64_t n;          /* undecided coordinates of the last call */
    int64_t capacity;   /* of the arrays: the dimension */
    int64_t *coord;     /* their indices, ascending */
    uint64_t *word;     /* their words */
    double *x;          /* their noiseless values */
    int64_t resolved;   /* of them, how many `value` holds: all or none */
    double *value;      /* resolved lattice points, in units of h */
} pv_undecided;

/* Grid of a scale: the power of two with 2^10 h <= scale < 2^11 h. */
double pv_lattice_step(double scale);

/* out[j] = round_h(fl(s u[j]) + scale Z_j), j < d; words: pv_row_words(d) words as raw little-endian bytes.
 * magnitude bounds |s u[j]|. PV_UNDECIDED lists what could not be rounded; call again with the
 * resolved values in `und`. */
pv_status pv_lattice_gaussian(const double *u, double s, int64_t d, double scale, double magnitude,
                              const unsigned char *words, double *out, pv_undecided *und);

/* Z of a word in double precision (|error| <= pv_gaussian_error(word)): diagnostics and tests. */
double pv_gaussian_value(uint64_t word);
double pv_gaussian_error(uint64_t word);

#endif
