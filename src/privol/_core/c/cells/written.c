#include "cells/pv_written.h"

#include <string.h>

#include "cells/pv_moment.h"

int pv_is_missing(const pv_written *written, const unsigned char *p, const unsigned char *end) {
    int64_t begin = 0;
    if (p == end) return 1;
    if (!written->begins[*p]) return 0;
    for (int64_t i = 0; i < written->n_missing; begin = written->ends[i++])
        if (end - p == written->ends[i] - begin && memcmp(p, written->missing + begin, (size_t)(end - p)) == 0)
            return 1;
    return 0;
}

static pv_cell told(const pv_written *written, const unsigned char *p, const unsigned char *end, double *value) {
    if (pv_is_missing(written, p, end)) return PV_CELL_MISSING;
    switch (pv_number(p, end, written->mark, written->other, value)) {
    case PV_SAID: return PV_CELL_NUMBER;
    case PV_SAID_OPEN: return PV_CELL_OPEN;
    default: return pv_moment(p, end, value) ? PV_CELL_TIME : PV_CELL_TEXT;
    }
}

static uint32_t turned(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }
static uint32_t mixed(uint32_t k) { return turned(k * UINT32_C(0xCC9E2D51), 15) * UINT32_C(0x1B873593); }

static uint32_t hash_of(const unsigned char *p, int64_t size) {
    uint32_t h = 0, k = 0;
    int64_t at = 0;
    for (; at + 4 <= size; at += 4) {
        k = (uint32_t)p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16 | (uint32_t)p[at + 3] << 24;
        h = turned(h ^ mixed(k), 13) * 5 + UINT32_C(0xE6546B64);
    }
    k = 0;
    for (int64_t i = size; i-- > at;) k = k << 8 | p[i];
    h ^= mixed(k) ^ (uint32_t)size;
    h = (h ^ h >> 16) * UINT32_C(0x85EBCA6B);
    h = (h ^ h >> 13) * UINT32_C(0xC2B2AE35);
    return h ^ h >> 16;
}

int64_t pv_look(const pv_written *written, int64_t n, const int32_t *ends, const unsigned char *data, double *values,
                unsigned char *cells, uint32_t *hashes) {
    int64_t open = 0;
    for (int64_t i = 0; i < n; ++i) {
        const unsigned char *p = data + ends[i], *end = data + ends[i + 1];
        double value = (double)NAN;
        pv_cell cell = PV_CELL_OPEN;
        if (pv_trimmed(&p, &end)) cell = told(written, p, end, &value);
        if (hashes != NULL) hashes[i] = cell == PV_CELL_MISSING || cell == PV_CELL_OPEN ? 0 : hash_of(p, end - p);
        open += cell == PV_CELL_OPEN;
        values[i] = cell == PV_CELL_NUMBER || cell == PV_CELL_TIME ? value : (double)NAN;
        cells[i] = (unsigned char)cell;
    }
    return open;
}

void pv_count(int64_t n, const double *values, const int64_t *weights, int64_t m, const double *low, const double *high,
              double *counts) {
    for (int64_t i = 0; i < n; ++i) {
        const double x = values[i];
        const double *first = low;
        if (x != x || weights[i] == 0) continue;
        for (int64_t size = m; size > 1;) { /* the last cell that begins at or below x; the first if there is none */
            const int64_t half = size / 2;
            first += first[half] <= x ? half : 0;
            size -= half;
        }
        int64_t at = first - low;
        /* a point is its own cell, and the cell above begins at it too: the point comes first */
        if (at > 0 && low[at] == x && high[at - 1] == x && low[at - 1] == x) --at;
        counts[at] += (double)weights[i];
    }
}
