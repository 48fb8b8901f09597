/* Losses phi(p; y) of a linear model's prediction p: value, derivative in p, and the implicit step.
 * Classification: y in {-1, +1}. The tables are chosen once per run.
 */
#ifndef PV_LOSS_H
#define PV_LOSS_H

#include "base/pv_status.h"

typedef struct pv_loss pv_loss;

/* A point of a search and the exponential there. */
typedef struct pv_seen {
    double at, exponential;
} pv_seen;

#define PV_NOTHING_SEEN ((pv_seen){1e300, 0.0})

struct pv_loss {
    double (*value)(const pv_loss *, double p, double y);
    double (*slope)(const pv_loss *, double p, double y); /* d phi / d p */
    /* slope at the root m of  k m + c slope(m) = b,  k > 0, c >= 0 (the implicit step of a linear model) */
    double (*implicit)(const pv_loss *, double k, double b, double c, double y);
    /* slope and second derivative at p, where `implicit` costs more than they do; else null. `seen` is kept between
     * calls with the same y and the points of one search, which are then cheaper; it begins with PV_NOTHING_SEEN. */
    void (*expand)(const pv_loss *, double p, double y, double *slope, double *curve, pv_seen *seen);
    /* How far the slope that `rows` (pv_loss_rows.h) computed at p, within `error` of the exact prediction, may be
     * from the exact slope there; docs/proofs/solver.md, section 2. Null for losses with a kink, which have no
     * `rows`. */
    double (*off)(const pv_loss *, double p, double y, double slope, double curve, double error);
    double width;     /* smoothed hinge: half width of the bend; Huber: threshold */
    double lipschitz; /* custom: |slope| is clamped to it */
    double curvature; /* custom: bound of the second derivative; infinite where there is none */
    void *user;       /* custom: owns the callbacks */
};

/* Numbers of the built-in losses, Loss.code in Python; the user's own has one outside the tables. */
enum { PV_CUSTOM = -1, PV_LOGISTIC, PV_HINGE, PV_SMOOTH_HINGE, PV_SQUARED, PV_ABSOLUTE, PV_HUBER, PV_LOSS_COUNT };

/* Sets the table of a built-in loss. */
void pv_loss_bind(pv_loss *loss, int code, double width);

/* The `off` of a user's own loss. */
double pv_custom_off(const pv_loss *loss, double p, double y, double slope, double curve, double error);

/* Implicit step for any nondecreasing slope with |slope| <= loss->lipschitz: bracketed root search. */
double pv_implicit_bracketed(const pv_loss *loss, double k, double b, double c, double y);

#endif
