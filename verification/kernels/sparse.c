/* What runs.c does, with sparse rows. */
#define SPARSE 1
#include "runs.c"
