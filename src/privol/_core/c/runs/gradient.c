#include "runs/pv_gradient.h"

#include <math.h>
#include <string.h>

/* Whether row t is the last of its step; the horizon ends a step that is not full. */
static inline int ends_step(const pv_gradient_plan *plan, int64_t t) {
    return t % plan->batch == 0 || t == plan->run.horizon;
}

/* Row state->t has come: sets what is due after it. */
static void arrive(pv_state *state, const pv_gradient_plan *plan) {
    if (ends_step(plan, state->t)) state->pending = 1;
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_gradient *it = (pv_gradient *)state;
    const pv_gradient_plan *plan = (const pv_gradient_plan *)run;
    arrive(state, plan);
    if (norm < 0.0) {
        pv_tally(&state->n_null, 1); /* the null row: its gradient is 0 */
        return PV_OK;
    }
    const double f = pv_scale_row(state, run, &norm);
    const double most = pv_most_slope(plan->bound, norm + (run->intercept ? 1.0 : 0.0));
    double g = run->loss.slope(&run->loss, pv_predict(it->point, run, rows, i, f), y);
    if (g != g) return PV_NOT_FINITE; /* a user's loss */
    g = g > most ? most : (g < -most ? -most : g);
    if (g != 0.0) {
        rows->ops->axpy(rows, i, g * f, it->sum);
        if (run->intercept) it->sum[run->d - 1] += g;
    }
    return PV_OK;
}

void pv_gradient_tell(pv_gradient *it, const pv_gradient_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    const int64_t d = plan->run.d;
    state->pending = pv_tally(&state->t, 1) == state->next_release;
    arrive(state, plan);
    if (!gradient) {
        pv_tally(&state->n_null, 1);
        return;
    }
    const double nn = pv_sqnorm(gradient, d), most = plan->bound * plan->bound;
    const double f = nn > most ? plan->bound / sqrt(nn) : 1.0;
    pv_tally(&state->n_clipped, nn > most);
    for (int64_t j = 0; j < d; ++j) it->sum[j] += f * gradient[j];
}

/* One step along r, the noisy sum of the gradients of m rows, which is overwritten. */
static void step(pv_gradient *it, const pv_gradient_plan *plan, double *r, int64_t m, const pv_vectors *vectors) {
    const pv_plan *run = &plan->run;
    const double j = (double)++it->steps;
    double keep = 1.0, length = plan->length / sqrt(j);
    if (plan->l2 > 0.0) { /* the regulariser's gradient is l2 times the point */
        keep = (j - 1.0) / j;
        length = 1.0 / (plan->l2 * j);
    }
    length /= (double)m;
    for (int64_t c = 0; c < run->d; ++c) r[c] = keep * it->point[c] - length * r[c];
    const double f = pv_into_set(run, r, r + run->d, vectors);
    for (int64_t c = 0; c < run->d; ++c) it->point[c] = r[c] * f + 0.0;
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_gradient *it = (pv_gradient *)state;
    const pv_gradient_plan *plan = (const pv_gradient_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    if (ends_step(plan, state->t)) {
        double *r = state->work;
        if (run->noisy) {
            pv_status status =
                pv_draws_round(draws, (uint64_t)state->t, plan->std, it->sum, 1.0, run->d, run->magnitude, r);
            if (status != PV_OK) return status;
            /* what all steps cost together: each row is in only one of them, and a user's in several */
            if (it->steps == 0) pv_spend(state, (plan->sensitivity / plan->std) * (plan->sensitivity / plan->std));
        } else {
            memcpy(r, it->sum, (size_t)run->d * sizeof(double));
        }
        memset(it->sum, 0, (size_t)run->d * sizeof(double));
        step(it, plan, r, state->t - it->steps * plan->batch, vectors);
    }
    if (state->t == state->next_release) pv_publish(state, run, it->point, 1.0, vectors);
    return PV_OK;
}

static int64_t upcoming(const pv_state *state, const pv_plan *run, int64_t capacity, uint64_t *rows) {
    const pv_gradient_plan *plan = (const pv_gradient_plan *)run;
    int64_t row = state->pending ? state->t : state->t + 1, n = 0;
    while (n < capacity && row <= run->horizon) {
        const int64_t left = run->horizon - row, full = (plan->batch - row % plan->batch) % plan->batch;
        row += full < left ? full : left;
        rows[n++] = (uint64_t)row++;
    }
    return n;
}

const pv_method pv_gradient_method = {learn, release, upcoming, NULL};
