#include "cells/pv_buckets.h"

#include <stddef.h>

#include "cells/pv_written.h"

void pv_places(const pv_buckets *code, int64_t n, const unsigned char *cells, const uint32_t *hashes, int32_t *places) {
    for (int64_t i = 0; i < n; ++i) {
        int32_t place = code->own == NULL ? PV_SHARED : code->own[hashes[i] % code->buckets];
        if (place == PV_SHARED)
            place = code->shared ? code->others + (int32_t)(hashes[i] % code->shared) : code->others;
        places[i] = cells[i] == PV_CELL_MISSING ? code->missing : place;
    }
}
