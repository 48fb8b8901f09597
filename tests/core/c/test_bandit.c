/* Descent on values: the requested points, the randomized numbers and the effect of reports on the points, against a
 * plain loop; directions that run out, refusals, saturation and unchanged state. */
#include "reports.h"
#include "runs/pv_bandit.h"

enum { N = 50, EVERY = 4, HUGE_ROW = 17, ZERO_ROW = 11 };

static THREAD double low[64], high[64];

typedef struct task {
    pv_bandit_plan plan;
    pv_rows rows;
    double *x, *y;
    int64_t null, beyond; /* rows */
} task;

static task make(int64_t d, int intercept, int code, int set, pv_report_kind kind, int pair, int fixed) {
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
            k.x[HUGE_ROW * n + j] = j % 2 ? -1e149 : 1e149;
        }
    }
    k.rows = (pv_rows){.n = N, .d = n, .data = (const char *)k.x, .row_stride = 8 * n, .col_stride = 8};
    pv_rows_bind(&k.rows);
    for (int64_t i = 0; i < N; ++i) k.beyond += k.y[i] == k.y[i] && pv_rows_norm(&k.rows, i) > 1.0;
    pv_plan *p = &k.plan.run;
    pv_loss_bind(&p->loss, code, 0.5);
    p->method = &pv_bandit_method;
    p->set = (pv_set){.code = set, .size = 0.8, .low = low, .high = high};
    p->d = d;
    p->intercept = intercept;
    p->x_bound = 1.0;
    p->signs = code <= PV_SMOOTH_HINGE;
    p->y_bound = 0.9;
    p->noisy = kind != PV_REPORT_PLAIN;
    p->horizon = p->last_row = N;
    p->every = EVERY;
    k.plan.pair = pair;
    k.plan.fixed = fixed;
    k.plan.low = 0.1;
    k.plan.high = 1.1; /* between values that occur */
    /* within half the interval, or beyond it: the rest of a value is clipped to both */
    k.plan.report = report_plan(kind, 1, pair ? 0.6 : fixed ? 0.3 : 0.8, kind == PV_REPORT_SIGN ? 1.5 : 0.2);
    k.plan.cost = 0.37;
    k.plan.inner = set == PV_L1_BALL ? 0.8 / sqrt((double)d) : set == PV_BOX ? 0.1 : set == PV_L2_BALL ? 0.8 : HUGE_VAL;
    k.plan.distance = 0.3;
    k.plan.most = fmin(0.25, 0.9 * k.plan.inner);
    k.plan.length = 0.2;
    return k;
}

/* The task with reports of the whole estimate, the longest of which are clipped. */
static task make_whole(int64_t d, int intercept, int code, int set, pv_report_kind kind, int fixed) {
    if (kind == PV_REPORT_SIGN && d > 1) kind = PV_REPORT_CAP;
    task k = make(d, intercept, code, set, kind, 0, fixed);
    const double scale = kind == PV_REPORT_SIGN || kind == PV_REPORT_CAP ? 5.0 * (double)d : 0.2;
    k.plan.whole = 1;
    k.plan.report = report_plan(kind, d, 0.8 * (double)d / k.plan.most, scale);
    return k;
}

static void drop(task *k) { free(k->x), free(k->y); }

/* One fixed direction for every round, whose length is slightly off. */
static void direction_of(int64_t round, int64_t d, double *e) {
    double nn = 0.0;
    for (int64_t c = 0; c < d; ++c) {
        e[c] = (double)((int64_t)mix(UINT64_C(977) * (uint64_t)round + (uint64_t)c + 5) >> 11) * 0x1p-52;
        nn += e[c] * e[c];
    }
    for (int64_t c = 0; c < d; ++c) e[c] *= (1.0 + 1e-3 * (double)(round % 3)) / sqrt(nn);
}

/* A run, and the memory that it owns. */
typedef struct live {
    pv_bandit it;
    int64_t ahead, size; /* directions at a time; doubles kept */
    double *kept, *work;
} live;

/* The directions of the coming rounds, in the form that callers of the kernel give them. */
static void look(live *l, int64_t d) {
    const int64_t first = l->it.steps + 1 + (l->it.used > 0);
    for (int64_t n = 0; n < l->ahead; ++n) direction_of(first + n, d, l->it.directions + n * d);
    l->it.filled = l->ahead;
    l->it.used = 0;
}

static live begin(const pv_bandit_plan *plan, int64_t ahead) {
    const pv_plan *p = &plan->run;
    const int64_t d = p->d;
    const int64_t numbers = plan->report.d;
    live l = {.ahead = ahead, .size = numbers + (7 + ahead) * d, .work = doubles(3 * d)};
    l.kept = doubles(l.size);
    for (int64_t j = 0; j < l.size; ++j) l.kept[j] = 0.0;
    double *const at = l.kept + numbers;
    l.it = (pv_bandit){.run = {.work = l.work, .released = at, .released_sum = at + d},
                       .value = l.kept,
                       .point = at + 2 * d,
                       .direction = at + 3 * d,
                       .sum = at + 4 * d,
                       .asked = at + 5 * d,
                       .directions = at + 7 * d};
    l.it.run.next_release = pv_next_release(p, 0, &l.it.run.list_position);
    look(&l, d);
    pv_bandit_begin(&l.it, plan);
    CHECK(l.it.used == 1 && l.it.steps == 0);
    return l;
}

static void end(live *l) { free(l->kept), free(l->work); }

/* A copy of everything except scratch, and whether anything has changed since. */
static live keep(const live *l) {
    live kept;
    memcpy(&kept, l, sizeof kept);
    kept.kept = doubles(l->size);
    kept.work = NULL;
    memcpy(kept.kept, l->kept, (size_t)l->size * sizeof(double));
    return kept;
}

static int unchanged(const live *l, const live *kept) {
    return memcmp(&l->it, &kept->it, sizeof(pv_bandit)) == 0 &&
           memcmp(l->kept, kept->kept, (size_t)l->size * sizeof(double)) == 0;
}

/* Learn the available rows, answering all requests; see test_local.c. */
static void learn(live *l, const pv_bandit_plan *p, const pv_rows *rows, const double *y, buffers *b) {
    int64_t i = 0;
    int calls = 0;
    pv_status status;
    while ((status = pv_run(&l->it.run, &p->run, rows, y, &i, &b->draws, NULL)) != PV_OK) {
        const int64_t used = b->draws.used, done = i;
        CHECK(++calls < 10000);
        live kept = keep(l);
        CHECK(l->it.run.pending);
        CHECK(pv_run(&l->it.run, &p->run, rows, y, &i, &b->draws, NULL) == status && i == done);
        CHECK(unchanged(l, &kept) && b->draws.used == used);
        end(&kept);
        if (status == PV_NEED_FAR) {
            CHECK(l->it.used == l->it.filled);
            look(l, p->run.d);
        } else {
            serve(b, &p->report, status, (uint64_t)l->it.run.t, (uint64_t)p->run.horizon);
        }
    }
    CHECK(i == rows->n && !l->it.run.pending);
}

/* The loss of row t of the task at a point, and whether the row is null. */
static int value_at(const task *k, int64_t t, const double *w, double *value) {
    const pv_plan *p = &k->plan.run;
    const int64_t d = p->d, n = d - p->intercept;
    const double *x = k->x + (t - 1) * n, given = k->y[t - 1];
    int null = isnan(given);
    long double nn = 0, score = p->intercept ? w[d - 1] : 0.0;
    for (int64_t j = 0; j < n; ++j) null |= !(fabs(x[j]) <= 1e150);
    *value = 0.0;
    if (null) return 1;
    for (int64_t j = 0; j < n; ++j) nn += (long double)x[j] * x[j];
    for (int64_t j = 0; j < n; ++j) score += x[j] / fmaxl(1.0L, sqrtl(nn)) * w[j];
    const double y = p->signs ? (given > 0.0 ? 1.0 : -1.0) : fmin(fmax(given, -p->y_bound), p->y_bound);
    *value = p->loss.value(&p->loss, (double)score, y);
    return 0;
}

static double between(double x, double least, double most) { return fmin(fmax(x, least), most); }

/* The randomized number for values at distance far. */
static double number_of(const pv_bandit_plan *p, const double *values, double far) {
    const double first = between(values[0], p->low, p->high), bound = p->report.bound;
    if (!p->pair) return between(first - (p->low + p->high) / 2.0, -bound, bound);
    return between((first - between(values[1], p->low, p->high)) / (2.0 * far), -bound, bound);
}

/* Likewise, where the direction is e; for a null row. */
static void secret_of(const pv_bandit_plan *p, int null, const double *values, double far, const double *e, double *v) {
    double nn = 0.0;
    for (int64_t j = 0; j < p->report.d; ++j) {
        v[j] = null       ? 0.0
               : p->whole ? between(values[0], p->low, p->high) * e[j] / far * (double)p->run.d
                          : number_of(p, values, far);
        nn += v[j] * v[j];
    }
    if (sqrt(nn) > p->report.bound)
        for (int64_t j = 0; j < p->report.d; ++j) v[j] *= p->report.bound / sqrt(nn);
}

static double far_of(const pv_bandit_plan *p, int64_t round) {
    const double t = (double)round;
    return fmin(p->most, p->distance / (p->fixed ? 1.0 : p->pair ? sqrt(t) : sqrt(sqrt(t))));
}

enum { ROWS, TOLD, RECEIVED };

/* The requested points in every round except the first, and the points after every row; for blocks: after the last.
 * */
static void run(const task *k, int64_t block, int64_t capacity, int64_t ahead, int level, int how, double *points,
                double *asked, double *sum) {
    const pv_bandit_plan *p = &k->plan;
    const int64_t d = p->run.d, m = p->pair ? 2 * d : d;
    const size_t one_point = (size_t)d * sizeof(double), all_asked = (size_t)m * sizeof(double);
    const pv_rows none = {.n = 0, .d = k->rows.d, .ops = k->rows.ops};
    live l = begin(p, ahead);
    buffers b;
    open_buffers(&b, &p->report, capacity, level);
    for (int64_t at = 0; at < N; at += block) {
        const int64_t n = block < N - at ? block : N - at;
        if (how == ROWS) {
            pv_rows rows = k->rows;
            rows.n = n;
            rows.data += at * rows.row_stride;
            learn(&l, p, &rows, k->y + at, &b);
        } else { /* by another caller, at the requested points */
            double values[2] = {0.0, 0.0};
            int null = value_at(k, at + 1, l.it.asked, values);
            if (p->pair) null |= value_at(k, at + 1, l.it.asked + d, values + 1);
            if (how == TOLD) {
                CHECK(pv_bandit_tell(&l.it, p, null ? NULL : values) == PV_OK);
                learn(&l, p, &none, NULL, &b);
            } else {
                double *v = doubles(p->report.d), *report = doubles(p->report.d);
                secret_of(p, null, values, far_of(p, at + 1), l.it.direction, v);
                report_of(&p->report, (uint64_t)at + 1, v, report);
                if (l.it.used == l.it.filled) {
                    live kept = keep(&l);
                    CHECK(pv_bandit_receive(&l.it, p, report, pv_vectors_at(level)) == PV_NEED_FAR &&
                          unchanged(&l, &kept));
                    end(&kept);
                    look(&l, d);
                }
                CHECK(pv_bandit_receive(&l.it, p, report, pv_vectors_at(level)) == PV_OK);
                free(v), free(report);
            }
        }
        if (block == 1) memcpy(points + at * d, l.it.point, one_point), memcpy(asked + at * m, l.it.asked, all_asked);
        CHECK(l.it.run.t == at + n && l.it.steps == at + n && l.it.run.spent == p->cost); /* charged once */
        for (int64_t j = 0; j < p->report.d; ++j) CHECK(l.it.value[j] == 0.0);            /* nothing secret remains */
    }
    if (block > 1)
        memcpy(points + (N - 1) * d, l.it.point, one_point), memcpy(asked + (N - 1) * m, l.it.asked, all_asked);
    memcpy(sum, l.it.run.released_sum, one_point);
    CHECK(l.it.run.n_released == N / EVERY);
    CHECK(l.it.run.n_null == (how == RECEIVED ? 0 : k->null) && l.it.run.n_clipped == (how == ROWS ? k->beyond : 0));
    int64_t i = 0;
    CHECK(pv_run(&l.it.run, &p->run, &none, NULL, &i, &b.draws, NULL) == PV_OK && l.it.run.t == N);
    CHECK(pv_run(&l.it.run, &p->run, &k->rows, k->y, &i, &b.draws, NULL) == PV_HORIZON && i == 0 && l.it.run.t == N);
    CHECK(how == RECEIVED || !p->run.noisy || b.refills > 0);
    close_buffers(&b);
    end(&l);
}

/* The same points from the definitions; returns how many numbers were clipped. */
static int64_t twin(const task *k, double *points, double *asked, double *sum) {
    const pv_bandit_plan *p = &k->plan;
    const int64_t d = p->run.d, m = p->pair ? 2 * d : d;
    double *w = doubles(d), *theta = doubles(d), *e = doubles(d), *at = doubles(m), *work = doubles(2 * d);
    double *v = doubles(p->report.d), *report = doubles(p->report.d);
    const int64_t size = pv_row_words(p->report.d);
    unsigned char *addresses = buffer(size, 8), *words = buffer(size, 8);
    const double h = pv_lattice_step(p->report.scale);
    int64_t clipped = 0;
    for (int64_t j = 0; j < d; ++j) w[j] = theta[j] = sum[j] = 0.0;
    for (int64_t t = 1; t <= N + 1; ++t) {
        const double far = far_of(p, t), shrunk = 1.0 - far / p->inner;
        double norm = 0.0, nn = 0.0, values[2] = {0.0, 0.0};
        direction_of(t, d, e);
        for (int64_t j = 0; j < d; ++j) norm += e[j] * e[j];
        for (int64_t j = 0; j < d; ++j) {
            e[j] /= sqrt(norm);
            at[j] = shrunk * w[j] + far * e[j];
            if (p->pair) at[d + j] = shrunk * w[j] - far * e[j];
        }
        if (t > 1) memcpy(asked + (t - 2) * m, at, (size_t)m * sizeof(double));
        if (t > N) break;
        int null = value_at(k, t, at, values);
        if (p->pair) null |= value_at(k, t, at + d, values + 1);
        secret_of(p, null, values, far, e, v);
        for (int64_t j = 0; j < p->report.d; ++j) nn += v[j] * v[j];
        clipped += sqrt(nn) >= p->report.bound * (1.0 - 1e-14);
        if (p->report.kind == PV_REPORT_GAUSSIAN) {
            pv_address_row(addresses, 9, (uint64_t)t, p->report.d);
            fill_words(&p->report, words, addresses, size);
            for (int64_t j = 0; j < p->report.d; ++j)
                report[j] = h * nearbyint((v[j] + p->report.scale * gaussian_of(pv_word(words + 8 * j))) / h);
        } else {
            report_of(&p->report, (uint64_t)t, v, report);
        }
        const double next = (double)t + 1.0, power = p->fixed  ? 1.0
                                                     : p->pair ? sqrt(next)
                                                               : sqrt(next) * sqrt(sqrt(next));
        for (int64_t j = 0; j < d; ++j) {
            theta[j] -= shrunk * (p->whole ? report[j] : (double)d / (p->pair ? 1.0 : far) * report[0] * e[j]);
            w[j] = p->length / power * theta[j];
        }
        pv_project(&p->run.set, w, d, work);
        memcpy(points + (t - 1) * d, w, (size_t)d * sizeof(double));
        if (t % EVERY == 0)
            for (int64_t j = 0; j < d; ++j) sum[j] += w[j];
    }
    free(w), free(theta), free(e), free(at), free(work), free(v), free(report), free(addresses), free(words);
    return clipped;
}

static int same(const double *a, const double *b, int64_t n) { return memcmp(a, b, (size_t)n * sizeof(double)) == 0; }

static int64_t one(const task *k) {
    const pv_bandit_plan *p = &k->plan;
    const int64_t d = p->run.d, m = p->pair ? 2 * d : d;
    double *points = doubles(N * d), *expected = doubles(N * d), *again = doubles(N * d), *sum = doubles(d);
    double *asked = doubles(N * m), *elsewhere = doubles(N * m), *total = doubles(d), *other = doubles(d),
           *work = doubles(2 * d);
    double moved = 0.0;
    run(k, 1, 1, 3, pv_first_pass_levels() - 1, ROWS, points, asked, sum);
    const int64_t clipped = twin(k, expected, elsewhere, total);
    for (int64_t j = 0; j < N * d; ++j) {
        CHECK(fabs(points[j] - expected[j]) <= 1e-11 * (1.0 + fabs(expected[j])));
        moved += fabs(points[j]);
    }
    CHECK(moved > 1e-3 * (double)N); /* the comparison was not empty */
    for (int64_t j = 0; j < N * m; ++j) CHECK(fabs(asked[j] - elsewhere[j]) <= 1e-11 * (1.0 + fabs(elsewhere[j])));
    for (int64_t j = 0; j < d; ++j) {
        CHECK(fabs(sum[j] - total[j]) <= 1e-10 * (1.0 + fabs(total[j])));
        digest(points[(N - 1) * d + j]), digest(asked[(N - 1) * m + j]), digest(sum[j]);
    }
    if (isfinite(p->inner)) /* the requested points are in the set */
        for (int64_t j = 0; j < N * m; j += d) {
            memcpy(other, asked + j, (size_t)d * sizeof(double));
            pv_project(&p->run.set, other, d, work);
            for (int64_t c = 0; c < d; ++c) CHECK(fabs(other[c] - asked[j + c]) <= 1e-14);
        }
    static const int64_t blocks[] = {7, N}, capacities[] = {3, 200}, aheads[] = {1, 100};
    for (int64_t n = 0; n < LENGTH(blocks); ++n)
        for (int level = 0; level < pv_first_pass_levels(); ++level) {
            run(k, blocks[n], capacities[n], aheads[n], level, ROWS, again, elsewhere, other);
            CHECK(same(again + (N - 1) * d, points + (N - 1) * d, d) && same(other, sum, d));
            CHECK(same(elsewhere + (N - 1) * m, asked + (N - 1) * m, m));
        }
    for (int how = TOLD; how <= RECEIVED; ++how) { /* another order of summation, so nearly the same bits */
        run(k, 1, 2, how == TOLD ? 1 : 4, 0, how, again, elsewhere, other);
        for (int64_t j = 0; j < N * d; ++j) CHECK(fabs(points[j] - again[j]) <= 1e-11 * (1.0 + fabs(points[j])));
        for (int64_t j = 0; j < N * m; ++j) CHECK(fabs(asked[j] - elsewhere[j]) <= 1e-11 * (1.0 + fabs(asked[j])));
    }
    free(points), free(expected), free(again), free(sum), free(asked), free(elsewhere), free(total), free(other),
        free(work);
    return clipped;
}

static void every_set_and_report(void) {
    static const int64_t sizes[] = {1, 2, 9, 33};
    static const int sets[] = {PV_L2_BALL, PV_L1_BALL, PV_BOX, PV_WHOLE_SPACE};
    static const pv_report_kind kinds[] = {PV_REPORT_PLAIN, PV_REPORT_GAUSSIAN, PV_REPORT_LAPLACE, PV_REPORT_SIGN,
                                           PV_REPORT_L2_LAPLACE};
    int64_t clipped = 0;
    int turn = 0;
    for (int shape = 0; shape < 6; ++shape)
        for (int64_t s = 0; s < LENGTH(sets); ++s)
            for (int64_t n = 0; n < LENGTH(sizes); ++n)
                for (int code = turn % 2; code < PV_LOSS_COUNT; code += 2, ++turn) {
                    const int64_t d = sizes[n];
                    const pv_report_kind kind = kinds[turn % LENGTH(kinds)];
                    task k = shape < 4 ? make(d, turn % 3 == 0, code, sets[s], kind, shape % 2, shape / 2)
                                       : make_whole(d, turn % 3 == 0, code, sets[s], kind, shape % 2);
                    clipped += one(&k);
                    drop(&k);
                }
    CHECK(clipped > 1000); /* numbers at their bound were among them */
}

/* For a linear loss <c, w>, a pair's reports without noise add up over orthonormal directions to d c. */
static void estimates(void) {
    enum { D = 6 };
    double c[D], values[2];
    for (int j = 0; j < D; ++j) c[j] = 0.3 * random_unit();
    task k = make(D, 0, PV_ABSOLUTE, PV_WHOLE_SPACE, PV_REPORT_PLAIN, 1, 1);
    const pv_rows none = {.n = 0};
    k.plan.low = -100.0, k.plan.high = 100.0, k.plan.report.bound = 10.0;
    live l = begin(&k.plan, D + 1);
    for (int j = 0; j < D * (D + 1); ++j) l.it.directions[j] = j % (D + 1) == 0; /* the axes, and the first again */
    for (int j = 0; j < D; ++j) l.it.directions[D * D + j] = j == 0;
    l.it.used = 0;
    pv_bandit_begin(&l.it, &k.plan);
    buffers b;
    open_buffers(&b, &k.plan.report, 1, 0);
    for (int t = 0; t < D; ++t) {
        values[0] = values[1] = 0.0;
        for (int j = 0; j < D; ++j) values[0] += c[j] * l.it.asked[j], values[1] += c[j] * l.it.asked[D + j];
        CHECK(pv_bandit_tell(&l.it, &k.plan, values) == PV_OK);
        learn(&l, &k.plan, &none, NULL, &b);
    }
    for (int j = 0; j < D; ++j) CHECK(fabs(l.it.sum[j] + (double)D * c[j]) <= 1e-13);
    close_buffers(&b);
    end(&l);
    drop(&k);
}

static double broken_value(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p;
    return y > 0.89 ? (double)NAN : 0.25;
}

/* Given values: NaN is refused and nothing is learnt; infinite and huge ones count as the ends of the interval. */
static void told(int pair) {
    static const double given[][2] = {
        {HUGE_VAL, -HUGE_VAL}, {1e308, -1e308}, {-HUGE_VAL, HUGE_VAL}, {0.6, 0.6}, {5e-324, 0.0}};
    task k = make(3, 0, PV_ABSOLUTE, PV_L2_BALL, PV_REPORT_PLAIN, pair, 0);
    const pv_rows none = {.n = 0};
    buffers b;
    open_buffers(&b, &k.plan.report, 1, 0);
    live l = begin(&k.plan, 20);
    for (int64_t n = 0; n < LENGTH(given); ++n) {
        const double nan_first[2] = {(double)NAN, 0.5}, nan_second[2] = {0.5, (double)NAN};
        live kept = keep(&l);
        CHECK(pv_bandit_tell(&l.it, &k.plan, nan_first) == PV_NOT_FINITE && unchanged(&l, &kept));
        if (pair) CHECK(pv_bandit_tell(&l.it, &k.plan, nan_second) == PV_NOT_FINITE && unchanged(&l, &kept));
        end(&kept);
        const double far = far_of(&k.plan, n + 1), number = number_of(&k.plan, given[n], far);
        const double end_of = pair ? k.plan.report.bound : 0.5 * (k.plan.high - k.plan.low);
        CHECK(n >= 3 || fabs(fabs(number) - end_of) <= 1e-15);
        double before[3], e[3];
        memcpy(before, l.it.sum, sizeof before);
        memcpy(e, l.it.direction, sizeof e);
        CHECK(pv_bandit_tell(&l.it, &k.plan, given[n]) == PV_OK && fabs(*l.it.value - number) <= 1e-15);
        learn(&l, &k.plan, &none, NULL, &b);
        const double factor = (1.0 - far / k.plan.inner) * 3.0 / (pair ? 1.0 : far) * number;
        for (int j = 0; j < 3; ++j) CHECK(fabs(l.it.sum[j] - (before[j] - factor * e[j])) <= 1e-14);
    }
    CHECK(l.it.run.n_null == 0 && l.it.run.n_clipped == 0);
    close_buffers(&b);
    end(&l);
    drop(&k);
}

static void stops(void) {
    static const pv_report_kind kinds[] = {PV_REPORT_GAUSSIAN, PV_REPORT_LAPLACE, PV_REPORT_L2_LAPLACE, PV_REPORT_SIGN};
    static const double scales[] = {0.0, -1.0, 1e-300, 1e300, HUGE_VAL, (double)NAN};
    task k = make(4, 0, PV_ABSOLUTE, PV_L2_BALL, PV_REPORT_PLAIN, 0, 0);
    for (int64_t i = 0; i < N; ++i) k.y[i] = i == 2 ? 0.9 : 0.0;
    pv_rows rows = k.rows;
    buffers b;
    int64_t i = 0;
    /* a user's loss that returns NaN ends the run at its row, before its report is made */
    k.plan.run.loss.value = broken_value;
    k.plan.run.loss.user = &k;
    open_buffers(&b, &k.plan.report, 1, 0);
    live l = begin(&k.plan, 9);
    CHECK(pv_run(&l.it.run, &k.plan.run, &k.rows, k.y, &i, &b.draws, NULL) == PV_NOT_FINITE && i == 3);
    CHECK(l.it.steps == 2 && l.it.run.n_released == 0 && *l.it.value == 0.0);
    end(&l);
    /* without a user's loss to report it, the row's value is the largest: a row never causes an error */
    k.plan.run.loss.user = NULL;
    double sums[2][4];
    for (int nan = 0; nan < 2; ++nan) {
        l = begin(&k.plan, 9);
        rows.n = 2;
        rows.data = k.rows.data;
        learn(&l, &k.plan, &rows, k.y, &b);
        rows.n = nan;
        rows.data += 2 * rows.row_stride;
        if (nan) {
            learn(&l, &k.plan, &rows, k.y + 2, &b);
        } else {
            CHECK(pv_bandit_tell(&l.it, &k.plan, &k.plan.high) == PV_OK);
            learn(&l, &k.plan, &rows, NULL, &b);
        }
        memcpy(sums[nan], l.it.sum, sizeof sums[nan]);
        end(&l);
    }
    CHECK(same(sums[0], sums[1], 4) && sums[0][0] != 0.0);
    /* no rows: nothing happens */
    l = begin(&k.plan, 9);
    live kept = keep(&l);
    rows.n = i = 0;
    CHECK(pv_run(&l.it.run, &k.plan.run, &rows, NULL, &i, &b.draws, NULL) == PV_OK && unchanged(&l, &kept));
    end(&kept), end(&l), close_buffers(&b);
    /* never a report without its noise, whatever the plan says */
    for (int64_t n = 0; n < LENGTH(kinds); ++n)
        for (int64_t m = 0; m < LENGTH(scales); ++m) {
            k.plan.report = report_plan(kinds[n], 1, 0.5, 1.0);
            open_buffers(&b, &k.plan.report, 1, 0);
            b.draws.rows[0] = 1;
            b.draws.filled = 1;
            memset(b.draws.words, 1, (size_t)pv_row_words(k.plan.report.words) * 8);
            k.plan.report.scale = scales[m];
            l = begin(&k.plan, 9);
            const double value = 0.4;
            CHECK(pv_bandit_tell(&l.it, &k.plan, &value) == PV_OK);
            kept = keep(&l);
            CHECK(pv_run(&l.it.run, &k.plan.run, &rows, NULL, &i, &b.draws, NULL) == PV_NOT_FINITE);
            CHECK(unchanged(&l, &kept) && l.it.run.pending && l.it.steps == 0 && l.it.run.spent == 0.0);
            end(&kept), end(&l), close_buffers(&b);
        }
    drop(&k);
}

/* Reports as large as are accepted: points stay finite and in their set, and so do requested points. */
static void extremes(void) {
    static const double reports[] = {1e150, -1e150, 1e100, 5e-324, 0.0, -0.0};
    static const int sets[] = {PV_L2_BALL, PV_L1_BALL, PV_BOX, PV_WHOLE_SPACE};
    for (int pair = 0; pair < 2; ++pair)
        for (int64_t s = 0; s < LENGTH(sets); ++s)
            for (int64_t n = 0; n < LENGTH(reports); ++n) {
                task k = make(5, 0, PV_SQUARED, sets[s], PV_REPORT_PLAIN, pair, 0);
                live l = begin(&k.plan, 12);
                double work[10], again[5];
                for (int t = 1; t <= 10; ++t) {
                    const double report = t % 4 ? reports[n] : -reports[n];
                    CHECK(pv_bandit_receive(&l.it, &k.plan, &report, pv_vectors_at(0)) == PV_OK);
                    for (int64_t at = 0; at <= pair; ++at) {
                        const double *asked = l.it.asked + 5 * at;
                        for (int j = 0; j < 5; ++j) {
                            CHECK(isfinite(l.it.point[j]) && isfinite(asked[j]));
                            CHECK(l.it.point[j] != 0.0 || bits_of(l.it.point[j]) == 0); /* never -0 */
                        }
                        memcpy(again, sets[s] == PV_WHOLE_SPACE ? l.it.point : asked, sizeof again);
                        pv_project(&k.plan.run.set, again, 5, work);
                        if (sets[s] != PV_WHOLE_SPACE)
                            for (int j = 0; j < 5; ++j) CHECK(fabs(again[j] - asked[j]) <= 1e-14);
                    }
                    if (reports[n] == 0.0)
                        for (int j = 0; j < 5; ++j) CHECK(l.it.point[j] == 0.0);
                }
                end(&l);
                drop(&k);
            }
}

int main(void) {
    for (int64_t j = 0; j < LENGTH(low); ++j) {
        low[j] = -0.1 - 0.01 * (double)j;
        high[j] = 0.15;
    }
    every_set_and_report();
    estimates();
    told(0);
    told(1);
    stops();
    extremes();
    return finish("bandit");
}
