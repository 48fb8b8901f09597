/* Fuzz target of the rounding of noise: any words, any values, any scale and grid that a caller may pass.
 *
 * What is decided must be right for every digit that may follow, the same at every level of instructions, and on the
 * lattice; what is not must be listed. tests/core/c/test_fuzz_noise.c runs random inputs through it; a longer run:
 *
 *   clang -g -O1 -std=c11 -ffp-contract=off -fsanitize=fuzzer,address,undefined -Isrc/privol/_core/c \
 *       -Itests/core/c tests/core/fuzz/fuzz_noise.c src/privol/_core/c/noise/{bits,first_pass,lattice,mixture}.c -lm -o fuzz_noise
 *   ./fuzz_noise -max_len=4096 -max_total_time=600
 */
#include "check.h"
#include "noise/pv_bits.h"
#include "noise/pv_mixture.h"

#define HEADER 24
#define SIGN_BIT UINT64_C(0x8000000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The problem that the bytes describe. */
typedef struct fuzz_problem {
    int vectors;
    pv_mixture kind;
    pv_lattice lattice;
    int64_t d;
    double *x, magnitude;
    unsigned char *words;
} fuzz_problem;

static void fuzz_round(const fuzz_problem *p, const pv_first_pass *pass, double *out, pv_undecided *und) {
    pv_lattice lattice = p->lattice;
    pv_value factor;
    pv_status status;
    lattice.pass = pass;
    if (p->vectors)
        status = pv_mixture_round(p->kind, &lattice, p->x, p->d, p->magnitude, p->words, out, und, &factor);
    else
        status = pv_lattice_round(&lattice, p->x, 1.0, p->d, p->magnitude, p->words, out, und);
    CHECK((status == PV_UNDECIDED) == (und->n > und->resolved) && und->n <= p->d && und->most >= und->n);
}

/* Any sum that the digits not yet read, and the uncertain factor, can make is within half a step of what is decided. */
static void fuzz_check(const fuzz_problem *p, const double *out, const pv_undecided *und) {
    const long double h = p->lattice.step;
    pv_value factor = {1.0, p->lattice.uncertainty};
    if (p->vectors) factor = pv_mixture_factor(p->kind, p->d, p->words);
    for (int64_t j = 0, k = 0; j < p->d; ++j) {
        if (k < und->n && und->coord[k] == j) {
            CHECK(und->word[k] == pv_word(p->words + 8 * j) && und->x[k] == p->x[j]);
            ++k;
            continue;
        }
        const pv_value z = pv_lattice_value(p->lattice.law, pv_word(p->words + 8 * j));
        const long double b = (long double)p->lattice.scale * factor.z / h, place = p->x[j] / h;
        const long double whole = rintl(place), sum = place - whole + b * z.z, point = out[j] / h - whole;
        CHECK(isfinite(sum) && isfinite(factor.error) && isfinite(z.error));
        CHECK(point == rintl(point) && !(out[j] == 0.0 && signbit(out[j])));
        const long double wrong = b * z.error * (1 + factor.error) + fabsl(b * z.z) * factor.error;
        /* the first pass looks at 31 digits only, and its own bound is wider: what it decides is a fortiori so */
        CHECK(fabsl(sum - point) + wrong <= 0.5L + (1 + fabsl(sum)) * 0x1p-60L);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEADER + 16) return 0;
    fuzz_problem p = {.vectors = data[0] & 1, .kind = data[0] & 2 ? PV_SPHERE : PV_L2_LAPLACE};
    const int64_t room = (int64_t)(size - HEADER) / 16; /* a word and a value each */
    const int near = data[0] & 4;
    p.d = p.vectors ? 1 + (room - 1) / 2 : room;
    if (p.vectors && p.kind == PV_SPHERE && p.d < 2) p.d = 2;
    p.lattice.law = p.vectors ? PV_GAUSSIAN : (pv_law)(data[1] % PV_LAWS);
    p.lattice.scale = ldexp(1.0 + (double)pv_word(data + 8) * 0x1p-65, (int)(data[2] | (data[3] & 3) << 8) - 512);
    p.lattice.step = ldexp(pv_lattice_step(p.lattice.scale), data[3] & 4 ? (int8_t)data[4] / 4 : 0);
    p.lattice.uncertainty = data[3] & 8 ? ldexp(1.0, -11 - data[5] % 50) : 0.0;
    const int64_t used = pv_row_words(p.vectors ? pv_mixture_words(p.kind, p.d) : p.d);
    double *out = doubles(p.d), *other = doubles(p.d);
    pv_undecided und = {
        .capacity = p.d, .coord = buffer(p.d, 8), .word = buffer(p.d, 8), .x = doubles(p.d), .value = doubles(p.d)};
    p.x = doubles(p.d);
    p.words = buffer(used, 8);
    for (int64_t i = 0; i < 8 * used; ++i) p.words[i] = data[HEADER + i % (8 * room)];
    pv_value factor = {1.0, 0.0};
    if (p.vectors) factor = pv_mixture_factor(p.kind, p.d, p.words);
    for (int64_t j = 0; j < p.d; ++j) {
        const uint8_t *bytes = data + HEADER + 8 * (room + j % room);
        const double value = (double)(int64_t)pv_word(bytes) * 0x1p-63;
        const pv_value z = pv_lattice_value(p.lattice.law, pv_word(p.words + 8 * j));
        p.x[j] = ldexp(value * p.lattice.step, data[6] % 50);
        if (near && isfinite(z.z)) { /* next to a boundary, by up to 2^-50 to 2^0 */
            const double noise = p.lattice.scale * factor.z / p.lattice.step * z.z;
            p.x[j] = (floor(value * 1000.0) + 0.5 - noise + ldexp(value, -(bytes[0] % 51))) * p.lattice.step;
        }
        p.magnitude = fmax(p.magnitude, fabs(p.x[j]));
    }
    if (data[7] & 1) p.magnitude = HUGE_VAL; /* everything by the double path */
    fuzz_round(&p, pv_first_pass_level(0), out, &und);
    fuzz_check(&p, out, &und);
    for (int i = 1; i < pv_first_pass_levels(); ++i) { /* what any level decides, double precision decides, too */
        const int64_t listed = und.n;
        fuzz_round(&p, pv_first_pass_level(i), other, &und);
        CHECK(und.n == listed);
        for (int64_t j = 0, k = 0; j < p.d; ++j) {
            if (k < und.n && und.coord[k] == j)
                ++k;
            else
                CHECK(other[j] == out[j]);
        }
    }
    if (und.n > 0) { /* what the caller resolves is taken over */
        for (int64_t k = 0; k < und.n; ++k) und.value[k] = (double)k - 1.0;
        und.resolved = und.n;
        fuzz_round(&p, pv_first_pass_level(pv_first_pass_levels() - 1), out, &und);
        for (int64_t k = 0; k < und.n; ++k) CHECK(out[und.coord[k]] == ((double)k - 1.0) * p.lattice.step);
        und.resolved = 0;
    }
    free(out), free(other), free(p.x), free(p.words);
    free(und.coord), free(und.word), free(und.x), free(und.value);
    return 0;
}
