/* Nodes that learn together: the sums of neighbours' messages against a plain loop; a network in one process and in
 * several, which exchange messages between rounds, with the same bits; blocks, levels and calls with requests. */
#include "reports.h"
#include "runs/pv_network.h"

enum { ROWS = 131, MOST = 7 };

typedef struct task {
    pv_network_plan plan;
    double *x, *y;
    int64_t *indptr, *columns;
    double *weights;
} task;

static const double low[64] = {-0.1, -0.2}, high[64] = {0.1, 0.2, 0.3};

/* A ring of m nodes whose weights alternate between two matrices; the plan of the whole. */
static task make(int64_t m, int64_t batch, int64_t d, pv_report_kind kind, pv_position position, pv_threshold threshold,
                 int set) {
    task k = {0};
    pv_network_plan *n = &k.plan;
    pv_plan *p = &n->run;
    const int64_t features = d - 1;
    k.x = random_doubles(ROWS * features, 2.0 / sqrt((double)d));
    k.y = random_doubles(ROWS, 1.0);
    k.y[7] = (double)NAN;
    if (features > 0) k.x[23 * features] = HUGE_VAL;
    pv_loss_bind(&p->loss, PV_LOGISTIC, 0.5);
    p->method = &pv_network_method;
    p->set = (pv_set){.code = set, .size = 0.8, .low = low, .high = high};
    p->d = d, p->intercept = 1, p->x_bound = 1.0, p->signs = 1, p->y_bound = 1.0, p->noisy = kind != PV_REPORT_PLAIN;
    p->horizon = ROWS;
    n->nodes = n->own = m;
    n->batch = batch;
    n->rounds = (ROWS + m * batch - 1) / (m * batch);
    p->every = 2, p->last_row = n->rounds;
    n->bound = 1.4;
    n->report = report_plan(kind, d, kind == PV_REPORT_CAP ? n->bound : 400.0, kind == PV_REPORT_CAP ? 2.0 : 0.3);
    n->cost = 0.25, n->variance = 0.09;
    n->position = position, n->pace = batch % 2 ? PV_ROOT : PV_INVERSE, n->length = 0.7, n->implicit = batch == 2;
    n->threshold = threshold, n->l1 = 0.1;
    k.indptr = buffer(2 * (m + 1), 8), k.columns = buffer(6 * m, 8), k.weights = doubles(6 * m);
    int64_t at = 0;
    for (int r = 0; r < 2; ++r)
        for (int64_t i = 0; i <= m; ++i) {
            k.indptr[r * (m + 1) + i] = at;
            if (i == m) continue;
            for (int64_t j = 0; j < m; ++j) {
                const int64_t apart = (i - j + m) % m;
                const int near = m > 1 && (apart == 1 || apart == m - 1);
                if (i != j && !near) continue;
                const double each = m == 2 ? 0.5 : r ? 0.25 : 1.0 / 3.0;
                k.columns[at] = j;
                k.weights[at++] = m == 1 ? 1.0 : i == j ? 1.0 - (m == 2 ? 1 : 2) * each : each;
            }
        }
    n->mixing = (pv_mixing){
        .first = 1, .rounds = 2, .periodic = 1, .indptr = k.indptr, .columns = k.columns, .weights = k.weights};
    return k;
}

static void drop(task *k) { free(k->x), free(k->y), free(k->indptr), free(k->columns), free(k->weights); }

/* Some nodes in a separate process. */
typedef struct live {
    pv_network_plan plan;
    pv_network it;
    buffers b;
    double *work, *released, *sum, *x, *y;
    int64_t *place;
    int64_t i; /* the row at which to continue */
    int heard;
} live;

static void begin(live *l, const task *k, int64_t first, int64_t own, int64_t capacity, int level) {
    const int64_t m = k->plan.nodes, d = k->plan.run.d, features = d - 1;
    memset(l, 0, sizeof(live));
    l->plan = k->plan;
    l->plan.first = first, l->plan.own = own;
    l->place = buffer(m, 8), l->plan.heard = buffer(m, sizeof(double *));
    l->x = doubles(ROWS * features), l->y = doubles(ROWS);
    int64_t rows = 0;
    for (int64_t r = 0; r < ROWS; ++r) {
        if (r % m < first || r % m >= first + own) continue;
        memcpy(l->x + rows * features, k->x + r * features, (size_t)features * 8);
        l->y[rows++] = k->y[r];
    }
    l->plan.run.horizon = rows;
    for (int64_t i = 0; i < m; ++i) {
        const int64_t here = i >= first && i < first + own;
        l->place[i] = here ? i - first : own + (i < first ? i : i - own); /* the others after them, in order */
    }
    l->plan.place = l->place;
    const int sparse = l->plan.threshold != PV_DENSE;
    l->work = doubles(3 * d), l->released = doubles(d), l->sum = doubles(d);
    l->it.run = (pv_state){.work = l->work, .released = l->released, .released_sum = l->sum};
    l->it.gradients = doubles(l->plan.batch == 1 ? d : own * d);
    l->it.sent = doubles(m * d), l->it.mixes = doubles(own * d), l->it.sums = doubles(own * d);
    l->it.models = sparse ? doubles(own * d) : l->it.mixes;
    l->it.spread = doubles(2 * m * m);
    memset(l->it.gradients, 0, (size_t)((l->plan.batch == 1 ? 1 : own) * d) * 8);
    memset(l->it.sums, 0, (size_t)(own * d) * 8);
    memset(l->it.spread, 0, (size_t)(2 * m * m) * 8);
    for (int64_t j = 0; j < d; ++j) l->released[j] = 0.0;
    pv_network_start(&l->it, &l->plan);
    pv_network_plan_release(&l->it, &l->plan);
    open_buffers(&l->b, &l->plan.report, capacity, level);
}

static void end(live *l) {
    if (l->it.models != l->it.mixes) free(l->it.models);
    free(l->it.gradients), free(l->it.sent), free(l->it.mixes), free(l->it.sums), free(l->it.spread);
    free(l->work), free(l->released), free(l->sum), free(l->x), free(l->y), free(l->place);
    free(l->plan.heard);
    close_buffers(&l->b);
}

/* Learn until messages of others are needed, or all rows are learnt; returns whether they are needed. */
static int learn(live *l, int64_t block) {
    const int64_t features = l->plan.run.d - 1, n = l->plan.run.horizon;
    for (;;) {
        pv_rows rows = {.n = block < n - l->it.run.t ? block : n - l->it.run.t,
                        .d = features,
                        .data = (const char *)(l->x + l->it.run.t * features),
                        .row_stride = 8 * features,
                        .col_stride = 8};
        pv_rows_bind(&rows);
        const double *y = l->y + l->it.run.t;
        if (rows.n == 0 && !l->it.run.pending) return 0;
        int64_t i = 0, calls = 0;
        for (;;) {
            const pv_status status = pv_run(&l->it.run, &l->plan.run, &rows, y, &i, &l->b.draws, NULL);
            if (status == PV_OK) break;
            CHECK(++calls < 100000);
            if (status == PV_NEED_FAR) {
                CHECK(pv_network_matrix(&l->it, &l->plan) != NULL && l->plan.own < l->plan.nodes);
                CHECK(l->it.node == l->plan.own && l->it.run.pending);
                return 1;
            }
            const pv_network before = l->it;
            const int64_t at = i;
            CHECK(pv_run(&l->it.run, &l->plan.run, &rows, y, &i, &l->b.draws, NULL) == status && i == at);
            CHECK(memcmp(&before, &l->it, sizeof(pv_network)) == 0); /* it repeats the request, and nothing has moved */
            serve(&l->b, &l->plan.report, status, pv_network_address(&l->it, &l->plan),
                  pv_network_address(&l->it, &l->plan) + (uint64_t)(l->plan.own - l->it.node - 1));
        }
    }
}

/* All rounds in some processes. */
static void run(live *parts, int count, int64_t block) {
    int going = 1;
    while (going) {
        going = 0;
        for (int k = 0; k < count; ++k) going += parts[k].heard = learn(&parts[k], block);
        CHECK(going == 0 || going == count);
        for (int k = 0; going && k < count; ++k) {
            live *to = &parts[k];
            const int64_t d = to->plan.run.d;
            for (int other = 0; other < count; ++other) {
                const live *from = &parts[other];
                CHECK(from->it.round == to->it.round);
                for (int64_t i = 0; other != k && i < from->plan.own; ++i)
                    memcpy(to->it.sent + to->place[from->plan.first + i] * d, from->it.sent + i * d, (size_t)d * 8);
            }
            to->it.exchanged = 1;
        }
    }
}

static void check_network(int64_t m, int64_t batch, int64_t d, pv_report_kind kind, pv_position position,
                          pv_threshold threshold, int set) {
    task k = make(m, batch, d, kind, position, threshold, set);
    live whole, other, parts[3];
    begin(&whole, &k, 0, m, 5, 0);
    run(&whole, 1, ROWS);
    CHECK(whole.it.round == k.plan.rounds && whole.it.node == 0 && whole.it.run.t == ROWS);
    CHECK(whole.it.run.n_released == k.plan.rounds / 2 && whole.it.run.spent == k.plan.cost);
    CHECK(whole.it.run.n_null == 1 + (d > 1));
    CHECK(whole.it.messages == (m == 1 ? 0 : m == 2 ? 2 : 2 * m) * k.plan.rounds);
    for (int64_t c = 0; c < (batch == 1 ? 1 : m) * d; ++c)
        CHECK(whole.it.gradients[c] == 0.0); /* nothing secret remains */
    for (int64_t c = 0; c < m * d; ++c) digest(whole.it.models[c]), digest(whole.it.sums[c]);
    for (int64_t c = 0; c < d; ++c) digest(whole.released[c]);

    begin(&other, &k, 0, m, 1, pv_first_pass_levels() - 1); /* other blocks, another level, one draw at a time */
    run(&other, 1, 3);
    CHECK(memcmp(other.it.models, whole.it.models, (size_t)(m * d) * 8) == 0);
    CHECK(memcmp(other.it.sums, whole.it.sums, (size_t)(m * d) * 8) == 0);
    CHECK(memcmp(other.released, whole.released, (size_t)d * 8) == 0);

    const int count = m >= 3 ? 3 : (int)m;
    int64_t first = 0;
    for (int j = 0; j < count; ++j) {
        const int64_t own = m / count + (j < m % count);
        begin(&parts[j], &k, first, own, 2, 0);
        first += own;
    }
    run(parts, count, ROWS);
    for (int j = 0; j < count; ++j) {
        const size_t size = (size_t)(parts[j].plan.own * d) * 8;
        CHECK(memcmp(parts[j].it.models, whole.it.models + parts[j].plan.first * d, size) == 0);
        CHECK(memcmp(parts[j].it.sums, whole.it.sums + parts[j].plan.first * d, size) == 0);
        CHECK(parts[j].it.network == whole.it.network && parts[j].it.messages == whole.it.messages);
        end(&parts[j]);
    }
    end(&whole), end(&other);
    drop(&k);
}

/* Sums of vectors against a plain loop, at every length and level. */
static void check_combine(void) {
    const uint64_t state = check_state; /* every level has the same problems: what follows depends on none of them */
    for (int level = 0; level < pv_first_pass_levels(); ++level) {
        check_state = state;
        const pv_vectors *vectors = pv_vectors_at(level);
        for (int64_t n = 0; n < 70; ++n)
            for (int64_t count = 1; count < 6; ++count) {
                double *weights = random_doubles(count, 1.0), *out = doubles(n);
                double *x[6];
                const double *given[6];
                for (int64_t j = 0; j < count; ++j) given[j] = x[j] = random_doubles(n, 1.0);
                vectors->combine(weights, given, count, out, n);
                for (int64_t c = 0; c < n; ++c) {
                    double sum = weights[0] * x[0][c];
                    for (int64_t j = 1; j < count; ++j) sum += weights[j] * x[j][c];
                    CHECK(out[c] == sum);
                    if (level == 0) digest(out[c]); /* levels are not the same everywhere */
                }
                for (int64_t j = 0; j < count; ++j) free(x[j]);
                free(weights), free(out);
            }
    }
}

int main(void) {
    check_combine();
    for (int64_t m = 1; m <= MOST; m += m < 3 ? 1 : 4)
        for (int64_t d = 1; d < 24; d += 7) {
            check_network(m, 1, d, PV_REPORT_GAUSSIAN, PV_BEFORE, PV_DENSE, PV_L2_BALL);
            check_network(m, 1, d, PV_REPORT_LAPLACE, PV_SCALED, PV_DENSE, PV_L2_BALL);
            check_network(m, 2, d, PV_REPORT_L2_LAPLACE, PV_BEFORE, PV_DENSE, PV_L2_BALL);
            check_network(m, 3, d, PV_REPORT_PLAIN, PV_AFTER, PV_DENSE, PV_L2_BALL);
            check_network(m, 1, d, PV_REPORT_GAUSSIAN, PV_AFTER, PV_DENSE, PV_L2_BALL);
            check_network(m, 1, d, PV_REPORT_GAUSSIAN, PV_BEFORE, PV_OF_NOISE, PV_WHOLE_SPACE);
            check_network(m, 3, d, PV_REPORT_LAPLACE, PV_BEFORE, PV_OF_STEPS, PV_WHOLE_SPACE);
            check_network(m, 1, d, PV_REPORT_PLAIN, PV_BEFORE, PV_OF_STEP, PV_WHOLE_SPACE);
            if (d > 1) check_network(m, 1, d, PV_REPORT_CAP, PV_BEFORE, PV_DENSE, PV_L2_BALL);
        }
    check_network(3, 1, 1100, PV_REPORT_PLAIN, PV_BEFORE, PV_OF_NOISE,
                  PV_WHOLE_SPACE); /* more than a block of columns */
    return finish("network");
}
