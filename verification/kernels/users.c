/* A table of users with three entries of any bytes, each as large as caps and separations can make it: texts of up to 17
 * bytes and their digests; two rows, one with any code, whose digests are known or not, taken back with any fates; rows
 * that are entered; and a move to a larger table. Numbers of rows are below 2^48. */
#include "users/pv_users.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one byte too few */
#endif

enum { ROOM = 3, LARGEST = PV_USERS_DIGEST + 4 + PV_USERS_LAST, ROWS = 2, TEXTS = 2, BYTES = 8, TEXT = 17 };

static const int64_t MOST = (INT64_C(1) << 48) - 1;

static void digest(const uint64_t key[2]) {
    unsigned char text[TEXT];
    uint64_t found[2];
    const int64_t size = Frama_C_long_interval(0, TEXT);
    //@ split size;
    Frama_C_make_unknown((char *)text, sizeof text);
    pv_users_digest(key, text + TEXT - size, size, found);
}

/* The cap by the bytes of a count. */
static int64_t cap(int size) {
    if (size == 0) return Frama_C_long_interval(1, (1 << 8) - 1);
    return size == 1 ? Frama_C_long_interval(1 << 8, (1 << 16) - 1) : Frama_C_long_interval(1 << 16, INT32_MAX);
}

static int32_t code(int kind) {
    if (kind < 0) return Frama_C_int_interval(INT32_MIN, -1);
    return kind < TEXTS ? kind : Frama_C_int_interval(TEXTS, INT32_MAX);
}

static void table(pv_users *users) {
    unsigned char larger[(ROOM + 1) * LARGEST], data[BYTES], fates[ROWS];
    int64_t before[ROWS], numbers[ROWS], at;
    uint64_t digests[2 * TEXTS], kept[2 * ROWS];
    int32_t codes[ROWS];
    pv_users other;
    const int64_t offsets[TEXTS + 1] = {0, 3, BYTES};
    const int first = Frama_C_interval(-1, TEXTS), undone = Frama_C_interval(0, 1);
    //@ split first;
    //@ split undone;
    codes[0] = code(first);
    codes[1] = 1;
    Frama_C_make_unknown((char *)data, sizeof data);
    Frama_C_make_unknown((char *)digests, sizeof digests);
    Frama_C_make_unknown((char *)fates, sizeof fates);
    Frama_C_make_unknown((char *)kept, sizeof kept);
    Frama_C_make_unknown((char *)before, sizeof before);
    const pv_users_rows rows = {ROWS, TEXTS, codes, offsets, data, digests, fates, undone ? kept : 0, before};
    at = 0;
    pv_users_keep(users, &rows, &at);
    if (undone) pv_users_undo(users, &rows, ROWS, 0);
    numbers[0] = Frama_C_long_interval(0, MOST);
    numbers[1] = Frama_C_long_interval(0, MOST);
    at = 0;
    pv_users_enter(users, digests, numbers, ROWS, &at);
    other = *users;
    other.entries = larger + (ROOM + 1) * (LARGEST - users->stride);
    other.room = ROOM + 1;
    other.used = 0;
    Frama_C_make_unknown((char *)larger, sizeof larger);
    pv_users_move(users, &other);
}

int main(void) {
    unsigned char entries[ROOM * LARGEST - SHORT];
    pv_users users = {{0, 0}, 1, 1, 0, 0, 0, ROOM, 0, 0, 0, 0, 0};
    const int size = Frama_C_interval(2 * SHORT, 2), far = Frama_C_interval(SHORT, 1);
    Frama_C_make_unknown((char *)users.key, sizeof users.key);
    digest(users.key);
    //@ split size;
    //@ split far;
    Frama_C_make_unknown((char *)entries, sizeof entries);
    users.max_rows = cap(size);
    if (far) users.separation = Frama_C_long_interval(2, MOST + 1);
    pv_users_layout(&users);
    users.entries = entries + ROOM * (LARGEST - users.stride); /* all end where the array does */
    users.number = Frama_C_long_interval(0, MOST - ROWS);
    users.near = Frama_C_long_interval(0, MOST);
    users.used = Frama_C_long_interval(0, ROOM - 1);
    users.limit = Frama_C_long_interval(0, ROOM - 1);
    users.every = Frama_C_interval(0, 1);
    table(&users);
    return 0;
}
