#include "runs/pv_least_squares.h"

#include <math.h>
#include <string.h>

/* Add the waiting rows to the leaf, whose last rows they are, in order and each with its own rounding. */
static void gather(pv_least_squares *s, int64_t of_leaf) {
    if (s->waiting == 0) return;
    s->add(s->rows, s->targets, s->waiting, s->ridge.d, s->waiting == of_leaf, s->sums.leaf);
    s->waiting = 0;
}

void pv_least_squares_gather(pv_least_squares *s) { gather(s, s->sums.in_leaf); }

/* A row and its target in unit bounds. */
static void place(pv_state *state, const pv_least_squares_plan *p, const pv_rows *rows, int64_t i, double y,
                  double norm, double *row, double *target) {
    const int64_t d = p->run.d;
    const double f = pv_scale_row(state, &p->run, &norm);
    memset(row, 0, (size_t)d * sizeof(double));
    rows->ops->axpy(rows, i, f * p->row_unit, row);
    if (p->run.intercept) row[d - 1] = p->row_unit;
    *target = y * p->target_unit;
}

void pv_least_squares_leaf(const pv_least_squares_plan *plan, pv_moments add, const pv_rows *rows, const double *y,
                           int64_t first, int64_t n, pv_state *counts, double *scratch, double *out) {
    const int64_t d = plan->run.d;
    double *targets = scratch + PV_MOMENT_ROWS * d;
    int64_t waiting = 0, seen = 0;
    for (int64_t i = first; i < first + n; ++i) {
        const double norm = y[i] == y[i] ? pv_rows_norm(rows, i) : -1.0;
        if (norm >= 0.0) {
            place(counts, plan, rows, i, pv_admissible(&plan->run, y[i]), norm, scratch + waiting * d,
                  targets + waiting);
            ++waiting;
            ++seen;
        }
        if (waiting > 0 && (norm < 0.0 || waiting == PV_MOMENT_ROWS || i + 1 == first + n)) {
            add(scratch, targets, waiting, d, waiting == seen, out);
            waiting = 0;
        }
        if (norm < 0.0) {
            if (seen++ == 0) memset(out, 0, (size_t)pv_moments_size(d) * sizeof(double));
            ++counts->n_null;
        }
    }
}

static pv_status learn(pv_state *state, const pv_plan *plan, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_least_squares *s = (pv_least_squares *)state;
    const pv_least_squares_plan *p = (const pv_least_squares_plan *)plan;
    const int64_t d = plan->d;
    pv_status status;
    if (state->t == 1) pv_spend(state, p->cost);
    if (norm < 0.0) {
        pv_tally(&state->n_null, 1); /* the null row adds nothing, unless it stands for the last of a leaf */
        pv_least_squares_gather(s);
        status = pv_prefix_add(&s->sums, s->given);
    } else {
        double *row = s->rows + s->waiting * d, *target = s->targets + s->waiting;
        place(state, p, rows, i, y, norm, row, target);
        if (p->as_printed) {
            pv_all_moments(row, *target, d, s->moments);
            status = pv_prefix_add(&s->sums, s->moments);
        } else if (pv_prefix_in_doubles(&s->sums)) {
            status = pv_prefix_begin_row(&s->sums);
            if (status != PV_OK) return status;
            const int64_t of_leaf = s->sums.in_leaf + 1;
            if (++s->waiting == PV_MOMENT_ROWS || pv_prefix_at_leaf_end(&s->sums)) gather(s, of_leaf);
            pv_prefix_end_row(&s->sums);
        } else {
            s->add(row, target, 1, d, 1, s->moments);
            status = pv_prefix_add(&s->sums, s->moments);
        }
    }
    state->pending |= s->sums.due > 0;
    return status;
}

/* The weight of the rows in the released sums: their number, unless the sums forget. */
static double weight_of(const pv_least_squares *s) {
    const pv_prefix_plan *sums = s->sums.plan;
    return sums->discount < 1.0 || sums->window ? *s->sums.weight : (double)(s->run.t - s->sums.in_leaf);
}

/* The shift for the noise of the sums: variances of the ended epochs and of this one add up. */
static double shift_of(const pv_least_squares_plan *p, const pv_prefix *sums) {
    const int64_t epoch = sums->epoch < p->ended.last ? sums->epoch : p->ended.last;
    double shift = 0.0;
    if (sums->step > 0) {
        int k = 0;
        for (int64_t step = sums->step; step >>= 1;) ++k;
        shift = p->shifts[epoch * p->n_shifts + k];
    }
    return sums->epoch == 0 ? shift : sqrt(pv_at_epoch(&p->ended, sums->epoch) + shift * shift);
}

/* The model of the sums released so far. Before the first release: the starting point, which is 0. */
static pv_status publish(pv_least_squares *s, const pv_least_squares_plan *p, int level) {
    const int64_t d = p->run.d;
    double *x = s->run.work;
    memset(x, 0, (size_t)d * sizeof(double));
    if (s->sums.first_step + s->sums.step > 0) {
        const double rows = weight_of(s), shift = rows * p->l2 + shift_of(p, &s->sums);
        pv_prefix_read(&s->sums, s->released);
        const pv_status status = p->as_printed ? pv_ridge_solve_as_printed(&s->ridge, s->released, shift, x)
                                               : pv_ridge_solve(&s->ridge, s->released, rows, shift, p->radius, x);
        if (status != PV_OK) return status;
        for (int64_t j = 0; j < d; ++j) x[j] *= p->row_unit / p->target_unit;
    }
    const pv_vectors *vectors = pv_vectors_at(level);
    pv_publish(&s->run, &p->run, x, pv_into_set(&p->run, x, x + d, vectors), vectors);
    return PV_OK;
}

static pv_status release(pv_state *state, const pv_plan *plan, pv_draws *draws) {
    pv_least_squares *s = (pv_least_squares *)state;
    const pv_least_squares_plan *p = (const pv_least_squares_plan *)plan;
    pv_status status = pv_prefix_settle(&s->sums, draws);
    if (status != PV_OK || state->t != state->next_release) return status;
    return publish(s, p, pv_draws_level(draws));
}

void pv_least_squares_end(pv_least_squares *s, const pv_least_squares_plan *p) {
    int64_t position = 0;
    const int released = pv_next_release(&p->run, s->run.t - 1, &position) == s->run.t;
    pv_least_squares_gather(s);
    pv_prefix_end_leaf(&s->sums);
    if (released && s->sums.due == 0) return;
    s->run.next_release = s->run.t;
    s->run.pending = 1;
}

static int64_t upcoming(const pv_state *state, const pv_plan *plan, int64_t capacity, uint64_t *rows) {
    (void)plan;
    return pv_prefix_upcoming(&((const pv_least_squares *)state)->sums, capacity, rows);
}

const pv_method pv_least_squares_method = {learn, release, upcoming, NULL};
