#include "runs/pv_bandit.h"

#include <math.h>
#include <string.h>

static inline double fourth_root(double t) { return sqrt(sqrt(t)); }

/* The distance from the point at which round t asks. */
static double distance_of(const pv_bandit_plan *plan, double t) {
    const double far = plan->fixed ? plan->distance : plan->distance / (plan->pair ? sqrt(t) : fourth_root(t));
    return far < plan->most ? far : plan->most;
}

static double length_of(const pv_bandit_plan *plan, double t) {
    if (plan->fixed) return plan->length;
    return plan->length / (plan->pair ? sqrt(t) : sqrt(t) * fourth_root(t));
}

/* The factor that draws a point towards 0, so that all points within the distance are still in the set. */
static double shrinkage(const pv_bandit_plan *plan, double distance) { return 1.0 - distance / plan->inner; }

void pv_bandit_begin(pv_bandit *it, const pv_bandit_plan *plan) {
    const int64_t d = plan->run.d;
    const double far = distance_of(plan, (double)it->steps + 1.0), keep = shrinkage(plan, far);
    const double *e = it->directions + it->used++ * d;
    const double norm = sqrt(pv_sqnorm(e, d)); /* of a lattice point: not quite 1 */
    for (int64_t c = 0; c < d; ++c) {
        it->direction[c] = e[c] / norm;
        it->asked[c] = keep * it->point[c] + far * it->direction[c];
        if (plan->pair) it->asked[d + c] = keep * it->point[c] - far * it->direction[c];
    }
}

static double clipped(double x, double low, double high) { return x < low ? low : (x > high ? high : x); }

/* Set what the device randomizes. */
static void keep_secret(pv_bandit *it, const pv_bandit_plan *plan, const double *values) {
    const double first = clipped(values[0], plan->low, plan->high), bound = plan->report.bound;
    const double far = distance_of(plan, (double)it->steps + 1.0);
    if (plan->whole) { /* clipped to its bound where it is released */
        const double along = (double)plan->run.d / far * first;
        for (int64_t c = 0; c < plan->run.d; ++c) it->value[c] = along * it->direction[c];
    } else if (plan->pair) {
        *it->value = clipped(0.5 * (first - clipped(values[1], plan->low, plan->high)) / far, -bound, bound);
    } else { /* the middle is rounded, so what is left of a value is clipped once more */
        *it->value = clipped(first - 0.5 * (plan->low + plan->high), -bound, bound);
    }
}

pv_status pv_bandit_tell(pv_bandit *it, const pv_bandit_plan *plan, const double *values) {
    if (values && (values[0] != values[0] || (plan->pair && values[1] != values[1]))) return PV_NOT_FINITE;
    pv_tally(&it->run.t, 1);
    it->run.pending = 1;
    pv_tally(&it->run.n_null, !values);
    if (values) keep_secret(it, plan, values); /* otherwise it is 0 */
    return PV_OK;
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_bandit *it = (pv_bandit *)state;
    const pv_bandit_plan *plan = (const pv_bandit_plan *)run;
    double values[2] = {0.0, 0.0};
    state->pending = 1; /* every row sends a report, even the null row */
    if (norm < 0.0) {
        pv_tally(&state->n_null, 1);
        return PV_OK; /* the value is 0 */
    }
    const double f = pv_scale_row(state, run, &norm);
    for (int k = 0; k <= plan->pair; ++k) {
        values[k] = run->loss.value(&run->loss, pv_predict(it->asked + k * run->d, run, rows, i, f), y);
        if (values[k] != values[k]) {
            if (run->loss.user) return PV_NOT_FINITE;
            values[k] = plan->high; /* no row may be answered by an error in place of a report */
        }
    }
    keep_secret(it, plan, values);
    return PV_OK;
}

/* A step against the estimate of the gradient, which is report times direction or the report itself, and may be in
 * the run's work; then the points of the next round. */
static void move(pv_bandit *it, const pv_bandit_plan *plan, const double *report, const pv_vectors *vectors) {
    const int64_t d = plan->run.d;
    const double t = (double)it->steps + 1.0, far = distance_of(plan, t);
    const double scale = plan->pair ? (double)d : (double)d / far;
    const double keep = shrinkage(plan, far), factor = keep * (scale * report[0]);
    double *w = it->run.work;
    if (it->steps++ == 0) pv_spend(&it->run, plan->cost);
    const double length = length_of(plan, t + 1.0);
    for (int64_t c = 0; c < d; ++c) {
        it->sum[c] -= plan->whole ? keep * report[c] : factor * it->direction[c];
        w[c] = length * it->sum[c];
    }
    const double f = pv_into_set(&plan->run, w, w + d, vectors);
    for (int64_t c = 0; c < d; ++c) it->point[c] = w[c] * f + 0.0;
    pv_bandit_begin(it, plan);
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_bandit *it = (pv_bandit *)state;
    const pv_bandit_plan *plan = (const pv_bandit_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    double *report = state->work, *v = report + run->d;
    if (it->used >= it->filled) return PV_NEED_FAR;
    if (plan->whole)
        pv_report_clip(plan->report.bound, run->d, it->value, v);
    else
        *v = *it->value;
    const pv_status status = pv_report_draw(&plan->report, draws, (uint64_t)state->t, v, report);
    if (status != PV_OK) return status;
    memset(it->value, 0, (size_t)plan->report.d * sizeof(double));
    move(it, plan, report, vectors);
    if (state->t == state->next_release) pv_publish(state, run, it->point, 1.0, vectors);
    return PV_OK;
}

pv_status pv_bandit_receive(pv_bandit *it, const pv_bandit_plan *plan, const double *report,
                            const pv_vectors *vectors) {
    pv_state *state = &it->run;
    if (it->used >= it->filled) return PV_NEED_FAR;
    pv_tally(&state->t, 1);
    move(it, plan, report, vectors);
    if (state->t == state->next_release) pv_publish(state, &plan->run, it->point, 1.0, vectors);
    return PV_OK;
}

/* Reports find the words that they need themselves. */
const pv_method pv_bandit_method = {learn, release, NULL, NULL};
