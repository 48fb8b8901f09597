#include "runs/pv_local.h"

#include <math.h>
#include <string.h>

#include "betting/pv_magnitude.h"

pv_status pv_local_gradient(pv_state *state, const pv_plan *run, double bound, const double *point, const pv_rows *rows,
                            int64_t i, double y, double norm, double *gradient) {
    if (norm < 0.0) {
        pv_tally(&state->n_null, 1);
        return PV_OK;
    }
    const double f = pv_scale_row(state, run, &norm);
    const double most = pv_most_slope(bound, norm + (run->intercept ? 1.0 : 0.0));
    double g = run->loss.slope(&run->loss, pv_predict(point, run, rows, i, f), y);
    if (g != g) {
        if (run->loss.user) return PV_NOT_FINITE;
        g = 0.0; /* no row may be answered by an error in place of a report */
    }
    g = g > most ? most : (g < -most ? -most : g);
    if (g != 0.0) {
        rows->ops->axpy(rows, i, g * f, gradient);
        if (run->intercept) gradient[run->d - 1] += g;
    }
    return PV_OK;
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_local *it = (pv_local *)state;
    const double bound = ((const pv_local_plan *)run)->report.bound;
    state->pending = 1; /* every row sends a report, even the null row, whose gradient is 0 */
    return pv_local_gradient(state, run, bound, it->point, rows, i, y, norm, it->gradient);
}

void pv_local_tell(pv_local *it, const pv_local_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    pv_tally(&state->t, 1);
    state->pending = 1;
    if (gradient)
        memcpy(it->gradient, gradient, (size_t)plan->run.d * sizeof(double));
    else
        pv_tally(&state->n_null, 1);
}

/* The step to the point with that number; `squares` is the sum of the squared norms of the earlier reports. */
static double pace(const pv_local_plan *plan, double number, double squares) {
    switch (plan->pace) {
    case PV_ROOT: return plan->length / sqrt(number);
    case PV_INVERSE: return plan->length / number;
    case PV_ADAPTIVE: return plan->length / sqrt(plan->base + squares);
    default: return plan->length;
    }
}

/* If all models are allowed, coordinates are limited so that every score of a row stays finite: a rule that depends
 * on the reports alone. */
static double held(double x) { return x > PV_ENTRY_MAX ? PV_ENTRY_MAX : (x < -PV_ENTRY_MAX ? -PV_ENTRY_MAX : x); }

static void settle(pv_local *it, const pv_local_plan *plan, double *w, const pv_vectors *vectors) {
    const double f = pv_into_set(&plan->run, w, w + plan->run.d, vectors);
    for (int64_t c = 0; c < plan->run.d; ++c) it->point[c] = held(w[c] * f) + 0.0;
}

static void step_greedily(pv_local *it, const pv_local_plan *plan, double *r, const pv_vectors *vectors) {
    const double n = (double)it->steps, length = pace(plan, n, it->squares);
    const double keep = plan->pace == PV_INVERSE ? (n - 1.0) / n : 1.0; /* the regulariser's gradient */
    it->squares += vectors->sqnorm(r, plan->run.d);
    for (int64_t c = 0; c < plan->run.d; ++c) r[c] = keep * it->point[c] - length * r[c];
    settle(it, plan, r, vectors);
}

static void step_lazily(pv_local *it, const pv_local_plan *plan, double *r, const pv_vectors *vectors) {
    it->squares += vectors->sqnorm(r, plan->run.d);
    const double length = pace(plan, (double)it->steps + 1.0, it->squares);
    for (int64_t c = 0; c < plan->run.d; ++c) {
        it->sum[c] -= r[c];
        r[c] = length * it->sum[c];
    }
    settle(it, plan, r, vectors);
}

/* The scale-free step of a direction q of the unit ball. */
static void turn(pv_local *it, const pv_local_plan *plan, const double *r, const pv_vectors *vectors) {
    const int64_t d = plan->run.d;
    double *q = it->sum;
    it->squares += vectors->sqnorm(r, d);
    if (it->squares > 0.0) {
        const double length = plan->length / sqrt(it->squares);
        for (int64_t c = 0; c < d; ++c) q[c] -= length * r[c];
        const double nn = vectors->sqnorm(q, d), f = nn > 1.0 ? 1.0 / sqrt(nn) : 1.0;
        for (int64_t c = 0; c < d; ++c) q[c] = q[c] * f + 0.0;
    }
}

static void go_along(pv_local *it, const pv_local_plan *plan, double m, double *work, const pv_vectors *vectors) {
    for (int64_t c = 0; c < plan->run.d; ++c) work[c] = m * it->sum[c];
    settle(it, plan, work, vectors);
}

/* Coin betting on the gain of the direction. */
static void bet(pv_local *it, const pv_local_plan *plan, double *r, const pv_vectors *vectors) {
    const int64_t d = plan->run.d;
    const double gain = -vectors->dot(r, it->sum, d);
    it->x += gain;
    if (plan->observed > 0.0)
        it->y += plan->observed * (gain * gain);
    else
        it->y += plan->counted ? plan->drift : plan->drift * vectors->sqnorm(it->sum, d);
    turn(it, plan, r, vectors);
    double m = pv_magnitude(it->x, it->y, plan->a);
    m = m > plan->cap ? plan->cap : (m < -plan->cap ? -plan->cap : m);
    go_along(it, plan, held(held(m) * plan->wealth), r, vectors); /* m may have been infinite */
}

/* The same direction, with a length from experts. */
static void advise(pv_local *it, const pv_local_plan *plan, double *r, const pv_vectors *vectors) {
    const double gain = -vectors->dot(r, it->sum, plan->run.d);
    it->x += gain;
    pv_experts_learn(&it->experts, &plan->experts, gain, vectors->sqnorm(it->sum, plan->run.d));
    turn(it, plan, r, vectors);
    go_along(it, plan, pv_experts_magnitude(&it->experts, &plan->experts), r, vectors);
}

/* One step by a report, which is overwritten; r has room for 3 d values. */
static void move(pv_local *it, const pv_local_plan *plan, double *r, const pv_vectors *vectors) {
    if (it->steps++ == 0) pv_spend(&it->run, plan->cost);
    switch (plan->update) {
    case PV_GREEDY: step_greedily(it, plan, r, vectors); break;
    case PV_LAZY: step_lazily(it, plan, r, vectors); break;
    case PV_COIN: bet(it, plan, r, vectors); break;
    case PV_EXPERTS: advise(it, plan, r, vectors); break;
    }
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_local *it = (pv_local *)state;
    const pv_local_plan *plan = (const pv_local_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    double *r = state->work, *v = r + run->d;
    const double square = vectors->sqnorm(it->gradient, run->d), most = plan->report.bound * plan->report.bound;
    pv_report_clip(plan->report.bound, run->d, it->gradient, v); /* as a device does */
    pv_status status = pv_report_draw(&plan->report, draws, (uint64_t)state->t, v, r);
    if (status != PV_OK) return status;
    pv_tally(&state->n_clipped, square > most * (1.0 + 0x1p-30)); /* not rows that exceed it only by rounding */
    memset(it->gradient, 0, (size_t)run->d * sizeof(double));
    move(it, plan, r, vectors);
    if (state->t == state->next_release) pv_publish(state, run, it->point, 1.0, vectors);
    return PV_OK;
}

void pv_local_receive(pv_local *it, const pv_local_plan *plan, const double *report, const pv_vectors *vectors) {
    pv_state *state = &it->run;
    pv_tally(&state->t, 1);
    memcpy(state->work, report, (size_t)plan->run.d * sizeof(double));
    move(it, plan, state->work, vectors);
    if (state->t == state->next_release) pv_publish(state, &plan->run, it->point, 1.0, vectors);
}

/* Reports find the words that they need themselves: a report may take several trials. */
const pv_method pv_local_method = {learn, release, NULL, NULL};
