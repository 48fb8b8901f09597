#include "pv_rows.h"

#include <math.h>
#include <stddef.h>

#define LANES 8

/* The one reduction order of all sums over columns. */
static inline double reduce(const double a[LANES]) {
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

double pv_sqnorm(const double *x, int64_t n) {
    double acc[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; ++l) acc[l] += x[j + l] * x[j + l];
    for (; j < n; ++j) acc[j % LANES] += x[j] * x[j];
    return reduce(acc);
}

/* Row operations written once per layout, included once per element (and index) type. */
#define REAL float
#define NAME(op) op##_f32
#include "rows_dense.inc.h"
#define INDEX int32_t
#define CSR(op) op##_csr_f32_i32
#include "rows_csr.inc.h"
#define INDEX int64_t
#define CSR(op) op##_csr_f32_i64
#include "rows_csr.inc.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(op) op##_f64
#include "rows_dense.inc.h"
#define INDEX int32_t
#define CSR(op) op##_csr_f64_i32
#include "rows_csr.inc.h"
#define INDEX int64_t
#define CSR(op) op##_csr_f64_i64
#include "rows_csr.inc.h"
#undef REAL
#undef NAME

#define OPS(suffix) {dot_##suffix, axpy_##suffix, sqnorm_##suffix}
static const pv_row_ops dense_ops[2] = {OPS(f64), OPS(f32)};
static const pv_row_ops strided_ops[2] = {OPS(strided_f64), OPS(strided_f32)};
static const pv_row_ops csr_ops[2][2] = {{OPS(csr_f64_i32), OPS(csr_f64_i64)}, {OPS(csr_f32_i32), OPS(csr_f32_i64)}};

void pv_rows_bind(pv_rows *r) {
    int f32 = r->is_f32 != 0;
    if (r->is_csr)
        r->ops = &csr_ops[f32][r->wide_indices != 0];
    else if (r->d <= 1 || r->col_stride == (f32 ? 4 : 8))
        r->ops = &dense_ops[f32];
    else
        r->ops = &strided_ops[f32];
}

static inline int64_t pointer(const pv_rows *r, int64_t i) {
    return r->wide_indices ? ((const int64_t *)r->indptr)[i] : ((const int32_t *)r->indptr)[i];
}

static inline int64_t column(const pv_rows *r, int64_t k) {
    return r->wide_indices ? ((const int64_t *)r->indices)[k] : ((const int32_t *)r->indices)[k];
}

pv_status pv_rows_check(const pv_rows *r, int64_t *bad) {
    *bad = 0;
    if (!r->is_csr) return PV_OK;
    int64_t start = pointer(r, 0);
    for (int64_t i = 0; i < r->n; ++i) {
        int64_t end = pointer(r, i + 1), before = -1;
        *bad = i;
        if (start < 0 || end < start || end > r->nnz) return PV_BAD_INDPTR;
        for (int64_t k = start; k < end; ++k) {
            int64_t j = column(r, k);
            if (j < 0 || j >= r->d) return PV_BAD_INDEX;
            if (j <= before) return PV_UNSORTED;
            before = j;
        }
        start = end;
    }
    return PV_OK;
}

/* NaN fails every comparison, so it counts as bad without a test of its own. */
static inline int usable(double v) { return fabs(v) <= PV_ENTRY_MAX; }

static inline double entry(const pv_rows *r, int64_t i, int64_t j) {
    const char *p = r->data + i * r->row_stride + j * r->col_stride;
    return r->is_f32 ? (double)*(const float *)p : *(const double *)p;
}

int64_t pv_rows_bad_column(const pv_rows *r, int64_t i, double *value) {
    if (r->is_csr) {
        for (int64_t k = pointer(r, i); k < pointer(r, i + 1); ++k) {
            *value = r->is_f32 ? (double)((const float *)r->data)[k] : ((const double *)r->data)[k];
            if (!usable(*value)) return column(r, k);
        }
        return r->d;
    }
    for (int64_t j = 0; j < r->d; ++j) {
        *value = entry(r, i, j);
        if (!usable(*value)) return j;
    }
    return r->d;
}

double pv_rows_norm(const pv_rows *r, int64_t i) {
    double q = r->ops->sqnorm(r, i), value;
    /* one test per row: a square above the bound's makes the sum large, NaN makes it NaN */
    if (!(q <= PV_ENTRY_MAX * PV_ENTRY_MAX) && pv_rows_bad_column(r, i, &value) < r->d) return -1.0;
    return q < HUGE_VAL ? q : -1.0; /* more than 10^8 entries near the bound */
}

int64_t pv_rows_norms(const pv_rows *r, double *sqnorms) {
    int64_t first = r->n;
    for (int64_t i = 0; i < r->n; ++i) {
        sqnorms[i] = pv_rows_norm(r, i);
        if (sqnorms[i] < 0.0 && first == r->n) first = i;
    }
    return first;
}
