/* A program of four threads that knows nothing of checkpoints: they sweep parts of a field, and
 * meet at a barrier after each step. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { threads = 4, cells = 1 << 18 };

static long steps;
static double *field, sums[threads];
static pthread_barrier_t together;

static void *sweep(void *arg) {
    long me = (long)arg, from = cells / threads * me;
    for (long it = 1; it <= steps; it++) {
        double sum = 0;
        for (long i = from; i < from + cells / threads; i++) {
            field[i] = field[i] * 0.999 + (double)((i * it) % 17);
            sum += field[i];
        }
        sums[me] = sum;
        pthread_barrier_wait(&together);
        if (me == 0) {
            double all = 0;
            for (int t = 0; t < threads; t++)
                all += sums[t];
            field[0] = all / cells;
            printf("%ld\n", it);
            fflush(stdout);
            struct timespec t = {0, 20 * 1000 * 1000};
            nanosleep(&t, 0);
        }
        pthread_barrier_wait(&together);
    }
    return 0;
}

int main(int argc, char **argv) {
    steps = argc > 1 ? atol(argv[1]) : 100;
    field = calloc(cells, sizeof *field);
    pthread_barrier_init(&together, 0, threads);
    pthread_t t[threads];
    for (long i = 0; i < threads; i++)
        pthread_create(&t[i], 0, sweep, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], 0);
    printf("sum %.17g\n", field[0]);
    return 0;
}
