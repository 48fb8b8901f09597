/* Moments of up to five rows of up to three coordinates, and models solved from them, whatever LAPACK finds: each routine
 * reads and writes what its interface says. */
#include "prefix/pv_moments.h"
#include "prefix/pv_ridge.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3, ROWS = 5, SIZE = MOST * MOST + MOST, WORK = 128 };

/* The result of a routine: n doubles, or a failure. */
static void made(double *x, int n, int *info) {
    if (n > 0) Frama_C_make_unknown((char *)x, (size_t)n * sizeof *x);
    *info = Frama_C_interval(-1, 1);
}

static void potrf(char *uplo, int *n, double *a, int *lda, int *info) { made(a, *n * *lda, info); }

static void trtrs(char *uplo, char *trans, char *diag, int *n, int *nrhs, double *a, int *lda, double *b, int *ldb,
                  int *info) {
    made(b, *ldb * *nrhs, info);
}

static void syevd(char *jobz, char *uplo, int *n, double *a, int *lda, double *w, double *work, int *lwork, int *iwork,
                  int *liwork, int *info) {
    Frama_C_make_unknown((char *)work, (size_t)*lwork * sizeof *work);
    Frama_C_make_unknown((char *)iwork, (size_t)*liwork * sizeof *iwork);
    made(w, *n, info);
    made(a, *n * *lda, info);
}

static void gesv(int *n, int *nrhs, double *a, int *lda, int *pivots, double *b, int *ldb, int *info) {
    Frama_C_make_unknown((char *)pivots, (size_t)*n * sizeof *pivots);
    made(a, *n * *lda, info);
    made(b, *ldb * *nrhs, info);
}

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

int main(void) {
    double v[ROWS * MOST], y[ROWS], sum[MOST * (MOST + 1) / 2 + MOST - SHORT], all[SIZE], matrix[MOST * MOST],
        work[WORK], x[MOST];
    int integers[WORK];
    const int d = Frama_C_interval(1, MOST), fresh = Frama_C_interval(0, 1);
    const int64_t k = Frama_C_long_interval(1, ROWS);
    //@ split d;
    //@ split k;
    //@ split fresh;
    Frama_C_make_unknown((char *)v, sizeof v);
    Frama_C_make_unknown((char *)y, sizeof y);
    Frama_C_make_unknown((char *)sum, sizeof sum);
    const int64_t size = pv_moments_size(d), n = pv_ridge_work(d), m = pv_ridge_integers(d);
    double *moments = sum + MOST * (MOST + 1) / 2 + MOST - size;
    pv_ridge ridge = {{potrf, trtrs, syevd, gesv}, d, matrix + MOST * MOST - d * d, work + WORK - n,
                      integers + WORK - m,         0};
    pv_moments_at(0)(v + ROWS * MOST - k * d, y + ROWS - k, k, d, fresh, moments);
    pv_ridge_solve(&ridge, moments, any(), any(), any(), x + MOST - d);
    pv_all_moments(v, any(), d, all + SIZE - pv_all_moments_size(d));
    pv_ridge_solve_as_printed(&ridge, all + SIZE - pv_all_moments_size(d), any(), x + MOST - d);
    return 0;
}
