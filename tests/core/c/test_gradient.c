/* Noisy gradient descent: its points against a plain loop, its requests for draws, given gradients, its stops. */
#include "check.h"
#include "noise/pv_bits.h"
#include "runs/pv_gradient.h"

enum { N = 120 };

static THREAD double low[64], high[64];

typedef struct task {
    pv_gradient_plan plan;
    pv_rows rows;
    double *x, *y;
} task;

static task make(int64_t d, int intercept, int code, int set, int64_t batch, double l2) {
    task k = {0};
    const int64_t features = d - intercept;
    k.x = random_doubles(N * features, 2.0 / sqrt((double)d));
    k.y = random_doubles(N, 1.5);
    for (int64_t i = 5; i < N; i += 37) k.y[i] = (double)NAN;
    k.rows = (pv_rows){.n = N, .d = features, .data = (const char *)k.x, .row_stride = 8 * features, .col_stride = 8};
    pv_rows_bind(&k.rows);
    pv_plan *p = &k.plan.run;
    pv_loss_bind(&p->loss, code, 0.5);
    p->method = &pv_gradient_method;
    p->set = (pv_set){.code = set, .size = 0.8, .low = low, .high = high};
    p->d = d;
    p->intercept = intercept;
    p->x_bound = 1.0;
    p->signs = code <= PV_SMOOTH_HINGE;
    p->y_bound = 0.9;
    p->noisy = 1;
    p->horizon = p->last_row = N;
    p->every = 3;
    k.plan.std = 0.05;
    k.plan.sensitivity = 2.0;
    k.plan.bound = 0.7;
    k.plan.batch = batch;
    k.plan.l2 = l2;
    k.plan.length = 0.3;
    p->magnitude = (double)batch;
    return k;
}

static void drop(task *k) { free(k->x), free(k->y); }

/* Any words will do: a fixed function of their address. */
static void fill(unsigned char *words, const unsigned char *addresses, int64_t count) {
    for (int64_t w = 0; w < count; ++w) {
        const unsigned char *pair = addresses + 16 * (w / 2);
        uint64_t word = mix(pv_word(pair) * 31 + mix(pv_word(pair + 8)) + (uint64_t)(w % 2));
        for (int b = 0; b < 8; ++b) words[8 * w + b] = (unsigned char)(word >> (8 * b));
    }
}

static void nearest(pv_undecided *open, double std) {
    for (int64_t c = 0; c < open->n; ++c)
        open->value[c] =
            nearbyint((open->x[c] + std * pv_lattice_value(PV_GAUSSIAN, open->word[c]).z) / pv_lattice_step(std));
    open->resolved = open->n;
}

/* Points after every row, in blocks, with room for `capacity` vectors' words. */
static void run(const task *k, int64_t block, int64_t capacity, int level, int told, double *points, double *sum) {
    const pv_gradient_plan *p = &k->plan;
    const int64_t d = p->run.d, size = pv_row_words(d);
    double *secret = doubles(d), *point = doubles(d), *work = doubles(3 * d), *released = doubles(d);
    double *gradient = doubles(d);
    for (int64_t j = 0; j < d; ++j) {
        secret[j] = sum[j] = 0.0;
        point[j] = released[j] = p->run.set.code == PV_SIMPLEX ? p->run.set.size / (double)d : 0.0;
    }
    pv_gradient it = {.run = {.work = work, .released = released, .released_sum = sum}, .sum = secret, .point = point};
    it.run.next_release = pv_next_release(&p->run, 0, &it.run.list_position);
    unsigned char *addresses = buffer(capacity * size, 8), *words = buffer(capacity * size, 8);
    pv_undecided und = {
        .capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d), .value = doubles(d)};
    pv_draws draws = {.words = words,
                      .rows = buffer(capacity, 8),
                      .capacity = capacity,
                      .undecided = &und,
                      .pass = pv_first_pass_level(level)};
    int64_t draws_made = 0;
    for (int64_t start = 0; start < N; start += block) {
        pv_rows rows = k->rows;
        rows.n = told ? 0 : (block < N - start ? block : N - start);
        rows.data += start * rows.row_stride;
        if (told) { /* the gradient of |p - y| / 2 that the loop would take itself */
            const double y = fmin(fmax(k->y[start], -0.9), 0.9), nn = pv_rows_norm(&k->rows, start);
            const double f = nn > 1.0 ? 1.0 / sqrt(nn) : 1.0;
            const double slope = p->run.loss.slope(&p->run.loss, pv_predict(point, &p->run, &k->rows, start, f), y);
            for (int64_t j = 0; j < d; ++j) gradient[j] = slope * f * k->x[start * d + j];
            pv_gradient_tell(&it, p, k->y[start] == k->y[start] ? gradient : NULL);
        }
        int64_t i = 0;
        pv_status status;
        while ((status = pv_run(&it.run, &p->run, &rows, k->y + start, &i, &draws, NULL)) != PV_OK) {
            CHECK(it.run.pending && (it.run.t % p->batch == 0 || it.run.t == N));
            if (status == PV_NEED_BITS) {
                int64_t n = p->run.method->upcoming(&it.run, &p->run, capacity, draws.rows);
                CHECK(n >= 1 && n <= capacity && draws.rows[0] == (uint64_t)it.run.t);
                for (int64_t m = 0; m < n; ++m) {
                    CHECK(draws.rows[m] <= N && (draws.rows[m] % (uint64_t)p->batch == 0 || draws.rows[m] == N));
                    CHECK(m == 0 || draws.rows[m] > draws.rows[m - 1]);
                    pv_address_row(addresses + m * size * 8, p->run.stream, draws.rows[m], d);
                }
                fill(words, addresses, n * size);
                draws.filled = n;
                draws.used = 0;
                draws_made += n;
            } else {
                CHECK(status == PV_UNDECIDED && draws.std == p->std && draws.rows[draws.used] == (uint64_t)it.run.t);
                nearest(&und, p->std);
            }
        }
        CHECK(!it.run.pending);
        if (block == 1) memcpy(points + start * d, point, (size_t)d * sizeof(double));
    }
    if (block > 1) memcpy(points + (N - 1) * d, point, (size_t)d * sizeof(double));
    CHECK(it.steps == (N + p->batch - 1) / p->batch && draws_made == (p->run.noisy ? it.steps : 0));
    CHECK(it.run.n_released == N / 3 && it.run.n_null == 4);
    const double ratio = p->sensitivity / p->std;
    CHECK(it.run.spent == (p->run.noisy ? ratio * ratio : 0.0)); /* once, whatever the number of steps */
    for (int64_t j = 0; j < d; ++j) CHECK(secret[j] == 0.0);
    pv_rows none = k->rows;
    int64_t i = 0;
    CHECK(pv_run(&it.run, &p->run, &none, k->y, &i, &draws, NULL) == PV_HORIZON && i == 0);
    free(secret), free(point), free(work), free(released), free(gradient), free(addresses), free(words);
    free(draws.rows), free(und.coord), free(und.word), free(und.x), free(und.value);
}

/* The same points from the definition. */
static void twin(const task *k, double *points) {
    const pv_gradient_plan *p = &k->plan;
    const int64_t d = p->run.d, features = d - p->run.intercept, n = pv_row_words(d);
    double *w = doubles(d), *s = doubles(d), *v = doubles(d), *work = doubles(2 * d);
    unsigned char *addresses = buffer(n, 8), *words = buffer(n, 8);
    for (int64_t j = 0; j < d; ++j) {
        w[j] = p->run.set.code == PV_SIMPLEX ? p->run.set.size / (double)d : 0.0;
        s[j] = 0.0;
    }
    int64_t m = 0, steps = 0;
    const double h = pv_lattice_step(p->std);
    for (int64_t t = 1; t <= N; ++t, points += d) {
        const double *x = k->x + (t - 1) * features, given = k->y[t - 1];
        double nn = 0.0, b = 0.0, q = 0.0;
        for (int64_t j = 0; j < features; ++j) nn += x[j] * x[j];
        for (int64_t j = 0; j < d; ++j) {
            v[j] = j < features ? x[j] / fmax(1.0, sqrt(nn)) : 1.0;
            b += w[j] * v[j];
            q += v[j] * v[j];
        }
        const double y = p->run.signs ? (given > 0.0 ? 1.0 : -1.0) : fmin(fmax(given, -0.9), 0.9);
        double g = isnan(given) ? 0.0 : p->run.loss.slope(&p->run.loss, b, y);
        if (fabs(g) * sqrt(q) > p->bound) g *= p->bound / (fabs(g) * sqrt(q));
        for (int64_t j = 0; j < d; ++j) s[j] += g * v[j];
        ++m;
        if (t % p->batch == 0 || t == N) {
            ++steps;
            pv_address_row(addresses, p->run.stream, (uint64_t)t, d);
            fill(words, addresses, n);
            const double eta = p->l2 > 0.0 ? 1.0 / (p->l2 * (double)steps) : p->length / sqrt((double)steps);
            for (int64_t j = 0; j < d; ++j) {
                const double z = pv_lattice_value(PV_GAUSSIAN, pv_word(words + 8 * j)).z;
                if (p->run.noisy) s[j] = h * nearbyint((s[j] + p->std * z) / h);
                w[j] -= eta * (s[j] / (double)m + p->l2 * w[j]);
                s[j] = 0.0;
            }
            pv_project(&p->run.set, w, d, work);
            m = 0;
        }
        memcpy(points, w, (size_t)d * sizeof(double));
    }
    free(w), free(s), free(v), free(work), free(addresses), free(words);
}

static void one(const task *k) {
    const int64_t d = k->plan.run.d, size = N * d;
    double *points = doubles(size), *expected = doubles(size), *again = doubles(size);
    double *sum = doubles(d), *other = doubles(d);
    run(k, 1, 1, pv_first_pass_levels() - 1, 0, points, sum);
    twin(k, expected);
    for (int64_t j = 0; j < size; ++j) CHECK(fabs(points[j] - expected[j]) <= 1e-12);
    for (int64_t j = 0; j < d; ++j) digest(points[size - d + j]), digest(sum[j]);
    static const int64_t blocks[] = {7, 64, N}, capacities[] = {3, 1, 500};
    for (int64_t n = 0; n < LENGTH(blocks); ++n)
        for (int level = 0; level < pv_first_pass_levels(); ++level) {
            run(k, blocks[n], capacities[n], level, 0, again, other);
            CHECK(memcmp(again + size - d, points + size - d, (size_t)d * sizeof(double)) == 0);
            CHECK(memcmp(other, sum, (size_t)d * sizeof(double)) == 0);
        }
    free(points), free(expected), free(again), free(sum), free(other);
}

static void every_loss_and_set(void) {
    static const int64_t sizes[] = {2, 9, 55}, batches[] = {1, 4, 50, 1000};
    int turn = 0;
    for (int code = 0; code < PV_LOSS_COUNT; ++code)
        for (int set = 0; set < PV_SET_COUNT; ++set)
            for (int64_t n = 0; n < LENGTH(sizes); ++n, ++turn) {
                task k = make(sizes[n], turn % 2, code, set, batches[turn % 4], turn % 3 ? 0.0 : 0.4);
                k.plan.run.noisy = turn % 5 != 4;
                one(&k);
                drop(&k);
            }
}

static void told(void) {
    task k = make(6, 0, PV_ABSOLUTE, PV_L2_BALL, 4, 0.0);
    double points[6 * N], again[6 * N], sum[6], other[6];
    run(&k, 1, 2, 0, 0, points, sum);
    run(&k, 1, 2, 0, 1, again, other);
    for (int64_t j = 0; j < 6 * N; ++j) CHECK(fabs(points[j] - again[j]) <= 1e-13);
    drop(&k);
}

static double broken_slope(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p;
    return y > 0.89 ? (double)NAN : 0.5;
}

static void stops(void) {
    task k = make(4, 0, PV_ABSOLUTE, PV_L2_BALL, 4, 0.0);
    for (int64_t i = 0; i < N; ++i) k.y[i] = i == 2 ? 0.9 : 0.0;
    k.plan.run.loss.slope = broken_slope;
    double s[4] = {0}, w[4] = {0}, work[12], released[4] = {0}, sum[4] = {0};
    pv_gradient it = {
        .run = {.work = work, .released = released, .released_sum = sum, .next_release = 3}, .sum = s, .point = w};
    unsigned char words[32] = {1};
    uint64_t row = 4;
    pv_draws draws = {.words = words, .rows = &row, .capacity = 1, .filled = 1};
    int64_t i = 0;
    CHECK(pv_run(&it.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NOT_FINITE && i == 3);
    CHECK(it.steps == 0 && it.run.n_released == 0);
    /* never a step without its noise, whatever the plan says */
    static const double stds[] = {0.0, 1e-300, 1e300, (double)NAN};
    for (int64_t n = 0; n < LENGTH(stds); ++n) {
        pv_gradient fresh = {
            .run = {.work = work, .released = released, .released_sum = sum, .next_release = 4}, .sum = s, .point = w};
        k.plan.std = stds[n];
        k.plan.run.loss.slope = k.plan.run.loss.value;
        i = 0;
        CHECK(pv_run(&fresh.run, &k.plan.run, &k.rows, k.y, &i, &draws, NULL) == PV_NOT_FINITE && i == 4);
        CHECK(fresh.steps == 0 && fresh.run.n_released == 0 && w[0] == 0.0);
    }
    drop(&k);
}

int main(void) {
    for (int64_t j = 0; j < LENGTH(low); ++j) {
        low[j] = -0.1 - 0.01 * (double)j;
        high[j] = 0.2;
    }
    every_loss_and_set();
    told();
    stops();
    return finish("gradient");
}
