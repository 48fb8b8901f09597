#include "pv_first_pass.h"

#include <math.h>
#include <string.h>

#include "pv_level.h"
#include "pv_math.h"

#define ROOT_HALF UINT32_C(0x3F3504F3) /* sqrt(1/2) */

static inline float bits_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t float_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

/* The upper half of word j, in the byte order of the machine, at any alignment. */
static inline uint32_t upper_half(const void *words, int64_t j) {
    uint64_t word;
    memcpy(&word, (const unsigned char *)words + 8 * j, 8);
    return (uint32_t)(word >> 32);
}

const pv_first_pass_bound pv_first_pass_bounds[PV_LAWS] = {
    {2.9f, 0x1.8p-22f, 0x1p-30f, UINT32_C(0x80000000)}, /* Gaussian */
    {8.0f, 0x1.8p-23f, 0x1p-24f, UINT32_C(0x80000000)}, /* Laplace */
    {8.0f, 0x1.8p-23f, 0x1p-24f, 0},                    /* exponential */
};

#define NAME(x) x##_baseline
#define LEVEL
#define MULADD(a, b, c) ((a) * (b) + (c))
#include "first_pass.inc.h"

#if PV_TARGETS
#define NAME(x) x##_v3
#define LEVEL PV_V3
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "first_pass.inc.h"

#define NAME(x) x##_v4
#define LEVEL PV_V4
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "first_pass.inc.h"
#endif

static const pv_first_pass levels[] = {
    {"baseline", run_baseline, quantile_baseline, round_baseline, 0},
#if PV_TARGETS
    {"x86-64-v3", run_v3, quantile_v3, round_v3, 1},
    {"x86-64-v4", run_v4, quantile_v4, round_v4, 2},
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
