/* Numbers that one thread changes and others may read meanwhile, each by itself: counters of a run, the holder of its
 * lock. To the compilers that have them these are atomic accesses without an order, which cost what plain ones do. */
#ifndef PV_SHARED_H
#define PV_SHARED_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define PV_LOAD(place, value) __atomic_load(place, value, __ATOMIC_RELAXED)
#define PV_STORE(place, value) __atomic_store(place, value, __ATOMIC_RELAXED)
#else /* aligned words are read and written whole by the processors that others make code for */
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
    pv_show(place, *place + more);
    return *place;
}

#endif
