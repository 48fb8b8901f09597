/* Factors of the mixtures against long double, and the rounding of whole vectors. */
#include "check.h"
#include "noise/pv_bits.h"
#include "noise/pv_mixture.h"

#define SIGN_BIT UINT64_C(0x8000000000000000)
#define MOST 300

typedef struct range {
    long double low, high;
} range;

static uint64_t word_at(const unsigned char *words, int64_t i) { return pv_word(words + 8 * i); }

/* The possible values of a word, by the digits after the 53 that are read. */
static range exponential(uint64_t word) {
    long double a = (long double)((word & ~SIGN_BIT) >> 11);
    return (range){-logl((a + 1) * 0x1p-52L), -logl(a * 0x1p-52L)};
}

static range factor(pv_mixture kind, int64_t d, const unsigned char *words) {
    const int64_t first = kind == PV_SPHERE ? 0 : d + (d + 1) / 2, count = kind == PV_SPHERE ? d : d % 2 == 0;
    range sum = {0, 0};
    for (int64_t j = 0; j < count; ++j) {
        pv_value v = pv_lattice_value(PV_GAUSSIAN, word_at(words, first + j)); /* checked by test_lattice */
        long double near = fabsl((long double)v.z) - v.error, far = fabsl((long double)v.z) + v.error;
        sum.low += near > 0 ? near * near : 0;
        sum.high += far * far;
    }
    if (kind == PV_SPHERE) return (range){1 / sqrtl(sum.high), 1 / sqrtl(sum.low)};
    for (int64_t j = d; j < d + (d + 1) / 2; ++j) {
        range e = exponential(word_at(words, j));
        sum.low += 2 * e.low;
        sum.high += 2 * e.high;
    }
    return (range){sqrtl(sum.low), sqrtl(sum.high)};
}

static void fill(unsigned char *words, int64_t n, int tail) {
    for (int64_t i = 0; i < n; ++i) {
        uint64_t word = random_word();
        if (tail && random_word() % 8 == 0) word = (word & SIGN_BIT) | (word & ~SIGN_BIT) >> (random_word() % 33);
        if (tail && random_word() % 8 == 0) word = word | ~SIGN_BIT >> (random_word() % 40); /* |Z| near 0 */
        for (int k = 0; k < 8; ++k) words[8 * i + k] = (unsigned char)(word >> (8 * k));
    }
}

static void factors(pv_mixture kind) {
    int64_t known = 0, total = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        const int64_t d = 1 + (kind == PV_SPHERE) + (int64_t)(random_word() % (trial % 10 ? 20 : MOST - 2));
        const int64_t n = pv_mixture_words(kind, d);
        unsigned char *words = buffer(n, 8);
        fill(words, n, trial % 3 == 0);
        const pv_value found = pv_mixture_factor(kind, d, words);
        ++total;
        if (found.error < HUGE_VAL) {
            const range exact = factor(kind, d, words);
            CHECK(found.error < 0x1p-10);
            CHECK(exact.low >= found.z * (1 - (long double)found.error) &&
                  exact.high <= found.z * (1 + (long double)found.error));
            known += found.error < 0x1p-30;
            digest(found.z);
            digest(found.error);
        }
        free(words);
    }
    CHECK(known * 10 > total * 9); /* the bound is useful */
}

/* Bounds that do not grow with the dimension: the factor leaves at most three coordinates in 10^10 undecided. */
static void wide(pv_mixture kind) {
    const int64_t d = 300000, n = pv_mixture_words(kind, d);
    unsigned char *words = buffer(n, 8);
    for (int trial = 0; trial < 3; ++trial) {
        fill(words, n, 0);
        const pv_value found = pv_mixture_factor(kind, d, words);
        const range exact = factor(kind, d, words);
        CHECK(found.error < 1e-13);
        CHECK(exact.low >= found.z * (1 - (long double)found.error) &&
              exact.high <= found.z * (1 + (long double)found.error));
        digest(found.z);
    }
    free(words);
}

/* A word without a bound leaves the factor without one, in any position. */
static void deep(pv_mixture kind) {
    for (int64_t d = 2; d < 40; ++d) {
        const int64_t n = pv_mixture_words(kind, d), first = kind == PV_SPHERE ? 0 : d;
        unsigned char *words = buffer(n, 8);
        for (int64_t i = first; i < n; ++i) {
            fill(words, n, 0);
            CHECK(pv_mixture_factor(kind, d, words).error < HUGE_VAL);
            memset(words + 8 * i, 0, 8);
            words[8 * i + 3] = (unsigned char)(random_word() & 0x7F);
            CHECK(pv_mixture_factor(kind, d, words).error == HUGE_VAL);
        }
        free(words);
    }
}

static void rounding(pv_mixture kind, const pv_first_pass *pass) {
    int64_t open = 0, total = 0;
    for (int trial = 0; trial < 3000; ++trial) {
        const int64_t d = 2 + (int64_t)(random_word() % 140), n = pv_mixture_words(kind, d);
        const double scale = ldexp(1.3, (int)(random_word() % 9) - 4);
        const double spread = kind == PV_SPHERE ? scale / sqrt((double)d) : scale * sqrt((double)d);
        const pv_lattice lattice = {PV_GAUSSIAN, scale, 0.0, pv_lattice_step(spread), pass};
        unsigned char *words = buffer(pv_row_words(n), 8);
        double *u = random_doubles(d, 3.0), *out = doubles(d);
        pv_undecided und = {
            .capacity = d, .coord = buffer(d, 8), .word = buffer(d, 8), .x = doubles(d), .value = doubles(d)};
        fill(words, pv_row_words(n), 0);
        pv_value f;
        pv_status status = pv_mixture_round(kind, &lattice, u, d, 3.0, words, out, &und, &f);
        CHECK((status == PV_UNDECIDED) == (und.n > 0));
        const pv_value own = pv_mixture_factor(kind, d, words);
        CHECK(own.z == f.z && own.error == f.error);
        for (int64_t j = 0, k = 0; j < d; ++j) {
            if (k < und.n && und.coord[k] == j) {
                ++k;
                continue;
            }
            const double z = pv_lattice_value(PV_GAUSSIAN, word_at(words, j)).z, sum = u[j] + scale * f.z * z;
            CHECK(out[j] / lattice.step == nearbyint(out[j] / lattice.step));
            CHECK(fabs(sum - out[j]) <= lattice.step * 0.5 + fabs(sum) * 0x1p-48);
            digest(out[j]);
        }
        open += und.n;
        total += d;
        free(words), free(u), free(out), free(und.coord), free(und.word), free(und.x), free(und.value);
    }
    CHECK(open * 1000 < total);
}

int main(void) {
    for (int64_t d = 1; d < 100; ++d) {
        CHECK(pv_mixture_words(PV_SPHERE, d) == d);
        CHECK(2 * pv_mixture_words(PV_L2_LAPLACE, d) == 2 * d + (d % 2 ? d + 1 : d + 2));
    }
    for (int k = 0; k < 2; ++k) {
        const pv_mixture kind = k ? PV_SPHERE : PV_L2_LAPLACE;
        factors(kind);
        wide(kind);
        deep(kind);
        const uint64_t state = check_state, before = check_digest;
        uint64_t first = 0;
        for (int i = 0; i < pv_first_pass_levels(); ++i) { /* on the same problems: the same results */
            check_state = state;
            check_digest = before;
            rounding(kind, pv_first_pass_level(i));
            CHECK(i == 0 || check_digest == first);
            first = check_digest;
        }
    }
    return finish("mixture");
}
