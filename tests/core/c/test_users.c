/* The table of users: its hash against the authors' vectors, its rule against a list, in tables that grow and wrap. */
#include "check.h"
#include "users/pv_users.h"

/* SipHash-2-4 with 128 bits of the bytes 0, 1, ... under the key 0, 1, ..., 15, from the reference implementation. */
static const struct {
    int length;
    uint64_t digest[2];
} VECTORS[] = {
    {0, {UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d)}},
    {1, {UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634)}},
    {7, {UINT64_C(0x53c1dbd8beebf1a1), UINT64_C(0x3982f01fa64ab8c0)}},
    {8, {UINT64_C(0x61f55862baa9623b), UINT64_C(0xb49714f364e2830f)}},
    {15, {UINT64_C(0x11a8b03399e99354), UINT64_C(0xd9c3cf970fec087e)}},
    {63, {UINT64_C(0x4a83502f77d15051), UINT64_C(0x7cbd3f979a063e50)}},
};

static void vectors(void) {
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    for (int64_t k = 0; k < LENGTH(VECTORS); ++k) {
        unsigned char *text = buffer(VECTORS[k].length, 1);
        for (int i = 0; i < VECTORS[k].length; ++i) text[i] = (unsigned char)i;
        uint64_t found[2];
        pv_users_digest(key, text, VECTORS[k].length, found);
        CHECK(found[0] == VECTORS[k].digest[0] && found[1] == VECTORS[k].digest[1]);
        free(text);
    }
}

static pv_users table_of(int64_t max_rows, int64_t separation, int every, int64_t room) {
    pv_users table = {{1, 2}, max_rows, separation, 0, 0, 0, room, room - 1, NULL, 0, 0, every};
    pv_users_layout(&table);
    table.entries = calloc((size_t)room, (size_t)table.stride);
    CHECK(table.entries != NULL);
    return table;
}

static void grow(pv_users *table) {
    pv_users larger = table_of(table->max_rows, table->separation, table->every, table->room + 1 + table->room / 8);
    larger.number = table->number;
    larger.near = table->near;
    pv_users_move(table, &larger);
    CHECK(larger.used == table->used);
    free(table->entries);
    *table = larger;
}

enum { USERS = 300, ROWS = 4000 };

/* Digests with equal beginnings, some of them at the very end of the table: look-ups pass each other and wrap
 * around. */
static void digests(uint64_t found[2 * USERS]) {
    for (int u = 0; u < USERS; ++u) {
        found[2 * u] = u % 3 == 0 ? UINT64_MAX : u % 3 == 1 ? UINT64_C(1) << 63 : random_word();
        found[2 * u + 1] = (uint64_t)u + 1;
    }
}

static void rule(int64_t max_rows, int64_t separation, int every) {
    uint64_t known[2 * USERS];
    int32_t codes[ROWS];
    int64_t offsets[USERS + 1] = {0}, counts[USERS] = {0}, last[USERS] = {0}, number = 0, near = 0;
    unsigned char fates[ROWS];
    static THREAD uint64_t kept[2 * ROWS], entered[2 * ROWS];
    static THREAD int64_t before[ROWS], numbers[ROWS];
    digests(known);
    pv_users table = table_of(max_rows, separation, every, 2);
    for (int i = 0; i < ROWS; ++i) codes[i] = (int32_t)(random_word() % USERS);
    pv_users_rows rows = {ROWS, USERS, codes, offsets, NULL, known, fates, kept, before};
    int64_t at = 0, n = 0;
    while (pv_users_keep(&table, &rows, &at) == PV_HORIZON) grow(&table);
    for (int i = 0; i < ROWS; ++i) {
        const int u = codes[i];
        const int too_many = counts[u] >= max_rows;
        const int too_near = !too_many && counts[u] && number - last[u] < separation;
        CHECK(fates[i] == (too_many ? PV_USERS_OVER : too_near ? PV_USERS_NEAR : PV_USERS_KEPT));
        near += too_near;
        CHECK((kept[2 * i + 1] == known[2 * u + 1]) == (fates[i] == PV_USERS_KEPT));
        if (fates[i] == PV_USERS_KEPT) {
            entered[2 * n] = known[2 * u];
            entered[2 * n + 1] = known[2 * u + 1];
            numbers[n++] = number;
            ++counts[u];
            last[u] = number;
        }
        number += fates[i] == PV_USERS_KEPT || every;
        digest((double)fates[i]);
    }
    CHECK(table.near == near && table.number == number && table.used == USERS);
    /* taking back the second half and deciding again gives the same result, and so does restoring the entries */
    unsigned char again[ROWS];
    memcpy(again, fates, ROWS);
    pv_users_undo(&table, &rows, ROWS, ROWS / 2);
    at = ROWS / 2;
    CHECK(pv_users_keep(&table, &rows, &at) == PV_OK && memcmp(again, fates, ROWS) == 0);
    CHECK(table.near == near && table.number == number);
    pv_users other = table_of(max_rows, separation, every, 1000);
    at = 0;
    CHECK(pv_users_enter(&other, entered, numbers, n, &at) == PV_OK && at == n && other.used == USERS);
    other.number = table.number;
    other.near = table.near;
    at = 0;
    CHECK(pv_users_keep(&table, &rows, &at) == PV_OK);
    memcpy(again, fates, ROWS);
    at = 0;
    CHECK(pv_users_keep(&other, &rows, &at) == PV_OK && memcmp(again, fates, ROWS) == 0);
    /* one row more than the cap cannot be entered, nor one that is too close */
    pv_users third = table_of(max_rows, separation, every, 2);
    for (int64_t k = 0; k <= max_rows; ++k) {
        at = 0;
        numbers[0] = k * separation - (k > 0);
        if (separation > 1 && k) CHECK(pv_users_enter(&third, entered, numbers, 1, &at) == PV_BAD_ROW && at == 0);
        numbers[0] = k * separation;
        CHECK(pv_users_enter(&third, entered, numbers, 1, &at) == (k < max_rows ? PV_OK : PV_BAD_ROW));
    }
    at = 0;
    CHECK(pv_users_enter(&third, entered + 2 * n - 2, numbers, 1, &at) == PV_HORIZON ||
          entered[1] == entered[2 * n - 1]);
    free(third.entries);
    codes[0] = USERS;
    at = 0;
    CHECK(pv_users_keep(&table, &rows, &at) == PV_BAD_INDEX && at == 0);
    free(table.entries);
    free(other.entries);
}

int main(void) {
    vectors();
    const int64_t caps[] = {1, 3, 255, 256, 70000}, apart[] = {1, 2, 400};
    for (int64_t c = 0; c < LENGTH(caps); ++c)
        for (int64_t b = 0; b < LENGTH(apart); ++b)
            for (int every = 0; every < 2; ++every) rule(caps[c], apart[b], every);
    return finish("users");
}
