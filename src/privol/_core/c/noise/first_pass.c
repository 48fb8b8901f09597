#include "noise/pv_first_pass.h"

#include <math.h>
#include <string.h>

#include "base/pv_level.h"
#include "base/pv_math.h"

#define ROOT_HALF UINT32_C(0x3F3504F3) /* sqrt(1/2) */

static inline float bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

#define EXPONENTIALS {8.0f, 0x1.8p-23f, 0x1p-24f, UINT32_C(0x80000000)}, {8.0f, 0x1.8p-23f, 0x1p-24f, 0}
static const pv_first_pass_bound bounds[PV_LAWS] = {{2.9f, 0x1.8p-22f, 0x1p-30f, UINT32_C(0x80000000)}, EXPONENTIALS};

/* The upper halves of eight words, in native byte order, at any alignment. */
static inline void upper_halves_baseline(const unsigned char *words, uint32_t *top) {
    for (int j = 0; j < 8; ++j) {
        uint64_t word;
        memcpy(&word, words + 8 * j, 8);
        top[j] = (uint32_t)(word >> 32);
    }
}

/* Bit j is the sign of flag j. */
static inline uint64_t signs_baseline(const int32_t *flag) {
    uint64_t mask = 0;
    for (int j = 0; j < 8; ++j) mask |= (uint64_t)((uint32_t)flag[j] >> 31) << j;
    return mask;
}

#define NAME(x) x##_baseline
#define LEVEL
#define MULADD(a, b, c) ((a) * (b) + (c))
#include "noise/first_pass_exponential.inc.h"
#include "noise/first_pass.inc.h"
#undef NAME
#undef LEVEL
#undef MULADD

#if PV_TARGETS
PV_V3 static inline void upper_halves_v3(const unsigned char *words, uint32_t *top) {
    const __m256 low = _mm256_loadu_ps((const float *)(const void *)words);
    const __m256 high = _mm256_loadu_ps((const float *)(const void *)(words + 32));
    const __m256d both = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xDD)); /* 0 1 4 5 2 3 6 7 */
    _mm256_storeu_pd((double *)(void *)top, _mm256_permute4x64_pd(both, 0xD8));
}

PV_V3 static inline uint64_t signs_v3(const int32_t *flag) {
    return (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_loadu_ps((const float *)(const void *)flag));
}

#define NAME(x) x##_v3
#define LEVEL PV_V3
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "noise/first_pass_exponential.inc.h"
#include "noise/first_pass.inc.h"
#undef NAME
#undef LEVEL
#undef MULADD

static const pv_first_pass_bound bounds_v4[PV_LAWS] = {{3.5f, 0x1.4p-22f, 0x1p-30f, UINT32_C(0x80000000)},
                                                       EXPONENTIALS};
#define NAME(x) x##_v4
#define LEVEL PV_V4
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "noise/first_pass_exponential.inc.h"
#include "noise/first_pass_v4.inc.h"
#endif

static const pv_first_pass levels[] = {
    {"baseline", bounds, run_baseline, quantile_baseline, round_baseline, values_baseline, add_baseline, 0},
#if PV_TARGETS
    {"x86-64-v3", bounds, run_v3, quantile_v3, round_v3, values_v3, add_v3, 1},
    {"x86-64-v4", bounds_v4, run_v4, quantile_v4, round_v4, values_v4, add_v4, 2},
#endif
};

int pv_first_pass_levels(void) {
#if PV_TARGETS
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? 3
               : 2;
#else
    return 1;
#endif
}

const pv_first_pass *pv_first_pass_level(int level) { return &levels[level]; }
