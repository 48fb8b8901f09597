/* Private prefix sums: every design against a twin that keeps all rows, for any cut of the stream and of the noise.
 * */
#include "check.h"
#include "noise/pv_bits.h"
#include "prefix/pv_prefix.h"

enum { N = 70, MOST = 2 * N, FIRST_STEP = 5 };

typedef struct task {
    pv_prefix_plan plan;
    double *x; /* rows as they arrive: some beyond the bound, some invalid */
    double theta[2], omega[2], coefficients[N], decoder[N];
} task;

static THREAD int level;
static THREAD double discount = 1.0; /* of the tasks that are made */
static THREAD int64_t window = 0;

static task make(pv_design design, int64_t width, int64_t leaf, int64_t horizon, int gram) {
    task k = {.theta = {0.9, 0.5}, .omega = {0.2, 0.15}};
    pv_prefix_plan *p = &k.plan;
    k.x = random_doubles(N * width, 2.0 / sqrt((double)width));
    for (int64_t i = 0; i < N; ++i)
        if (i % 11 == 7) k.x[i * width + i % width] = i % 2 ? (double)NAN : HUGE_VAL;
    k.coefficients[0] = 1.0;
    for (int i = 1; i < N; ++i) k.coefficients[i] = k.coefficients[i - 1] * (2.0 * i - 1.0) / (2.0 * i);
    for (int i = 0; i < N; ++i) /* as for sums that forget: any series will do here */
        k.decoder[i] = window && i >= window ? k.coefficients[i] - k.coefficients[i - window] : k.coefficients[i];
    p->design = design;
    p->width = width;
    p->gram = gram;
    p->dim = gram ? width * (width + 1) / 2 : width;
    p->leaf = leaf;
    p->horizon = horizon;
    p->steps = (horizon + leaf - 1) / leaf;
    p->discount = discount;
    p->window = window < p->steps ? window : 0;
    p->noisy = 1;
    p->std = 3.0;
    p->magnitude = 1e3;
    p->grid = 0x1p-30;
    p->shift = 21; /* h = 2^-9 */
    p->bound = 1.0;
    p->order = 7;
    if (design == PV_SMOOTH) p->order = 4; /* binomial(8, 4) = 70 words, 69 steps; 9 bits for 70 */
    if (design == PV_BLT) p->order = 2;
    if (design == PV_BANDED) {
        p->order = 5;
        for (int i = 0; i < N; ++i) k.decoder[i] = -k.coefficients[i];
    }
    return k;
}

/* The plan of a copy points into the copy. */
static void bind(task *k) {
    k->plan.theta = k->theta;
    k->plan.omega = k->omega;
    k->plan.coefficients = k->coefficients;
    k->plan.decoder = k->decoder;
}

static void fill(unsigned char *words, const unsigned char *addresses, int64_t count) {
    for (int64_t w = 0; w < count; ++w) {
        const unsigned char *pair = addresses + 16 * (w / 2);
        uint64_t word = mix(pv_word(pair) * 31 + mix(pv_word(pair + 8)) + (uint64_t)(w % 2));
        if (word % 251 == 0) word >>= 40; /* the far tail, outside the table */
        for (int b = 0; b < 8; ++b) words[8 * w + b] = (unsigned char)(word >> (8 * b));
    }
}

static double noise_of(uint64_t word) {
    const double z = pv_lattice_value(PV_GAUSSIAN, word).z;
    return isinf(z) ? (word >> 63 ? -7.0 : 7.0) : z;
}

typedef struct result {
    double *out;    /* after every row */
    uint64_t *rows; /* address rows in the order of use */
    int64_t used, undecided;
} result;

static void drop(result *r) { free(r->out), free(r->rows); }

/* Run in blocks, with room for the words of `capacity` draws; moved to other memory between blocks if `move`. */
static result run(task *k, int64_t block, int64_t capacity, int move) {
    bind(k);
    const pv_prefix_plan *p = &k->plan;
    const int64_t d = p->dim, row_words = pv_row_words(d);
    const size_t size = pv_prefix_size(p);
    CHECK(pv_prefix_secret_size(p) < size);
    double *memory = calloc(size, sizeof(double));
    pv_prefix s;
    pv_prefix_bind(&s, p, memory);
    s.first_step = FIRST_STEP;
    result r = {.out = doubles(N * d), .rows = buffer(8 * MOST, 8)};
    unsigned char *addresses = buffer(capacity * row_words, 8), *words = buffer(capacity * row_words, 8);
    pv_undecided und = {
        .capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d), .value = doubles(d)};
    pv_draws draws = {.words = words,
                      .rows = buffer(capacity, 8),
                      .capacity = capacity,
                      .undecided = &und,
                      .pass = pv_first_pass_level(level)};
    for (int64_t start = 0; start < p->horizon; start += block) {
        pv_rows rows = {.n = block < p->horizon - start ? block : p->horizon - start,
                        .d = p->width,
                        .data = (const char *)(k->x + start * p->width),
                        .row_stride = 8 * p->width,
                        .col_stride = 8};
        pv_rows_bind(&rows);
        int64_t i = 0, written = 0;
        for (;;) {
            const pv_status status = pv_prefix_run(&s, &rows, &i, &written, &draws, r.out + start * d);
            if (status == PV_OK) break;
            if (status == PV_NEED_BITS) {
                const int64_t n = pv_prefix_upcoming(&s, capacity, draws.rows);
                CHECK(n > 0 && n <= capacity && draws.rows[0] == pv_prefix_row(&s));
                for (int64_t m = 0; m < n; ++m) {
                    pv_address_row(addresses + 8 * m * row_words, 0, draws.rows[m], d);
                    CHECK(draws.rows[m] / PV_STEP_DRAWS <= (uint64_t)(FIRST_STEP + p->steps));
                }
                fill(words, addresses, n * row_words);
                draws.filled = n;
                draws.used = 0;
            } else if (status == PV_NEED_FAR) {
                for (int64_t m = 0; m < p->block * d; ++m) s.far[m] = s.noisy_far[m] = 0.0;
                for (int64_t step = 0; step < s.made; ++step)
                    for (int64_t m = 0; m < p->block && s.made + m < p->steps; ++m)
                        for (int64_t c = 0; c < d; ++c) {
                            const int64_t lag = s.made + m - step;
                            s.far[m * d + c] += p->coefficients[lag] * s.past[step * d + c];
                            s.noisy_far[m * d + c] += p->decoder[lag] * s.noisy_past[step * d + c];
                        }
                s.far_step = s.made;
            } else {
                CHECK(status == PV_UNDECIDED);
                ++r.undecided;
                const double h = pv_lattice_step(p->std);
                for (int64_t m = 0; m < und.n; ++m)
                    und.value[m] = nearbyint((und.x[m] + p->std * noise_of(und.word[m])) / h);
                und.resolved = und.n;
            }
        }
        CHECK(written == rows.n && i == rows.n && s.rows == start + rows.n && !s.due && s.made == s.step);
        if (move) {
            double *other = buffer((int64_t)size, sizeof(double));
            memcpy(other, memory, size * sizeof(double));
            memset(memory, 0xff, size * sizeof(double));
            free(memory);
            memory = other;
            const pv_prefix before = s;
            pv_prefix_bind(&s, p, memory);
            s.first_step = FIRST_STEP;
            s.rows = before.rows, s.step = before.step, s.made = before.made, s.in_leaf = before.in_leaf;
            s.far_step = before.far_step;
            s.word = before.word, s.n_clipped = before.n_clipped, s.n_null = before.n_null;
        }
    }
    int64_t i = 0, written = 0;
    pv_rows more = {.n = 1, .d = p->width, .data = (const char *)k->x, .row_stride = 0, .col_stride = 8};
    pv_rows_bind(&more);
    CHECK(pv_prefix_run(&s, &more, &i, &written, &draws, NULL) == PV_HORIZON && i == 0);
    /* nor through learners, which add vectors: the column norm is that of the planned steps */
    if (p->horizon % p->leaf == 0) CHECK(pv_prefix_add(&s, NULL) == PV_HORIZON && s.step == p->steps);
    CHECK(s.n_clipped > 0 || p->horizon < 8);
    free(memory), free(addresses), free(words), free(draws.rows);
    free(und.coord), free(und.word), free(und.x), free(und.value);
    return r;
}

/* ---- the twin: it keeps everything, and computes every sum from scratch ------------------------------------------ */

static void row_of(const task *k, int64_t i, double *w) {
    const pv_prefix_plan *p = &k->plan;
    double v[8], norm = 0.0;
    int usable = 1;
    pv_rows row = {.n = 1, .d = p->width, .data = (const char *)(k->x + i * p->width), .col_stride = 8};
    pv_rows_bind(&row);
    norm = pv_rows_norm(&row, 0);
    usable = norm >= 0.0;
    const double f = norm > 1.0 ? 1.0 / sqrt(norm) : 1.0;
    for (int64_t j = 0; j < p->width; ++j) v[j] = usable ? f * k->x[i * p->width + j] : 0.0;
    if (!p->gram)
        memcpy(w, v, (size_t)p->dim * sizeof(double));
    else
        pv_prefix_svec(v, p->width, w);
}

/* round_h(whole h + x + std Z) in units of h, with the words of an address. */
static int64_t noisy(const task *k, uint64_t row, int64_t j, double x, int64_t whole) {
    unsigned char address[64 * 16], words[64 * 16];
    pv_address_row(address, 0, row, k->plan.dim);
    fill(words, address, pv_row_words(k->plan.dim));
    const double h = pv_lattice_step(k->plan.std);
    return whole + (int64_t)nearbyint((x + k->plan.std * noise_of(pv_word(words + 8 * j))) / h);
}

static int64_t node(const task *k, int64_t step, int64_t number, int64_t first, int64_t last, int64_t j) {
    const pv_prefix_plan *p = &k->plan;
    int64_t sum = 0;
    double w[64];
    for (int64_t i = first * p->leaf; i < last * p->leaf; ++i) {
        row_of(k, i, w);
        sum += (int64_t)trunc(w[j] / p->grid);
    }
    const int64_t ratio = INT64_C(1) << p->shift, rest = ((sum % ratio) + ratio) % ratio;
    const uint64_t row = (uint64_t)(PV_STEP_DRAWS * (FIRST_STEP + step) + number);
    return noisy(k, row, j, (double)rest * p->grid, (sum - rest) / ratio);
}

static int64_t low(int64_t t) {
    int64_t j = 0;
    while (!(t >> j & 1)) ++j;
    return j;
}

static double estimate(const task *k, int64_t height, int64_t t, int64_t j) {
    const double h = pv_lattice_step(k->plan.std);
    const int64_t leaves = INT64_C(1) << height;
    const double own = (double)node(k, t, height, t - leaves, t, j) * h;
    if (height == 0) return own;
    const double c = (double)leaves / (2.0 * (double)leaves - 1.0);
    return c * own + (1.0 - c) * (estimate(k, height - 1, t - leaves / 2, j) + estimate(k, height - 1, t, j));
}

static double in_order(const task *k, int64_t t, int64_t j) {
    const int64_t before = t & (t - 1);
    const double last = estimate(k, low(t), t, j);
    return before ? in_order(k, before, j) + last : last;
}

/* Coordinate j of the prefix sum after step t. */
static double expected(const task *k, int64_t t, int64_t j) {
    const pv_prefix_plan *p = &k->plan;
    const double h = pv_lattice_step(p->std);
    if (p->design == PV_TREE) {
        int64_t sum = 0;
        for (int64_t end = t; end; end &= end - 1) sum += node(k, end, low(end), end - (end & -end), end, j);
        return (double)sum * h;
    }
    if (p->design == PV_HONAKER) return in_order(k, t, j);
    double buffers[2] = {0}, released[2] = {0}, sum = 0.0, w[64], leaves[N], drawn[N], added[N];
    for (int64_t step = 1; step <= t; ++step) {
        double leaf = 0.0;
        for (int64_t i = (step - 1) * p->leaf; i < step * p->leaf; ++i) {
            row_of(k, i, w);
            leaf = i == (step - 1) * p->leaf ? w[j] : leaf + w[j];
        }
        double x = leaf;
        leaves[step - 1] = leaf;
        if (p->design == PV_BLT)
            for (int b = 0; b < 2; ++b) {
                x += p->omega[b] * buffers[b];
                buffers[b] = p->theta[b] * buffers[b] + leaf;
            }
        const int64_t back = p->order < step - 1 ? p->order : step - 1;
        if (p->design == PV_BANDED)
            for (int64_t m = 1; m <= back; ++m) x += p->coefficients[m] * leaves[step - 1 - m];
        if (p->design == PV_SQRT) {
            x = 0.0;
            for (int64_t m = 0; m < step; ++m) x += p->coefficients[m] * leaves[step - 1 - m];
        }
        double y = (double)noisy(k, (uint64_t)(PV_STEP_DRAWS * (FIRST_STEP + step)), j, x, 0) * h;
        drawn[step - 1] = y;
        if (p->design == PV_BLT) {
            for (int b = 0; b < 2; ++b) y -= p->omega[b] * released[b];
            for (int b = 0; b < 2; ++b) released[b] = p->theta[b] * released[b] + y;
        }
        if (p->design == PV_BANDED)
            for (int64_t m = 1; m <= back; ++m) y -= p->coefficients[m] * added[step - 1 - m];
        added[step - 1] = y;
        sum = p->discount * sum + y;
        if (p->window && step > p->window) sum -= added[step - 1 - p->window];
        if (p->window && step % p->window == 0) {
            sum = 0.0;
            for (int64_t m = step - p->window; m < step; ++m) sum += added[m];
        }
    }
    if (p->design != PV_SQRT) return sum;
    sum = 0.0;
    for (int64_t m = 0; m < t; ++m) sum += p->decoder[m] * drawn[t - 1 - m];
    return sum;
}

static void one(pv_design design, int64_t width, int64_t leaf, int64_t horizon, int gram) {
    task k = make(design, width, leaf, horizon, gram);
    const int64_t d = k.plan.dim;
    level = pv_first_pass_levels() - 1;
    result whole = run(&k, horizon, 16, 0);
    const size_t size = (size_t)(horizon * d) * sizeof(double);
    for (int64_t i = 0; i < horizon; ++i)
        for (int64_t j = 0; j < d; ++j) {
            const double found = whole.out[i * d + j];
            const int64_t step = (i + 1) / leaf;
            digest(found);
            if (design == PV_SMOOTH || (i % 7 && i + 1 < horizon))
                continue; /* the Python twin has the smooth design too */
            CHECK(bits_of(found) == bits_of((step ? expected(&k, step, j) : 0.0) + 0.0));
        }
    static const int64_t blocks[] = {1, 7, 64}, capacities[] = {1, 3, 100};
    for (int64_t n = 0; n < LENGTH(blocks); ++n) {
        result cut = run(&k, blocks[n], capacities[n], n < 2);
        CHECK(memcmp(cut.out, whole.out, size) == 0 && cut.undecided == whole.undecided);
        drop(&cut);
    }
    for (level = 0; level < pv_first_pass_levels() - 1; ++level) {
        result slow = run(&k, horizon, 16, 0);
        CHECK(memcmp(slow.out, whole.out, size) == 0);
        drop(&slow);
    }
    drop(&whole);
    free(k.x);
}

/* The share of earlier blocks given by the caller: the same noisy vectors, and sums equal up to rounding. */
static void far_blocks(void) {
    static const int64_t blocks[] = {1, 8, 33};
    task k = make(PV_SQRT, 3, 1, 33, 0);
    result whole = run(&k, 33, 16, 0);
    for (int64_t n = 0; n < LENGTH(blocks); ++n) {
        k.plan.block = blocks[n];
        result found = run(&k, 33, 16, 0), cut = run(&k, 5, 3, 1);
        CHECK(memcmp(found.out, cut.out, 33 * 3 * sizeof(double)) == 0);
        for (int64_t i = 0; i < 33 * 3; ++i) CHECK(fabs(found.out[i] - whole.out[i]) < 1e-11);
        drop(&found);
        drop(&cut);
    }
    drop(&whole);
    free(k.x);
}

/* The draws of all steps have separate addresses, as many as the design states. */
static void addresses(void) {
    for (int design = 0; design < PV_DESIGNS; ++design) {
        task k = make((pv_design)design, 1, 1, 60, 0);
        bind(&k);
        double *memory = calloc(pv_prefix_size(&k.plan), sizeof(double));
        uint64_t rows[200];
        pv_prefix s;
        pv_prefix_bind(&s, &k.plan, memory);
        const int64_t n = pv_prefix_upcoming(&s, 200, rows);
        for (int64_t a = 0; a < n; ++a)
            for (int64_t b = a + 1; b < n; ++b) CHECK(rows[a] != rows[b]);
        /* honaker: every complete node of 60 leaves; smooth: runs of ones at the ends of 60 words */
        const int64_t nodes = 60 + 30 + 15 + 7 + 3 + 1;
        CHECK(design == PV_SMOOTH ? n > 60 && n < 140 : n == (design == PV_HONAKER ? nodes : 60));
        free(memory);
        free(k.x);
    }
}

/* Nothing is released without noise, or with words of another address. */
static void refusals(void) {
    for (int design = 0; design < PV_DESIGNS; ++design) {
        task k = make((pv_design)design, 3, 1, 8, 0);
        bind(&k);
        double *memory = calloc(pv_prefix_size(&k.plan), sizeof(double));
        unsigned char words[4 * 8] = {1};
        uint64_t row = 1;
        pv_prefix s;
        pv_prefix_bind(&s, &k.plan, memory);
        pv_draws draws = {.words = words, .rows = &row, .capacity = 1, .filled = 1};
        const double w[3] = {0.5, -0.5, 0.1};
        pv_prefix_add(&s, w);
        CHECK(s.due > 0 && pv_prefix_settle(&s, &draws) == PV_NEED_BITS);
        row = pv_prefix_row(&s);
        k.plan.std = design % 2 ? 0.0 : (double)NAN;
        CHECK(pv_prefix_settle(&s, &draws) == PV_NOT_FINITE);
        CHECK(s.made == 0 && s.prefix[0] == 0.0 && s.prefix[1] == 0.0);
        free(memory);
        free(k.x);
    }
}

/* Epochs of 5, 9, 9, ... rows in leaves of 2, without noise: sums of all rows on the grid; other addresses in each
 * epoch. The memory suffices for the larger ones, whose words have more bits. */
static void epochs(void) {
    for (int design = 0; design < PV_DESIGNS; ++design) {
        task one = make((pv_design)design, 2, 2, 5, 0), two = make((pv_design)design, 2, 2, 9, 0);
        bind(&one), bind(&two);
        one.plan.order = design == PV_BLT ? 1 : 2; /* smooth: binomial(4, 2) = 6 */
        two.plan.order = design == PV_BLT || design == PV_SMOOTH ? 2 : 3;
        one.plan.noisy = two.plan.noisy = 0;
        one.plan.next = &two.plan;
        two.plan.next = &two.plan;
        double *memory = calloc(pv_prefix_size(&one.plan), sizeof(double)), out[2];
        uint64_t ahead[64], row = 0;
        pv_prefix s, later;
        pv_prefix_bind(&s, &one.plan, memory);
        CHECK(pv_prefix_upcoming(&s, 64, ahead) == 64);
        for (int a = 1; a < 64; ++a)
            CHECK(ahead[a] / PV_STEP_DRAWS == ahead[a - 1] / PV_STEP_DRAWS ? ahead[a] > ahead[a - 1]
                                                                           : ahead[a] / 64 == ahead[a - 1] / 64 + 1);
        for (int64_t t = 1; t <= 5 + 3 * 9; ++t) {
            const double w[2] = {0.5, -0.25};
            CHECK(pv_prefix_add(&s, w) == PV_OK);
            if (s.due > 0) {
                CHECK(pv_prefix_row(&s) > row);
                row = pv_prefix_row(&s);
            }
            CHECK(pv_prefix_settle(&s, NULL) == PV_OK);
            const int64_t within = t <= 5 ? t : (t - 6) % 9 + 1, length = t <= 5 ? 5 : 9;
            CHECK(s.first_row + s.rows == t && s.rows == within && s.epoch == (t <= 5 ? 0 : 1 + (t - 6) / 9));
            CHECK((s.in_leaf == 0) == (within % 2 == 0 || within == length) && s.made == s.step);
            pv_prefix_read(&s, out);
            CHECK(fabs(out[0] - 0.5 * (double)(t - s.in_leaf)) < 1e-12 && out[1] == -0.5 * out[0]);
        }
        CHECK(s.first_step + s.step == 3 + 3 * 5);
        pv_prefix_bind(&later, &one.plan, memory);
        pv_prefix_go_to(&later, 3);
        CHECK(later.epoch == s.epoch && later.first_row == s.first_row && later.first_step == s.first_step);
        CHECK(later.plan == s.plan && later.x == s.x && later.base == s.base && later.rows == 0);
        free(memory), free(one.x), free(two.x);
    }
}

/* A partial leaf, and runs without noise: exact sums of values on the grid. */
static void without_noise(void) {
    for (int design = 0; design < PV_DESIGNS; ++design) {
        task k = make((pv_design)design, 2, 4, 10, 0);
        bind(&k);
        k.plan.noisy = 0;
        k.plan.shift = 0;
        double *memory = calloc(pv_prefix_size(&k.plan), sizeof(double)), out[2];
        pv_prefix s;
        pv_prefix_bind(&s, &k.plan, memory);
        s.base[1] = 100.0;
        for (int i = 0; i < 10; ++i) {
            const double w[2] = {0.25, -0.5};
            CHECK(s.step == i / 4);
            pv_prefix_add(&s, i == 3 ? NULL : w);
            CHECK(pv_prefix_settle(&s, NULL) == PV_OK);
        }
        pv_prefix_end_leaf(&s);
        CHECK(pv_prefix_settle(&s, NULL) == PV_OK && s.step == 3 && s.made == 3);
        pv_prefix_end_leaf(&s);
        CHECK(s.step == 3 && !s.due);
        pv_prefix_read(&s, out);
        CHECK(fabs(out[0] - 2.25) < 1e-12 && fabs(out[1] - 95.5) < 1e-12);
        free(memory);
        free(k.x);
    }
}

/* Sums that forget, and the weight of the rows in them. */
static void forgetting(void) {
    static const pv_design designs[] = {PV_SQRT, PV_BLT, PV_INDEPENDENT, PV_BANDED};
    static const double discounts[] = {0.9, 1.0, 1.0, 1.0, 1.0};
    static const int64_t windows[] = {0, 1, 4, 32, 100};
    for (int64_t n = 0; n < LENGTH(windows); ++n) {
        discount = discounts[n], window = windows[n];
        for (int64_t m = 0; m < LENGTH(designs); ++m) {
            one(designs[m], 3, 1, 33, 0);
            one(designs[m], 3, 2, 24, 1);
            task k = make(designs[m], 1, 4, 42, 0); /* 11 leaves, the last of 2 rows */
            bind(&k);
            k.plan.noisy = 0;
            double *memory = calloc(pv_prefix_size(&k.plan), sizeof(double)), expected_weight = 0.0;
            pv_prefix s;
            pv_prefix_bind(&s, &k.plan, memory);
            CHECK(s.weight < memory + pv_prefix_size(&k.plan) && s.weight >= memory + pv_prefix_secret_size(&k.plan));
            const double w = 0.25;
            for (int i = 0; i < 42; ++i) {
                CHECK(pv_prefix_add(&s, &w) == PV_OK && pv_prefix_settle(&s, NULL) == PV_OK);
                if (i % 4 == 3) expected_weight = discount * expected_weight + 4.0;
                if (window && i % 4 == 3 && (i + 1) / 4 > window) expected_weight = 4.0 * (double)window;
                CHECK(*s.weight == expected_weight);
                if (k.plan.design != PV_SQRT) CHECK(fabs(s.prefix[0] - w * *s.weight) < 1e-12);
            }
            pv_prefix_end_leaf(&s);
            CHECK(pv_prefix_settle(&s, NULL) == PV_OK);
            const double last = window && window < 11 ? 4.0 * (double)window - 2.0 : discount * expected_weight + 2.0;
            CHECK(*s.weight == last);
            if (k.plan.design != PV_SQRT) CHECK(fabs(s.prefix[0] - w * last) < 1e-12);
            free(memory);
            free(k.x);
        }
    }
    discount = 1.0, window = 0;
}

int main(void) {
    for (int design = 0; design < PV_DESIGNS; ++design) {
        static const int64_t horizons[] = {1, 2, 7, 8, 33, 69};
        for (int64_t n = 0; n < LENGTH(horizons); ++n) one((pv_design)design, 3, 1, horizons[n], 0);
        one((pv_design)design, 1, 3, 60, 0);
        one((pv_design)design, 3, 2, 24, 1);
        one((pv_design)design, 8, 1, 20, 0);
    }
    addresses();
    refusals();
    far_blocks();
    epochs();
    without_noise();
    forgetting();
    return finish("prefix");
}
