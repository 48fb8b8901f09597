/* The rows of run.h through learners that see reports, with every way in which a report changes the point, and through two
 * nodes that mix what they send, with every position, pace and threshold; or through one of them, which hears of the other
 * one's message of the first round from another process. Functions stand for what is bet on them, which
 * kernels/betting.c has, and with noise a contract for a report, which kernels/reports.c has. */
#include "runs/pv_network.h"

#include "run.h"

enum { NODES = 2 };

static double gradients[NODES * DIM], sent[NODES * DIM], mixes[NODES * DIM], models[NODES * DIM], sums[NODES * DIM];
static double spread[2 * NODES * NODES];
static const pv_report report = {PV_REPORT_PLAIN, DIM, 1.0, 0.0, 0.0, 0.0, 0, 0, 1};

#ifndef APART
#define APART 0 /* whether there is only one of the nodes here */
#endif

#if NOISY
/*@ requires \valid_read(v + (0 .. DIM - 1)) && \initialized(v + (0 .. DIM - 1)) && \valid(out + (0 .. DIM - 1));
  @ assigns out[0 .. DIM - 1], \result \from v[0 .. DIM - 1];
  @ ensures 0 <= \result <= 9; */
pv_status pv_report_draw(const pv_report *plan, pv_draws *draws, uint64_t row, const double *v, double *out);
#endif

double pv_magnitude(double x, double y, double a) { return any(); }
double pv_experts_magnitude(const pv_experts *experts, const pv_experts_plan *plan) { return any(); }
void pv_experts_learn(pv_experts *experts, const pv_experts_plan *plan, double gain, double square) {}

static void reports(pv_plan plan) {
    pv_local_plan own = {plan, report, 1.0, PV_GREEDY, PV_ROOT, any(), any(), any(), any(), any()};
    pv_local it = {state_of(DIM), first + WHOLE - DIM, second + WHOLE - DIM, third + WHOLE - DIM};
    double device[DIM];
    own.counted = Frama_C_interval(0, 1);
    own.wealth = any();
    own.cap = any();
    own.run.method = &pv_local_method;
    own.update = Frama_C_interval(0, PV_EXPERTS);
    own.pace = Frama_C_interval(0, PV_ADAPTIVE);
    Frama_C_make_unknown((char *)device, sizeof device);
    run(&it.run, &own.run, DIM);
    pv_local_tell(&it, &own, Frama_C_interval(0, 1) ? device : 0);
    pv_local_receive(&it, &own, device, pv_vectors_at(0));
}

static void network(pv_plan plan, int batch) {
    const int64_t indptr[NODES + 1] = {0, 2, 4}, columns[4] = {0, 1, 0, 1};
    const int own_nodes = APART ? 1 : NODES, here = batch == 1 ? 1 : own_nodes, left = NODES - own_nodes;
    const int alone = APART ? Frama_C_interval(0, 1) : 0;
    //@ split alone;
    const int64_t place[NODES] = {alone, 1 - alone}; /* the message of the node here is the first one */
    double weights[4], gradient[DIM];
    const double *heard[NODES];
    pv_network_plan own = {plan, report, any(), any(), any(), NODES, own_nodes, alone, batch, 0};
    pv_network it = {state_of(DIM),
                     gradients + (NODES - here) * DIM,
                     sent,
                     mixes + left * DIM,
                     models + left * DIM,
                     sums + left * DIM,
                     spread};
    Frama_C_make_unknown((char *)weights, sizeof weights);
    Frama_C_make_unknown((char *)gradient, sizeof gradient);
    Frama_C_make_unknown((char *)spread, sizeof spread);
    if (APART) Frama_C_make_unknown((char *)(sent + DIM), DIM * sizeof(double));
    own.run.method = &pv_network_method;
    own.rounds = APART ? 4 - batch : batch == 1 ? 2 : 1;
    own.run.last_row = own.rounds;
    own.position = Frama_C_interval(0, PV_AFTER);
    own.pace = Frama_C_interval(0, PV_INVERSE);
    own.length = any();
    own.implicit = Frama_C_interval(0, 1);
    own.threshold = Frama_C_interval(PV_DENSE, PV_OF_NOISE);
    own.l1 = any();
    own.mixing = (pv_mixing){1, 1, 1, indptr, columns, weights};
    own.place = APART ? place : 0;
    own.heard = heard;
    pv_network_start(&it, &own);
    it.exchanged = APART;
    pv_network_plan_release(&it, &own);
    run(&it.run, &own.run, DIM);
    pv_network_tell(&it, &own, Frama_C_interval(0, 1) ? gradient : 0);
}

int main(void) {
    const int other = Frama_C_interval(SHORT, 1), nodes = Frama_C_interval(SHORT, 1);
    //@ split other;
    //@ split nodes;
    if (nodes)
        network(plan_of(other), 1 + other);
    else
        reports(plan_of(other));
    return 0;
}
