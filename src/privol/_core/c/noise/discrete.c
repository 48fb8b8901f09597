#include "noise/pv_discrete.h"

#include "noise/pv_bits.h"

/* Words in order; every result below is 1, 0, or STARVED if the words ran out. */
typedef struct reader {
    const unsigned char *at, *end;
} reader;

#define STARVED (-1)

static inline int take(reader *r, uint64_t *word) {
    if (r->at == r->end) return 0;
    *word = pv_word(r->at);
    r->at += 8;
    return 1;
}

/* Is V < n / d for a uniform V in [0, 1) whose first `count` binary digits are given? n <= d < 2^127. The digits of
 * n / d come by long division; the first that differs from V's decides. */
static int below(reader *r, pv_wide n, pv_wide d, uint64_t digits, int count) {
    for (;;) {
        while (count-- > 0) {
            n = pv_wide_twice(n);
            int digit = !pv_wide_less(n, d);
            if (digit) n = pv_wide_sub(n, d);
            if (digit != (int)(digits >> count & 1)) return digit;
        }
        if (pv_wide_is_zero(n)) return 0;
        if (!pv_wide_less(n, d)) return 1;
        if (!take(r, &digits)) return STARVED;
        count = 64;
    }
}

/* A coin of probability exp(-n / d), n <= d: among tosses k = 1, 2, ... of probability n / (d k), the first to fail
 * has an odd number. Its first digits are given; using the product of two coins avoids computing d k. */
static int exponential_coin(reader *r, pv_wide n, pv_wide d, uint64_t digits, int count) {
    for (uint64_t k = 1;; ++k) {
        int go_on = below(r, n, d, digits, count);
        if (go_on == 1) go_on = below(r, pv_wide_of(1), pv_wide_of(k), 0, 0);
        if (go_on != 1) return go_on ? STARVED : (int)(k & 1);
        count = 0;
    }
}

static int accepted(const pv_discrete *law, reader *r, int64_t block, uint64_t offset, uint64_t lead) {
    pv_wide n = pv_wide_of(offset * law->b), d = pv_wide_of(law->a);
    if (law->square) {
        /* (first + offset)^2 - first^2 = offset (2 first + offset), over 2 (a / b)^2 */
        n = pv_wide_mul(offset * law->b, (((uint64_t)block << law->shift << 1) + offset) * law->b);
        d = pv_wide_twice(pv_wide_mul(law->a, law->a));
    }
    while (pv_wide_less(d, n)) {
        int heads = exponential_coin(r, pv_wide_of(1), pv_wide_of(1), 0, 0);
        if (heads != 1) return heads;
        n = pv_wide_sub(n, d);
    }
    return exponential_coin(r, n, d, lead, PV_DISCRETE_LEAD_BITS);
}

void pv_discrete_guide(const uint64_t *limits, uint16_t *guide) {
    uint16_t j = 0;
    for (uint64_t k = 0; k < (1u << PV_DISCRETE_GUIDE_BITS); ++k) {
        while (limits[j] < k << (63 - PV_DISCRETE_GUIDE_BITS)) ++j;
        guide[k] = j;
    }
}

pv_status pv_discrete_add(const pv_discrete *law, pv_draw *draw, int64_t *out, int64_t n) {
    const unsigned char *at = draw->words + 8 * draw->used, *end = draw->words + 8 * draw->n_words;
    const unsigned shift = law->shift;
    const uint64_t mask = (UINT64_C(1) << shift) - 1, lone_zero = shift == 0;
    int64_t done = draw->done, resolved = draw->block;
    pv_status status = PV_OK;
    while (done < n) {
        /* an unfinished proposal leaves no trace: it is made again from its first word */
        reader r = {at, end};
        uint64_t word, offset = 0;
        status = PV_NEED_BITS;
        if (!take(&r, &word)) break;
        const uint64_t prefix = word >> 1, negative = word & 1;
        int64_t block = resolved;
        if (block < 0) {
            block = law->guide[prefix >> (63 - PV_DISCRETE_GUIDE_BITS)];
            while (law->limits[block] < prefix) ++block;
            status = PV_UNDECIDED;
            if (law->limits[block] == prefix) break;
            status = PV_NEED_BITS;
        }
        int keep = 1;
        if (shift) {
            uint64_t second;
            if (!take(&r, &second)) break;
            offset = second & mask;
            const uint64_t lead = second >> (64 - PV_DISCRETE_LEAD_BITS);
            if (block >= law->blocks || lead < law->sure[block]) {
                reader slow = r;
                keep = accepted(law, &slow, block, offset, lead);
                if (keep == STARVED) break;
                r = slow;
            }
        }
        status = PV_OK;
        at = r.at;
        resolved = -1;
        const uint64_t magnitude = ((uint64_t)block << shift) + offset;
        /* zero has only one sign; if it is a block of its own, its weight includes that already. One test of a rare
         * outcome */
        if (keep && (magnitude | (negative ^ 1) | lone_zero))
            out[done++] += ((int64_t)magnitude ^ -(int64_t)negative) + (int64_t)negative;
    }
    draw->used = (at - draw->words) / 8;
    draw->done = done;
    draw->block = resolved;
    return status;
}
