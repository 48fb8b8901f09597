#include "runs/pv_run.h"

#include <math.h>

int64_t pv_next_planned(const pv_plan *plan, int64_t t, int64_t *position) {
    int64_t next;
    if (plan->every > 0) {
        next = plan->every == 1 ? t + 1 : (t / plan->every + 1) * plan->every;
    } else {
        while (*position < plan->n_releases_planned && plan->releases[*position] <= t) ++*position;
        next = *position < plan->n_releases_planned ? plan->releases[*position] : INT64_MAX;
    }
    return next <= plan->last_row ? next : INT64_MAX;
}

int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *position) {
    const int64_t row = pv_next_planned(plan, t, position);
    return row <= plan->horizon ? row : plan->horizon + 1;
}

int64_t pv_upcoming_releases(const pv_state *state, const pv_plan *plan, int64_t capacity, uint64_t *rows) {
    int64_t row = state->next_release, position = state->list_position, n = 0;
    while (n < capacity && row <= plan->last_row) {
        rows[n++] = (uint64_t)row;
        row = pv_next_release(plan, row, &position);
    }
    return n;
}

void pv_spend(pv_state *state, double cost) {
    double add = cost - state->spent_tail, sum = state->spent + add;
    state->spent_tail = (sum - state->spent) - add;
    pv_show_real(&state->spent, sum);
}

double pv_into_set_known(const pv_plan *plan, double *x, double square, double *work) {
    if (plan->set.code == PV_L2_BALL) { /* as pv_project would */
        const double r = plan->set.size;
        return square > r * r ? r / sqrt(square) : 1.0;
    }
    pv_project(&plan->set, x, plan->d, work);
    return 1.0;
}

double pv_into_set(const pv_plan *plan, double *x, double *work, const pv_vectors *vectors) {
    return pv_into_set_known(plan, x, plan->set.code == PV_L2_BALL ? vectors->sqnorm(x, plan->d) : 0.0, work);
}

/* A release after row state->t: its weight in the average. */
static double published(pv_state *state, const pv_plan *plan) {
    pv_tally(&state->n_released, 1);
    pv_show(&state->next_release, pv_next_release(plan, state->t, &state->list_position));
    return pv_average_weight(plan, (double)state->n_released);
}

void pv_publish(pv_state *state, const pv_plan *plan, const double *x, double f, const pv_vectors *vectors) {
    vectors->publish(x, f, published(state, plan), state->released, state->released_sum, plan->d);
}

void pv_publish_two(pv_state *state, const pv_plan *plan, const double *x, double f, double *copy, int64_t n,
                    const pv_vectors *vectors) {
    vectors->publish_two(x, f, published(state, plan), state->released, state->released_sum, copy, n);
}

double pv_admissible(const pv_plan *plan, double y) {
    if (plan->outputs.n > 1) { /* NaN marks the null row */
        const double last = (double)(plan->outputs.n - 1);
        return y >= 0.0 ? (y < last ? floor(y) : last) : 0.0;
    }
    if (plan->signs) return y > 0.0 ? 1.0 : -1.0;
    return y > plan->y_bound ? plan->y_bound : (y < -plan->y_bound ? -plan->y_bound : y);
}

/* A public model's evaluation of one row, scaled and clipped as it is learnt. */
static void observe(const double *model, const pv_plan *plan, const pv_rows *rows, int64_t i, double y, double norm,
                    const pv_progress *progress) {
    const int64_t n = plan->outputs.n > 1 ? plan->outputs.n : 1;
    double *scores = progress->scores + i * n, loss = (double)NAN;
    if (norm >= 0.0) {
        double f = norm > plan->x_bound * plan->x_bound ? plan->x_bound / sqrt(norm) : 1.0;
        if (n > 1) {
            pv_scores(model, plan, rows, i, f, scores);
            loss = pv_outputs_value(&plan->outputs, &plan->loss, scores, y);
        } else {
            *scores = pv_predict(model, plan, rows, i, f);
            loss = plan->loss.value(&plan->loss, *scores, y);
        }
        loss *= pv_outputs_weight(&plan->outputs, y);
    } else {
        for (int64_t k = 0; k < n; ++k) scores[k] = loss;
    }
    progress->losses[i] = loss;
}

/* Squared norm of a row as it is learnt, -1 for the null row. */
static inline double norm_of(const pv_rows *rows, const double *y, int64_t i) {
    return y[i] == y[i] ? pv_rows_norm(rows, i) : -1.0;
}

static inline void observe_row(const double *model, const pv_plan *plan, const pv_progress *progress, int64_t i) {
    observe(model, plan, progress->rows, i, pv_admissible(plan, progress->y[i]),
            norm_of(progress->rows, progress->y, i), progress);
}

void pv_evaluate(const pv_state *state, const pv_plan *plan, const pv_progress *progress) {
    for (int64_t i = 0; i < progress->rows->n; ++i) observe_row(state->released, plan, progress, i);
}

pv_status pv_run(pv_state *state, const pv_plan *plan, const pv_rows *given, const double *y, int64_t *i,
                 pv_draws *draws, const pv_progress *progress) {
    const pv_method method = *plan->method;
    pv_rows own = *given;
    const pv_rows *rows = &own;
    pv_rows_use(&own, pv_draws_level(draws));
    for (;;) {
        pv_status status;
        if (state->pending) { /* of the previous row, perhaps from an earlier call */
            status = method.release(state, plan, draws);
            if (status != PV_OK) return status;
            state->pending = 0;
        }
        if (*i >= rows->n) return PV_OK;
        if (state->t >= plan->horizon) return PV_HORIZON;
        /* the norm for scaling the row is computed here, not before: whatever is learnt is within its bound */
        double target = pv_admissible(plan, y[*i]), norm = norm_of(rows, y, *i);
        if (progress) {
            const double *model = method.shown ? method.shown(state, plan) : state->released;
            if (progress->rows)
                observe_row(model, plan, progress, *i);
            else
                observe(model, plan, rows, *i, target, norm, progress);
        }
        state->pending = pv_tally(&state->t, 1) == state->next_release;
        status = method.learn(state, plan, rows, *i, target, norm);
        ++*i;
        if (status != PV_OK) return status;
    }
}
