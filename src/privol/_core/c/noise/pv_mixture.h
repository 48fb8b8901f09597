/* Vectors that are a random factor times a Gaussian vector, each coordinate rounded to the lattice.
 *
 * L2-Laplace (density proportional to exp(-|z|)): sqrt(2 G) Z with G of the Gamma law with shape (d + 1) / 2, that is the
 * sum of d / 2 rounded up exponential variables and, for even d, half the square of one more Gaussian.
 * Uniform on the unit sphere: Z / |Z|.
 */
#ifndef PV_MIXTURE_H
#define PV_MIXTURE_H

#include <stdint.h>
#include "noise/pv_lattice.h"

typedef enum pv_mixture { PV_L2_LAPLACE, PV_SPHERE } pv_mixture;

/* Words of a vector: d Gaussian ones for Z; for L2-Laplace, then the exponential ones and, for even d, one more
 * Gaussian. */
int64_t pv_mixture_words(pv_mixture kind, int64_t d);

/* The factor in double precision; `error` bounds its relative distance from every factor whose digits start with the
 * words (infinite if the bound is not below 2^-10). words: raw little-endian bytes. */
pv_value pv_mixture_factor(pv_mixture kind, int64_t d, const unsigned char *words);

/* pv_lattice_round with the vector's own factor: out = round_h(u + scale factor Z); `factor` is returned, too. */
pv_status pv_mixture_round(pv_mixture kind, const pv_lattice *lattice, const double *u, int64_t d, double magnitude,
                           const unsigned char *words, double *out, pv_undecided *und, pv_value *factor);

#endif
