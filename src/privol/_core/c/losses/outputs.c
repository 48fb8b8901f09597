#include "losses/pv_outputs.h"

#include "base/pv_math.h"

/* exp(s_k - the largest) for all k, and their sum without that of the row's own class: the later division involves
 * no cancellation. */
static double exponentials(double *s, int64_t n, int64_t own) {
    double top = s[0], others = 0.0;
    for (int64_t k = 1; k < n; ++k) top = s[k] > top ? s[k] : top;
    for (int64_t k = 0; k < n; ++k) {
        s[k] = pv_exp(s[k] - top);
        others += k == own ? 0.0 : s[k];
    }
    return others;
}

double pv_outputs_value(const pv_outputs *outputs, const pv_loss *loss, const double *scores, double y) {
    const int64_t n = outputs->n, own = (int64_t)y;
    double sum = 0.0;
    if (!outputs->softmax) {
        for (int64_t k = 0; k < n; ++k) sum += loss->value(loss, scores[k], k == own ? 1.0 : -1.0);
        return sum;
    }
    double top = scores[0];
    for (int64_t k = 1; k < n; ++k) top = scores[k] > top ? scores[k] : top;
    for (int64_t k = 0; k < n; ++k) sum += pv_exp(scores[k] - top);
    return pv_log(sum) + (top - scores[own]);
}

void pv_outputs_slopes(const pv_outputs *outputs, const pv_loss *loss, double *scores, double y) {
    const int64_t n = outputs->n, own = (int64_t)y;
    if (!outputs->softmax) {
        for (int64_t k = 0; k < n; ++k) scores[k] = loss->slope(loss, scores[k], k == own ? 1.0 : -1.0);
        return;
    }
    const double others = exponentials(scores, n, own), sum = others + scores[own];
    scores[own] = -others;
    for (int64_t k = 0; k < n; ++k) scores[k] /= sum;
}
