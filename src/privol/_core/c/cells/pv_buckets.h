/* Columns of categories by the hashes of their texts. */
#ifndef PV_BUCKETS_H
#define PV_BUCKETS_H

#include <stdint.h>

/* The feature of each hash. */
typedef struct pv_buckets {
    uint32_t buckets;   /* at least 1: that of a hash is the rest of its division by them */
    const int32_t *own; /* the place of each bucket; PV_SHARED where it has none of its own. NULL: all share */
    uint32_t shared;    /* features that the others share: that of a hash is the rest of its division by them */
    int32_t others;     /* the first of these; where there is none, the place of such hashes */
    int32_t missing;    /* the place of cells that count as missing */
} pv_buckets;

#define PV_SHARED INT32_MIN

/* The places of n cells: ``cells`` has the kind of each (pv_cell). */
void pv_places(const pv_buckets *code, int64_t n, const unsigned char *cells, const uint32_t *hashes, int32_t *places);

#endif
