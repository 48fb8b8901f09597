/* Words and rounding to the lattice, against erfc and log in long double. */
#include "check.h"
#include "noise/pv_bits.h"
#include "noise/pv_lattice.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)

static THREAD const pv_first_pass *level;

static long double tail(pv_law law, long double z) { return law == PV_GAUSSIAN ? erfcl(z * sqrtl(0.5L)) : expl(-z); }

/* P(|Z| > z) of a word lies in [u, u + 1] 2^-52 for the 52 bits u after the sign. */
static void quantile(pv_law law, uint64_t word) {
    double z = pv_lattice_value(law, word).z, error = pv_lattice_value(law, word).error;
    CHECK(pv_lattice_value(law, word ^ SIGN_BIT).z == (law == PV_EXPONENTIAL ? z : -z));
    long double u = (long double)((word & ~SIGN_BIT) >> 11) * 0x1p-52L;
    long double a = law != PV_EXPONENTIAL && word & SIGN_BIT ? -z : z;
    CHECK(a >= -error); /* the sign is the word's, up to a polynomial's error at the median */
    if (isinf(z)) {
        CHECK(isinf(error) && u < 0x1p-31L);
        return;
    }
    CHECK(error > 0 && error < 1e-6);
    CHECK(tail(law, a + error) <= u * (1 + 1e-17L));
    CHECK(tail(law, a - error) >= (u + 0x1p-52L) * (1 - 1e-17L));
    digest(z);
}

static void words(pv_law law) {
    for (int k = 0; k < 200000; ++k) {
        uint64_t word = random_word();
        quantile(law, word);
        quantile(law, word >> (random_word() % 40)); /* the tail, where few words fall */
    }
    for (int shift = 0; shift < 63; ++shift) { /* the edges of octaves and segments */
        quantile(law, UINT64_C(1) << shift);
        quantile(law, (UINT64_C(1) << shift) - 1);
    }
    quantile(law, ~SIGN_BIT);
    quantile(law, 0);
    CHECK(isinf(pv_lattice_value(law, 0).z));
}

static void steps(void) {
    for (int exponent = -1000; exponent <= 1000; exponent += 7) {
        const double bases[] = {1.0, 1.0 + 0x1p-52, 1.5, 2.0 - 0x1p-52};
        for (int64_t k = 0; k < LENGTH(bases); ++k) {
            double scale = ldexp(bases[k], exponent), h = pv_lattice_step(scale);
            CHECK(h * 1024 <= scale && scale < h * 2048);
            int e;
            CHECK(frexp(h, &e) == 0.5);
        }
    }
}

typedef struct problem {
    int64_t d;
    double *u, *out, s, magnitude;
    pv_lattice lattice;
    unsigned char *words;
    pv_undecided und;
} problem;

static problem make(pv_law law, int64_t d, double s, double scale) {
    problem p = {.d = d, .s = s, .magnitude = s * 4.0, .lattice = {law, scale, 0.0, pv_lattice_step(scale), level}};
    p.u = random_doubles(d, 4.0);
    p.out = doubles(d);
    p.words = buffer(pv_row_words(d), 8);
    p.und = (pv_undecided){
        .capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d), .value = doubles(d)};
    for (int64_t j = 0; j < 8 * pv_row_words(d); ++j) p.words[j] = (unsigned char)random_word();
    return p;
}

static void drop(problem *p) {
    free(p->u), free(p->out), free(p->words);
    free(p->und.coord), free(p->und.word), free(p->und.x), free(p->und.value);
}

static void set_word(problem *p, int64_t j, uint64_t word) {
    for (int k = 0; k < 8; ++k) p->words[8 * j + k] = (unsigned char)(word >> (8 * k));
}

static pv_status run(problem *p) {
    return pv_lattice_round(&p->lattice, p->u, p->s, p->d, p->magnitude, p->words, p->out, &p->und);
}

/* Every value of the interval that the word stands for rounds to `out`. */
static void check_coordinate(const problem *p, int64_t j) {
    uint64_t word = pv_word(p->words + 8 * j);
    double h = p->lattice.step, x = p->s * p->u[j];
    long double target = x + (long double)p->lattice.scale * pv_lattice_value(p->lattice.law, word).z;
    CHECK(p->out[j] / h == nearbyint(p->out[j] / h));
    CHECK(!(p->out[j] == 0 && signbit(p->out[j])));
    CHECK(fabsl(target - p->out[j]) <= 0.5L * h);
    digest(p->out[j]);
}

static void rounding(pv_law law) {
    static const int64_t sizes[] = {0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 300};
    int64_t undecided = 0, total = 0;
    for (int64_t n = 0; n < LENGTH(sizes); ++n)
        for (int repeat = 0; repeat < 40; ++repeat) {
            problem p = make(law, sizes[n], repeat % 2 ? 1.0 : 0.3, ldexp(1.37, repeat % 7 - 3));
            pv_status status = run(&p);
            CHECK((status == PV_UNDECIDED) == (p.und.n > 0));
            CHECK(p.und.n <= p.d);
            int64_t k = 0;
            for (int64_t j = 0; j < p.d; ++j) {
                if (k < p.und.n && p.und.coord[k] == j) {
                    CHECK(p.und.word[k] == pv_word(p.words + 8 * j) && p.und.x[k] == p.s * p.u[j]);
                    ++k;
                } else {
                    check_coordinate(&p, j);
                }
            }
            CHECK(k == p.und.n);
            undecided += p.und.n;
            total += p.d;
            drop(&p);
        }
    CHECK(undecided * 1000 < total); /* the slow path stays rare */
}

/* A sum within the error bound of a boundary, or a word beyond the table, is never decided here. */
static void must_ask(pv_law law) {
    for (int repeat = 0; repeat < 3000; ++repeat) {
        const int64_t d = 1 + (int64_t)(random_word() % 130), at = (int64_t)(random_word() % (uint64_t)d);
        problem p = make(law, d, 1.0, ldexp(1.1, repeat % 5));
        double h = p.lattice.step, scale = p.lattice.scale;
        if (repeat % 4 == 0) {
            const uint64_t sign = random_word() & SIGN_BIT;
            set_word(&p, at, sign | (random_word() >> 40));
        } else {
            uint64_t word = pv_word(p.words + 8 * at);
            double x = h * (floor(p.u[at] / h) + 0.5) - scale * pv_lattice_value(law, word).z;
            x += scale * pv_lattice_value(law, word).error * 0.9 * random_unit();
            if (fabs(x) > p.magnitude) {
                drop(&p);
                continue;
            }
            p.u[at] = x;
        }
        CHECK(run(&p) == PV_UNDECIDED);
        int64_t listed = -1;
        for (int64_t k = 0; k < p.und.n; ++k) {
            if (p.und.coord[k] == at) listed = k;
            CHECK(k == 0 || p.und.coord[k - 1] < p.und.coord[k]);
            p.und.value[k] = 1e6 + (double)p.und.coord[k];
        }
        CHECK(listed >= 0);
        p.und.resolved = p.und.n;
        CHECK(run(&p) == PV_OK);
        for (int64_t k = 0, j = 0; j < d; ++j) {
            if (k < p.und.n && p.und.coord[k] == j) {
                CHECK(p.out[j] == (1e6 + (double)j) * h);
                ++k;
            } else {
                check_coordinate(&p, j);
            }
        }
        /* a resolution of another list is not used */
        p.und.coord[listed] = at > 0 ? at - 1 : d;
        p.und.resolved = p.und.n;
        CHECK(run(&p) == PV_UNDECIDED);
        drop(&p);
    }
}

/* Another grid, an uncertain scale, magnitudes and scales beyond the first pass: still right, or passed on. */
static void wide(pv_law law) {
    for (int repeat = 0; repeat < 2000; ++repeat) {
        problem p = make(law, 1 + (int64_t)(random_word() % 70), 1.0, 1.37);
        p.lattice.step = ldexp(1.0, (int)(random_word() % 40) - 25);
        p.lattice.uncertainty = repeat % 2 ? 0x1p-30 : 0.0;
        if (repeat % 3 == 0) p.magnitude = p.u[0] = ldexp(p.lattice.step, (int)(random_word() % 70));
        run(&p);
        for (int64_t j = 0, k = 0; j < p.d; ++j) {
            if (k < p.und.n && p.und.coord[k] == j) {
                ++k;
                continue;
            }
            double sum =
                p.u[j] / p.lattice.step + 1.37 / p.lattice.step * pv_lattice_value(law, pv_word(p.words + 8 * j)).z;
            double least = fabs(sum - p.u[j] / p.lattice.step) * p.lattice.uncertainty;
            CHECK(fabs(sum - p.out[j] / p.lattice.step) <= 0.5 - least + fabs(sum) * 0x1p-49);
        }
        drop(&p);
    }
}

/* Decisions hold for every allowed factor 1 + delta of the scale and every allowed error of z, both at once. */
static void both_errors(pv_law law) {
    int64_t decided = 0;
    for (int repeat = 0; repeat < 20000; ++repeat) {
        problem p = make(law, 1, 1.0, 1.0 + 0.9 * fabs(random_unit()));
        const uint64_t top = random_word() & SIGN_BIT;
        const uint64_t word = top | (UINT64_C(1) << 31) | (random_word() >> 33); /* the worst error */
        set_word(&p, 0, word);
        p.lattice.uncertainty = ldexp(1.0, -11 - repeat % 30);
        const pv_value v = pv_lattice_value(law, word);
        const long double h = p.lattice.step, b = p.lattice.scale / p.lattice.step, size = fabsl((long double)v.z);
        const long double sign = v.z < 0 ? -1 : 1, far = b * (1 + p.lattice.uncertainty) * (size + v.error);
        const long double near = b * (1 - p.lattice.uncertainty) * (size - v.error);
        /* one end of the possible values is about as far from a boundary as the product of the errors makes it */
        const long double end = sign * (repeat % 2 ? far : near);
        const long double over = b * v.error * p.lattice.uncertainty * (long double)random_unit();
        p.u[0] = (double)(h * (floorl(100 * (long double)random_unit()) + 0.5L - end + over));
        const long double x = p.u[0] / h;
        if (run(&p) == PV_OK) {
            ++decided;
            CHECK(fabsl(x + sign * far - p.out[0] / h) <= 0.5L && fabsl(x + sign * near - p.out[0] / h) <= 0.5L);
        }
        drop(&p);
    }
    CHECK(decided > 500); /* those whose end does not reach the boundary */
}

/* For any position of a value out of range, at every length; the largest double below the limit is in range. */
static void within(void) {
    const pv_lattice lattice = {PV_GAUSSIAN, 1.0, 0.0, 0x1p-10, level};
    const double wrong[] = {0x1p40, -0x1p40, NAN, INFINITY, -INFINITY};
    double x[70];
    for (int n = 0; n <= 70; ++n) {
        for (int j = 0; j < n; ++j) x[j] = (j % 2 ? -1.0 : 1.0) * nextafter(0x1p40, 0.0);
        CHECK(pv_lattice_within(&lattice, x, n));
        for (int j = 0; j < n; ++j) {
            const double kept = x[j];
            x[j] = wrong[j % 5];
            CHECK(!pv_lattice_within(&lattice, x, n));
            x[j] = kept;
        }
    }
}

/* A missing array of values stands for zeros. */
static void nothing(pv_law law) {
    problem p = make(law, 150, 1.0, 1.3);
    double *found = doubles(p.d);
    for (int64_t j = 0; j < p.d; ++j) p.u[j] = p.out[j] = found[j] = 0.0;
    const pv_status status = run(&p);
    const int64_t open = p.und.n;
    CHECK(pv_lattice_round(&p.lattice, NULL, 1.0, p.d, 0.0, p.words, found, &p.und) == status && p.und.n == open);
    for (int64_t j = 0; j < p.d; ++j) CHECK(bits_of(found[j]) == bits_of(p.out[j]));
    free(found);
    drop(&p);
}

/* In place: the same points and the same list, which holds the original values. */
static void in_place(pv_law law) {
    for (int64_t d = 1; d <= 150; ++d) {
        problem p = make(law, d, 1.0, 1.3);
        double *found = doubles(d), *listed = doubles(d);
        for (int64_t j = d % 3; j < d; j += 3) set_word(&p, j, (uint64_t)j); /* too deep in the tail */
        for (int64_t j = 0; j < d; ++j) found[j] = p.u[j];
        const pv_status status = run(&p);
        const int64_t open = p.und.n;
        for (int64_t k = 0; k < open; ++k) listed[k] = p.und.x[k];
        CHECK(pv_lattice_round(&p.lattice, found, 1.0, d, p.magnitude, p.words, found, &p.und) == status);
        CHECK(p.und.n == open);
        for (int64_t k = 0; k < open; ++k) CHECK(bits_of(p.und.x[k]) == bits_of(listed[k]));
        for (int64_t j = 0, k = 0; j < d; ++j) {
            if (k < open && p.und.coord[k] == j)
                ++k;
            else
                CHECK(bits_of(found[j]) == bits_of(p.out[j]));
        }
        free(found), free(listed);
        drop(&p);
    }
}

/* Results computed in advance from the words: the same points, bit by bit, and the same list. */
static void ahead(pv_law law) {
    for (int64_t d = 1; d <= 150; ++d) {
        problem p = make(law, d, d % 2 ? 1.0 : 0.3, d % 5 ? 1.3 : 1e7);
        double *found = doubles(d);
        float *values = buffer(pv_lattice_values_size(d), sizeof(float));
        for (int64_t j = d % 3; j < d; j += 7) set_word(&p, j, (uint64_t)j); /* too deep in the tail */
        const pv_status status = run(&p);
        const int64_t open = p.und.n;
        for (int64_t j = 0; j < d; ++j) found[j] = p.out[j];
        pv_lattice_values(&p.lattice, p.words, d, values);
        CHECK(pv_lattice_add(&p.lattice, p.u, p.s, d, p.magnitude, p.words, values, p.out, &p.und) == status);
        CHECK(p.und.n == open);
        for (int64_t j = 0; j < d; ++j) CHECK(bits_of(found[j]) == bits_of(p.out[j]));
        free(found), free(values);
        drop(&p);
    }
}

int main(void) {
    steps();
    level = pv_first_pass_level(0);
    within();
    for (int k = 0; k < PV_LAWS; ++k) {
        words((pv_law)k);
        const uint64_t state = check_state, before = check_digest;
        uint64_t first = 0;
        for (int i = 0; i < pv_first_pass_levels(); ++i) { /* on the same problems: the same results */
            level = pv_first_pass_level(i);
            check_state = state;
            check_digest = before;
            rounding((pv_law)k);
            nothing((pv_law)k);
            in_place((pv_law)k);
            ahead((pv_law)k);
            must_ask((pv_law)k);
            wide((pv_law)k);
            both_errors((pv_law)k);
            CHECK(i == 0 || check_digest == first);
            first = check_digest;
        }
    }
    return finish("lattice");
}
