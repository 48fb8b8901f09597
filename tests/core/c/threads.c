/* A driver, whose main is renamed, in two threads at once: under the thread sanitizer the kernels may share nothing that
 * they write. Two are enough: the sanitizer reports accesses that nothing orders, whether or not they meet in time. */
#include <pthread.h>
#include <stddef.h>

#define THREADS 2

int driver_main(void);

static void *run(void *failed) {
    *(int *)failed = driver_main();
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int failed[THREADS], any = 0;
    for (int i = 0; i < THREADS; ++i)
        if (pthread_create(&threads[i], NULL, run, &failed[i])) return 2;
    for (int i = 0; i < THREADS; ++i) any |= pthread_join(threads[i], NULL) || failed[i];
    return any;
}
