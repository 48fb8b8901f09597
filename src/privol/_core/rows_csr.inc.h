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

static double CSR(sqnorm)(const pv_rows *r, int64_t i) {
    const INDEX *indptr = (const INDEX *)r->indptr, *indices = (const INDEX *)r->indices;
    const REAL *x = (const REAL *)r->data;
    double acc[LANES] = {0};
    for (INDEX k = indptr[i]; k < indptr[i + 1]; ++k) acc[indices[k] % LANES] += (double)x[k] * (double)x[k];
    return reduce(acc);
}

#undef INDEX
#undef CSR
