/* Addresses, words, wiping. */
#include "check.h"
#include "noise/pv_bits.h"

static int compare(const void *a, const void *b) { return memcmp(a, b, PV_ADDRESS_BYTES); }

static void layout(void) {
    unsigned char *a = buffer(PV_ADDRESS_BYTES, 1);
    static const unsigned char expected[16] = {0x02, 0x01, 0x04, 0x03, 0x08, 0x07, 0x06, 0x05,
                                               0x10, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0x09};
    pv_address(a, 0x0102, 0x0304, 0x05060708, UINT64_C(0x090A0B0C0D0E0F10));
    CHECK(memcmp(a, expected, 16) == 0);
    CHECK(pv_word(a) == UINT64_C(0x0506070803040102));
    CHECK(pv_word(a + 8) == UINT64_C(0x090A0B0C0D0E0F10));
    free(a);
}

static void rows(void) {
    for (int64_t d = 0; d <= 9; ++d) {
        int64_t words = pv_row_words(d);
        CHECK(words == d + d % 2);
        unsigned char *out = buffer(words, 8), one[16];
        CHECK(pv_address_row(out, 7, 123456789012345, d) == (size_t)words * 8);
        for (int64_t j = 0; j < words / 2; ++j) {
            pv_address(one, 7, 0, (uint32_t)j, 123456789012345);
            CHECK(memcmp(out + 16 * j, one, 16) == 0);
        }
        pv_address_turn(out, UINT64_MAX - 5, d);
        for (int64_t j = 0; j < words / 2; ++j) {
            pv_address(one, 7, 0, (uint32_t)j, UINT64_MAX - 5);
            CHECK(memcmp(out + 16 * j, one, 16) == 0);
        }
        free(out);
    }
}

/* No two of these addresses coincide, including neighbours in every field. */
static void distinct(void) {
    static const unsigned streams[] = {0, 1, 2, 255, 256, 65535}, levels[] = {0, 1, 2, 255, 256, 65535};
    static const uint32_t blocks[] = {0, 1, 2, 255, 256, 65536, 0xFFFFFFFF};
    static const uint64_t numbers[] = {0, 1, 2, 255, 256, 65536, UINT64_C(1) << 32, UINT64_MAX};
    const int64_t n = LENGTH(streams) * LENGTH(levels) * LENGTH(blocks) * LENGTH(numbers);
    unsigned char *all = buffer(n, PV_ADDRESS_BYTES), *at = all;
    for (int64_t s = 0; s < LENGTH(streams); ++s)
        for (int64_t l = 0; l < LENGTH(levels); ++l)
            for (int64_t b = 0; b < LENGTH(blocks); ++b)
                for (int64_t r = 0; r < LENGTH(numbers); ++r, at += PV_ADDRESS_BYTES)
                    pv_address(at, streams[s], levels[l], blocks[b], numbers[r]);
    qsort(all, (size_t)n, PV_ADDRESS_BYTES, compare);
    for (int64_t k = 1; k < n; ++k) CHECK(compare(all + 16 * (k - 1), all + 16 * k) != 0);
    free(all);
}

/* Addresses that would wrap around write nothing. */
static void limits(void) {
    unsigned char none = 0xA5;
    CHECK(pv_address_fits(0, 0, 0) && pv_address_fits(65535, 65535, INT64_C(1) << 32));
    CHECK(!pv_address_fits(65536, 0, 1) && !pv_address_fits(0, 65536, 1));
    CHECK(!pv_address_fits(0, 0, -1) && !pv_address_fits(0, 0, (INT64_C(1) << 32) + 1));
    CHECK(!pv_address_fits(UINT32_MAX, 0, 1) && !pv_address_fits(0, 0, INT64_MAX));
    CHECK(pv_address_row(&none, 65536, 1, 2) == 0);
    CHECK(pv_address_row(&none, 0, 1, (INT64_C(1) << 32) + 1) == 0);
    CHECK(pv_address_row(&none, 0, 1, -1) == 0);
    CHECK(none == 0xA5);
}

static void wiping(void) {
    for (size_t n = 0; n < 40; ++n) {
        unsigned char *p = buffer((int64_t)n + 1, 1);
        memset(p, 0xA5, n + 1);
        pv_wipe(p, n);
        for (size_t k = 0; k < n; ++k) CHECK(p[k] == 0);
        CHECK(p[n] == 0xA5);
        free(p);
    }
}

int main(void) {
    layout();
    rows();
    distinct();
    limits();
    wiping();
    return finish("bits");
}
