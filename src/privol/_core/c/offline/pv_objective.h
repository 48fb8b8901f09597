/* The regularised empirical risk of a linear model, in sum form:
 *
 *     F(w) = sum_i phi(s_i . w; y_i) + (l2 / 2) |w|^2 + b . w,     s_i = f_i x_i, and a constant 1 with an intercept,
 *
 * f_i the double that scales a row to its bound. Sums over rows go over blocks of PV_OBJECTIVE_BLOCK rows in order, and
 * the blocks' sums into two doubles each, so results are functions of the rows' values alone: not of their layout or
 * element type, nor of the instruction-set level. docs/proofs/solver.md has the errors.
 */
#ifndef PV_OBJECTIVE_H
#define PV_OBJECTIVE_H

#include <stdint.h>
#include "losses/pv_loss.h"
#include "losses/pv_loss_rows.h"
#include "rows/pv_rows.h"

#define PV_OBJECTIVE_BLOCK 256

typedef struct pv_objective {
    pv_rows rows;
    pv_loss loss;
    int level;
    pv_loss_rows many;
    const pv_vectors *vectors;
    int64_t n;             /* rows that count */
    const int64_t *index;  /* which they are; NULL: all */
    const double *y;       /* targets by row */
    const double *factors; /* f by row; NULL: all 1 */
    int64_t dim;           /* the intercept included */
    int intercept;
    double l2;
    const double *linear; /* b; NULL: 0 */
} pv_objective;

typedef struct pv_risk {
    double value;
    double slack; /* what the value may be off by, about */
} pv_risk;

/* Factors and squared norms of all rows: norms[i] = -1 for one that is not usable. Returns how many are scaled. */
int64_t pv_objective_factors(const pv_rows *rows, double x_bound, double *norms, double *factors);

/* ---- Sums over the rows that count, in order: of the loss alone, without l2 and b. They may be of a part of the rows:
 * those of several parts, joined in the order of the parts, are finished below. ---- */

/* Sums that bound what rounding does to a gradient; to be added to those of other parts. */
typedef struct pv_margins {
    double slopes;  /* of the slopes' errors times the rows' norms */
    double lengths; /* of |slope| times the rows' norms */
    double underflow;
} pv_margins;

/* The losses at w. Their gradient is high + low, in the first and the next dim numbers of `work`, which has 3 dim. By
 * row: predictions s . w and curvatures phi''. */
double pv_objective_sums(const pv_objective *o, const double *w, double *work, double *predictions, double *curvatures);

/* The same gradient, and what its roundings are bounded by. */
void pv_objective_margins(const pv_objective *o, const double *w, double *work, pv_margins *margins);

/* Blocks of rows, and one more: what the bound of roundings goes by; of several parts the sum. */
double pv_objective_blocks(const pv_objective *o);

/* whole += part, both high and low of 2 dim numbers. */
void pv_sums_join(const double *part, double *whole, int64_t dim);

/* out = H v for the curvatures, without l2 v. */
void pv_objective_product(const pv_objective *o, const double *curvatures, const double *v, double *out);

/* Diagonal of H, without l2. `work` has dim numbers. */
void pv_objective_diagonal(const pv_objective *o, const double *curvatures, double *work, double *out);

/* Rows of H's storage are this long: dim rounded up to whole tiles. */
int64_t pv_hessian_width(int64_t dim);
/* Numbers that pv_objective_hessian needs besides H. */
int64_t pv_hessian_work(int64_t dim);
/* H without l2 in the lower triangle of width by width numbers; of every stride-th row, stride times, where that is
 * above 1. */
void pv_objective_hessian(const pv_objective *o, const double *curvatures, int64_t stride, double *work,
                          double *hessian);

/* Along predictions p + a (q - p): the sums over rows of the loss's slopes, and curvatures, along q - p. */
void pv_objective_along(const pv_objective *o, const double *p, const double *q, double a, double *slope,
                        double *curve);

/* ---- The objective: what the sums over all rows make with l2 and b. ---- */

/* The objective at w and its gradient, from the losses of n rows and their gradient's sums. */
pv_risk pv_objective_finish(const pv_objective *o, const double *w, double value, double n, const double *sums,
                            double *gradient);

/* An upper bound of the norm of the exact gradient at w; its part that stands for rounding goes into *allowance.
 * Infinite or NaN if the arithmetic leaves the finite numbers. */
double pv_objective_certify(const pv_objective *o, const double *w, const double *sums, const pv_margins *margins,
                            double blocks, double *gradient, double *allowance);

/* Both in one, of all rows of `o`; `work` has 3 dim numbers. */
pv_risk pv_objective_gradient(const pv_objective *o, const double *w, double *work, double *gradient,
                              double *predictions, double *curvatures);
double pv_objective_bound(const pv_objective *o, const double *w, double *work, double *gradient, double *allowance);

#endif
