#include "runs/pv_leader.h"

#include <math.h>
#include <string.h>

/* Sets what is due after row state->t, which the sums include. The horizon ends a leaf that is not full. */
static pv_status arrived(pv_leader *it, const pv_leader_plan *plan) {
    pv_state *state = &it->run;
    if (state->t == 1) pv_spend(state, plan->cost);
    if (state->t == plan->run.horizon) pv_prefix_end_leaf(&it->sums);
    state->pending |= it->sums.due > 0;
    return PV_OK;
}

/* Row state->t has come, with its gradient (NULL: 0). */
static pv_status arrive(pv_leader *it, const pv_leader_plan *plan, const double *gradient) {
    const pv_status status = pv_prefix_add(&it->sums, gradient);
    return status == PV_OK ? arrived(it, plan) : status;
}

/* The slopes of row i times f at a point, one for each output, scaled to norm at most `most`. */
static pv_status slopes_of(const double *point, const pv_plan *run, const pv_rows *rows, int64_t i, double f, double y,
                           double most, double *slopes) {
    const pv_outputs *outputs = &run->outputs;
    const double weight = pv_outputs_weight(outputs, y);
    if (outputs->n > 1) {
        const int64_t n = outputs->n;
        pv_scores(point, run, rows, i, f, slopes);
        pv_outputs_slopes(outputs, &run->loss, slopes, y);
        for (int64_t k = 0; k < n; ++k) slopes[k] *= weight;
        const double square = pv_sqnorm(slopes, n);
        if (square != square) return PV_NOT_FINITE; /* a user's loss */
        const double scale = square > most * most ? most / sqrt(square) : 1.0;
        for (int64_t k = 0; k < n; ++k) slopes[k] *= scale;
        return PV_OK;
    }
    const double g = weight * run->loss.slope(&run->loss, pv_predict(point, run, rows, i, f), y);
    if (g != g) return PV_NOT_FINITE;
    slopes[0] = g > most ? most : (g < -most ? -most : g);
    return PV_OK;
}

/* Row i is scaled to its bound, by *f, and gets slopes at a point: a gradient within the plan's bound. */
static pv_status take_row(pv_state *counts, const pv_leader_plan *plan, const double *point, const pv_rows *rows,
                          int64_t i, double y, double norm, double *f, double *slopes) {
    const pv_plan *run = &plan->run;
    *f = pv_scale_row(counts, run, &norm);
    const double most = pv_most_slope(plan->bound, norm + (run->intercept ? 1.0 : 0.0));
    return slopes_of(point, run, rows, i, *f, y, most, slopes);
}

/* The gradient: the row for each output, times its slope. */
static void write_gradient(const pv_plan *run, const pv_rows *rows, int64_t i, double f, const double *slopes,
                           double *w) {
    const int64_t n = run->outputs.n, width = n > 1 ? run->d / n : run->d;
    for (int64_t k = 0; k < n; ++k, w += width) {
        rows->ops->scaled(rows, i, slopes[k] * f, w);
        if (run->intercept) w[width - 1] = slopes[k];
    }
}

static void add_gradient(const pv_plan *run, const pv_rows *rows, int64_t i, double f, const double *slopes,
                         double *w) {
    const int64_t n = run->outputs.n, width = run->d / n;
    for (int64_t k = 0; k < n; ++k, w += width) {
        rows->ops->axpy(rows, i, slopes[k] * f, w);
        if (run->intercept) w[width - 1] += slopes[k];
    }
}

/* A dense row that is a step is written straight into the leaf. Sparse rows of a step of several rows are added only
 * where they have entries, so only the step itself passes over all coordinates. The bits are the same: no sum is -0,
 * for which adding 0 would matter. */
static int enters_leaf(const pv_leader *it, const pv_rows *rows) {
    return pv_prefix_in_doubles(&it->sums) && rows->is_csr == (it->sums.plan->leaf > 1);
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_leader *it = (pv_leader *)state;
    const pv_leader_plan *plan = (const pv_leader_plan *)run;
    if (norm < 0.0) {
        pv_tally(&state->n_null, 1); /* the null row adds nothing, unless it stands for the last of a step */
        return arrive(it, plan, it->given);
    }
    double f, slope, *slopes = run->outputs.n > 1 ? state->work : &slope;
    pv_status status = take_row(state, plan, it->point, rows, i, y, norm, &f, slopes);
    if (status != PV_OK) return status;
    if (!enters_leaf(it, rows)) {
        write_gradient(run, rows, i, f, slopes, it->gradient);
        return arrive(it, plan, it->gradient);
    }
    status = pv_prefix_begin_row(&it->sums);
    if (status != PV_OK) return status;
    if (rows->is_csr) {
        if (it->sums.in_leaf == 0) memset(it->sums.leaf, 0, (size_t)run->d * sizeof(double));
        add_gradient(run, rows, i, f, slopes, it->sums.leaf);
    } else {
        write_gradient(run, rows, i, f, slopes, it->sums.leaf);
    }
    pv_prefix_end_row(&it->sums);
    return arrived(it, plan);
}

pv_status pv_leader_sum(const pv_leader_plan *plan, const double *point, const pv_rows *rows, const double *y,
                        pv_state *counts, double *slopes, double *sum) {
    const pv_plan *run = &plan->run;
    memset(sum, 0, (size_t)run->d * sizeof(double));
    for (int64_t i = 0; i < rows->n; ++i) {
        const double norm = y[i] == y[i] ? pv_rows_norm(rows, i) : -1.0;
        if (norm < 0.0) {
            ++counts->n_null;
            continue;
        }
        double f;
        const pv_status status = take_row(counts, plan, point, rows, i, pv_admissible(run, y[i]), norm, &f, slopes);
        if (status != PV_OK) return status;
        add_gradient(run, rows, i, f, slopes, sum);
    }
    return PV_OK;
}

pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient) {
    pv_state *state = &it->run;
    const int64_t d = plan->run.d;
    double *w = it->gradient;
    state->pending = pv_tally(&state->t, 1) == state->next_release;
    if (!gradient) {
        pv_tally(&state->n_null, 1);
        w = NULL;
    } else {
        const double nn = pv_sqnorm(gradient, d), most = plan->bound * plan->bound;
        const double f = nn > most ? plan->bound / sqrt(nn) : 1.0;
        pv_tally(&state->n_clipped, nn > most);
        for (int64_t j = 0; j < d; ++j) w[j] = f * gradient[j];
    }
    return arrive(it, plan, w);
}

void pv_leader_end_leaf(pv_leader *it) {
    pv_prefix_end_leaf(&it->sums);
    it->run.pending |= it->sums.due > 0;
}

static int64_t steps_of(const pv_leader *it) { return it->sums.first_step + it->sums.step; }

/* The weight of the gradients in the point: their number, unless the sum forgets. */
static double weight_of(const pv_leader *it) {
    const pv_prefix_plan *sums = it->sums.plan;
    return sums->discount < 1.0 || sums->window ? *it->sums.weight : (double)it->run.t;
}

/* The strong convexity around the starting point in an epoch: by default that of all rows to the epoch's end. */
static double held_by(const pv_leader *it, const pv_leader_plan *plan) {
    const int64_t epoch = it->sums.epoch;
    if (epoch == 0 || plan->reach == 0.0) return plan->regularization;
    const double g = plan->bound, leaf = (double)it->sums.plan->leaf, rows = pv_at_epoch(&plan->rows, epoch + 1);
    const double noise = sqrt((double)plan->run.d * pv_at_epoch(&plan->variance, epoch + 1));
    return sqrt(2.0 * rows * g * (leaf * g + noise)) / plan->reach;
}

/* The minimiser of <S, x> + held / 2 ||x - x_1||^2 + l2 n / 2 ||x||^2, S the private sum of the gradients so far and n
 * their weight. */
static pv_status follow(pv_leader *it, const pv_leader_plan *plan, pv_draws *draws, double *x, double *square) {
    const double held = held_by(it, plan), length = 1.0 / (held + plan->l2 * weight_of(it));
    const pv_affine to = {it->start, it->sums.base, held, length};
    return pv_prefix_follow(&it->sums, draws, &to, x, square);
}

/* The part of a square that cannot be explained without a drift. */
static double beyond(double square, double expected) { return square > expected ? 1.0 - expected / square : 0.0; }

/* The model shown: the slow average of the points, moved towards the quick one as far as their difference, over all
 * coordinates, exceeds its noise; and moved again beyond the quick one if the difference also exceeds by far what
 * single rows may cause. `noise` is that of the points, in coordinates with the noise of the sums. */
static void show(pv_leader *it, const pv_leader_plan *plan, const pv_vectors *vectors, int64_t step, int64_t k,
                 double noise) {
    const pv_plan *run = &plan->run;
    const pv_tuning *tuning = &plan->tuning;
    const double least = (tuning->power + 1.0) / (tuning->power + (double)step), held = tuning->held[k];
    const double quick = fmax(least, 1.0 / tuning->quickest), slow = fmax(least, 1.0 / tuning->slowest);
    double *restrict x = it->run.work;
    for (int64_t c = 0; c < run->d; ++c) {
        it->quick[c] += quick * (it->point[c] - it->quick[c]);
        it->slow[c] += slow * (it->point[c] - it->slow[c]);
        x[c] = it->quick[c] - it->slow[c];
    }
    const double square = pv_sqnorm(x, run->d) * (held * held), lag = tuning->lag[k] * noise;
    const double way = beyond(square, lag) + beyond(square, tuning->sure * lag + tuning->walk[k]);
    for (int64_t c = 0; c < run->d; ++c) x[c] = it->slow[c] + way * x[c];
    const double f = pv_into_set(run, x, x + run->d, vectors);
    for (int64_t c = 0; c < run->d; ++c) it->shown[c] = x[c] * f + 0.0;
}

/* The sums of a feature, over all scores, are shrunk by what noise explains and divided by the strong convexity of
 * the step: the positive-part James-Stein estimate. Along them the point has the noise of the sums, across them its
 * remainder. */
static void follow_tuned(pv_leader *it, const pv_leader_plan *plan, const pv_vectors *vectors) {
    const pv_plan *run = &plan->run;
    const pv_tuning *tuning = &plan->tuning;
    const int64_t step = steps_of(it), n = run->outputs.n, width = run->d / n;
    int64_t k = 0, last = tuning->n - 1;
    while (k < last) { /* the first part that reaches the step */
        const int64_t middle = k + (last - k) / 2;
        if (tuning->until[middle] < step)
            k = middle + 1;
        else
            last = middle;
    }
    const double length = 1.0 / tuning->held[k], threshold = tuning->threshold[k];
    const double *base = it->sums.base, *sum = it->sums.prefix;
    double *restrict x = it->run.work, *restrict part = it->run.work + run->d;
    memset(part, 0, (size_t)width * sizeof(double));
    for (int64_t c = 0; c < n; ++c)
        for (int64_t j = 0; j < width; ++j) {
            const double s = base[c * width + j] + sum[c * width + j];
            x[c * width + j] = s;
            part[j] += s * s;
        }
    double noise = 0.0;
    for (int64_t j = 0; j < width; ++j) {
        const double kept = beyond(part[j], threshold);
        if (kept > 0.0) noise += 1.0 + (double)(n - 1) * (kept * kept);
        part[j] = kept * length;
    }
    for (int64_t c = 0; c < n; ++c)
        for (int64_t j = 0; j < width; ++j) x[c * width + j] *= -part[j];
    const double f = pv_into_set(run, x, x + run->d, vectors);
    for (int64_t c = 0; c < run->d; ++c) it->point[c] = x[c] * f + 0.0;
    show(it, plan, vectors, step, k, noise);
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_leader *it = (pv_leader *)state;
    const pv_leader_plan *plan = (const pv_leader_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    const int publishes = state->t == state->next_release;
    if (it->followed == steps_of(it)) {
        if (publishes) pv_publish(state, run, plan->tuning.n ? it->shown : it->point, 1.0, vectors);
        return PV_OK;
    }
    if (plan->tuning.n) {
        pv_status status = pv_prefix_settle(&it->sums, draws);
        if (status != PV_OK) return status;
        follow_tuned(it, plan, vectors);
        if (publishes) pv_publish(state, run, it->shown, 1.0, vectors);
    } else {
        double *x = state->work, square;
        pv_status status = follow(it, plan, draws, x, &square);
        if (status != PV_OK) return status;
        const int64_t n = pv_prefix_stride(it->sums.plan);
        const double f = pv_into_set_known(run, x, square, x + n);
        if (publishes)
            pv_publish_two(state, run, x, f, it->point, n, vectors);
        else
            vectors->scale(x, f, it->point, n);
    }
    it->followed = steps_of(it);
    return PV_OK;
}

static int64_t upcoming(const pv_state *state, const pv_plan *run, int64_t capacity, uint64_t *rows) {
    (void)run;
    return pv_prefix_upcoming(&((const pv_leader *)state)->sums, capacity, rows);
}

const pv_method pv_leader_method = {learn, release, upcoming, NULL};
