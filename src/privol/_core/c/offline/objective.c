#include "offline/pv_objective.h"

#include <math.h>
#include <string.h>

#include "base/pv_math.h"

enum { CHUNK = PV_LOSS_ROWS };

static const double U = 0x1p-53;      /* one rounding */
static const double TINY = 0x1p-1000; /* more than all underflows in one row may lose */

static inline int64_t row_of(const pv_objective *o, int64_t k) { return o->index ? o->index[k] : k; }

static inline double factor_of(const pv_objective *o, int64_t i) { return o->factors ? o->factors[i] : 1.0; }

/* s . w, as the online learners predict. */
static inline double predict(const pv_objective *o, int64_t i, const double *w) {
    double p = o->rows.ops->dot(&o->rows, i, w);
    if (o->factors) p = o->factors[i] * p;
    return o->intercept ? p + w[o->dim - 1] : p;
}

/* out += a s */
static inline void add_row(const pv_objective *o, int64_t i, double a, double *out) {
    if (a == 0.0) return;
    o->rows.ops->axpy(&o->rows, i, o->factors ? a * o->factors[i] : a, out);
    if (o->intercept) out[o->dim - 1] += a;
}

/* A sum in two doubles: *high + *low is exact except for the rounding of *low. */
static inline void add_exactly(double x, double *high, double *low) {
    const double sum = *high + x, back = sum - *high;
    *low += (*high - (sum - back)) + (x - back);
    *high = sum;
}

static void add_block(const double *block, double *high, double *low, int64_t n) {
    for (int64_t j = 0; j < n; ++j) add_exactly(block[j], high + j, low + j);
}

int64_t pv_objective_factors(const pv_rows *rows, double x_bound, double *norms, double *factors) {
    const double most = x_bound * x_bound;
    int64_t scaled = 0;
    pv_rows_norms(rows, norms);
    for (int64_t i = 0; i < rows->n; ++i) {
        const int beyond = norms[i] > most;
        factors[i] = beyond ? x_bound / sqrt(norms[i]) : 1.0;
        scaled += beyond;
    }
    return scaled;
}

/* ---- the gradient, and a bound of its norm -------------------------------------------------------- */

/* An upper bound of the root of the exact sum of n squares that was computed as `square`. */
static inline double root_above(double square, int64_t n) {
    return sqrt(square * (1.0 + 2.0 * ((double)n / 8.0 + 8.0) * U) + (double)n * 0x1p-1020) * (1.0 + 4.0 * U);
}

/* What bounds the rounding of predictions, and its sums over rows. */
typedef struct margin {
    double width; /* upper bound of the features' weights */
    double lanes; /* roundings of a prediction */
    pv_margins sums;
} margin;

static void widen(const pv_objective *o, int64_t i, double p, double y, double slope, double curve, const double *w,
                  margin *row) {
    const int64_t d = o->rows.d;
    const double length = root_above(o->rows.ops->sqnorm(&o->rows, i), d), scaled = factor_of(o, i) * length;
    const double norm = o->intercept ? sqrt(scaled * scaled + 1.0) : scaled;
    const double last = o->intercept ? fabs(w[o->dim - 1]) : 0.0;
    const double error = row->lanes * U * (scaled * row->width) + U * (fabs(p) + last) + TINY;
    row->sums.slopes += o->loss.off(&o->loss, p, y, slope, curve, error) * norm;
    row->sums.lengths += fabs(slope) * norm;
    row->sums.underflow += (length + sqrt((double)d) + 1.0) * 0x1p-1070;
}

/* All sums over rows: the gradient of the loss is high + low, the first two vectors of `work`. */
static double pass(const pv_objective *o, const double *w, double *work, double *predictions, double *curvatures,
                   margin *total) {
    const int64_t dim = o->dim;
    double *high = work, *low = work + dim, *block = work + 2 * dim;
    double p[CHUNK], y[CHUNK], slope[CHUNK], curve[CHUNK], given[CHUNK], target[CHUNK];
    double value = 0.0, value_low = 0.0;
    memset(work, 0, (size_t)(3 * dim) * sizeof(double));
    for (int64_t start = 0; start < o->n; start += PV_OBJECTIVE_BLOCK) {
        const int64_t end = start + PV_OBJECTIVE_BLOCK < o->n ? start + PV_OBJECTIVE_BLOCK : o->n;
        double block_value = 0.0;
        margin part = {0};
        if (total) part.width = total->width, part.lanes = total->lanes;
        for (int64_t k = start; k < end; k += CHUNK) {
            const int64_t m = end - k < CHUNK ? end - k : CHUNK;
            for (int64_t j = 0; j < m; ++j) {
                const int64_t i = row_of(o, k + j);
                p[j] = predict(o, i, w);
                y[j] = o->y[i];
            }
            if (predictions) memcpy(predictions + k, p, (size_t)m * sizeof(double));
            if (total) {
                memcpy(given, p, (size_t)m * sizeof(double));
                memcpy(target, y, (size_t)m * sizeof(double));
            }
            block_value += o->many(&o->loss, m, p, y, slope, curve);
            if (curvatures) memcpy(curvatures + k, curve, (size_t)m * sizeof(double));
            for (int64_t j = 0; j < m; ++j) add_row(o, row_of(o, k + j), slope[j], block);
            if (total)
                for (int64_t j = 0; j < m; ++j)
                    widen(o, row_of(o, k + j), given[j], target[j], slope[j], curve[j], w, &part);
        }
        add_exactly(block_value, &value, &value_low);
        add_block(block, high, low, dim);
        memset(block, 0, (size_t)dim * sizeof(double));
        if (total) {
            total->sums.slopes += part.sums.slopes;
            total->sums.lengths += part.sums.lengths;
            total->sums.underflow += part.sums.underflow;
        }
    }
    return value + value_low;
}

double pv_objective_sums(const pv_objective *o, const double *w, double *work, double *predictions,
                         double *curvatures) {
    return pass(o, w, work, predictions, curvatures, 0);
}

void pv_objective_margins(const pv_objective *o, const double *w, double *work, pv_margins *margins) {
    margin m = {.width = root_above(o->vectors->sqnorm(w, o->rows.d), o->rows.d),
                .lanes = (double)o->rows.d / 8.0 + 8.0};
    pass(o, w, work, 0, 0, &m);
    *margins = m.sums;
}

void pv_sums_join(const double *part, double *whole, int64_t dim) {
    add_block(part, whole, whole + dim, dim);
    for (int64_t j = dim; j < 2 * dim; ++j) whole[j] += part[j];
}

/* high + low + l2 w + b, correct up to one rounding and second-order errors. */
pv_risk pv_objective_finish(const pv_objective *o, const double *w, double value, double n, const double *sums,
                            double *gradient) {
    for (int64_t j = 0; j < o->dim; ++j) {
        const double product = o->l2 * w[j], rest = fma(o->l2, w[j], -product);
        double high = sums[j], low = 0.0;
        add_exactly(product, &high, &low);
        if (o->linear) add_exactly(o->linear[j], &high, &low);
        gradient[j] = high + (low + (rest + sums[o->dim + j]));
    }
    const double norm = 0.5 * o->l2 * o->vectors->sqnorm(w, o->dim);
    const double linear = o->linear ? o->vectors->dot(o->linear, w, o->dim) : 0.0;
    return (pv_risk){value + (norm + linear), 0x1p-46 * (value + n + norm + fabs(linear))};
}

pv_risk pv_objective_gradient(const pv_objective *o, const double *w, double *work, double *gradient,
                              double *predictions, double *curvatures) {
    const double value = pass(o, w, work, predictions, curvatures, 0);
    return pv_objective_finish(o, w, value, (double)o->n, work, gradient);
}

double pv_objective_certify(const pv_objective *o, const double *w, const double *sums, const pv_margins *margins,
                            double blocks, double *gradient, double *allowance) {
    const double all = root_above(o->vectors->sqnorm(w, o->dim), o->dim);
    (void)pv_objective_finish(o, w, 0.0, 0.0, sums, gradient);
    const double b = o->linear ? root_above(o->vectors->sqnorm(o->linear, o->dim), o->dim) : 0.0;
    const double second = (32.0 + 8.0 * blocks + 4.0 * blocks * blocks) * (U * U);
    const double norm = root_above(o->vectors->sqnorm(gradient, o->dim), o->dim);
    const double most = (PV_OBJECTIVE_BLOCK + 8.0) * U * margins->lengths + margins->slopes + margins->underflow;
    *allowance = (most + second * (margins->lengths + o->l2 * all + b) + 2.0 * U * norm + (double)o->dim * TINY) *
                 (1.0 + 0x1p-20);
    return (norm + *allowance) * (1.0 + 0x1p-50);
}

double pv_objective_blocks(const pv_objective *o) { return (double)o->n / PV_OBJECTIVE_BLOCK + 1.0; }

double pv_objective_bound(const pv_objective *o, const double *w, double *work, double *gradient, double *allowance) {
    pv_margins margins;
    pv_objective_margins(o, w, work, &margins);
    return pv_objective_certify(o, w, work, &margins, pv_objective_blocks(o), gradient, allowance);
}

/* ---- second derivatives ------------------------------------------------------------------------------ */

void pv_objective_product(const pv_objective *o, const double *curvatures, const double *v, double *out) {
    memset(out, 0, (size_t)o->dim * sizeof(double));
    for (int64_t k = 0; k < o->n; ++k) {
        if (curvatures[k] == 0.0) continue;
        const int64_t i = row_of(o, k);
        add_row(o, i, curvatures[k] * predict(o, i, v), out);
    }
}

void pv_objective_along(const pv_objective *o, const double *p, const double *q, double a, double *slope,
                        double *curve) {
    double at[CHUNK], y[CHUNK], first[CHUNK], second[CHUNK], slopes = 0.0, curves = 0.0;
    for (int64_t k = 0; k < o->n; k += CHUNK) {
        const int64_t m = o->n - k < CHUNK ? o->n - k : CHUNK;
        double s = 0.0, c = 0.0;
        for (int64_t j = 0; j < m; ++j) {
            at[j] = p[k + j] + a * (q[k + j] - p[k + j]);
            y[j] = o->y[row_of(o, k + j)];
        }
        (void)o->many(&o->loss, m, at, y, first, second);
        for (int64_t j = 0; j < m; ++j) {
            const double step = q[k + j] - p[k + j];
            s += first[j] * step;
            c += second[j] * step * step;
        }
        slopes += s;
        curves += c;
    }
    *slope = slopes;
    *curve = curves;
}
