/* Gaussian words and rounding to the lattice, against erfc in long double. */
#include "check.h"
#include "pv_bits.h"
#include "pv_lattice.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)

/* P(|Z| > z) of a word lies in [u, u + 1] 2^-52 for the 52 bits u after the sign. */
static void quantile(uint64_t word) {
    double z = pv_gaussian_value(word), error = pv_gaussian_error(word);
    CHECK(pv_gaussian_value(word ^ SIGN_BIT) == -z);
    long double u = (long double)((word & ~SIGN_BIT) >> 11) * 0x1p-52L, a = word & SIGN_BIT ? -z : z;
    CHECK(a >= -error); /* the sign is the word's, but for a polynomial's error at the median */
    if (isinf(z)) {
        CHECK(isinf(error) && u < 0x1p-31L);
        return;
    }
    CHECK(error > 0 && error < 1e-6);
    CHECK(erfcl((a + error) * sqrtl(0.5L)) <= u * (1 + 1e-17L));
    CHECK(erfcl((a - error) * sqrtl(0.5L)) >= (u + 0x1p-52L) * (1 - 1e-17L));
    digest(z);
}

static void words(void) {
    for (int k = 0; k < 200000; ++k) {
        uint64_t word = random_word();
        quantile(word);
        quantile(word >> (random_word() % 40)); /* the tail, where few words fall */
    }
    for (int shift = 0; shift < 63; ++shift) { /* the edges of octaves and segments */
        quantile(UINT64_C(1) << shift);
        quantile((UINT64_C(1) << shift) - 1);
    }
    quantile(~SIGN_BIT);
    quantile(0);
    CHECK(isinf(pv_gaussian_value(0)));
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
    double *u, *out, s, scale, magnitude;
    unsigned char *words;
    pv_undecided und;
} problem;

static problem make(int64_t d, double s, double scale) {
    problem p = {.d = d, .s = s, .scale = scale, .magnitude = s * 4.0};
    p.u = random_doubles(d, 4.0);
    p.out = doubles(d);
    p.words = buffer(pv_row_words(d), 8);
    p.und = (pv_undecided){.capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d),
                           .value = doubles(d)};
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
    return pv_lattice_gaussian(p->u, p->s, p->d, p->scale, p->magnitude, p->words, p->out, &p->und);
}

/* Every value of the interval that the word stands for rounds to `out`. */
static void check_coordinate(const problem *p, int64_t j) {
    uint64_t word = pv_word(p->words + 8 * j);
    double h = pv_lattice_step(p->scale), x = p->s * p->u[j];
    long double target = x + (long double)p->scale * pv_gaussian_value(word);
    CHECK(p->out[j] / h == nearbyint(p->out[j] / h));
    CHECK(!(p->out[j] == 0 && signbit(p->out[j])));
    CHECK(fabsl(target - p->out[j]) <= 0.5L * h);
    digest(p->out[j]);
}

static void rounding(void) {
    static const int64_t sizes[] = {0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 300};
    int64_t undecided = 0, total = 0;
    for (int64_t n = 0; n < LENGTH(sizes); ++n)
        for (int repeat = 0; repeat < 40; ++repeat) {
            problem p = make(sizes[n], repeat % 2 ? 1.0 : 0.3, ldexp(1.37, repeat % 7 - 3));
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
static void must_ask(void) {
    for (int repeat = 0; repeat < 3000; ++repeat) {
        const int64_t d = 1 + (int64_t)(random_word() % 130), at = (int64_t)(random_word() % (uint64_t)d);
        problem p = make(d, 1.0, ldexp(1.1, repeat % 5));
        double h = pv_lattice_step(p.scale);
        if (repeat % 4 == 0) {
            set_word(&p, at, (random_word() & SIGN_BIT) | (random_word() >> 40));
        } else {
            uint64_t word = pv_word(p.words + 8 * at);
            double x = h * (floor(p.u[at] / h) + 0.5) - p.scale * pv_gaussian_value(word);
            x += p.scale * pv_gaussian_error(word) * 0.9 * random_unit();
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

int main(void) {
    words();
    steps();
    rounding();
    must_ask();
    return finish("lattice");
}
