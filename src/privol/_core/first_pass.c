#include "pv_first_pass.h"

#include <math.h>
#include <string.h>

#include "pv_math.h"

#define ROOT_HALF UINT32_C(0x3F3504F3) /* sqrt(1/2) */

static inline float bits_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t float_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

const pv_first_pass_bound pv_first_pass_bounds[PV_LAWS] = {
    {2.9f, 0x1.8p-22f, 0x1p-30f, UINT32_C(0x80000000)}, /* Gaussian */
    {8.0f, 0x1.8p-23f, 0x1p-24f, UINT32_C(0x80000000)}, /* Laplace */
    {8.0f, 0x1.8p-23f, 0x1p-24f, 0},                    /* exponential */
};

#define NAME(x) x##_baseline
#define LEVEL
#define MULADD(a, b, c) ((a) * (b) + (c))
#include "first_pass.inc.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define TARGETS 1
/* A section of its own shows that nothing else was compiled for more than the baseline. */
#if defined(__ELF__)
#define ABOVE_BASELINE __attribute__((section("pv_above_baseline")))
#else
#define ABOVE_BASELINE
#endif
#define V3 __attribute__((target("avx2,fma"))) ABOVE_BASELINE
#if defined(__clang__)
#define V4 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"), min_vector_width(512))) ABOVE_BASELINE
#else
#define V4 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"))) ABOVE_BASELINE
#endif

#define NAME(x) x##_v3
#define LEVEL V3
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "first_pass.inc.h"

#define NAME(x) x##_v4
#define LEVEL V4
#define MULADD(a, b, c) __builtin_fmaf(a, b, c)
#include "first_pass.inc.h"
#else
#define TARGETS 0 /* NEON is the baseline of arm64; other compilers and processors take their own */
#endif

static const pv_first_pass levels[] = {
    {"baseline", run_baseline, quantile_baseline},
#if TARGETS
    {"x86-64-v3", run_v3, quantile_v3},
    {"x86-64-v4", run_v4, quantile_v4},
#endif
};

int pv_first_pass_levels(void) {
#if TARGETS
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
