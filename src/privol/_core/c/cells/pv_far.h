/* Copies that bypass the caches. */
#ifndef PV_FAR_H
#define PV_FAR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/pv_level.h"

/* Copies n values past the caches, if the processor has such stores: ordinary stores would first read the memory
 * that is overwritten, and a block of rows is larger than the caches. Call pv_far_end before another thread reads
 * them. */
static inline void pv_copy_far(const double *from, int64_t n, double *to) {
#if PV_TARGETS /* all these processors have them */
    if (n && (uintptr_t)to % 16) *to++ = *from++, --n;
    for (; n >= 8; n -= 8, from += 8, to += 8) { /* a cache line */
        _mm_stream_pd(to, _mm_loadu_pd(from));
        _mm_stream_pd(to + 2, _mm_loadu_pd(from + 2));
        _mm_stream_pd(to + 4, _mm_loadu_pd(from + 4));
        _mm_stream_pd(to + 6, _mm_loadu_pd(from + 6));
    }
#endif
    if (n) memcpy(to, from, (size_t)n * sizeof *to);
}

/* Makes copies visible to other threads before anything stored later. */
static inline void pv_far_end(void) {
#if PV_TARGETS
    _mm_sfence();
#endif
}

#endif
