/* Reports from buffers of words, in the form that the callers of the kernels keep them: words are a fixed function
 * of their address, and the nearest grid point settles what a word leaves undecided. */
#ifndef REPORTS_H
#define REPORTS_H

#include "check.h"
#include "noise/pv_bits.h"
#include "reports/pv_report.h"

/* Far tails, outside the table of quantiles, occur only for Gaussian reports: other reports leave more than
 * coordinates undecided there. */
static inline void fill_words(const pv_report *plan, unsigned char *words, const unsigned char *addresses,
                              int64_t count) {
    for (int64_t w = 0; w < count; ++w) {
        const unsigned char *pair = addresses + 16 * (w / 2);
        uint64_t word = mix(pv_word(pair) * 31 + mix(pv_word(pair + 8)) + (uint64_t)(w % 2));
        if (plan->kind == PV_REPORT_GAUSSIAN && word % 61 == 0) word >>= 40;
        for (int b = 0; b < 8; ++b) words[8 * w + b] = (unsigned char)(word >> (8 * b));
    }
}

static inline double gaussian_of(uint64_t word) {
    const double z = pv_lattice_value(PV_GAUSSIAN, word).z;
    return isinf(z) ? 7.0 : z;
}

typedef struct buffers {
    pv_draws draws;
    pv_undecided open;
    unsigned char *addresses;
    int64_t refills, settled;
} buffers;

static inline void open_buffers(buffers *b, const pv_report *plan, int64_t capacity, int level) {
    const int64_t size = pv_row_words(plan->words), room = plan->words > plan->d ? plan->words : plan->d;
    *b = (buffers){.open = {.capacity = room,
                            .coord = buffer(room, 8),
                            .word = buffer(room, 8),
                            .x = doubles(room),
                            .value = doubles(room)},
                   .addresses = buffer(capacity * size, 8)};
    b->draws = (pv_draws){.words = buffer(capacity * size, 8),
                          .rows = buffer(capacity, 8),
                          .capacity = capacity,
                          .undecided = &b->open,
                          .pass = pv_first_pass_level(level)};
}

static inline void close_buffers(buffers *b) {
    free(b->draws.words), free(b->draws.rows), free(b->addresses);
    free(b->open.coord), free(b->open.word), free(b->open.x), free(b->open.value);
}

/* Answer the request of a row's report. */
static inline void serve(buffers *b, const pv_report *plan, pv_status status, uint64_t row, uint64_t last_row) {
    const int64_t size = pv_row_words(plan->words);
    if (status == PV_UNDECIDED) {
        CHECK(plan->kind == PV_REPORT_GAUSSIAN && (b->draws.rows[b->draws.used] & PV_REPORT_ROW_MASK) == row);
        for (int64_t c = 0; c < b->open.n; ++c)
            b->open.value[c] =
                nearbyint((b->open.x[c] + plan->scale * gaussian_of(b->open.word[c])) / pv_lattice_step(plan->scale));
        b->open.resolved = b->open.n;
        b->settled += b->open.n;
        return;
    }
    CHECK(status == PV_NEED_BITS);
    const int64_t n =
        pv_report_upcoming(plan, pv_report_next(&b->draws, row), last_row, b->draws.capacity, b->draws.rows);
    CHECK(n >= 1 && n <= b->draws.capacity && (b->draws.rows[0] & PV_REPORT_ROW_MASK) == row);
    for (int64_t k = 0; k < n; ++k) pv_address_row(b->addresses + k * size * 8, 9, b->draws.rows[k], plan->words);
    fill_words(plan, b->draws.words, b->addresses, n * size);
    b->draws.filled = n;
    b->draws.used = 0;
    ++b->refills;
}

/* The report that a device makes of v as row `row`. */
static inline void report_of(const pv_report *plan, uint64_t row, const double *v, double *out) {
    buffers b;
    open_buffers(&b, plan, 4, 0);
    pv_status status;
    while ((status = pv_report_draw(plan, &b.draws, row, v, out)) != PV_OK) serve(&b, plan, status, row, row);
    close_buffers(&b);
}

/* A report's plan, with some threshold and cap. */
static inline pv_report report_plan(pv_report_kind kind, int64_t d, double bound, double scale) {
    pv_report plan = {
        .kind = kind, .d = d, .bound = bound, .scale = scale, .words = pv_report_words(kind, d), .trials = 1};
    plan.step = pv_lattice_step(scale / sqrt((double)d));
    if (kind == PV_REPORT_CAP) plan.gamma = 0.5 / sqrt((double)d), plan.threshold = UINT64_MAX / 5 * 4, plan.trials = 3;
    if (kind == PV_REPORT_SIGN) plan.threshold = UINT64_C(1) << 62;
    return plan;
}

#endif
