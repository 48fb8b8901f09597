/* Noise words drawn ahead, and the rounding that consumes them: shared by all runs that perturb vectors of one
 * dimension.
 *
 * Every vector has an address row of its own, which is used once. The words belong to consecutive draws, in the order
 * in which they will be needed.
 */
#ifndef PV_DRAWS_H
#define PV_DRAWS_H

#include <stdint.h>
#include "noise/pv_lattice.h"
#include "base/pv_status.h"

typedef struct pv_draws {
    unsigned char *words; /* of the vectors in the buffer, pv_row_words(d) each */
    float *values;        /* what the words make, computed ahead; NULL: they are computed where they are used */
    uint64_t *rows;       /* their address rows */
    int64_t capacity;     /* vectors the buffer can hold */
    int64_t filled, used; /* vectors in it */
    pv_undecided *undecided;
    double std;                /* of the draw under way, whose address row is rows[used] */
    const pv_first_pass *pass; /* the instruction-set level, also of runs without noise; NULL: the baseline */
} pv_draws;

/* The instruction-set level as a number. */
int pv_draws_level(const pv_draws *draws);

/* out = round_h(fl(s u) + std Z) with the words of an address row, which are then wiped; magnitude bounds |s u[j]|.
 * PV_NEED_BITS: that row is not the next one in the buffer. PV_UNDECIDED: call again with the coordinates resolved.
 * PV_NOT_FINITE: std is not a valid noise scale. */
pv_status pv_draws_round(pv_draws *draws, uint64_t row, double std, const double *u, double s, int64_t d,
                         double magnitude, double *out);

#endif
