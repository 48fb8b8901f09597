/* Included by rows.c once per element type REAL and index type INDEX; CSR(op) names the function.
 * Absent entries would add +0 to a lane that is never -0, so skipping them changes no bit. */

static double CSR(dot)(const pv_rows *r, int64_t i, const double *w) {
    const INDEX *indptr = (const INDEX *)r->indptr, *indices = (const INDEX *)r->indices;
    const REAL *x = (const REAL *)r->data;
    double acc[LANES] = {0};
    for (INDEX k = indptr[i]; k < indptr[i + 1]; ++k) {
        INDEX j = indices[k];
        acc[j % LANES] += (double)x[k] * w[j];
    }
    return reduce(acc);
}

static void CSR(axpy)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    const INDEX *indptr = (const INDEX *)r->indptr, *indices = (const INDEX *)r->indices;
    const REAL *x = (const REAL *)r->data;
    for (INDEX k = indptr[i]; k < indptr[i + 1]; ++k) w[indices[k]] += a * (double)x[k];
}

static void CSR(scaled)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    memset(w, 0, (size_t)r->d * sizeof(double));
    CSR(axpy)(r, i, a, w);
}

static double CSR(sqnorm)(const pv_rows *r, int64_t i) {
    const INDEX *indptr = (const INDEX *)r->indptr, *indices = (const INDEX *)r->indices;
    const REAL *x = (const REAL *)r->data;
    double acc[LANES] = {0};
    for (INDEX k = indptr[i]; k < indptr[i + 1]; ++k) acc[indices[k] % LANES] += (double)x[k] * (double)x[k];
    return reduce(acc);
}

/* The pointers first, then all columns and their descents in one pass that compilers vectorise: a descent from one
 * row to the next is not a fault. */
static pv_status CSR(check)(const pv_rows *r, int64_t *bad) {
    const INDEX *indptr = (const INDEX *)r->indptr, *indices = (const INDEX *)r->indices;
    *bad = 0;
    if (indptr[0] != 0) return PV_BAD_INDPTR;
    for (int64_t i = 0; i < r->n; ++i)
        if (indptr[i + 1] < indptr[i] || indptr[i + 1] > r->nnz) {
            *bad = i;
            return PV_BAD_INDPTR;
        }
    const INDEX end = indptr[r->n], last = (INDEX)(r->d <= INDEX_MAX ? r->d - 1 : INDEX_MAX);
    INDEX outside = end > 0 && (indices[0] < 0 || indices[0] > last), falls = 0;
    for (INDEX k = 1; k < end; ++k) {
        outside |= (indices[k] < 0) | (indices[k] > last);
        falls += indices[k] <= indices[k - 1];
    }
    for (int64_t i = 0; i < r->n; ++i) {
        const INDEX k = indptr[i];
        falls -= k > 0 && k < indptr[i + 1] && indices[k] <= indices[k - 1];
    }
    if (!outside && !falls) return PV_OK;
    for (int64_t i = 0; i < r->n; ++i)
        for (INDEX k = indptr[i]; k < indptr[i + 1]; ++k)
            if (outside ? indices[k] < 0 || indices[k] > last : k > indptr[i] && indices[k] <= indices[k - 1]) {
                *bad = i;
                return outside ? PV_BAD_INDEX : PV_UNSORTED;
            }
    return PV_OK;
}

#undef INDEX
#undef INDEX_MAX
#undef CSR
