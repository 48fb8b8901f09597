/* Local randomizers: how a user's device randomizes a vector before anybody else sees it.
 *
 * A report is one draw, addressed by its row number t, from 1 on and below 2^40. For the kinds that draw until a trial
 * is accepted, trial k has the address row t | k << 40, so the words of any report follow from key and row. Every
 * result is that of the ideal mechanism, then rounded to a lattice (docs/proofs/reports.md).
 */
#ifndef PV_REPORT_H
#define PV_REPORT_H

#include <stdint.h>
#include "noise/pv_draws.h"
#include "base/pv_status.h"

typedef enum pv_report_kind {
    PV_REPORT_PLAIN,      /* the vector itself: no noise */
    PV_REPORT_GAUSSIAN,   /* v + scale Z, Z standard normal */
    PV_REPORT_LAPLACE,    /* v + scale Z, coordinates independent, each of density exp(-|z|) / 2 */
    PV_REPORT_L2_LAPLACE, /* v + scale Z, Z of density proportional to exp(-|z|), the norm L2 */
    PV_REPORT_CAP,        /* scale X, X uniform on the sphere but for a cap around v; d >= 2 */
    PV_REPORT_SIGN        /* scale or -scale; d = 1 */
} pv_report_kind;

#define PV_REPORT_ROW_BITS 40
#define PV_REPORT_ROW_MASK ((UINT64_C(1) << PV_REPORT_ROW_BITS) - 1)
#define PV_REPORT_TRIALS (UINT64_C(1) << (64 - PV_REPORT_ROW_BITS)) /* of a report, at most */

typedef struct pv_report {
    pv_report_kind kind;
    int64_t d;
    double bound;       /* L2 norm of what is randomized, at most */
    double scale;       /* of the noise; of cap and sign: the length of the result */
    double step;        /* the result's grid: a power of two */
    double gamma;       /* cap: x is in the cap of v where <x, v> >= gamma |x| |v| */
    uint64_t threshold; /* cap: a trial outside is rejected where its coin, a word, is below; sign: at most so
                           much is added to 2^63, below which a word gives +scale */
    int64_t words;      /* of an address row */
    int64_t trials;     /* address rows of one report that are drawn at a time; 1 but for caps */
} pv_report;

/* Words of an address row. */
int64_t pv_report_words(pv_report_kind kind, int64_t d);

/* out (d values) = the report of v, |v| <= bound, as row `row`; v and out may not overlap. After any status but
 * PV_OK it is called again and starts from the beginning. PV_NEED_BITS: the next address row of this report is not
 * the next one in the buffer. PV_UNDECIDED: the listed coordinates must be resolved or, if none is listed, the side
 * of the trial that is next in the buffer, for the vector that is then in draws->undecided->x. PV_NOT_FINITE: the
 * scale is not a valid noise scale. Rows of draws have pv_row_words(plan->words) words; undecided has room for
 * plan->words coordinates. */
pv_status pv_report_draw(const pv_report *plan, pv_draws *draws, uint64_t row, const double *v, double *out);

/* Address rows of the next draws, from `first` on (a row, or one of its trials) up to the last row: at most
 * `capacity`. Returns how many. */
int64_t pv_report_upcoming(const pv_report *plan, uint64_t first, uint64_t last_row, int64_t capacity, uint64_t *rows);

/* The address row that a row's report needs next: its first trial, or the one after the used ones. */
uint64_t pv_report_next(const pv_draws *draws, uint64_t row);

/* Coins of a cap: of trials in the cap of v, and of trials in the cap of -v, those with smaller coins are rejected;
 * the two thresholds add up to the plan's. A vector whose direction does not count (not finite, or nearly zero) has
 * norm 0. */
typedef struct pv_report_coins {
    uint64_t own, other;
    double norm; /* of v in double precision */
} pv_report_coins;

pv_report_coins pv_report_coins_of(const pv_report *plan, const double *v);

/* The device's clipping: v (d values) = x, scaled to the bound if its norm exceeds that; zeros if x is not finite.
 * The norm of v is at most bound (1 + (d + 64) 2^-53). */
void pv_report_clip(double bound, int64_t d, const double *x, double *v);

#endif
