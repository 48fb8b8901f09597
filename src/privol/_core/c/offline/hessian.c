/* The Hessian sum_i c_i s_i s_i' + l2 I. Each entry is a sum over rows in order, of (c s_j) s_k for j >= k, so dense
 * tiles of rows and sparse rows added entry by entry give the same bits. */
#include <math.h>
#include <string.h>

#include "base/pv_level.h"
#include "offline/pv_objective.h"

enum {
    EIGHT = 8,   /* columns of a panel, rows and columns of a tile */
    ROWS = 64,   /* rows that are collected before the tiles use them */
    FLUSH = 4096 /* rows after which the sums are added to those of all rows */
};

/* A sparse row's outer product costs this many times what its entries would cost within tiles. */
static const double SPARSE = 8.0;

int64_t pv_hessian_width(int64_t dim) { return (dim + EIGHT - 1) / EIGHT * EIGHT; }

int64_t pv_hessian_work(int64_t dim) {
    const int64_t width = pv_hessian_width(dim);
    return width * width + 2 * ROWS * width + 2 * width;
}

/* ---- tiles: h += sum over m rows of t z', rows of h `width` apart ------------------------------------ */

static void tile_baseline(const double *restrict t, const double *restrict z, int64_t m, double *h, int64_t width) {
    for (int half = 0; half < EIGHT; half += 2) { /* two rows of h fit into the registers */
        double a[EIGHT], b[EIGHT], *restrict first = h + half * width, *restrict second = first + width;
        for (int l = 0; l < EIGHT; ++l) a[l] = first[l], b[l] = second[l];
        for (int64_t r = 0; r < m; ++r) {
            const double x = t[r * EIGHT + half], y = t[r * EIGHT + half + 1];
            for (int l = 0; l < EIGHT; ++l) a[l] += x * z[r * EIGHT + l];
            for (int l = 0; l < EIGHT; ++l) b[l] += y * z[r * EIGHT + l];
        }
        for (int l = 0; l < EIGHT; ++l) first[l] = a[l], second[l] = b[l];
    }
}

#define LEVEL
#define NAME(x) x##_baseline
#include "offline/hessian.inc.h"

#if PV_TARGETS
#define INLINE(level) level static inline __attribute__((always_inline))

/* Four rows of h by eight columns. */
INLINE(PV_V3) void strip_v3(const double *t, const double *z, int64_t m, double *h, int64_t width) {
    __m256d a[4], b[4];
    for (int i = 0; i < 4; ++i) a[i] = _mm256_loadu_pd(h + i * width), b[i] = _mm256_loadu_pd(h + i * width + 4);
    for (int64_t r = 0; r < m; ++r, t += EIGHT, z += EIGHT) {
        const __m256d low = _mm256_loadu_pd(z), high = _mm256_loadu_pd(z + 4);
        for (int i = 0; i < 4; ++i) {
            const __m256d x = _mm256_broadcast_sd(t + i);
            a[i] = _mm256_add_pd(a[i], _mm256_mul_pd(x, low));
            b[i] = _mm256_add_pd(b[i], _mm256_mul_pd(x, high));
        }
    }
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_pd(h + i * width, a[i]);
        _mm256_storeu_pd(h + i * width + 4, b[i]);
    }
}

INLINE(PV_V3) void tile_v3(const double *t, const double *z, int64_t m, double *h, int64_t width) {
    strip_v3(t, z, m, h, width);
    strip_v3(t + 4, z, m, h + 4 * width, width);
}

INLINE(PV_V4) void tile_v4(const double *t, const double *z, int64_t m, double *h, int64_t width) {
    __m512d a[EIGHT];
    for (int i = 0; i < EIGHT; ++i) a[i] = _mm512_loadu_pd(h + i * width);
    for (int64_t r = 0; r < m; ++r, t += EIGHT, z += EIGHT) {
        const __m512d all = _mm512_loadu_pd(z);
        for (int i = 0; i < EIGHT; ++i) a[i] = _mm512_add_pd(a[i], _mm512_mul_pd(_mm512_set1_pd(t[i]), all));
    }
    for (int i = 0; i < EIGHT; ++i) _mm512_storeu_pd(h + i * width, a[i]);
}

#define LEVEL PV_V3
#define NAME(x) x##_v3
#include "offline/hessian.inc.h"

#define LEVEL PV_V4
#define NAME(x) x##_v4
#include "offline/hessian.inc.h"
#endif

typedef void (*tiles)(const double *t, const double *z, int64_t m, double *h, int64_t width);
static const tiles levels[] = {
    tiles_baseline,
#if PV_TARGETS
    tiles_v3,
    tiles_v4,
#endif
};

/* ---- rows ------------------------------------------------------------------------------------------------ */

static inline int64_t row_of(const pv_objective *o, int64_t k) { return o->index ? o->index[k] : k; }

static inline int64_t begin_of(const pv_rows *r, int64_t i) {
    return r->wide_indices ? ((const int64_t *)r->indptr)[i] : ((const int32_t *)r->indptr)[i];
}

static inline int64_t column_of(const pv_rows *r, int64_t e) {
    return r->wide_indices ? ((const int64_t *)r->indices)[e] : ((const int32_t *)r->indices)[e];
}

static inline double entry_of(const pv_rows *r, int64_t e) {
    return r->is_f32 ? (double)((const float *)r->data)[e] : ((const double *)r->data)[e];
}

/* The row s, as dense numbers, into z. */
static void read_row(const pv_objective *o, int64_t i, double *z) {
    memset(z, 0, (size_t)o->dim * sizeof(double));
    o->rows.ops->axpy(&o->rows, i, o->factors ? o->factors[i] : 1.0, z);
    if (o->intercept) z[o->dim - 1] = 1.0;
}

static void add_sparse(const pv_objective *o, int64_t i, double c, double *h, int64_t width) {
    const pv_rows *r = &o->rows;
    const int64_t begin = begin_of(r, i), end = begin_of(r, i + 1);
    const double f = o->factors ? o->factors[i] : 1.0;
    for (int64_t a = begin; a < end; ++a) {
        const double x = c * (f * entry_of(r, a));
        double *row = h + column_of(r, a) * width;
        for (int64_t b = begin; b <= a; ++b) row[column_of(r, b)] += x * (f * entry_of(r, b));
    }
    if (o->intercept) {
        double *row = h + (o->dim - 1) * width;
        for (int64_t b = begin; b < end; ++b) row[column_of(r, b)] += c * (f * entry_of(r, b));
        row[o->dim - 1] += c;
    }
}

/* Row j of the collected ones, in panels of z and of c z. */
static void pack(const pv_objective *o, const int64_t *row, const double *c, int64_t m, int64_t width, double *one,
                 double *t, double *z) {
    for (int64_t r = 0; r < m; ++r) {
        read_row(o, row[r], one);
        for (int64_t k = 0; k < width; k += EIGHT)
            for (int l = 0; l < EIGHT; ++l) {
                z[k * ROWS + r * EIGHT + l] = one[k + l];
                t[k * ROWS + r * EIGHT + l] = c[r] * one[k + l];
            }
    }
}

static void flush(double *part, double *whole, int64_t n) {
    for (int64_t j = 0; j < n; ++j) whole[j] += part[j];
    memset(part, 0, (size_t)n * sizeof(double));
}

void pv_objective_hessian(const pv_objective *o, const double *curvatures, int64_t stride, double *work,
                          double *hessian) {
    const int64_t width = pv_hessian_width(o->dim), size = width * width;
    double *part = work, *t = work + size, *z = t + ROWS * width, *one = z + ROWS * width, c[ROWS];
    int64_t row[ROWS], gathered = 0;
    const tiles all = levels[PV_TARGETS ? o->level : 0];
    memset(hessian, 0, (size_t)size * sizeof(double));
    memset(work, 0, (size_t)pv_hessian_work(o->dim) * sizeof(double));
    for (int64_t k = 0, m = 0; k < o->n; k += stride) {
        if (curvatures[k] != 0.0) {
            c[m] = (double)stride * curvatures[k];
            row[m++] = row_of(o, k);
        }
        if (m == ROWS || (k + stride >= o->n && m > 0)) {
            double pairs = HUGE_VAL;
            if (o->rows.is_csr) {
                pairs = 0.0;
                for (int64_t r = 0; r < m; ++r) {
                    const double entries = (double)(begin_of(&o->rows, row[r] + 1) - begin_of(&o->rows, row[r]) + 1);
                    pairs += entries * entries;
                }
            }
            if (SPARSE * pairs < (double)m * (double)(width * width)) {
                for (int64_t r = 0; r < m; ++r) add_sparse(o, row[r], c[r], part, width);
            } else {
                pack(o, row, c, m, width, one, t, z);
                all(t, z, m, part, width);
            }
            gathered += m;
            m = 0;
            if (gathered >= FLUSH) {
                flush(part, hessian, size);
                gathered = 0;
            }
        }
    }
    flush(part, hessian, size);
}

void pv_objective_diagonal(const pv_objective *o, const double *curvatures, double *work, double *out) {
    const pv_rows *rows = &o->rows;
    memset(out, 0, (size_t)o->dim * sizeof(double));
    for (int64_t k = 0; k < o->n; ++k) {
        const double c = curvatures[k];
        if (c == 0.0) continue;
        const int64_t i = row_of(o, k);
        if (rows->is_csr) {
            const double f = o->factors ? o->factors[i] : 1.0;
            for (int64_t e = begin_of(rows, i); e < begin_of(rows, i + 1); ++e) {
                const double x = f * entry_of(rows, e);
                out[column_of(rows, e)] += c * x * x;
            }
            if (o->intercept) out[o->dim - 1] += c;
        } else {
            read_row(o, i, work);
            for (int64_t j = 0; j < o->dim; ++j) out[j] += c * work[j] * work[j];
        }
    }
}
