/* The mean of experts' radii against weights by bisection in long double; behaviour of the leader; ends of the
 * range. */
#include "check.h"
#include "betting/pv_experts.h"

static pv_experts_plan plan_of(int64_t n, double smallest, double factor, double decay) {
    pv_experts_plan plan = {.n = n, .most = 0.4, .drift = 3.5};
    double total = 0.0;
    for (int64_t k = 0; k < n; ++k) {
        plan.radius[k] = k ? plan.radius[k - 1] * factor : smallest;
        total += pow(plan.radius[k] / smallest, -decay);
    }
    for (int64_t k = 0; k < n; ++k) {
        plan.log_prior[k] = -decay * log(plan.radius[k] / smallest) - log(total);
        plan.speed[k] = sqrt(0.5 * fmax(1.0, -plan.log_prior[k]));
    }
    return plan;
}

static long double excess(const pv_experts *e, const pv_experts_plan *plan, long double lambda, long double *mean) {
    long double sum = 0, weighted = 0;
    for (int64_t k = 0; k < plan->n; ++k) {
        const long double h = fmin(plan->speed[k] / sqrt(plan->drift * (1.0 + e->travelled)), plan->most);
        const long double z = plan->log_prior[k] - h * e->loss[k] + lambda * (h / plan->radius[k]);
        const long double p = expl(fminl(z, 1000));
        sum += p;
        weighted += p * plan->radius[k];
    }
    *mean = weighted / sum;
    return sum - 1;
}

static long double by_bisection(const pv_experts *e, const pv_experts_plan *plan) {
    long double low = -1, high = 1, mean;
    while (excess(e, plan, low, &mean) > 0) low *= 2;
    while (excess(e, plan, high, &mean) < 0) high *= 2;
    for (int step = 0; step < 20000 && nextafterl(low, high) < high; ++step) {
        const long double middle = low + (high - low) / 2;
        if (excess(e, plan, middle, &mean) > 0)
            high = middle;
        else
            low = middle;
    }
    (void)excess(e, plan, high, &mean);
    return mean;
}

static void means(void) {
    static const int64_t counts[] = {1, 2, 13, PV_EXPERTS_MOST};
    for (int round = 0; round < 400; ++round) {
        const int64_t n = counts[round % 4];
        const pv_experts_plan plan = plan_of(n, round % 3 ? 1e-3 : 4.0, n > 20 ? 1.3 : sqrt(10.0), 0.15 * (round % 5));
        pv_experts experts = {.travelled = (double)round * 5.0};
        for (int64_t k = 0; k < n; ++k) experts.loss[k] = random_unit() * pow(10.0, (double)(round % 7));
        const double got = pv_experts_magnitude(&experts, &plan);
        const long double want = by_bisection(&experts, &plan);
        CHECK(got >= plan.radius[0] * (1.0 - 1e-12) && got <= plan.radius[n - 1] * (1.0 + 1e-12));
        CHECK(fabsl((long double)got - want) <= 1e-9L * want);
        digest(got);
    }
}

/* The weights follow gains: steady gains lead to the largest radius, steady losses to the smallest; without either,
 * the prior's mean stays (all are charged equally except for their speeds). */
static void leaders(void) {
    const pv_experts_plan plan = plan_of(13, 1e-3, sqrt(10.0), 0.15);
    pv_experts up = {.travelled = 0.0}, down = {.travelled = 0.0};
    double last = pv_experts_magnitude(&up, &plan), prior = 0.0;
    for (int64_t k = 0; k < plan.n; ++k) prior += exp(plan.log_prior[k]) * plan.radius[k];
    CHECK(fabs(last - prior) <= 1e-12 * prior);
    for (int t = 0; t < 20000; ++t) {
        pv_experts_learn(&up, &plan, 2.0, 1.0);
        pv_experts_learn(&down, &plan, -2.0, 1.0);
        CHECK(pv_experts_magnitude(&down, &plan) <= pv_experts_magnitude(&up, &plan));
    }
    CHECK(up.travelled == 20000.0);
    CHECK(pv_experts_magnitude(&up, &plan) > 999.0);
    CHECK(pv_experts_magnitude(&down, &plan) < 1.001e-3);
    digest(pv_experts_magnitude(&up, &plan));
}

static void ends(void) {
    const double gains[] = {0.0, 1e-300, 1e100, -1e100, 1e110, -1e110};
    for (int64_t i = 0; i < LENGTH(gains); ++i)
        for (int decade = -28; decade <= 28; decade += 14) {
            const pv_experts_plan plan = plan_of(PV_EXPERTS_MOST, pow(10.0, decade), 1.2, 2.0);
            pv_experts experts = {.travelled = 0.0};
            for (int t = 0; t < 50; ++t) pv_experts_learn(&experts, &plan, gains[i], t % 2 ? 1.0 : 0.0);
            const double m = pv_experts_magnitude(&experts, &plan);
            CHECK(m >= plan.radius[0] * (1.0 - 1e-12) && m <= plan.radius[plan.n - 1] * (1.0 + 1e-12));
        }
}

int main(void) {
    means();
    leaders();
    ends();
    printf("experts %016llx\n", (unsigned long long)check_digest);
    return 0;
}
