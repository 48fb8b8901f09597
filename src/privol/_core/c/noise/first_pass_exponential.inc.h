/* Logarithms of the first pass in single precision: NAME, LEVEL and MULADD as for first_pass.inc.h. */

/* -log q for 0 < q <= 1, q = m 2^e with m from sqrt(1/2) to sqrt(2); log m by the series of artanh. */
LEVEL static inline float NAME(minus_log)(float q) {
    uint32_t bits = float_bits(q);
    int32_t e = (int32_t)(bits - ROOT_HALF) >> 23;
    float t = bits_float(bits - ((uint32_t)e << 23)) - 1.0f, s = t / (2.0f + t), s2 = s * s;
    float series = MULADD(s2, MULADD(s2, MULADD(s2, 0.2222f, 0.2857f), 0.4f), 0.66666667f);
    return -MULADD((float)e, 0.69314718f, s * MULADD(s2, series, 2.0f));
}

LEVEL static void NAME(exponential)(const uint32_t *restrict top, float *restrict z, int64_t n) {
    for (int64_t j = 0; j < n; ++j)
        z[j] = NAME(minus_log)(((float)(int32_t)(top[j] & UINT32_C(0x7FFFFFFF)) + 0.5f) * 0x1p-31f);
}
