#include "rows/pv_geometry.h"

#include <math.h>

#include "rows/pv_rows.h"

static void project_l2(const pv_set *set, double *x, int64_t d) {
    double nn = pv_sqnorm(x, d), r = set->size;
    if (!(nn > r * r)) return;
    double f = r / sqrt(nn);
    for (int64_t j = 0; j < d; ++j) x[j] = x[j] * f + 0.0;
}

static void project_box(const pv_set *set, double *x, int64_t d) {
    for (int64_t j = 0; j < d; ++j) {
        double v = x[j] < set->low[j] ? set->low[j] : x[j];
        x[j] = v > set->high[j] ? set->high[j] : v;
    }
}

/* Neumaier's compensated sum: its error is one rounding of the result, whatever the number of terms. */
typedef struct exact {
    double sum, low;
} exact;

static inline void add(exact *a, double x) {
    double t = a->sum + x;
    a->low += fabs(a->sum) >= fabs(x) ? (a->sum - t) + x : (x - t) + a->sum;
    a->sum = t;
}

/* Nearest point of {p >= 0, sum p = total} to w, in place; work has room for n values.
 *
 * p = max(w - tau, 0). Only gaps from the largest entry matter, and only those below the total can keep an entry
 * positive: so nothing is lost where the entries are much larger than the total. Newton's method finds tau, from below:
 * add to it what p sums to beyond the total, divided by the number of positive p, until nothing is left to add. (As
 * Michelot's, but the p are added and not the gaps. Their sum is right to a rounding of the total, so a crowd of entries
 * just above tau counts, however large it is.) tau never falls, so what it has passed stays 0. */
static void onto_simplex(double *w, int64_t d, double total, double *work) {
    double top = w[0], undefined = 0.0; /* NaN if an entry is not finite, which comparisons alone would hide */
    for (int64_t j = 0; j < d; ++j) {
        top = w[j] > top ? w[j] : top;
        undefined += w[j] - w[j];
    }
    if (undefined != 0.0) {
        for (int64_t j = 0; j < d; ++j) w[j] = undefined;
        return;
    }
    int64_t n = 0;
    for (int64_t j = 0; j < d; ++j)
        if (w[j] - top > -total) work[n++] = w[j] - top;
    double tau = -total;
    for (;;) {
        exact s = {-total, 0.0};
        int64_t kept = 0;
        for (int64_t j = 0; j < n; ++j) {
            const double p = work[j] - tau;
            if (!(p > 0.0)) continue;
            add(&s, p);
            work[kept++] = work[j];
        }
        n = kept;
        const double next = tau + (s.sum + s.low) / (double)n;
        if (!(next > tau)) break;
        tau = next;
    }
    for (int64_t j = 0; j < d; ++j) {
        double p = (w[j] - top) - tau;
        w[j] = p > 0 ? p : 0.0;
    }
}

static void project_l1(const pv_set *set, double *x, int64_t d, double *work) {
    exact s = {0.0, 0.0};
    for (int64_t j = 0; j < d; ++j) add(&s, fabs(x[j]));
    if (!(s.sum + s.low > set->size)) return;
    double *size = work + d;
    for (int64_t j = 0; j < d; ++j) size[j] = fabs(x[j]);
    onto_simplex(size, d, set->size, work);
    for (int64_t j = 0; j < d; ++j) x[j] = copysign(size[j], x[j]) + 0.0;
}

void pv_project(const pv_set *set, double *x, int64_t d, double *work) {
    switch (set->code) {
    case PV_L2_BALL: project_l2(set, x, d); break;
    case PV_L1_BALL: project_l1(set, x, d, work); break;
    case PV_BOX: project_box(set, x, d); break;
    case PV_SIMPLEX: onto_simplex(x, d, set->size, work); break;
    default: break;
    }
}
