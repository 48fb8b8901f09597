/* Integer noise with P(k) proportional to exp(-k^2 / (2 s^2)) (discrete Gaussian) or exp(-|k| / s) (discrete Laplace),
 * s = a / b, exactly: integer arithmetic only (docs/proofs/discrete.md).
 *
 * Magnitudes are cut into blocks of 2^shift integers. A proposal is a sign and a block j, drawn by inversion in
 * proportion to the weight of the block's first integer, and a uniform offset within the block; it is accepted with
 * probability exp(-(what the exponent grows from the block's first integer to the offset)). In blocks wider than one, a
 * negative zero is rejected; of blocks of one integer, the first has half the weight instead. That coin is Canonne,
 * Kamath and Steinke's, on rationals; random bits are compared with rationals digit by digit, as many as it takes.
 */
#ifndef PV_DISCRETE_H
#define PV_DISCRETE_H

#include <stdint.h>
#include "base/pv_status.h"
#include "base/pv_wide.h"

#define PV_DISCRETE_MAX_BLOCK 8192 /* no product overflows up to this block; chance of one beyond: below 2^-360 */
#define PV_DISCRETE_MAX_NUMERATOR (INT64_C(1) << 53)
#define PV_DISCRETE_MAX_SHIFT 36
#define PV_DISCRETE_GUIDE_BITS 11
#define PV_DISCRETE_LEAD_BITS 24

typedef struct pv_discrete {
    const uint64_t *limits; /* limits[j] = floor(2^63 P(block <= j)), ascending; the last is 2^63 - 1 */
    const uint32_t *sure;   /* 2^24 times the largest exponent within a block, rounded up, at most 2^24 */
    const uint16_t *guide;  /* by the first 11 bits: the first block that a word starting so can be in */
    int64_t blocks;         /* length of limits and of sure */
    unsigned shift;         /* log2 of the block width; 0, or 2^shift b <= a / 16 */
    int square;             /* Gaussian, else Laplace */
    uint64_t a, b;          /* the scale */
} pv_discrete;

typedef struct pv_draw {
    const unsigned char *words; /* raw little-endian words */
    int64_t n_words;
    int64_t used;  /* words of finished proposals; the next proposal starts there, also when it is tried again */
    int64_t done;  /* finished values */
    int64_t block; /* resolved block of the proposal at `used`, or -1 */
} pv_draw;

/* out[i] += noise for i from done to n - 1. PV_NEED_BITS: the words after `used` do not suffice for one proposal; append
 * more and call again. PV_UNDECIDED: the first 63 bits of the word at `used` do not decide the block; set `block`
 * (at most PV_DISCRETE_MAX_BLOCK) and call again. */
pv_status pv_discrete_add(const pv_discrete *law, pv_draw *draw, int64_t *out, int64_t n);

/* The first possible block by leading bits: fills 2^PV_DISCRETE_GUIDE_BITS entries. */
void pv_discrete_guide(const uint64_t *limits, uint16_t *guide);

#endif
