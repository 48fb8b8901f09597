#include "noise/pv_fork.h"

static volatile unsigned long forks;

const volatile unsigned long *pv_fork_count(void) { return &forks; }

#if defined(_WIN32)
int pv_fork_watch(void) { return 0; } /* there is no fork */
#else
#include <pthread.h>

static void in_child(void) { ++forks; }

int pv_fork_watch(void) { return pthread_atfork(NULL, NULL, in_child); }
#endif
