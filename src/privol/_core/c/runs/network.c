#include "runs/pv_network.h"

#include <math.h>
#include <string.h>

/* Coordinates mixed at a time: those of all nodes fit into the nearest caches. */
#define BLOCK 512

/* Draws made by the nodes here when row t has been learnt, including those of all earlier rounds. */
static inline int64_t due(const pv_network_plan *plan, int64_t t) {
    if (t == plan->run.horizon) return plan->rounds * plan->own;
    if (plan->batch == 1) return t;
    const int64_t size = plan->own * plan->batch, rest = t % size - (plan->batch - 1) * plan->own;
    return t / size * plan->own + (rest > 0 ? rest : 0);
}

static inline int64_t made(const pv_network *it, const pv_network_plan *plan) {
    return it->round * plan->own + it->node;
}

uint64_t pv_network_address(const pv_network *it, const pv_network_plan *plan) {
    return (uint64_t)(it->round * plan->nodes + plan->first + it->node + 1);
}

/* Length of the step of round t. */
static double pace(const pv_network_plan *plan, double t) {
    switch (plan->pace) {
    case PV_ROOT: return plan->length / sqrt(t);
    case PV_INVERSE: return plan->length / t;
    default: return plan->length;
    }
}

static inline double held(double x) {
    return x > PV_ENTRY_MAX ? PV_ENTRY_MAX : (x < -PV_ENTRY_MAX ? -PV_ENTRY_MAX : x);
}

static inline double soft(double x, double c) { return x > c ? x - c : (x < -c ? x + c : 0.0); }

void pv_network_start(pv_network *it, const pv_network_plan *plan) {
    const int64_t d = plan->run.d;
    for (int64_t i = 0; i < plan->own; ++i) {
        memcpy(it->sent + i * d, it->run.released, (size_t)d * sizeof(double));
        memcpy(it->mixes + i * d, it->run.released, (size_t)d * sizeof(double));
        memcpy(it->models + i * d, it->run.released, (size_t)d * sizeof(double));
    }
    it->lengths = pace(plan, 1.0);
}

void pv_network_plan_release(pv_network *it, const pv_network_plan *plan) {
    pv_state *state = &it->run;
    it->planned = pv_next_planned(&plan->run, it->round, &state->list_position);
    const int64_t row = it->planned > plan->rounds ? plan->run.horizon + 1 : it->planned * plan->own * plan->batch;
    pv_show(&state->next_release, it->planned <= plan->rounds && row > plan->run.horizon ? plan->run.horizon : row);
}

/* The gradients of the node whose turn it is. */
static inline double *gradient_of(const pv_network *it, const pv_network_plan *plan, int64_t node) {
    return plan->batch == 1 ? it->gradients : it->gradients + node * plan->run.d;
}

/* A row has come: sets what is due after it. */
static inline void arrive(pv_network *it, const pv_network_plan *plan) {
    it->turn = it->turn + 1 == plan->own ? 0 : it->turn + 1;
    it->run.pending = due(plan, it->run.t) > made(it, plan);
}

static pv_status learn(pv_state *state, const pv_plan *run, const pv_rows *rows, int64_t i, double y, double norm) {
    pv_network *it = (pv_network *)state;
    const pv_network_plan *plan = (const pv_network_plan *)run;
    const int64_t node = it->turn;
    arrive(it, plan);
    return pv_local_gradient(state, run, plan->bound, it->models + node * run->d, rows, i, y, norm,
                             gradient_of(it, plan, node));
}

void pv_network_tell(pv_network *it, const pv_network_plan *plan, const double *gradient) {
    const int64_t d = plan->run.d;
    double *sum = gradient_of(it, plan, it->turn);
    pv_tally(&it->run.t, 1);
    arrive(it, plan);
    if (!gradient) {
        pv_tally(&it->run.n_null, 1);
        return;
    }
    const double nn = pv_sqnorm(gradient, d), most = plan->bound * plan->bound;
    const double f = nn > most ? plan->bound / sqrt(nn) : 1.0;
    pv_tally(&it->run.n_clipped, nn > most * (1.0 + 0x1p-30));
    for (int64_t c = 0; c < d; ++c) sum[c] += f * gradient[c];
}

static const double *shown(const pv_state *state, const pv_plan *run) {
    const pv_network *it = (const pv_network *)state;
    return it->models + it->turn * run->d;
}

/* The next node sends: PV_OK, or what its draw asks for. */
static pv_status send(pv_network *it, const pv_network_plan *plan, pv_draws *draws, const pv_vectors *vectors) {
    const pv_plan *run = &plan->run;
    const int64_t d = run->d;
    const double t = (double)it->round + 1.0, length = pace(plan, t), of = length / (double)plan->batch;
    const double *b = it->mixes + it->node * d;
    double *g = gradient_of(it, plan, it->node), *r = it->run.work, *v = r + d, *out = it->sent + it->node * d;
    double keep = 1.0, scale = of;
    if (plan->pace == PV_INVERSE) { /* the regulariser: length l2 is 1 / t */
        keep = plan->implicit ? t / (t + 1.0) : (t - 1.0) / t;
        if (plan->implicit) scale *= keep;
    }
    if (plan->batch == 1)
        pv_report_clip(plan->bound, d, g, v);
    else
        memcpy(v, g, (size_t)d * sizeof(double)); /* each of them was scaled to the bound */
    if (plan->position == PV_AFTER) {
        for (int64_t c = 0; c < d; ++c) r[c] = keep * b[c] - scale * v[c];
        const double f = pv_into_set(run, r, v, vectors);
        for (int64_t c = 0; c < d; ++c) v[c] = r[c] * f / of;
    } else if (plan->position == PV_SCALED) {
        for (int64_t c = 0; c < d; ++c) v[c] /= length;
        scale *= length;
    }
    pv_status status = pv_report_draw(&plan->report, draws, pv_network_address(it, plan), v, r);
    if (status != PV_OK) return status;
    memset(g, 0, (size_t)d * sizeof(double));
    if (it->round == 0 && it->node == 0) pv_spend(&it->run, plan->cost);
    if (plan->position == PV_AFTER) {
        for (int64_t c = 0; c < d; ++c) out[c] = held(of * r[c]) + 0.0;
        return PV_OK;
    }
    for (int64_t c = 0; c < d; ++c) r[c] = keep * b[c] - scale * r[c];
    const double f = pv_into_set(run, r, v, vectors);
    for (int64_t c = 0; c < d; ++c) out[c] = held(r[c] * f) + 0.0;
    return PV_OK;
}

const int64_t *pv_network_matrix(const pv_network *it, const pv_network_plan *plan) {
    const pv_mixing *mixing = &plan->mixing;
    const int64_t k = it->round + 2 - mixing->first; /* it makes the points of the round after the one that ends */
    if (mixing->rounds == 0 || k < 0 || (!mixing->periodic && k >= mixing->rounds)) return NULL;
    return mixing->indptr + (mixing->periodic ? k % mixing->rounds : k) * (plan->nodes + 1);
}

/* out (rows of n values) = the matrix's rows from..to times x, a block of columns at a time. */
static void mix(const pv_network_plan *plan, const int64_t *indptr, int64_t from, int64_t to, const int64_t *place,
                const double *x, double *out, int64_t n, const pv_vectors *vectors) {
    const pv_mixing *mixing = &plan->mixing;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t width = n - start < BLOCK ? n - start : BLOCK;
        for (int64_t i = from; i < to; ++i) {
            const int64_t begin = indptr[i], count = indptr[i + 1] - begin;
            for (int64_t k = 0; k < count; ++k) {
                const int64_t j = mixing->columns[begin + k];
                plan->heard[k] = x + (place ? place[j] : j) * n + start;
            }
            vectors->combine(mixing->weights + begin, plan->heard, count, out + (i - from) * n + start, width);
        }
    }
}

/* The vector after the threshold is subtracted. */
static void cut(const double *x, double threshold, double *out, int64_t n) {
    for (int64_t c = 0; c < n; ++c) out[c] = soft(x[c], threshold);
}

/* The noise of what was sent in the completed round, and the standard deviation of its mean over all nodes. */
static double add_noise(pv_network *it, const pv_network_plan *plan) {
    const int64_t m = plan->nodes;
    double of = pace(plan, (double)it->round + 1.0) / (double)plan->batch, total = 0.0;
    for (int64_t i = 0; i < m; ++i) it->spread[i * m + i] += of * of * plan->variance;
    for (int64_t k = 0; k < m * m; ++k) total += it->spread[k];
    return sqrt(total) / (double)m;
}

/* spread <- A spread A'. */
static void mix_noise(pv_network *it, const pv_network_plan *plan, const int64_t *indptr, const pv_vectors *vectors) {
    const int64_t m = plan->nodes;
    double *other = it->spread + m * m;
    mix(plan, indptr, 0, m, NULL, it->spread, other, m, vectors);
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < i; ++j) {
            const double x = other[i * m + j];
            other[i * m + j] = other[j * m + i];
            other[j * m + i] = x;
        }
    mix(plan, indptr, 0, m, NULL, other, it->spread, m, vectors);
}

void pv_network_mean(const double *x, int64_t rows, int64_t d, double *mean) {
    memcpy(mean, x, (size_t)d * sizeof(double));
    for (int64_t i = 1; i < rows; ++i)
        for (int64_t c = 0; c < d; ++c) mean[c] += x[i * d + c];
    for (int64_t c = 0; c < d; ++c) mean[c] = mean[c] / (double)rows + 0.0;
}

void pv_network_show(pv_network *it, const pv_network_plan *plan, const double *mixes, int64_t nodes) {
    double *mean = it->run.released;
    pv_network_mean(mixes, nodes, plan->run.d, mean);
    if (plan->threshold != PV_DENSE) cut(mean, it->network, mean, plan->run.d);
}

void pv_network_publish(pv_network *it, const pv_network_plan *plan) {
    const pv_plan *run = &plan->run;
    pv_state *state = &it->run;
    const double weight = pv_average_weight(run, (double)pv_tally(&state->n_released, 1));
    for (int64_t c = 0; c < plan->own * run->d; ++c) it->sums[c] += weight * it->models[c];
    pv_network_plan_release(it, plan);
    pv_network_show(it, plan, it->mixes, plan->own);
}

/* All nodes here have sent in a round: mix, and publish what is due. PV_NEED_FAR: the matrix is not known yet, or
 * what others sent is not here. */
static pv_status complete(pv_network *it, const pv_network_plan *plan, const pv_vectors *vectors) {
    const int64_t d = plan->run.d, m = plan->nodes;
    const int64_t *indptr = pv_network_matrix(it, plan);
    if (!indptr || (plan->own < m && !it->exchanged)) return PV_NEED_FAR;
    if (plan->threshold == PV_OF_NOISE) it->network = plan->l1 * add_noise(it, plan);
    mix(plan, indptr, plan->first, plan->first + plan->own, plan->place, it->sent, it->mixes, d, vectors);
    if (plan->threshold == PV_OF_NOISE) mix_noise(it, plan, indptr, vectors);
    const double next = pace(plan, (double)it->round + 2.0);
    it->lengths += next;
    if (plan->threshold != PV_DENSE) {
        const double usual = plan->l1 * (plan->threshold == PV_OF_STEP ? next : it->lengths);
        if (plan->threshold != PV_OF_NOISE) it->network = usual;
        for (int64_t i = 0; i < plan->own; ++i) {
            const int64_t own = plan->first + i;
            const double c = plan->threshold == PV_OF_NOISE ? plan->l1 * sqrt(it->spread[own * m + own]) : usual;
            cut(it->mixes + i * d, c, it->models + i * d, d);
        }
    }
    it->messages += indptr[m] - indptr[0] - m;
    ++it->round;
    it->node = 0;
    it->exchanged = 0;
    if (it->round == it->planned) pv_network_publish(it, plan);
    return PV_OK;
}

static pv_status release(pv_state *state, const pv_plan *run, pv_draws *draws) {
    pv_network *it = (pv_network *)state;
    const pv_network_plan *plan = (const pv_network_plan *)run;
    const pv_vectors *vectors = pv_vectors_at(pv_draws_level(draws));
    const int64_t last = due(plan, state->t);
    for (;;) {
        pv_status status;
        if (it->node == plan->own) {
            status = complete(it, plan, vectors);
        } else {
            if (made(it, plan) >= last) return PV_OK;
            status = send(it, plan, draws, vectors);
            if (status == PV_OK) ++it->node;
        }
        if (status != PV_OK) return status;
    }
}

/* Reports find the words that they need themselves. */
const pv_method pv_network_method = {learn, release, NULL, shown};
