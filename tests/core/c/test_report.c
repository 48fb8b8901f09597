/* Local randomizers: the clip and the side of a cap against long double, and runs of reports from a buffer of words. */
#include "check.h"
#include "noise/pv_bits.h"
#include "noise/pv_mixture.h"
#include "reports/pv_report.h"

#define MOST 40
#define ROOM 64

static pv_report plan_of(pv_report_kind kind, int64_t d) {
    const double scale = 0.5 + fabs(random_unit());
    const double step = pv_lattice_step(scale / sqrt((double)d));
    pv_report plan = {kind, d, 1.5, scale, step, 0.0, 0, pv_report_words(kind, d), 1};
    if (kind == PV_REPORT_CAP) {
        plan.gamma = fabs(random_unit()) / sqrt((double)d);
        plan.threshold = random_word();
        plan.trials = 3;
    }
    if (kind == PV_REPORT_SIGN) plan.threshold = random_word() >> 1;
    return plan;
}

static void clips(void) {
    for (int trial = 0; trial < 20000; ++trial) {
        const int64_t d = 1 + (int64_t)(random_word() % MOST);
        const double bound = exp(200 * random_unit()), size = exp(600 * random_unit());
        double *x = random_doubles(d, size), *v = doubles(d);
        if (trial % 10 == 0) x[random_word() % (uint64_t)d] = trial % 20 ? (double)NAN : HUGE_VAL;
        pv_report_clip(bound, d, x, v);
        long double norm = 0, whole = 0;
        for (int64_t j = 0; j < d; ++j) {
            whole += (long double)x[j] * x[j];
            norm += (long double)v[j] * v[j];
        }
        CHECK(sqrtl(norm) <= bound * (1 + (d + 64) * 0x1p-53L));
        if (trial % 10 == 0) CHECK(norm == 0);
        if (trial % 10 && sqrtl(whole) < bound * 0.999L)
            for (int64_t j = 0; j < d; ++j) CHECK(v[j] == x[j]);
        if (trial % 10 && sqrtl(whole) > bound * 1.001L && sqrtl(whole) < bound * 1e200L)
            CHECK(fabsl(sqrtl(norm) / bound - 1) < 1e-14L);
        free(x), free(v);
    }
}

/* <Z, v> - gamma |Z| |v| in long double, of the computed z. */
static long double side(const pv_report *plan, const double *v, const unsigned char *words, long double *wrong) {
    long double product = 0, z2 = 0, v2 = 0, e2 = 0;
    for (int64_t j = 0; j < plan->d; ++j) {
        const pv_value z = pv_lattice_value(PV_GAUSSIAN, pv_word(words + 8 * j));
        product += (long double)z.z * v[j];
        z2 += (long double)z.z * z.z;
        v2 += (long double)v[j] * v[j];
        e2 += (long double)z.error * z.error;
    }
    *wrong = 2 * sqrtl(e2 * v2);
    return product - plan->gamma * sqrtl(z2 * v2);
}

/* Reports of rows 1, 2, ... from words drawn in the listed order; every draw is checked for what it used. */
static void run(pv_report_kind kind, int64_t d) {
    const pv_report plan = plan_of(kind, d);
    const int64_t words = pv_row_words(plan.words), capacity = 5;
    double *v = doubles(d), *out = doubles(d);
    pv_undecided und = {
        0, 0, plan.words, buffer(plan.words, 8), buffer(plan.words, 8), doubles(plan.words), 0, doubles(plan.words)};
    pv_draws draws = {buffer(capacity * words, 8), NULL, buffer(capacity, 8), capacity, 0, 0, &und, 0.0,
                      pv_first_pass_level(0)};
    for (uint64_t row = 1; row < ROOM; ++row) {
        for (int64_t j = 0; j < d; ++j) v[j] = random_unit() / sqrt((double)d);
        if (row % 7 == 0) memset(v, 0, 8 * (size_t)d);
        const int64_t left = draws.filled - draws.used;
        pv_status status = pv_report_draw(&plan, &draws, row, v, out);
        for (int calls = 0; status != PV_OK; ++calls) {
            CHECK(status == PV_NEED_BITS && calls < 100000);
            const uint64_t first = pv_report_next(&draws, row);
            CHECK((first & PV_REPORT_ROW_MASK) == row && (kind == PV_REPORT_CAP || first == row));
            draws.filled = pv_report_upcoming(&plan, first, ROOM, capacity, draws.rows);
            draws.used = 0;
            CHECK(draws.filled == (kind == PV_REPORT_CAP || ROOM - row >= 4 ? 5 : (int64_t)(ROOM - row + 1)));
            CHECK(draws.rows[0] == first);
            for (int64_t i = 0; i < 8 * draws.filled * words; ++i) draws.words[i] = (unsigned char)random_word();
            status = pv_report_draw(&plan, &draws, row, v, out);
        }
        CHECK(left == 0 || draws.used > 0);
        for (int64_t i = 0; i < 8 * draws.used * words; ++i) CHECK(draws.words[i] == 0); /* wiped */
        long double norm = 0;
        for (int64_t j = 0; j < d; ++j) {
            norm += (long double)out[j] * out[j];
            digest(out[j]);
        }
        if (kind == PV_REPORT_CAP) CHECK(fabsl(sqrtl(norm) / plan.scale - 1) < 1e-3L);
        if (kind == PV_REPORT_SIGN) CHECK(fabs(out[0]) == plan.scale);
    }
    free(v), free(out), free(und.coord), free(und.word), free(und.x), free(und.value);
    free(draws.words), free(draws.rows);
}

/* One trial whose coin lies between those of the regions: accepted only in the cap. */
static void sides(void) {
    int64_t inside = 0, outside = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        const int64_t d = 2 + (int64_t)(random_word() % (MOST - 2));
        const pv_report plan = plan_of(PV_REPORT_CAP, d);
        const int64_t words = pv_row_words(plan.words);
        double *v = random_doubles(d, 1.0 / sqrt((double)d)), *out = doubles(d);
        unsigned char *bytes = buffer(words, 8);
        uint64_t row = 1;
        pv_undecided und = {0,
                            0,
                            plan.words,
                            buffer(plan.words, 8),
                            buffer(plan.words, 8),
                            doubles(plan.words),
                            0,
                            doubles(plan.words)};
        pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
        for (int64_t i = 0; i < 8 * words; ++i) bytes[i] = (unsigned char)random_word();
        const pv_report_coins coins = pv_report_coins_of(&plan, v);
        CHECK(coins.own <= coins.other && coins.own + coins.other == plan.threshold);
        const uint64_t coin = coins.own + (coins.other - coins.own) / 2;
        for (int k = 0; k < 8; ++k) bytes[8 * d + k] = (unsigned char)(coin >> (8 * k));
        long double wrong, exact = side(&plan, v, bytes, &wrong);
        const pv_status status = pv_report_draw(&plan, &draws, 1, v, out);
        if (status == PV_UNDECIDED && und.n == 0) {
            CHECK(!(fabsl(exact) > 4 * wrong + 1e-12L));
            for (int64_t j = 0; j < d; ++j) CHECK(und.x[j] == v[j]);
        } else if (coin < coins.other) {
            CHECK(fabsl(exact) >= wrong / 2);
            CHECK((status != PV_NEED_BITS) == (exact > 0));
            exact > 0 ? ++inside : ++outside;
        }
        free(v), free(out), free(bytes), free(und.coord), free(und.word), free(und.x), free(und.value);
    }
    CHECK(inside > 1000 && outside > 1000);
}

static void put(unsigned char *bytes, uint64_t word) {
    for (int k = 0; k < 8; ++k) bytes[k] = (unsigned char)(word >> (8 * k));
}

/* A side within the error of its decision stays open: <Z, v> is closer to the border than |Z - z| |v| and rounding.
 * */
static void open_sides(void) {
    int64_t opened = 0;
    for (int trial = 0; trial < 2000; ++trial) {
        const int64_t d = 2 + (int64_t)(random_word() % (MOST - 2));
        pv_report plan = plan_of(PV_REPORT_CAP, d);
        const int64_t words = pv_row_words(plan.words);
        double *v = random_doubles(d, 1.0 / sqrt((double)d)), *out = doubles(d);
        unsigned char *bytes = buffer(words, 8);
        uint64_t row = 1;
        pv_undecided und = {0,
                            0,
                            plan.words,
                            buffer(plan.words, 8),
                            buffer(plan.words, 8),
                            doubles(plan.words),
                            0,
                            doubles(plan.words)};
        pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
        for (int64_t i = 0; i < 8 * words; ++i) bytes[i] = (unsigned char)random_word();
        long double wrong, z2 = 0, v2 = 0;
        plan.gamma = 0.0;
        long double product = side(&plan, v, bytes, &wrong);
        for (int64_t j = 0; j < d; ++j) {
            const long double z = pv_lattice_value(PV_GAUSSIAN, pv_word(bytes + 8 * j)).z;
            if (product < 0) v[j] = -v[j];
            z2 += z * z, v2 += (long double)v[j] * v[j];
        }
        product = fabsl(product);
        const long double length = sqrtl(z2 * v2);
        const long double off = (trial % 2 ? 0.9L : -0.9L) * (wrong + (long double)(d + 2) * 0x1p-53L * length);
        plan.gamma = (double)((product - off) / length);
        const pv_report_coins coins = pv_report_coins_of(&plan, v);
        put(bytes + 8 * d, coins.own + (coins.other - coins.own) / 2);
        if (plan.gamma > 0.0 && plan.gamma < 1.0 && coins.norm > 0.0 && coins.own < coins.other) {
            CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_UNDECIDED && und.n == 0);
            ++opened;
        }
        free(v), free(out), free(bytes), free(und.coord), free(und.word), free(und.x), free(und.value);
    }
    CHECK(opened > 500);
}

/* A coordinate whose word lies too deep in the tail is left to the caller; with its value the report is made, and the
 * copies of its word and of the vector are wiped like the words. */
static void resolved_coordinates(void) {
    static const pv_report_kind kinds[] = {PV_REPORT_LAPLACE, PV_REPORT_L2_LAPLACE, PV_REPORT_CAP};
    for (int k = 0; k < LENGTH(kinds); ++k) {
        const int64_t d = 5;
        pv_report plan = plan_of(kinds[k], d);
        plan.threshold = 0; /* every trial is accepted */
        const int64_t words = pv_row_words(plan.words);
        unsigned char *bytes = buffer(words, 8);
        uint64_t row = 1, copies[5];
        int64_t coord[5];
        double x[5], value[5], out[5];
        const double v[5] = {0.125, -0.25, 0.375, 0.5, -0.125};
        pv_undecided und = {0, 0, d, coord, copies, x, 0, value};
        pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
        for (int64_t i = 0; i < 8 * words; ++i) bytes[i] = (unsigned char)(random_word() | 0x80 >> (i % 8));
        put(bytes + 8 * 3, 1);
        CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_UNDECIDED && und.n >= 1 && draws.used == 0);
        const int64_t n = und.n;
        CHECK(n == (kinds[k] == PV_REPORT_CAP ? d : 1)); /* the factor of a direction is of all coordinates */
        for (int64_t i = 0; i < n; ++i) value[i] = (double)(40 + coord[i]);
        und.resolved = n;
        CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_OK && draws.used == 1);
        for (int64_t i = 0; i < n; ++i) {
            CHECK(out[coord[i]] == value[i] * plan.step);
            CHECK(copies[i] == 0 && x[i] == 0.0);
        }
        CHECK(und.n == 0 && und.resolved == 0);
        for (int64_t i = 0; i < 8 * words; ++i) CHECK(bytes[i] == 0);
        for (int64_t j = 0; j < d; ++j) digest(out[j]);
        CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_NEED_BITS); /* words are used once */
        free(bytes);
    }
    const pv_report plain = plan_of(PV_REPORT_PLAIN, 2);
    uint64_t rows[2];
    CHECK(pv_report_upcoming(&plain, 1, 9, 2, rows) == 0); /* a report without noise asks for no words */
}

/* A word too deep in the tail leaves the side open, of a vector and of none, which has the first unit vector's. */
static void deep_words(void) {
    const int64_t d = 5;
    pv_report plan = plan_of(PV_REPORT_CAP, d);
    plan.threshold = UINT64_MAX;
    const int64_t words = pv_row_words(plan.words);
    unsigned char *bytes = buffer(words, 8);
    uint64_t row = 1, copies[5];
    int64_t coord[5];
    double x[5], value[5], out[5];
    pv_undecided und = {0, 0, d, coord, copies, x, 0, value};
    for (int64_t i = 0; i < 8 * words; ++i) bytes[i] = (unsigned char)(random_word() | 0x80 >> (i % 8));
    put(bytes + 8 * 3, 1);
    put(bytes + 8 * d, UINT64_MAX / 2);
    for (int zero = 0; zero < 2; ++zero) {
        const double v[5] = {zero ? 0.0 : 0.125, 0.0, 0.0, zero ? 0.0 : 0.5, 0.0};
        const pv_report_coins coins = pv_report_coins_of(&plan, v);
        pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
        put(bytes + 8 * d, coins.own);
        CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_UNDECIDED && und.n == 0 && und.most == d);
        for (int64_t j = 0; j < d; ++j) CHECK(x[j] == (zero ? (double)(j == 0) : v[j]));
    }
    free(bytes);
}

/* The coin of a sign against its probability, which never exceeds the threshold, however that is rounded. */
static void signs(void) {
    pv_undecided und = {0};
    for (int trial = 0; trial < 4000; ++trial) {
        const pv_report plan = plan_of(PV_REPORT_SIGN, 1);
        const uint64_t half = UINT64_C(1) << 63;
        unsigned char *bytes = buffer(pv_row_words(plan.words), 8);
        uint64_t row = 1;
        const double share = trial % 3 ? (double)(trial % 3) / 2.0 : 2.0 * fabs(random_unit()); /* 1/2, 1, or any */
        const double least = fmin(share, 1.0) * (double)plan.threshold;
        for (int negative = 0; negative < 2; ++negative)
            for (int beyond = 0; beyond < 2; ++beyond) {
                uint64_t shift = (uint64_t)(least * (beyond ? 1.0 + 1e-9 : 1.0 - 1e-9));
                if (beyond && share >= 1.0) shift = plan.threshold;
                double v = (negative ? -share : share) * plan.bound, out = 0.0;
                pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
                /* a word below the border gives +: the last of these, or the first of the others */
                put(bytes,
                    negative ? (beyond ? half - shift - 1 : half - shift) : (beyond ? half + shift : half + shift - 1));
                if (!plan.threshold) continue;
                CHECK(pv_report_draw(&plan, &draws, 1, &v, &out) == PV_OK);
                CHECK(out == (beyond == negative ? plan.scale : -plan.scale));
                digest(out);
            }
        free(bytes);
    }
}

/* Without a scale no kind but the plain one makes a report. */
static void never_without_a_scale(void) {
    static const pv_report_kind kinds[] = {PV_REPORT_GAUSSIAN, PV_REPORT_LAPLACE, PV_REPORT_L2_LAPLACE, PV_REPORT_CAP,
                                           PV_REPORT_SIGN};
    const double scales[] = {0.0, -1.0, 1e-300, 1e300, HUGE_VAL, (double)NAN};
    for (int k = 0; k < LENGTH(kinds); ++k)
        for (int s = 0; s < LENGTH(scales); ++s) {
            pv_report plan = plan_of(kinds[k], kinds[k] == PV_REPORT_CAP ? 2 : 1);
            plan.scale = scales[s];
            unsigned char *bytes = buffer(pv_row_words(plan.words), 8);
            uint64_t row = 1;
            pv_undecided und = {0,
                                0,
                                plan.words,
                                buffer(plan.words, 8),
                                buffer(plan.words, 8),
                                doubles(plan.words),
                                0,
                                doubles(plan.words)};
            pv_draws draws = {bytes, NULL, &row, 1, 1, 0, &und, 0.0, pv_first_pass_level(0)};
            const double v[2] = {0.5, 0.5};
            double out[2] = {7.0, 7.0};
            CHECK(pv_report_draw(&plan, &draws, 1, v, out) == PV_NOT_FINITE);
            CHECK(out[0] == 7.0 && out[1] == 7.0);
            free(bytes), free(und.coord), free(und.word), free(und.x), free(und.value);
        }
}

/* Vectors whose norm is inaccurate: coins stay in order. */
static void coins(void) {
    pv_report plan = plan_of(PV_REPORT_CAP, 2);
    const double cases[] = {0.0, -0.0, 1e-320, 1e-150, 1.0, 1.5, 1.6, 1e200, HUGE_VAL, (double)NAN};
    for (int k = 0; k < LENGTH(cases); ++k) {
        for (int full = 0; full < 2; ++full) {
            if (full) plan.threshold = UINT64_MAX;
            const double v[2] = {cases[k], 0.0};
            const pv_report_coins found = pv_report_coins_of(&plan, v);
            CHECK(found.own <= found.other && found.own + found.other == plan.threshold);
            if (fabs(cases[k]) >= 1.5 && cases[k] < 1e150) CHECK(found.own == 0);
            if (!(fabs(cases[k]) > 1e-145 && cases[k] < 1e150))
                CHECK(found.own == plan.threshold / 2 && found.norm == 0.0);
        }
    }
}

int main(void) {
    clips();
    coins();
    sides();
    open_sides();
    signs();
    never_without_a_scale();
    for (int64_t d = 1; d < 12; ++d) {
        run(PV_REPORT_GAUSSIAN, d);
        run(PV_REPORT_LAPLACE, d);
        run(PV_REPORT_L2_LAPLACE, d);
        if (d == 1) run(PV_REPORT_SIGN, d);
        if (d > 1) run(PV_REPORT_CAP, d);
    }
    resolved_coordinates();
    deep_words();
    return finish("report");
}
