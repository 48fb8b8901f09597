#include "pv_leader.h"

#include <math.h>
#include <string.h>

/* Row state->t has come, with its gradient (NULL: 0): what is due after it. The horizon ends a leaf that is not full. */
static pv_status arrive(pv_leader *it, const pv_leader_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    if (state->t == 1) pv_spend(state, plan->cost);
    pv_status status = pv_prefix_add(&it->sums, &plan->sums, gradient);
    if (status != PV_OK) return status;
    if (state->t == plan->run.horizon) pv_prefix_end_leaf(&it->sums, &plan->sums);
    state->pending |= it->sums.due > 0;
    return PV_OK;
}

/* The gradient of row i times f at the point, scaled to a norm of its slopes of at most `most`. */
static pv_status gradient_of(pv_leader *it, const pv_plan *run, const pv_rows *rows, int64_t i, double f, double y,
                             double most) {
    const pv_outputs *outputs = &run->outputs;
    const double weight = pv_outputs_weight(outputs, y);
    double *w = it->gradient;
    memset(w, 0, (size_t)run->d * sizeof(double));
    if (outputs->n > 1) {
        const int64_t n = outputs->n, width = run->d / n;
        double *slopes = it->run.work;
        pv_scores(it->point, run, rows, i, f, slopes);
        pv_outputs_slopes(outputs, &run->loss, slopes, y);
        for (int64_t k = 0; k < n; ++k) slopes[k] *= weight;
        const double square = pv_sqnorm(slopes, n);
        if (square != square) return PV_NOT_FINITE; /* a user's loss */
        const double scale = square > most * most ? most / sqrt(square) : 1.0;
        for (int64_t k = 0; k < n; ++k, w += width) {
            const double g = slopes[k] * scale;
            rows->ops->axpy(rows, i, g * f, w);
            if (run->intercept) w[width - 1] = g;
        }
        return PV_OK;
    }
    double g = weight * run->loss.slope(&run->loss, pv_predict(it->point, run, rows, i, f), y);
    if (g != g) return PV_NOT_FINITE;
    g = g > most ? most : (g < -most ? -most : g);
    rows->ops->axpy(rows, i, g * f, w);
    if (run->intercept) w[run->d - 1] = g;
    return PV_OK;
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_leader *it = (pv_leader *)state;
    const pv_leader_plan *plan = (const pv_leader_plan *)run;
    double *w = it->gradient;
    if (norm < 0.0) {
        ++state->n_null;
        w = NULL;
    } else {
        const double f = pv_scale_row(state, run, &norm);
        const double most = plan->bound / sqrt(norm + (run->intercept ? 1.0 : 0.0));
        const pv_status status = gradient_of(it, run, rows, i, f, y, most);
        if (status != PV_OK) return status;
    }
    return arrive(it, plan, w);
}

pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    const int64_t d = plan->run.d;
    double *w = it->gradient;
    state->pending = ++state->t == state->next_release;
    if (!gradient) {
        ++state->n_null;
        w = NULL;
    } else {
        const double nn = pv_sqnorm(gradient, d), most = plan->bound * plan->bound;
        const double f = nn > most ? plan->bound / sqrt(nn) : 1.0;
        state->n_clipped += nn > most;
        for (int64_t j = 0; j < d; ++j) w[j] = f * gradient[j];
    }
    return arrive(it, plan, w);
}

void pv_leader_end_leaf(pv_leader *it, const pv_leader_plan *plan) {
    pv_prefix_end_leaf(&it->sums, &plan->sums);
    it->run.pending |= it->sums.due > 0;
}

/* The weight of the gradients that the point is computed from: their number, unless the sum forgets. */
static double weight_of(const pv_leader *it, const pv_leader_plan *plan) {
    return plan->sums.discount < 1.0 || plan->sums.window ? *it->sums.weight : (double)it->run.t;
}

/* The minimiser over the set of <S, x> + regularization / 2 ||x - x_1||^2 + l2 n / 2 ||x||^2, S the private sum of the
 * gradients so far and n their weight. */
static void follow(pv_leader *it, const pv_leader_plan *plan, const pv_vectors *vectors) {
    const pv_plan *run = &plan->run;
    const double length = 1.0 / (plan->regularization + plan->l2 * weight_of(it, plan));
    const double *sum = it->sums.prefix, *centre = it->centre;
    double *restrict x = it->run.work;
    for (int64_t c = 0; c < run->d; ++c) x[c] = (centre[c] - sum[c]) * length;
    const double f = pv_into_set(run, x, x + run->d, vectors);
    for (int64_t c = 0; c < run->d; ++c) it->point[c] = x[c] * f + 0.0;
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_leader *it = (pv_leader *)state;
    const pv_leader_plan *plan = (const pv_leader_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    if (it->followed < it->sums.step) {
        pv_status status = pv_prefix_settle(&it->sums, &plan->sums, draws);
        if (status != PV_OK) return status;
        follow(it, plan, vectors);
        it->followed = it->sums.step;
    }
    if (state->t == state->next_release) pv_publish(state, run, it->point, 1.0, vectors);
    return PV_OK;
}

static int64_t upcoming(const pv_state *state, const pv_plan *run, int64_t capacity, uint64_t *rows) {
    const pv_leader *it = (const pv_leader *)state;
    return pv_prefix_upcoming(&it->sums, &((const pv_leader_plan *)run)->sums, capacity, rows);
}

const pv_method pv_leader_method = {learn, release, upcoming};
