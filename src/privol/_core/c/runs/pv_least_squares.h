/* Online least squares on private moments: the running sums of svec(v v') and y v are perturbed by one private
 * prefix sum, and models are solved from its releases.
 *
 * Rows are scaled to unit bounds: v = x / row_bound with the intercept's constant inside the bound, y / y_bound.
 */
#ifndef PV_LEAST_SQUARES_H
#define PV_LEAST_SQUARES_H

#include <stdint.h>
#include "prefix/pv_moments.h"
#include "prefix/pv_prefix.h"
#include "prefix/pv_ridge.h"
#include "runs/pv_run.h"

typedef struct pv_least_squares_plan {
    pv_plan run;
    double row_unit, target_unit; /* what a scaled row and a clipped target are multiplied with */
    double l2;                    /* of a row, in unit bounds */
    const double *shifts;         /* added for the noise of an epoch: entry k from step 2^k to 2^(k+1) - 1 */
    int64_t n_shifts;             /* of an epoch; those of the next follow, up to those of the last */
    pv_by_epoch ended;            /* squared, of the epochs before */
    double radius;                /* of the models, in unit bounds */
    double cost;                  /* mu^2 of the whole run: all of it is spent with the first row */
    int as_printed; /* all entries of v v', and models without shifts for noise, as Algorithm 4 has them */
} pv_least_squares_plan;

typedef struct pv_least_squares {
    pv_state run;
    pv_prefix sums;
    pv_ridge ridge;
    pv_moments add; /* of the instruction-set level */
    /* secret: rows of the leaf that has begun, which its sum lacks, and their targets; room for PV_MOMENT_ROWS */
    double *rows, *targets;
    int64_t waiting;
    double *moments;     /* secret: of the row that is learnt, where leaves are not added up in doubles */
    double *released;    /* public: the sums that a model is solved from */
    const double *given; /* secret: what the next null row adds, where a leaf was summed elsewhere; else NULL */
} pv_least_squares;

extern const pv_method pv_least_squares_method;

/* Add waiting rows to the sum of their leaf, because only sums of a run are kept. No bit depends on when. */
void pv_least_squares_gather(pv_least_squares *s);

/* The sum of a leaf of rows first, ..., first + n - 1 into `out`: the same bits as learning them one by one leaves
 * in the sum of their leaf. The numbers of scaled and of null rows in `counts` grow; `scratch` has PV_MOMENT_ROWS (d
 * + 1) numbers. For use if leaves are added up in doubles (pv_prefix_in_doubles). */
void pv_least_squares_leaf(const pv_least_squares_plan *plan, pv_moments add, const pv_rows *rows, const double *y,
                           int64_t first, int64_t n, pv_state *counts, double *scratch, double *out);

/* No more rows follow, and nothing is pending: a leaf that has begun ends, and a model of all rows becomes due,
 * unless it is released already. Once a run, whose horizon then is the rows so far. */
void pv_least_squares_end(pv_least_squares *s, const pv_least_squares_plan *plan);

#endif
