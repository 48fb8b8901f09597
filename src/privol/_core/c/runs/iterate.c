#include "runs/pv_iterate.h"

#include <math.h>
#include <string.h>

void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) {
    for (int64_t j = 0; j < d; ++j) out[j] = it->s * it->u[j] + 0.0;
}

/* x = s u with s = 1, and the norm computed afresh. */
static void materialise(pv_iterate *it, int64_t d) {
    pv_iterate_read(it, d, it->u);
    it->s = 1.0;
    it->nn = pv_sqnorm(it->u, d);
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double qx) {
    pv_iterate *it = (pv_iterate *)state;
    const pv_iterate_plan *plan = (const pv_iterate_plan *)run;
    const int64_t t = state->t, d = run->d;
    if (t < plan->schedule.first) return PV_OK;
    const double a = pv_schedule_weight_before(&plan->schedule, t), a1 = pv_schedule_weight(&plan->schedule, t);
    const double nn = it->s * it->s * it->nn;
    double f = 1.0, g = 0.0, k = a1, p = 0.0, q = 0.0; /* p = v.u */
    if (qx < 0.0) {
        pv_tally(&state->n_null, 1); /* the null row: loss 0, only the regulariser acts */
    } else {
        f = pv_scale_row(state, run, &qx);
        q = qx + (run->intercept ? 1.0 : 0.0);
        p = pv_predict(it->u, run, rows, i, f);
        plan->update(plan, a, a1, nn, it->s * p, q, y, &g, &k);
        if (!(g - g == 0.0 && k - k == 0.0)) { /* a user's loss: nothing changes, and nothing is released */
            it->nn = (double)NAN;
            return PV_NOT_FINITE;
        }
    }
    const double s1 = it->s * (a / k);
    if (s1 > 0.0) {
        const double step = -g / (it->s * a); /* g / k in units of the new scale, without waiting for k */
        if (step != 0.0) {
            rows->ops->axpy(rows, i, step * f, it->u);
            if (run->intercept) it->u[d - 1] += step;
            it->nn += step * (2.0 * p + step * q);
            if (it->nn < 0.0) it->nn = 0.0; /* NaN stays and stops the run */
        }
        it->s = s1;
    } else { /* a = 0: the old iterate has no weight */
        memset(it->u, 0, (size_t)d * sizeof(double));
        it->s = 1.0;
        if (g != 0.0) {
            rows->ops->axpy(rows, i, -(g / k) * f, it->u);
            if (run->intercept) it->u[d - 1] += -(g / k);
        }
        it->nn = pv_sqnorm(it->u, d);
    }
    if (run->set.code != PV_L2_BALL) {
        pv_iterate_read(it, d, it->u);
        pv_project(&run->set, it->u, d, state->work);
        it->s = 1.0;
        it->nn = pv_sqnorm(it->u, d);
    } else if (t % plan->refresh == 0 || it->s < 1e-100) {
        materialise(it, d);
    }
    return it->nn <= HUGE_VAL ? PV_OK : PV_NOT_FINITE;
}

/* Noise and sensitivity of the release after row t. */
static void scales_at(const pv_iterate_plan *plan, int64_t t, pv_scales *scales, double *std, double *sensitivity) {
    if (plan->run.every == 0) { /* any list of rows */
        pv_schedule_fill(&plan->schedule, t, 1, 1, sensitivity, std);
        return;
    }
    if (scales->used >= scales->filled || scales->row != t) {
        pv_schedule_fill(&plan->schedule, t, plan->run.every, PV_SCALES, scales->sensitivity, scales->std);
        scales->row = t;
        scales->used = 0;
        scales->filled = PV_SCALES;
    }
    *std = scales->std[scales->used];
    *sensitivity = scales->sensitivity[scales->used];
}

pv_status pv_iterate_release(pv_iterate *it, const pv_iterate_plan *plan, double std, double sensitivity,
                             pv_draws *draws) {
    const pv_plan *run = &plan->run;
    pv_state *state = &it->run;
    double *x = state->work;
    if (!(it->s * it->s * it->nn < HUGE_VAL)) return PV_NOT_FINITE;
    if (run->noisy) {
        pv_status status = pv_draws_round(draws, (uint64_t)state->t, std, it->u, it->s, run->d, run->magnitude, x);
        if (status != PV_OK) return status;
        pv_spend(state, (sensitivity / std) * (sensitivity / std));
    } else {
        pv_iterate_read(it, run->d, x);
    }
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    pv_publish(state, run, x, pv_into_set(run, x, x + run->d, vectors), vectors);
    return PV_OK;
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_iterate *it = (pv_iterate *)state;
    const pv_iterate_plan *plan = (const pv_iterate_plan *)run;
    double std, sensitivity;
    scales_at(plan, state->t, &it->scales, &std, &sensitivity);
    pv_status status = pv_iterate_release(it, plan, std, sensitivity, draws);
    if (status != PV_OK) return status;
    ++it->scales.used;
    it->scales.row += run->every;
    return PV_OK;
}

const pv_method pv_iterate_method = {learn, release, pv_upcoming_releases, NULL};
