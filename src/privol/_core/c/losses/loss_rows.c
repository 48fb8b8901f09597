#include "losses/pv_loss_rows.h"

#include <math.h>

#include "base/pv_level.h"
#include "base/pv_math.h"

#define LANES 8

#if defined(__GNUC__) || defined(__clang__)
#define PV_INLINE inline __attribute__((always_inline))
#else
#define PV_INLINE inline
#endif

static PV_INLINE double reduce(const double a[LANES]) {
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

static PV_INLINE void pad(int64_t n, double *p, double *y) {
    for (int64_t i = n; i < PV_LOSS_ROWS; ++i) p[i] = y[i] = 1.0;
}

/* pv_exp for x <= 0 without branches; exp(-708) for x below -708. */
static PV_INLINE double exp_below(double x) {
    x = x < -708.0 ? -708.0 : x;
    const double shifted = x * 1.4426950408889634074 + PV_ROUND_MAGIC, k = shifted - PV_ROUND_MAGIC;
    const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    const double r2 = r * r, r4 = r2 * r2;
    const double a = 1.0 / 24 + r * (1.0 / 120) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    const double b = 1.0 / 40320 + r * (1.0 / 362880) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
    const double c = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
    const double tail = r2 * (0.5 + r * (1.0 / 6)) + r4 * (a + r4 * (b + r4 * c));
    return (1.0 + (r + tail)) * pv_from_bits((pv_to_bits(shifted) + 1023) << 52);
}

#define LEVEL
#define NAME(x) x##_baseline
#include "losses/loss_rows.inc.h"

#if PV_TARGETS
#define LEVEL PV_V3
#define NAME(x) x##_v3
#include "losses/loss_rows.inc.h"

#define LEVEL PV_V4
#define NAME(x) x##_v4
#include "losses/loss_rows.inc.h"
#endif

static const pv_loss_rows *const levels[] = {
    rows_baseline,
#if PV_TARGETS
    rows_v3,
    rows_v4,
#endif
};

pv_loss_rows pv_loss_rows_at(int code, int level) {
    if (code < 0 || code >= PV_LOSS_COUNT) return 0;
    return levels[PV_TARGETS ? level : 0][code];
}
