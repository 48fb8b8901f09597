#include "pv_leader.h"

#include <math.h>
#include <string.h>

/* Row state->t has come, with its gradient (NULL: 0): what is due after it. The horizon ends a leaf that is not full. */
static pv_status arrive(pv_leader *it, const pv_leader_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    if (state->t == 1) pv_spend(state, plan->cost);
    pv_status status = pv_prefix_add(&it->sums, gradient);
    if (status != PV_OK) return status;
    if (state->t == plan->run.horizon) pv_prefix_end_leaf(&it->sums);
    state->pending |= it->sums.due > 0;
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
        double g = run->loss.slope(&run->loss, pv_predict(it->point, run, rows, i, f), y);
        if (g != g) return PV_NOT_FINITE; /* a user's loss */
        g = g > most ? most : (g < -most ? -most : g);
        memset(w, 0, (size_t)run->d * sizeof(double));
        rows->ops->axpy(rows, i, g * f, w);
        if (run->intercept) w[run->d - 1] = g;
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

void pv_leader_end_leaf(pv_leader *it) {
    pv_prefix_end_leaf(&it->sums);
    it->run.pending |= it->sums.due > 0;
}

static int64_t steps_of(const pv_leader *it) { return it->sums.first_step + it->sums.step; }

/* The strong convexity around the starting point, in an epoch: by default that of all rows to its end. */
static double weight(const pv_leader *it, const pv_leader_plan *plan) {
    const int64_t epoch = it->sums.epoch;
    if (epoch == 0 || plan->reach == 0.0) return plan->regularization;
    const double g = plan->bound, leaf = (double)it->sums.plan->leaf, rows = pv_at_epoch(&plan->rows, epoch + 1);
    const double noise = sqrt((double)plan->run.d * pv_at_epoch(&plan->variance, epoch + 1));
    return sqrt(2.0 * rows * g * (leaf * g + noise)) / plan->reach;
}

/* The minimiser over the set of <S, x> + weight / 2 ||x - x_1||^2 + l2 t / 2 ||x||^2, S the private sum of the first t
 * gradients. */
static void follow(pv_leader *it, const pv_leader_plan *plan, const pv_vectors *vectors) {
    const pv_plan *run = &plan->run;
    const double held = weight(it, plan), length = 1.0 / (held + plan->l2 * (double)it->run.t);
    const double *base = it->sums.base, *sum = it->sums.prefix, *start = it->start;
    double *restrict x = it->run.work;
    for (int64_t c = 0; c < run->d; ++c) x[c] = (held * start[c] - (base[c] + sum[c])) * length;
    const double f = pv_into_set(run, x, x + run->d, vectors);
    for (int64_t c = 0; c < run->d; ++c) it->point[c] = x[c] * f + 0.0;
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_leader *it = (pv_leader *)state;
    const pv_leader_plan *plan = (const pv_leader_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    if (it->followed < steps_of(it)) {
        pv_status status = pv_prefix_settle(&it->sums, draws);
        if (status != PV_OK) return status;
        follow(it, plan, vectors);
        it->followed = steps_of(it);
    }
    if (state->t == state->next_release) pv_publish(state, run, it->point, 1.0, vectors);
    return PV_OK;
}

static int64_t upcoming(const pv_state *state, const pv_plan *run, int64_t capacity, uint64_t *rows) {
    (void)run;
    return pv_prefix_upcoming(&((const pv_leader *)state)->sums, capacity, rows);
}

const pv_method pv_leader_method = {learn, release, upcoming};
