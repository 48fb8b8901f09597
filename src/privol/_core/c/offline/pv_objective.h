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
    double slack; /* approximate error of the value */
} pv_risk;

/* Factors and squared norms of all rows: norms[i] = -1 for an unusable row. Returns how many rows are scaled. */
int64_t pv_objective_factors(const pv_rows *rows, double x_bound, double *norms, double *factors);

/* ---- Sums over the rows in use, in order, of the loss alone, without l2 and b. They may cover a part of the rows;
 * sums of several parts, joined in the order of the parts, enter the functions below. ---- */

/* Sums that bound the effect of rounding on a gradient; those of other parts are added to them. */
typedef struct pv_margins {
    double slopes;  /* of the slopes' errors times the rows' norms */
    double lengths; /* of |slope| times the rows' norms */
    double underflow;
} pv_margins;

/* The losses at w. Their gradient is high + low, in the first and the next dim numbers of `work`, which has 3 dim.
 * For each row: predictions s . w and curvatures phi''. */
double pv_objective_sums(const pv_objective *o, const double *w, double *work, double *predictions, double *curvatures);

/* The same gradient, and the bounds of its rounding. */
void pv_objective_margins(const pv_objective *o, const double *w, double *work, pv_margins *margins);

/* Blocks of rows, plus one, for the bound of rounding errors; for several parts, the sum. */
double pv_objective_blocks(const pv_objective *o);

/* whole += part; both have high and low, 2 dim numbers. */
void pv_sums_join(const double *part, double *whole, int64_t dim);

/* out = H v for the curvatures, without l2 v. */
void pv_objective_product(const pv_objective *o, const double *curvatures, const double *v, double *out);

/* Diagonal of H, without l2. `work` has dim numbers. */
void pv_objective_diagonal(const pv_objective *o, const double *curvatures, double *work, double *out);

/* Length of the rows of H's storage: dim rounded up to whole tiles. */
int64_t pv_hessian_width(int64_t dim);
/* Numbers that pv_objective_hessian needs in addition to H. */
int64_t pv_hessian_work(int64_t dim);
/* H without l2 in the lower triangle of width by width numbers; if stride is above 1, from every stride-th row,
 * times stride. */
void pv_objective_hessian(const pv_objective *o, const double *curvatures, int64_t stride, double *work,
                          double *hessian);

/* Along predictions p + a (q - p): the sums over rows of the loss's slopes and curvatures along q - p. */
void pv_objective_along(const pv_objective *o, const double *p, const double *q, double a, double *slope,
                        double *curve);

/* ---- The objective, from the sums over all rows with l2 and b. ---- */

/* The objective at w and its gradient, from the losses of n rows and the sums of their gradients. */
pv_risk pv_objective_finish(const pv_objective *o, const double *w, double value, double n, const double *sums,
                            double *gradient);

/* An upper bound of the norm of the exact gradient at w; its allowance for rounding goes into *allowance. Infinite
 * or NaN if the arithmetic leaves the finite numbers. */
double pv_objective_certify(const pv_objective *o, const double *w, const double *sums, const pv_margins *margins,
                            double blocks, double *gradient, double *allowance);

/* Both in one call, over all rows of `o`; `work` has 3 dim numbers. */
pv_risk pv_objective_gradient(const pv_objective *o, const double *w, double *work, double *gradient,
                              double *predictions, double *curvatures);
double pv_objective_bound(const pv_objective *o, const double *w, double *work, double *gradient, double *allowance);

#endif
