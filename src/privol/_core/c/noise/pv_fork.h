/* Forks of the process, counted in C, including those that the interpreter is not told of (a C library's own
 * fork()). */
#ifndef PV_FORK_H
#define PV_FORK_H

/* Begins to count; returns zero, or the system's error number. */
int pv_fork_watch(void);

/* The count of forks between the process that began to count and this one: 0 there, more in its children. */
const volatile unsigned long *pv_fork_count(void);

#endif
