/* What the drivers of runs share: three rows of two columns and a constant, any numbers, and the memory of a run, of which
 * all vectors end where their arrays do. */
#include "noise/pv_bits.h"
#include "runs/pv_run.h"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

#ifndef SPARSE
#define SPARSE 0 /* whether the rows are sparse: of one entry, of two, and of none */
#endif

#ifndef NOISY
#define NOISY 0 /* whether vectors get noise: from any words, with resolved sums or none */
#endif

#if NOISY
/*@ requires n == 0 || \valid((unsigned char *)p + (0 .. n - 1));
  @ assigns ((unsigned char *)p)[0 .. n - 1] \from \nothing; */
void pv_wipe(void *p, size_t n);
#endif

#ifndef DRAWN
#define DRAWN WHOLE /* words of a draw, at most */
#endif

#ifndef OUTPUTS
#define OUTPUTS 1 /* scores of a row */
#endif

#ifndef OWN
#define OWN 0 /* whether the loss is a user's own, which returns any numbers */
#endif

enum { ROWS = 3, COLUMNS = 2, DIM = OUTPUTS * (COLUMNS + 1), WHOLE = 8, POINTS = 4 };

static double work[3 * WHOLE], released[WHOLE - SHORT], released_sum[WHOLE];
static double first[WHOLE], second[WHOLE], third[WHOLE], fourth[2 * WHOLE], directions[POINTS * DIM];
static const int32_t pointers[ROWS + 1] = {0, 1, 3, 3}, columns[3] = {1, 0, 1};
static double data[SPARSE ? 3 : ROWS * COLUMNS], y[ROWS], scores[ROWS * OUTPUTS], losses[ROWS];

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static double own(const pv_loss *loss, double p, double y) { return any(); }

/* A plan, on a ball, with releases after each row, or on that of the other norm after the second one. */
static pv_plan plan_of(int other) {
    static const int64_t releases[1] = {2};
    pv_plan plan = {0};
    Frama_C_make_unknown((char *)data, sizeof data);
    Frama_C_make_unknown((char *)y, sizeof y);
    //@ loop unroll 3;
    for (int i = 0; i < ROWS; ++i) /* Eva does not see that a comparison excludes NaN */
        if (OUTPUTS > 1) y[i] = Frama_C_double_interval(-1e300, 1e300);
    pv_loss_bind(&plan.loss, PV_HUBER, 1.0);
    if (OWN) plan.loss = (pv_loss){own, own, pv_implicit_bracketed, 0, pv_custom_off, 1.0, any(), any(), 0};
    plan.outputs.n = OUTPUTS;
    plan.signs = OUTPUTS > 1;
    plan.set = (pv_set){other ? PV_L1_BALL : PV_L2_BALL, 1.0, 0, 0};
    plan.d = DIM;
    plan.intercept = 1;
    plan.x_bound = plan.y_bound = 1.0;
    plan.horizon = plan.last_row = ROWS;
    plan.every = !other;
    plan.releases = releases;
    plan.n_releases_planned = 1;
    plan.averaging = Frama_C_interval(0, 3);
    plan.noisy = NOISY;
    plan.magnitude = 1e6;
    return plan;
}

/* Vectors of that many values. */
static pv_state state_of(int64_t d) {
    return (pv_state){work + 3 * (WHOLE - d), released + WHOLE - d, released_sum + WHOLE - d, 0};
}

static pv_rows rows_of(void) {
    pv_rows rows = {ROWS, COLUMNS, (const char *)data, 8 * COLUMNS, 8, pointers, columns, 3, SPARSE, 0, 0, 0};
    pv_rows_bind(&rows);
    return rows;
}

/* With draws of d coordinates. */
static void run(pv_state *state, pv_plan *plan, int64_t d) {
    static unsigned char words[8 * DRAWN * ROWS];
    static int64_t coord[DRAWN];
    static uint64_t next[ROWS], word[DRAWN];
    static double x[DRAWN], value[DRAWN];
    const int64_t room = DRAWN - d;
    pv_undecided und = {0, 0, d, coord + room, word + room, x + room, Frama_C_long_interval(0, d), value + room};
    pv_draws draws = {words + sizeof words - 8 * ROWS * pv_row_words(d), 0, next, ROWS, 0, 0, &und, 0.0, 0};
    draws.pass = pv_first_pass_level(0);
    Frama_C_make_unknown((char *)words, sizeof words);
    Frama_C_make_unknown((char *)coord, sizeof coord);
    Frama_C_make_unknown((char *)value, sizeof value);
    pv_rows rows = rows_of();
    const pv_progress progress = {0, 0, scores, losses};
    int64_t i = 0;
    state->next_release = pv_next_release(plan, 0, &state->list_position);
    if (plan->method->upcoming) draws.filled = plan->method->upcoming(state, plan, ROWS, next);
    pv_run(state, plan, &rows, y, &i, &draws, &progress);
    pv_evaluate(state, plan, &(pv_progress){&rows, y, scores, losses});
}
