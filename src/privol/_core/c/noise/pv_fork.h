/* Forks of the process, counted in C: also those that the interpreter is not told of (a C library's own fork()). */
#ifndef PV_FORK_H
#define PV_FORK_H

/* Begin to count; zero, or the system's error number. */
int pv_fork_watch(void);

/* Where the forks between the process that began to count and this one are counted: 0 there, more in its children. */
const volatile unsigned long *pv_fork_count(void);

#endif
