#include "prefix/pv_prefix.h"

#include <math.h>
#include <string.h>

#include "noise/pv_bits.h"
#include "base/pv_math.h"

static inline int of_intervals(const pv_prefix_plan *p) { return p->design <= PV_SMOOTH; }

static inline int lowest_bit(uint64_t x) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(x);
#else
    int j = 0;
    for (; !(x & 1); x >>= 1) ++j;
    return j;
#endif
}

/* The word before the first step. */
static uint64_t first_word(const pv_prefix_plan *p) {
    return (UINT64_C(1) << (p->design == PV_SMOOTH ? p->order : 0)) - 1;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Vectors of `dim` numbers in the secret and in the public part, after the row. */
static size_t secret_vectors(const pv_prefix_plan *p) {
    const size_t order = (size_t)p->order;
    if (of_intervals(p)) return 3 + order;                               /* x, total, whole, snapshots */
    if (p->design == PV_BLT || p->design == PV_BANDED) return 2 + order; /* x, leaf, buffers or past */
    return p->design == PV_SQRT ? 2 + (size_t)(p->steps + p->block) : 2;
}

static size_t public_vectors(const pv_prefix_plan *p) {
    const size_t order = (size_t)p->order, shared = 3; /* out, prefix, base */
    if (p->design == PV_HONAKER) return shared + 1 + 2 * order;
    if (of_intervals(p)) return shared + order;
    if (p->design == PV_SQRT) return shared + (size_t)(p->steps + p->block);
    return shared + (size_t)p->window + (p->design == PV_INDEPENDENT ? 0 : order);
}

/* First comes the row and, with a gram, its product. */
static size_t row_values(const pv_prefix_plan *p) { return (size_t)p->width + (p->gram ? (size_t)p->dim : 0); }

static size_t row_size(const pv_prefix_plan *p) {
    return p->design == PV_BLT ? (size_t)pv_whole((int64_t)row_values(p)) : row_values(p);
}

/* The most that any epoch needs. */
static size_t most(const pv_prefix_plan *p, size_t (*vectors)(const pv_prefix_plan *)) {
    size_t n = vectors(p);
    for (; p->next && p->next != p; p = p->next)
        if (vectors(p->next) > n) n = vectors(p->next);
    return n;
}

size_t pv_prefix_secret_size(const pv_prefix_plan *p) {
    return row_size(p) + most(p, secret_vectors) * (size_t)pv_prefix_stride(p);
}

size_t pv_prefix_size(const pv_prefix_plan *p) {
    return pv_prefix_secret_size(p) + most(p, public_vectors) * (size_t)pv_prefix_stride(p) + 1; /* and the weight */
}

/* The row's place, all vectors, the weight. */
static size_t n_vectors(const pv_prefix_plan *p) { return most(p, secret_vectors) + most(p, public_vectors); }

size_t pv_prefix_kept_size(const pv_prefix_plan *p) { return row_values(p) + n_vectors(p) * (size_t)p->dim + 1; }

void pv_prefix_keep(const pv_prefix_plan *p, const void *memory, void *kept) {
    const double *from = memory;
    double *to = kept;
    const size_t row = row_values(p), n = n_vectors(p), dim = (size_t)p->dim, stride = (size_t)pv_prefix_stride(p);
    memcpy(to, from, row * sizeof(double));
    to += row, from += row_size(p);
    for (size_t k = 0; k < n; ++k, to += dim, from += stride) memcpy(to, from, dim * sizeof(double));
    *to = *from;
}

void pv_prefix_restore(const pv_prefix_plan *p, const void *kept, void *memory) {
    const double *from = kept;
    double *to = memory;
    const size_t row = row_values(p), n = n_vectors(p), dim = (size_t)p->dim, stride = (size_t)pv_prefix_stride(p);
    memcpy(to, from, row * sizeof(double));
    to += row_size(p), from += row;
    for (size_t k = 0; k < n; ++k, to += stride, from += dim) memcpy(to, from, dim * sizeof(double));
    *to = *from;
}

/* Before the first step of an epoch. Every place holds only doubles or only integers; both have 8 bytes. */
static void begin_epoch(pv_prefix *s, const pv_prefix_plan *p) {
    const int64_t d = pv_prefix_stride(p);
    double *at = s->x + d;
    s->plan = p;
    s->rows = s->step = s->made = s->far_step = s->in_leaf = 0;
    s->due = s->drawn = 0;
    if (of_intervals(p)) {
        s->total = (int64_t *)(void *)at;
        s->whole = s->total + d;
        s->snapshots = s->total + 2 * d;
    } else {
        s->leaf = at;
        s->buffers = s->past = at + d;
        s->far = s->past + (p->design == PV_SQRT ? p->steps * d : 0);
    }
    at = s->base + d;
    if (p->design == PV_HONAKER) {
        s->estimate = at;
        s->estimates = at + d;
        s->sums = s->estimates + p->order * d;
    } else if (of_intervals(p)) {
        s->nodes = (int64_t *)(void *)at;
    } else {
        s->noisy_buffers = s->noisy_past = at;
        s->noisy_far = at + (p->design == PV_SQRT ? p->steps * d : 0);
        s->ring = at + (p->design == PV_BLT || p->design == PV_BANDED ? p->order * d : 0);
    }
    s->word = first_word(p);
}

void pv_prefix_bind(pv_prefix *s, const pv_prefix_plan *p, void *memory) {
    memset(s, 0, sizeof *s);
    s->vectors = pv_vectors_at(0);
    s->row = memory;
    s->x = s->row + row_size(p);
    s->out = s->row + pv_prefix_secret_size(p);
    s->prefix = s->out + pv_prefix_stride(p);
    s->base = s->prefix + pv_prefix_stride(p);
    s->weight = (double *)memory + pv_prefix_size(p) - 1;
    begin_epoch(s, p);
}

void pv_prefix_go_to(pv_prefix *s, int64_t epoch) {
    const pv_prefix_plan *p = s->plan;
    while (s->epoch < epoch) {
        const int64_t n = p->next == p ? epoch - s->epoch : 1; /* of the same length */
        s->epoch += n;
        s->first_row += n * p->horizon;
        s->first_step += n * p->steps;
        p = p->next;
    }
    begin_epoch(s, p);
}

/* All steps are made: what the epoch released last stays in the sum, and the next epoch begins from nothing. The row
 * is kept: it may be the one that is being added. */
static void renew(pv_prefix *s) {
    const int64_t d = pv_prefix_stride(s->plan);
    for (int64_t c = 0; c < d; ++c) s->base[c] += s->prefix[c];
    memset(s->x, 0, (size_t)(s->out - s->x) * sizeof(double));
    memset(s->out, 0, 2 * (size_t)d * sizeof(double));
    pv_prefix_go_to(s, s->epoch + 1);
    memset(s->base + d, 0, (public_vectors(s->plan) - 3) * (size_t)d * sizeof(double));
}

/* ---- the order of draws ------------------------------------------------------------------------------------------ */

/* The next larger word with the same number of ones: the lowest run of ones moves its top bit to the next place, and
 * the rest of the run to the bottom. */
static uint64_t next_word(uint64_t word) {
    const int low = lowest_bit(word);
    const uint64_t top = word + (UINT64_C(1) << low);
    return top | ((word ^ top) >> (low + 2));
}

/* Ones that move when this word becomes the next one: its lowest run of them. */
static int moved(uint64_t word) {
    const uint64_t run = word >> lowest_bit(word);
    return lowest_bit(run + 1);
}

static int draws_of(const pv_prefix_plan *p, int64_t step, uint64_t word_before) {
    if (p->design == PV_HONAKER) return lowest_bit((uint64_t)step) + 1;
    return p->design == PV_SMOOTH ? moved(word_before) : 1;
}

static uint64_t address(const pv_prefix_plan *p, int64_t first_step, int64_t step, int k) {
    const int node = p->design == PV_TREE ? lowest_bit((uint64_t)step) : k;
    return (uint64_t)(first_step + step) * PV_STEP_DRAWS + (uint64_t)node;
}

uint64_t pv_prefix_row(const pv_prefix *s) { return address(s->plan, s->first_step, s->step, s->drawn); }

int64_t pv_prefix_upcoming(const pv_prefix *s, int64_t capacity, uint64_t *rows) {
    const pv_prefix_plan *p = s->plan;
    int64_t n = 0, step = s->step, first_step = s->first_step;
    int k = s->drawn, all = s->drawn + s->due;
    uint64_t word = s->word;
    for (;;) {
        for (; k < all && n < capacity; ++k) rows[n++] = address(p, first_step, step, k);
        if (n == capacity) return n;
        if (step == p->steps) {
            if (!p->next) return n;
            first_step += step;
            step = 0;
            p = p->next;
            word = first_word(p);
        }
        ++step;
        k = 0;
        all = draws_of(p, step, word);
        if (p->design == PV_SMOOTH) word = next_word(word);
    }
}

/* The slot of the interval that ends where this step's first one begins; -1 at the beginning. */
static int parent(const pv_prefix *s, const pv_prefix_plan *p) {
    if (p->design == PV_SMOOTH) return p->order - (s->due + s->drawn) - 1;
    const uint64_t rest = (uint64_t)s->step & ((uint64_t)s->step - 1);
    return rest ? lowest_bit(rest) : -1;
}

/* ---- rows and leaves --------------------------------------------------------------------------------------------- */

/* out += sum of series_k v_k over n vectors, of which v_0 is the last in memory; four at a time, added one after the
 * other. */
static void add_products(const double *series, const double *end, int64_t n, int64_t d, double *restrict out) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        const double *r = series + k, *v = end - (k + 4) * d;
        const double a = r[0], b = r[1], e = r[2], f = r[3];
        for (int64_t c = 0; c < d; ++c)
            out[c] = (((out[c] + a * v[3 * d + c]) + b * v[2 * d + c]) + e * v[d + c]) + f * v[c];
    }
    for (; k < n; ++k) {
        const double r = series[k], *v = end - (k + 1) * d;
        for (int64_t c = 0; c < d; ++c) out[c] += r * v[c];
    }
}

/* out = sum of series_k v_{t-k} over the t vectors so far: first the share of those before this block, then the
 * others, the latest first. */
static void convolve(const pv_prefix_plan *p, const double *series, const double *past, const double *far, int64_t t,
                     double *restrict out) {
    const int64_t d = p->dim, place = p->block ? (t - 1) % p->block : t - 1, near = place + 1;
    if (near < t)
        memcpy(out, far + place * d, (size_t)d * sizeof(double));
    else
        memset(out, 0, (size_t)d * sizeof(double));
    add_products(series, past + t * d, near, d, out);
}

/* v_t = v += sum of series_k v_{t-k} over the at most `order` vectors before it, the latest first. The ring holds
 * these, v_t at (t - 1) mod order: `kept` replaces the oldest, which is read first; NULL: v_t itself does. */
static void reach_back(const pv_prefix_plan *p, const double *series, double *ring, int64_t t, const double *kept,
                       double *restrict v) {
    const int64_t d = p->dim, order = p->order;
    if (!order) return;
    const int64_t place = (t - 1) % order, older = t - 1 - place < order - place ? t - 1 - place : order - place;
    add_products(series + 1, ring + place * d, place, d, v);
    add_products(series + 1 + place, ring + order * d, older, d, v);
    memcpy(ring + place * d, kept ? kept : v, (size_t)d * sizeof(double));
}

static void begin_step(pv_prefix *s, const pv_prefix_plan *p) {
    const size_t size = (size_t)p->dim * sizeof(double);
    ++s->step;
    *s->weight = p->discount * *s->weight + (double)s->in_leaf;
    if (p->window && s->step > p->window) *s->weight -= (double)p->leaf;
    s->in_leaf = 0;
    s->drawn = 0;
    s->due = draws_of(p, s->step, s->word);
    if (p->design == PV_SMOOTH) s->word = next_word(s->word);
    if (p->design == PV_INDEPENDENT || p->design == PV_BANDED) memcpy(s->x, s->leaf, size);
    if (p->design == PV_BANDED) reach_back(p, p->coefficients, s->past, s->step, s->leaf, s->x);
    if (p->design == PV_BLT)
        s->vectors->mix(p->theta, p->omega, p->order, s->leaf, s->buffers, s->x, pv_prefix_stride(p));
    if (p->design == PV_SQRT) {
        memcpy(s->past + (s->step - 1) * p->dim, s->leaf, size);
        convolve(p, p->coefficients, s->past, s->far, s->step, s->x);
    }
}

int pv_prefix_in_doubles(const pv_prefix *s) { return !of_intervals(s->plan); }

int pv_prefix_at_leaf_end(const pv_prefix *s) {
    const pv_prefix_plan *p = s->plan;
    return s->in_leaf + 1 == p->leaf || (p->next && s->rows == p->horizon);
}

pv_status pv_prefix_begin_row(pv_prefix *s) {
    /* the column norm and the memory are for this many steps; a step begins only after all draws of the last one */
    if (s->due > 0 || (s->step >= s->plan->steps && !s->plan->next)) return PV_HORIZON;
    if (s->step >= s->plan->steps) renew(s);
    ++s->rows;
    return PV_OK;
}

void pv_prefix_end_row(pv_prefix *s) {
    const int ends = pv_prefix_at_leaf_end(s);
    ++s->in_leaf;
    if (ends) begin_step(s, s->plan);
}

pv_status pv_prefix_add(pv_prefix *s, const double *w) {
    const pv_status status = pv_prefix_begin_row(s);
    if (status != PV_OK) return status;
    const pv_prefix_plan *p = s->plan;
    const int64_t d = p->dim;
    if (of_intervals(p)) {
        int64_t *restrict total = s->total;
        const double points = 1.0 / p->grid;
        if (w)
            for (int64_t c = 0; c < d; ++c) total[c] += (int64_t)(w[c] * points); /* towards zero */
    } else if (s->in_leaf == 0) {
        if (w)
            memcpy(s->leaf, w, (size_t)d * sizeof(double));
        else
            memset(s->leaf, 0, (size_t)d * sizeof(double));
    } else if (w) {
        double *restrict leaf = s->leaf;
        for (int64_t c = 0; c < d; ++c) leaf[c] += w[c];
    }
    pv_prefix_end_row(s);
    return PV_OK;
}

void pv_prefix_end_leaf(pv_prefix *s) {
    if (s->in_leaf > 0 && s->due == 0) begin_step(s, s->plan);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */

/* The sum for the draw that is due, as whole + x, where whole is a multiple of h, in units of g. Another call gives
 * the same. */
static void split(pv_prefix *s, const pv_prefix_plan *p) {
    const int64_t d = p->dim, low = (INT64_C(1) << p->shift) - 1;
    const int last = s->due == 1;
    const int64_t *from = NULL;
    if (p->design == PV_SMOOTH ? s->drawn > 0 : 0) { /* an interval without rows: only noise */
        memset(s->x, 0, (size_t)d * sizeof(double));
        memset(s->whole, 0, (size_t)d * sizeof(int64_t));
        return;
    }
    const int slot = p->design == PV_HONAKER && !last ? s->drawn : parent(s, p);
    if (slot >= 0) from = s->snapshots + slot * d;
    const int64_t *restrict total = s->total;
    int64_t *restrict whole = s->whole;
    double *restrict x = s->x;
    for (int64_t c = 0; c < d; ++c) {
        const int64_t sum = from ? total[c] - from[c] : total[c], rest = sum & low;
        whole[c] = sum - rest;
        /* rest < 2^40 as a double: bits of 2^52 + rest */
        x[c] = (pv_from_bits((uint64_t)rest | UINT64_C(0x4330000000000000)) - 4503599627370496.0) * p->grid;
    }
}

/* nodes[slot] = nodes[before] + this node; with the step's last draw this is the prefix sum; snapshots[slot] is its
 * end. */
static void stack(pv_prefix *s, const pv_prefix_plan *p, int before, int slot) {
    const int64_t d = p->dim;
    const double points = 1.0 / p->grid;
    const int64_t *under = before < 0 ? NULL : s->nodes + before * d, *whole = s->whole, *total = s->total;
    int64_t *node = s->nodes + slot * d, *snapshot = s->snapshots + slot * d;
    for (int64_t c = 0; c < d; ++c) {
        const int64_t noisy = whole[c] + (int64_t)(s->out[c] * points);
        node[c] = under ? under[c] + noisy : noisy;
        snapshot[c] = total[c];
    }
    if (s->due > 1) return;
    for (int64_t c = 0; c < d; ++c) s->prefix[c] = (double)node[c] * p->grid;
}

/* Honaker's estimate of the interval that ends here, bottom-up: from its own noisy sum and those of its halves. */
static void estimate(pv_prefix *s, const pv_prefix_plan *p) {
    const int64_t d = p->dim;
    const int height = s->drawn;
    const double points = 1.0 / p->grid, leaves = (double)(INT64_C(1) << height), own = leaves / (2.0 * leaves - 1.0);
    const double *left = height ? s->estimates + (height - 1) * d : NULL;
    double *restrict e = s->estimate;
    for (int64_t c = 0; c < d; ++c) {
        const double noisy = (double)(s->whole[c] + (int64_t)(s->out[c] * points)) * p->grid;
        e[c] = left ? own * noisy + (1.0 - own) * (left[c] + e[c]) : noisy;
    }
    if (s->due > 1) return;
    const int before = parent(s, p);
    const double *under = before < 0 ? NULL : s->sums + before * d;
    double *sum = s->sums + height * d;
    for (int64_t c = 0; c < d; ++c) s->prefix[c] = sum[c] = under ? under[c] + e[c] : e[c];
    memcpy(s->estimates + height * d, e, (size_t)d * sizeof(double));
    memcpy(s->snapshots + height * d, s->total, (size_t)d * sizeof(int64_t));
}

/* The increment in s->out, which is in the sum, enters the window, and the one that it replaces leaves the sum. Once
 * per pass through the window the sum is recomputed from its increments, so rounding does not accumulate. */
static void slide(pv_prefix *s, const pv_prefix_plan *p) {
    const int64_t d = pv_prefix_stride(p), place = (s->step - 1) % p->window;
    double *restrict oldest = s->ring + place * d, *restrict prefix = s->prefix;
    const double *restrict increment = s->out;
    for (int64_t c = 0; c < d; ++c) {
        prefix[c] -= oldest[c];
        oldest[c] = increment[c];
    }
    if (place != p->window - 1) return;
    memset(prefix, 0, (size_t)d * sizeof(double));
    for (int64_t k = 0; k < p->window; ++k) {
        const double *restrict v = s->ring + k * d;
        for (int64_t c = 0; c < d; ++c) prefix[c] += v[c];
    }
}

/* Whether the sum and the point that it makes come from one pass over the released vector. */
static int in_one_pass(const pv_prefix_plan *p) {
    return p->design == PV_BLT && p->order == 4 && p->discount == 1.0 && !p->window;
}

/* The draw in s->out becomes part of the public state. */
static void absorb(pv_prefix *s, const pv_prefix_plan *p) {
    const int64_t d = pv_prefix_stride(p);
    if (p->discount < 1.0 && p->design != PV_SQRT)
        for (int64_t c = 0; c < d; ++c) s->prefix[c] *= p->discount;
    switch (p->design) {
    case PV_TREE: stack(s, p, parent(s, p), lowest_bit((uint64_t)s->step)); break;
    case PV_SMOOTH: {
        const int slot = parent(s, p) + 1 + s->drawn;
        stack(s, p, slot - 1, slot);
        break;
    }
    case PV_HONAKER: estimate(s, p); break;
    case PV_SQRT:
        memcpy(s->noisy_past + (s->step - 1) * d, s->out, (size_t)d * sizeof(double));
        convolve(p, p->decoder, s->noisy_past, s->noisy_far, s->step, s->prefix);
        break;
    case PV_BLT: s->vectors->unmix(p->theta, p->omega, p->order, s->out, s->noisy_buffers, s->prefix, d); break;
    default:
        if (p->design == PV_BANDED) reach_back(p, p->decoder, s->noisy_past, s->step, NULL, s->out);
        for (int64_t c = 0; c < d; ++c) s->prefix[c] += s->out[c];
    }
    if (p->window && p->design != PV_SQRT) slide(s, p);
}

static pv_status settle(pv_prefix *s, pv_draws *draws, const pv_affine *to, double *x, double *square) {
    const pv_prefix_plan *p = s->plan;
    const int64_t stride = pv_prefix_stride(p);
    const int joined = to && s->due > 0 && in_one_pass(p);
    if (draws) s->vectors = pv_vectors_at(pv_draws_level(draws));
    while (s->due > 0) {
        if (of_intervals(p)) split(s, p);
        if (p->noisy) {
            pv_status status = pv_draws_round(draws, pv_prefix_row(s), p->std, s->x, 1.0, p->dim, p->magnitude, s->out);
            if (status != PV_OK) return status;
        } else {
            memcpy(s->out, s->x, (size_t)stride * sizeof(double));
        }
        if (joined)
            *square = s->vectors->unmix_follow(p->theta, p->omega, s->out, s->noisy_buffers, s->prefix, to, x, stride);
        else
            absorb(s, p);
        ++s->drawn;
        if (--s->due == 0) s->made = s->step;
    }
    const int block_ends = p->design == PV_SQRT && p->block && s->made % p->block == 0 && s->made < p->steps;
    if (block_ends && s->far_step != s->made) return PV_NEED_FAR;
    if (to && !joined) {
        s->vectors->follow(to, s->prefix, x, stride);
        *square = s->vectors->sqnorm(x, stride);
    }
    return PV_OK;
}

pv_status pv_prefix_settle(pv_prefix *s, pv_draws *draws) { return settle(s, draws, NULL, NULL, NULL); }

pv_status pv_prefix_follow(pv_prefix *s, pv_draws *draws, const pv_affine *to, double *x, double *square) {
    return settle(s, draws, to, x, square);
}

void pv_prefix_read(const pv_prefix *s, double *out) {
    for (int64_t c = 0; c < s->plan->dim; ++c) out[c] = s->base[c] + s->prefix[c];
}

/* ---- blocks of rows ---------------------------------------------------------------------------------------------- */

void pv_prefix_svec(const double *v, int64_t width, double *out) {
    static const double root = 1.4142135623730951;
    for (int64_t i = 0; i < width; ++i) {
        const double a = root * v[i];
        *out++ = v[i] * v[i];
        for (int64_t j = i + 1; j < width; ++j) *out++ = a * v[j];
    }
}

static pv_status learn(pv_prefix *s, const pv_rows *rows, int64_t i) {
    const pv_prefix_plan *p = s->plan;
    /* the norm for scaling the row is computed here, not before: whatever is learnt is within its bound */
    const double norm = pv_rows_norm(rows, i);
    if (norm < 0.0) {
        ++s->n_null;
        return pv_prefix_add(s, NULL);
    }
    const int beyond = norm > p->bound * p->bound;
    const double f = beyond ? p->bound / sqrt(norm) : 1.0;
    double *w = s->row;
    s->n_clipped += beyond;
    memset(w, 0, (size_t)p->width * sizeof(double));
    rows->ops->axpy(rows, i, f, w);
    if (p->gram) {
        w += p->width;
        pv_prefix_svec(s->row, p->width, w);
    }
    return pv_prefix_add(s, w);
}

pv_status pv_prefix_run(pv_prefix *s, const pv_rows *given, int64_t *i, int64_t *written, pv_draws *draws,
                        double *out) {
    pv_rows rows = *given;
    pv_rows_use(&rows, pv_draws_level(draws));
    for (;;) {
        pv_status status = pv_prefix_settle(s, draws); /* of the row before, perhaps of an earlier call */
        if (status != PV_OK) return status;
        if (*written < *i) {
            if (out) pv_prefix_read(s, out + *written * s->plan->dim);
            ++*written;
        }
        if (*i >= rows.n) return PV_OK;
        if (s->rows >= s->plan->horizon && !s->plan->next) return PV_HORIZON;
        status = learn(s, &rows, *i);
        if (status != PV_OK) return status;
        ++*i;
    }
}
