/* The first pass at one instruction-set level. The includer defines NAME(x), the names of its functions; LEVEL,
 * their attributes; MULADD(a, b, c), its a b + c. Compilers vectorise loops over arrays of one element width whose
 * length is a multiple of every vector length. */

LEVEL static void NAME(gaussian)(const uint32_t *restrict top, float *restrict z, int64_t n) {
    float v[PV_FIRST_PASS_CHUNK], x[PV_FIRST_PASS_CHUNK];
    for (int64_t j = 0; j < n; ++j) {
        /* p in the middle of its interval, x = 1 - p and q = 1 - x^2, each with a small relative error */
        int32_t k = (int32_t)(top[j] & UINT32_C(0x7FFFFFFF));
        float p = ((float)k + 0.5f) * 0x1p-31f, q = p * (2.0f - p);
        x[j] = ((float)(INT32_MAX - k) + 0.5f) * 0x1p-31f;
        v[j] = NAME(minus_log)(q) - 2.5f;
    }
    for (int64_t j = 0; j < n; ++j) {
        float r = 2.81022636e-08f; /* erfinv(x) / x as a polynomial in -log(1 - x^2) - 2.5 (Giles 2010) */
        r = MULADD(r, v[j], 3.43273939e-07f);
        r = MULADD(r, v[j], -3.5233877e-06f);
        r = MULADD(r, v[j], -4.39150654e-06f);
        r = MULADD(r, v[j], 0.00021858087f);
        r = MULADD(r, v[j], -0.00125372503f);
        r = MULADD(r, v[j], -0.00417768164f);
        r = MULADD(r, v[j], 0.246640727f);
        r = MULADD(r, v[j], 1.50140941f);
        z[j] = 1.41421356f * x[j] * r;
    }
}

LEVEL static void NAME(quantile)(pv_law law, const uint32_t *top, float *z, int64_t n) {
    if (law == PV_GAUSSIAN)
        NAME(gaussian)(top, z, n);
    else
        NAME(exponential)(top, z, n);
}

/* x = s u in units of h, split into an integer and the rest, as if s u were rounded and then divided: h is a power
 * of two. */
LEVEL static inline void NAME(split)(const double *restrict u, double factor, double *restrict whole,
                                     float *restrict rest, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        double v = factor * u[j];
        whole[j] = pv_round(v);
        rest[j] = (float)(v - whole[j]);
    }
}

LEVEL static inline void NAME(join)(const double *restrict whole, const float *restrict nearest, double h,
                                    double *restrict out, int64_t n) {
    for (int64_t j = 0; j < n; ++j)
        out[j] = (whole[j] + (double)nearest[j]) * h; /* never -0: whole is +0 or not zero */
}

/* Z of the words with its sign: eight at a time, and the last eight again if n is not a multiple of eight. */
LEVEL static void NAME(values)(pv_law law, const void *given, float *z, int64_t n) {
    const uint32_t sign = bounds[law].sign;
    const unsigned char *words = given;
    unsigned char few[64] = {0};
    if (n < 1) return;
    if (n < 8) words = memcpy(few, words, 8 * (size_t)n);
    const int64_t even = n & ~(int64_t)7, last = n < 8 ? 0 : n - 8, padded = even < n ? even + 8 : even;
    uint32_t top[PV_FIRST_PASS_CHUNK];
    float found[PV_FIRST_PASS_CHUNK];
    for (int64_t j = 0; j < even; j += 8) NAME(upper_halves)(words + 8 * j, top + j);
    if (even < n) NAME(upper_halves)(words + 8 * last, top + even);
    NAME(quantile)(law, top, found, padded);
    for (int64_t j = 0; j < padded; ++j) found[j] = bits_float(float_bits(found[j]) | (top[j] & sign));
    memcpy(z, found, 4 * (size_t)(n < even ? n : even));
    memcpy(z + last, found + even, even < n ? 4 * (size_t)(n - last) : 0);
}

/* What n sums (n a multiple of eight) round to, and the flags of those that are undecided. */
LEVEL static inline void NAME(sums)(const float *restrict z, float *restrict rest, int32_t *restrict open, float scale,
                                    float relative, float limit, float most, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        const float product = scale * z[j], size = fabsf(product), v = rest[j] + product;
        const float nearest = (v + 0x1.8p23f) - 0x1.8p23f, off = fabsf(v - nearest);
        rest[j] = nearest;
        open[j] = -(int32_t)(!(off < limit - relative * size) | !(size <= most)); /* NaN is undecided too */
    }
}

/* Eight at a time, and the last eight again if n is not a multiple of eight: so n >= 8. */
LEVEL static uint64_t NAME(many)(pv_law law, const double *u, double s, double h, double b, double uncertainty,
                                 const float *z, double *out, int64_t n) {
    const pv_first_pass_bound *bound = &bounds[law];
    const double factor = s * (1.0 / h);
    const float scale = (float)b, most = scale * (bound->most * 0.999f);
    /* Besides the error of z there are roundings of 2^-24: of b, of the product and of the comparison, relative to
     * the product, and of the sum; of the rest and the sum, relative to one half. Each is doubled. */
    const float relative = (bound->error + (float)uncertainty) * 1.01f + 0x1p-21f;
    const float limit = 0.5f - (scale * (bound->floor * 1.01f) + 0x1p-22f);
    const int64_t even = n & ~(int64_t)7, last = n - 8;
    float rest[PV_FIRST_PASS_CHUNK];
    double whole[PV_FIRST_PASS_CHUNK];
    int32_t open[PV_FIRST_PASS_CHUNK];
    uint64_t mask = 0;
    NAME(split)(u, factor, whole, rest, even);
    NAME(sums)(z, rest, open, scale, relative, limit, most, even);
    if (even < n) {
        NAME(split)(u + last, factor, whole + even, rest + even, 8);
        NAME(sums)(z + last, rest + even, open + even, scale, relative, limit, most, 8);
    }
    for (int64_t j = 0; j < even; j += 8) mask |= NAME(signs)(open + j) << j;
    NAME(join)(whole, rest, h, out, even);
    if (even < n) {
        mask |= NAME(signs)(open + even) << last;
        NAME(join)(whole + even, rest + even, h, out + last, 8);
    }
    return mask;
}

LEVEL static uint64_t NAME(add)(pv_law law, const double *u, double s, double h, double b, double uncertainty,
                                const float *z, double *out, int64_t n) {
    if (n >= 8) return NAME(many)(law, u, s, h, b, uncertainty, z, out, n);
    double x[8] = {0}, rounded[8];
    float few[8] = {0};
    for (int64_t j = 0; j < n; ++j) {
        x[j] = u[j];
        few[j] = z[j];
    }
    uint64_t mask = NAME(many)(law, x, s, h, b, uncertainty, few, rounded, 8);
    for (int64_t j = 0; j < n; ++j) out[j] = rounded[j];
    return mask & ((UINT64_C(1) << n) - 1);
}

LEVEL static uint64_t NAME(round)(pv_law law, const double *u, double s, double h, double b, double uncertainty,
                                  const void *words, double *out, int64_t n) {
    float z[PV_FIRST_PASS_CHUNK];
    NAME(values)(law, words, z, n);
    return NAME(add)(law, u, s, h, b, uncertainty, z, out, n);
}

LEVEL static uint64_t NAME(run)(pv_law law, const double *x, double h, double b, double uncertainty,
                                const uint64_t *word, double *out, int64_t n) {
    return NAME(round)(law, x, 1.0, h, b, uncertainty, word, out, n);
}
