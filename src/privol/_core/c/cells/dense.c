#include "cells/pv_dense.h"

#include <stddef.h>
#include <string.h>

#include "cells/pv_far.h"

/* This many features stay in the nearest cache while the parts of their rows are added. */
#define NEAR 2048

static inline int64_t cell_of(const pv_part *part, int64_t i) { return part->cells == NULL ? i : part->cells[i]; }

int64_t pv_part_fault(const pv_part *part, int64_t n, int64_t width) {
    const int64_t cells = part->n_cells, features = part->kind == PV_PART_FUNCTIONS ? part->width : 1;
    const int64_t bound = part->kind == PV_PART_FUNCTIONS ? part->intervals : width;
    const int64_t entries = part->kind == PV_PART_FUNCTIONS ? 1 : part->width;
    if (part->kind != PV_PART_ENTRIES && (part->feature < 0 || part->feature > width - features)) return 0;
    if (part->cells == NULL && n > cells) return cells;
    if (part->cells != NULL)
        for (int64_t i = 0; i < n; ++i)
            if (part->cells[i] < 0 || part->cells[i] >= cells) return i;
    if (part->kind == PV_PART_ENTRIES || part->kind == PV_PART_FUNCTIONS)
        for (int64_t c = 0; c < cells * entries; ++c)
            if (part->places[c] >= bound) return n + c / entries;
    return -1;
}

static inline void functions(const pv_part *part, int64_t first, int64_t stop, int64_t own, int64_t width,
                             const double *means, double *row) {
    for (int64_t i = first; i < stop; ++i, row += width) {
        const int64_t c = cell_of(part, i);
        if (part->places[c] < 0) continue;
        const double *value = part->values + part->places[c] * own, *step = part->steps + part->places[c] * own;
        const double share = part->share[c];
        for (int64_t k = 0; k < own; ++k) row[k] = value[k] + step[k] * share - means[k];
    }
}

static void write_part(const pv_part *part, int64_t first, int64_t stop, int64_t width, const double *means,
                       double *row) {
    if (part->kind != PV_PART_ENTRIES) row += part->feature, means += part->feature;
    switch (part->kind) {
    case PV_PART_NUMBERS:
        for (int64_t i = first; i < stop; ++i, row += width)
            *row = part->values[cell_of(part, i) * part->width] - *means;
        break;
    case PV_PART_ENTRIES:
        for (int64_t i = first; i < stop; ++i, row += width) {
            const int64_t at = cell_of(part, i) * part->width;
            for (int64_t k = at; k < at + part->width; ++k) {
                const int32_t place = part->places[k];
                if (place >= 0) row[place] = (part->values == NULL ? 1.0 : part->values[k]) - means[place];
            }
        }
        break;
    case PV_PART_FUNCTIONS:
        if (part->width == 5) /* the usual number of learnt knots: without a loop */
            functions(part, first, stop, 5, width, means, row);
        else
            functions(part, first, stop, part->width, width, means, row);
        break;
    case PV_PART_FLAG:
        for (int64_t i = first; i < stop; ++i, row += width)
            if (part->states[cell_of(part, i)] & part->mask) *row = 1.0 - *means;
        break;
    }
}

/* Writes rows part by part while they are in the cache. */
static void write_near(int64_t first, int64_t stop, int64_t n_parts, const pv_part *parts, int64_t width,
                       const double *means, double *rows) {
    for (int64_t k = 0; k < width; ++k) rows[k] = 0.0 - means[k];
    for (int64_t i = 1; i < stop - first; ++i) memcpy(rows + i * width, rows, (size_t)width * sizeof *rows);
    for (int64_t j = 0; j < n_parts; ++j) write_part(parts + j, first, stop, width, means, rows);
}

void pv_dense_row(int64_t n_parts, const pv_part *parts, int64_t width, const double *means, double *row) {
    write_near(0, 1, n_parts, parts, width, means, row);
}

void pv_dense(int64_t first, int64_t stop, int64_t n_parts, const pv_part *parts, int64_t width, const double *means,
              double *rows) {
    double near[NEAR];
    if (width > NEAR) {
        for (int64_t i = first; i < stop; ++i, rows += width) write_near(i, i + 1, n_parts, parts, width, means, rows);
        return;
    }
    const int64_t step = NEAR / width;
    for (int64_t start = first, end; start < stop; start = end) {
        end = stop - start < step ? stop : start + step;
        write_near(start, end, n_parts, parts, width, means, near);
        pv_copy_far(near, (end - start) * width, rows + (start - first) * width);
    }
    pv_far_end();
}
