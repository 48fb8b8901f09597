/* Row view: one block of rows as the kernels see it, whatever the caller's layout.
 *
 * Element types meet the code only in the three operations of the table, which is chosen once per
 * block. Accumulation is always in double in eight lanes, column j in lane j mod 8, and one fixed
 * reduction: so dense, strided and CSR rows, float32 and float64 rows of the same values give the
 * same bits on every machine.
 */
#ifndef PV_ROWS_H
#define PV_ROWS_H

#include <stdint.h>
#include "base/pv_status.h"

typedef struct pv_rows pv_rows;

typedef struct pv_row_ops {
    double (*dot)(const pv_rows *rows, int64_t i, const double *w);
    void (*axpy)(const pv_rows *rows, int64_t i, double a, double *w);   /* w += a * row i */
    void (*scaled)(const pv_rows *rows, int64_t i, double a, double *w); /* w = a * row i, never -0 */
    double (*sqnorm)(const pv_rows *rows, int64_t i);
} pv_row_ops;

struct pv_rows {
    int64_t n, d;
    const char *data;               /* dense: element (0, 0); CSR: values */
    int64_t row_stride, col_stride; /* dense: bytes */
    const void *indptr, *indices;   /* CSR */
    int64_t nnz;
    int is_csr, wide_indices, is_f32;
    const pv_row_ops *ops;
};

/* Largest magnitude of an entry: its square and sums of such squares stay finite. */
#define PV_ENTRY_MAX 1e150

/* Choose the baseline operations from the layout fields. */
void pv_rows_bind(pv_rows *rows);

/* Replace them by those of an instruction-set level (pv_first_pass.h): the same bits. */
void pv_rows_use(pv_rows *rows, int level);

/* CSR structure: row pointers within bounds, indices in range and strictly ascending.
 * On failure *bad is the row. Dense rows: PV_OK. */
pv_status pv_rows_check(const pv_rows *rows, int64_t *bad);

/* Squared norm of row i, -1 if an entry is NaN or above PV_ENTRY_MAX. */
double pv_rows_norm(const pv_rows *rows, int64_t i);

/* Squared norms of all rows. A row with an entry that is NaN or above PV_ENTRY_MAX gets -1;
 * returns the first such row, or n. */
int64_t pv_rows_norms(const pv_rows *rows, double *sqnorms);

/* First column of row i with an unusable entry, or d. *value receives the entry. */
int64_t pv_rows_bad_column(const pv_rows *rows, int64_t i, double *value);

/* n rounded up to whole registers: eight doubles, a cache line. */
static inline int64_t pv_whole(int64_t n) { return (n + 7) & ~(int64_t)7; }

/* A point that is an affine function of a sum: (held start - (base + sum)) length. */
typedef struct pv_affine {
    const double *start, *base;
    double held, length;
} pv_affine;

/* Operations on vectors of doubles, with the same bits at every level. */
typedef struct pv_vectors {
    double (*sqnorm)(const double *x, int64_t n);               /* in the same lanes */
    double (*dot)(const double *x, const double *y, int64_t n); /* likewise */
    /* out = sum of weights_k x_k over the count vectors, at least one, added in their order; never -0. */
    void (*combine)(const double *weights, const double *const *x, int64_t count, double *out, int64_t n);
    /* out = f x, never -0; sum += weight out */
    void (*publish)(const double *x, double f, double weight, double *out, double *sum, int64_t n);
    /* and copy = out */
    void (*publish_two)(const double *x, double f, double weight, double *out, double *sum, double *copy, int64_t n);
    /* out = f x, never -0 */
    void (*scale)(const double *x, double f, double *out, int64_t n);
    /* x: the point that a sum makes */
    void (*follow)(const pv_affine *to, const double *sum, double *x, int64_t n);
    /* The q buffers of a BLT, n values each. x = w + sum of omega_j b_j, then b_j <- theta_j b_j + w. */
    void (*mix)(const double *theta, const double *omega, int q, const double *w, double *buffers, double *x,
                int64_t n);
    /* y <- y - sum of omega_j b_j, then b_j <- theta_j b_j + y and sum += y. */
    void (*unmix)(const double *theta, const double *omega, int q, double *y, double *buffers, double *sum, int64_t n);
    /* unmix of four buffers, without y, then follow; returns the sqnorm of x. */
    double (*unmix_follow)(const double *theta, const double *omega, const double *y, double *buffers, double *sum,
                           const pv_affine *to, double *x, int64_t n);
} pv_vectors;

const pv_vectors *pv_vectors_at(int level);

/* Sum of squares of a double vector in the same lanes. */
double pv_sqnorm(const double *x, int64_t n);

#endif
