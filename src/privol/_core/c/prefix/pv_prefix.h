/* Private prefix sums: what all designs A = B C, factorizations of the matrix of running sums, share.
 *
 * Rows are added up in leaves of `leaf` rows; a leaf is a step t = 1, 2, ... of the design. A step makes one or more
 * draws due, each of which releases round_h(x + std Z) for a vector x of sums. After all of them, the new prefix sum is
 * computed from released vectors alone.
 *
 * "tree", "honaker" and "smooth" release sums over intervals of leaves. Rows are truncated towards zero onto the grid g
 * and added as integers. A sum S g = K h + r with 0 <= r < h is split: noise is added to r, and K afterwards, because
 * rounding a number and moving it by points of the lattice commute. "blt", "sqrt", "independent" and "banded" release
 * (C w)_t, computed in double precision.
 *
 * Discounted and sliding sums exist for these four: the released vectors give the increments y_t of the private sums,
 * and sum = discount * sum + y_t, or sum = sum + y_t - y_(t - window), is public arithmetic.
 *
 * The draws of step t have the address rows 64 (first_step + t) + 0, 1, ...
 *
 * A plan may be followed by another, or by itself: the row after its last one begins a new epoch, whose mechanism
 * starts from nothing, and whose sums are added to what the earlier epochs released last.
 */
#ifndef PV_PREFIX_H
#define PV_PREFIX_H

#include <stddef.h>
#include <stdint.h>
#include "noise/pv_draws.h"
#include "rows/pv_rows.h"
#include "base/pv_status.h"

typedef enum pv_design {
    PV_TREE,
    PV_HONAKER,
    PV_SMOOTH,
    PV_SQRT,
    PV_BLT,
    PV_INDEPENDENT,
    PV_BANDED,
    PV_DESIGNS
} pv_design;

#define PV_STEP_DRAWS 64 /* more than any step has: address rows of a step */

typedef struct pv_prefix_plan {
    pv_design design;
    int64_t dim;      /* coordinates of a sum */
    int64_t leaf;     /* rows of a step */
    int64_t steps;    /* that may be made */
    int noisy;        /* 0: x itself is released */
    double std;       /* of all draws */
    double magnitude; /* public bound of the coordinates of x */
    double grid;      /* g, a power of two; designs of intervals */
    int shift;        /* h = 2^shift g */
    int order; /* vectors that are kept: bits of `steps`, ones of a word (smooth), buffers (blt), steps before (banded) */
    const double *theta, *omega; /* blt: of the buffers */
    const double *coefficients;  /* sqrt: of C, of all steps; banded: of C, 1 + order */
    const double *decoder;       /* sqrt: of B; those of C, but for sliding sums; banded: those of C times -1 */
    double discount; /* what the sum so far is multiplied with at every step: 1, or less ("sqrt": in `decoder`) */
    int64_t window;  /* sliding sums: steps after which a leaf leaves the sum, fewer than `steps`; 0: never */
    int64_t block;   /* sqrt: steps whose share of all earlier ones the caller gives at once; 0: computed here */
    /* of rows, where pv_prefix_run learns them */
    int64_t horizon; /* rows that may be learnt */
    int64_t width;   /* coordinates of a row */
    double bound;    /* rows are scaled to this L2 norm */
    int gram;        /* what is added up is v v^T of a row v: dim = width (width + 1) / 2, see pv_prefix_svec */
    const struct pv_prefix_plan *next; /* of the epoch that follows, of rows and sums of the same size; NULL: none */
} pv_prefix_plan;

/* A number for each of the epochs 0, 1, ...: those listed, and from the last of them on `more` is added for every
 * epoch. */
typedef struct pv_by_epoch {
    int64_t last;
    const double *at;
    double more;
} pv_by_epoch;

static inline double pv_at_epoch(const pv_by_epoch *s, int64_t epoch) {
    return epoch <= s->last ? s->at[epoch] : s->at[s->last] + (double)(epoch - s->last) * s->more;
}

typedef struct pv_prefix {
    const pv_prefix_plan *plan; /* of this epoch, as all numbers are but for: */
    int64_t epoch, first_row;   /* epochs before this one, and their rows */
    int64_t first_step;         /* steps that were made in them, or with the same key before */
    int64_t rows, step;         /* rows learnt; steps that are made, or being made */
    int64_t made;               /* steps whose prefix sum is there */
    int64_t far_step;           /* sqrt: `far` and `noisy_far` are of the block that begins after this step */
    int64_t in_leaf;            /* rows of the leaf that is not yet a step */
    int due, drawn;             /* draws of this step: yet to be made, and made */
    uint64_t word;              /* smooth: of this step */
    int64_t n_clipped, n_null;  /* private diagnostics, of all epochs */
    /* secret */
    double *row, *leaf, *x, *buffers, *past, *far;
    int64_t *total, *snapshots, *whole;
    /* released (public) */
    double *out, *estimate, *estimates, *sums, *noisy_buffers, *noisy_past, *noisy_far, *prefix, *base;
    double *ring;   /* sliding sums: the window's last increments, that of step t at (t - 1) mod window */
    double *weight; /* of the rows in the sum after `step`: their number, discounted, within the window */
    int64_t *nodes;
    const pv_vectors *vectors; /* of the instruction-set level of the last draws */
} pv_prefix;

/* Values from one vector of a BLT to the next: whole registers, zero beyond the vector. Other designs leave no gaps. */
static inline int64_t pv_prefix_stride(const pv_prefix_plan *p) {
    return p->design == PV_BLT ? pv_whole(p->dim) : p->dim;
}

/* Memory of a run, in units of 8 bytes, and the length of its secret beginning: enough for every epoch. It is fastest
 * when it begins with a cache line. */
size_t pv_prefix_size(const pv_prefix_plan *p);
size_t pv_prefix_secret_size(const pv_prefix_plan *p);

/* The memory without gaps, for checkpoints: its size, and copies out of it and into it. */
size_t pv_prefix_kept_size(const pv_prefix_plan *p);
void pv_prefix_keep(const pv_prefix_plan *p, const void *memory, void *kept);
void pv_prefix_restore(const pv_prefix_plan *p, const void *kept, void *memory);

/* Begin in memory of that size, which is zero (or was filled by a run of the same plan; the counters are then set). */
void pv_prefix_bind(pv_prefix *s, const pv_prefix_plan *p, void *memory);

/* Go to the beginning of a later epoch: sets the numbers and pointers of the state, whose memory the caller fills.
 * */
void pv_prefix_go_to(pv_prefix *s, int64_t epoch);

/* A row (with gram: v v^T) of norm within the plan's bound enters the secret state; NULL: a row of zeros. If no step
 * is left and a plan follows, its epoch begins first. Draws become due with the last row of a leaf, and with the
 * last row of an epoch that another one follows. PV_HORIZON: nothing has happened, because draws are due or no step
 * is left. */
pv_status pv_prefix_add(pv_prefix *s, const double *w);

/* The same in parts, if leaves are added up in doubles: what a row that has begun adds is added to s->leaf (or
 * written there, if s->in_leaf is 0), at the latest before the row that ends the leaf is ended. */
int pv_prefix_in_doubles(const pv_prefix *s);
pv_status pv_prefix_begin_row(pv_prefix *s);
int pv_prefix_at_leaf_end(const pv_prefix *s); /* whether the row that has begun ends its leaf */
void pv_prefix_end_row(pv_prefix *s);

/* A leaf that has begun becomes a step as it is: no more rows follow. */
void pv_prefix_end_leaf(pv_prefix *s);

/* Make the draws that are due; without noise, `draws` may be NULL. PV_NEED_BITS, PV_UNDECIDED: serve the request and
 * call again (the draw's address row is pv_prefix_row). PV_NEED_FAR: the same; for i < block, vector i of `far` must
 * become the sum of r_{m + i - k} past_k over the m = s->made steps k = 0, 1, ..., with the coefficients r of C;
 * that of `noisy_far` the same with the coefficients of B and noisy_past; and far_step = m. PV_OK: no draw is due,
 * and s->prefix is the private prefix sum of the epoch. */
pv_status pv_prefix_settle(pv_prefix *s, pv_draws *draws);

/* The same; then the point that the prefix sum gives, and its pv_sqnorm. The vectors of `to`, and x, have
 * pv_prefix_stride values, zero beyond the plan's dim. */
pv_status pv_prefix_follow(pv_prefix *s, pv_draws *draws, const pv_affine *to, double *x, double *square);

/* Address rows of the next draws, the ones due first; returns how many. */
int64_t pv_prefix_upcoming(const pv_prefix *s, int64_t capacity, uint64_t *rows);

/* Address row of the draw that is due. */
uint64_t pv_prefix_row(const pv_prefix *s);

/* out = s->base + s->prefix: the sum of what earlier epochs released last, plus that of this epoch. */
void pv_prefix_read(const pv_prefix *s, double *out);

/* The upper triangle of v v^T by rows, off-diagonal entries times sqrt(2): its norm is the matrix's Frobenius norm.
 * */
void pv_prefix_svec(const double *v, int64_t width, double *out);

/* Learn rows i[0], i[0] + 1, ... of a block and settle after each. The prefix sum after row k is written to the k-th
 * vector of out, unless out is NULL; `written` counts them, from the block's first row on. A row with an unusable
 * entry counts as zeros. */
pv_status pv_prefix_run(pv_prefix *s, const pv_rows *given, int64_t *i, int64_t *written, pv_draws *draws, double *out);

#endif
