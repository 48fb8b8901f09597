#include "users/pv_users.h"

#include <string.h>

#include "base/pv_wide.h"

static inline uint64_t turn(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline void rounds(uint64_t v[4], int n) {
    for (int i = 0; i < n; ++i) {
        v[0] += v[1];
        v[1] = turn(v[1], 13) ^ v[0];
        v[0] = turn(v[0], 32);
        v[2] += v[3];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = turn(v[1], 17) ^ v[2];
        v[2] = turn(v[2], 32);
    }
}

static inline uint64_t little(const unsigned char *bytes, int n) {
    uint64_t word = 0;
    for (int i = 0; i < n; ++i) word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static inline void put_little(unsigned char *bytes, uint64_t word, int n) {
    for (int i = 0; i < n; ++i) bytes[i] = (unsigned char)(word >> (8 * i));
}

void pv_users_digest(const uint64_t key[2], const unsigned char *text, int64_t n, uint64_t digest[2]) {
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    const int64_t whole = n / 8;
    for (int64_t i = 0; i <= whole; ++i) {
        const uint64_t word =
            i < whole ? little(text + 8 * i, 8) : little(text + 8 * i, (int)(n % 8)) | (uint64_t)n << 56;
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xee;
    rounds(v, 4);
    digest[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds(v, 4);
    digest[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
    if ((digest[0] | digest[1]) == 0) digest[1] = 1; /* zeros mark a free entry: one digest in 2^128 shares another's */
}

void pv_users_layout(pv_users *table) {
    table->counted = table->max_rows < 1 << 8 ? 1 : table->max_rows < 1 << 16 ? 2 : 4;
    table->stride = PV_USERS_DIGEST + table->counted + (table->separation > 1 ? PV_USERS_LAST : 0);
}

/* The entry of a digest, or the free one where it would be; there always is one. */
static unsigned char *entry_of(const pv_users *table, const uint64_t digest[2]) {
    int64_t at = (int64_t)pv_wide_mul(digest[0], (uint64_t)table->room).hi;
    for (;; at = at + 1 == table->room ? 0 : at + 1) {
        unsigned char *entry = table->entries + at * table->stride;
        uint64_t found[2];
        memcpy(found, entry, PV_USERS_DIGEST);
        if ((found[0] == digest[0] && found[1] == digest[1]) || (found[0] | found[1]) == 0) return entry;
    }
}

static inline int is_free(const unsigned char *entry) {
    uint64_t found[2];
    memcpy(found, entry, PV_USERS_DIGEST);
    return (found[0] | found[1]) == 0;
}

static inline int64_t count_of(const pv_users *table, const unsigned char *entry) {
    return (int64_t)little(entry + PV_USERS_DIGEST, table->counted);
}

static inline int64_t last_of(const pv_users *table, const unsigned char *entry) {
    return (int64_t)little(entry + PV_USERS_DIGEST + table->counted, PV_USERS_LAST);
}

static inline void put(const pv_users *table, unsigned char *entry, int64_t count, int64_t last) {
    put_little(entry + PV_USERS_DIGEST, (uint64_t)count, table->counted);
    if (table->separation > 1) put_little(entry + PV_USERS_DIGEST + table->counted, (uint64_t)last, PV_USERS_LAST);
}

void pv_users_move(const pv_users *from, pv_users *to) {
    for (int64_t i = 0; i < from->room; ++i) {
        const unsigned char *entry = from->entries + i * from->stride;
        if (is_free(entry) || count_of(from, entry) == 0) continue;
        uint64_t digest[2];
        memcpy(digest, entry, PV_USERS_DIGEST);
        memcpy(entry_of(to, digest), entry, (size_t)from->stride);
        ++to->used;
    }
}

/* The decision for a row of an entry's user, from the rows of that user alone. */
static inline unsigned char fate_of(const pv_users *table, const unsigned char *entry, int64_t number) {
    const int64_t count = count_of(table, entry);
    if (count >= table->max_rows) return PV_USERS_OVER;
    if (table->separation > 1 && count && number - last_of(table, entry) < table->separation) return PV_USERS_NEAR;
    return PV_USERS_KEPT;
}

/* The entry of a digest, which takes one if it is new; NULL if the table must grow first. */
static unsigned char *taken(pv_users *table, const uint64_t digest[2]) {
    unsigned char *entry = entry_of(table, digest);
    if (is_free(entry)) {
        if (table->used >= table->limit) return NULL;
        memcpy(entry, digest, PV_USERS_DIGEST);
        ++table->used;
    }
    return entry;
}

pv_status pv_users_keep(pv_users *table, const pv_users_rows *rows, int64_t *at) {
    for (; *at < rows->n; ++*at) {
        const int64_t i = *at, code = rows->codes[i];
        if (code < 0 || code >= rows->texts) return PV_BAD_INDEX;
        uint64_t *digest = rows->digests + 2 * code;
        if ((digest[0] | digest[1]) == 0) {
            const int64_t start = rows->offsets[code];
            pv_users_digest(table->key, rows->data + start, rows->offsets[code + 1] - start, digest);
        }
        unsigned char *entry = taken(table, digest);
        if (entry == NULL) return PV_HORIZON;
        const unsigned char fate = fate_of(table, entry, table->number);
        rows->fates[i] = fate;
        if (rows->kept != NULL) memset(rows->kept + 2 * i, 0, PV_USERS_DIGEST);
        if (fate == PV_USERS_KEPT) {
            const int64_t count = count_of(table, entry);
            if (rows->kept != NULL) {
                memcpy(rows->kept + 2 * i, digest, PV_USERS_DIGEST);
                rows->before[i] = table->separation > 1 && count ? last_of(table, entry) : -1;
            }
            put(table, entry, count + 1, table->number);
        }
        table->near += fate == PV_USERS_NEAR;
        table->number += fate == PV_USERS_KEPT || table->every;
    }
    return PV_OK;
}

void pv_users_undo(pv_users *table, const pv_users_rows *rows, int64_t n, int64_t at) {
    for (int64_t i = n - 1; i >= at; --i) {
        table->near -= rows->fates[i] == PV_USERS_NEAR;
        table->number -= rows->fates[i] == PV_USERS_KEPT || table->every;
        if (rows->fates[i] != PV_USERS_KEPT) continue;
        unsigned char *entry = entry_of(table, rows->kept + 2 * i);
        put(table, entry, count_of(table, entry) - 1, rows->before[i] < 0 ? 0 : rows->before[i]);
    }
}

pv_status pv_users_enter(pv_users *table, const uint64_t *digests, const int64_t *numbers, int64_t n, int64_t *at) {
    for (; *at < n; ++*at) {
        unsigned char *entry = taken(table, digests + 2 * *at);
        if (entry == NULL) return PV_HORIZON;
        if (fate_of(table, entry, numbers[*at]) != PV_USERS_KEPT) return PV_BAD_ROW;
        put(table, entry, count_of(table, entry) + 1, numbers[*at]);
    }
    return PV_OK;
}
