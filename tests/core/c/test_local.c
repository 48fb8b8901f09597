/* Learners of reports: gradients at public points and the effect of reports on the points, against a plain loop;
 * reports made by devices; refusals, saturation and unchanged state. */
#include "reports.h"
#include "runs/pv_local.h"
#include "betting/pv_magnitude.h"

enum { N = 50, EVERY = 4, HUGE_ROW = 17, ZERO_ROW = 11, TINY_ROW = 19 };

static THREAD double low[64], high[64];

typedef struct task {
    pv_local_plan plan;
    pv_rows rows;
    double *x, *y;
    int64_t null, beyond; /* rows */
} task;

static task make(int64_t d, int intercept, int code, int set, pv_report_kind kind, pv_update update, pv_pace pace) {
    task k = {0};
    const int64_t n = d - intercept;
    k.x = random_doubles(N * n, 2.0 / sqrt((double)d));
    k.y = random_doubles(N, 1.5);
    k.y[5] = k.y[42] = (double)NAN;
    k.null = 2;
    if (n > 0) {
        k.x[23 * n + n / 2] = (double)NAN;
        k.x[31 * n + n - 1] = -HUGE_VAL;
        k.null += 2;
        for (int64_t j = 0; j < n; ++j) {
            k.x[ZERO_ROW * n + j] = 0.0;
            k.x[TINY_ROW * n + j] = 1e-170;
            k.x[HUGE_ROW * n + j] = j % 2 ? -1e149 : 1e149;
        }
    }
    k.rows = (pv_rows){.n = N, .d = n, .data = (const char *)k.x, .row_stride = 8 * n, .col_stride = 8};
    pv_rows_bind(&k.rows);
    for (int64_t i = 0; i < N; ++i) k.beyond += k.y[i] == k.y[i] && pv_rows_norm(&k.rows, i) > 1.0;
    pv_plan *p = &k.plan.run;
    pv_loss_bind(&p->loss, code, 0.5);
    p->method = &pv_local_method;
    p->set = (pv_set){.code = set, .size = 0.8, .low = low, .high = high};
    p->d = d;
    p->intercept = intercept;
    p->x_bound = 1.0;
    p->signs = code <= PV_SMOOTH_HINGE;
    p->y_bound = 0.9;
    p->noisy = kind != PV_REPORT_PLAIN;
    p->horizon = p->last_row = N;
    p->every = EVERY;
    k.plan.report = report_plan(kind, d, 0.7, kind == PV_REPORT_CAP || kind == PV_REPORT_SIGN ? 2.0 : 0.3);
    k.plan.cost = 0.37;
    k.plan.update = update;
    k.plan.pace = pace;
    k.plan.length = update == PV_COIN ? 0.7 : 0.4;
    k.plan.base = 2.0;
    k.plan.a = 0.5;
    k.plan.drift = 0.3;
    k.plan.wealth = 0.6;
    k.plan.cap = HUGE_VAL;
    return k;
}

static void drop(task *k) { free(k->x), free(k->y); }

static double start_of(const pv_plan *p, int64_t j) {
    if (p->set.code == PV_SIMPLEX) return p->set.size / (double)p->d;
    return p->set.code == PV_BOX ? fmin(fmax(0.0, low[j]), high[j]) : 0.0;
}

/* A run, and the memory that it owns. */
typedef struct live {
    pv_local it;
    double *point, *sum, *gradient, *released, *released_sum, *work;
} live;

static live begin(const pv_plan *p) {
    const int64_t d = p->d;
    live l = {.point = doubles(d),
              .sum = doubles(d),
              .gradient = doubles(d),
              .released = doubles(d),
              .released_sum = doubles(d),
              .work = doubles(3 * d)};
    for (int64_t j = 0; j < d; ++j) {
        l.sum[j] = l.gradient[j] = l.released_sum[j] = 0.0;
        l.point[j] = l.released[j] = start_of(p, j);
    }
    l.it = (pv_local){.run = {.work = l.work, .released = l.released, .released_sum = l.released_sum},
                      .gradient = l.gradient,
                      .point = l.point,
                      .sum = l.sum};
    l.it.run.next_release = pv_next_release(p, 0, &l.it.run.list_position);
    return l;
}

static void end(live *l) {
    free(l->point), free(l->sum), free(l->gradient), free(l->released), free(l->released_sum), free(l->work);
}

static THREAD double *parts[5];

static double **arrays(const live *l) {
    parts[0] = l->point, parts[1] = l->sum, parts[2] = l->gradient, parts[3] = l->released, parts[4] = l->released_sum;
    return parts;
}

/* A copy of everything except scratch, and whether anything has changed since. */
static void keep(const live *l, int64_t d, live *kept) {
    memcpy(&kept->it, &l->it, sizeof(pv_local));
    kept->point = doubles(d), kept->sum = doubles(d), kept->gradient = doubles(d);
    kept->released = doubles(d), kept->released_sum = doubles(d), kept->work = NULL;
    for (int n = 0; n < 5; ++n) {
        const double *from = arrays(l)[n];
        memcpy(arrays(kept)[n], from, (size_t)d * sizeof(double));
    }
}

static int unchanged(const live *l, int64_t d, const live *kept) {
    int same = memcmp(&kept->it, &l->it, sizeof(pv_local)) == 0;
    for (int n = 0; n < 5; ++n) {
        const double *now = arrays(l)[n];
        same &= memcmp(now, arrays(kept)[n], (size_t)d * sizeof(double)) == 0;
    }
    return same;
}

/* Learn the available rows, answering all requests. A call that requests something has moved nothing but the row:
 * the same call again finds the same state, makes the same request and leaves the state unchanged. */
static void learn(live *l, const pv_local_plan *p, const pv_rows *rows, const double *y, buffers *b) {
    int64_t i = 0;
    int calls = 0;
    pv_status status;
    while ((status = pv_run(&l->it.run, &p->run, rows, y, &i, &b->draws, NULL)) != PV_OK) {
        const int64_t used = b->draws.used, done = i;
        CHECK(++calls < 10000);
        live kept;
        CHECK(l->it.run.pending);
        keep(l, p->run.d, &kept);
        CHECK(pv_run(&l->it.run, &p->run, rows, y, &i, &b->draws, NULL) == status && i == done);
        CHECK(unchanged(l, p->run.d, &kept) && b->draws.used == used);
        end(&kept);
        serve(b, &p->report, status, (uint64_t)l->it.run.t, (uint64_t)p->run.horizon);
    }
    CHECK(i == rows->n && !l->it.run.pending);
}

enum { ROWS, TOLD, RECEIVED };

/* Points after every row (for blocks: after the last), and the sum of the released ones. */
static void run(const task *k, int64_t block, int64_t capacity, int level, int how, double *points, double *sum) {
    const pv_local_plan *p = &k->plan;
    const int64_t d = p->run.d;
    const pv_rows none = {.n = 0, .d = k->rows.d, .ops = k->rows.ops};
    double *gradient = doubles(d), *clip = doubles(d), *report = doubles(d);
    live l = begin(&p->run);
    pv_state counters = {0};
    buffers b;
    open_buffers(&b, &p->report, capacity, level);
    for (int64_t at = 0; at < N; at += block) {
        const int64_t n = block < N - at ? block : N - at;
        if (how == ROWS) {
            pv_rows rows = k->rows;
            rows.n = n;
            rows.data += at * rows.row_stride;
            learn(&l, p, &rows, k->y + at, &b);
        } else { /* by another caller, at the learner's point */
            const double norm = isnan(k->y[at]) ? -1.0 : pv_rows_norm(&k->rows, at);
            memset(gradient, 0, (size_t)d * sizeof(double));
            CHECK(pv_local_gradient(&counters, &p->run, p->report.bound, l.point, &k->rows, at,
                                    pv_admissible(&p->run, k->y[at]), norm, gradient) == PV_OK);
            if (how == TOLD) {
                pv_local_tell(&l.it, p, norm < 0.0 ? NULL : gradient);
                learn(&l, p, &none, NULL, &b);
            } else {
                pv_report_clip(p->report.bound, d, gradient, clip);
                report_of(&p->report, (uint64_t)at + 1, clip, report);
                pv_local_receive(&l.it, p, report, pv_vectors_at(level));
            }
        }
        if (block == 1) memcpy(points + at * d, l.point, (size_t)d * sizeof(double));
        CHECK(l.it.run.t == at + n && l.it.steps == at + n && l.it.run.spent == p->cost); /* charged once */
        for (int64_t j = 0; j < d; ++j) CHECK(l.gradient[j] == 0.0);                      /* nothing secret remains */
    }
    if (block > 1) memcpy(points + (N - 1) * d, l.point, (size_t)d * sizeof(double));
    memcpy(sum, l.released_sum, (size_t)d * sizeof(double));
    CHECK(l.it.run.n_released == N / EVERY);
    if (how == ROWS) CHECK(l.it.run.n_null == k->null && l.it.run.n_clipped == k->beyond);
    if (how == TOLD) CHECK(l.it.run.n_null == k->null && l.it.run.n_clipped == 0);
    if (how == RECEIVED) CHECK(l.it.run.n_null == 0 && l.it.run.n_clipped == 0);
    if (how != ROWS) CHECK(counters.n_null == k->null && counters.n_clipped == k->beyond);
    int64_t i = 0;
    CHECK(pv_run(&l.it.run, &p->run, &none, NULL, &i, &b.draws, NULL) == PV_OK && l.it.run.t == N);
    CHECK(pv_run(&l.it.run, &p->run, &k->rows, k->y, &i, &b.draws, NULL) == PV_HORIZON && i == 0 && l.it.run.t == N);
    CHECK(how == RECEIVED || !p->run.noisy || b.refills > 0);
    close_buffers(&b);
    end(&l);
    free(gradient), free(clip), free(report);
}

/* Simpson's rule for 1/(2a) int_{-a}^{a} beta exp(beta x - beta^2 y) d beta. */
static double magnitude(double x, double y, double a) {
    const int n = 600;
    long double total = 0;
    for (int i = 0; i <= n; ++i) {
        const long double beta = a * (2.0L * i / n - 1.0L);
        total += (i == 0 || i == n ? 1 : i % 2 ? 4 : 2) * beta * expl(beta * x - beta * beta * y);
    }
    return (double)(total / (3.0L * n));
}

/* The gradient of row t of the task at w, from the definition. */
static void gradient_at(const task *k, int64_t t, const double *w, double *g) {
    const pv_plan *p = &k->plan.run;
    const int64_t d = p->d, n = d - p->intercept;
    const double *x = k->x + (t - 1) * n, given = k->y[t - 1];
    double most = 0.0;
    int null = isnan(given);
    for (int64_t j = 0; j < n; ++j) {
        null |= !(fabs(x[j]) <= 1e150);
        most = fmax(most, fabs(x[j]));
    }
    memset(g, 0, (size_t)d * sizeof(double));
    if (null) return;
    long double nn = 0, score = 0, q = 0;
    for (int64_t j = 0; j < n; ++j) nn += (long double)x[j] * x[j];
    for (int64_t j = 0; j < d; ++j) {
        g[j] = j < n ? (double)(x[j] / fmaxl(1.0L, sqrtl(nn))) : 1.0;
        score += (long double)g[j] * w[j];
        q += (long double)g[j] * g[j];
    }
    const double y = p->signs ? (given > 0.0 ? 1.0 : -1.0) : fmin(fmax(given, -p->y_bound), p->y_bound);
    double slope = p->loss.slope(&p->loss, (double)score, y);
    const double largest =
        most > 0.0 && most < 1e-150 && !p->intercept ? 0.0 : (double)(k->plan.report.bound / sqrtl(q));
    slope = fmin(fmax(slope, -largest), largest); /* for a row of zeros there is no largest */
    for (int64_t j = 0; j < d; ++j) g[j] *= slope;
}

static double length_of(const pv_local_plan *p, double number, double squares) {
    if (p->pace == PV_ROOT) return p->length / sqrt(number);
    if (p->pace == PV_INVERSE) return p->length / number;
    if (p->pace == PV_ADAPTIVE) return p->length / sqrt(p->base + squares);
    return p->length;
}

/* The same points from the definitions. */
static void twin(const task *k, int integrate, double *points, double *sum) {
    const pv_local_plan *p = &k->plan;
    const int64_t d = p->run.d, size = pv_row_words(d);
    double *w = doubles(d), *v = doubles(d), *r = doubles(d), *s = doubles(d), *q = doubles(d), *work = doubles(2 * d);
    unsigned char *addresses = buffer(size, 8), *words = buffer(size, 8);
    const double h = pv_lattice_step(p->report.scale);
    double squares = 0.0, x = 0.0, y = 0.0;
    pv_experts experts = {.travelled = 0.0};
    for (int64_t j = 0; j < d; ++j) s[j] = q[j] = sum[j] = 0.0, w[j] = start_of(&p->run, j);
    for (int64_t t = 1; t <= N; ++t, points += d) {
        gradient_at(k, t, w, v);
        if (p->report.kind == PV_REPORT_GAUSSIAN) {
            pv_address_row(addresses, 9, (uint64_t)t, d);
            fill_words(&p->report, words, addresses, size);
            for (int64_t j = 0; j < d; ++j)
                r[j] = h * nearbyint((v[j] + p->report.scale * gaussian_of(pv_word(words + 8 * j))) / h);
        } else {
            report_of(&p->report, (uint64_t)t, v, r);
        }
        double rr = 0.0, qq = 0.0, gain = 0.0, m;
        for (int64_t j = 0; j < d; ++j) rr += r[j] * r[j], qq += q[j] * q[j], gain -= r[j] * q[j], s[j] += r[j];
        switch (p->update) {
        case PV_GREEDY: /* its regulariser is 1/2 ||w||^2 over the length */
            for (int64_t j = 0; j < d; ++j) {
                const double own = p->pace == PV_INVERSE ? w[j] / p->length : 0.0;
                w[j] -= length_of(p, (double)t, squares) * (r[j] + own);
            }
            squares += rr;
            break;
        case PV_LAZY:
            squares += rr;
            for (int64_t j = 0; j < d; ++j) w[j] = -length_of(p, (double)t + 1.0, squares) * s[j];
            break;
        case PV_COIN:
        case PV_EXPERTS: /* its own driver has the weights from the definitions */
            x += gain;
            y += p->observed > 0.0 ? p->observed * gain * gain : p->drift * (p->counted ? 1.0 : qq);
            pv_experts_learn(&experts, &p->experts, gain, qq);
            squares += rr;
            if (squares > 0.0) {
                qq = 0.0;
                for (int64_t j = 0; j < d; ++j) q[j] -= p->length / sqrt(squares) * r[j], qq += q[j] * q[j];
                for (int64_t j = 0; j < d; ++j) q[j] /= fmax(1.0, sqrt(qq));
            }
            m = integrate ? magnitude(x, y, p->a) : pv_magnitude(x, y, p->a);
            m = fmin(fmax(m, -p->cap), p->cap) * p->wealth;
            if (p->update == PV_EXPERTS) m = pv_experts_magnitude(&experts, &p->experts);
            for (int64_t j = 0; j < d; ++j) w[j] = m * q[j];
        }
        pv_project(&p->run.set, w, d, work);
        memcpy(points, w, (size_t)d * sizeof(double));
        if (t % EVERY == 0) {
            const double k_th = (double)t / EVERY, own = p->run.averaging == 1 ? k_th : 0.5 * k_th * (k_th + 1.0);
            for (int64_t j = 0; j < d; ++j) sum[j] += (p->run.averaging ? own : 1.0) * w[j];
        }
    }
    free(w), free(v), free(r), free(s), free(q), free(work), free(addresses), free(words);
}

static int same(const double *a, const double *b, int64_t n) { return memcmp(a, b, (size_t)n * sizeof(double)) == 0; }

static void one(const task *k, int integrate) {
    const int64_t d = k->plan.run.d, size = N * d;
    double *points = doubles(size), *expected = doubles(size), *again = doubles(size);
    double *sum = doubles(d), *total = doubles(d), *other = doubles(d), moved = 0.0;
    run(k, 1, 1, pv_first_pass_levels() - 1, ROWS, points, sum);
    twin(k, integrate, expected, total);
    for (int64_t j = 0; j < size; ++j) {
        CHECK(fabs(points[j] - expected[j]) <= 1e-11 * (1.0 + fabs(expected[j])));
        moved += fabs(points[j] - start_of(&k->plan.run, j % d));
    }
    /* the comparison was not empty, except for the simplex of one point */
    CHECK(moved > 1e-3 * (double)N || (d == 1 && k->plan.run.set.code == PV_SIMPLEX));
    for (int64_t j = 0; j < d; ++j) {
        CHECK(fabs(sum[j] - total[j]) <= 1e-10 * (1.0 + fabs(total[j])));
        digest(points[size - d + j]), digest(sum[j]);
    }
    static const int64_t blocks[] = {7, N}, capacities[] = {3, 200};
    for (int64_t n = 0; n < LENGTH(blocks); ++n)
        for (int level = 0; level < pv_first_pass_levels(); ++level) {
            run(k, blocks[n], capacities[n], level, ROWS, again, other);
            CHECK(same(again + size - d, points + size - d, d) && same(other, sum, d));
        }
    run(k, 1, 2, 0, TOLD, again, other);
    CHECK(same(again, points, size) && same(other, sum, d));
    run(k, 1, 2, 0, RECEIVED, again, other);
    CHECK(same(again, points, size) && same(other, sum, d));
    free(points), free(expected), free(again), free(sum), free(total), free(other);
}

static void every_update_and_set(void) {
    static const int64_t sizes[] = {1, 2, 9, 33};
    static const pv_report_kind kinds[] = {PV_REPORT_PLAIN, PV_REPORT_GAUSSIAN, PV_REPORT_LAPLACE, PV_REPORT_L2_LAPLACE,
                                           PV_REPORT_CAP};
    int turn = 0;
    for (int rule = 0; rule < 13; ++rule)
        for (int set = 0; set < PV_SET_COUNT; ++set)
            for (int64_t n = 0; n < LENGTH(sizes); ++n, ++turn) {
                const int64_t d = sizes[n];
                pv_report_kind kind = kinds[(turn + rule) % LENGTH(kinds)];
                if (d == 1 && kind == PV_REPORT_CAP) kind = PV_REPORT_SIGN;
                task k =
                    make(d, turn % 3 == 0, turn % PV_LOSS_COUNT, set, kind, (pv_update)(rule / 4), (pv_pace)(rule % 4));
                if (rule == 12) { /* averages with larger weights for later points */
                    k.plan.run.averaging = 1 + turn % 2;
                    k.plan.experts = (pv_experts_plan){.n = 3,
                                                       .radius = {0.1, 0.3, 1.0},
                                                       .log_prior = {-1.0, -1.1, -1.2},
                                                       .speed = {0.7, 0.8, 0.9},
                                                       .most = 0.3,
                                                       .drift = 1.5};
                    double total = 0.0;
                    for (int e = 0; e < 3; ++e) total += exp(k.plan.experts.log_prior[e]);
                    for (int e = 0; e < 3; ++e) k.plan.experts.log_prior[e] -= log(total);
                }
                if (rule >= 8) { /* of coins: four ways to bet */
                    k.plan.pace = PV_CONSTANT;
                    k.plan.observed = rule == 9 ? 0.5 : 0.0;
                    k.plan.counted = rule == 10;
                    if (rule == 11) k.plan.cap = 0.05;
                }
                one(&k, rule >= 8 && rule < 12 && turn % 4 == 0);
                drop(&k);
            }
}

/* Gradients of single rows: within the bound for any loss, in the row's direction, added to the given vector. */
static void gradients(void) {
    for (int trial = 0; trial < 4000; ++trial) {
        const int64_t d = 1 + (int64_t)(random_word() % 12);
        const int intercept = d > 1 && trial % 2;
        const double bound = exp(30 * random_unit()), size = exp(300 * random_unit());
        double *x = random_doubles(d - intercept, size), *w = random_doubles(d, exp(20 * random_unit())),
               *g = doubles(d);
        pv_rows rows = {.n = 1, .d = d - intercept, .data = (const char *)x, .row_stride = 8 * d, .col_stride = 8};
        pv_plan p = {.d = d, .intercept = intercept, .x_bound = exp(20 * random_unit()), .y_bound = 1.0};
        pv_state counters = {0};
        pv_rows_bind(&rows);
        pv_loss_bind(&p.loss, trial % PV_LOSS_COUNT, 0.5);
        for (int64_t j = 0; j < d; ++j) g[j] = 0.0;
        const double norm = pv_rows_norm(&rows, 0), y = trial % 4 > 1 ? 1.0 : -1.0;
        CHECK(pv_local_gradient(&counters, &p, bound, w, &rows, 0, y, norm, g) == PV_OK);
        long double gg = 0, f = norm > p.x_bound * p.x_bound ? p.x_bound / sqrtl((long double)norm) : 1.0L, score = 0,
                    q = 0;
        CHECK(counters.n_clipped == (norm > p.x_bound * p.x_bound) && counters.n_null == 0 && counters.t == 0);
        for (int64_t j = 0; j < d; ++j) {
            const long double v = j < d - intercept ? f * x[j] : 1.0L;
            gg += (long double)g[j] * g[j];
            score += v * w[j];
            q += v * v;
        }
        CHECK(sqrtl(gg) <= bound * (1 + 1e-14L));
        const long double slope = p.loss.slope(&p.loss, (double)score, y), largest = bound / sqrtl(q);
        const long double own = slope > largest ? largest : (slope < -largest ? -largest : slope);
        /* where it saturates, or is constant, its value is known despite the rounding of the score */
        if (fabsl(slope) > 1.01L * largest && q > 1e-280L)
            for (int64_t j = 0; j < d; ++j) {
                const long double v = j < d - intercept ? f * x[j] : 1.0L;
                CHECK(fabsl(g[j] - own * v) <= 1e-13L * fabsl(own * v));
            }
        CHECK(q > 1e-291L || gg == 0);
        double *twice = doubles(d);
        memcpy(twice, g, (size_t)d * sizeof(double));
        CHECK(pv_local_gradient(&counters, &p, bound, w, &rows, 0, y, norm, twice) == PV_OK);
        for (int64_t j = 0; j < d; ++j) CHECK(fabs(twice[j] - 2.0 * g[j]) <= 1e-15 * fabs(g[j]));
        CHECK(pv_local_gradient(&counters, &p, bound, w, &rows, 0, y, -1.0, g) == PV_OK && counters.n_null == 1);
        for (int64_t j = 0; j < d; ++j)
            CHECK(fabs(twice[j] - 2.0 * g[j]) <= 1e-15 * fabs(g[j])); /* nothing was added */
        free(x), free(w), free(g), free(twice);
    }
}

static double broken_slope(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p;
    return y > 0.89 ? (double)NAN : 0.5;
}

static void stops(void) {
    static const pv_report_kind kinds[] = {PV_REPORT_GAUSSIAN, PV_REPORT_LAPLACE, PV_REPORT_L2_LAPLACE, PV_REPORT_CAP};
    task k = make(4, 0, PV_ABSOLUTE, PV_L2_BALL, PV_REPORT_PLAIN, PV_GREEDY, PV_CONSTANT);
    for (int64_t i = 0; i < N; ++i) k.y[i] = i == 2 ? 0.9 : 0.0;
    buffers b;
    int64_t i = 0;
    /* a user's loss that returns NaN ends the run at its row, before its report is made */
    k.plan.run.loss.slope = broken_slope;
    k.plan.run.loss.user = &k;
    live l = begin(&k.plan.run);
    open_buffers(&b, &k.plan.report, 1, 0);
    CHECK(pv_run(&l.it.run, &k.plan.run, &k.rows, k.y, &i, &b.draws, NULL) == PV_NOT_FINITE && i == 3);
    CHECK(l.it.steps == 2 && l.it.run.n_released == 0);
    for (int64_t j = 0; j < 4; ++j) CHECK(l.gradient[j] == 0.0);
    end(&l);
    /* without a user's loss to report it, the row reports the gradient 0: a row never causes an error */
    k.plan.run.loss.user = NULL;
    k.plan.run.horizon = 3;
    double before[4];
    l = begin(&k.plan.run);
    pv_rows rows = k.rows;
    rows.n = 2;
    learn(&l, &k.plan, &rows, k.y, &b);
    memcpy(before, l.point, sizeof before);
    rows.data += 2 * rows.row_stride;
    rows.n = 1;
    CHECK(before[0] != 0.0);
    learn(&l, &k.plan, &rows, k.y + 2, &b);
    CHECK(l.it.steps == 3 && same(before, l.point, 4));
    end(&l);
    close_buffers(&b);
    k.plan.run.horizon = N;
    /* no rows: nothing happens */
    l = begin(&k.plan.run);
    open_buffers(&b, &k.plan.report, 1, 0);
    live kept;
    rows.n = i = 0;
    keep(&l, 4, &kept);
    CHECK(pv_run(&l.it.run, &k.plan.run, &rows, NULL, &i, &b.draws, NULL) == PV_OK && unchanged(&l, 4, &kept));
    end(&kept), end(&l), close_buffers(&b);
    /* never a report without its noise, whatever the plan says */
    static const double scales[] = {0.0, -1.0, 1e-300, 1e300, HUGE_VAL, (double)NAN};
    k.plan.run.loss.slope = k.plan.run.loss.value;
    for (int64_t n = 0; n < LENGTH(kinds); ++n)
        for (int64_t m = 0; m < LENGTH(scales); ++m) {
            k.plan.report = report_plan(kinds[n], 4, 0.7, 1.0);
            open_buffers(&b, &k.plan.report, 1, 0);
            b.draws.rows[0] = 1;
            b.draws.filled = 1;
            memset(b.draws.words, 1, (size_t)pv_row_words(k.plan.report.words) * 8);
            k.plan.report.scale = scales[m];
            l = begin(&k.plan.run);
            const double told[4] = {0.5, 0.0, 0.0, 0.0};
            pv_local_tell(&l.it, &k.plan, told);
            keep(&l, 4, &kept);
            CHECK(pv_run(&l.it.run, &k.plan.run, &rows, NULL, &i, &b.draws, NULL) == PV_NOT_FINITE);
            CHECK(unchanged(&l, 4, &kept) && l.it.run.pending && l.it.steps == 0 && l.it.run.spent == 0.0);
            end(&kept), end(&l), close_buffers(&b);
        }
    drop(&k);
}

/* Given gradients that no row has: longer than the bound, huge, not finite. Only the long ones are counted, once
 * each. */
static void told(void) {
    static const double entries[] = {0.3, 0.6, 100.0, 1e150, -1e150, 5e-324, 0.0, (double)NAN, HUGE_VAL, 0.35};
    const pv_rows none = {.n = 0};
    const double bound = 0.7;
    task k = make(4, 0, PV_ABSOLUTE, PV_WHOLE_SPACE, PV_REPORT_PLAIN, PV_GREEDY, PV_CONSTANT);
    for (int noisy = 0; noisy < 2; ++noisy) {
        k.plan.report = report_plan(noisy ? PV_REPORT_GAUSSIAN : PV_REPORT_PLAIN, 4, bound, 0.3);
        live l = begin(&k.plan.run);
        buffers b;
        int64_t beyond = 0;
        open_buffers(&b, &k.plan.report, 1, 0); /* so every report has to request its words */
        for (int64_t n = 0; n < LENGTH(entries); ++n) {
            double g[4], before[4], report[4];
            for (int64_t j = 0; j < 4; ++j) g[j] = entries[n];
            memcpy(before, l.point, sizeof before);
            const double length = 2.0 * fabs(entries[n]), f = length > bound ? bound / length : 1.0;
            beyond += length > bound * 1.0000001 && isfinite(length);
            pv_local_tell(&l.it, &k.plan, g);
            learn(&l, &k.plan, &none, NULL, &b);
            for (int64_t j = 0; j < 4; ++j) g[j] = isfinite(entries[n]) ? entries[n] * f : 0.0;
            report_of(&k.plan.report, (uint64_t)n + 1, g, report);
            for (int64_t j = 0; j < 4; ++j) CHECK(fabs(l.point[j] - (before[j] - 0.4 * report[j])) <= 1e-15);
        }
        CHECK(l.it.run.n_clipped == beyond + 1 && l.it.run.n_null == 0 && l.it.steps == LENGTH(entries));
        pv_local_tell(&l.it, &k.plan, NULL);
        learn(&l, &k.plan, &none, NULL, &b);
        CHECK(l.it.run.n_null == 1);
        CHECK(!noisy || b.refills == LENGTH(entries) + 1);
        close_buffers(&b), end(&l);
    }
    drop(&k);
}

/* Reports as large as are accepted: points stay finite and in their set. */
static void extremes(void) {
    static const pv_update updates[] = {PV_GREEDY, PV_LAZY, PV_COIN};
    const pv_vectors *vectors = pv_vectors_at(0);
    for (int64_t n = 0; n < LENGTH(updates); ++n)
        for (int set = 0; set < PV_SET_COUNT; ++set)
            for (int size = 0; size < 3; ++size) {
                task k = make(5, 0, PV_SQUARED, set, PV_REPORT_PLAIN, updates[n], PV_CONSTANT);
                k.plan.length = 1.0;
                if (set == PV_WHOLE_SPACE && updates[n] != PV_COIN) k.plan.length = 1e80;
                if (size == 1) k.plan.length = 0.3; /* products that underflow */
                live l = begin(&k.plan.run);
                double work[10], again[5], total = 0.0;
                for (int t = 1; t <= 20; ++t) {
                    double r[5];
                    for (int j = 0; j < 5; ++j) {
                        r[j] = size == 0 ? PV_REPORT_MAX : size == 1 ? 5e-324 : 0.0;
                        if ((j == 3) != (t % 6 == 0)) r[j] = -r[j];
                    }
                    pv_local_receive(&l.it, &k.plan, r, vectors);
                    for (int j = 0; j < 5; ++j) {
                        CHECK(fabs(l.point[j]) <= PV_ENTRY_MAX);
                        CHECK(l.point[j] != 0.0 || bits_of(l.point[j]) == 0); /* never -0 */
                    }
                    memcpy(again, l.point, sizeof again);
                    pv_project(&k.plan.run.set, again, 5, work);
                    for (int j = 0; j < 5; ++j) CHECK(fabs(again[j] - l.point[j]) <= 1e-15 * (1.0 + fabs(l.point[j])));
                    if (size == 0 && set == PV_WHOLE_SPACE && t == 1 && updates[n] != PV_COIN)
                        for (int j = 0; j < 5; ++j) CHECK(l.point[j] == (j == 3 ? PV_ENTRY_MAX : -PV_ENTRY_MAX));
                    if (size == 0 && set == PV_L2_BALL &&
                        updates[n] == PV_GREEDY) /* on the sphere, against the report */
                        for (int j = 0; j < 5; ++j) CHECK(fabs(l.point[j] + copysign(0.8, r[j]) / sqrt(5.0)) <= 1e-15);
                    if (size == 2 && set != PV_SIMPLEX && set != PV_BOX)
                        for (int j = 0; j < 5; ++j) CHECK(l.point[j] == 0.0);
                }
                /* bets beyond the range of doubles */
                if (size == 0 && set == PV_WHOLE_SPACE && updates[n] == PV_COIN) {
                    CHECK(pv_magnitude(l.it.x, l.it.y, k.plan.a) == HUGE_VAL);
                    for (int j = 0; j < 5; ++j) total += l.point[j] * l.point[j] / PV_ENTRY_MAX / PV_ENTRY_MAX;
                    CHECK(fabs(sqrt(total) - k.plan.wealth) <= 1e-12);
                }
                CHECK(isfinite(l.it.squares) && isfinite(l.it.x) && isfinite(l.it.y) && l.it.steps == 20);
                end(&l);
                drop(&k);
            }
}

int main(void) {
    for (int64_t j = 0; j < LENGTH(low); ++j) {
        low[j] = j % 4 == 3 ? 0.05 : -0.1 - 0.01 * (double)j;
        high[j] = 0.2;
    }
    every_update_and_set();
    gradients();
    stops();
    told();
    extremes();
    return finish("local");
}
