/* Shared code of the drivers: a check that ends the run, a fixed generator, buffers of exactly the requested size
 * (so that the sanitizer detects the first byte beyond), and a digest of results that must not depend on how the
 * kernels were compiled. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* Drivers also run in several threads at once: what they write is each thread's own. */
#define THREAD _Thread_local

#define LENGTH(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

static THREAD uint64_t check_state = UINT64_C(0x9E3779B97F4A7C15);
static THREAD uint64_t check_digest = UINT64_C(0xCBF29CE484222325);

static inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Never twice in one expression: compilers would not agree on which of the two is first, nor their digests. */
static inline uint64_t random_word(void) { return mix(check_state += UINT64_C(0x9E3779B97F4A7C15)); }

/* Uniform in (-1, 1). */
static inline double random_unit(void) { return (double)((int64_t)random_word() >> 11) * 0x1p-52; }

static inline void *buffer(int64_t n, size_t size) {
    void *p = malloc((size_t)n * size);
    CHECK(p != NULL || n == 0);
    return p;
}

static inline double *doubles(int64_t n) { return (double *)buffer(n, sizeof(double)); }

static inline double *random_doubles(int64_t n, double scale) {
    double *p = doubles(n);
    for (int64_t j = 0; j < n; ++j) p[j] = scale * random_unit();
    return p;
}

static inline uint64_t bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

static inline void digest(double x) { check_digest = mix(check_digest ^ bits_of(x)); }

static inline int finish(const char *name) {
    printf("%s %016llx\n", name, (unsigned long long)check_digest);
    return 0;
}

#endif
