/* Several scores of a row, one for each class, and their loss: the cross-entropy of their softmax, or the sum over the
 * classes of a loss of one class against the rest. Targets are indices of classes, from 0. */
#ifndef PV_OUTPUTS_H
#define PV_OUTPUTS_H

#include <stdint.h>
#include "losses/pv_loss.h"

typedef struct pv_outputs {
    int64_t n;             /* scores of a row; 0 or 1: a single one, whose targets are -1 and +1 or real */
    int softmax;           /* else one class against the rest each */
    const double *weights; /* what a row's loss is multiplied with, by its class; NULL: 1 */
} pv_outputs;

/* Weight of a row: by the index of its class or, for a single score, by the sign of its target. */
static inline double pv_outputs_weight(const pv_outputs *outputs, double y) {
    if (!outputs->weights) return 1.0;
    return outputs->weights[outputs->n > 1 ? (int64_t)y : (int64_t)(y > 0.0)];
}

/* Loss of the scores, without the weight; n > 1. */
double pv_outputs_value(const pv_outputs *outputs, const pv_loss *loss, const double *scores, double y);

/* Replaces the scores by the derivatives of the loss, without the weight; n > 1. */
void pv_outputs_slopes(const pv_outputs *outputs, const pv_loss *loss, double *scores, double y);

#endif
