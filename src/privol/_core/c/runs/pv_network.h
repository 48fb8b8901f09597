/* Nodes that learn together: in every round each node mixes what its neighbours sent, takes the gradients of its own
 * rows there, and sends the step made from a randomized gradient. Everybody, including the sender, continues only
 * from what is sent, so everything after that is public.
 *
 * Rows go to the nodes of this process in turn, `batch` times around in a round; the horizon ends a round that is not
 * full. Node i sends in round t (from 1 on) with the address row (t - 1) nodes + i + 1, in whichever process it is.
 */
#ifndef PV_NETWORK_H
#define PV_NETWORK_H

#include <stdint.h>
#include "runs/pv_local.h"
#include "reports/pv_report.h"
#include "runs/pv_run.h"

/* Where the randomizer is applied. */
typedef enum pv_position {
    PV_BEFORE, /* it has the gradients; the step and the projection follow */
    PV_SCALED, /* likewise, and its noise is in proportion to the step's length */
    PV_AFTER   /* it has the projected step, with noise in proportion to its length */
} pv_position;

/* What is subtracted from the coordinates of a mix to make a node's model. */
typedef enum pv_threshold {
    PV_DENSE,    /* nothing: the model is the mix */
    PV_OF_STEP,  /* l1 times the length of the next step */
    PV_OF_STEPS, /* l1 times the lengths of all steps up to it */
    PV_OF_NOISE  /* l1 standard deviations of the noise in a coordinate */
} pv_threshold;

/* Mixing matrices of the rounds first, first + 1, ..., first + rounds - 1; of all rounds if periodic (first = 1). */
typedef struct pv_mixing {
    int64_t first, rounds;
    int periodic;
    const int64_t *indptr;  /* nodes + 1 of each, one matrix after the other; into: */
    const int64_t *columns; /* ascending in a row */
    const double *weights;
} pv_mixing;

typedef struct pv_network_plan {
    pv_plan run;               /* every, releases, last_row: in rounds */
    pv_report report;          /* of the sum of a batch's gradients, in units of it */
    double bound;              /* L2 norm that the gradient of a row is scaled to */
    double cost;               /* of the first draw: a row is in one of them, so it costs what all cost together */
    double variance;           /* of the report's noise in a coordinate */
    int64_t nodes, own, first; /* all of them; those here are first, ..., first + own - 1 */
    int64_t batch, rounds;
    pv_position position;
    pv_pace pace; /* PV_CONSTANT, PV_ROOT or PV_INVERSE: 1 / (l2 t), with the regulariser's gradient */
    double length;
    int implicit; /* the regulariser's gradient is that of the new point, not of the mix */
    pv_threshold threshold;
    double l1;
    pv_mixing mixing;     /* what is known of it */
    const int64_t *place; /* of every node: which of `sent` it has; -1: not heard here */
    const double **heard; /* scratch: nodes pointers */
} pv_network_plan;

typedef struct pv_network {
    pv_state run;
    double *gradients; /* secret: of each node here, but where batch is 1: of the node whose row came last */
    double *sent;      /* public: of the nodes here and, behind them, of those that are heard */
    double *mixes;     /* public: of the nodes here */
    double *models;    /* public: where they take gradients; PV_DENSE: the mixes themselves */
    double *sums;      /* public: weighted, of the models after the releases */
    double *spread;    /* public, PV_OF_NOISE: covariance of a coordinate's noise between nodes, and room for another */
    double lengths;    /* of all steps up to the next */
    double network;    /* threshold of the mean over all nodes */
    int64_t round, node; /* rounds that are complete; nodes that have sent in the next */
    int64_t planned;     /* round of the next release */
    int64_t turn;        /* node here that the next row goes to */
    int64_t messages;    /* from node to node, in all rounds that are complete, of the whole network */
    int exchanged;       /* what others sent in the round that has just been completed is here */
} pv_network;

extern const pv_method pv_network_method;

/* Set the starting points, which are the same for all nodes. */
void pv_network_start(pv_network *it, const pv_network_plan *plan);

/* Address row of the next draw. */
uint64_t pv_network_address(const pv_network *it, const pv_network_plan *plan);

/* The round that releases next, and the row that ends it. */
void pv_network_plan_release(pv_network *it, const pv_network_plan *plan);

/* Rows of the mixing matrix that ends the current round, that of round `round` + 2; NULL: not known yet. */
const int64_t *pv_network_matrix(const pv_network *it, const pv_network_plan *plan);

/* The mean of the rows of x, of d values each, added in order. */
void pv_network_mean(const double *x, int64_t rows, int64_t d, double *mean);

/* Set the released model to the mean of some nodes' mixes: of those here, or of all. */
void pv_network_show(pv_network *it, const pv_network_plan *plan, const double *mixes, int64_t nodes);

/* Release the models of the last complete round. */
void pv_network_publish(pv_network *it, const pv_network_plan *plan);

/* Learn a gradient taken elsewhere at the model of the node whose turn it is; NULL: the null row's. */
void pv_network_tell(pv_network *it, const pv_network_plan *plan, const double *gradient);

#endif
