/* Row operations: the same bits in every layout, and correct values compared with sums in long double. */
#include "check.h"
#include "noise/pv_first_pass.h"
#include "rows/pv_rows.h"

enum { ROWS = 3 };

typedef struct layout {
    pv_rows rows;
    char *data;
    void *indptr, *indices;
} layout;

static void release(layout *l) {
    free(l->data);
    free(l->indptr);
    free(l->indices);
}

/* Dense copy with `gap` unused elements between columns; reversed: stored backwards, so both strides are negative. */
static layout dense(const double *x, int64_t d, int f32, int64_t gap, int reversed) {
    const int64_t size = f32 ? 4 : 8, step = 1 + gap, count = d ? ROWS * ((d - 1) * step + 1) : 0;
    const int64_t row = d ? (d - 1) * step + 1 : 0;
    layout l = {0};
    l.data = buffer(count, (size_t)size);
    l.rows = (pv_rows){.n = ROWS, .d = d, .data = l.data, .is_f32 = f32};
    l.rows.row_stride = size * row;
    l.rows.col_stride = size * step;
    if (reversed && d) {
        l.rows.data = l.data + size * (count - 1);
        l.rows.row_stride = -l.rows.row_stride;
        l.rows.col_stride = -l.rows.col_stride;
    }
    for (int64_t i = 0; i < ROWS; ++i)
        for (int64_t j = 0; j < d; ++j) {
            char *p = l.data + (l.rows.data - l.data) + i * l.rows.row_stride + j * l.rows.col_stride;
            float narrow = (float)x[i * d + j];
            if (f32)
                memcpy(p, &narrow, 4);
            else
                memcpy(p, &x[i * d + j], 8);
        }
    pv_rows_bind(&l.rows);
    return l;
}

static void put(void *array, int64_t k, int64_t value, int wide) {
    if (wide)
        ((int64_t *)array)[k] = value;
    else
        ((int32_t *)array)[k] = (int32_t)value;
}

static layout csr(const double *x, int64_t d, int f32, int wide) {
    layout l = {0};
    int64_t nnz = 0;
    for (int64_t k = 0; k < ROWS * d; ++k) nnz += x[k] != 0.0;
    l.data = buffer(nnz, f32 ? 4 : 8);
    l.indices = buffer(nnz, wide ? 8 : 4);
    l.indptr = buffer(ROWS + 1, wide ? 8 : 4);
    int64_t k = 0;
    for (int64_t i = 0; i < ROWS; ++i) {
        put(l.indptr, i, k, wide);
        for (int64_t j = 0; j < d; ++j) {
            if (x[i * d + j] == 0.0) continue;
            put(l.indices, k, j, wide);
            if (f32)
                ((float *)(void *)l.data)[k] = (float)x[i * d + j];
            else
                ((double *)(void *)l.data)[k] = x[i * d + j];
            ++k;
        }
    }
    put(l.indptr, ROWS, k, wide);
    l.rows = (pv_rows){.n = ROWS, .d = d, .data = l.data, .indptr = l.indptr, .indices = l.indices, .nnz = nnz};
    l.rows.is_csr = 1;
    l.rows.wide_indices = wide;
    l.rows.is_f32 = f32;
    pv_rows_bind(&l.rows);
    return l;
}

static void vectors_at(int level, const double *x, int64_t d) {
    const pv_vectors *vectors = pv_vectors_at(level);
    double *out = doubles(d), *sum = doubles(d), *before = doubles(d);
    /* the digest is independent of levels */
    for (int64_t j = 0; j < d; ++j) before[j] = sum[j] = 1.0 + 0.1 * (double)j;
    CHECK(bits_of(vectors->sqnorm(x, d)) == bits_of(pv_sqnorm(x, d)));
    vectors->publish(x, -0.3, 1.0, out, sum, d);
    for (int64_t j = 0; j < d; ++j) {
        CHECK(bits_of(out[j]) == bits_of(x[j] * -0.3 + 0.0));
        CHECK(bits_of(sum[j]) == bits_of(before[j] + out[j]));
    }
    double *copy = doubles(d), *twice = doubles(d);
    memcpy(twice, sum, (size_t)d * sizeof(double));
    vectors->publish(x, 0.7, 2.0, out, sum, d);
    vectors->publish_two(x, 0.7, 2.0, before, twice, copy, d);
    for (int64_t j = 0; j < d; ++j)
        CHECK(bits_of(before[j]) == bits_of(out[j]) && bits_of(copy[j]) == bits_of(out[j]) &&
              bits_of(twice[j]) == bits_of(sum[j]));
    free(copy), free(twice);
    vectors->scale(x, -0.3, out, d);
    for (int64_t j = 0; j < d; ++j) CHECK(bits_of(out[j]) == bits_of(x[j] * -0.3 + 0.0));
    const pv_affine to = {x, before, 0.7, -1.3};
    vectors->follow(&to, sum, out, d);
    for (int64_t j = 0; j < d; ++j) CHECK(bits_of(out[j]) == bits_of((0.7 * x[j] - (before[j] + sum[j])) * -1.3));
    free(out), free(sum), free(before);
}

/* Two steps of a mix and its inverse, each coordinate separately: no piece touches another. */
static void mixed_at(int level, const double *w, int64_t d) {
    const pv_vectors *vectors = pv_vectors_at(level);
    enum { MOST = 9 };
    double theta[MOST], omega[MOST];
    for (int q = 1; q <= MOST; ++q) {
        double *buffers = doubles(q * d), *alone = doubles(q * d), *x = doubles(d);
        double *y = doubles(d), *sum = doubles(d), *all = doubles(d);
        for (int k = 0; k < q; ++k) {
            theta[k] = 1.0 - 1.0 / (k + 1.5);
            omega[k] = 0.3 / (k + 1.0);
        }
        for (int64_t j = 0; j < q * d; ++j) buffers[j] = alone[j] = 0.1 * (double)j - 1.0;
        for (int64_t c = 0; c < d; ++c) sum[c] = all[c] = 0.0;
        for (int step = 0; step < 2; ++step) {
            vectors->mix(theta, omega, q, w, buffers, x, d);
            for (int64_t c = 0; c < d; ++c) {
                double mixed = w[c];
                for (int k = 0; k < q; ++k) {
                    double *b = alone + k * d + c;
                    mixed += omega[k] * *b;
                    *b = theta[k] * *b + w[c];
                }
                CHECK(bits_of(x[c]) == bits_of(mixed));
            }
            memcpy(y, x, (size_t)d * sizeof(double));
            vectors->unmix(theta, omega, q, y, buffers, sum, d);
            for (int64_t c = 0; c < d; ++c) {
                double found = x[c];
                for (int k = 0; k < q; ++k) found -= omega[k] * alone[k * d + c];
                for (int k = 0; k < q; ++k) alone[k * d + c] = theta[k] * alone[k * d + c] + found;
                all[c] += found;
                CHECK(bits_of(y[c]) == bits_of(found) && bits_of(sum[c]) == bits_of(all[c]));
            }
            for (int64_t j = 0; j < q * d; ++j) CHECK(bits_of(buffers[j]) == bits_of(alone[j]));
        }
        free(buffers), free(alone), free(x), free(y), free(sum), free(all);
    }
}

/* One pass gives the bits of three. */
static void followed_at(int level, const double *y, int64_t d) {
    static const double theta[] = {0.3, 0.9, 0.99, 0.999}, omega[] = {0.1, 0.07, -0.05, 0.02};
    const pv_vectors *vectors = pv_vectors_at(level);
    double *buffers = doubles(4 * d), *alone = doubles(4 * d), *sum = doubles(d), *all = doubles(d);
    double *start = doubles(d), *base = doubles(d), *x = doubles(d), *expected = doubles(d), *out = doubles(d);
    for (int64_t j = 0; j < 4 * d; ++j) buffers[j] = alone[j] = 0.1 * (double)j - 1.0;
    for (int64_t c = 0; c < d; ++c) {
        start[c] = 0.2 * (double)c - 0.7;
        base[c] = 1.0 - 0.3 * (double)c;
        sum[c] = all[c] = 0.05 * (double)c;
    }
    const pv_affine to = {start, base, 1.7, -0.6};
    for (int step = 0; step < 2; ++step) {
        const double square = vectors->unmix_follow(theta, omega, y, buffers, sum, &to, x, d);
        memcpy(out, y, (size_t)d * sizeof(double));
        vectors->unmix(theta, omega, 4, out, alone, all, d);
        vectors->follow(&to, all, expected, d);
        CHECK(bits_of(square) == bits_of(pv_sqnorm(expected, d)));
        CHECK(memcmp(x, expected, (size_t)d * sizeof(double)) == 0);
        CHECK(memcmp(sum, all, (size_t)d * sizeof(double)) == 0);
        CHECK(memcmp(buffers, alone, 4 * (size_t)d * sizeof(double)) == 0);
    }
    free(buffers), free(alone), free(sum), free(all), free(start), free(base), free(x), free(expected), free(out);
}

static void same_in_every_layout(int64_t d) {
    double *x = random_doubles(ROWS * d, 1.0), *w = random_doubles(d, 3.0);
    for (int64_t k = 0; k < ROWS * d; ++k) x[k] = k % 3 == 1 ? 0.0 : (double)(float)x[k];
    layout all[10];
    int n = 0;
    for (int f32 = 0; f32 < 2; ++f32) {
        all[n++] = dense(x, d, f32, 0, 0);
        all[n++] = dense(x, d, f32, 2, 0);
        all[n++] = dense(x, d, f32, 1, 1);
        all[n++] = csr(x, d, f32, 0);
        all[n++] = csr(x, d, f32, 1);
    }
    for (int64_t i = 0; i < ROWS; ++i) {
        long double dot = 0, size = 0, norm = 0;
        for (int64_t j = 0; j < d; ++j) {
            long double term = (long double)x[i * d + j] * w[j];
            dot += term;
            size += fabsl(term);
            norm += (long double)x[i * d + j] * x[i * d + j];
        }
        double first_dot = 0, first_norm = 0, *first_axpy = doubles(d), *moved = doubles(d);
        double *first_scaled = doubles(d);
        for (int k = 0; k < n; ++k) {
            const pv_rows *r = &all[k].rows;
            int64_t bad = -1;
            CHECK(pv_rows_check(r, &bad) == PV_OK);
            double p = r->ops->dot(r, i, w), q = r->ops->sqnorm(r, i);
            memcpy(moved, w, (size_t)d * sizeof(double));
            r->ops->axpy(r, i, -0.37, moved);
            for (int64_t j = 0; j < d; ++j) first_scaled[j] = -0.37 * x[i * d + j] + 0.0;
            if (k == 0) {
                first_dot = p;
                first_norm = q;
                memcpy(first_axpy, moved, (size_t)d * sizeof(double));
                CHECK(fabsl(p - dot) <= 1e-15L * size);
                CHECK(fabsl(q - norm) <= 1e-15L * norm);
                for (int64_t j = 0; j < d; ++j)
                    CHECK(fabsl(moved[j] - ((long double)w[j] - 0.37L * x[i * d + j])) <= 1e-15L * 4);
                digest(p);
                digest(q);
            }
            CHECK(bits_of(p) == bits_of(first_dot));
            CHECK(bits_of(q) == bits_of(first_norm));
            CHECK(memcmp(moved, first_axpy, (size_t)d * sizeof(double)) == 0);
            for (int level = 0; level < pv_first_pass_levels(); ++level) {
                pv_rows fast = all[k].rows;
                pv_rows_use(&fast, level);
                CHECK(bits_of(fast.ops->dot(&fast, i, w)) == bits_of(first_dot));
                CHECK(bits_of(fast.ops->sqnorm(&fast, i)) == bits_of(first_norm));
                memcpy(moved, w, (size_t)d * sizeof(double));
                fast.ops->axpy(&fast, i, -0.37, moved);
                CHECK(memcmp(moved, first_axpy, (size_t)d * sizeof(double)) == 0);
                fast.ops->scaled(&fast, i, -0.37, moved);
                CHECK(memcmp(moved, first_scaled, (size_t)d * sizeof(double)) == 0);
            }
        }
        free(first_axpy);
        free(first_scaled);
        free(moved);
    }
    for (int level = 0; level < pv_first_pass_levels(); ++level) {
        vectors_at(level, x, d);
        mixed_at(level, x, d);
        followed_at(level, x, d);
    }
    CHECK(d == 0 || bits_of(pv_sqnorm(x, d)) == bits_of(all[0].rows.ops->sqnorm(&all[0].rows, 0)));
    while (n) release(&all[--n]);
    free(x);
    free(w);
}

/* Every kind of invalid entry in every position is found, in every layout; the largest allowed one is not. */
static void unusable_entries(void) {
    const double wrong[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, 1.1e150, -1e300};
    enum { D = 11 };
    double x[ROWS * D], norms[ROWS], value;
    for (int64_t at = 0; at < ROWS * D; ++at)
        for (int64_t kind = 0; kind <= LENGTH(wrong); ++kind) {
            for (int64_t k = 0; k < ROWS * D; ++k) x[k] = 1.0 + (double)k;
            const int allowed = kind == LENGTH(wrong);
            x[at] = allowed ? -PV_ENTRY_MAX : wrong[kind];
            layout all[] = {dense(x, D, 0, 0, 0), dense(x, D, 0, 3, 0), dense(x, D, 0, 0, 1), csr(x, D, 0, 0),
                            csr(x, D, 0, 1)};
            for (int64_t k = 0; k < LENGTH(all); ++k) {
                int64_t first = pv_rows_norms(&all[k].rows, norms);
                CHECK(first == (allowed ? ROWS : at / D));
                for (int64_t i = 0; i < ROWS; ++i) CHECK((norms[i] == -1.0) == (!allowed && i == at / D));
                int64_t column = pv_rows_bad_column(&all[k].rows, at / D, &value);
                CHECK(column == (allowed ? D : at % D));
                if (!allowed) CHECK(memcmp(&value, &wrong[kind], 8) == 0);
                release(&all[k]);
            }
        }
    x[0] = HUGE_VAL;
    layout narrow = dense(x, D, 1, 0, 0);
    CHECK(pv_rows_norms(&narrow.rows, norms) == 0);
    release(&narrow);
}

/* A row is not refused because squares of valid entries overflow. */
static void large_but_usable(void) {
    enum { D = 40 };
    double x[ROWS * D], norms[ROWS];
    for (int64_t k = 0; k < ROWS * D; ++k) x[k] = PV_ENTRY_MAX;
    layout l = dense(x, D, 0, 0, 0);
    CHECK(pv_rows_norms(&l.rows, norms) == ROWS);
    CHECK(norms[0] > 3.9e301 && norms[0] < HUGE_VAL);
    release(&l);
}

static pv_status status_of(int64_t *indptr, int64_t *indices, int64_t nnz, int64_t *bad) {
    static const double data[6] = {1, 1, 1, 1, 1, 1};
    pv_status wide_status = PV_OK;
    for (int wide = 0; wide < 2; ++wide) {
        void *p = buffer(4, wide ? 8 : 4), *c = buffer(nnz, wide ? 8 : 4);
        for (int64_t k = 0; k < 4; ++k) put(p, k, indptr[k], wide);
        for (int64_t k = 0; k < nnz; ++k) put(c, k, indices[k], wide);
        pv_rows r = {.n = 3, .d = 4, .data = (const char *)data, .indptr = p, .indices = c, .nnz = nnz, .is_csr = 1};
        r.wide_indices = wide;
        pv_rows_bind(&r);
        pv_status status = pv_rows_check(&r, bad);
        if (wide) CHECK(status == wide_status);
        wide_status = status;
        free(p);
        free(c);
    }
    return wide_status;
}

static void structure(void) {
    int64_t bad = -1;
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){0, 3, 0, 1, 2}, 5, &bad) == PV_OK);
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){0, 3, 0, 1, 4}, 5, &bad) == PV_BAD_INDEX && bad == 2);
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){-1, 3, 0, 1, 2}, 5, &bad) == PV_BAD_INDEX && bad == 0);
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){0, 3, 0, 2, 1}, 5, &bad) == PV_UNSORTED && bad == 2);
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){3, 3, 0, 1, 2}, 5, &bad) == PV_UNSORTED && bad == 0);
    CHECK(status_of((int64_t[]){0, 2, 1, 5}, (int64_t[]){0, 3, 0, 1, 2}, 5, &bad) == PV_BAD_INDPTR && bad == 1);
    CHECK(status_of((int64_t[]){0, 2, 2, 6}, (int64_t[]){0, 3, 0, 1, 2}, 5, &bad) == PV_BAD_INDPTR && bad == 2);
    CHECK(status_of((int64_t[]){0, 2, 2, 6}, (int64_t[]){3, 0, 0, 1, 2}, 5, &bad) == PV_BAD_INDPTR && bad == 2);
    CHECK(status_of((int64_t[]){0, 2, 2, 5}, (int64_t[]){3, 0, 0, 1, 4}, 5, &bad) == PV_BAD_INDEX && bad == 2);
    CHECK(status_of((int64_t[]){1, 2, 2, 5}, (int64_t[]){0, 3, 0, 1, 2}, 5, &bad) == PV_BAD_INDPTR && bad == 0);
    CHECK(status_of((int64_t[]){-1, 2, 2, 5}, (int64_t[]){0, 3, 0, 1, 2}, 5, &bad) == PV_BAD_INDPTR && bad == 0);
}

/* The result of the check, entry by entry. */
static pv_status plain_check(const int64_t *indptr, const int64_t *indices, int64_t n, int64_t d, int64_t nnz) {
    pv_status found = PV_OK;
    int64_t before = 0;
    for (int64_t i = 0; i <= n; ++i) {
        if (i == 0 ? indptr[i] != 0 : indptr[i] < before || indptr[i] > nnz) return PV_BAD_INDPTR;
        before = indptr[i];
    }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t k = indptr[i]; k < indptr[i + 1]; ++k) {
            if (indices[k] < 0 || indices[k] >= d) return PV_BAD_INDEX;
            if (k > indptr[i] && indices[k] <= indices[k - 1]) found = PV_UNSORTED;
        }
    return found;
}

/* Random structures, most of them wrong in one place: the check reads nothing beyond the arrays, and for structures
 * that it admits no operation reads or writes anything beyond the row. */
static void any_structure(void) {
    static const int64_t wild[] = {-1, 0, 1, 3, 4, 1 << 20, -(1 << 20), INT32_MAX, INT32_MIN};
    int64_t seen[4] = {0};
    for (int64_t trial = 0; trial < 40000; ++trial) {
        const int64_t n = (int64_t)(random_word() % 5), d = (int64_t)(random_word() % 9);
        int64_t indptr[6] = {0}, indices[64], nnz = 0;
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < d; ++j)
                if (random_word() % 2) indices[nnz++] = j;
            indptr[i + 1] = nnz;
        }
        const int64_t any = wild[random_word() % (uint64_t)LENGTH(wild)];
        const uint64_t what = random_word() % 4;
        if (what == 1) indptr[random_word() % (uint64_t)(n + 1)] = any;
        if (what == 2 && nnz) indices[random_word() % (uint64_t)nnz] = any;
        if (what == 3 && nnz) {
            const uint64_t at = random_word() % (uint64_t)nnz;
            indices[at] = (int64_t)(random_word() % (uint64_t)d);
        }
        const int wide = (int)(trial % 2), f32 = (int)(trial / 2 % 2);
        void *p = buffer(n + 1, wide ? 8 : 4), *c = buffer(nnz, wide ? 8 : 4), *x = buffer(nnz, f32 ? 4 : 8);
        for (int64_t i = 0; i <= n; ++i) put(p, i, indptr[i], wide);
        for (int64_t k = 0; k < nnz; ++k) put(c, k, indices[k], wide);
        memset(x, 0, (size_t)nnz * (f32 ? 4 : 8));
        double *w = random_doubles(d, 1.0), *norms = doubles(n);
        pv_rows r = {.n = n, .d = d, .data = x, .indptr = p, .indices = c, .nnz = nnz, .is_csr = 1};
        r.wide_indices = wide;
        r.is_f32 = f32;
        pv_rows_bind(&r);
        int64_t bad = -1;
        const pv_status status = pv_rows_check(&r, &bad);
        CHECK(status == plain_check(indptr, indices, n, d, nnz));
        CHECK(bad >= 0 && (n == 0 || bad < n));
        ++seen[status == PV_OK ? 0 : status == PV_BAD_INDPTR ? 1 : status == PV_BAD_INDEX ? 2 : 3];
        if (status == PV_OK || status == PV_UNSORTED) {
            pv_rows_norms(&r, norms);
            for (int64_t i = 0; i < n; ++i) {
                CHECK(r.ops->dot(&r, i, w) == 0.0);
                r.ops->axpy(&r, i, 1.0, w);
            }
        }
        free(p), free(c), free(x), free(w), free(norms);
    }
    for (int64_t k = 0; k < 4; ++k) CHECK(seen[k] > 1000);
}

/* A sum of usable squares that is infinite: one number that a stride of 0 repeats. */
static void too_many_large_entries(void) {
    const double large = PV_ENTRY_MAX;
    pv_rows r = {.n = 1, .d = 180000000, .data = (const char *)&large, .row_stride = 0, .col_stride = 0};
    pv_rows_bind(&r);
    CHECK(pv_rows_norm(&r, 0) == -1.0);
    r.d = 1000;
    CHECK(pv_rows_norm(&r, 0) > 999.0 * PV_ENTRY_MAX * PV_ENTRY_MAX);
}

int main(void) {
    for (int64_t d = 0; d <= 26; ++d) same_in_every_layout(d);
    same_in_every_layout(257);
    unusable_entries();
    large_but_usable();
    too_many_large_entries();
    structure();
    any_structure();
    return finish("rows");
}
