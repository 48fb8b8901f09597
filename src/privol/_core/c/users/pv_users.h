/* How often and when each user was seen: the cap on rows per user, and their least distance.
 *
 * A user is identified by a keyed hash of 128 bits (SipHash-2-4; Aumasson and Bernstein 2012), never by name. The table
 * uses open addressing over packed entries, in the order of the hashes: it is moved to a larger one in one pass. */
#ifndef PV_USERS_H
#define PV_USERS_H

#include <stdint.h>

#include "base/pv_status.h"

#define PV_USERS_DIGEST 16 /* bytes of a digest; one of zeros is a free entry */
#define PV_USERS_LAST 6    /* bytes of a row's number, which is below 2^48 */

/* What was decided for a row. */
enum { PV_USERS_OVER = 0, PV_USERS_KEPT = 1, PV_USERS_NEAR = 2 };

typedef struct pv_users {
    uint64_t key[2]; /* secret */
    int64_t max_rows;
    int64_t separation;
    int64_t number; /* of the rows that are counted so far, by which rows are told apart */
    int64_t near;   /* rows that the cap would have kept, but not the separation */
    int64_t used;   /* entries that are not free */
    int64_t room;
    int64_t limit;          /* the most that may be used: fewer than room */
    unsigned char *entries; /* room * stride bytes, the caller's */
    int counted;            /* bytes of a count */
    int stride;
    int every; /* all rows are counted, else those that are kept */
} pv_users;

/* Rows to be decided: texts by their codes, as pyarrow has them; and the decisions. */
typedef struct pv_users_rows {
    int64_t n, texts;
    const int32_t *codes;
    const int64_t *offsets; /* texts + 1, into data */
    const unsigned char *data;
    uint64_t *digests; /* of the texts, 2 each; (0, 0) where it is not known yet */
    unsigned char *fates;
    uint64_t *kept;  /* of each row, 2 each: whose it is if it is kept, else zeros. Or NULL */
    int64_t *before; /* of each row that is kept: the number of the last one before it, or -1. With kept */
} pv_users_rows;

void pv_users_digest(const uint64_t key[2], const unsigned char *text, int64_t n, uint64_t digest[2]);

/* Bytes of an entry, by max_rows and separation. */
void pv_users_layout(pv_users *table);

/* Moves all users with kept rows into the empty table `to`. */
void pv_users_move(const pv_users *from, pv_users *to);

/* Decides on rows from number *at on; stops before the first row that needs a larger table (PV_HORIZON) or whose
 * code is invalid (PV_BAD_INDEX). */
pv_status pv_users_keep(pv_users *table, const pv_users_rows *rows, int64_t *at);

/* Takes back the last n - at of n rows, which are those decided last. */
void pv_users_undo(pv_users *table, const pv_users_rows *rows, int64_t n, int64_t at);

/* Enters rows that were kept, as they were; stops as pv_users_keep does, or with PV_BAD_ROW at a row that may not be
 * kept. */
pv_status pv_users_enter(pv_users *table, const uint64_t *digests, const int64_t *numbers, int64_t n, int64_t *at);

#endif
