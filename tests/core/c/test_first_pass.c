/* The first pass of the rounding of noise: its error bound for every top word by which it may decide, for every
 * distribution, on every level that this processor supports. PRIVOL_EXHAUSTIVE=1 in the environment takes all 2^31
 * of them (minutes per level), otherwise a sample. */
#include "check.h"
#include "noise/pv_first_pass.h"
#include "noise/pv_lattice.h"

#define COUNT 4096

static const uint64_t SIGN_BIT = UINT64_C(0x8000000000000000);

/* z of these k against both ends of the interval for all lower 32 bits; returns the largest share of the bound. */
static double share(const pv_first_pass *pass, pv_law law, const uint32_t *k) {
    const pv_first_pass_bound *bound = &pass->bounds[law];
    float z[COUNT];
    double most = 0.0;
    for (int64_t j = 0; j < COUNT; j += PV_FIRST_PASS_CHUNK) pass->quantile(law, k + j, z + j, PV_FIRST_PASS_CHUNK);
    for (int64_t j = 0; j < COUNT; ++j) {
        if (!(z[j] <= bound->most)) continue;
        for (uint64_t low = 0; low < 2; ++low) {
            uint64_t word = (uint64_t)k[j] << 32 | (low ? UINT64_C(0xFFFFFFFF) : 0);
            double off = fabs((double)z[j] - pv_lattice_value(law, word).z) + pv_lattice_value(law, word).error;
            double allowed = (double)bound->error * (double)z[j] + (double)bound->floor;
            CHECK(off <= allowed);
            most = off / allowed > most ? off / allowed : most;
        }
    }
    return most;
}

static void every(const pv_first_pass *pass, pv_law law) {
    const char *asked = getenv("PRIVOL_EXHAUSTIVE");
    const int64_t stride = asked && strcmp(asked, "1") == 0 ? 1 : 2039, top = INT64_C(1) << 31;
    static THREAD uint32_t k[COUNT];
    double most = 0.0;
    for (int64_t start = 0; start < top; start += COUNT * stride) {
        for (int64_t j = 0; j < COUNT; ++j) {
            int64_t at = start + j * stride;
            k[j] = (uint32_t)(at < top ? at : top - 1);
        }
        most = fmax(most, share(pass, law, k));
    }
    for (int64_t j = 0; j < COUNT; ++j) k[j] = (uint32_t)(top - COUNT + j); /* near the median */
    most = fmax(most, share(pass, law, k));
    CHECK(most > 0.5); /* the bound is not loose: half of it would be violated */
    /* all that may be decided: z up to `most`, so all except the words of the tail beyond */
    const double limit = (double)pass->bounds[law].most;
    const double tail = law == PV_GAUSSIAN ? erfc(limit * sqrt(0.5)) : exp(-limit);
    float z[PV_FIRST_PASS_PAD];
    for (int64_t j = 0; j < PV_FIRST_PASS_PAD; ++j) k[j] = (uint32_t)(0x1p31 * tail * (j < 4 ? 1.01 : 0.99));
    pass->quantile(law, k, z, PV_FIRST_PASS_PAD);
    CHECK(z[0] < pass->bounds[law].most && !(z[4] <= pass->bounds[law].most)); /* NaN, or more */
}

/* The decided coordinates of a random chunk equal those of every other level that decides them. */
static void levels_agree(pv_law law) {
    double x[PV_FIRST_PASS_CHUNK], out[8][PV_FIRST_PASS_CHUNK];
    uint64_t word[PV_FIRST_PASS_CHUNK], open[8];
    int64_t decided = 0, total = 0;
    for (int trial = 0; trial < 3000; ++trial) {
        const double h = ldexp(1.0, (int)(random_word() % 200) - 100), b = 1024.0 * (1.0 + 0.5 * (1.0 + random_unit()));
        const double size = ldexp(h, (int)(random_word() % 51)), uncertainty = trial % 2 ? 0x1p-40 : 0.0;
        const int64_t n = 1 + (int64_t)(random_word() % PV_FIRST_PASS_CHUNK);
        for (int64_t j = 0; j < PV_FIRST_PASS_CHUNK; ++j) {
            x[j] = size * random_unit();
            word[j] = random_word();
        }
        for (int level = 0; level < pv_first_pass_levels(); ++level) {
            open[level] = pv_first_pass_level(level)->run(law, x, h, b, uncertainty, word, out[level], n);
            CHECK(n == 64 || open[level] >> n == 0);
        }
        for (int64_t j = 0; j < n; ++j) {
            ++total;
            for (int level = 0; level < pv_first_pass_levels(); ++level) {
                if (open[level] >> j & 1) continue;
                double lattice = out[level][j] / h;
                CHECK(lattice == rint(lattice) && !(out[level][j] == 0.0 && signbit(out[level][j])));
                CHECK(open[0] >> j & 1 || out[level][j] == out[0][j]);
                /* and the ideal sum is within half a step of it */
                double sum = x[j] / h + b * pv_lattice_value(law, word[j]).z;
                CHECK(fabs(sum - lattice) <= 0.5 + fabs(sum) * 0x1p-50);
                decided += level == 0;
                if (level == 0) digest(out[0][j]);
            }
        }
    }
    CHECK(decided > total * 98 / 100);
}

/* Sums closer to a boundary than the bounds are never decided: the allowed errors are used. */
static void must_leave_open(const pv_first_pass *pass, pv_law law) {
    const pv_first_pass_bound *bound = &pass->bounds[law];
    for (int trial = 0; trial < 20000; ++trial) {
        double x[PV_FIRST_PASS_CHUNK] = {0}, out[PV_FIRST_PASS_CHUNK];
        uint64_t word[PV_FIRST_PASS_CHUNK] = {0};
        const double b = 1024.0 + 1023.0 * (0.5 + 0.5 * random_unit()), uncertainty = trial % 2 ? 0x1p-22 : 0.0;
        const uint64_t w = word[0] = random_word();
        uint32_t top[PV_FIRST_PASS_PAD] = {(uint32_t)(w >> 32)};
        float found[PV_FIRST_PASS_PAD];
        pass->quantile(law, top, found, PV_FIRST_PASS_PAD);
        const double size = (double)found[0], z = law != PV_EXPONENTIAL && w & SIGN_BIT ? -size : size;
        if (!(size < (double)bound->most)) continue;
        /* on the lattice of half steps, moved by less than the errors of z and the scale */
        const double off = b * (size * ((double)bound->error + uncertainty) + (double)bound->floor);
        const double middle = floor(100.0 * random_unit()) + 0.5;
        x[0] = middle - b * z + 0.99 * off * random_unit();
        CHECK(pass->run(law, x, 1.0, b, uncertainty, word, out, 1) == 1);
        /* also beyond all bounds */
        word[0] = (w & SIGN_BIT) | (w & ~SIGN_BIT) >> 20;
        CHECK(pass->run(law, x, 1.0, b, 0.0, word, out, 1) == 1);
    }
}

int main(void) {
    CHECK(pv_first_pass_levels() >= 1 && pv_first_pass_levels() <= 8);
    for (int k = 0; k < PV_LAWS; ++k) {
        const uint64_t state = check_state; /* the digest does not depend on the number of levels */
        for (int level = 0; level < pv_first_pass_levels(); ++level) {
            check_state = state;
            every(pv_first_pass_level(level), (pv_law)k);
            must_leave_open(pv_first_pass_level(level), (pv_law)k);
        }
        check_state = state;
        levels_agree((pv_law)k);
    }
    return finish("first_pass");
}
