/* What runs.c does, with noise. A contract stands for pv_wipe. */
#define NOISY 1
#include "runs.c"
