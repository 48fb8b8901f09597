#include "pv_geometry.h"

#include <math.h>

#include "pv_rows.h"

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

/* Threshold tau with sum max(w_j - tau, 0) = total over the candidates w_0..w_{n-1}: Michelot's method.
 * Start from all candidates, take the tau at which those left sum to the total, drop those at or below it,
 * repeat. The active set only shrinks, so it ends after at most n rounds. */
static double threshold(double *w, int64_t n, double total) {
    for (;;) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) sum += w[j];
        double next = (sum - total) / (double)n;
        int64_t kept = 0;
        for (int64_t j = 0; j < n; ++j)
            if (w[j] > next) w[kept++] = w[j];
        if (kept == n || kept == 0) return next;
        n = kept;
    }
}

static void project_l1(const pv_set *set, double *x, int64_t d, double *work) {
    double sum = 0.0;
    for (int64_t j = 0; j < d; ++j) {
        work[j] = fabs(x[j]);
        sum += work[j];
    }
    if (!(sum > set->size)) return;
    double tau = threshold(work, d, set->size);
    for (int64_t j = 0; j < d; ++j) {
        double v = fabs(x[j]) - tau;
        x[j] = v > 0 ? copysign(v, x[j]) : 0.0;
    }
}

static void project_simplex(const pv_set *set, double *x, int64_t d, double *work) {
    for (int64_t j = 0; j < d; ++j) work[j] = x[j];
    double tau = threshold(work, d, set->size);
    for (int64_t j = 0; j < d; ++j) {
        double v = x[j] - tau;
        x[j] = v > 0 ? v : 0.0;
    }
}

void pv_project(const pv_set *set, double *x, int64_t d, double *work) {
    switch (set->code) {
    case PV_L2_BALL: project_l2(set, x, d); break;
    case PV_L1_BALL: project_l1(set, x, d, work); break;
    case PV_BOX: project_box(set, x, d); break;
    case PV_SIMPLEX: project_simplex(set, x, d, work); break;
    default: break;
    }
}
