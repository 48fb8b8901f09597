/* Integer noise: 128-bit arithmetic, stopping anywhere and resuming, the largest parameters. */
#include "check.h"
#include "noise/pv_bits.h"
#include "noise/pv_discrete.h"
#include "base/pv_wide.h"

#define TOP ((UINT64_C(1) << 63) - 1)

__extension__ typedef unsigned __int128 native;

static native of(pv_wide a) { return (native)a.hi << 64 | a.lo; }

static pv_wide random_wide(void) {
    pv_wide a = {0, random_word()};
    a.hi = random_word();
    a.hi >>= random_word() % 64;
    if (random_word() % 4 == 0) a.hi = 0;
    if (random_word() % 8 == 0) a.lo = random_word() % 2 ? UINT64_MAX : 0;
    return a;
}

static void wide(void) {
    for (int k = 0; k < 200000; ++k) {
        pv_wide a = random_wide(), b = random_word() % 16 ? random_wide() : a;
        CHECK(pv_wide_less(a, b) == (of(a) < of(b)));
        CHECK(of(pv_wide_sub(a, b)) == of(a) - of(b));
        CHECK(of(pv_wide_twice(a)) == of(a) << 1);
        CHECK(of(pv_wide_mul(a.hi, b.lo)) == (native)a.hi * b.lo);
        CHECK(of(pv_wide_of(a.lo)) == a.lo && pv_wide_is_zero(a) == (of(a) == 0));
    }
    CHECK(of(pv_wide_mul(UINT64_MAX, UINT64_MAX)) == (native)UINT64_MAX * UINT64_MAX);
}

/* Some distribution with decreasing block probabilities; its weights need not be exponentials here. */
typedef struct table {
    uint64_t *limits;
    uint32_t *sure;
    uint16_t *guide;
    pv_discrete law;
} table;

static table make(uint64_t a, uint64_t b, unsigned shift, int square, int slow) {
    const int64_t blocks = 63 * (int64_t)slow;
    CHECK(blocks > 0);
    table t = {buffer(blocks, 8), buffer(blocks, 4), buffer(1 << PV_DISCRETE_GUIDE_BITS, 2), {0}};
    uint64_t rest = TOP;
    for (int64_t j = 0; j < blocks; ++j) {
        if (j % slow == slow - 1) rest >>= 1;
        t.limits[j] = TOP - rest + (j + 1 < blocks && rest > 4096 ? (uint64_t)(j % slow) : 0);
        t.sure[j] = random_word() % 2 ? 1u << PV_DISCRETE_LEAD_BITS : 0;
    }
    CHECK(t.limits[blocks - 1] == TOP);
    for (int64_t j = 1; j < blocks; ++j)
        if (t.limits[j] < t.limits[j - 1]) t.limits[j] = t.limits[j - 1];
    pv_discrete_guide(t.limits, t.guide);
    t.law = (pv_discrete){.limits = t.limits,
                          .sure = t.sure,
                          .guide = t.guide,
                          .blocks = blocks,
                          .shift = shift,
                          .square = square,
                          .a = a,
                          .b = b};
    return t;
}

static void drop(table *t) { free(t->limits), free(t->sure), free(t->guide); }

static void guides(void) {
    for (int slow = 1; slow <= 5; ++slow) {
        table t = make(1, 1, 0, 0, slow);
        for (uint64_t k = 0; k < 1u << PV_DISCRETE_GUIDE_BITS; ++k) {
            uint64_t least = k << (63 - PV_DISCRETE_GUIDE_BITS);
            uint16_t j = t.guide[k];
            CHECK(j < t.law.blocks && t.limits[j] >= least && (j == 0 || t.limits[j - 1] < least));
        }
        drop(&t);
    }
}

static unsigned char *random_words(int64_t n) {
    unsigned char *p = buffer(n, 8);
    for (int64_t k = 0; k < 8 * n; ++k) p[k] = (unsigned char)random_word();
    return p;
}

static int64_t block_of(int64_t word) { return word * 7919 % (PV_DISCRETE_MAX_BLOCK + 1); }

/* All at once; then again in pieces of random length, each in a separate buffer that ends where its words end. */
static void run(const table *t, int64_t n) {
    const int64_t many = 64 * n + 256;
    unsigned char *words = random_words(many);
    for (int64_t k = 0; k < many; ++k)
        if (random_word() % 32 == 0) { /* a word that does not decide its block */
            uint64_t word = t->limits[random_word() % (uint64_t)t->law.blocks] << 1;
            word |= random_word() & 1;
            for (int i = 0; i < 8; ++i) words[8 * k + i] = (unsigned char)(word >> (8 * i));
        }
    int64_t *whole = buffer(n, 8), *parts = buffer(n, 8);
    for (int64_t k = 0; k < n; ++k) {
        int64_t x = (int64_t)random_word();
        whole[k] = parts[k] = x >> (1 + random_word() % 60);
        if (k % 16 == 0) whole[k] = parts[k] = (k % 32 ? 1 : -1) * (INT64_C(1) << 62);
    }
    pv_draw draw = {.words = words, .n_words = many, .block = -1};
    pv_status status;
    while ((status = pv_discrete_add(&t->law, &draw, whole, n)) == PV_UNDECIDED) {
        uint64_t prefix = pv_word(words + 8 * draw.used) >> 1;
        int found = 0;
        for (int64_t j = 0; j < t->law.blocks; ++j) found |= t->limits[j] == prefix;
        CHECK(found && draw.block == -1);
        draw.block = block_of(draw.used);
    }
    CHECK(status == PV_OK && draw.done == n && draw.used <= many);
    const int64_t used = draw.used;

    int64_t start = 0, length = 0;
    draw = (pv_draw){.block = -1};
    unsigned char *part = NULL;
    while ((status = pv_discrete_add(&t->law, &draw, parts, n)) != PV_OK) {
        if (status == PV_UNDECIDED) {
            draw.block = block_of(start + draw.used);
            continue;
        }
        CHECK(status == PV_NEED_BITS);
        start += draw.used;
        length = length - draw.used + 1 + (int64_t)(random_word() % 5);
        CHECK(start + length <= many);
        free(part);
        part = buffer(length, 8);
        memcpy(part, words + 8 * start, (size_t)length * 8);
        draw.words = part;
        draw.n_words = length;
        draw.used = 0;
    }
    CHECK(start + draw.used == used);
    for (int64_t k = 0; k < n; ++k) {
        CHECK(whole[k] == parts[k]);
        digest((double)whole[k]);
        digest((double)(whole[k] & 0xFFFFFFFF));
    }
    free(part), free(words), free(whole), free(parts);
}

static void draws(void) {
    static const struct {
        uint64_t a, b;
        unsigned shift;
    } laws[] = {
        {1, 1, 0},
        {32, 1, 1},
        {UINT64_C(1) << 40, 1, PV_DISCRETE_MAX_SHIFT},
        {(UINT64_C(1) << 53) - 1, UINT64_C(1) << 13, 35},
        {UINT64_C(1) << 53, (UINT64_C(1) << 48) - 1, 1},
        {(UINT64_C(1) << 53) - 1, (UINT64_C(1) << 48) - 1, 1},
    };
    for (int64_t k = 0; k < LENGTH(laws); ++k)
        for (int square = 0; square < 2; ++square)
            for (int64_t n = 0; n < 400; n = 3 * n + 1) {
                CHECK(laws[k].shift == 0 || laws[k].b << laws[k].shift <= laws[k].a >> 4);
                table t = make(laws[k].a, laws[k].b, laws[k].shift, square, 1 + (int)(n % 3));
                run(&t, n);
                drop(&t);
            }
}

int main(void) {
    wide();
    guides();
    draws();
    return finish("discrete");
}
