/* Addressed random words: word pairs are AES-256 of a 128-bit address, so that the noise of any
 * (row, coordinate) can be regenerated from the key alone and no two addresses share a word.
 *
 * Address, 16 bytes: stream (2) | level (2) | block (4) | row (8), little endian. Level 0, block j
 * holds the words of coordinates 2j and 2j + 1; level l >= 1, block c holds the l-th extra pair of
 * words of coordinate c, read only when its rounding is undecided.
 */
#ifndef PV_BITS_H
#define PV_BITS_H

#include <stddef.h>
#include <stdint.h>

#define PV_ADDRESS_BYTES 16
#define PV_FIELD_MAX 0xFFFF                 /* largest stream and level */
#define PV_DIMENSION_MAX (INT64_C(1) << 32) /* of a row: a coordinate is a block number at levels above 0 */

/* No address may wrap around into another: streams and levels up to PV_FIELD_MAX, rows of d <= PV_DIMENSION_MAX. */
static inline int pv_address_fits(unsigned stream, unsigned level, int64_t d) {
    return stream <= PV_FIELD_MAX && level <= PV_FIELD_MAX && d >= 0 && d <= PV_DIMENSION_MAX;
}

/* Precondition: pv_address_fits. */
void pv_address(unsigned char *out, unsigned stream, unsigned level, uint32_t block, uint64_t row);

/* Addresses of all level-0 blocks of one row of d coordinates; returns the bytes written, 0 if they do not fit. */
size_t pv_address_row(unsigned char *out, unsigned stream, uint64_t row, int64_t d);

/* The same, if `out` has the addresses of another row with this stream and size. */
void pv_address_turn(unsigned char *out, uint64_t row, int64_t d);

/* Words per row at level 0: d rounded up to even. */
static inline int64_t pv_row_words(int64_t d) { return (d + 1) & ~(int64_t)1; }

static inline uint64_t pv_word(const unsigned char *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* Overwrites with zeros in a way that the compiler may not remove. */
void pv_wipe(void *p, size_t n);

#endif
