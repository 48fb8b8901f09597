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
    switch (s->gain == 0.0 ? -1 : s->shape) {
    case -1: return 0.0;
    case PV_SHAPE_PAPER: return s->gain / (double)t;
    case PV_SHAPE_SMOOTH: return s->gain * sqrt(sensitivity);
    default: return s->gain * pv_two_thirds(sensitivity);
    }
}

double pv_schedule_std(const pv_schedule *s, int64_t t) { return std_of(s, t, pv_schedule_sensitivity(s, t)); }

/* Two short loops, not one: so more of their iterations overlap. */
void pv_schedule_fill(const pv_schedule *s, int64_t first, int64_t stride, int64_t n, double *sensitivity, double *std) {
    const pv_schedule own = *s;
    for (int64_t i = 0; i < n; ++i) sensitivity[i] = pv_schedule_sensitivity(&own, first + i * stride);
    for (int64_t i = 0; i < n; ++i) std[i] = std_of(&own, first + i * stride, sensitivity[i]);
}
