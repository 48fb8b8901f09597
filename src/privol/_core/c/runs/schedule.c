#include "runs/pv_schedule.h"

#include <math.h>

#include "base/pv_math.h"

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

/* Upper bound of sum_{i <= t} A_i. */
static double weight_sum(const pv_schedule *s, double t) {
    if (s->kind == PV_CONVEXITY_INVERSE_SQRT) return s->a0 * t + s->l2 * (4.0 / 3.0) * (t + 1.0) * sqrt(t + 1.0);
    return s->a0 * t + s->l2 * 0.5 * t * (t + 1.0);
}

/* (D + E_t) / A_t, but at most the diameter of the set. */
static inline double bounded(const pv_schedule *s, double t, double weight) {
    double extra = s->round0 + s->round1 * t + s->round2 * weight_sum(s, t);
    double bound = (s->diameter + extra) / weight;
    return bound < s->cap ? bound : s->cap;
}

double pv_schedule_sensitivity(const pv_schedule *s, int64_t t) {
    return t < s->first ? 0.0 : bounded(s, (double)t, pv_schedule_weight(s, t));
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

/* Short loops, so that many of their iterations overlap; the usual schedule without branches, for vectorisation. */
void pv_schedule_fill(const pv_schedule *s, int64_t first, int64_t stride, int64_t n, double *restrict sensitivity,
                      double *restrict std) {
    const pv_schedule own = *s;
    if (own.kind == PV_CONVEXITY_CONSTANT && first >= own.first && n <= INT32_MAX) {
        const double start = (double)first, step = (double)stride;
        for (int32_t i = 0; i < (int32_t)n; ++i) {
            const double t = start + step * (double)i; /* exact */
            sensitivity[i] = bounded(&own, t, own.a0 + own.l2 * t);
        }
    } else {
        for (int64_t i = 0; i < n; ++i) sensitivity[i] = pv_schedule_sensitivity(&own, first + i * stride);
    }
    if (own.gain != 0.0 && own.shape == PV_SHAPE_LIPSCHITZ)
        for (int64_t i = 0; i < n; ++i) std[i] = own.gain * pv_two_thirds(sensitivity[i]);
    else
        for (int64_t i = 0; i < n; ++i) std[i] = std_of(&own, first + i * stride, sensitivity[i]);
}
