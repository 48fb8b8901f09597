#include "reports/pv_report.h"

#include <math.h>

#include "noise/pv_bits.h"
#include "base/pv_math.h"
#include "noise/pv_mixture.h"

#define LEAST_SQUARE 1e-280 /* least square of a vector whose direction counts */

int64_t pv_report_words(pv_report_kind kind, int64_t d) {
    switch (kind) {
    case PV_REPORT_PLAIN: return 0;
    case PV_REPORT_L2_LAPLACE: return pv_mixture_words(PV_L2_LAPLACE, d);
    case PV_REPORT_CAP: return d + 1; /* the coin is the last */
    case PV_REPORT_SIGN: return 1;
    default: return d;
    }
}

uint64_t pv_report_next(const pv_draws *draws, uint64_t row) {
    if (draws->used > 0 && draws->used <= draws->filled && (draws->rows[draws->used - 1] & PV_REPORT_ROW_MASK) == row)
        return draws->rows[draws->used - 1] + (UINT64_C(1) << PV_REPORT_ROW_BITS);
    return row;
}

int64_t pv_report_upcoming(const pv_report *plan, uint64_t first, uint64_t last_row, int64_t capacity, uint64_t *rows) {
    uint64_t trial = first >> PV_REPORT_ROW_BITS;
    int64_t n = 0;
    if (plan->kind == PV_REPORT_PLAIN) return 0;
    for (uint64_t row = first & PV_REPORT_ROW_MASK; row <= last_row && n < capacity; ++row, trial = 0)
        for (int64_t k = 0; k < plan->trials && n < capacity && trial < PV_REPORT_TRIALS; ++k, ++trial)
            rows[n++] = row | trial << PV_REPORT_ROW_BITS;
    return n;
}

static inline size_t row_bytes(const pv_report *plan) { return (size_t)pv_row_words(plan->words) * 8; }

static inline unsigned char *next_words(const pv_report *plan, pv_draws *draws) {
    return draws->words + (size_t)draws->used * row_bytes(plan);
}

/* The words of the next address row are used: wipe them and their copies. */
static void pass(const pv_report *plan, pv_draws *draws) {
    pv_undecided *und = draws->undecided;
    pv_wipe(next_words(plan, draws), row_bytes(plan));
    if (und->n > 0) {
        pv_wipe(und->word, (size_t)und->n * sizeof(uint64_t));
        pv_wipe(und->x, (size_t)und->n * sizeof(double));
        und->n = 0;
    }
    und->resolved = 0;
    ++draws->used;
}

/* The status of the rounding; the words are passed over when it is done. */
static pv_status settle(const pv_report *plan, pv_draws *draws, pv_status status) {
    if (status == PV_OK) pass(plan, draws);
    return status;
}

static inline pv_lattice lattice_of(const pv_report *plan, const pv_draws *draws, pv_law law) {
    return (pv_lattice){law, plan->scale, 0.0, plan->step, draws->pass};
}

pv_report_coins pv_report_coins_of(const pv_report *plan, const double *v) {
    double square = 0.0, r = 0.0;
    for (int64_t j = 0; j < plan->d; ++j) square += v[j] * v[j];
    if (!(square > LEAST_SQUARE && square < HUGE_VAL)) square = 0.0; /* NaN too */
    const double norm = sqrt(square);
    r = norm < plan->bound ? norm / plan->bound : 1.0;
    uint64_t own = (uint64_t)((0.5 * (1.0 - r)) * (double)plan->threshold);
    if (own > plan->threshold / 2) own = plan->threshold / 2; /* the product may have been rounded up */
    return (pv_report_coins){own, plan->threshold - own, norm};
}

typedef enum side { INSIDE, OUTSIDE, OPEN } side;

/* Whether <Z, u> >= gamma |Z| |u| for the ideal Z, or |<Z, u>| where both caps count; norm: that of u.
 *
 * By the inequalities of Cauchy and of the triangle, both sides move by at most |Z - z| |u| <= wrong |u|, gamma being
 * below 1. Sums of d products round by at most (d + 1) 2^-53 of |z| |u|, in any order; norms by half of that and little
 * more. Twice the latter is allowed. */
static inline side decided(const pv_report *plan, double product, double square, double wrong, double norm, int both) {
    const double length = sqrt(square), relative = ((double)plan->d + 16.0) * 0x1p-52;
    const double error = 2.0 * norm * (wrong * (1.0 + 0x1p-20) + length * relative);
    const double excess = (both ? fabs(product) : product) - plan->gamma * length * norm;
    if (excess > error) return INSIDE;
    if (excess < -error) return OUTSIDE;
    return OPEN; /* or NaN, if a word is too deep in the tail */
}

/* In single precision, as wide as the processor's vectors: it decides all but one trial in 10^5. */
static side quick_side(const pv_report *plan, const double *v, double norm, int both, const unsigned char *words,
                       const pv_first_pass *pass) {
    const pv_first_pass_bound *bound = &pass->bounds[PV_GAUSSIAN];
    double product[4] = {0.0, 0.0, 0.0, 0.0}, square[4] = {0.0, 0.0, 0.0, 0.0};
    for (int64_t start = 0; start < plan->d; start += PV_FIRST_PASS_CHUNK, words += 8 * PV_FIRST_PASS_CHUNK) {
        const int64_t n = plan->d - start < PV_FIRST_PASS_CHUNK ? plan->d - start : PV_FIRST_PASS_CHUNK;
        uint32_t top[PV_FIRST_PASS_CHUNK] = {0};
        float z[PV_FIRST_PASS_CHUNK];
        double u[PV_FIRST_PASS_CHUNK] = {0.0}, x[PV_FIRST_PASS_CHUNK];
        for (int64_t j = 0; j < n; ++j) {
            top[j] = (uint32_t)(pv_word(words + 8 * j) >> 32);
            u[j] = v[start + j];
        }
        const int64_t padded = (n + PV_FIRST_PASS_PAD - 1) / PV_FIRST_PASS_PAD * PV_FIRST_PASS_PAD;
        pass->quantile(PV_GAUSSIAN, top, z, padded);
        for (int64_t j = 0; j < padded; ++j) x[j] = top[j] >> 31 ? -(double)z[j] : (double)z[j];
        for (int64_t j = 0; j < n; ++j) {
            if (z[j] <= bound->most) continue;
            const pv_value found = pv_lattice_value(PV_GAUSSIAN, pv_word(words + 8 * j));
            if (!(found.error < 1e-7)) return OPEN; /* within the bound for the others */
            x[j] = found.z;
        }
        for (int64_t j = n; j < padded; ++j) x[j] = 0.0;
        for (int64_t j = 0; j < padded; j += 4) {
            for (int k = 0; k < 4; ++k) {
                product[k] += x[j + k] * u[j + k];
                square[k] += x[j + k] * x[j + k];
            }
        }
    }
    const double all = (square[0] + square[1]) + (square[2] + square[3]);
    const double wrong = (double)bound->error * sqrt(all) + (double)bound->floor * sqrt((double)plan->d);
    return decided(plan, (product[0] + product[1]) + (product[2] + product[3]), all, wrong, norm, both);
}

static side side_of(const pv_report *plan, const double *v, double norm, int both, const unsigned char *words) {
    const int64_t d = plan->d;
    double product = 0.0, square = 0.0, wrong = 0.0;
    for (int64_t j = 0; j < d; ++j) {
        const pv_value found = pv_lattice_value(PV_GAUSSIAN, pv_word(words + 8 * j));
        product += found.z * (norm > 0.0 ? v[j] : (double)(j == 0));
        square += found.z * found.z;
        wrong += found.error * found.error;
    }
    return decided(plan, product, square, sqrt(wrong), norm > 0.0 ? norm : 1.0, both);
}

/* Trials are uniform on the sphere and independent of v. One outside both caps is rejected with probability
 * threshold / 2^64, in each cap with less, in both together with the same total. So the distribution of accepted
 * trials differs between any two v by a factor of at most 1 / (1 - threshold / 2^64), and that of the number of
 * trials not at all. */
static pv_status cap(const pv_report *plan, pv_draws *draws, uint64_t row, const double *v, double *out) {
    const pv_report_coins coins = pv_report_coins_of(plan, v);
    pv_undecided *und = draws->undecided;
    while (draws->used < draws->filled && (draws->rows[draws->used] & PV_REPORT_ROW_MASK) < row) pass(plan, draws);
    for (; draws->used < draws->filled && (draws->rows[draws->used] & PV_REPORT_ROW_MASK) == row; pass(plan, draws)) {
        const unsigned char *words = next_words(plan, draws);
        const uint64_t coin = pv_word(words + 8 * plan->d);
        if (coin < coins.own) continue;
        if (coin < plan->threshold) {
            const int both = coin >= coins.other;
            side found = OPEN;
            if (coins.norm > 0.0 && draws->pass) found = quick_side(plan, v, coins.norm, both, words, draws->pass);
            if (found == OPEN) found = side_of(plan, v, coins.norm, both, words);
            if (found == OUTSIDE) continue;
            if (found == OPEN) {
                for (int64_t j = 0; j < plan->d; ++j) und->x[j] = coins.norm > 0.0 ? v[j] : (double)(j == 0);
                und->n = und->resolved = 0;
                if (und->most < plan->d) und->most = plan->d;
                return PV_UNDECIDED;
            }
        }
        const pv_lattice lattice = lattice_of(plan, draws, PV_GAUSSIAN);
        pv_value factor;
        return settle(plan, draws, pv_mixture_round(PV_SPHERE, &lattice, NULL, plan->d, 0.0, words, out, und, &factor));
    }
    return PV_NEED_BITS;
}

/* P(+) = 1/2 + v / (2 scale), from words below 2^63 + threshold v / bound: within threshold of 2^63 for every v. */
static pv_status sign(const pv_report *plan, pv_draws *draws, double v, double *out) {
    const uint64_t half = UINT64_C(1) << 63, word = pv_word(next_words(plan, draws));
    const double r = fabs(v) < plan->bound ? fabs(v) / plan->bound : (double)(v == v);
    uint64_t shift = (uint64_t)(r * (double)plan->threshold);
    if (shift > plan->threshold) shift = plan->threshold; /* the product may have been rounded up */
    *out = word < (v < 0.0 ? half - shift : half + shift) ? plan->scale : -plan->scale;
    return PV_OK;
}

pv_status pv_report_draw(const pv_report *plan, pv_draws *draws, uint64_t row, const double *v, double *out) {
    pv_value factor;
    pv_lattice lattice;
    if (plan->kind == PV_REPORT_PLAIN) {
        for (int64_t j = 0; j < plan->d; ++j) out[j] = v[j];
        return PV_OK;
    }
    if (!(plan->scale > 1e-290 && plan->scale < 1e290)) return PV_NOT_FINITE; /* never a report without its noise */
    if (plan->kind == PV_REPORT_CAP) return cap(plan, draws, row, v, out);
    if (plan->kind == PV_REPORT_GAUSSIAN)
        return pv_draws_round(draws, row, plan->scale, v, 1.0, plan->d, plan->bound, out);
    if (draws->used >= draws->filled || draws->rows[draws->used] != row) return PV_NEED_BITS;
    switch (plan->kind) {
    case PV_REPORT_LAPLACE:
        lattice = lattice_of(plan, draws, PV_LAPLACE);
        return settle(
            plan, draws,
            pv_lattice_round(&lattice, v, 1.0, plan->d, plan->bound, next_words(plan, draws), out, draws->undecided));
    case PV_REPORT_L2_LAPLACE:
        lattice = lattice_of(plan, draws, PV_GAUSSIAN);
        return settle(plan, draws,
                      pv_mixture_round(PV_L2_LAPLACE, &lattice, v, plan->d, plan->bound, next_words(plan, draws), out,
                                       draws->undecided, &factor));
    default: return settle(plan, draws, sign(plan, draws, *v, out));
    }
}

/* Sum of squares of x times a power of two. */
static double square_of(int64_t d, const double *x, double f) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t j = 0;
    for (; j + 4 <= d; j += 4)
        for (int k = 0; k < 4; ++k) sum[k] += (x[j + k] * f) * (x[j + k] * f);
    for (; j < d; ++j) sum[0] += (x[j] * f) * (x[j] * f);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The square rounds by at most (d + 2) 2^-53 of it, its root by half of that and once more; factor and products round
 * once each. */
void pv_report_clip(double bound, int64_t d, const double *x, double *v) {
    double f = 1.0, square = square_of(d, x, 1.0);
    if (!(square < 1e300 && (square > 1e-280 || square == 0.0))) { /* beyond the range, or not finite */
        double most = 0.0;
        int finite = 1;
        for (int64_t j = 0; j < d; ++j) {
            finite &= fabs(x[j]) < HUGE_VAL;
            most = fabs(x[j]) > most ? fabs(x[j]) : most;
        }
        if (!finite) {
            for (int64_t j = 0; j < d; ++j) v[j] = 0.0;
            return;
        }
        f = most > 1.0 ? 0x1p-600 : 0x1p600;
        square = square_of(d, x, f);
    }
    const double limit = bound * f;
    double s = square > limit * limit ? limit / sqrt(square) : 1.0;
    if (s < 1e-290) s = 0.0; /* a subnormal factor would round by more */
    for (int64_t j = 0; j < d; ++j) v[j] = x[j] * s;
}
