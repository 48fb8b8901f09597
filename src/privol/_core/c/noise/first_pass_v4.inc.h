/* The first pass for x86-64-v4. Normal quantiles use polynomials from tables in registers, and sums are in double
 * precision, so few coordinates stay undecided. Groups have eight coordinates; the last one may be shorter. */

#include "noise/gaussian_segments.inc.h"

#define INLINE PV_V4 static inline

/* 2^32 p, with p in the middle of its interval, above which a normal quantile is looked up: 3.5 and less. */
#define SHALLOWEST UINT32_C(1998270)

#define SEGMENTS(k) \
    _mm512_permutex2var_ps(_mm512_loadu_ps(gauss_segments[k]), segment, _mm512_loadu_ps(gauss_segments[k] + 16))

/* |Z| of 16 top words from p and x = 1 - p, each with a small relative error: x times a polynomial in the mantissa
 * of p, one of two for each octave. NaN deep in the tail. */
INLINE __m512 sixteen_gaussian(__m512i top) {
    const __m512i twice = _mm512_or_si512(_mm512_slli_epi32(top, 1), _mm512_set1_epi32(1)); /* without the sign */
    const __m512 p = _mm512_cvtepu32_ps(twice), x = _mm512_cvtepu32_ps(_mm512_sub_epi32(_mm512_setzero_si512(), twice));
    const __m512i bits = _mm512_castps_si512(p), segment = _mm512_srli_epi32(bits, 22);
    const __m512i mantissa =
        _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x003FFFFF)), _mm512_set1_epi32(0x3F800000));
    const __m512 t = _mm512_sub_ps(_mm512_castsi512_ps(mantissa), _mm512_set1_ps(1.25f));
    __m512 r = SEGMENTS(5);
    r = _mm512_fmadd_ps(r, t, SEGMENTS(4));
    r = _mm512_fmadd_ps(r, t, SEGMENTS(3));
    r = _mm512_fmadd_ps(r, t, SEGMENTS(2));
    r = _mm512_fmadd_ps(r, t, SEGMENTS(1));
    r = _mm512_fmadd_ps(r, t, SEGMENTS(0));
    const __mmask16 deep = _mm512_cmplt_epu32_mask(twice, _mm512_set1_epi32((int)SHALLOWEST));
    return _mm512_mask_mov_ps(_mm512_mul_ps(x, r), deep, _mm512_set1_ps((float)NAN));
}

/* The upper halves of n words, at most 16; the others are zeros. */
INLINE __m512i tops(const unsigned char *words, int64_t n) {
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const unsigned mask = n < 16 ? (1u << n) - 1 : 0xFFFF;
    return _mm512_permutex2var_epi32(_mm512_maskz_loadu_epi64((__mmask8)mask, words), odd,
                                     _mm512_maskz_loadu_epi64((__mmask8)(mask >> 8), words + 64));
}

/* Z of the words with its sign, up to the next multiple of 16; NaN if it has no bound. */
PV_V4 static void values_v4(pv_law law, const void *given, float *z, int64_t n) {
    const unsigned char *words = given;
    const pv_first_pass_bound *bound = &bounds_v4[law];
    if (law == PV_GAUSSIAN) {
        const __m512 sign = _mm512_castsi512_ps(_mm512_set1_epi32(INT32_MIN));
        for (int64_t j = 0; j < n; j += 16) {
            const __m512i top = tops(words + 8 * j, n - j);
            const __m512 signs = _mm512_and_ps(_mm512_castsi512_ps(top), sign);
            _mm512_storeu_ps(z + j, _mm512_or_ps(sixteen_gaussian(top), signs));
        }
        return;
    }
    uint32_t top[PV_FIRST_PASS_CHUNK] = {0};
    const int64_t padded = (n + 15) & ~(int64_t)15;
    for (int64_t j = 0; j < padded; j += 16) _mm512_storeu_si512(top + j, tops(words + 8 * j, n - j));
    exponential_v4(top, z, padded);
    for (int64_t j = 0; j < padded; ++j) {
        const float found = z[j] <= bound->most ? z[j] : (float)NAN;
        z[j] = bits_float(float_bits(found) | (top[j] & bound->sign));
    }
}

/* The first n of eight, in the pieces in which vectors are written (rows.c). */
INLINE __m512d first_of(const double *p, int64_t n) {
    const double *end = p + (n & 4);
    const __m128d one = n & 1 ? _mm_load_sd(end + (n & 2)) : _mm_setzero_pd();
    __m256d few = _mm256_zextpd128_pd256(n & 2 ? _mm_loadu_pd(end) : one);
    if (n & 2) few = _mm256_insertf128_pd(few, one, 1);
    return n & 4 ? _mm512_insertf64x4(_mm512_zextpd256_pd512(_mm256_loadu_pd(p)), few, 1) : _mm512_zextpd256_pd512(few);
}

INLINE void put_first(double *p, __m512d v, int64_t n) {
    __m256d few = _mm512_castpd512_pd256(v);
    if (n & 4) {
        _mm256_storeu_pd(p, few);
        few = _mm512_extractf64x4_pd(v, 1);
        p += 4;
    }
    __m128d one = _mm256_castpd256_pd128(few);
    if (n & 2) {
        _mm_storeu_pd(p, one);
        one = _mm256_extractf128_pd(few, 1);
        p += 2;
    }
    if (n & 1) _mm_store_sd(p, one);
}

PV_V4 static uint64_t add_v4(pv_law law, const double *u, double s, double h, double b, double uncertainty,
                             const float *z, double *out, int64_t n) {
    const pv_first_pass_bound *bound = &bounds_v4[law];
    /* Beside the errors of z and of the scale, a rounding of 2^-53 of a sum below 2^23: 2^-30. */
    const __m512d relative = _mm512_set1_pd(b * ((double)bound->error + uncertainty) * 1.01);
    const __m512d limit = _mm512_set1_pd(0.5 - (b * ((double)bound->floor * 1.01) + 0x1p-29));
    const __m512d factor = _mm512_set1_pd(s * (1.0 / h)), step = _mm512_set1_pd(h), scale = _mm512_set1_pd(b);
    const __m512d magic = _mm512_set1_pd(PV_ROUND_MAGIC);
    uint64_t open = 0;
    for (int64_t j = 0; j < n; j += 8) {
        const int64_t left = n - j;
        const __m512d x = _mm512_mul_pd(factor, left < 8 ? first_of(u + j, left) : _mm512_loadu_pd(u + j));
        const __m512d whole = _mm512_sub_pd(_mm512_add_pd(x, magic), magic);
        const __m512d value = _mm512_cvtps_pd(_mm256_loadu_ps(z + j));
        const __m512d sum = _mm512_fmadd_pd(scale, value, _mm512_sub_pd(x, whole));
        const __m512d nearest = _mm512_sub_pd(_mm512_add_pd(sum, magic), magic);
        const __m512d off = _mm512_abs_pd(_mm512_sub_pd(sum, nearest));
        const __m512d within = _mm512_fnmadd_pd(relative, _mm512_abs_pd(value), limit);
        const __m512d rounded =
            _mm512_mul_pd(_mm512_add_pd(whole, nearest), step);              /* never -0: whole is +0 or not zero */
        open |= (uint64_t)_mm512_cmp_pd_mask(off, within, _CMP_NLT_UQ) << j; /* NaN is undecided too */
        if (left < 8)
            put_first(out + j, rounded, left);
        else
            _mm512_storeu_pd(out + j, rounded);
    }
    return open & (~UINT64_C(0) >> (64 - n));
}

PV_V4 static uint64_t round_v4(pv_law law, const double *u, double s, double h, double b, double uncertainty,
                               const void *words, double *out, int64_t n) {
    float z[PV_FIRST_PASS_CHUNK];
    values_v4(law, words, z, n);
    return add_v4(law, u, s, h, b, uncertainty, z, out, n);
}

PV_V4 static uint64_t run_v4(pv_law law, const double *x, double h, double b, double uncertainty, const uint64_t *word,
                             double *out, int64_t n) {
    return round_v4(law, x, 1.0, h, b, uncertainty, word, out, n);
}

PV_V4 static void quantile_v4(pv_law law, const uint32_t *top, float *z, int64_t n) {
    if (law != PV_GAUSSIAN) {
        exponential_v4(top, z, n);
        return;
    }
    for (int64_t j = 0; j < n; j += 8) {
        const __m256i eight = _mm256_loadu_si256((const __m256i *)(const void *)(top + j));
        _mm256_storeu_ps(z + j, _mm512_castps512_ps256(sixteen_gaussian(_mm512_castsi256_si512(eight))));
    }
}
#undef SEGMENTS
#undef INLINE
