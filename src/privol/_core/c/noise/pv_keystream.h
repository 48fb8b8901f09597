/* Keystream words in sequence for NumPy's bitgen_t, whose functions cannot report a failure.
 *
 * A word is overwritten once it is read. When too few bytes are left, or the process is a forked copy of the one that
 * the words belong to, `refill` is called: it returns with at least 8 unread bytes, or not at all.
 */
#ifndef PV_KEYSTREAM_H
#define PV_KEYSTREAM_H

#include <stdint.h>

typedef struct pv_keystream {
    unsigned char *at, *end;             /* what is not yet read */
    const volatile unsigned long *forks; /* see pv_fork.h */
    unsigned long birth;                 /* its value when the words were drawn */
    void (*refill)(void *owner);
    void *owner;
} pv_keystream;

/* The stream is a row of 4-byte units; 64-bit values take two. A single unit at the end is not read. */
uint32_t pv_keystream_uint32(void *stream);
uint64_t pv_keystream_uint64(void *stream);

/* A multiple of 2^-53 in [0, 1). */
double pv_keystream_double(void *stream);

#endif
