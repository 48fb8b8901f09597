/* Ridge regression from noisy moments: post-processing of released numbers, so nothing here is secret or needs to be
 * exact.
 *
 * Moments of rows v with targets y are one vector: V = sum v v' as pv_prefix_svec has it (the upper triangle by rows,
 * entries off the diagonal times sqrt 2), then u = sum y v.
 */
#ifndef PV_RIDGE_H
#define PV_RIDGE_H

#include <stdint.h>
#include "base/pv_status.h"

/* LAPACK's Fortran interface. */
typedef struct pv_lapack {
    void (*potrf)(char *uplo, int *n, double *a, int *lda, int *info);
    void (*trtrs)(char *uplo, char *trans, char *diag, int *n, int *nrhs, double *a, int *lda, double *b, int *ldb,
                  int *info);
    void (*syevd)(char *jobz, char *uplo, int *n, double *a, int *lda, double *w, double *work, int *lwork, int *iwork,
                  int *liwork, int *info);
    void (*gesv)(int *n, int *nrhs, double *a, int *lda, int *pivots, double *b, int *ldb, int *info);
} pv_lapack;

typedef struct pv_ridge {
    pv_lapack lapack;
    int d;
    double *matrix;       /* d * d */
    double *work;         /* pv_ridge_work(d) */
    int *integers;        /* pv_ridge_integers(d) */
    int64_t n_indefinite; /* solutions that took eigenvalues */
} pv_ridge;

int64_t pv_ridge_work(int64_t d);
int64_t pv_ridge_integers(int64_t d);

/* Length of the moments of rows with d coordinates. */
int64_t pv_moments_size(int64_t d);

/* x = (V + (shift + nu) I)^-1 u with the least nu >= 0 such that ||x|| <= radius; shift > 0. If V + shift I is not
 * positive definite, the eigenvalues of V are first moved into [0, most]. PV_NOT_FINITE: the moments are not finite,
 * or LAPACK failed. */
pv_status pv_ridge_solve(pv_ridge *ridge, const double *moments, double most, double shift, double radius, double *x);

/* The moments as Algorithm 4 of Jain, Kothari and Thakurta has them: all entries of V by rows, each with its own
 * noise, then u. x = (V + shift I)^-1 u whatever V is, and 0 if that matrix is singular. A matrix whose symmetric
 * part has no Cholesky factor counts as indefinite. */
int64_t pv_all_moments_size(int64_t d);
void pv_all_moments(const double *v, double y, int64_t d, double *out);
pv_status pv_ridge_solve_as_printed(pv_ridge *ridge, const double *moments, double shift, double *x);

#endif
