#include "rows/pv_rows.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/pv_level.h"

#define LANES 8

/* The one reduction order of all sums over columns. */
static inline double reduce(const double a[LANES]) {
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

#define RETURN_SUM(a, b, n)                                                            \
    double acc[LANES] = {0};                                                           \
    int64_t j = 0;                                                                     \
    for (; j + LANES <= n; j += LANES)                                                 \
        for (int l = 0; l < LANES; ++l) acc[l] += (double)a[j + l] * (double)b[j + l]; \
    for (; j < n; ++j) acc[j % LANES] += (double)a[j] * (double)b[j];                  \
    return reduce(acc);
#define LEVEL
#define SINGLE(n, ...)                  \
    for (int64_t c = 0; c < (n); ++c) { \
        typedef double V;               \
        __VA_ARGS__                     \
    }
#define PIECES SINGLE
/* Reading and writing a vector in a body of PIECES. */
#define AT(p) (*(const V *)(const void *)((p) + c))
#define TO(p) (*(V *)(void *)((p) + c))

#define SQUARES double lane[LANES] = {0};
#define ADD_SQUARES(v) lane[c % LANES] += (v) * (v);
#define RETURN_SQUARES return reduce(lane);
#define VECTOR(op) op##_baseline
#include "rows/sums.inc.h"
#include "rows/vectors.inc.h"
#undef VECTOR
#undef SQUARES
#undef ADD_SQUARES
#undef RETURN_SQUARES
#undef PIECES

/* Row operations written once per layout, included once per element (and index) type. */
#define ENTRIES SINGLE
#define ENTRY(x) ((double)(x)[c])
#define REAL float
#define NAME(op) op##_f32
#include "rows/rows_dense.inc.h"
#include "rows/rows_strided.inc.h"
#define INDEX int32_t
#define INDEX_MAX INT32_MAX
#define CSR(op) op##_csr_f32_i32
#include "rows/rows_csr.inc.h"
#define INDEX int64_t
#define INDEX_MAX INT64_MAX
#define CSR(op) op##_csr_f32_i64
#include "rows/rows_csr.inc.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(op) op##_f64
#include "rows/rows_dense.inc.h"
#include "rows/rows_strided.inc.h"
#define INDEX int32_t
#define INDEX_MAX INT32_MAX
#define CSR(op) op##_csr_f64_i32
#include "rows/rows_csr.inc.h"
#define INDEX int64_t
#define INDEX_MAX INT64_MAX
#define CSR(op) op##_csr_f64_i64
#include "rows/rows_csr.inc.h"
#undef REAL
#undef NAME
#undef LEVEL
#undef RETURN_SUM

#if PV_TARGETS
/* All loops over a vector cut it into the same pieces, as wide as the registers of their level, and the last entries
 * into halves of that: a load within the piece just written is served from the store buffer, others wait for memory.
 * */
typedef double two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));

#define PIECES_OF(type, ...) \
    {                        \
        typedef type V;      \
        __VA_ARGS__          \
    }
#define LAST_PIECES(n, ...)         \
    if ((n) & 2) {                  \
        PIECES_OF(two, __VA_ARGS__) \
        c += 2;                     \
    }                               \
    if ((n) & 1) PIECES_OF(double, __VA_ARGS__)

/* The eight lanes in two registers. Entries beyond the last are zeros: they add +0 to a lane that is never -0. */
#define LEVEL PV_V3
#define INLINE PV_V3 static inline
#define PIECES(n, ...)                                        \
    int64_t c = 0;                                            \
    for (; c + 4 <= (n); c += 4) PIECES_OF(four, __VA_ARGS__) \
    LAST_PIECES(n, __VA_ARGS__)

INLINE __m256d four_f64(const double *p) { return _mm256_loadu_pd(p); }
INLINE __m256d four_f32(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }

static const int32_t first_f32[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};

/* The first n of four. */
INLINE __m256d some_f64(const double *p, int64_t n) {
    if (n >= 4) return _mm256_loadu_pd(p);
    const __m256d one = n & 1 ? _mm256_zextpd128_pd256(_mm_load_sd(p + (n & 2))) : _mm256_setzero_pd();
    return n & 2 ? _mm256_insertf128_pd(_mm256_zextpd128_pd256(_mm_loadu_pd(p)), _mm256_castpd256_pd128(one), 1) : one;
}
INLINE __m256d some_f32(const float *p, int64_t n) {
    const __m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(first_f32 + LANES - (n < 4 ? n : 4)));
    return _mm256_cvtps_pd(_mm_maskload_ps(p, mask));
}

INLINE double reduce_v3(__m256d low, __m256d high) {
    __m256d both = _mm256_add_pd(low, high);
    __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

#define FOUR(p) _Generic((p), const float *: four_f32, const double *: four_f64)(p)
#define SOME(p, n) _Generic((p), const float *: some_f32, const double *: some_f64)(p, n)
#define RETURN_SUM(a, b, n)                                                                                      \
    __m256d low = _mm256_setzero_pd(), high = low;                                                               \
    const int64_t whole = n & ~(int64_t)(LANES - 1), left = n - whole;                                           \
    for (int64_t j = 0; j < whole; j += LANES) {                                                                 \
        low = _mm256_add_pd(low, _mm256_mul_pd(FOUR(a + j), FOUR(b + j)));                                       \
        high = _mm256_add_pd(high, _mm256_mul_pd(FOUR(a + j + 4), FOUR(b + j + 4)));                             \
    }                                                                                                            \
    if (left > 0) low = _mm256_add_pd(low, _mm256_mul_pd(SOME(a + whole, left), SOME(b + whole, left)));         \
    if (left > 4)                                                                                                \
        high = _mm256_add_pd(high, _mm256_mul_pd(SOME(a + whole + 4, left - 4), SOME(b + whole + 4, left - 4))); \
    return reduce_v3(low, high);

/* A piece's squares join the lanes of its first column c: only whole registers are not the last. */
INLINE void add_four_v3(__m256d *lanes, __m256d square, int64_t c) {
    lanes[c >> 2 & 1] = _mm256_add_pd(lanes[c >> 2 & 1], square);
}
INLINE void four_squares_v3(__m256d *lanes, four v, int64_t c) { add_four_v3(lanes, v * v, c); }
INLINE void two_squares_v3(__m256d *lanes, two v, int64_t c) { add_four_v3(lanes, _mm256_zextpd128_pd256(v * v), c); }
INLINE void one_square_v3(__m256d *lanes, double v, int64_t c) {
    const __m256d square = _mm256_zextpd128_pd256(_mm_set_sd(v * v));
    add_four_v3(lanes, c & 2 ? _mm256_permute2f128_pd(square, square, 0x08) : square, c);
}
#define SQUARES __m256d lanes[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
#define ADD_SQUARES(v) _Generic((v), four: four_squares_v3, two: two_squares_v3, double: one_square_v3)(lanes, v, c);
#define RETURN_SQUARES return reduce_v3(lanes[0], lanes[1]);
#define VECTOR(op) op##_v3
#include "rows/sums.inc.h"
#include "rows/vectors.inc.h"
#define REAL float
#define NAME(op) op##_f32_v3
#include "rows/rows_dense.inc.h"
#undef REAL
#undef NAME
#undef ENTRIES
#undef ENTRY
#define ENTRIES PIECES
#define ENTRY AT
#define REAL double
#define NAME(op) op##_f64_v3
#include "rows/rows_dense.inc.h"
#undef REAL
#undef NAME
#undef VECTOR
#undef LEVEL
#undef PIECES

/* Sums wait for their additions anyway, whose number is the same: they stay as they are. */
#define LEVEL PV_V4
#define PIECES(n, ...)                                         \
    int64_t c = 0;                                             \
    for (; c + 8 <= (n); c += 8) PIECES_OF(eight, __VA_ARGS__) \
    if ((n) & 4) {                                             \
        PIECES_OF(four, __VA_ARGS__)                           \
        c += 4;                                                \
    }                                                          \
    LAST_PIECES(n, __VA_ARGS__)
#undef SQUARES
#undef ADD_SQUARES
#undef RETURN_SQUARES
#undef INLINE
#define INLINE PV_V4 static inline
INLINE __m512d eight_squares_v4(eight v, int64_t c) { return (void)c, v * v; }
INLINE __m512d four_squares_v4(four v, int64_t c) { return (void)c, _mm512_zextpd256_pd512(v * v); }
INLINE __m512d two_squares_v4(two v, int64_t c) {
    return _mm512_maskz_broadcast_f64x2((__mmask8)(3u << (c & 7)), v * v);
}
INLINE __m512d one_square_v4(double v, int64_t c) {
    return _mm512_maskz_broadcastsd_pd((__mmask8)(1u << (c & 7)), _mm_set_sd(v * v));
}
#define SQUARES __m512d lanes = _mm512_setzero_pd();
#define ADD_SQUARES(v)                                                                                               \
    lanes = _mm512_add_pd(                                                                                           \
        lanes,                                                                                                       \
        _Generic((v), eight: eight_squares_v4, four: four_squares_v4, two: two_squares_v4, double: one_square_v4)(v, \
                                                                                                                  c));
#define RETURN_SQUARES return reduce_v3(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
#define VECTOR(op) op##_v4
#include "rows/vectors.inc.h"
#undef ENTRIES
#undef ENTRY
#define ENTRIES SINGLE
#define ENTRY(x) ((double)(x)[c])
#define REAL float
#define NAME(op) op##_f32_v4
#include "rows/dense_moves.inc.h"
#undef REAL
#undef NAME
#undef ENTRIES
#undef ENTRY
#define ENTRIES PIECES
#define ENTRY AT
#define REAL double
#define NAME(op) op##_f64_v4
#include "rows/dense_moves.inc.h"
#endif

#define OPS(suffix) {dot_##suffix, axpy_##suffix, scaled_##suffix, sqnorm_##suffix}
static const pv_row_ops dense_ops[][2] = {
    {OPS(f64), OPS(f32)},
#if PV_TARGETS
    {OPS(f64_v3), OPS(f32_v3)},
    {{dot_f64_v3, axpy_f64_v4, scaled_f64_v4, sqnorm_f64_v3}, {dot_f32_v3, axpy_f32_v4, scaled_f32_v4, sqnorm_f32_v3}},
#endif
};
static const pv_row_ops strided_ops[2] = {OPS(strided_f64), OPS(strided_f32)};
static const pv_row_ops csr_ops[2][2] = {{OPS(csr_f64_i32), OPS(csr_f64_i64)}, {OPS(csr_f32_i32), OPS(csr_f32_i64)}};
#define MOVES(level)                                                                                 \
    publish_##level, publish_two_##level, scale_##level, follow_##level, mix_##level, unmix_##level, \
        unmix_follow_##level
static const pv_vectors vectors[] = {
    {sqnorm_baseline, dot_baseline, combine_baseline, MOVES(baseline)},
#if PV_TARGETS
    {sqnorm_v3, dot_v3, combine_v3, MOVES(v3)},
    {sqnorm_v3, dot_v3, combine_v3, MOVES(v4)},
#endif
};

double pv_sqnorm(const double *x, int64_t n) { return sqnorm_baseline(x, n); }

const pv_vectors *pv_vectors_at(int level) { return &vectors[level]; }

void pv_rows_use(pv_rows *r, int level) {
    const int f32 = r->is_f32 != 0;
    if (!r->is_csr && (r->d <= 1 || r->col_stride == (f32 ? 4 : 8))) r->ops = &dense_ops[level][f32];
}

void pv_rows_bind(pv_rows *r) {
    int f32 = r->is_f32 != 0;
    if (r->is_csr)
        r->ops = &csr_ops[f32][r->wide_indices != 0];
    else if (r->d <= 1 || r->col_stride == (f32 ? 4 : 8))
        r->ops = &dense_ops[0][f32];
    else
        r->ops = &strided_ops[f32];
}

static inline int64_t pointer(const pv_rows *r, int64_t i) {
    return r->wide_indices ? ((const int64_t *)r->indptr)[i] : ((const int32_t *)r->indptr)[i];
}

static inline int64_t column(const pv_rows *r, int64_t k) {
    return r->wide_indices ? ((const int64_t *)r->indices)[k] : ((const int32_t *)r->indices)[k];
}

pv_status pv_rows_check(const pv_rows *r, int64_t *bad) {
    static pv_status (*const checks[2][2])(const pv_rows *, int64_t *) = {{check_csr_f64_i32, check_csr_f64_i64},
                                                                          {check_csr_f32_i32, check_csr_f32_i64}};
    *bad = 0;
    return r->is_csr ? checks[r->is_f32 != 0][r->wide_indices != 0](r, bad) : PV_OK;
}

/* NaN fails every comparison, so it counts as bad without a separate test. */
static inline int usable(double v) { return fabs(v) <= PV_ENTRY_MAX; }

static inline double entry(const pv_rows *r, int64_t i, int64_t j) {
    const char *p = r->data + i * r->row_stride + j * r->col_stride;
    return r->is_f32 ? (double)*(const float *)p : *(const double *)p;
}

int64_t pv_rows_bad_column(const pv_rows *r, int64_t i, double *value) {
    if (r->is_csr) {
        for (int64_t k = pointer(r, i); k < pointer(r, i + 1); ++k) {
            *value = r->is_f32 ? (double)((const float *)r->data)[k] : ((const double *)r->data)[k];
            if (!usable(*value)) return column(r, k);
        }
        return r->d;
    }
    for (int64_t j = 0; j < r->d; ++j) {
        *value = entry(r, i, j);
        if (!usable(*value)) return j;
    }
    return r->d;
}

double pv_rows_norm(const pv_rows *r, int64_t i) {
    double q = r->ops->sqnorm(r, i), value;
    /* one test per row: a square above the bound's makes the sum large, NaN makes it NaN */
    if (!(q <= PV_ENTRY_MAX * PV_ENTRY_MAX) && pv_rows_bad_column(r, i, &value) < r->d) return -1.0;
    return q < HUGE_VAL ? q : -1.0; /* more than 10^8 entries near the bound */
}

int64_t pv_rows_norms(const pv_rows *r, double *sqnorms) {
    int64_t first = r->n;
    for (int64_t i = 0; i < r->n; ++i) {
        sqnorms[i] = pv_rows_norm(r, i);
        if (sqnorms[i] < 0.0 && first == r->n) first = i;
    }
    return first;
}
