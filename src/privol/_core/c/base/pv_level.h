/* Instruction-set levels: kernels are compiled several times, and one version is chosen at run time
 * (pv_first_pass_level). One source serves all levels if compilers vectorise it; otherwise a few lines of intrinsics
 * do.
 *
 * Results do not depend on the level: every kernel fixes the order of its operations, or decides only what it can prove.
 */
#ifndef PV_LEVEL_H
#define PV_LEVEL_H

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PV_TARGETS 1
#include <immintrin.h>
/* A separate section shows that nothing else was compiled for more than the baseline. */
#if defined(__ELF__)
#define PV_ABOVE_BASELINE __attribute__((section("pv_above_baseline")))
#else
#define PV_ABOVE_BASELINE
#endif
#define PV_V3 __attribute__((target("avx2,fma"))) PV_ABOVE_BASELINE
#if defined(__clang__)
#define PV_V4 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"), min_vector_width(512))) PV_ABOVE_BASELINE
#else
#define PV_V4 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"))) PV_ABOVE_BASELINE
#endif
#else
#define PV_TARGETS 0 /* NEON is the baseline of arm64; other compilers and processors use their own */
#endif

#endif
