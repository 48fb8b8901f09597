/* Linear algebra of Newton's method, with the same bits on every machine (LAPACK's depend on the processor). */
#ifndef PV_NEWTON_H
#define PV_NEWTON_H

#include <stdint.h>
#include "rows/pv_rows.h"

/* Replaces the matrix in the lower triangle (rows `width` apart), plus `shift` on its diagonal, by its Cholesky
 * factor. Returns 0 if it is not positive definite to working precision. */
int pv_cholesky(double *a, int64_t dim, int64_t width, double shift, const pv_vectors *vectors);

/* x <- (L L')^-1 x. */
void pv_cholesky_solve(const double *l, int64_t dim, int64_t width, double *x, const pv_vectors *vectors);

/* y <- y + a x, and y <- x + a y. */
void pv_add(double a, const double *x, double *y, int64_t n);
void pv_scale_add(const double *x, double a, double *y, int64_t n);

/* z = r / diagonal. */
void pv_divide(const double *r, const double *diagonal, double *z, int64_t n);

#endif
