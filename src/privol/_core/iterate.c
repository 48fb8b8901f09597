#include "pv_iterate.h"

#include <math.h>
#include <string.h>

int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *position) {
    int64_t row;
    if (plan->every > 0) {
        row = plan->every == 1 ? t + 1 : (t / plan->every + 1) * plan->every;
    } else {
        while (*position < plan->n_releases_planned && plan->releases[*position] <= t) ++*position;
        row = *position < plan->n_releases_planned ? plan->releases[*position] : plan->last_row + 1;
    }
    return row <= plan->last_row ? row : plan->horizon + 1;
}

int64_t pv_iterate_upcoming(const pv_iterate *it, const pv_plan *plan, int64_t capacity, uint64_t *rows) {
    int64_t row = it->next_release, position = it->list_position, n = 0;
    while (n < capacity && row <= plan->last_row) {
        rows[n++] = (uint64_t)row;
        row = pv_next_release(plan, row, &position);
    }
    return n;
}

void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) {
    for (int64_t j = 0; j < d; ++j) out[j] = it->s * it->u[j] + 0.0;
}

/* x = s u with s = 1 and the norm summed afresh. */
static void materialise(pv_iterate *it, int64_t d) {
    pv_iterate_read(it, d, it->u);
    it->s = 1.0;
    it->nn = pv_sqnorm(it->u, d);
}

static inline double predict(const double *w, const pv_plan *plan, const pv_rows *rows, int64_t i, double f) {
    double p = f * rows->ops->dot(rows, i, w);
    return plan->intercept ? p + w[plan->d - 1] : p;
}

/* Targets within their bound, whatever the caller did. */
static inline double admissible(const pv_plan *plan, double y) {
    if (plan->signs) return y > 0.0 ? 1.0 : -1.0;
    return y > plan->y_bound ? plan->y_bound : (y < -plan->y_bound ? -plan->y_bound : y);
}

static void learn(pv_iterate *it, const pv_plan *plan, const pv_rows *rows, int64_t i, double y, double qx) {
    const int64_t t = ++it->t;
    if (t < plan->schedule.first) return;
    const double a = pv_schedule_weight_before(&plan->schedule, t), a1 = pv_schedule_weight(&plan->schedule, t);
    const double nn = it->s * it->s * it->nn;
    double f = 1.0, g = 0.0, k = a1, p = 0.0, q = 0.0; /* p = v.u */
    if (qx < 0.0) {
        ++it->n_null; /* the null row: loss 0, only the regulariser acts */
    } else {
        /* without a branch: rows of length 1 are beyond a bound of 1 by a rounding every other time */
        const double most = plan->x_bound * plan->x_bound, scaled = plan->x_bound / sqrt(qx);
        const int beyond = qx > most;
        f = beyond ? scaled : 1.0;
        qx = beyond ? most : qx; /* not f * f * qx, which may underflow on the way */
        it->n_clipped += beyond;
        q = qx + (plan->intercept ? 1.0 : 0.0);
        p = predict(it->u, plan, rows, i, f);
        plan->update(plan, a, a1, nn, it->s * p, q, y, &g, &k);
        if (!(g - g == 0.0 && k - k == 0.0)) { /* a user's loss: nothing moves, and the caller stops on the norm */
            it->nn = g - g + (k - k);
            return;
        }
    }
    const double s1 = it->s * (a / k);
    if (s1 > 0.0) {
        const double step = -g / (it->s * a); /* g / k in units of the new scale, without waiting for k */
        if (step != 0.0) {
            rows->ops->axpy(rows, i, step * f, it->u);
            if (plan->intercept) it->u[plan->d - 1] += step;
            it->nn += step * (2.0 * p + step * q);
            if (it->nn < 0.0) it->nn = 0.0; /* NaN stays: the caller stops on it */
        }
        it->s = s1;
    } else { /* a = 0: the old iterate has no weight left */
        memset(it->u, 0, (size_t)plan->d * sizeof(double));
        it->s = 1.0;
        if (g != 0.0) {
            rows->ops->axpy(rows, i, -(g / k) * f, it->u);
            if (plan->intercept) it->u[plan->d - 1] += -(g / k);
        }
        it->nn = pv_sqnorm(it->u, plan->d);
    }
    if (plan->set.code != PV_L2_BALL) {
        pv_iterate_read(it, plan->d, it->u);
        pv_project(&plan->set, it->u, plan->d, it->work);
        it->s = 1.0;
        it->nn = pv_sqnorm(it->u, plan->d);
    } else if (t % plan->refresh == 0 || it->s < 1e-100) {
        materialise(it, plan->d);
    }
}

/* Kahan's compensated sum: the total does not depend on how the rows were cut into calls. */
static void spend(pv_iterate *it, double cost) {
    double add = cost - it->spent_tail, sum = it->spent + add;
    it->spent_tail = (sum - it->spent) - add;
    it->spent = sum;
}

/* Project the point in `work` and release it. */
static void publish(pv_iterate *it, const pv_plan *plan, const pv_vectors *vectors) {
    const int64_t d = plan->d;
    double f = 1.0;
    if (plan->set.code == PV_L2_BALL) { /* as pv_project would */
        const double nn = vectors->sqnorm(it->work, d), r = plan->set.size;
        if (nn > r * r) f = r / sqrt(nn);
    } else {
        memcpy(it->released, it->work, (size_t)d * sizeof(double));
        pv_project(&plan->set, it->released, d, it->work);
        memcpy(it->work, it->released, (size_t)d * sizeof(double));
    }
    vectors->publish(it->work, f, it->released, it->released_sum, d);
}

/* Noise and sensitivity of the release after row it->t. */
static void scales_at(const pv_plan *plan, int64_t t, pv_scales *scales, double *std, double *sensitivity) {
    if (plan->every == 0) { /* any list of rows */
        pv_schedule_fill(&plan->schedule, t, 1, 1, sensitivity, std);
        return;
    }
    if (scales->used >= scales->filled || scales->row != t) {
        pv_schedule_fill(&plan->schedule, t, plan->every, PV_SCALES, scales->sensitivity, scales->std);
        scales->row = t;
        scales->used = 0;
        scales->filled = PV_SCALES;
    }
    *std = scales->std[scales->used];
    *sensitivity = scales->sensitivity[scales->used];
}

pv_status pv_iterate_release(pv_iterate *it, const pv_plan *plan, double std, double sensitivity, pv_draws *draws) {
    const int64_t d = plan->d;
    if (!(it->s * it->s * it->nn < HUGE_VAL)) return PV_NOT_FINITE;
    if (plan->noisy) {
        pv_status status = pv_draws_round(draws, (uint64_t)it->t, std, it->u, it->s, d, plan->magnitude, it->work);
        if (status != PV_OK) return status;
        spend(it, (sensitivity / std) * (sensitivity / std));
    } else {
        pv_iterate_read(it, d, it->work);
    }
    publish(it, plan, pv_vectors_at(pv_draws_level(draws)));
    ++it->n_released;
    it->pending = 0;
    it->next_release = pv_next_release(plan, it->t, &it->list_position);
    return PV_OK;
}

/* The released model on one row, scaled and clipped as learn() would. */
static void observe(const pv_iterate *it, const pv_plan *plan, const pv_rows *rows, int64_t i, double y, double norm,
                    const pv_progress *progress) {
    double p = (double)NAN, loss = p;
    if (norm >= 0.0) {
        double f = norm > plan->x_bound * plan->x_bound ? plan->x_bound / sqrt(norm) : 1.0;
        p = predict(it->released, plan, rows, i, f);
        loss = plan->loss.value(&plan->loss, p, y);
    }
    progress->scores[i] = p;
    progress->losses[i] = loss;
}

/* Squared norm of a row as it is learnt, -1 for the null row. */
static inline double norm_of(const pv_rows *rows, const double *y, int64_t i) {
    return y[i] == y[i] ? pv_rows_norm(rows, i) : -1.0;
}

static inline void observe_row(const pv_iterate *it, const pv_plan *plan, const pv_progress *progress, int64_t i) {
    observe(it, plan, progress->rows, i, admissible(plan, progress->y[i]), norm_of(progress->rows, progress->y, i),
            progress);
}

void pv_iterate_evaluate(const pv_iterate *it, const pv_plan *plan, const pv_progress *progress) {
    for (int64_t i = 0; i < progress->rows->n; ++i) observe_row(it, plan, progress, i);
}

pv_status pv_iterate_run(pv_iterate *it, const pv_plan *plan, const pv_rows *given, const double *y, int64_t *i,
                         pv_draws *draws, const pv_progress *progress) {
    pv_rows own = *given;
    const pv_rows *rows = &own;
    pv_rows_use(&own, pv_draws_level(draws));
    for (;;) {
        if (it->pending) { /* of the row before, perhaps of an earlier call */
            double std, sensitivity;
            scales_at(plan, it->t, &it->scales, &std, &sensitivity);
            pv_status status = pv_iterate_release(it, plan, std, sensitivity, draws);
            if (status != PV_OK) return status;
            ++it->scales.used;
            it->scales.row += plan->every;
        }
        if (*i >= rows->n) return PV_OK;
        if (it->t >= plan->horizon) return PV_HORIZON;
        /* the norm that scales the row is taken here, not before: what is learnt is within its bound */
        double target = admissible(plan, y[*i]), norm = norm_of(rows, y, *i);
        if (progress) {
            if (progress->rows)
                observe_row(it, plan, progress, *i);
            else
                observe(it, plan, rows, *i, target, norm, progress);
        }
        learn(it, plan, rows, *i, target, norm);
        ++*i;
        it->pending = it->t == it->next_release;
        if (!(it->nn <= HUGE_VAL)) return PV_NOT_FINITE;
    }
}
