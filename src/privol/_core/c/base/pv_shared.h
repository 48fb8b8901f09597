/* Numbers that one thread changes and others may read meanwhile, each by itself: counters of a run, the holder of its
 * lock. Accesses are atomic and relaxed: they have no order, so several counters need not be of the same moment. */
#ifndef PV_SHARED_H
#define PV_SHARED_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define PV_LOAD(place, value) __atomic_load(place, value, __ATOMIC_RELAXED)
#define PV_STORE(place, value) __atomic_store(place, value, __ATOMIC_RELAXED)
#else /* of other compilers: processors read and write aligned words whole */
#define PV_LOAD(place, value) (*(value) = *(place))
#define PV_STORE(place, value) (*(place) = *(value))
#endif

static inline int64_t pv_peek(const int64_t *place) {
    int64_t value;
    PV_LOAD(place, &value);
    return value;
}

static inline double pv_peek_real(const double *place) {
    double value;
    PV_LOAD(place, &value);
    return value;
}

/* For the one thread that changes the number: its own reads need nothing. */
static inline void pv_show(int64_t *place, int64_t value) { PV_STORE(place, &value); }
static inline void pv_show_real(double *place, double value) { PV_STORE(place, &value); }

/* Adds, and returns the sum. */
static inline int64_t pv_tally(int64_t *place, int64_t more) {
    const int64_t sum = *place + more;
    pv_show(place, sum);
    return sum;
}

#endif
