#include "pv_schedule.h"

#include <math.h>

#include "pv_math.h"

double pv_schedule_weight(const pv_schedule *s, int64_t t) {
    switch (s->kind) {
    case PV_CONVEXITY_INVERSE_SQRT: return s->a0 + 2.0 * s->l2 * sqrt((double)t);
    case PV_PUBLISHED_GRADIENT: return 0.5 * s->l2 * (double)t; /* step 2 / (alpha t) */
    default: return s->a0 + s->l2 * (double)t;
    }
}

double pv_schedule_weight_before(const pv_schedule *s, int64_t t) {
    if (s->kind == PV_PUBLISHED_GRADIENT) return 0.5 * s->l2 * (double)(t - 2);
    return pv_schedule_weight(s, t - 1);
}

/* At least sum_{i <= t} A_i. */
static double weight_sum(const pv_schedule *s, double t) {
    if (s->kind == PV_CONVEXITY_INVERSE_SQRT) return s->a0 * t + s->l2 * (4.0 / 3.0) * (t + 1.0) * sqrt(t + 1.0);
    return s->a0 * t + s->l2 * 0.5 * t * (t + 1.0);
}

double pv_schedule_sensitivity(const pv_schedule *s, int64_t t) {
    if (t < s->first) return 0.0;
    double x = (double)t;
    double extra = s->round0 + s->round1 * x + s->round2 * weight_sum(s, x);
    double bound = (s->diameter + extra) / pv_schedule_weight(s, t);
    return bound < s->cap ? bound : s->cap;
}

static inline double std_of(const pv_schedule *s, int64_t t, double sensitivity) {
    if (s->gain == 0.0) return 0.0;
    if (s->shape == PV_SHAPE_PAPER) return s->gain / (double)t;
    if (s->shape == PV_SHAPE_SMOOTH) return s->gain * sqrt(sensitivity);
    double root = pv_cbrt(sensitivity);
    return s->gain * (root * root);
}

double pv_schedule_std(const pv_schedule *s, int64_t t) { return std_of(s, t, pv_schedule_sensitivity(s, t)); }

void pv_schedule_fill(const pv_schedule *s, int64_t first, int64_t stride, int64_t n, double *sensitivity, double *std) {
    for (int64_t i = 0; i < n; ++i) {
        int64_t t = first + i * stride;
        sensitivity[i] = pv_schedule_sensitivity(s, t);
        std[i] = std_of(s, t, sensitivity[i]);
    }
}
