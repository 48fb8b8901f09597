/* The stream loop: its iterates against a loop without scaling tricks, its releases and counters, its stops. */
#include "check.h"
#include "noise/pv_bits.h"
#include "runs/pv_iterate.h"

enum { N = 400 };

typedef struct task {
    pv_iterate_plan plan;
    pv_rows rows;
    double *x, *y, *norms;
    int64_t *releases;
} task;

typedef struct result {
    double *iterate, *released, *sum;
    pv_iterate it;
    double *scores, *losses; /* of the released model on every row before it was learnt, or on the rows `ahead` */
    int64_t refills, undecided;
} result;

static THREAD double low[64], high[64];
static THREAD int level; /* of the kernels that run() calls: the fastest, but each in turn in one() */

static task make(int64_t d, int intercept, int code, int set, int kind) {
    task k = {0};
    const int64_t features = d - intercept;
    k.x = random_doubles(N * features, 2.0 / sqrt((double)d));
    k.y = doubles(N);
    k.norms = doubles(N);
    k.rows = (pv_rows){.n = N, .d = features, .data = (const char *)k.x, .row_stride = 8 * features, .col_stride = 8};
    pv_rows_bind(&k.rows);
    pv_iterate_plan *p = &k.plan;
    p->run.signs = code <= PV_SMOOTH_HINGE;
    p->run.y_bound = 0.9;
    p->run.noisy = 1;
    for (int64_t i = 0; i < N; ++i) {
        k.y[i] = 1.5 * random_unit(); /* sometimes beyond its bound; for a class only the sign counts */
        if (i % 37 != 5) continue;
        if (i % 2 && features > 0)
            k.x[i * features + i % features] = i % 3 ? (double)NAN : HUGE_VAL;
        else
            k.y[i] = (double)NAN;
    }
    CHECK(pv_rows_norms(&k.rows, k.norms) == (features > 0 ? 5 : N));
    for (int64_t i = 0; i < N; ++i)
        if (isnan(k.y[i])) k.norms[i] = -1.0;
    pv_loss_bind(&p->run.loss, code, 0.5);
    p->run.set = (pv_set){.code = set, .size = 0.8, .low = low, .high = high};
    p->schedule = (pv_schedule){.kind = kind,
                                .a0 = kind == PV_PUBLISHED_GRADIENT ? 0.0 : 3.0,
                                .l2 = 0.4,
                                .first = 1,
                                .diameter = 2.0,
                                .cap = 1.6,
                                .shape = PV_SHAPE_LIPSCHITZ,
                                .gain = 0.5};
    if (kind == PV_PUBLISHED_GRADIENT) p->schedule.first = 2;
    p->update = kind == PV_PUBLISHED_GRADIENT ? pv_update_gradient : pv_update_implicit;
    p->constrained = set == PV_L2_BALL;
    p->run.d = d;
    p->run.intercept = intercept;
    p->run.x_bound = 1.0;
    p->run.horizon = p->run.last_row = N;
    p->refresh = 64;
    p->run.magnitude = 1.0;
    p->run.stream = 3;
    p->run.method = &pv_iterate_method;
    return k;
}

static void drop_task(task *k) { free(k->x), free(k->y), free(k->norms), free(k->releases); }

static void drop(result *r) {
    free(r->iterate), free(r->released), free(r->sum);
    free(r->scores), free(r->losses);
}

/* The words of one or more releases from their addresses, with a share of the far tail outside the table. */
static void fill(unsigned char *words, const unsigned char *addresses, int64_t count) {
    for (int64_t w = 0; w < count; ++w) {
        const unsigned char *pair = addresses + 16 * (w / 2);
        uint64_t word = mix(pv_word(pair) * 31 + mix(pv_word(pair + 8)) + (uint64_t)(w % 2));
        if (word % 251 == 0) word >>= 40;
        for (int b = 0; b < 8; ++b) words[8 * w + b] = (unsigned char)(word >> (8 * b));
    }
}

static double noise_of(uint64_t word) {
    double z = pv_lattice_value(PV_GAUSSIAN, word).z;
    return isinf(z) ? 7.0 : z;
}

/* The release after row it->run.t is the iterate plus the noise addressed by that row, on the grid, projected. */
static void check_release(const pv_iterate *it, const pv_iterate_plan *p) {
    const int64_t d = p->run.d, n = pv_row_words(d);
    const double std = pv_schedule_std(&p->schedule, it->run.t), h = std > 0 ? pv_lattice_step(std) : 0.0;
    unsigned char *addresses = buffer(n, 8), *words = buffer(n, 8);
    double *expected = doubles(d), *work = doubles(2 * d);
    pv_address_row(addresses, p->run.stream, (uint64_t)it->run.t, d);
    fill(words, addresses, n);
    pv_iterate_read(it, d, expected);
    if (std > 0)
        for (int64_t j = 0; j < d; ++j)
            expected[j] = h * nearbyint((expected[j] + std * noise_of(pv_word(words + 8 * j))) / h);
    pv_project(&p->run.set, expected, d, work);
    long double off = 0;
    for (int64_t j = 0; j < d; ++j) off = fmaxl(off, fabsl((long double)expected[j] - it->run.released[j]));
    CHECK(off <= 1e-4L * h); /* equal, up to the last bit of the projection */
    free(addresses), free(words), free(expected), free(work);
}

/* The released model's score and loss on row t, using nothing of the kernel except its tables. */
static void check_score(const pv_iterate *it, const task *k, int64_t t, double score, double loss) {
    const pv_iterate_plan *p = &k->plan;
    const int64_t d = p->run.d, features = d - p->run.intercept;
    if (k->norms[t] < 0.0) {
        CHECK(isnan(score) && isnan(loss));
        return;
    }
    long double sum = p->run.intercept ? (long double)it->run.released[d - 1] : 0.0L, size = fabsl(sum);
    for (int64_t j = 0; j < features; ++j) {
        long double term = (long double)it->run.released[j] * k->x[t * features + j];
        if (k->norms[t] > 1.0) term /= sqrtl((long double)k->norms[t]);
        sum += term;
        size += fabsl(term);
    }
    CHECK(fabsl(score - sum) <= 1e-14L * size);
    const double y = p->run.signs ? (k->y[t] > 0.0 ? 1.0 : -1.0) : fmin(fmax(k->y[t], -p->run.y_bound), p->run.y_bound);
    CHECK(bits_of(loss) == bits_of(p->run.loss.value(&p->run.loss, score, y)));
}

/* Run in blocks of `block` rows with room for `capacity` releases' words, as the callers of the kernel do. Words are
 * a fixed function of their address; undecided coordinates are resolved by the nearest lattice point. Row t + ahead
 * is evaluated before row t is learnt (the null row after the last rows), or none if ahead is negative. */
static result run(const task *k, int64_t block, int64_t capacity, int64_t ahead) {
    const pv_iterate_plan *p = &k->plan;
    const int64_t d = p->run.d, row_words = pv_row_words(d);
    result r = {
        .released = doubles(d), .sum = doubles(d), .iterate = doubles(d), .scores = doubles(N), .losses = doubles(N)};
    double *u = doubles(d), *work = doubles(3 * d), *total = doubles(d);
    for (int64_t j = 0; j < d; ++j)
        u[j] = r.released[j] = p->run.set.code == PV_SIMPLEX ? p->run.set.size / (double)d : 0.0;
    for (int64_t j = 0; j < d; ++j) total[j] = r.sum[j] = 0.0;
    pv_iterate it = {
        .run = {.work = work, .released = r.released, .released_sum = r.sum}, .u = u, .s = 1.0, .nn = pv_sqnorm(u, d)};
    it.run.next_release = pv_next_release(&p->run, 0, &it.run.list_position);
    unsigned char *addresses = buffer(capacity * row_words, 8), *words = buffer(capacity * row_words, 8);
    pv_undecided und = {
        .capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d), .value = doubles(d)};
    pv_draws draws = {.words = words,
                      .rows = buffer(capacity, 8),
                      .capacity = capacity,
                      .undecided = &und,
                      .pass = pv_first_pass_level(level)};
    for (int64_t start = 0; start < N; start += block) {
        pv_rows rows = k->rows;
        rows.n = block < N - start ? block : N - start;
        rows.data += start * rows.row_stride;
        int64_t i = 0, before = it.run.n_released;
        pv_rows later = rows;
        double *targets = doubles(rows.n);
        for (int64_t n = 0; n < rows.n; ++n) {
            int64_t t = start + n + ahead;
            targets[n] = t < N && ahead >= 0 ? k->y[t] : (double)NAN;
        }
        /* there is no row after the last: its target says that it is null before anything is read */
        later.data += ahead * rows.row_stride;
        pv_progress progress = {.scores = r.scores + start, .losses = r.losses + start};
        if (ahead > 0) progress.rows = &later, progress.y = targets;
        for (;;) {
            const int64_t done = i;
            if (block == 1 && ahead >= 0 && !it.run.pending) {
                pv_rows one_row = ahead ? later : rows;
                pv_progress alone = {
                    .rows = &one_row, .y = targets, .scores = &r.scores[start], .losses = &r.losses[start]};
                pv_evaluate(&it.run, &p->run, &alone);
                if (start + ahead < N)
                    check_score(&it, k, start + ahead, r.scores[start], r.losses[start]);
                else
                    CHECK(isnan(r.scores[start]) && isnan(r.losses[start]));
            }
            const double score = r.scores[start], loss = r.losses[start];
            pv_status status = pv_run(&it.run, &p->run, &rows, k->y + start, &i, &draws, ahead >= 0 ? &progress : NULL);
            if (block == 1 && ahead >= 0 && i == done) /* nothing was learnt, so nothing is evaluated again */
                CHECK(bits_of(score) == bits_of(r.scores[start]) && bits_of(loss) == bits_of(r.losses[start]));
            if (block == 1 && ahead >= 0 && i > done)
                CHECK((isnan(score) && isnan(r.scores[start])) ||
                      (bits_of(score) == bits_of(r.scores[start]) && bits_of(loss) == bits_of(r.losses[start])));
            if (status == PV_OK) break;
            if (status == PV_NEED_BITS) {
                CHECK(it.run.pending && it.run.t == it.run.next_release);
                int64_t n = pv_upcoming_releases(&it.run, &p->run, capacity, draws.rows);
                CHECK(n >= 1 && n <= capacity);
                for (int64_t m = 0; m < n; ++m)
                    pv_address_row(addresses + m * row_words * 8, p->run.stream, draws.rows[m], d);
                fill(words, addresses, n * row_words);
                draws.filled = n;
                draws.used = 0;
                ++r.refills;
            } else {
                CHECK(status == PV_UNDECIDED);
                const double std = pv_schedule_std(&p->schedule, it.run.t), h = pv_lattice_step(std);
                pv_undecided *open = draws.undecided;
                for (int64_t c = 0; c < open->n; ++c)
                    open->value[c] = nearbyint((open->x[c] + std * noise_of(open->word[c])) / h);
                open->resolved = open->n;
                r.undecided += open->n;
            }
        }
        free(targets);
        CHECK(i == rows.n && !it.run.pending);
        if (block == 1 && it.run.n_released > before) {
            CHECK(it.run.n_released == before + 1);
            check_release(&it, p);
            for (int64_t j = 0; j < d; ++j) total[j] += r.released[j];
        }
    }
    CHECK(block > 1 || memcmp(total, r.sum, (size_t)d * sizeof(double)) == 0);
    CHECK(p->schedule.gain == 0 || r.refills == (it.run.n_released + capacity - 1) / capacity);
    int64_t i = 0;
    if (p->run.horizon == N)
        CHECK(pv_run(&it.run, &p->run, &k->rows, k->y, &i, &draws, NULL) == PV_HORIZON && i == 0 && it.run.t == N);
    pv_iterate_read(&it, d, r.iterate);
    r.it = it;
    free(u), free(work), free(total), free(addresses), free(words), free(draws.rows);
    free(und.coord), free(und.word), free(und.x), free(und.value);
    return r;
}

/* The same run with the iterate itself as state; nothing else is carried from row to row. */
static void twin(const task *k, double *x, int64_t *clipped, int64_t *null) {
    const pv_iterate_plan *p = &k->plan;
    const int64_t d = p->run.d, features = d - p->run.intercept;
    double *v = doubles(d), *work = doubles(2 * d);
    for (int64_t j = 0; j < d; ++j) x[j] = p->run.set.code == PV_SIMPLEX ? p->run.set.size / (double)d : 0.0;
    *clipped = *null = 0;
    for (int64_t t = 1; t <= N; ++t) {
        if (t < p->schedule.first) continue;
        const double a = pv_schedule_weight_before(&p->schedule, t), a1 = pv_schedule_weight(&p->schedule, t);
        double norm = k->norms[t - 1], scale = 1.0, nn = 0, b = 0, q = 0, g = 0, w = a1;
        if (norm < 0) ++*null;
        if (norm > 1.0) {
            scale = 1.0 / sqrt(norm);
            ++*clipped;
        }
        for (int64_t j = 0; j < d; ++j) {
            v[j] = norm < 0 ? 0.0 : j < features ? scale * k->x[(t - 1) * features + j] : 1.0;
            nn += x[j] * x[j];
            b += x[j] * v[j];
            q += v[j] * v[j];
        }
        const double y = k->y[t - 1], sign = y > 0 ? 1.0 : -1.0;
        const double target = p->run.signs ? sign : fmin(fmax(y, -p->run.y_bound), p->run.y_bound);
        if (norm >= 0) p->update(p, a, a1, nn, b, q, target, &g, &w);
        for (int64_t j = 0; j < d; ++j) x[j] = (a * x[j] - g * v[j]) / w;
        pv_project(&p->run.set, x, d, work);
    }
    free(v), free(work);
}

static int same(const double *a, const double *b, int64_t d) { return memcmp(a, b, (size_t)d * sizeof(double)) == 0; }

static void one(task *k) {
    const int64_t d = k->plan.run.d;
    result whole = run(k, N, 64, 0);
    double *x = doubles(d);
    int64_t clipped, null, expected = 0, position = 0;
    twin(k, x, &clipped, &null);
    for (int64_t j = 0; j < d; ++j) {
        /* the loop adds 0.0 on reading, so -0 is not among its values */
        CHECK(fabs(whole.iterate[j] - x[j]) <= 1e-11);
        digest(whole.iterate[j]);
        digest(whole.released[j]);
        digest(whole.sum[j]);
    }
    free(x);
    long double spent = 0;
    for (int64_t t = pv_next_release(&k->plan.run, 0, &position); t <= k->plan.run.last_row;
         t = pv_next_release(&k->plan.run, t, &position)) {
        double ratio = pv_schedule_sensitivity(&k->plan.schedule, t) / pv_schedule_std(&k->plan.schedule, t);
        if (k->plan.schedule.gain > 0) spent += ratio * ratio;
        ++expected;
    }
    CHECK(whole.it.run.t == N && whole.it.run.n_released == expected);
    CHECK(whole.it.run.next_release == k->plan.run.horizon + 1);
    CHECK(fabsl(whole.it.run.spent - spent) <= 3e-16L * spent);
    CHECK(whole.it.run.n_clipped == clipped && clipped > 0 && whole.it.run.n_null >= null && null > 0);
    int64_t evaluated = 0;
    for (int64_t t = 0; t < N; ++t) evaluated += !isnan(whole.scores[t]);
    CHECK(evaluated == N - 11);
    CHECK((whole.refills > 0) == (expected > 0 && k->plan.schedule.gain > 0));
    for (level = 0; level < pv_first_pass_levels() - 1; ++level) {
        result slow = run(k, N, 64, 0);
        CHECK(same(slow.iterate, whole.iterate, d) && same(slow.released, whole.released, d));
        CHECK(same(slow.sum, whole.sum, d) && bits_of(slow.it.run.spent) == bits_of(whole.it.run.spent));
        for (int64_t t = 0; t < N; ++t)
            CHECK(bits_of(slow.scores[t]) == bits_of(whole.scores[t]) || isnan(whole.scores[t]));
        drop(&slow);
    }
    static const int64_t blocks[] = {1, 7, 64, 399}, capacities[] = {1, 3, 64, 1000};
    for (int64_t n = 0; n < LENGTH(blocks); ++n) {
        result cut = run(k, blocks[n], capacities[n], n < 2 ? 0 : -1);
        CHECK(same(cut.iterate, whole.iterate, d) && same(cut.released, whole.released, d));
        CHECK(same(cut.sum, whole.sum, d) && bits_of(cut.it.run.spent) == bits_of(whole.it.run.spent));
        CHECK(cut.it.run.n_released == expected && cut.undecided == whole.undecided);
        if (n < 2) CHECK(same(cut.scores, whole.scores, N) && same(cut.losses, whole.losses, N));
        drop(&cut);
    }
    /* rows evaluated 5 rows before they are learnt: the same run, and the same scores for any cut */
    result later = run(k, N, 64, 5), cut = run(k, 1, 2, 5);
    CHECK(same(later.iterate, whole.iterate, d) && same(later.released, whole.released, d));
    CHECK(same(cut.scores, later.scores, N) && same(cut.losses, later.losses, N));
    drop(&later);
    drop(&cut);
    drop(&whole);
}

static void list(task *k, const int64_t *rows, int64_t n) {
    k->plan.run.every = 0;
    k->releases = buffer(n, sizeof(int64_t));
    memcpy(k->releases, rows, (size_t)n * sizeof(int64_t));
    k->plan.run.releases = k->releases;
    k->plan.run.n_releases_planned = n;
}

static void releases(void) {
    static const int64_t rows[] = {1, 2, 64, 65, 399, 400};
    for (int kind = 0; kind < 6; ++kind) {
        task k = make(9, 1, PV_LOGISTIC, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
        if (kind == 0) k.plan.run.every = 1;
        if (kind == 1) k.plan.run.every = 50;
        if (kind == 2) k.plan.run.every = 1, k.plan.run.last_row = N - 1;
        if (kind == 3) list(&k, rows, LENGTH(rows));
        if (kind == 4) list(&k, rows, 0);
        if (kind == 5) k.plan.run.every = 1, k.plan.schedule.gain = 0.0, k.plan.run.noisy = 0;
        one(&k);
        drop_task(&k);
    }
}

static void every_loss_and_set(void) {
    static const int64_t sizes[] = {1, 2, 8, 55};
    for (int code = 0; code < PV_LOSS_COUNT; ++code)
        for (int set = 0; set < PV_SET_COUNT; ++set)
            for (int64_t n = 0; n < LENGTH(sizes); ++n) {
                /* one coordinate and an intercept leave no features: the row is the constant */
                task k = make(sizes[n], sizes[n] > 1 && n % 2, code, set, (int)n % 2);
                k.plan.run.every = 5;
                one(&k);
                drop_task(&k);
            }
}

/* The published gradient step drops the start (a = 0 at t = 2); a tiny scale is folded into the vector. */
static void extreme_weights(void) {
    task k = make(6, 0, PV_LOGISTIC, PV_L2_BALL, PV_PUBLISHED_GRADIENT);
    k.plan.constrained = 0;
    k.plan.run.every = 3;
    one(&k);
    for (int j = 0; j < 6; ++j) k.x[6 + j] = 0.0; /* the first row that is learnt has no gradient: it leaves zero */
    k.norms[1] = 0.0;
    one(&k);
    drop_task(&k);
    k = make(6, 1, PV_LOGISTIC, PV_L2_BALL, PV_PUBLISHED_GRADIENT);
    k.plan.constrained = 0;
    k.plan.run.every = 3;
    one(&k);
    drop_task(&k);
    k = make(6, 1, PV_LOGISTIC, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
    k.plan.schedule.a0 = 1e-3;
    k.plan.schedule.l2 = 2e3;
    k.plan.refresh = 1000000;
    k.plan.run.every = 3;
    one(&k);
    k.plan.schedule.a0 = 1e-160; /* its square underflows */
    k.plan.schedule.l2 = 0.4;
    one(&k);
    drop_task(&k);
}

/* A plan with noise makes no release where the schedule gives no noise. */
static void never_without_noise(void) {
    static const double gains[] = {0.0, 1e-300, 1e300, (double)NAN};
    task k = make(5, 0, PV_SQUARED, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
    k.plan.run.every = 1;
    for (int64_t n = 0; n < LENGTH(gains); ++n) {
        k.plan.schedule.gain = gains[n];
        double u[5] = {0}, work[15], released[5] = {0}, sum[5] = {0};
        unsigned char words[48] = {1};
        pv_iterate it = {
            .run = {.work = work, .released = released, .released_sum = sum, .next_release = 1}, .u = u, .s = 1.0};
        uint64_t row = 1;
        pv_draws draws = {.words = words, .rows = &row, .capacity = 1, .filled = 1};
        int64_t i = 0;
        CHECK(pv_run(&it.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NOT_FINITE);
        CHECK(it.run.n_released == 0);
        for (int64_t j = 0; j < 5; ++j) CHECK(released[j] == 0.0);
    }
    drop_task(&k);
}

/* Words drawn for another row are never used, and none are drawn for rows that release nothing. */
static void stale_words(void) {
    task k = make(5, 0, PV_SQUARED, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
    k.plan.run.every = 4;
    double u[5] = {0}, work[15], released[5] = {0}, sum[5] = {0};
    unsigned char words[3 * 48] = {1};
    uint64_t rows[3] = {8, 12, 16};
    pv_iterate it = {
        .run = {.work = work, .released = released, .released_sum = sum, .next_release = 4}, .u = u, .s = 1.0};
    pv_draws draws = {.words = words, .rows = rows, .capacity = 3, .filled = 3};
    int64_t i = 0;
    CHECK(pv_run(&it.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NEED_BITS);
    CHECK(i == 4 && it.run.t == 4 && it.run.pending && it.run.n_released == 0);
    CHECK(pv_upcoming_releases(&it.run, &k.plan.run, 2, rows) == 2 && rows[0] == 4 && rows[1] == 8 && rows[2] == 16);
    k.plan.run.last_row = 8;
    CHECK(pv_upcoming_releases(&it.run, &k.plan.run, 3, rows) == 2);
    drop_task(&k);
}

static double broken_slope(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p;
    return y > 0.7 ? (double)NAN : 0.5;
}

static double enormous_slope(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p, (void)y;
    return 1e200;
}

/* A slope whose square is no double: the step is not made, nothing is released, and nothing can be any more. */
static void enormous_loss(void) {
    task k = make(4, 0, PV_ABSOLUTE, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
    k.plan.run.loss.slope = enormous_slope;
    k.plan.update = pv_update_gradient;
    k.plan.constrained = 0;
    k.plan.run.every = 1;
    double u[4] = {0}, work[12], released[4] = {0}, sum[4] = {0};
    pv_iterate it = {.run = {.work = work, .released = released, .released_sum = sum}, .u = u, .s = 1.0};
    pv_draws draws = {0};
    it.run.next_release = 1;
    int64_t i = 0;
    CHECK(pv_run(&it.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NOT_FINITE);
    CHECK(pv_iterate_release(&it, &k.plan, 1.0, 1.0, &draws) == PV_NOT_FINITE);
    CHECK(it.run.n_released == 0);
    for (int64_t j = 0; j < 4; ++j) CHECK(u[j] == 0.0 && released[j] == 0.0);
    drop_task(&k);
}

static void broken_loss(void) {
    task k = make(4, 0, PV_ABSOLUTE, PV_L2_BALL, PV_CONVEXITY_CONSTANT);
    for (int64_t i = 0; i < N; ++i) k.y[i] = i == 10 ? 0.8 : 0.0;
    k.plan.run.loss.slope = broken_slope;
    k.plan.run.loss.implicit = pv_implicit_bracketed;
    k.plan.run.loss.expand = NULL;
    k.plan.run.loss.lipschitz = 1.0;
    double u[4] = {0}, work[12], released[4] = {0}, sum[4] = {0};
    pv_iterate it = {.run = {.work = work, .released = released, .released_sum = sum}, .u = u, .s = 1.0};
    pv_draws draws = {0};
    k.plan.run.every = N;
    it.run.next_release = N;
    int64_t i = 0;
    CHECK(pv_run(&it.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NOT_FINITE);
    CHECK(i == 11 && it.run.n_released == 0);
    drop_task(&k);
}

int main(void) {
    level = pv_first_pass_levels() - 1;
    for (int64_t j = 0; j < LENGTH(low); ++j) {
        low[j] = -0.1 - 0.01 * (double)j;
        high[j] = 0.2;
    }
    releases();
    every_loss_and_set();
    extreme_weights();
    stale_words();
    never_without_noise();
    broken_loss();
    enormous_loss();
    return finish("iterate");
}
