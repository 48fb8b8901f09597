/* Projections: inside the set, unchanged where already inside, and optimal by the variational inequality. */
#include "check.h"
#include "rows/pv_geometry.h"

enum { D_MAX = 130 };

static THREAD double low[D_MAX], high[D_MAX];

static long double outside(const pv_set *set, const double *x, int64_t d) {
    long double sum = 0, size = 0, square = 0, worst = 0;
    for (int64_t j = 0; j < d; ++j) {
        sum += x[j];
        size += fabsl(x[j]);
        square += (long double)x[j] * x[j];
        if (set->code == PV_BOX)
            worst = fmaxl(worst, fmaxl(set->low[j] - (long double)x[j], x[j] - (long double)set->high[j]));
        if (set->code == PV_SIMPLEX) worst = fmaxl(worst, -(long double)x[j]);
    }
    if (set->code == PV_L2_BALL) return sqrtl(square) / set->size - 1;
    if (set->code == PV_L1_BALL) return size / set->size - 1;
    return set->code == PV_SIMPLEX ? fmaxl(worst, fabsl(sum / set->size - 1)) : worst;
}

/* Largest <g, z> over the set: no point of the set lies further along x - P x than P x itself. */
static long double support(const pv_set *set, const double *x, const double *p, int64_t d) {
    long double square = 0, largest = 0, highest = -HUGE_VAL, box = 0;
    for (int64_t j = 0; j < d; ++j) {
        long double g = (long double)x[j] - p[j];
        square += g * g;
        largest = fmaxl(largest, fabsl(g));
        highest = fmaxl(highest, g);
        if (set->code == PV_BOX) box += g > 0 ? g * set->high[j] : g * set->low[j];
    }
    switch (set->code) {
    case PV_L2_BALL: return set->size * sqrtl(square);
    case PV_L1_BALL: return set->size * largest;
    case PV_SIMPLEX: return set->size * highest;
    default: return box;
    }
}

static void project(const pv_set *set, const double *x, int64_t d) {
    double *p = doubles(d), *again = doubles(d), *work = doubles(2 * d);
    memcpy(p, x, (size_t)d * sizeof(double));
    pv_project(set, p, d, work);
    long double reach = 0, scale = 1e-300L;
    for (int64_t j = 0; j < d; ++j) {
        reach += ((long double)x[j] - p[j]) * p[j];
        scale += (fabsl(x[j]) + fabsl(p[j])) * (fabsl(p[j]) + fabs(set->size));
        digest(p[j]);
    }
    CHECK(outside(set, p, d) <= 1e-13L);
    CHECK(support(set, x, p, d) - reach <= 1e-13L * scale);
    if (outside(set, x, d) <= -1e-13L && set->code != PV_SIMPLEX) CHECK(memcmp(p, x, (size_t)d * sizeof(double)) == 0);
    memcpy(again, p, (size_t)d * sizeof(double));
    pv_project(set, again, d, work);
    for (int64_t j = 0; j < d; ++j) CHECK(fabs(again[j] - p[j]) <= 5e-13 * (fabs(p[j]) + fabs(set->size)));
    free(p), free(again), free(work);
}

/* Just outside a ball, by more than projections tolerate: too wide a test of its boundary would keep the point. The
 * points are made with long doubles, which are shorter on some processors, so the digest leaves them out. */
static void just_outside(const pv_set *set, int64_t d) {
    const uint64_t before = check_digest;
    double *x = random_doubles(d, 1.0);
    const long double by = 1 + outside(set, x, d);
    for (int64_t j = 0; j < d; ++j) x[j] = (double)(x[j] * (1 + 4e-13L) / by);
    project(set, x, d);
    free(x);
    check_digest = before;
}

/* One long entry and a crowd of equal short ones, which the projection leaves as short as a rounding of the total: each
 * of them is off by no more than that, however many they are. */
static void crowd(const pv_set *set, int64_t d, int64_t roundings) {
    double *x = doubles(d), *work = doubles(2 * d);
    const double little = set->size * (double)roundings * 0x1p-53;
    for (int64_t j = 0; j < d; ++j) x[j] = j == d / 2 ? set->size : little;
    pv_project(set, x, d, work);
    for (int64_t j = 0; j < d; ++j) {
        const long double share = (long double)little / (long double)d,
                          exact = j == d / 2 ? set->size - (little - share) : share;
        CHECK(fabsl(x[j] - exact) <= 4 * 0x1p-53L * set->size);
        digest(x[j]);
    }
    free(x), free(work);
}

int main(void) {
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 17, 64, D_MAX};
    static const double scales[] = {1e-3, 0.3, 1.0, 30.0, 1e6};
    for (int64_t j = 0; j < D_MAX; ++j) {
        low[j] = j % 5 ? -0.5 - 0.01 * (double)j : 0.25;
        high[j] = j % 5 ? 0.75 : 0.25; /* every fifth side has length 0 */
    }
    for (int code = 0; code < PV_SET_COUNT; ++code) {
        const pv_set set = {.code = code, .size = code == PV_BOX ? 0.0 : 1.25, .low = low, .high = high};
        for (int64_t n = 0; n < LENGTH(sizes); ++n)
            for (int64_t s = 0; s < LENGTH(scales); ++s)
                for (int repeat = 0; repeat < 30; ++repeat) {
                    const int64_t d = sizes[n];
                    double *x = random_doubles(d, scales[s]);
                    if (repeat % 3 == 1) /* ties */
                        for (int64_t j = 0; j < d; ++j) x[j] = nearbyint(2.0 * x[j]);
                    if (repeat % 10 == 2) /* all equal */
                        for (int64_t j = 0; j < d; ++j) x[j] = scales[s];
                    project(&set, x, d);
                    free(x);
                    if (code == PV_L2_BALL || code == PV_L1_BALL) just_outside(&set, d);
                }
    }
    for (int64_t d = 2; d <= 3000; d += 1 + d / 7)
        for (int64_t roundings = 1; roundings < 2 * d; roundings += 1 + d / 90) {
            const pv_set l1 = {.code = PV_L1_BALL, .size = 1.25}, simplex = {.code = PV_SIMPLEX, .size = 0.5};
            crowd(&l1, d, roundings);
            crowd(&simplex, d, roundings);
        }
    return finish("geometry");
}
