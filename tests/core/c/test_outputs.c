/* Several scores: slopes by their definitions, also for distant scores, and weights. */
#include "check.h"
#include "base/pv_math.h"
#include "losses/pv_outputs.h"

enum { MOST = 9 };

static double definition(const double *s, int n, int own) {
    double sum = 0.0;
    for (int k = 0; k < n; ++k) sum += exp(s[k] - s[own]);
    return log(sum);
}

static void softmax_slopes(void) {
    pv_loss loss;
    pv_loss_bind(&loss, PV_LOGISTIC, 0.0);
    for (int trial = 0; trial < 3000; ++trial) {
        double s[MOST], g[MOST], total = 0.0;
        const int n = 2 + trial % (MOST - 1), own = trial % n;
        const pv_outputs outputs = {n, 1, 0};
        for (int k = 0; k < n; ++k) { g[k] = s[k] = random_unit() * (trial % 3 ? 12.0 : 1.0); }
        pv_outputs_slopes(&outputs, &loss, g, (double)own);
        for (int k = 0; k < n; ++k) {
            const double p = exp(-definition(s, n, k));
            CHECK(fabs(g[k] - (p - (k == own))) < 1e-14);
            total += g[k];
            digest(g[k]);
        }
        CHECK(fabs(total) < 1e-15 * (double)n);
        CHECK(fabs(pv_outputs_value(&outputs, &loss, s, (double)own) - definition(s, n, own)) < 1e-13);
    }
}

static void far_apart(void) {
    pv_loss loss;
    pv_loss_bind(&loss, PV_LOGISTIC, 0.0);
    const pv_outputs outputs = {3, 1, 0};
    double right[3] = {1e300, -1e300, 0.0}, wrong[3] = {1e300, -1e300, 0.0}, sure[3] = {40.0, 0.0, 0.0};
    CHECK(pv_outputs_value(&outputs, &loss, right, 0.0) == 0.0);
    CHECK(pv_outputs_value(&outputs, &loss, right, 1.0) == 2e300);
    pv_outputs_slopes(&outputs, &loss, right, 0.0);
    pv_outputs_slopes(&outputs, &loss, wrong, 1.0);
    pv_outputs_slopes(&outputs, &loss, sure, 0.0);
    for (int k = 0; k < 3; ++k) CHECK(right[k] == 0.0);
    CHECK(wrong[0] == 1.0 && wrong[1] == -1.0 && wrong[2] == 0.0);
    CHECK(fabs(sure[0] + 2.0 * exp(-40.0)) < 1e-15 * exp(-40.0) * 10.0); /* no cancellation */
}

static void one_against_the_rest(void) {
    const int codes[3] = {PV_LOGISTIC, PV_HINGE, PV_SMOOTH_HINGE};
    for (int c = 0; c < 3; ++c) {
        pv_loss loss;
        pv_loss_bind(&loss, codes[c], 0.5);
        const pv_outputs outputs = {4, 0, 0};
        const double s[4] = {0.3, -2.0, 0.9, 1.7};
        for (int own = 0; own < 4; ++own) {
            double g[4], value = 0.0;
            for (int k = 0; k < 4; ++k) {
                g[k] = s[k];
                value += loss.value(&loss, s[k], k == own ? 1.0 : -1.0);
            }
            CHECK(pv_outputs_value(&outputs, &loss, s, (double)own) == value);
            pv_outputs_slopes(&outputs, &loss, g, (double)own);
            for (int k = 0; k < 4; ++k) CHECK(g[k] == loss.slope(&loss, s[k], k == own ? 1.0 : -1.0));
        }
    }
}

static void weights(void) {
    const double by_class[3] = {0.5, 2.0, 7.0};
    const pv_outputs none = {3, 1, 0}, three = {3, 1, by_class}, single = {1, 0, by_class};
    CHECK(pv_outputs_weight(&none, 2.0) == 1.0);
    for (int k = 0; k < 3; ++k) CHECK(pv_outputs_weight(&three, (double)k) == by_class[k]);
    CHECK(pv_outputs_weight(&single, -1.0) == 0.5 && pv_outputs_weight(&single, 1.0) == 2.0);
}

int main(void) {
    softmax_slopes();
    far_apart();
    one_against_the_rest();
    weights();
    return finish("outputs");
}
